"""Memory for kernel values, lent and taken back.

The operating system has to clear the memory that it gives, page by page, which takes
about as long as to compute kernel values for it. So what one problem returns the
next one uses: on the same data whatever its size, else only little.
"""

from __future__ import annotations

import mmap
import weakref

import numpy as np

# What the process keeps between two fits, at most.
_KEPT_BYTES = 8 * 2**20
_LARGE_BYTES = 2**20


class Returned(list):
    """Memory that was returned; it does not travel with what it is kept in.

    `for_many` says that many problems will use it, one after the other.
    """

    def __init__(self, for_many: bool = False):
        super().__init__()
        self.for_many = for_many

    def __reduce__(self):
        return Returned, (self.for_many,)


_kept = Returned()


def borrow(n_bytes: int, borrower, returned: Returned) -> np.ndarray:
    """Bytes for as long as `borrower` lives; they go back to `returned`, or stay with the process.

    Others may hold `returned` too: a list's `pop` and `append` cannot be interrupted.
    """
    if n_bytes <= _KEPT_BYTES:
        returned = _kept
    try:
        memory = returned.pop()
    except IndexError:
        memory = np.empty(0, np.uint8)
    if memory.size < n_bytes:
        del memory  # before more is taken
        memory = np.empty(n_bytes, np.uint8) if returned.for_many else _new(n_bytes)
    weakref.finalize(borrower, _take_back, returned, memory).atexit = False
    return memory[:n_bytes]


def _new(n_bytes: int) -> np.ndarray:
    """New memory in pages of the ordinary size.

    For a large array NumPy asks for huge pages, which have to be found in one piece and
    cleared whole while other threads wait; in a virtual machine they are what its host has to
    provide anew (covertype with 20,000 rows: 2.7 s with them, 2.4 s without). Where many
    problems use the memory they are worth it, since they are the faster ones to read.
    """
    if n_bytes < _LARGE_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(n_bytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    return np.frombuffer(mmap.mmap(-1, n_bytes, flags), np.uint8)


def _take_back(returned: Returned, memory: np.ndarray) -> None:
    if returned is not _kept or sum(part.size for part in returned) + memory.size <= _KEPT_BYTES:
        returned.append(memory)
