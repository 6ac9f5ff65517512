"""The kernel matrix of a problem: hands out rows and blocks, never the whole.

Solvers see a `KernelMatrix` and nothing of the data behind it. Values are
computed in tiles small enough for the processor's cache: one matrix product,
one element-wise pass, one store, shared out over the session's threads.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from copy import copy
from functools import cached_property
from itertools import product as pairs

import numpy as np

from maxmargin.kernels._rows import subtract_rows
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import (
    Samples,
    SparseSamples,
    aligned_zeros,
    as_samples,
    with_few_nonzeros,
    without_empty_features,
)
from maxmargin.parallel import n_threads, run_blocks, split

# Tiles of this many rows and columns: large enough for BLAS to reach its speed.
_TILE_ROWS = 512
_TILE_COLUMNS = 1024
# Float32 values of few products from which on two threads are faster than one (some 200 µs), and
# the products that take as long as what else there is to do for a value.
_WORTH_THREADS = 300_000
_PRODUCTS_OF_A_VALUE = 32
# A value of this many products takes as long as to gather it from a row that is not in the
# processor's cache (about 2 ns on two cores).
_CHEAP_PRODUCTS = 128
# From this many samples on, their sums are worth the layout that saves storing the values.
_WORTH_SUMMING = 256
# Part of the samples from which on float64 products are faster than differences of features.
_FEW_FAR = 1 / 16
# Kernel matrices up to this size have rows in float64, larger ones in float32.
_DOUBLE_PRECISION_BYTES = 2 * 2**20
_thread = threading.local()


def precision_of_rows(n: int) -> type:
    """The type of the rows of a kernel matrix of n samples."""
    return np.float64 if 8 * n * n <= _DOUBLE_PRECISION_BYTES else np.float32


def _buffer(shape: tuple[int, int], dtype) -> np.ndarray:
    """A scratch tile of the calling thread; fresh memory for each would cost page faults."""
    size = shape[0] * shape[1]
    held = getattr(_thread, "buffers", None)
    if held is None:
        held = _thread.buffers = {}
    key = np.dtype(dtype).char
    if key not in held or held[key].size < size:
        held[key] = aligned_zeros((max(size, _TILE_ROWS * _TILE_COLUMNS),), dtype)
    return held[key][:size].reshape(shape)


def _columns_of_tile(n_rows: int, right: Samples) -> int:
    """Columns of a tile: wider where the rows are few, but at least one tile a thread."""
    work = n_rows * right.n * (1 + right.products_per_value / _PRODUCTS_OF_A_VALUE)
    if work * right.dtype.itemsize < _WORTH_THREADS * 4:
        return right.n
    wide = _TILE_COLUMNS * max(1, _TILE_ROWS // max(1, n_rows))
    return max(_TILE_COLUMNS // 4, min(wide, -(-right.n // n_threads())))


def samples_for(function: KernelFunction, X, dtype) -> Samples:
    """Samples of X for values of this kernel in `dtype`; in float64 if float32 is too inexact."""
    samples = as_samples(X, dtype, centre=function.translation_invariant)
    if samples.dtype == np.float32 and _cancels(function, samples):
        far = np.count_nonzero(samples.norms > function.largest_norm(samples.dtype))
        if far > _FEW_FAR * samples.n:
            return samples_for(function, X, np.float64)
    return samples


def _cancels(function: KernelFunction, *samples: Samples) -> bool:
    """Whether neighbours among the samples are too far from the origin for inner products."""
    norm = min(part.largest_norm for part in samples)  # neighbours have about the same norm
    return norm > function.largest_norm(samples[0].dtype)


def kernel_tile(
    function: KernelFunction, left: Samples, right: Samples, columns: slice
) -> np.ndarray:
    """Kernel values of the left samples against `columns` of the right ones.

    The result lies in the calling thread's scratch tile and is gone with its next call.
    """
    out = _buffer((left.n, columns.stop - columns.start), right.dtype)
    right.products(left, columns, out)
    if _cancels(function, left, right):
        largest = function.largest_norm(right.dtype)
        return right.rbf_from_products(left, columns, out, float(function.gamma), largest)
    return function.from_products(out, left.norms, right.norms[columns])


def expansion(
    function: KernelFunction, X, basis: Samples, coefficients: np.ndarray, index=None
) -> np.ndarray:
    """K(X[index], basis) @ coefficients, a tile at a time, in the precision of the basis.

    Rows of X are taken for each tile: X[index] as a whole could be as large as X.
    """
    n = X.shape[0] if index is None else len(index)
    result = np.zeros((n, coefficients.shape[1]))
    coefficients = coefficients.astype(basis.dtype, copy=False)
    summable = _summable(function, basis) if coefficients.shape[1] == 1 else None

    def evaluate(rows: slice) -> None:
        left = basis.like(X[rows] if index is None else X[index[rows]])
        if summable is not None:
            target = result[rows, 0]
            summable.add_rbf_expansion(
                function.gamma, coefficients[:, 0], left, slice(0, left.n), target
            )
            return
        for columns in split(basis.n, _TILE_COLUMNS):
            result[rows] += kernel_tile(function, left, basis, columns) @ coefficients[columns]

    run_blocks(evaluate, split(n, _TILE_ROWS))
    return result


def _summable(function: KernelFunction, samples: Samples) -> SparseSamples | None:
    """The samples if sums of their kernel values are made without storing the values."""
    if function.name != "rbf" or not isinstance(samples, SparseSamples):
        return None
    return None if _cancels(function, samples) else samples


def scale_of(diagonal: np.ndarray) -> float:
    """The size of the values of a kernel matrix with this diagonal."""
    return float(np.abs(diagonal).mean()) or 1.0


class KernelMatrix(ABC):
    """A symmetric n × n matrix of kernel values, computed when asked for.

    Attributes
    ----------
    n : number of samples
    dtype : precision of `rows`; everything else is float64
    cheap : whether values are computed sooner than they are read from a cache of many rows
    evaluations : kernel values computed so far, those of its subsets included
    source : the matrix that this one is a copy of in memory, else itself
    shared : what solvers keep for other problems on the same data; one for all subsets
    """

    n: int
    dtype: np.dtype
    cheap = False

    def __init__(self, parent: KernelMatrix | None = None):
        self._count: list[int] = [0] if parent is None else parent._count
        self.source: KernelMatrix = self
        self.shared: dict = {} if parent is None else parent.shared

    @property
    def evaluations(self) -> int:
        return self._count[0]

    def count(self, n_values: int) -> None:
        self._count[0] += n_values

    def count_for(self, other: KernelMatrix) -> None:
        """Let kernel values of this matrix count as the other's."""
        self._count = other._count

    def features(self):
        """The samples as rows of a dense array or CSR matrix; None where there are none."""
        return None

    def by_feature(self):
        """A `SamplesByFeature`, which computes one row at a time; None where there is none."""
        return None

    def positions(self) -> np.ndarray:
        """Numbers of the samples in the whole matrix that this one is a subset of."""
        return np.arange(self.n)

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """The float64 diagonal."""

    @abstractmethod
    def rows(self, index: np.ndarray, out: np.ndarray, slots: np.ndarray | None = None) -> None:
        """out[slots[k], :n] = K[index[k], :]; slots default to 0, 1, 2, …"""

    @property
    def scale(self) -> float:
        """The size of the values: thresholds on them are multiplied by it, those on β divided.

        Features times s make values of a linear kernel times s² and the optimal β times
        1/s², while residual, intercept and tol stay as they are.
        """
        return scale_of(self.diagonal())

    @abstractmethod
    def product(self, index: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """K[:, index] @ coefficients, from scratch in float64."""

    @abstractmethod
    def restrict(self, index: np.ndarray) -> KernelMatrix:
        """The matrix of a subset of the samples, in that order."""

    def subtract(self, residual, index: np.ndarray, change: np.ndarray, of=None) -> None:
        """residual −= K[of][:, index] @ change in the precision of `rows`; `of` defaults to all."""
        if of is None:
            residual -= self.product(index, change)
        else:
            residual -= self.partial_product(of, index, change)

    def cross(
        self, index: np.ndarray, columns: np.ndarray, out: np.ndarray, slots: np.ndarray
    ) -> None:
        """out[slots[k]] = K[index[k], columns]."""
        rows = np.empty((len(index), self.n), self.dtype)
        self.rows(index, rows)
        out[slots] = rows[:, columns]

    def partial_product(self, rows: np.ndarray, index: np.ndarray, coefficients: np.ndarray):
        """K[rows][:, index] @ coefficients, from scratch in float64."""
        together = np.unique(np.concatenate([rows, index]))
        part = self.restrict(together)
        values = part.product(np.searchsorted(together, index), coefficients)
        return values[np.searchsorted(together, rows)]

    def counted_apart(self) -> KernelMatrix:
        """The same matrix with a count of evaluations of its own, for a task on another thread."""
        apart = copy(self)
        apart._count = [0]
        apart.source = apart if self.source is self else self.source
        return apart

    def in_memory(self) -> np.ndarray | None:
        """The whole matrix as an array of `dtype`, if it is one already."""
        return None

    def held(self) -> KernelMatrix:
        """The same matrix with all its values in memory, for small ones in float64."""
        from maxmargin.kernels.in_memory import HeldKernelMatrix

        return HeldKernelMatrix.of(self)

    def restrict_in_double(self, index: np.ndarray) -> KernelMatrix:
        """The same with float64 rows, where the data behind the matrix allow it."""
        return self.restrict(index)

    def columns(self, index: np.ndarray) -> np.ndarray:
        """K[:, index] as a new float64 array."""
        out = np.empty((len(index), self.n), self.dtype)
        self.rows(index, out)
        return out.T.astype(np.float64)

    def block(self, index: np.ndarray) -> np.ndarray:
        """K[index][:, index] as a new float64 array."""
        return self.restrict(index).columns(np.arange(len(index)))


class FeatureKernelMatrix(KernelMatrix):
    """Kernel matrix of samples with features.

    Parameters
    ----------
    X : dense array or CSR matrix
        Kept by reference for `product`; the solver's working copy has `dtype`.
    """

    def __init__(self, X, function: KernelFunction, dtype, parent=None, index=None):
        super().__init__(parent)
        X = without_empty_features(with_few_nonzeros(X)) if parent is None else X
        self.X, self.function, self.dtype = X, function, np.dtype(dtype)
        self._index = index
        self._root: FeatureKernelMatrix = self if parent is None else parent._root
        if parent is None:
            self._samples = samples_for(function, X, dtype)
            _check_finite(self._samples.norms, function.gamma)
        else:
            own = parent._index if parent._index is not None else np.arange(parent.n)
            self._index, self._samples = own[index], parent._samples.subset(index)
        self.n = self._samples.n
        self.cheap = self._samples.products_per_value <= _CHEAP_PRODUCTS

    def features(self):
        return self.X if self._index is None else self.X[self._index]

    def by_feature(self):
        from maxmargin.kernels.feature_major import by_feature

        if _cancels(self.function, self._samples):
            return None
        return by_feature(self._samples, self.function)

    def positions(self):
        return np.arange(self.n) if self._index is None else self._index

    def diagonal(self):
        if self.function.name == "rbf":
            return np.ones(self.n)
        norms = self._root._norms
        return self.function.diagonal(norms if self._index is None else norms[self._index])

    @cached_property
    def _norms(self) -> np.ndarray:
        """Float64 squared norms of all rows of X: once for it and all its subsets."""
        return as_samples(self.X, np.float64).norms

    def rows(self, index, out, slots=None):
        index = np.asarray(index)
        slots = np.arange(len(index)) if slots is None else slots
        self._fill(index, self._samples, out, slots)

    def cross(self, index, columns, out, slots):
        self._fill(index, self._samples.subset(columns), out, slots)

    def _fill(self, index, right: Samples, out: np.ndarray, slots: np.ndarray) -> None:
        """out[slots[k], :] = values of sample index[k] with the samples `right`."""

        def fill(tile) -> None:
            (part, left), columns = tile
            out[slots[part], columns] = kernel_tile(self.function, left, right, columns)

        columns = split(right.n, _columns_of_tile(len(index), right))
        run_blocks(fill, pairs(self._lefts(index), columns))
        self.count(len(index) * right.n)

    def _lefts(self, index: np.ndarray) -> list[tuple[slice, Samples]]:
        """The samples `index`, as many at a time as a tile has rows."""
        return [(part, self._samples.subset(index[part])) for part in split(len(index), _TILE_ROWS)]

    def subtract(self, residual, index, change, of=None):
        right = self._samples if of is None else self._samples.subset(of)
        summable = _summable(self.function, self._samples)
        if summable is not None and len(index) >= _WORTH_SUMMING:
            self._subtract_sums(residual, summable.subset(index), change, right)
        else:
            self._subtract_tiles(residual, self._lefts(index), change, right)
        self.count(len(index) * right.n)

    def _subtract_sums(self, residual, left: SparseSamples, change, right: Samples) -> None:
        def subtract(columns: slice) -> None:
            target = residual[columns]
            left.add_rbf_expansion(self.function.gamma, -change, right, columns, target)

        run_blocks(subtract, split(right.n, _TILE_COLUMNS))

    def _subtract_tiles(self, residual, lefts, change, right: Samples) -> None:
        def subtract(columns: slice) -> None:
            target = residual[columns]
            for part, left in lefts:
                tile = kernel_tile(self.function, left, right, columns)
                subtract_rows(target, tile, np.arange(left.n), change[part], 0, target.size)

        n_left = sum(left.n for _, left in lefts)
        run_blocks(subtract, split(right.n, _columns_of_tile(n_left, right)))

    def product(self, index, coefficients):
        if len(index) == 0:
            return np.zeros(self.n)
        samples = index if self._index is None else self._index[index]
        if self.function.name == "linear":
            return self._through_weights(samples, coefficients)
        return self._expanded(samples, coefficients, self._index)

    def _expanded(self, samples: np.ndarray, coefficients: np.ndarray, of) -> np.ndarray:
        """Σ_s k(x, x_s) · coefficients[s] in float64 for the rows `of` of X, or all of them."""
        basis = samples_for(self.function, self.X[samples], np.float64)
        values = expansion(self.function, self.X, basis, coefficients[:, np.newaxis], of)[:, 0]
        self.count(len(samples) * len(values))
        return values

    def _through_weights(self, samples: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """The linear kernel's product as X (X[samples]ᵀ c), without any kernel values."""
        weights = self.X[samples].T @ coefficients
        result = np.empty(self.n)

        def fill(rows: slice) -> None:
            result[rows] = self._rows_of_X(rows) @ weights

        run_blocks(fill, split(self.n, _TILE_ROWS))
        return result

    def _rows_of_X(self, rows: slice):
        return self.X[rows] if self._index is None else self.X[self._index[rows]]

    def partial_product(self, rows, index, coefficients):
        if len(index) == 0:
            return np.zeros(len(rows))
        own = self.positions()
        return self._expanded(own[index], coefficients, own[rows])

    def columns(self, index):
        samples = index if self._index is None else self._index[index]
        basis = samples_for(self.function, self.X[samples], np.float64)
        out = np.empty((self.n, basis.n))

        def fill(rows: slice) -> None:
            left = basis.like(self._rows_of_X(rows))
            for columns in split(basis.n, _TILE_COLUMNS):
                out[rows, columns] = kernel_tile(self.function, left, basis, columns)

        run_blocks(fill, split(self.n, _TILE_ROWS))
        self.count(out.size)
        return out

    def restrict(self, index):
        return FeatureKernelMatrix(self.X, self.function, self.dtype, parent=self, index=index)

    def restrict_in_double(self, index):
        part = self.restrict(index)
        if part.dtype != np.float64:
            part.dtype = np.dtype(np.float64)
            part._samples = samples_for(self.function, part.features(), np.float64)
        return part


def _check_finite(norms: np.ndarray, gamma: float) -> None:
    if not (np.isfinite(norms).all() and np.isfinite(gamma)):
        raise ValueError(
            "The dual coefficients or intercepts are not finite: squared norms of the input "
            "overflow. The input data may contain large values and need to be preprocessed."
        )
