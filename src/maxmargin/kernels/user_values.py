"""Kernel matrices whose values come from the user: precomputed, or from a function."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import scipy.sparse as sp
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from maxmargin.kernels.feature_matrix import KernelMatrix
from maxmargin.parallel import split

# Rows that are computed or copied together.
_TILE_ROWS = 512


class _ValuesKernelMatrix(KernelMatrix):
    """Rows and columns `index` of a matrix of which whole rows can be had, by `_values`."""

    index: np.ndarray

    def positions(self):
        return self.index

    def rows(self, index, out, slots=None):
        slots = np.arange(len(index)) if slots is None else slots
        for part in split(len(index), _TILE_ROWS):
            out[slots[part], : self.n] = self._values(index[part])

    def product(self, index, coefficients):
        result = np.zeros(self.n)
        for part in split(len(index), _TILE_ROWS):
            result += coefficients[part] @ self._values(index[part])
        return result

    @abstractmethod
    def _values(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the matrix, from its present columns."""


class PrecomputedKernelMatrix(_ValuesKernelMatrix):
    """Rows and columns `index` of a matrix that the user computed; never copied whole."""

    def __init__(self, K: np.ndarray, parent=None, index=None):
        super().__init__(parent)
        self.K = K
        self._whole = index is None
        self.index = np.arange(len(K)) if index is None else index
        self.n = len(self.index)
        self.dtype = np.dtype(np.float32 if K.dtype == np.float32 else np.float64)

    def in_memory(self):
        ready = self._whole and self.K.flags.c_contiguous and self.K.dtype == self.dtype
        return self.K if ready else None

    def held(self):
        return self if self.in_memory() is not None else super().held()

    def diagonal(self):
        return self.K[self.index, self.index].astype(np.float64)

    def cross(self, index, columns, out, slots):
        out[slots] = self.K[self.index[index][:, np.newaxis], self.index[columns]]

    def columns(self, index):
        return self.K[self.index[:, np.newaxis], self.index[index]].astype(np.float64)

    def block(self, index):
        own = self.index[index]
        return self.K[own[:, np.newaxis], own].astype(np.float64)

    def restrict(self, index):
        return PrecomputedKernelMatrix(self.K, self, self.index[index])

    def _values(self, rows: np.ndarray) -> np.ndarray:
        return self.K[rows] if self._whole else self.K[self.index[rows][:, np.newaxis], self.index]


class CallableKernelMatrix(_ValuesKernelMatrix):
    """Kernel matrix of a user's function k(A, B), called on blocks of rows."""

    def __init__(self, X, function, parent=None, index=None):
        super().__init__(parent)
        self.X, self.function = X, function
        self.index = np.arange(_num_samples(X)) if index is None else index
        self.n = len(self.index)
        self.dtype = np.dtype(np.float64)
        self._columns = _safe_indexing(X, self.index)

    def diagonal(self):
        parts = split(self.n, _TILE_ROWS)
        return np.concatenate(
            [np.diagonal(self._values(np.arange(p.start, p.stop)), p.start) for p in parts]
        )

    def cross(self, index, columns, out, slots):
        self.count(len(index) * len(columns))
        left, right = (_safe_indexing(self.X, self.index[part]) for part in (index, columns))
        out[slots] = call_kernel(self.function, left, right)

    def columns(self, index):
        self.count(len(index) * self.n)
        samples = _safe_indexing(self.X, self.index[index])
        return call_kernel(self.function, self._columns, samples)

    def restrict(self, index):
        return CallableKernelMatrix(self.X, self.function, self, self.index[index])

    def _values(self, rows: np.ndarray) -> np.ndarray:
        self.count(len(rows) * self.n)
        left = _safe_indexing(self.X, self.index[rows])
        return call_kernel(self.function, left, self._columns)


def call_kernel(function, A, B) -> np.ndarray:
    """Values of a user's kernel function as a dense float64 block, its shape checked."""
    values = function(A, B)
    values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
    expected = (_num_samples(A), _num_samples(B))
    if values.shape != expected:
        raise ValueError(
            f"The kernel function returned an array of shape {values.shape} where k(A, B) with "
            f"{expected[0]} and {expected[1]} samples must have shape {expected}."
        )
    return values
