"""Rows of the kernel matrix, kept while the memory allows."""

from __future__ import annotations

import numpy as np
import psutil

from maxmargin.kernels._rows import gather_block
from maxmargin.kernels.buffers import Returned, borrow
from maxmargin.kernels.feature_matrix import KernelMatrix
from maxmargin.parallel import run_blocks, split

# Share of the free memory that kernel values may take where the user named no limit.
_SHARE_OF_FREE_MEMORY = 0.3
# More than this is not taken even if it is free: a kernel value is computed about as fast as the
# operating system provides new memory for it (a9a: 4.5 s with all its rows kept, 2.4 s with this).
_ENOUGH_BYTES = 512 * 2**20
_ENOUGH_ROWS = 4096
# So much is taken without asking; beyond it new memory is for rows that were used this often.
_FREE_BYTES = 64 * 2**20
_USES_OF_A_ROW = 6
# Rows that are moved together when the cache is laid out anew.
_MOVED_ROWS = 256
# Name under which a kernel matrix keeps the memory that its caches have returned.
MEMORY = "memory of rows"


def cache_bytes(cache_size: float | str, n_samples: int) -> int:
    """The memory for kernel values in bytes; `cache_size` is in MB (2²⁰ bytes) or "auto"."""
    if cache_size != "auto":
        return int(float(cache_size) * 2**20)
    if 8 * n_samples**2 <= _FREE_BYTES:
        return _FREE_BYTES
    enough = max(_ENOUGH_BYTES, 4 * n_samples * _ENOUGH_ROWS)
    return min(enough, int(_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available))


class RowCache:
    """Kernel rows over all columns of a matrix, the least recently used dropped first.

    The memory is taken in one piece and never exceeds `n_bytes`; the operating
    system provides it page by page as rows are filled. While rows are hardly used
    again, a new one takes the place of an old one instead of new memory.

    Attributes
    ----------
    rows : array of shape (n_slots, n)
    slot_of : row of `rows` that holds a sample, −1 where none does
    last_used : time stamp of each slot, written by the solver
    """

    def __init__(self, kernel: KernelMatrix, n_bytes: int):
        row_bytes = kernel.n * kernel.dtype.itemsize
        if n_bytes < 2 * row_bytes:
            raise ValueError(
                f"cache_size is too small: two kernel rows of {kernel.n} samples take "
                f"{2 * row_bytes / 2**20:.3g} MB, the cache has {n_bytes / 2**20:.3g} MB."
            )
        n_values = min(n_bytes, kernel.n * row_bytes) // kernel.dtype.itemsize
        returned = kernel.shared.setdefault(MEMORY, Returned())
        self._memory = borrow(n_values * kernel.dtype.itemsize, self, returned).view(kernel.dtype)
        self._uses = 0
        self._lay_out(kernel, np.empty(0, np.int64))

    def _lay_out(self, kernel: KernelMatrix, owner: np.ndarray) -> None:
        """Divide the memory into rows of this matrix, the first of them holding `owner`."""
        self.kernel = kernel
        self.n_slots = min(kernel.n, self._memory.size // kernel.n)
        self.rows = self._memory[: self.n_slots * kernel.n].reshape(self.n_slots, kernel.n)
        self.slot_of = np.full(kernel.n, -1, np.int64)
        self.slot_of[owner] = np.arange(len(owner))
        self.owner = np.full(self.n_slots, -1, np.int64)
        self.owner[: len(owner)] = owner
        self.last_used = np.full(self.n_slots, -1, np.int64)
        self.last_used[: len(owner)] = 0
        self._filled = len(owner)

    def fetch(self, index: np.ndarray, clock: int) -> np.ndarray:
        """Make the rows `index`, at most `n_slots`, present and return their slots.

        They are stamped with `clock`, the number of this call.
        """
        present = self.slot_of[index] >= 0
        self.last_used[self.slot_of[index[present]]] = clock
        self._uses += len(index)
        missing = index[~present]
        if len(missing):
            slots = self._oldest_slots(len(missing), room=self._room(len(index)))
            dropped = self.owner[slots]
            self.slot_of[dropped[dropped >= 0]] = -1
            self.kernel.rows(missing, self.rows, slots)
            self.owner[slots], self.slot_of[missing] = missing, slots
            self.last_used[slots] = clock
        return self.slot_of[index]

    def restrict(self, kept: np.ndarray, kernel: KernelMatrix) -> None:
        """Keep the columns `kept` of the rows that they own; `kernel` is the smaller matrix.

        Shorter rows leave room for more of them in the same memory.
        """
        slots = self.slot_of[kept]
        held = np.flatnonzero(slots >= 0)
        held = held[np.argsort(slots[held])]
        sources, old_rows = slots[held], self.rows
        columns = kept.astype(np.uint32)
        for batch in split(len(held), _MOVED_ROWS):
            # A row never moves beyond its own place, so a batch overwrites nothing still to come.
            moved = np.empty((batch.stop - batch.start, kernel.n), kernel.dtype)

            def gather(part: slice, moved=moved, wanted=sources[batch]) -> None:
                targets = np.arange(part.start, part.stop)
                gather_block(old_rows, wanted[part], columns, moved, targets)

            run_blocks(gather, split(len(moved), _MOVED_ROWS // 8))
            self._memory[batch.start * kernel.n : batch.stop * kernel.n] = moved.reshape(-1)
        self._lay_out(kernel, held)

    def _room(self, needed: int) -> int:
        """Slots that may be in use after a call for `needed` rows."""
        freely = _FREE_BYTES // self.rows.itemsize // self.kernel.n
        return min(self.n_slots, max(freely, needed, self._uses // _USES_OF_A_ROW))

    def _oldest_slots(self, count: int, room: int) -> np.ndarray:
        """Slots for `count` rows: empty ones up to `room`, else those unused for longest."""
        in_use = self.last_used[: self._filled]
        empty = np.arange(self._filled, max(self._filled, min(self._filled + count, room)))
        self._filled += len(empty)
        missing = count - len(empty)
        if missing == 0:
            return empty
        if missing == 1:
            return np.append(np.argmin(in_use), empty)
        return np.append(np.sort(np.argpartition(in_use, missing - 1)[:missing]), empty)
