"""Checks before the work: that a command can use its data, and can write its results."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from maxmargin.cli import _deferred as deferred
from maxmargin.cli._measures import numbers
from maxmargin.io.data import Dataset, read_data
from maxmargin.io.files import DataError, format_suffix


def dataset_for(estimator, data: str, label: str | None) -> Dataset:
    """Read data that an estimator can learn: labels, targets, or for outliers neither."""
    from sklearn.base import is_outlier_detector, is_regressor

    outliers = is_outlier_detector(estimator)
    if label is None and not outliers and format_suffix(data) in (".csv", ".parquet"):
        raise DataError(f"{data}: --label must say which column to learn.")
    dataset = read_data(data, label=label, precomputed=estimator.kernel == "precomputed")
    if is_regressor(estimator):
        numbers(dataset.labels, dataset.name)
    elif not outliers and len(np.unique(dataset.labels)) < 2:
        raise DataError(f"{dataset.name}: all samples have the label {dataset.labels[0]}.")
    return dataset


def classes_of(estimator, dataset: Dataset) -> np.ndarray | None:
    """The classes that an estimator will learn; None for other estimators."""
    from sklearn.base import is_classifier

    return np.unique(dataset.labels) if is_classifier(estimator) else None


def check_folder(path: str) -> None:
    """Say before the work, not after it, that the folder to write to is missing."""
    if not Path(path).absolute().parent.is_dir():
        raise DataError(f"{path}: there is no such folder to write to.")


def check_model_file(path: str, classes: np.ndarray | None, estimator) -> None:
    """Say before the training, not after it, that the model could not be written."""
    check_folder(path)
    try:
        deferred.check_can_save(estimator, classes, path)
    except ValueError as error:
        hint = "" if format_suffix(path) == ".npz" else " Or give the model a name in .npz."
        raise DataError(f"{path}: {error}{hint}") from error
