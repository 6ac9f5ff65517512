"""Rows of a dense array, multiplied by BLAS."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.deferred import differences


def dense_rows(X) -> np.ndarray:
    """Rows as a dense array: themselves if they are one."""
    return X.toarray() if sp.issparse(X) else X


class DenseSamples:
    """Rows of a dense array of `dtype`, less `origin` where one is given.

    The array is copied only if its type, its order or the origin asks for it.
    """

    is_sparse = False

    def __init__(self, X: np.ndarray, dtype, origin: np.ndarray | None = None):
        self.n, self.n_features = X.shape
        self.dtype = np.dtype(dtype)
        self.origin = origin
        if origin is not None:
            X = np.subtract(X, origin, dtype=np.result_type(X.dtype, self.dtype))
        self.X = np.ascontiguousarray(X, dtype=self.dtype)
        self.norms = np.einsum("ij,ij->i", self.X, self.X)

    @cached_property
    def largest_norm(self) -> float:
        return float(self.norms.max(initial=0.0))

    @property
    def multiplies_per_value(self) -> float:
        """Multiplications of one inner product."""
        return self.n_features

    @property
    def terms_of_product(self) -> int:
        """Terms that an inner product has at most."""
        return self.n_features

    def rounded(self) -> DenseSamples:
        """The same samples in float32, each number of them rounded once."""
        same, single = object.__new__(DenseSamples), np.dtype(np.float32)
        same.X, same.norms, same.origin = self.X.astype(single), self.norms.astype(single), None
        same.n, same.n_features, same.dtype = self.n, self.n_features, single
        return same

    def like(self, X) -> DenseSamples:
        """Samples of other rows X, in the same storage."""
        return DenseSamples(dense_rows(X), self.dtype, self.origin)

    def subset(self, index: np.ndarray | slice) -> DenseSamples:
        part = object.__new__(DenseSamples)
        part.X, part.norms, part.origin = self.X[index], self.norms[index], self.origin
        part.n, part.n_features, part.dtype = len(part.X), self.n_features, self.dtype
        part.largest_norm = self.largest_norm
        return part

    # Consecutive samples, which are not copied.
    part = subset

    def products(self, left, columns: slice, out: np.ndarray) -> None:
        """out[i, j] = ⟨left sample i, sample columns.start + j⟩."""
        np.matmul(left.X, self.X[columns].T, out=out)

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Σ coefficients[i] · sample i, in float64."""
        return coefficients @ self.X

    def times(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """⟨sample i, weights⟩ of consecutive samples."""
        return self.part(rows).X @ weights.astype(self.dtype)

    def rbf_from_products(self, left, columns: slice, products, gamma: float, largest: float):
        """RBF values in place of `products`.

        Those of neighbours with norms above `largest` come from differences of features.
        """
        norms = self.norms[columns]
        differences().dense_rbf(
            products, left.norms, norms, gamma, largest, left.X, self.X[columns]
        )
        return products
