"""Kernel matrices whose values come from the user: precomputed, or from a function."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from maxmargin import constants
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.parallel import split
from maxmargin.sklearn_private import num_samples, safe_indexing
from maxmargin.sparse_format import densified


class _UserKernelMatrix(KernelMatrix):
    """Rows and columns `index` of a matrix of which blocks can be had, by `_values`."""

    index: np.ndarray

    def positions(self):
        return self.index

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        dtype = self.dtype if dtype is None else dtype
        if out is None:
            out = np.empty((len(rows), self.n if columns is None else len(columns)), dtype)
        for part in split(len(rows), constants.TILE_ROWS):
            values = self._values(rows[part], columns)
            out[part if slots is None else slots[part], : values.shape[1]] = values
        return out

    def multiply(self, index, coefficients, rows=None, precise=False):
        result = np.zeros(self.n if rows is None else len(rows))
        for part in split(len(index), constants.TILE_ROWS):
            result += coefficients[part] @ self._values(index[part], rows)
        return result

    @abstractmethod
    def _values(self, rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
        """A block of the matrix; all its columns where `columns` is None."""


class PrecomputedKernelMatrix(_UserKernelMatrix):
    """Rows and columns `index` of a matrix that the user computed; never copied whole."""

    def __init__(self, K: np.ndarray, parent=None, index=None):
        super().__init__(parent)
        self.K = K
        self._whole = index is None
        self.index = np.arange(len(K)) if index is None else index
        self.n = len(self.index)
        self.dtype = np.dtype(np.float32 if K.dtype == np.float32 else np.float64)

    def as_array(self):
        ready = self._whole and self.K.flags.c_contiguous and self.K.dtype == self.dtype
        return self.K if ready else None

    def diagonal(self):
        return self.K[self.index, self.index].astype(np.float64)

    def restrict(self, index, dtype=None):
        return PrecomputedKernelMatrix(self.K, self, self.index[index])

    def _values(self, rows, columns):
        if columns is None and self._whole:
            return self.K[rows]
        columns = self.index if columns is None else self.index[columns]
        return self.K[self.index[rows][:, np.newaxis], columns]


class CallableKernelMatrix(_UserKernelMatrix):
    """Kernel matrix of a user's function k(A, B), called on blocks of rows."""

    def __init__(self, X, function, parent=None, index=None):
        super().__init__(parent)
        self.X, self.function = X, function
        self.index = np.arange(num_samples(X)) if index is None else index
        self.n = len(self.index)
        self.dtype = np.dtype(np.float64)
        self._samples = safe_indexing(X, self.index)

    def diagonal(self):
        parts = split(self.n, constants.TILE_ROWS)
        return np.concatenate(
            [np.diagonal(self._values(np.arange(p.start, p.stop), None), p.start) for p in parts]
        )

    def restrict(self, index, dtype=None):
        return CallableKernelMatrix(self.X, self.function, self, self.index[index])

    def _values(self, rows, columns):
        left = safe_indexing(self.X, self.index[rows])
        right = self._samples
        if columns is not None:
            right = safe_indexing(self.X, self.index[columns])
        self.counter.add(len(rows) * (self.n if columns is None else len(columns)))
        return call_kernel(self.function, left, right)


def call_kernel(function, A, B) -> np.ndarray:
    """Values of a user's kernel function as a dense float64 block, its shape checked."""
    values = densified(function(A, B)).astype(np.float64, copy=False)
    expected = (num_samples(A), num_samples(B))
    if values.shape != expected:
        raise ValueError(
            f"The kernel function returned an array of shape {values.shape} where k(A, B) with "
            f"{expected[0]} and {expected[1]} samples must have shape {expected}."
        )
    return values
