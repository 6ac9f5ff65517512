"""Samples, dense or sparse, that hand out blocks of inner products.

This is the only place where the two kinds of storage differ. Which products are
used follows the density of the data, not its container: rows with few non-zeros
are multiplied as sparse ones even if they came in a dense array, so the same
numbers give the same bits in either container.
"""

from __future__ import annotations

import threading
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from maxmargin.parallel import run_blocks, split

# A dense product does 2·d flops a value at the speed of BLAS, a sparse one 2·nnz at about half of
# that speed (measured from d = 20 to d = 784): below this density the sparse one is faster.
SPARSE_DENSITY = 0.4
# Below this the fixed cost of a sparse row outweighs its few non-zeros.
_MIN_SPARSE_FEATURES = 16
# Sparse input of a higher density is spread out, but only where that costs little memory.
_MAX_SPREAD_BYTES = 256 * 2**20
_DENSITY_SAMPLE = 2048
# Rows that one task turns from dense to sparse.
_CONVERTED_ROWS = 2048
# Sparse samples with more features are multiplied in groups that number their own features: from
# here on a panel of all features no longer fits the processor's cache.
_WIDE_FEATURES = 2**15
_GROUP_ROWS = 256
_GROUP_NONZEROS = 2**16
# Samples of an expansion that are reduced to the features of a group at a time.
_REDUCED_ROWS = 4096
# The width of a vector register, and of a line of the processor's cache.
_LINE_BYTES = 64


