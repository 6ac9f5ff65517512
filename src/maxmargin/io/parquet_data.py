"""Parquet: a column per feature, one of which may be the label. Needs pyarrow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from maxmargin.io.csv_data import column_number
from maxmargin.io.files import DataError, brief, display_name, open_binary

# Values that are read at a time, and the bytes from which on all of them are kept in a file.
_VALUES_AT_ONCE = 2**20
_BYTES_IN_MEMORY = 64 * 2**20
_BUFFER_BYTES = 2**14


def read(path: str | os.PathLike, label: str | None):
    """Samples, labels and column names; `label` as for CSV.

    The table is read a part at a time. Samples that are many are an array that is mapped from a
    temporary file, which is gone with the array.
    """
    name = display_name(path)
    with open_binary(path) as file, _complaints(name):
        table = _open(file, name)
        names = table.schema_arrow.names
        at = None if label is None else column_number(label, names, name)
        features = [column for column in range(len(names)) if column != at]
        types = [table.schema_arrow.types[column] for column in features]
        X = _array((table.metadata.num_rows, len(features)), types)
        labels, start = [], 0
        for batch in table.iter_batches(max(1, _VALUES_AT_ONCE // max(1, len(names)))):
            for to, column in enumerate(features):
                place = f"{name}: column {names[column]!r}"
                X[start : start + len(batch), to] = _numbers(batch.column(column), place)
            _check_finite(X[start : start + len(batch)], start, [names[c] for c in features], name)
            labels.append(None if at is None else batch.column(at))
            start += len(batch)
        y = None if at is None else _labels(_joined(labels, table.schema_arrow.types[at]), name)
    return X, y, [names[column] for column in features]


def _open(file, name: str):
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"{name}: reading Parquet needs pyarrow; pip install 'maxmargin[parquet]'."
        ) from error
    return pyarrow.parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)


@contextmanager
def _complaints(name: str) -> Iterator[None]:
    try:
        yield
    except (DataError, OSError) as error:
        if isinstance(error, DataError) or error.errno is not None:
            raise
        raise DataError(_damaged(name, error)) from error
    except Exception as error:  # what a damaged file can raise has no end
        raise DataError(_damaged(name, error)) from error


def _damaged(name: str, error: Exception) -> str:
    return f"{name}: is not a Parquet file, or is damaged ({brief(error)})."


def _array(shape: tuple[int, int], types: list) -> np.ndarray:
    """An array for the samples: in memory in float64, or in a file where they are many.

    There, single precision is kept where all columns have it.
    """
    if 8 * shape[0] * shape[1] <= _BYTES_IN_MEMORY:
        return np.empty(shape)
    single = all(str(one) in ("float", "halffloat") for one in types)
    # The file has no name, so that it is removed however the process ends.
    with tempfile.TemporaryFile(prefix="maxmargin-") as file:
        return np.memmap(file, np.float32 if single else np.float64, "w+", shape=shape)


def _check_finite(X: np.ndarray, start: int, names: list[str], name: str) -> None:
    if np.isfinite(X).all():
        return
    column, row = np.argwhere(~np.isfinite(X.T))[0]
    raise DataError(
        f"{name}: row {start + row + 1}: column {names[column]!r} is missing or infinite."
    )


def _joined(parts: list, kind):
    import pyarrow

    return pyarrow.chunked_array(parts, type=kind)


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
