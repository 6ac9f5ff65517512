"""``maxmargin train --folds``: cross-validation, without a model file."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import typer

from maxmargin.cli import _deferred as deferred
from maxmargin.cli._measures import measures, sentences
from maxmargin.cli._output import emit, print_json
from maxmargin.io.data import Dataset
from maxmargin.io.files import DataError


def cross_validate(
    estimator, dataset: Dataset, folds: int, seed: int, json: bool, quiet: bool
) -> None:
    """Fit and predict fold by fold, print the measures, and end the command."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    safe_split = deferred.safe_split
    X, y = dataset.X, dataset.y
    splits, stratify = folds_of(estimator, dataset, folds, seed)
    predicted: Any = None
    with (
        warnings.catch_warnings(record=True) as caught,
        deferred.counting("folds", json or quiet) as report,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        for number, (fit_on, test_on) in enumerate(splits.split(X, stratify), start=1):
            model = clone(estimator).fit(*safe_split(estimator, X, y, fit_on))
            found = model.predict(safe_split(estimator, X, y, test_on, fit_on)[0])
            predicted = np.empty(X.shape[0], found.dtype) if predicted is None else predicted
            predicted[test_on] = found
            report(number, folds)
    result = measures(estimator, predicted, y)
    converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
    if json:
        print_json({"folds": folds, **result, "converged": converged})
    else:
        for sentence in sentences(result, X.shape[0], "Cross Validation"):  # as svm-train says it
            emit(sentence)
        if not converged:
            emit("not all folds converged")
    raise typer.Exit(int(not converged))


def folds_of(estimator, dataset: Dataset, folds: int, seed: int) -> tuple:
    """The splitter of the data, and the labels to stratify by, or None."""
    from sklearn.base import is_classifier
    from sklearn.model_selection import KFold, StratifiedKFold

    if not is_classifier(estimator):
        if dataset.X.shape[0] < folds:
            raise DataError(f"{dataset.name}: --folds {folds}, but there are fewer samples.")
        return KFold(folds, shuffle=True, random_state=seed), None
    fewest = np.unique(dataset.labels, return_counts=True)[1].min()
    if fewest < folds:
        raise DataError(f"{dataset.name}: --folds {folds}, but a class has {fewest} samples.")
    return StratifiedKFold(folds, shuffle=True, random_state=seed), dataset.labels