def aligned_zeros(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Zeros that begin with a line of the cache: vectors across two lines take twice the time."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + _LINE_BYTES, np.uint8)
    start = -memory.ctypes.data % _LINE_BYTES
    return memory[start : start + n_bytes].view(dtype).reshape(shape)


class DenseSamples:
    """Rows of a dense array of `dtype`, less `mean` where one is given.

    The array is copied only if its type, its order or the mean asks for it.
    """

    def __init__(self, X: np.ndarray, dtype, mean: np.ndarray | None = None):
        self.n, self.n_features = X.shape
        self.dtype = np.dtype(dtype)
        self.mean = mean
        if mean is not None:
            X = np.subtract(X, mean, dtype=np.result_type(X.dtype, self.dtype))
        self.X = np.ascontiguousarray(X, dtype=self.dtype)
        self.norms = np.einsum("ij,ij->i", self.X, self.X)
        self.largest_norm = float(self.norms.max(initial=0.0))

    @property
    def products_per_value(self) -> float:
        """Multiplications of one inner product."""
        return self.n_features

    def like(self, X) -> DenseSamples:
        """Samples of other rows X, in the same storage."""
        return DenseSamples(X.toarray() if sp.issparse(X) else X, self.dtype, self.mean)

    def subset(self, index: np.ndarray) -> DenseSamples:
        part = object.__new__(DenseSamples)
        part.n, part.n_features, part.dtype = len(index), self.n_features, self.dtype
        part.X, part.norms, part.mean = self.X[index], self.norms[index], self.mean
        part.largest_norm = self.largest_norm
        return part

    def products(self, left, columns: slice, out: np.ndarray) -> None:
        """out[i, j] = ⟨left sample i, sample columns.start + j⟩."""
        np.matmul(left.X, self.X[columns].T, out=out)

    def rbf_from_products(self, left, columns: slice, products, gamma: float, largest: float):
        """RBF values in place of `products`.

        Those of neighbours with norms above `largest` come from differences of features.
        """
        from maxmargin.kernels._differences import dense_rbf

        rounding = _rounding_of_distances(self.n_features, self.dtype)
        norms = left.norms, self.norms[columns]
        dense_rbf(products, *norms, gamma, largest, rounding, left.X, self.X[columns])
        return products


class SparseSamples:
    """Rows of a CSR matrix; its products cost time in proportion to the non-zeros."""

    def __init__(self, X, dtype):
        self.n, self.n_features = X.shape
        self.dtype = np.dtype(dtype)
        self.data = np.ascontiguousarray(X.data, dtype=self.dtype)
        # One index type, so that the leaves are compiled once; feature numbers always fit 32 bits.
        self.indices = X.indices.astype(np.int32, copy=False)
        self.indptr = X.indptr.astype(np.int64, copy=False)
        self.norms = _leaves().squared_norms(self.data, self.indptr).astype(self.dtype)
        self.largest_norm = float(self.norms.max(initial=0.0))

    @property
    def products_per_value(self) -> float:
        return len(self.data) / max(1, self.n)

    def like(self, X) -> SparseSamples:
        return SparseSamples(X if sp.issparse(X) else _to_csr(X), self.dtype)

    def subset(self, index: np.ndarray) -> SparseSamples:
        rows = np.asarray(index, np.int64)
        data, indices, indptr = _leaves().take_rows(self.data, self.indices, self.indptr, rows)
        part = SparseSamples._of(data, indices, indptr, self.norms[index], self.n_features)
        part.largest_norm = self.largest_norm
        return part

    def products(self, left, columns: slice, out: np.ndarray) -> None:
        if self.n_features <= _WIDE_FEATURES:
            self._products(left, columns, out)
            return
        for rows in left._groups(slice(0, left.n)):
            group, others = left._meet(rows, self, columns)
            others._products(group, slice(0, others.n), out[rows])

    def _products(self, left, columns: slice, out: np.ndarray) -> None:
        _leaves().sparse_block(
            left.data, left.indices, left.indptr, self.data, self.indices, self.indptr,
            columns.start, columns.stop, _panel(self.n_features, self.dtype), out,
        )  # fmt: skip

    def _groups(self, rows: slice) -> list[slice]:
        """Slices of `rows` with few features each, though enough rows to fill a panel."""
        few = int(_GROUP_NONZEROS * self.n / max(1, len(self.data)))
        size = max(_leaves().panel_width(self.dtype, wide=True), min(few, _GROUP_ROWS))
        return [slice(rows.start + p.start, rows.start + p.stop) for p in split(_size(rows), size)]

    def _meet(self, rows: slice, others, columns: slice) -> tuple[SparseSamples, SparseSamples]:
        """Own `rows`, and `columns` of others, both with the features of the former alone."""
        first, end = self.indptr[[rows.start, rows.stop]]
        table, shift, numbers, n_features = _table().number_features(self.indices[first:end])
        indptr = self.indptr[rows.start : rows.stop + 1] - first
        own = SparseSamples._of(self.data[first:end], numbers, indptr, self.norms[rows], n_features)
        data, indices, indptr = _table().reduce_rows(
            others.data, others.indices, others.indptr, columns.start, columns.stop, table, shift
        )
        return own, SparseSamples._of(data, indices, indptr, others.norms[columns], n_features)

    @classmethod
    def _of(cls, data, indices, indptr, norms, n_features: int) -> SparseSamples:
        part = object.__new__(cls)
        part.data, part.indices, part.indptr, part.norms = data, indices, indptr, norms
        part.n, part.n_features, part.dtype = len(indptr) - 1, n_features, data.dtype
        return part

    def rbf_from_products(self, left, columns: slice, products, gamma: float, largest: float):
        from maxmargin.kernels._differences import sparse_rbf

        terms = max(left._longest_row, self._longest_row)
        sparse_rbf(
            products, left.norms, self.norms[columns], gamma, largest,
            _rounding_of_distances(terms, self.dtype), left._sorted, self._sorted, columns.start,
        )  # fmt: skip
        return products

    @cached_property
    def _longest_row(self) -> int:
        return int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and indptr with the features of each row in ascending order."""
        shape = self.n, self.n_features
        rows = sp.csr_array((self.data, self.indices, self.indptr), shape=shape)
        if rows.has_sorted_indices:
            return self.data, self.indices, self.indptr
        rows = rows.sorted_indices()
        return rows.data, rows.indices.astype(np.int32, copy=False), self.indptr

    def add_rbf_expansion(self, gamma: float, coefficients, targets, rows: slice, out) -> None:
        """out[i] += Σ_j coefficients[j] · exp(−γ‖target rows.start + i − sample j‖²)."""
        coefficients = coefficients.astype(self.dtype)
        if self.n_features <= _WIDE_FEATURES:
            self._add_rbf_expansion(gamma, coefficients, targets, rows, out)
            return
        for part in targets._groups(rows):
            sums = out[part.start - rows.start : part.stop - rows.start]
            for some in split(self.n, _REDUCED_ROWS):
                group, basis = targets._meet(part, self, some)
                every = slice(0, group.n)
                basis._add_rbf_expansion(gamma, coefficients[some], group, every, sums)

    def _add_rbf_expansion(self, gamma: float, coefficients, targets, rows: slice, out) -> None:
        _leaves().add_rbf_expansion(
            self.data, self.indices, self.indptr, self.norms, coefficients,
            self.dtype.type(gamma), targets.data, targets.indices, targets.indptr, targets.norms,
            rows.start, rows.stop, _panel(self.n_features, self.dtype, wide=True), out,
        )  # fmt: skip


Samples = DenseSamples | SparseSamples


def _size(part: slice) -> int:
    return part.stop - part.start


def _rounding_of_distances(terms: int, dtype) -> float:
    """Bound on the error of ‖a‖² + ‖b‖² − 2⟨a, b⟩ relative to ‖a‖² + ‖b‖², sums of `terms`."""
    return 2 * (terms + 4) * float(np.finfo(dtype).eps)


_thread = threading.local()


def _panel(n_features: int, dtype, wide: bool = False) -> np.ndarray:
    """Scratch memory of the calling thread for a panel; those who use it leave it zero."""
    width = _leaves().panel_width(dtype, wide)
    held = _thread.__dict__.setdefault("panels", {})
    key = np.dtype(dtype).char, width
    if key not in held or len(held[key]) < n_features:
        held[key] = aligned_zeros((n_features, width), dtype)
    return held[key][:n_features]


def without_empty_features(X):
    """A CSR matrix without most of the features that no row has; else X as it is.

    Inner products do not change by it, and vectors of features are no longer than the data.
    """
    if not sp.issparse(X) or X.shape[1] <= max(X.nnz, _MIN_SPARSE_FEATURES):
        return X
    features, numbers = np.unique(X.indices, return_inverse=True)
    return sp.csr_array((X.data, numbers, X.indptr), shape=(X.shape[0], len(features)))


def with_few_nonzeros(X):
    """X as a CSR matrix where its products are faster as sparse ones, else as it is."""
    if sp.issparse(X) or X.shape[1] < _MIN_SPARSE_FEATURES or not _mostly_zero(X):
        return X
    return _to_csr(X)


def _to_csr(X: np.ndarray):
    """A dense array as a CSR matrix, on the session's threads."""
    leaves, parts = _leaves(), split(X.shape[0], _CONVERTED_ROWS)
    # Neither the compiler nor SciPy's sparse matrices know all types that a dense array may have.
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    indptr = np.zeros(X.shape[0] + 1, np.int64)

    def count(rows: slice) -> None:
        leaves.count_nonzeros(np.ascontiguousarray(X[rows], dtype), indptr[1:][rows])

    run_blocks(count, parts)
    np.cumsum(indptr, out=indptr)
    data, indices = np.empty(indptr[-1], dtype), np.empty(indptr[-1], np.int32)

    def take(rows: slice) -> None:
        part = slice(indptr[rows.start], indptr[rows.stop])
        leaves.take_nonzeros(np.ascontiguousarray(X[rows], dtype), data[part], indices[part])

    run_blocks(take, parts)
    return sp.csr_array((data, indices, indptr), shape=X.shape)


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
        spread_bytes = max(n, _DENSITY_SAMPLE) * n_features * np.dtype(dtype).itemsize
        if X.nnz <= SPARSE_DENSITY * n * n_features or spread_bytes > _MAX_SPREAD_BYTES:
            return SparseSamples(X, dtype)
        X = X.toarray()
    else:
        X = with_few_nonzeros(X)
        if sp.issparse(X):
            return SparseSamples(X, dtype)
    return DenseSamples(X, dtype, _mean_worth_removing(X) if centre else None)


def _mostly_zero(X: np.ndarray) -> bool:
    sample = X[:: max(1, len(X) // _DENSITY_SAMPLE)]
    return bool(np.count_nonzero(sample) <= SPARSE_DENSITY * sample.size)


def _mean_worth_removing(X: np.ndarray) -> np.ndarray | None:
    """The mean row where it dwarfs the spread: there ‖a‖² + ‖b‖² − 2⟨a, b⟩ would cancel."""
    sample = X[:: max(1, len(X) // _DENSITY_SAMPLE)]
    mean = np.add.reduce(sample, axis=0, dtype=np.float64) / len(sample)
    square = np.einsum("ij,ij->", sample, sample, dtype=np.float64, casting="unsafe") / len(sample)
    # Of the mean square the mean has the greater part; false where there is an overflow.
    return mean if 2.0 * (mean @ mean) > square else None


def _leaves():
    """The compiled products, loaded with the first sparse data."""
    from maxmargin.kernels import _sparse

    return _sparse


def _table():
    """The compiled numbering of features, loaded with the first wide data."""
    from maxmargin.kernels import _feature_table

    return _feature_table
