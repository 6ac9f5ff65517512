"""Parquet: a column per feature, one of which may be the label. Needs pyarrow."""

from __future__ import annotations

import os

import numpy as np

from maxmargin.io.csv_data import column_number
from maxmargin.io.files import DataError, brief, display_name, open_binary


def read(path: str | os.PathLike, label: str | None):
    """Samples, labels and column names; `label` as for CSV."""
    name = display_name(path)
    table = _table(path, name)
    names = table.column_names
    at = None if label is None else column_number(label, names, name)
    features = [column for column in range(len(names)) if column != at]
    X = np.empty((table.num_rows, len(features)))
    for to, column in enumerate(features):
        X[:, to] = _numbers(table.column(column), f"{name}: column {names[column]!r}")
        bad = np.flatnonzero(~np.isfinite(X[:, to]))
        if len(bad):
            raise DataError(
                f"{name}: row {bad[0] + 1}: column {names[column]!r} is missing or infinite."
            )
    y = None if at is None else _labels(table.column(at), name)
    return X, y, [names[column] for column in features]


def _table(path, name: str):
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"{name}: reading Parquet needs pyarrow; pip install 'maxmargin[parquet]'."
        ) from error
    with open_binary(path) as file:
        try:
            return pyarrow.parquet.ParquetFile(file).read()
        except Exception as error:  # what a damaged file can raise has no end
            text = f"is not a Parquet file, or is damaged ({brief(error)})"
            raise DataError(f"{name}: {text}.") from error


def _numbers(column, name: str) -> np.ndarray:
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if not (is_number or types.is_decimal(kind)):
        raise DataError(f"{name} holds more than numbers ({column.type}).")
    try:
        with np.errstate(all="ignore"):
            values = column.to_numpy(zero_copy_only=False)
            missing = (
                np.array([value is None for value in values]) if values.dtype == object else ()
            )
            return np.where(missing, np.nan, values).astype(float) if len(missing) else values
    except Exception as error:
        raise DataError(f"{name} cannot be read ({brief(error)}).") from error


def _labels(column, name: str) -> np.ndarray:
    """Labels as numbers or text."""
    from pyarrow import types

    if column.null_count:
        raise DataError(f"{name}: the label is missing in {column.null_count} rows.")
    if types.is_nested(column.type) or types.is_binary(column.type):
        raise DataError(f"{name}: labels must be numbers or text, not {column.type}.")
    try:
        y = column.to_numpy(zero_copy_only=False)
    except Exception as error:
        raise DataError(f"{name}: the labels cannot be read.") from error
    y = y if y.dtype.kind in "biufU" else y.astype(str)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError(f"{name}: a label is not a number, or infinite.")
    return y
