"""Samples, dense or sparse, that hand out blocks of inner products.

This is the only place where the two kinds of storage differ. Which products are
used follows the density of the data, not its container: rows with few non-zeros
are multiplied as sparse ones even if they came in a dense array, so the same
numbers give the same bits in either container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from maxmargin import constants
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.kernels.samples.mapped import MappedSamples, is_mapped

if TYPE_CHECKING:
    from maxmargin.kernels.samples.sparse import SparseSamples

    Samples = DenseSamples | SparseSamples

# Below this the fixed cost of a sparse row outweighs its few non-zeros.
_MIN_SPARSE_FEATURES = 16
# Sparse input of a higher density is densified, but only where that costs little memory.
_MAX_DENSIFIED_BYTES = 256 * 2**20
_DENSITY_SAMPLE = 2048


def without_empty_features(X):
    """A CSR matrix without most of the features that no row has; else X as it is.

    Inner products do not change by it, and vectors of features are no longer than the data.
    """
    if not sp.issparse(X) or X.shape[1] <= max(X.nnz, _MIN_SPARSE_FEATURES):
        return X
    features, numbers = np.unique(X.indices, return_inverse=True)
    return sp.csr_array((X.data, numbers, X.indptr), shape=(X.shape[0], len(features)))


def to_csr_if_sparse(X):
    """X as a CSR matrix where its products are faster as sparse ones, else as it is.

    Of a large array that is mapped from a file there is to be no copy, not even of its non-zeros.
    """
    if sp.issparse(X) or X.shape[1] < _MIN_SPARSE_FEATURES or is_mapped(X) or not mostly_zero(X):
        return X
    return _sparse().to_csr(X)


def as_samples(X, dtype, *, centre: bool = False) -> Samples:
    """Samples of X in the storage whose products are the faster ones.

    Parameters
    ----------
    centre : bool
        Whether the rows may be moved by a common vector (the kernel does not see
        it), so that distances keep their digits.
    """
    n, n_features = X.shape
    if sp.issparse(X):
        # Samples to compare with come a tile at a time.
        densified_bytes = max(n, _DENSITY_SAMPLE) * n_features * np.dtype(dtype).itemsize
        if (
            X.nnz <= constants.SPARSE_DENSITY * n * n_features
            or densified_bytes > _MAX_DENSIFIED_BYTES
        ):
            return _sparse().SparseSamples(X, dtype)
        X = X.toarray()
    else:
        X = to_csr_if_sparse(X)
        if sp.issparse(X):
            return _sparse().SparseSamples(X, dtype)
    storage = MappedSamples if is_mapped(X) else DenseSamples
    return storage(X, dtype, _mean_worth_removing(X) if centre else None)


def mostly_zero(X: np.ndarray) -> bool:
    """Whether products of rows are faster without the zeros, by a look at some of them."""
    sample = X[:: max(1, len(X) // _DENSITY_SAMPLE)]
    return bool(np.count_nonzero(sample) <= constants.SPARSE_DENSITY * sample.size)


def _mean_worth_removing(X: np.ndarray) -> np.ndarray | None:
    """The mean row where it dwarfs the spread: there ‖a‖² + ‖b‖² − 2⟨a, b⟩ would cancel."""
    sample = X[:: max(1, len(X) // _DENSITY_SAMPLE)]
    mean = np.add.reduce(sample, axis=0, dtype=np.float64) / len(sample)
    square = np.einsum("ij,ij->", sample, sample, dtype=np.float64, casting="unsafe") / len(sample)
    # Of the mean square the mean has the greater part; false where there is an overflow.
    return mean if 2.0 * (mean @ mean) > square else None


def _sparse():
    """Sparse samples and their compiled products, loaded with the first sparse data."""
    from maxmargin.kernels.samples import sparse

    return sparse
