"""Rows of a CSR matrix, multiplied in time that follows the non-zeros."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.buffers import thread_scratch
from maxmargin.kernels.deferred import differences
from maxmargin.kernels.samples import _feature_table, _products, _sums
from maxmargin.kernels.samples.dense import dense_rows
from maxmargin.parallel import run_blocks, split

# In a panel of all features that is larger than this only features of its own samples have a place:
# it is far from fitting the processor's cache, and most of it would be zeros.
_PANEL_BYTES = 2**21
# Sparse samples with more features are multiplied in groups that number their own features: from
# here on a table of places no longer fits the processor's cache either.
_WIDE_FEATURES = 2**17
_GROUP_ROWS = 256
_GROUP_NONZEROS = 2**16
# Samples of an expansion that are reduced to the features of a group at a time.
_REDUCED_ROWS = 4096
# Rows that one task copies: some 100 µs.
_TAKEN_ROWS = 8192
# Rows that one task turns from dense to sparse.
_CONVERTED_ROWS = 2048


class SparseSamples:
    """Rows of a CSR matrix; its products cost time in proportion to the non-zeros.

    `origin` is the row that has been subtracted from all rows of X, None for zero.
    """

    is_sparse = True

    def __init__(self, X, dtype, origin: np.ndarray | None = None):
        self.origin = origin
        self.n, self.n_features = X.shape
        self.dtype = np.dtype(dtype)
        self.data = np.ascontiguousarray(X.data, dtype=self.dtype)
        # One index type, so that the leaves are compiled once; feature numbers always fit 32 bits.
        self.indices = X.indices.astype(np.int32, copy=False)
        self.indptr = X.indptr.astype(np.int64, copy=False)
        self.norms = _products.squared_norms(self.data, self.indptr).astype(self.dtype)

    @cached_property
    def largest_norm(self) -> float:
        return float(self.norms.max(initial=0.0))

    @property
    def multiplies_per_value(self) -> float:
        return len(self.data) / max(1, self.n)

    @property
    def terms_of_product(self) -> int:
        return self._longest_row

    def rounded(self) -> SparseSamples:
        single = np.float32
        data, norms = self.data.astype(single), self.norms.astype(single)
        same = SparseSamples._of(data, self.indices, self.indptr, norms, self.n_features)
        same.origin = None
        return same

    def like(self, X) -> SparseSamples:
        as_it_is = sp.issparse(X) and self.origin is None
        return SparseSamples(X if as_it_is else to_csr(X, self.origin), self.dtype, self.origin)

    def subset(self, index: np.ndarray) -> SparseSamples:
        rows = np.asarray(index, np.int64)
        indptr = _products.ends_of_rows(self.indptr, rows)
        data, indices = np.empty(indptr[-1], self.dtype), np.empty(indptr[-1], np.int32)

        def take(some: slice) -> None:
            _products.take_rows(
                self.data, self.indices, self.indptr, rows[some], some.start, indptr, data, indices
            )

        run_blocks(take, split(len(rows), _TAKEN_ROWS))
        part = SparseSamples._of(data, indices, indptr, self.norms[index], self.n_features)
        part.largest_norm, part.origin = self.largest_norm, self.origin
        return part

    def part(self, rows: slice) -> SparseSamples:
        """Consecutive samples, whose entries are not copied."""
        ends = self.indptr[rows.start : rows.stop + 1]
        entries = slice(ends[0], ends[-1])
        part = SparseSamples._of(
            self.data[entries], self.indices[entries], ends - ends[0], self.norms[rows],
            self.n_features,
        )  # fmt: skip
        part.largest_norm, part.origin = self.largest_norm, self.origin
        return part

    def products(self, left, columns: slice, out: np.ndarray) -> None:
        if self.n_features <= _WIDE_FEATURES:
            self._products(left, columns, out)
            return
        for rows in left._groups(slice(0, left.n)):
            group, others = left._meet(rows, self, columns)
            others._products(group, slice(0, others.n), out[rows])

    def _products(self, left, columns: slice, out: np.ndarray) -> None:
        places, panel = left._panel(slice(0, left.n), _products.panel_width(self.dtype))
        _products.sparse_block(
            left.data, left.indices, left.indptr, self.data, self.indices, self.indptr,
            columns.start, columns.stop, places, panel, out,
        )  # fmt: skip

    def _groups(self, rows: slice) -> list[slice]:
        """Slices of `rows` with few features each, though enough rows to fill a panel."""
        few = int(_GROUP_NONZEROS * self.n / max(1, len(self.data)))
        size = max(_sums.panel_width(self.dtype), min(few, _GROUP_ROWS))
        return [
            slice(rows.start + p.start, rows.start + p.stop)
            for p in split(rows.stop - rows.start, size)
        ]

    def _meet(self, rows: slice, others, columns: slice) -> tuple[SparseSamples, SparseSamples]:
        """Own `rows`, and `columns` of others, both with the features of the former alone."""
        first, end = self.indptr[[rows.start, rows.stop]]
        table, shift, numbers, n_features = _feature_table.number_features(self.indices[first:end])
        indptr = self.indptr[rows.start : rows.stop + 1] - first
        own = SparseSamples._of(self.data[first:end], numbers, indptr, self.norms[rows], n_features)
        data, indices, indptr = _feature_table.reduce_rows(
            others.data, others.indices, others.indptr, columns.start, columns.stop, table, shift
        )
        return own, SparseSamples._of(data, indices, indptr, others.norms[columns], n_features)

    @classmethod
    def _of(cls, data, indices, indptr, norms, n_features: int) -> SparseSamples:
        part = object.__new__(cls)
        part.data, part.indices, part.indptr, part.norms = data, indices, indptr, norms
        part.n, part.n_features, part.dtype = len(indptr) - 1, n_features, data.dtype
        return part

    def as_csr(self) -> sp.csr_array:
        """The samples as SciPy's matrix, which shares their arrays."""
        shape = self.n, self.n_features
        return sp.csr_array((self.data, self.indices, self.indptr), shape=shape)

    def weights(self, coefficients: np.ndarray) -> np.ndarray:
        """Σ coefficients[i] · sample i, in float64."""
        found = np.zeros(self.n_features)
        _products.add_sparse_rows(self.data, self.indices, self.indptr, coefficients, found)
        return found

    def times(self, weights: np.ndarray, rows: slice) -> np.ndarray:
        """⟨sample i, weights⟩ of consecutive samples."""
        return _products.sparse_times(
            self.data, self.indices, self.indptr, weights, rows.start, rows.stop
        )

    def rbf_from_products(self, left, columns: slice, products, gamma: float, largest: float):
        terms = max(left._longest_row, self._longest_row)
        differences().sparse_rbf(
            products, left.norms, self.norms[columns], gamma, largest, terms,
            left._sorted, self._sorted, columns.start,
        )  # fmt: skip
        return products

    @cached_property
    def _longest_row(self) -> int:
        return int(np.diff(self.indptr).max(initial=0))

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and indptr with the features of each row in ascending order."""
        rows = self.as_csr()
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
        scale, least = _sums.exponent_scale(gamma, self.dtype)
        places, panel = targets._panel(rows, _sums.panel_width(self.dtype))
        _sums.add_rbf_expansion(
            self.data, self.indices, self.indptr, self.norms, coefficients, scale, least,
            targets.data, targets.indices, targets.indptr, targets.norms,
            rows.start, rows.stop, places, panel, out,
        )  # fmt: skip

    def add_symmetric_rbf_expansion(self, gamma: float, coefficients, rows: slice, out) -> None:
        """out[i] += what some rows add to the sum of own sample rows.start + i over all of them.

        Their values with themselves and with all samples that follow count for both samples.
        """
        scale, least = _sums.exponent_scale(gamma, self.dtype)
        places, panel = self._panel(rows, _sums.panel_width(self.dtype))
        _sums.add_symmetric_rbf_expansion(
            self.data, self.indices, self.indptr, self.norms, coefficients.astype(self.dtype),
            scale, least, rows.start, rows.stop, places, panel, out,
        )  # fmt: skip

    def _panel(self, rows: slice, lanes: int) -> tuple[np.ndarray, np.ndarray]:
        """Places of features and a panel for own rows, all zeros; users leave them zero.

        They lie in the calling thread's scratch memory.
        """
        n_numbered, n_places = 0, self.n_features
        if n_places * lanes * self.dtype.itemsize > _PANEL_BYTES:
            entries = _products.most_entries(self.indptr, rows.start, rows.stop, lanes)
            n_numbered, n_places = self.n_features, 1 + min(entries, self.n_features)
        places = thread_scratch("places").array((n_numbered,), np.dtype(np.int32))
        return places, thread_scratch("panel").array((n_places, lanes), self.dtype)


def to_csr(X, origin: np.ndarray | None = None):
    """X less the origin as a CSR matrix, on the session's threads."""
    # Neither the compiler nor SciPy's sparse matrices know all types that a dense array may have.
    dtype = X.dtype if X.dtype == np.float32 else np.dtype(np.float64)
    origin_row = np.full(X.shape[1], 0.0 if origin is None else origin, dtype)
    parts = split(X.shape[0], _CONVERTED_ROWS)
    indptr = np.zeros(X.shape[0] + 1, np.int64)

    def dense(rows: slice) -> np.ndarray:
        return np.ascontiguousarray(dense_rows(X[rows]), dtype)

    def count(rows: slice) -> None:
        _products.count_nonzeros(dense(rows), origin_row, indptr[1:][rows])

    run_blocks(count, parts)
    np.cumsum(indptr, out=indptr)
    # A difference of two float32 numbers has more digits than they.
    data = np.empty(indptr[-1], dtype if origin is None else np.float64)
    indices = np.empty(indptr[-1], np.int32)

    def take(rows: slice) -> None:
        part = slice(indptr[rows.start], indptr[rows.stop])
        _products.take_nonzeros(dense(rows), origin_row, data[part], indices[part])

    run_blocks(take, parts)
    return sp.csr_array((data, indices, indptr), shape=X.shape)
