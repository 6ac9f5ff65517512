"""The kernel matrix of samples with features."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np

from maxmargin import constants
from maxmargin.kernels.feature_major import feature_major, kernel_parameters
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.gauss_transform import MOST_FEATURES, corners, cost_within
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.kernels.samples import as_samples, to_csr_if_sparse, without_empty_features
from maxmargin.kernels.samples.dense import dense_rows
from maxmargin.kernels.samples.mapped import COPIED_BYTES, MappedSamples, is_mapped
from maxmargin.kernels.tiles import (
    cancels,
    check_finite,
    expansion,
    fill,
    fill_streaming,
    fill_symmetric,
    samples_for,
    sum_linear,
    sum_values,
    symmetric_expansion,
)
from maxmargin.parallel import run_blocks, split

if TYPE_CHECKING:
    from maxmargin.kernels.samples.dense import DenseSamples

# Rows of X that are looked at together.
_ROWS_AT_ONCE = 2**16
# Bytes of few features that are copied into a dense array, at most.
_FEATURE_BYTES = 2**25


def has_few_features(X, kernel) -> bool:
    """Whether a kernel matrix is that of a linear kernel with few features."""
    if kernel != "linear" or is_mapped(X):
        return False
    n, n_features = X.shape
    few = n_features <= min(constants.INTERIOR_POINT_FEATURES, n)
    return few and 8 * n * n_features <= _FEATURE_BYTES


class FeatureKernelMatrix(KernelMatrix):
    """Kernel matrix of samples with features.

    Parameters
    ----------
    X : dense array or CSR matrix
        Kept for values in float64, by reference or, where that has fewer non-zeros, as a
        CSR matrix of the samples less a common vector that the kernel does not see; the
        working copy has `dtype`.
    """

    def __init__(self, X, function: KernelFunction, dtype, parent=None, index=None):
        super().__init__(parent)
        if parent is None:
            X = without_empty_features(to_csr_if_sparse(X, function.translation_invariant))
        self.X, self.function, self.dtype = X, function, np.dtype(dtype)
        self._index = index
        self._part_of: FeatureKernelMatrix | None = None if parent is None else parent._root
        if parent is None:
            self._samples = samples_for(function, X, dtype)
            check_finite(function, self._samples.norms)
        else:
            self._index = parent._numbers(index)
            exact_enough = parent._is_double or parent.dtype == self.dtype
            if exact_enough:
                self._samples = parent._samples.subset(index)
            elif isinstance(parent._samples, MappedSamples):
                self._samples = parent._samples.subset(index, dtype)
            else:
                self._samples = samples_for(function, self.features(), dtype)
        self.n = self._samples.n
        self.product_without_values = function.name == "linear"
        self.cheap = self._samples.multiplies_per_value <= constants.CHEAP_MULTIPLIES

    @property
    def _root(self) -> FeatureKernelMatrix:
        """The matrix of all samples, which has what its subsets share."""
        return self if self._part_of is None else self._part_of

    def with_own_counter(self):
        other = cast("FeatureKernelMatrix", super().with_own_counter())
        other._part_of = self._root
        return other

    def _numbers(self, index: np.ndarray) -> np.ndarray:
        """Rows of X of the samples `index`."""
        return index if self._index is None else self._index[index]

    def _rows_of_X(self, rows: slice | np.ndarray):
        return self.X[rows] if self._index is None else self.X[self._index[rows]]

    @property
    def _is_double(self) -> bool:
        """Whether the working copy is as exact as X."""
        return self._samples.dtype == np.float64

    def diagonal(self):
        if self.function.name == "rbf":
            return np.ones(self.n)
        norms = self._root._norms
        return self.function.diagonal(norms if self._index is None else norms[self._index])

    @cached_property
    def _norms(self) -> np.ndarray:
        """Float64 squared norms of all rows of X: once for it and all its subsets."""
        return as_samples(self.X, np.float64).norms

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        n_columns = self.n if columns is None else len(columns)
        dtype = np.dtype(self.dtype if dtype is None else dtype)
        if out is None:
            out = np.empty((len(rows), n_columns), dtype)
        in_samples = self._is_double or dtype != np.float64
        if in_samples and columns is rows and slots is None:
            self._fill_symmetric(self._samples.subset(rows), out)
            return out
        self.counter.add(len(rows) * n_columns)
        if in_samples:
            right = self._samples if columns is None else self._samples.subset(columns)
            fill(self.function, self._samples.subset(rows), right, out, slots)
            return out
        left = samples_for(self.function, self._rows_of_X(rows), np.float64)
        if columns is rows:
            fill(self.function, left, left, out, slots)
            return out
        values = out if slots is None else np.empty((len(rows), n_columns))

        def features(part: slice):
            return self._rows_of_X(part if columns is None else columns[part])

        fill_streaming(self.function, left, features, n_columns, values)
        if slots is not None:
            out[slots] = values
        return out

    def multiply(self, index, coefficients, rows=None, precise=False):
        n_rows = self.n if rows is None else len(rows)
        if len(index) == 0:
            return np.zeros(n_rows)
        if self.function.name == "linear":
            if is_mapped(self.X) or (precise and not self._is_double):
                return self._through_weights(index, coefficients, rows)
            right = self._samples if rows is None else self._samples.subset(rows)
            return sum_linear(self._samples.subset(index), coefficients, right)
        if precise and not self._is_double:
            return self._multiply_precisely(index, coefficients, rows)
        right = self._samples if rows is None else self._samples.subset(rows)
        left = self._samples.subset(index)
        return sum_values(self.function, left, coefficients, right, self.counter)

    def _multiply_precisely(self, index, coefficients: np.ndarray, rows) -> np.ndarray:
        """The product from float64 values."""
        factors = coefficients[:, np.newaxis]
        if rows is None and self._uses_symmetry and (index[1:] > index[:-1]).all():
            # A value of two samples of `index` counts for both of them.
            basis = samples_for(self.function, self._rows_of_X(index), np.float64)
            others = np.setdiff1d(np.arange(self.n), index, assume_unique=True)
            result = np.empty(self.n)
            result[index] = symmetric_expansion(self.function, basis, coefficients, self.counter)
            numbers = self._numbers(others)
            sums = expansion(self.function, self.X, basis, factors, numbers, self.counter)
            result[others] = sums[:, 0]
            return result
        targets = self._index if rows is None else self._numbers(rows)
        result = np.zeros(self.n if rows is None else len(rows))
        for part in self._in_memory_at_once(len(index)):
            basis = samples_for(self.function, self._rows_of_X(index[part]), np.float64)
            sums = expansion(self.function, self.X, basis, factors[part], targets, self.counter)
            result += sums[:, 0]
        return result

    def values_of_product(self, n_index, n_rows):
        if self.product_without_values:
            return float(n_index + n_rows)  # a pass over the samples, twice
        corners = self._root._corners
        if corners is None:
            return float(n_index * n_rows)
        cost = cost_within(self.function.gamma, *corners, n_index, n_rows)
        return min(cost, float(n_index * n_rows))

    def values_of_certificate(self, n_support):
        values = self.values_of_product(n_support, self.n)
        every_value = n_support * self.n
        if values < every_value or not self._uses_symmetry:
            return values
        return every_value - 0.5 * n_support**2

    @property
    def _uses_symmetry(self) -> bool:
        """Whether a precise product computes values of two of its samples once."""
        return not self._is_double and not is_mapped(self.X)

    @cached_property
    def _corners(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The least and the largest value of each feature; None where sums of values need none."""
        samples = self._samples
        few = samples.n_features <= MOST_FEATURES and not samples.is_sparse
        if self.function.name != "rbf" or not few:
            return None
        rows = split(self.X.shape[0], _ROWS_AT_ONCE)
        return corners(dense_rows(self.X[part]) for part in rows)

    def _in_memory_at_once(self, n: int) -> list[slice]:
        """Parts of n rows that are taken into memory: all, unless X is mapped from a file."""
        if not is_mapped(self.X):
            return [slice(0, n)]
        return split(n, max(constants.TILE_ROWS, COPIED_BYTES // (8 * self.X.shape[1])))

    def _through_weights(self, index, coefficients: np.ndarray, rows) -> np.ndarray:
        """The linear kernel's product as X (X[index]ᵀ c), without any kernel values."""
        weights = sum(
            self._rows_of_X(index[part]).T @ coefficients[part]
            for part in self._in_memory_at_once(len(index))
        )
        result = np.empty(self.n if rows is None else len(rows))

        def fill_part(part: slice) -> None:
            result[part] = self._rows_of_X(part if rows is None else rows[part]) @ weights

        run_blocks(fill_part, split(len(result), constants.TILE_ROWS))
        return result

    def restrict(self, index, dtype=None):
        dtype = self.dtype if dtype is None else dtype
        return FeatureKernelMatrix(self.X, self.function, dtype, parent=self, index=index)

    def positions(self):
        return np.arange(self.n) if self._index is None else self._index

    def features(self):
        return self.X if self._index is None else self.X[self._index]

    def few_features(self):
        if not has_few_features(self.X, self.function.name):
            return None
        X = self.features()
        return np.ascontiguousarray(X if isinstance(X, np.ndarray) else X.toarray(), np.float64)

    def fill_symmetric(self, out: np.ndarray, of: slice | None = None) -> None:
        """out = K of all samples or of consecutive ones, half of it computed."""
        self._fill_symmetric(self._samples if of is None else self._samples.part(of), out)

    def _fill_symmetric(self, samples, out: np.ndarray) -> None:
        fill_symmetric(self.function, samples, out)
        self.counter.add(samples.n * (samples.n + 1) // 2)

    def row_source(self) -> tuple | None:
        """What compiled code computes rows from; None where inner products do not suffice.

        Samples feature by feature, one by one, and one by one for matrix products, which are
        the faster ones from some dozens of features on; norms; parameters of the kernel.
        """
        function, samples, nothing = self.function, self._samples, np.empty((0, 0), self.dtype)
        if cancels(function, samples) or isinstance(samples, MappedSamples):
            return None
        dense = None if samples.is_sparse else cast("DenseSamples", samples)
        if dense is not None and dense.n_features >= constants.FEATURES_WORTH_PRODUCTS:
            parameters = 0.0, *kernel_parameters(function, float)
            return nothing, nothing, dense.X, dense.norms, parameters
        found = self.feature_major()
        if found is None:
            return None
        one_by_one = np.ascontiguousarray(found.table.T)
        return found.table, one_by_one, nothing, found.norms, found.parameters

    def feature_major(self):
        mapped = isinstance(self._samples, MappedSamples)
        if mapped or cancels(self.function, self._samples):
            return None
        return feature_major(self._samples, self.function)
