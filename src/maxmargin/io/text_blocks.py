"""Numbers of LIBSVM text, a block of whole lines at a time.

scikit-learn reads such files as well, but its reader imports most of that package, which takes
longer than many commands.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import IO, NamedTuple

import numpy as np
import scipy.sparse as sp

# Bytes that are read at a time.
_BLOCK_BYTES = 2**20
MAX_INDEX = 2**31 - 1  # of a feature: SciPy and scikit-learn count with 32 bits
_MAX_DIGITS = 18  # of an index: more could not be summed up in 64 bits
_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"^(\s*[^\s:]+[ \t]+)qid:\S+", re.MULTILINE)
_DIGIT, _OTHER, _SPACE, _COLON = range(4)  # what is below _SPACE belongs to a number
_KINDS = np.full(256, _OTHER, dtype=np.uint8)
_KINDS[np.frombuffer(b"0123456789", np.uint8)] = _DIGIT
_KINDS[np.frombuffer(b" \t\n\r\v\f", np.uint8)] = _SPACE
_KINDS[ord(":")] = _COLON


class _Block(NamedTuple):
    labels: np.ndarray
    counts: np.ndarray
    indices: np.ndarray
    values: np.ndarray


def read(file: IO[bytes], first_index: int) -> tuple[sp.csr_array, np.ndarray]:
    """Samples and labels; a ValueError if the text is not ``label index:value …``.

    Parameters
    ----------
    file : binary file
    first_index : number of the first feature, 0 or 1
    """
    blocks = [_block(text, first_index) for text in _texts(file)] or [_block(b"", first_index)]
    labels, counts, indices, values = (np.concatenate(parts) for parts in zip(*blocks))
    ends = np.concatenate([[0], np.cumsum(counts)])
    if len(values) <= MAX_INDEX:
        ends = ends.astype(np.int32)
    width = int(indices.max()) + 1 if len(indices) else 1
    return sp.csr_array((values, indices, ends), shape=(len(labels), width)), labels


def _texts(file: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, without comments and numbers of queries."""
    while text := file.read(_BLOCK_BYTES):
        text += file.readline()
        if b"#" in text:
            text = _COMMENT.sub(b"", text)
        yield _QUERY.sub(rb"\1", text) if b"qid:" in text else text


def _block(text: bytes, first_index: int) -> _Block:
    characters = np.frombuffer(text, np.uint8)
    begins_line, starts, colons = _structure(characters)
    indices = _whole_numbers(characters, starts, colons)
    if len(indices) and not (first_index <= indices.min() and indices.max() <= MAX_INDEX):
        raise ValueError("a feature that cannot be read")
    rows = np.flatnonzero(begins_line)
    bounds = np.append(rows, len(begins_line)) - np.arange(len(rows) + 1)  # of pairs
    bounds //= 2
    follows = np.ones(len(indices), dtype=bool)
    follows[bounds[:-1][bounds[:-1] < len(indices)]] = False
    if (follows[1:] & (np.diff(indices) <= 0)).any():
        raise ValueError("features that are not in ascending order")
    numbers = _numbers(_without(characters, starts, colons), len(rows) + len(indices))
    labels = bounds[:-1] + np.arange(len(rows))
    return _Block(
        numbers[labels], np.diff(bounds), (indices - first_index).astype(np.int32),
        np.delete(numbers, labels),
    )  # fmt: skip


def _structure(text: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which numbers begin a line, where the indices start, and where the colons after them are.

    Each line has to be a number, and then pairs of digits, a colon and a number without space
    between them.
    """
    kinds = _KINDS.take(text)
    before = np.empty_like(kinds)
    before[:1], before[1:] = _SPACE, kinds[:-1]
    starts = np.flatnonzero((kinds < _SPACE) & (before >= _SPACE))
    lines = np.searchsorted(np.flatnonzero(text == ord("\n")), starts)
    begins_line = np.diff(lines, prepend=-1) > 0
    is_value = before[starts] == _COLON
    is_index = np.append(is_value[1:], False)[: len(starts)]
    colons = np.flatnonzero(kinds == _COLON)
    others = np.searchsorted(starts, np.flatnonzero(kinds == _OTHER), "right") - 1
    sound = (
        len(colons) == is_value.sum()
        and (before[colons] < _SPACE).all()
        and (begins_line.astype(int) + is_value + is_index == 1).all()
        and not is_index[others].any()
    )
    if not sound:
        raise ValueError("lines that are not a label and pairs of index and value")
    return begins_line, starts[is_index], colons


def _whole_numbers(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The numbers whose digits stand from each start to its end."""
    n_digits = ends - starts
    most = int(n_digits.max(initial=0))
    if most > _MAX_DIGITS:
        raise ValueError("a feature that cannot be read")
    numbers = np.zeros(len(starts), dtype=np.int64)
    for place in range(most):
        more = n_digits > place
        digits = text[starts[more] + place] - np.uint8(ord("0"))
        numbers[more] = 10 * numbers[more] + digits
    return numbers


def _without(text: np.ndarray, starts: np.ndarray, colons: np.ndarray) -> bytes:
    """The text without the characters from each start to its colon."""
    step = np.zeros(len(text) + 1, dtype=np.int8)
    step[starts] = 1
    step[colons + 1] = -1
    return text[np.cumsum(step[:-1], dtype=np.int8) == 0].tobytes()


def _numbers(text: bytes, expected: int) -> np.ndarray:
    """All numbers of a text, which should have `expected` of them.

    NumPy warns where it stops before the end, and reads words such as 1-2 as two numbers.
    """
    if expected == 0:
        return np.empty(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            numbers = np.fromstring(text, sep=" ")
        except DeprecationWarning:
            numbers = np.empty(0)
    if len(numbers) != expected or b"\0" in text:
        raise ValueError("something that is not a number")
    return numbers
