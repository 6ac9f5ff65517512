"""Samples on the card: kernel values by matrix products, a tile at a time."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.cuda import fast_double, is_cupy_array, load_cupy
from maxmargin.kernels.cuda.modules import KINDS, launch
from maxmargin.kernels.cuda.tiles import tile_sums, tile_values, tiles_serve
from maxmargin.kernels.functions import KernelFunction

# Kernel values of a tile: enough for the matrix products to reach their speed.
_TILE_VALUES = 2**25
# Bytes of the dense rows that a tile of sparse ones is made into.
_DENSE_BYTES = 2**28
_THREADS = 256
# Columns that one warp sums up in one go.
_SEGMENT = 1024
# Columns of one launch, which takes less than 0.2 s for some millions of rows.
_COLUMNS_PER_LAUNCH = 2**14
# Thread blocks beside each other that a launch may have.
_MOST_ROWS = 65535


class CudaSamples:
    """Rows of X on the card, and the kernel function between them.

    Parameters
    ----------
    X : dense array of NumPy or CuPy, or CSR matrix
        Dense rows are kept in float64 and, where asked for, in float32, less their mean
        where the kernel does not see it. Sparse rows stay sparse: those of a tile are made
        dense for its products.
    like : samples whose mean is subtracted too
    """

    def __init__(self, X, function: KernelFunction, like: CudaSamples | None = None):
        self.cp = cp = load_cupy()
        self.function = function
        self.n, self.n_features = X.shape
        self.sparse = sp.issparse(X)
        self._mean: Any = None if like is None else like._mean
        if self.sparse:
            from cupyx.scipy.sparse import csr_matrix

            data = np.asarray(X.data, np.float64)
            self._X: Any = csr_matrix(
                (cp.asarray(data), cp.asarray(X.indices), cp.asarray(X.indptr)), shape=X.shape
            )
            self._norms = cp.asarray(np.asarray(sp.csr_array(X).power(2).sum(axis=1)).ravel())
            self._norms = self._norms.astype(np.float64)
        else:
            on_card = X if is_cupy_array(X) else cp.asarray(np.ascontiguousarray(X))
            self._X = cp.ascontiguousarray(on_card.astype(np.float64))
            if function.translation_invariant:
                # As a product: CuPy would compile a reduction for every use of one.
                if self._mean is None:
                    self._mean = cp.ones(self.n) @ self._X / self.n
                self._X -= self._mean
            self._norms = cp.empty(self.n)
            launch(
                "row_norms", None, -(-self.n * 32 // _THREADS), _THREADS,
                (self._X, np.int64(self.n), np.int64(self.n_features), self._norms),
            )  # fmt: skip

    @property
    def dense(self):
        """Dense rows in float64, all of them."""
        return self._X

    def _numbers(self, index):
        """The numbers of rows that are given as such, or by a slice."""
        return self.cp.arange(self.n)[index] if isinstance(index, slice) else index

    @cached_property
    def _X_single(self):
        return self._X.astype(np.float32)

    @cached_property
    def _norms_single(self):
        return self._norms.astype(np.float32)

    def norms(self, dtype):
        return self._norms if np.dtype(dtype) == np.float64 else self._norms_single

    def rows(self, index, dtype):
        """Dense rows `index` (an array or a slice) on the card."""
        if not self.sparse:
            return (self._X if np.dtype(dtype) == np.float64 else self._X_single)[index]
        return self._X[index].toarray().astype(dtype, copy=False)

    def rows_of_tile(self, columns: int) -> int:
        """Rows of a tile with that many columns."""
        rows = _TILE_VALUES // max(1, columns)
        if self.sparse:
            rows = min(rows, _DENSE_BYTES // (8 * self.n_features))
        return max(1, rows)

    def arguments(self, dtype) -> tuple:
        """The kernel's parameters as the compiled leaves take them."""
        kind, function = np.dtype(dtype).type, self.function
        return (
            np.int32(KINDS[function.name]), kind(function.gamma), kind(function.coef0),
            np.int32(function.degree),
        )  # fmt: skip

    def values(self, rows, other: CudaSamples, columns, dtype, out=None, symmetric=False):
        """Kernel values of own rows against rows of other samples, in `out` or a new array.

        Those in float32 come from products in float64 where the card is fast at these.
        `symmetric` says that both are the same rows: half of the values may then be copies.
        """
        cp, dtype = self.cp, np.dtype(dtype)
        if tiles_serve(self, other):
            rows, columns = self._numbers(rows), other._numbers(columns)
            out = cp.empty((len(rows), len(columns)), dtype) if out is None else out
            tile_values(self, rows, other, columns, out, symmetric)
            return out
        working = np.dtype(np.float64) if fast_double() else dtype
        left, right = self.rows(rows, working), other.rows(columns, working)
        out = cp.empty((len(left), len(right)), dtype) if out is None else out
        products = out if working == dtype else cp.empty(out.shape, working)
        cp.matmul(left, right.T, out=products)
        launch(
            "kernel_values", working.char + dtype.char,
            (-(-out.shape[1] // _THREADS), min(len(left), _MOST_ROWS)), _THREADS,
            (products, self.norms(working)[rows], other.norms(working)[columns],
             np.int64(out.shape[0]), np.int64(out.shape[1]), *self.arguments(working), out),
        )  # fmt: skip
        return out

    def sums(self, rows, other: CudaSamples, columns, coefficients, offsets, dtype):
        """Σ_j k(row i, column j) · coefficients[j] over segment s of the columns, at [s, i]."""
        cp, kind = self.cp, np.dtype(dtype)
        index = self._numbers(rows)
        segments, count = len(offsets) - 1, len(columns)
        out = cp.empty((segments, len(index)))
        basis, basis_norms = other.rows(columns, kind), other.norms(kind)[columns]
        # The leaves read whole arrays: a column of a matrix must become one.
        coefficients = cp.ascontiguousarray(coefficients, dtype=kind)
        step = self.rows_of_tile(count)
        for start in range(0, len(index), step):
            part = index[start : start + step]
            tile = cp.matmul(self.rows(part, kind), basis.T)
            launch(
                "segment_sums", kind.char, -(-len(part) * segments * 32 // _THREADS), _THREADS,
                (tile, self.norms(kind)[part], basis_norms, coefficients, offsets,
                 np.int32(len(part)), np.int32(count), np.int32(segments),
                 *self.arguments(kind), out[:, start:], np.int64(out.shape[1])),
            )  # fmt: skip
        return out

    def expansion(self, rows, other: CudaSamples, columns, coefficients, dtype=np.float64):
        """Σ_j k(row i, column j) · coefficients[j] in float64 sums, for a vector of them."""
        cp = self.cp
        index = self._numbers(rows)
        total = cp.zeros(len(index))
        if np.dtype(dtype) == np.float64 and tiles_serve(self, other):
            for start in range(0, len(columns), _COLUMNS_PER_LAUNCH):
                part = slice(start, start + _COLUMNS_PER_LAUNCH)
                total += tile_sums(self, index, other, columns[part], coefficients[part])
            return total
        # Tiles that are not too narrow; of sparse samples, dense copies that are not too large.
        width = 2**14 if not self.sparse else max(256, _DENSE_BYTES // (8 * self.n_features))
        for start in range(0, len(columns), width):
            part = columns[start : start + width]
            offsets = np.append(np.arange(0, len(part), _SEGMENT), len(part)).astype(np.int32)
            sums = self.sums(
                index, other, part, coefficients[start : start + width], cp.asarray(offsets),
                dtype,
            )  # fmt: skip
            total += cp.ones(len(sums)) @ sums
        return total
