"""Samples, dense or sparse, that hand out blocks of inner products.

This is the only place where the two kinds of storage differ. Which products are
used follows the density of the data, not its container: rows with few non-zeros
are multiplied as sparse ones even if they came in a dense array, so the same
numbers give the same bits in either container. Where the kernel sees distances alone,
that holds for rows with few features other than the commonest values, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.sparse as sp

from maxmargin import constants
from maxmargin.kernels.deferred import sparse_samples
from maxmargin.kernels.samples.dense import DenseSamples, dense_rows
from maxmargin.kernels.samples.mapped import MappedSamples, is_mapped
from maxmargin.kernels.samples.origin import (
    MIN_SPARSE_FEATURES,
    mean_worth_removing,
    sparse_origin,
    too_few_to_be_sparse,
)

if TYPE_CHECKING:
    from maxmargin.kernels.samples.sparse import SparseSamples

    Samples: TypeAlias = DenseSamples | SparseSamples

# Sparse input of a higher density is densified, but only where that costs little memory.
_MAX_DENSIFIED_VALUES = 2**25
_TILE_ROWS = 2048


def without_empty_features(X):
    """A CSR matrix without most of the features that no row has; else X as it is.

    Inner products do not change by it, and vectors of features are no longer than the data.
    """
    if not sp.issparse(X) or X.shape[1] <= max(X.nnz, MIN_SPARSE_FEATURES):
        return X
    features, numbers = np.unique(X.indices, return_inverse=True)
    return sp.csr_array((X.data, numbers, X.indptr), shape=(X.shape[0], len(features)))


def to_csr_if_sparse(X, movable: bool = False):
    """X as a CSR matrix where its products are faster as sparse ones, else as it is.

    Parameters
    ----------
    movable : bool
        Whether all rows may be moved by a common vector, as the kernel does not see it.
    """
    if not _stays_sparse(X):
        sparse, origin = sparse_origin(X, movable)
        if sparse:
            return sparse_samples().to_csr(X, origin)
    return X


def as_samples(X, dtype, *, movable: bool = False) -> Samples:
    """Samples of X in the storage whose products are the faster ones.

    Parameters
    ----------
    movable : bool
        Whether the rows may be moved by a common vector (the kernel does not see
        it), so that most features are zero or distances keep their digits.
    """
    if _stays_sparse(X):
        return sparse_samples().SparseSamples(X, dtype)
    sparse, origin = sparse_origin(X, movable)
    if sparse:
        return sparse_samples().SparseSamples(sparse_samples().to_csr(X, origin), dtype, origin)
    X = dense_rows(X)
    storage = MappedSamples if is_mapped(X) else DenseSamples
    return storage(X, dtype, mean_worth_removing(X) if movable else None)


def are_dense(X, movable: bool) -> bool:
    """Whether products of rows of X are those of a dense array."""
    return not _stays_sparse(X) and not sparse_origin(X, movable)[0]


def _stays_sparse(X) -> bool:
    """Whether X is a CSR matrix of so low a density, or so large, that it is not densified."""
    if not sp.issparse(X) or too_few_to_be_sparse(X):
        return False
    n, n_features = X.shape
    # Samples to compare with come a tile at a time.
    too_large = max(n, _TILE_ROWS) * n_features > _MAX_DENSIFIED_VALUES
    return bool(too_large or X.nnz <= constants.SPARSE_DENSITY * n * n_features)
