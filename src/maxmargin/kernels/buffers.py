"""Memory that is used again.

The operating system has to clear new memory page by page, which takes about as long as
computing kernel values to fill it. So memory that is needed repeatedly is not allocated anew:
a `Scratch` is overwritten by the next use, a `BufferPool` leases memory for the lifetime of an
owner.
"""

from __future__ import annotations

import math
import mmap
import threading
import weakref
from contextlib import suppress

import numpy as np

# The width of a vector register, and of a line of the processor's cache.
_LINE_BYTES = 64
# What the process keeps between two fits, at most: where the operating system may have it back, as
# much as most fits take. (benchmarks/everyday.py, benchmarks/classes.py)
_KEPT_BYTES = (512 if hasattr(mmap, "MADV_FREE") else 64) * 2**20
_LARGE_BYTES = 2**20
# Memory up to this size is not offered to the operating system between two fits: to mark its
# pages and to touch them again takes longer than a small problem.
_UNMARKED_BYTES = 8 * 2**20
# A piece may be larger than twice what is asked for by this much: larger ones are spared.
_SPARED_BYTES = 16 * 2**20
_thread = threading.local()


class Scratch:
    """Memory for one array at a time; the next `array` overwrites it.

    It begins with zeros, and is still zero wherever its users leave it so.
    """

    def __init__(self, smallest: int = 0):
        self._smallest, self._memory = smallest, np.empty(0, np.uint8)

    def array(self, shape: tuple[int, ...], dtype) -> np.ndarray:
        dtype = np.dtype(dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        if n_bytes > self._memory.size:
            self._memory = _aligned_zeros(max(n_bytes, self._smallest))
        return self._memory[:n_bytes].view(dtype).reshape(shape)


def thread_scratch(name: str, smallest: int = 0) -> Scratch:
    """The calling thread's `Scratch` of this name."""
    scratches = _thread.__dict__
    if name not in scratches:
        scratches[name] = Scratch(smallest)
    return scratches[name]


def _aligned_zeros(n_bytes: int) -> np.ndarray:
    """Zeros that begin with a line of the cache: vectors across two lines take twice the time."""
    memory = np.zeros(n_bytes + _LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % _LINE_BYTES
    return memory[start : start + n_bytes]


class BufferPool:
    """Memory of owners that are gone, for the next owner; it is not pickled with its holder.

    `for_many` says that many problems will use it, one after the other.
    """

    def __init__(self, for_many: bool = False):
        self.for_many = for_many
        self._free: dict[int, np.ndarray] = {}

    def __reduce__(self):
        return BufferPool, (self.for_many,)

    @property
    def n_bytes(self) -> int:
        """Bytes that wait for an owner."""
        return sum(part.size for part in list(self._free.values()))

    def acquire(self, n_bytes: int, owner) -> np.ndarray:
        """Bytes for the lifetime of `owner`; memory that is not very large stays with the process.

        Threads may share a pool: single operations on a dictionary cannot be interrupted.
        """
        pool = self if n_bytes > _KEPT_BYTES else _of_process
        memory = pool._take(n_bytes)
        if memory is None:
            memory = _new(n_bytes, self.for_many)
        weakref.finalize(owner, pool._take_back, memory).atexit = False
        return memory[:n_bytes]

    def _take(self, n_bytes: int) -> np.ndarray | None:
        """The smallest free piece that suffices and is not far too large.

        If there is none, the largest smaller piece is released.
        """
        by_size = sorted((part.size, key) for key, part in list(self._free.items()))
        too_small = None
        for size, key in by_size:
            if n_bytes <= size <= 2 * n_bytes + _SPARED_BYTES:
                return self._free.pop(key, None)
            too_small = key if size < n_bytes else too_small
        if too_small is not None:
            self._free.pop(too_small, None)
        return None

    def _take_back(self, memory: np.ndarray) -> None:
        if self is _of_process:
            _lend_to_system(memory)
            for key in list(self._free):  # the longest unused first
                if self.n_bytes + memory.size <= _KEPT_BYTES:
                    break
                self._free.pop(key, None)
        self._free[id(memory)] = memory


_of_process = BufferPool()


def _new(n_bytes: int, for_many: bool = False) -> np.ndarray:
    """New memory in pages of the ordinary size, unless many problems will use it.

    Huge pages have to be found in one piece and cleared whole while other threads wait; in a
    virtual machine its host has to provide them anew (covertype with 20,000 rows: 2.7 s with huge
    pages, 2.4 s without). Where many problems use the memory, they are worth it, since they are
    faster to read.
    """
    if n_bytes < _LARGE_BYTES or not hasattr(mmap, "MAP_PRIVATE"):
        return np.empty(n_bytes, np.uint8)
    pages = mmap.mmap(-1, n_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if for_many and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a system without huge pages
            pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, np.uint8)


def _lend_to_system(memory: np.ndarray) -> None:
    """Let the operating system take these unused pages when it needs memory."""
    pages = getattr(memory.base, "obj", None)
    if memory.size <= _UNMARKED_BYTES:
        return
    if isinstance(pages, mmap.mmap) and hasattr(mmap, "MADV_FREE"):
        with suppress(OSError):
            pages.madvise(mmap.MADV_FREE)
