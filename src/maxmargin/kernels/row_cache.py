"""Rows of the kernel matrix, kept while the memory allows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin import constants
from maxmargin.kernels._rows import gather_block, subtract_rows
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.parallel import n_threads, run_blocks, split

# Rows that are moved together when the cache is laid out anew.
_MOVED_ROWS = 256
# Rows that one task gathers values from.
_GATHERED_ROWS = 128
# Kernel values that one thread passes over in the time that it takes to wake another.
_VALUES_WORTH_WAKING = 200_000


class CacheArrays(NamedTuple):
    """The storage of a cache, for compiled loops that read rows one by one.

    Attributes
    ----------
    rows : array of shape (capacity, n)
    slot_of : row of `rows` that holds a sample, −1 where none does
    last_used : time stamp of each slot; a loop that uses a row writes the cache's `clock` there
    """

    rows: np.ndarray
    slot_of: np.ndarray
    last_used: np.ndarray


class RowCache:
    """Kernel rows over all columns of a matrix, the least recently used dropped first.

    The memory is taken in one piece and never exceeds `n_bytes`; the operating
    system provides it page by page as rows are filled. While rows are hardly used
    again, a new one takes the place of an old one instead of new memory.

    Attributes
    ----------
    kernel : the matrix of which rows are kept
    capacity : the most rows that fit
    clock : the time stamp of the last use; a compiled loop that lets it go on writes it back
    """

    def __init__(self, kernel: KernelMatrix, n_bytes: int):
        row_bytes = kernel.n * kernel.dtype.itemsize
        if n_bytes < 2 * row_bytes:
            raise ValueError(
                f"cache_size is too small: two kernel rows of {kernel.n} samples take "
                f"{2 * row_bytes / 2**20:.3g} MB, the cache has {n_bytes / 2**20:.3g} MB."
            )
        n_values = min(n_bytes, kernel.n * row_bytes) // kernel.dtype.itemsize
        memory = kernel.origin.row_buffers.acquire(n_values * kernel.dtype.itemsize, self)
        self._memory = memory.view(kernel.dtype)
        self._uses = self.clock = 0
        self._lay_out(kernel, np.empty(0, np.int64))

    def _lay_out(self, kernel: KernelMatrix, owner: np.ndarray) -> None:
        """Divide the memory into rows of this matrix, the first of them holding `owner`."""
        self.kernel = kernel
        self.capacity = min(kernel.n, self._memory.size // kernel.n)
        self._rows = self._memory[: self.capacity * kernel.n].reshape(self.capacity, kernel.n)
        self._slot_of = np.full(kernel.n, -1, np.int64)
        self._slot_of[owner] = np.arange(len(owner))
        self._owner = np.full(self.capacity, -1, np.int64)
        self._owner[: len(owner)] = owner
        self._last_used = np.full(self.capacity, -1, np.int64)
        self._last_used[: len(owner)] = 0
        self._filled = len(owner)

    def holds(self, index: np.ndarray | slice = slice(None)) -> np.ndarray:
        """Which of these samples, or of all, have their row in the cache."""
        return self._slot_of[index] >= 0

    def arrays(self) -> CacheArrays:
        """The storage itself, in host memory; valid until the next `restrict`."""
        return CacheArrays(self._rows, self._slot_of, self._last_used)

    def fetch(self, index: np.ndarray) -> np.ndarray:
        """Make the rows `index`, at most `capacity`, present and return their slots."""
        self.clock += 1
        present = self._slot_of[index] >= 0
        self._last_used[self._slot_of[index[present]]] = self.clock
        self._uses += len(index)
        missing = index[~present]
        if len(missing):
            slots = self._oldest_slots(len(missing), self._slots_in_use(len(index)))
            dropped = self._owner[slots]
            self._slot_of[dropped[dropped >= 0]] = -1
            self.kernel.block(missing, out=self._rows, slots=slots)
            self._owner[slots], self._slot_of[missing] = missing, slots
            self._last_used[slots] = self.clock
        return self._slot_of[index]

    def gather(
        self, index: np.ndarray, columns: np.ndarray, out: np.ndarray, targets: np.ndarray
    ) -> None:
        """out[targets[k]] = K[index[k], columns], from rows that are fetched if they must be."""
        slots, columns = self._slots(index), columns.astype(np.uint32)

        def gather_part(part: slice) -> None:
            gather_block(self._rows, slots[part], columns, out, targets[part])

        rows = max(_GATHERED_ROWS, _VALUES_WORTH_WAKING // max(1, len(columns)))
        run_blocks(gather_part, split(len(slots), rows))

    def whole(self) -> np.ndarray | None:
        """The whole matrix, if the cache has all its rows in their order."""
        if self.capacity < self.kernel.n:
            return None
        every = np.arange(self.kernel.n)
        return self._rows if np.array_equal(self.fetch(every), every) else None

    def subtract(self, residual: np.ndarray, index: np.ndarray, change: np.ndarray) -> None:
        """residual −= K[:, index] @ change, from rows that are fetched if they must be."""
        slots, n = self._slots(index), self.kernel.n

        def subtract_part(part: slice) -> None:
            subtract_rows(residual, self._rows, slots, change, part.start, part.stop)

        threads = n_threads() if len(index) * n > _VALUES_WORTH_WAKING else 1
        run_blocks(subtract_part, split(n, -(-n // threads)))

    def _slots(self, index: np.ndarray) -> np.ndarray:
        slots = self._slot_of[index]
        return slots if (slots >= 0).all() else self.fetch(index)

    def prefer(self, worth: np.ndarray) -> None:
        """Drop rows in the order of their samples' `worth` from now on, the least first."""
        value = np.where(self._owner >= 0, worth[self._owner], -np.inf)
        self._last_used[np.argsort(value, kind="stable")] = np.arange(len(value))
        self.clock = max(self.clock, len(value))

    def restrict(self, kept: np.ndarray, kernel: KernelMatrix) -> None:
        """Keep the columns `kept` of the rows that they own; `kernel` is the smaller matrix.

        Shorter rows leave space for more of them in the same memory.
        """
        slots = self._slot_of[kept]
        owner = np.flatnonzero(slots >= 0)
        owner = owner[np.argsort(slots[owner])]
        sources, old_rows = slots[owner], self._rows
        columns = kept.astype(np.uint32)
        for batch in split(len(owner), _MOVED_ROWS):
            # A row never moves beyond its own place, so a batch overwrites nothing still to come.
            moved = np.empty((batch.stop - batch.start, kernel.n), kernel.dtype)

            def gather(part: slice, moved=moved, wanted=sources[batch]) -> None:
                targets = np.arange(part.start, part.stop)
                gather_block(old_rows, wanted[part], columns, moved, targets)

            run_blocks(gather, split(len(moved), _MOVED_ROWS // 8))
            self._memory[batch.start * kernel.n : batch.stop * kernel.n] = moved.reshape(-1)
        self._lay_out(kernel, owner)

    def _slots_in_use(self, needed: int) -> int:
        """Slots that may be in use after a call for `needed` rows."""
        freely = constants.FREE_BYTES // self._rows.itemsize // self.kernel.n
        return min(self.capacity, max(freely, needed, self._uses // constants.USES_PER_ROW))

    def _oldest_slots(self, count: int, limit: int) -> np.ndarray:
        """Slots for `count` rows: empty ones up to `limit`, else those unused for longest."""
        in_use = self._last_used[: self._filled]
        empty = np.arange(self._filled, max(self._filled, min(self._filled + count, limit)))
        self._filled += len(empty)
        missing = count - len(empty)
        if missing == 0:
            return empty
        if missing == 1:
            return np.append(np.argmin(in_use), empty)
        return np.append(np.sort(np.argpartition(in_use, missing - 1)[:missing]), empty)
