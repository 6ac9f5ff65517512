"""Whole kernel matrices, each computed once for all folds and all C that want it."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import numpy as np

from maxmargin.kernels.budget import precision_of_rows
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import as_samples
from maxmargin.kernels.tiles import check_finite, fill
from maxmargin.kernels.user_values import call_kernel
from maxmargin.parallel import run_blocks, split
from maxmargin.solvers.path import find_duplicates

_ROWS = 64


class KernelStore:
    """Kernel matrices of all samples by the kernel that makes them.

    Parameters
    ----------
    X : the samples; for a precomputed kernel their kernel matrix
    n : how many there are
    keep_products : whether several kernels of features will be asked for, so that the
        inner products of the samples are worth keeping
    """

    def __init__(self, X, n: int, keep_products: bool):
        self.X, self.n = X, n
        self.keep_products = keep_products
        self.dtype = np.dtype(precision_of_rows(n))
        self._lock = threading.Lock()
        self._held: dict[tuple[Hashable, np.dtype], np.ndarray] = {}
        self._duplicates: dict[Hashable, np.ndarray] = {}
        self._products: dict[bool, tuple[np.ndarray, np.ndarray]] = {}

    def get(self, kernel, dtype=None) -> np.ndarray:
        """The matrix of a `KernelFunction`, of a callable, or of "precomputed".

        A `dtype` is a wish: what the user computed stays as it is.
        """
        key = (kernel, np.dtype(dtype or self.dtype))
        with self._lock:
            if key not in self._held:
                self._held[key] = self._compute(*key)
            return self._held[key]

    def duplicates(self, kernel) -> np.ndarray:
        """Which samples are the same to the kernel; see `find_duplicates`."""
        K = self.get(kernel)
        with self._lock:
            if kernel not in self._duplicates:
                self._duplicates[kernel] = find_duplicates(K)
            return self._duplicates[kernel]

    def drop(self, kernels) -> None:
        """Forget matrices that nobody will ask for again."""
        for key in [key for key in self._held if key[0] in kernels]:
            del self._held[key]

    def _compute(self, kernel, dtype: np.dtype) -> np.ndarray:
        if isinstance(kernel, KernelFunction):
            K = self._from_products(kernel) if dtype == self.dtype else None
            if K is None:
                K = FeatureKernelMatrix(self.X, kernel, dtype).block(np.arange(self.n))
            return K
        if callable(kernel):
            return call_kernel(kernel, self.X, self.X)
        K = np.asarray(self.X)
        return np.ascontiguousarray(K, K.dtype if K.dtype == np.float32 else np.float64)

    def _from_products(self, kernel: KernelFunction) -> np.ndarray | None:
        """One element-wise pass over inner products that are there already.

        None where they are not worth keeping, or not exact enough for this kernel.
        """
        if not self.keep_products:
            return None
        centre = kernel.translation_invariant
        if centre not in self._products:
            self._products = {centre: _inner_products(self.X, self.n, self.dtype, centre)}
        products, norms = self._products[centre]
        if norms.max() > kernel.largest_norm(self.dtype):
            return None
        check_finite(kernel, norms)
        K = np.empty_like(products)

        def compute(rows: slice) -> None:
            K[rows] = products[rows]
            kernel.from_products(K[rows], norms[rows], norms)

        run_blocks(compute, split(self.n, _ROWS))
        return K


def _inner_products(X, n: int, dtype, centre: bool) -> tuple[np.ndarray, np.ndarray]:
    samples = as_samples(X, dtype, centre=centre)
    products = np.empty((n, n), dtype)
    fill(KernelFunction("linear"), samples, samples, products)
    return products, samples.norms
