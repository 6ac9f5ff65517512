"""Data sets from files: which reader a name asks for, and what all readers return."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from maxmargin.io import csv_data, libsvm_data
from maxmargin.io.files import (
    DataError,
    atomic_write,
    display_name,
    format_suffix,
    open_binary,
)

_SPARSE_PARTS = ("data", "indices", "indptr", "shape")  # as scipy.sparse.save_npz names them


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
        """The labels; a sentence where there are none."""
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
        ``.csv``, ``.parquet`` or ``.npz``; everything else is LIBSVM text. Text may be
        packed as ``.gz``, ``.bz2`` or ``.xz``; "-" is LIBSVM text from standard input.
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
    if suffix == ".npz":
        return _read_npz(path, name)
    if suffix == ".parquet":
        X, y, names = _read_parquet(path, name, label)
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
            labels = {} if dataset.y is None else {"y": dataset.y}
            X = dataset.X
            if sp.issparse(X):
                parts = {name: np.asarray(getattr(X, name)) for name in _SPARSE_PARTS}
            else:
                parts = {"X": X}
            np.savez(file, **(parts | labels))  # type: ignore[arg-type]
        else:
            libsvm_data.write(file, dataset.X, dataset.labels, dataset.name)


def _checked(dataset: Dataset) -> Dataset:
    if dataset.X.shape[0] == 0:
        raise DataError(f"{dataset.name}: there are no samples in it.")
    if dataset.X.shape[1] == 0:
        raise DataError(f"{dataset.name}: there are no features in it.")
    return dataset


def _read_npz(path, name: str) -> Dataset:
    """Arrays X and y; or a matrix of scipy.sparse.save_npz, with y beside it."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if "X" in file:
                X = np.asarray(file["X"])
            elif all(part in file for part in _SPARSE_PARTS):
                parts = (file["data"], file["indices"], file["indptr"])
                X = sp.csr_array(parts, shape=tuple(file["shape"]))
            else:
                raise DataError(f"{name}: has no array X, only {', '.join(file.files) or 'none'}.")
            y = file.get("y")
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or 'is not an .npz file'}.") from error
    except (zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{name}: is not an .npz file, or is cut short.") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{name}: {error}") from error
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise DataError(f"{name}: X must be a table of numbers, not {X.dtype} of shape {X.shape}.")
    if y is not None and y.shape != (X.shape[0],):
        raise DataError(f"{name}: X has {X.shape[0]} rows, but y has shape {y.shape}.")
    values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        raise DataError(f"{name}: X holds values that are missing or infinite.")
    return _checked(Dataset(X, y, None, name, True))


def _read_parquet(path, name: str, label: str | None):
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"{name}: reading Parquet needs pyarrow; pip install 'maxmargin[parquet]'."
        ) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or error}.") from error
    except pyarrow.ArrowInvalid as error:
        raise DataError(f"{name}: is not a Parquet file ({error}).") from error
    names = table.column_names
    at = None if label is None else csv_data.column_number(label, names, name)
    y = None if at is None else table.column(at).to_numpy(zero_copy_only=False)
    if y is not None and table.column(at).null_count:
        raise DataError(f"{name}: the label is missing in {table.column(at).null_count} rows.")
    X = np.empty((table.num_rows, len(names) - (at is not None)))
    features = [column for column in range(len(names)) if column != at]
    for to, column in enumerate(features):
        try:
            X[:, to] = table.column(column).to_numpy(zero_copy_only=False)
        except (TypeError, ValueError) as error:
            raise DataError(f"{name}: column {names[column]!r} holds more than numbers.") from error
        bad = np.flatnonzero(~np.isfinite(X[:, to]))
        if len(bad):
            raise DataError(
                f"{name}: row {bad[0] + 1}: column {names[column]!r} is missing or infinite."
            )
    if y is not None and y.dtype == object:
        y = y.astype(str)
    return X, y, [names[column] for column in features]
