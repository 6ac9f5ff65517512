"""LIBSVM's text format: a sample per line, ``label index:value index:value …``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO

import numpy as np
import scipy.sparse as sp

from maxmargin.io import text_blocks
from maxmargin.io.files import DataError, brief
from maxmargin.io.schema import shown

_MAX_DIGITS = 20  # of an index; Python refuses to read numbers of thousands of them


def read(file: IO[bytes], name: str, *, precomputed: bool = False):
    """Samples and labels of a LIBSVM text file.

    Only if that fails is the file read again, line by line, to say which line is broken.

    Parameters
    ----------
    file : seekable binary file
    name : what messages call it
    precomputed : whether lines are ``label 0:number 1:K(x, x₁) 2:K(x, x₂) …``
    """
    try:
        X, y = parse(file, zero_based=bool(precomputed))
    except (ValueError, OverflowError) as error:
        problem = _first_broken_line(file, name, precomputed)
        raise DataError(problem or f"{name}: {brief(error)}.") from None
    if not (np.isfinite(y).all() and np.isfinite(X.data).all()):
        raise DataError(_first_broken_line(file, name, precomputed) or f"{name}: infinite values.")
    if precomputed:
        return _kernel_values(X, name), tidy_labels(y)
    return X, tidy_labels(y)


def parse(file: IO[bytes], *, zero_based: bool) -> tuple[sp.csr_array, np.ndarray]:
    """Samples and labels; a ValueError without a line number if the text is broken."""
    return text_blocks.read(file, 0 if zero_based else 1)


def write(file: IO[bytes], X, y: np.ndarray, name: str) -> None:
    """Write samples as LIBSVM text that is read back to the last bit."""
    if y.dtype.kind not in "biuf":
        raise DataError(f"{name}: LIBSVM text holds numbers as labels, not {y[0]!r}.")
    labels = tidy_labels(y) if y.dtype.kind == "f" else y.astype(int) if y.dtype.kind == "b" else y
    for label, pairs in zip(labels.tolist(), rows_as_text(X), strict=True):
        file.write(f"{label!r} {pairs}\n".encode())


def rows_as_text(X) -> Iterator[str]:
    """``index:value`` of all values of each row that are not zero."""
    for at in range(X.shape[0]):
        if sp.issparse(X):
            row = slice(X.indptr[at], X.indptr[at + 1])
            index, values = X.indices[row], X.data[row]
        else:
            index = np.flatnonzero(X[at])
            values = X[at, index]
        values = values if values.dtype.kind != "b" else values.astype(int)
        pairs = zip((index + 1).tolist(), values.tolist(), strict=True)
        yield " ".join(f"{i}:{value!r}" for i, value in pairs if value)


def tidy_labels(y: np.ndarray) -> np.ndarray:
    """Whole numbers as integers, so that they are printed as they were written."""
    if not (np.abs(y) < 2**53).all():
        return y
    whole = y.astype(np.int64)
    return whole if np.array_equal(whole, y) else y


def _kernel_values(X: sp.csr_array, name: str) -> np.ndarray:
    """Kernel values as a table; as in LIBSVM, zeros must be written as well."""
    n_rows, width = X.shape
    whole = X.nnz == n_rows * width
    if width < 2 or not whole or (X.data[::width] < 1).any():
        raise DataError(
            f"{name}: a precomputed kernel needs lines such as `1 0:7 1:0.5 2:1 …`, where "
            "0:7 says which sample it is, and all values are there, zeros too."
        )
    return X.data.reshape(n_rows, width)[:, 1:]


def _first_broken_line(file: IO[bytes], name: str, precomputed: bool) -> str | None:
    file.seek(0)
    for number, line in enumerate(file, start=1):
        problem = problem_of(line.partition(b"#")[0].split(), 0 if precomputed else 1)
        if problem:
            return f"{name}, line {number}: {problem}"
    return None


def problem_of(fields: list[bytes], first_index: int, *, queries: bool = True) -> str | None:
    """What is wrong with a line, as a sentence; None where nothing is.

    `queries` says whether the features may follow a number of a query, as in SVMlight.
    """
    if not fields:
        return None
    label, *pairs = (field.decode(errors="replace") for field in fields)
    if not _is_finite_number(label):
        return f"the label must be a number, not {shown(label)}."
    last = first_index - 1
    if queries and pairs and pairs[0].startswith("qid:"):
        pairs = pairs[1:]
    for pair in pairs:
        index, colon, value = pair.partition(":")
        if not colon or not (index.isascii() and index.isdecimal()):
            return f"expected index:value, found {shown(pair)}."
        if len(index) > _MAX_DIGITS or int(index) > text_blocks.MAX_INDEX:
            text = index if len(index) <= _MAX_DIGITS else f"{index[:_MAX_DIGITS]}…"
            return (
                f"feature {text} is beyond the largest that can be read, {text_blocks.MAX_INDEX}."
            )
        if not _is_finite_number(value):
            return f"the value of feature {index} must be a finite number, not {shown(value)}."
        if int(index) < first_index:
            return f"features are counted from {first_index}, found {shown(pair)}."
        if int(index) <= last:
            return f"feature {index} comes after feature {last}; they must be in ascending order."
        last = int(index)
    return None


def _is_finite_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
