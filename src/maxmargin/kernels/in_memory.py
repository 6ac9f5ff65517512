"""Kernel matrices of small problems, with all their values in memory in float64."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels._rows import gather_block
from maxmargin.kernels.buffers import BufferPool
from maxmargin.kernels.interface import KernelMatrix, put

# Memory of this size is not worth a lease.
_SMALL_BYTES = 2**17
VALUE_BYTES = 8


class BufferLease:
    """Keeps leased memory for as long as one of its readers lives."""

    def values(self, n_values: int) -> np.ndarray:
        """Memory for so many values, until the lease is gone."""
        n_bytes = n_values * VALUE_BYTES
        if n_bytes <= _SMALL_BYTES:
            return np.empty(n_values)
        return BufferPool().acquire(n_bytes, self).view(np.float64)


class InMemoryKernel(KernelMatrix):
    """All values of n samples, written by its maker; a subset has a copy of its part of them."""

    dtype = np.dtype(np.float64)

    def __init__(self, n: int, positions: np.ndarray, parent: KernelMatrix | None = None):
        super().__init__(parent)
        self.n, self._positions = n, positions
        self._lease = BufferLease()
        self._K = self._lease.values(n * n).reshape(n, n)

    def as_array(self):
        return self._K

    def positions(self):
        return self._positions

    def diagonal(self):
        return self._K.diagonal()

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        if columns is None:
            return put(self._K[rows], out, slots)
        if out is None:
            return self._K[rows].take(columns, axis=1)
        slots = np.arange(len(rows)) if slots is None else slots
        gather_block(self._K, rows, columns.astype(np.uint32), out, slots)
        return out

    def multiply(self, index, coefficients, rows=None, precise=False):
        if rows is None:
            return coefficients @ self._K[index]
        return self._K[rows][:, index] @ coefficients

    def few_features(self):
        return None if self.copied_from is None else self.copied_from.few_features()

    def restrict(self, index, dtype=None):
        part = InMemoryKernel(len(index), self._positions[index], self)
        self.block(index, index, out=part._K)
        return part


def in_memory(kernel: KernelMatrix) -> KernelMatrix:
    """The same matrix with all its values in memory: itself if they are, else in float64."""
    if kernel.as_array() is not None:
        return kernel
    copied = InMemoryKernel(kernel.n, kernel.positions(), kernel)
    kernel.block(np.arange(kernel.n), dtype=np.float64, out=copied._K)
    copied.copied_from = kernel
    return copied
