"""CSV: a sample per line, one column of which may be the label."""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
import scipy.sparse as sp

from maxmargin.io.files import DataError, brief
from maxmargin.io.schema import shown

# The most features of sparse samples that are written as CSV: each row has a value for each.
_MAX_COLUMNS = 10**6


def read(file: IO[bytes], name: str, label: str | None):
    """Samples, labels and column names of a CSV file.

    The first line is a header if it holds anything but numbers beside the label.
    NumPy's compiled reader does the work; only where it fails is the file read
    again to say which line is broken.

    Parameters
    ----------
    file : seekable binary file
    name : what messages call it
    label : name or number (from 1) of the column that holds the labels, or None
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        first, header, at = _layout(text, name, label)
        y_codes: dict[str, int] = {}

        def code(value: str) -> float:
            return y_codes.setdefault(_label_text(value), len(y_codes))

        try:
            with warnings.catch_warnings():  # about files without a line
                warnings.simplefilter("ignore")
                table = np.loadtxt(
                    text, delimiter=",", quotechar='"', comments=None, skiprows=first, ndmin=2,
                    converters={} if at is None else {at: code}, dtype=np.float64,
                )  # fmt: skip
        except (ValueError, OverflowError) as error:
            problem = _first_broken_line(text, name, first, header, at)
            raise DataError(problem or f"{name}: {brief(error)}.") from None
        if table.size == 0:
            raise DataError(f"{name}: there are no samples in it.")
        if not np.isfinite(table).all() or "" in y_codes or table.shape[1] != len(header):
            problem = _first_broken_line(text, name, first, header, at)
            raise DataError(problem or f"{name}: it holds missing or infinite values.")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: is not text in UTF-8 ({error.reason}).") from None
    finally:
        text.detach()
    names = header if first else None
    if at is None:
        return table, None, names
    y = _labels(list(y_codes), name)[table[:, at].astype(np.int64)]
    kept = [column for column in range(table.shape[1]) if column != at]
    return table[:, kept], y, None if names is None else [names[column] for column in kept]


def write(file: IO[bytes], X, y: np.ndarray | None, names: Sequence[str] | None) -> None:
    """Write samples as CSV with a header; the labels are the last column, "label"."""
    if X.shape[1] > _MAX_COLUMNS:
        raise DataError(
            f"CSV has a column per feature, and {X.shape[1]} are too many; write LIBSVM text "
            "or .npz instead."
        )
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, lineterminator="\n")
    names = list(names) if names is not None else [f"x{i}" for i in range(1, X.shape[1] + 1)]
    writer.writerow(names if y is None else [*names, "label"])
    for at in range(X.shape[0]):
        row = X[[at]].toarray()[0] if sp.issparse(X) else X[at]
        writer.writerow(row.tolist() if y is None else [*row.tolist(), y[at]])
    text.flush()
    text.detach()


def column_number(label: str, names: Sequence[str], file_name: str) -> int:
    """The column that --label means: a name first, else a number counted from 1."""
    if label in names:
        return list(names).index(label)
    if label.isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1
    known = ", ".join(name[:40] for name in names[:8]) + (", …" if len(names) > 8 else "")
    raise DataError(f"{file_name}: there is no column {shown(label)}; the columns are {known}.")


def _layout(text: io.TextIOWrapper, name: str, label: str | None):
    """(lines before the data, column names, column of the label)."""
    rows = _rows(text, name)
    lines, fields = next(((line, row) for line, row in rows if row), (0, []))
    text.seek(0)
    if not fields:
        raise DataError(f"{name}: there are no samples in it.")
    numbers = [_is_number(field) for field in fields]
    positions = [str(at) for at in range(1, len(fields) + 1)]
    if label is None:
        at = None
        has_header = not all(numbers)
    else:
        names = fields if label in fields else positions
        at = column_number(label, fields if not label.isdecimal() else names, name)
        has_header = label in fields and not all(numbers)
        has_header |= not all(number for i, number in enumerate(numbers) if i != at)
    return (lines, fields, at) if has_header else (0, positions, at)


def _first_broken_line(text, name: str, first: int, header: list[str], at) -> str | None:
    text.seek(0)
    for line, row in _rows(text, name):
        if line <= first or not row:
            continue
        if len(row) != len(header):
            return f"{name}, line {line}: {len(row)} columns, where there should be {len(header)}."
        for column, value in enumerate(row):
            if column == at:
                if not value.strip():
                    return f"{name}, line {line}: the label is missing."
            elif not _is_number(value) or not math.isfinite(float(value)):
                what = "nothing" if not value.strip() else shown(value)
                return (
                    f"{name}, line {line}: column {shown(header[column])} must hold finite "
                    f"numbers, found {what}."
                )
    return None


def _rows(text: io.TextIOWrapper, name: str) -> Iterator[tuple[int, list[str]]]:
    """(number of the line at its end, fields) for each row."""
    reader = csv.reader(text)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:  # such as a field of more than 131,072 characters
        raise DataError(f"{name}, line {reader.line_num}: {error}.") from None


def _labels(texts: list[str], name: str) -> np.ndarray:
    """Labels as integers or numbers where all of them are; numbers beyond int64 are text."""
    for kind in (int, float):
        try:
            values = [kind(text) for text in texts]
        except ValueError:
            continue
        if kind is float and not np.isfinite(values).all():
            bad = texts[int(np.argmin(np.isfinite(values)))]
            raise DataError(f"{name}: a label is {shown(bad)}, where the others are numbers.")
        if kind is float or all(abs(value) < 2**63 for value in values):
            return np.array(values)
        break
    if any("\0" in text for text in texts):  # which NumPy would drop at the end of a text
        raise DataError(f"{name}: a label holds a zero character.")
    return np.array(texts)


def _label_text(value) -> str:
    return (value.decode() if isinstance(value, bytes) else value).strip()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
