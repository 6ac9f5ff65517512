"""Whole kernel matrices, each computed once for all folds and all C that want it."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np

from maxmargin import constants
from maxmargin.kernels.budget import precision_of_rows
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.kernels.samples import as_samples
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.kernels.tiles import check_finite, expansion, fill, samples_for
from maxmargin.kernels.user_values import PrecomputedKernelMatrix, call_kernel
from maxmargin.parallel import run_blocks, split
from maxmargin.solvers.path import find_duplicates, submatrix

# Rows of a kernel matrix that one task fills.
_ROWS_PER_TASK = 64
# Features, and multiplications per value of all kernels together, up to which inner products are
# multiplied anew for every kernel: to read the kept ones takes as long as the former, and to be
# given memory for them as long as the latter.
_FEW_FEATURES, _FEW_MULTIPLICATIONS = 24, 160


class KernelStore:
    """Kernel matrices of all samples by the kernel that makes them.

    Values are computed in float64. Those of many samples are stored in float32: then their
    error is that of rounding, whatever gamma is.

    Parameters
    ----------
    X : the samples; for a precomputed kernel their kernel matrix
    n : how many there are
    uses : how many kernels of features will be asked for: inner products of the samples are kept
        for them where they are several and features not few
    order : the order of the samples in the matrices; None where it is that of X
    double : whether values are stored in float64 however many there are
    """

    def __init__(self, X, n: int, uses: int, order=None, double: bool = False):
        self.n, self._order = n, order
        # A matrix of the user's, or what a function of the user's takes, is ordered afterwards.
        self._given = X
        self._uses = uses
        self.dtype = np.dtype(np.float64 if double else precision_of_rows(n))
        self._lock = threading.Lock()
        self._held: dict[Hashable, np.ndarray] = {}
        self._duplicates: dict[Hashable, np.ndarray] = {}
        self._spare: list[np.ndarray] = []
        self._samples: dict[bool, Any] = {}
        self._products: dict[bool, np.ndarray] = {}

    @cached_property
    def X(self):
        """The features in the order of the matrices."""
        return self._given if self._order is None else self._given[self._order]

    def get(self, kernel) -> np.ndarray:
        """The matrix of a `KernelFunction`, of a callable, or of "precomputed"."""
        with self._lock:
            if kernel not in self._held:
                self._held[kernel] = self._compute(kernel)
            return self._held[kernel]

    def part(self, kernel, samples: np.ndarray) -> KernelMatrix:
        """The matrix of some of the samples, its values in memory."""
        return _Part(self, kernel, samples)

    def multiply(self, kernel, rows, columns, coefficients: np.ndarray) -> np.ndarray:
        """K[rows][:, columns] @ coefficients, of several columns, from values in float64."""
        if isinstance(kernel, KernelFunction) and self.dtype != np.float64:
            basis = samples_for(kernel, self.X[columns], np.float64)
            return expansion(kernel, self.X, basis, coefficients, rows)
        K, parts = self.get(kernel), split(len(rows), constants.TILE_ROWS)
        return np.vstack([submatrix(K, rows[part], columns).astype(np.float64) @ coefficients
                          for part in parts])  # fmt: skip

    def duplicates(self, kernel) -> np.ndarray:
        """Which samples are the same to the kernel; see `find_duplicates`."""
        K = self.get(kernel)
        with self._lock:
            if kernel not in self._duplicates:
                self._duplicates[kernel] = find_duplicates(K)
            return self._duplicates[kernel]

    def drop(self, kernels) -> None:
        """Forget matrices that nobody will ask for again.

        Their memory is used again: to be given new memory takes longer than to fill it.
        """
        for kernel in kernels:
            K = self._held.pop(kernel, None)
            if K is not None and isinstance(kernel, KernelFunction):
                self._spare.append(K)
            self._duplicates.pop(kernel, None)

    def _compute(self, kernel) -> np.ndarray:
        if isinstance(kernel, KernelFunction):
            K = self._from_products(kernel)
            if K is None:
                exact, K = FeatureKernelMatrix(self.X, kernel, np.float64), self._empty()
                exact.block(np.arange(self.n), out=K)
            return K
        K = call_kernel(kernel, self._given, self._given) if callable(kernel) else self._given
        K = np.asarray(K)
        single = K.dtype == np.float32 and self.dtype == np.float32
        K = np.ascontiguousarray(K, np.float32 if single else np.float64)
        return K if self._order is None else submatrix(K, self._order, self._order)

    def _empty(self) -> np.ndarray:
        return self._spare.pop() if self._spare else np.empty((self.n, self.n), self.dtype)

    def _from_products(self, kernel: KernelFunction) -> np.ndarray | None:
        """One element-wise pass over inner products, which are kept unless features are few.

        None where they are not worth keeping, or not exact enough for this kernel.
        """
        if self._uses <= 1:
            return None
        centre = kernel.translation_invariant
        if centre not in self._samples:
            self._samples = {centre: as_samples(self.X, np.float64, movable=centre)}
        samples = self._samples[centre]
        if samples.norms.max() > kernel.largest_norm(samples.dtype):
            return None
        check_finite(kernel, samples.norms)
        K, products, norms = self._empty(), self._products_of(centre), samples.norms

        def compute(rows: slice) -> None:
            same = K.dtype == np.float64
            values = K[rows] if same else np.empty((rows.stop - rows.start, self.n))
            if products is None:
                np.matmul(samples.X[rows], samples.X.T, out=values)
            else:
                values[:] = products[rows]
            kernel.from_products(values, norms[rows], norms)
            if not same:
                K[rows] = values

        run_blocks(compute, split(self.n, _ROWS_PER_TASK))
        return K

    def _products_of(self, centre: bool) -> np.ndarray | None:
        """Inner products that are kept; None where the samples are dense and their features few."""
        samples = self._samples[centre]
        if isinstance(samples, DenseSamples):
            few = max(_FEW_FEATURES, _FEW_MULTIPLICATIONS // self._uses)
            if samples.n_features <= few:
                return None
        if centre not in self._products:
            products = np.empty((self.n, self.n))
            fill(KernelFunction("linear"), samples, samples, products)
            self._products = {centre: products}
        return self._products[centre]


class _Part(PrecomputedKernelMatrix):
    """The stored values of some samples; what must be exact is computed from their features."""

    def __init__(self, store: KernelStore, kernel, samples: np.ndarray):
        super().__init__(submatrix(store.get(kernel), samples, samples))
        self._store, self._kernel, self._samples = store, kernel, samples

    @cached_property
    def _exact(self) -> KernelMatrix | None:
        if not isinstance(self._kernel, KernelFunction) or self.dtype == np.float64:
            return None  # nothing is more exact than what is stored
        return FeatureKernelMatrix(self._store.X[self._samples], self._kernel, np.float64)

    def multiply(self, index, coefficients, rows=None, precise=False):
        if precise and self._exact is not None:
            return self._exact.multiply(index, coefficients, rows, precise=True)
        return super().multiply(index, coefficients, rows)

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        if dtype == np.float64 and self.dtype != np.float64 and self._exact is not None:
            return self._exact.block(rows, columns, dtype, out, slots)
        return super().block(rows, columns, dtype, out, slots)
