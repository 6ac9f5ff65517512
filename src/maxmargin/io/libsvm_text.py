"""LIBSVM text of a few megabytes, if it is as regular as programs write it.

What is not (remarks, query numbers, anything broken), and large files, are left to
scikit-learn's reader, whose import takes longer than to read a small file.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp

_MAX_INDEX = 2**31 - 1
_COLON, _NEWLINE = ord(":"), ord("\n")
# Of bytes: ends of words, and what words of regular text consist of.
_IS_SPACE = np.zeros(256, bool)
_IS_SPACE[list(b" \t\r\n")] = True
_IS_DIGIT = np.zeros(256, bool)
_IS_DIGIT[list(b"0123456789")] = True
_IS_WORD = np.zeros(256, bool)
_IS_WORD[list(b"0123456789+-.eEnaifNAIF")] = True


def read_regular(text: bytes, first_index: int) -> tuple[sp.csr_array, np.ndarray] | None:
    """Samples, with one column per index from 0 on, and labels; None unless all is regular.

    `first_index` is the lowest index that may occur.
    """
    lengths = _words_of_lines(np.frombuffer(text, np.uint8))
    if lengths is None or not len(lengths):
        return None
    numbers = _numbers(text.replace(b":", b" "))
    if len(numbers) != lengths.sum() or not np.isfinite(numbers).all():
        return None
    firsts = np.cumsum(lengths) - lengths
    place = np.arange(len(numbers)) - np.repeat(firsts, lengths)
    index, values = numbers[place % 2 == 1], numbers[(place % 2 == 0) & (place > 0)]
    if len(index) and not (first_index <= index.min() and index.max() <= _MAX_INDEX):
        return None
    indptr = np.append(0, np.cumsum(lengths // 2))
    rises = np.append(True, index[1:] > index[:-1])
    rises[indptr[:-1][lengths > 1]] = True  # where a line begins
    if not rises.all():
        return None
    shape = (len(lengths), int(index.max(initial=-1)) + 1)
    return sp.csr_array((values, index.astype(np.int64), indptr), shape=shape), numbers[firsts]


def _words_of_lines(codes: np.ndarray) -> np.ndarray | None:
    """How many words each line has that is not empty; None unless it is a label and pairs."""
    colon = codes == _COLON
    between = colon | _IS_SPACE[codes]
    if not (between | _IS_WORD[codes]).all():
        return None
    begins = ~between
    begins[1:] &= between[:-1]
    at = np.flatnonzero(begins)
    line = np.concatenate([[0], np.cumsum(codes == _NEWLINE)])[at]
    firsts = np.flatnonzero(np.append(True, line[1:] != line[:-1])) if len(at) else at
    lengths = np.diff(np.append(firsts, len(at)))
    # Even words but the first follow a colon, odd words a space and are of digits alone.
    place = np.arange(len(at)) - np.repeat(firsts, lengths)
    after_colon = np.append(False, colon[:-1])[at]
    if (lengths % 2 == 0).any() or (after_colon != ((place > 0) & (place % 2 == 0))).any():
        return None
    is_index = np.append(place % 2 == 1, False)[np.cumsum(begins) - 1]
    if (is_index & ~between & ~_IS_DIGIT[codes]).any():
        return None
    # Each colon ends one word and begins another.
    lonely = (colon[1:] & between[:-1]).any() or np.count_nonzero(colon) != after_colon.sum()
    return None if lonely else lengths


def _numbers(text: bytes) -> np.ndarray:
    """All numbers of a text; none at all if one of its words is not a number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what older NumPy says of such a word
            return np.fromstring(text, sep=" ")
    except (ValueError, DeprecationWarning):
        return np.empty(0)
