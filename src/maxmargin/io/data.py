"""Data sets from files: the reader for a file name, and the result of all readers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from maxmargin.io import csv_data, libsvm_data, numpy_data, parquet_data
from maxmargin.io.files import (
    DataError,
    atomic_write,
    display_name,
    format_suffix,
    open_binary,
)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and, where the file has them, labels.

    Attributes
    ----------
    X : dense array or CSR array of shape (n_samples, n_features)
    y : labels, or None
    feature_names : names of the columns, or None
    name : what messages call the data
    fixed_width : whether the file says how many features there are; LIBSVM text only
        says which of them are not zero
    """

    X: np.ndarray | sp.csr_array
    y: np.ndarray | None
    feature_names: Sequence[str] | None
    name: str
    fixed_width: bool

    @property
    def labels(self) -> np.ndarray:
        """The labels; an error where there are none."""
        if self.y is None:
            raise DataError(f"{self.name}: there are no labels in it.")
        return self.y


def read_data(
    path: str | os.PathLike, *, label: str | None = None, precomputed: bool = False
) -> Dataset:
    """Read a data set.

    Parameters
    ----------
    path : file name
        ``.csv``, ``.parquet``, ``.npz`` or ``.npy``; everything else is LIBSVM text. It may
        be packed as ``.gz``, ``.bz2`` or ``.xz``; "-" is LIBSVM text from standard input.
    label : str or None
        The column of CSV or Parquet that holds the labels: its name, or its number
        counted from 1. None means that there are no labels.
    precomputed : bool
        Whether LIBSVM text holds kernel values, each line beginning with ``0:number``.

    Raises
    ------
    DataError
        One sentence that names the file and, where there is one, the line.
    """
    name, suffix = display_name(path), format_suffix(path)
    if label is not None and suffix not in (".csv", ".parquet"):
        raise DataError(f"{name}: --label is for CSV and Parquet; this file has its own labels.")
    if suffix in (".npz", ".npy"):
        X, y = numpy_data.read(path, suffix)
        if precomputed and sp.issparse(X):
            raise DataError(f"{name}: a precomputed kernel must be a table, not a sparse matrix.")
        return _checked(Dataset(X, y, None, name, True))
    if suffix == ".parquet":
        X, y, names = parquet_data.read(path, label)
        return _checked(Dataset(X, y, names, name, True))
    with open_binary(path) as file:
        if suffix == ".csv":
            X, y, names = csv_data.read(file, name, label)
            return _checked(Dataset(X, y, names, name, True))
        X, y = libsvm_data.read(file, name, precomputed=precomputed)
        return _checked(Dataset(X, y, None, name, precomputed))


def write_data(path: str | os.PathLike, dataset: Dataset) -> None:
    """Write a data set as ``.csv``, ``.npz`` or LIBSVM text, whole or not at all."""
    suffix = format_suffix(path)
    with atomic_write(path) as file:
        if suffix == ".csv":
            csv_data.write(file, dataset.X, dataset.y, dataset.feature_names)
        elif suffix == ".npz":
            numpy_data.write(file, dataset.X, dataset.y)
        else:
            libsvm_data.write(file, dataset.X, dataset.labels, dataset.name)


def _checked(dataset: Dataset) -> Dataset:
    if dataset.X.shape[0] == 0:
        raise DataError(f"{dataset.name}: there are no samples in it.")
    if dataset.X.shape[1] == 0:
        raise DataError(f"{dataset.name}: there are no features in it.")
    return dataset
