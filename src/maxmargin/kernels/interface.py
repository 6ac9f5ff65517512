"""The kernel matrix as solvers see it: values in blocks, products, subsets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import cached_property

import numpy as np

from maxmargin.kernels.buffers import BufferPool


class EvaluationCounter:
    """How many kernel values were computed."""

    def __init__(self):
        self.n = 0

    def add(self, n_values: int) -> None:
        self.n += n_values


class KernelOrigin:
    """What a kernel matrix and all its subsets have in common: the data that they come from.

    Whoever remembers something about the data keeps it in a `WeakKeyDictionary` by this.

    Attributes
    ----------
    row_buffers : memory for kernel rows, used by one problem on these data after the other
    """

    def __init__(self):
        self.row_buffers = BufferPool()


class KernelMatrix(ABC):
    """A symmetric n × n matrix of kernel values, computed when requested.

    A subclass sets `n` and `dtype` and has `diagonal`, `block`, `multiply` and `restrict`. The
    other methods are capabilities that some solvers ask for; their defaults say that there
    is none.

    Attributes
    ----------
    n : number of samples
    dtype : precision of values that are not requested in float64
    cheap : whether values are computed sooner than they are read from a cache of many rows
    product_without_values : whether `multiply` computes no kernel values, and costs less than a row
    counter : of the values computed by this matrix and its subsets
    origin : one for all subsets of the same matrix
    copied_from : the matrix that this one is a copy of in memory, else None
    """

    n: int
    dtype: np.dtype
    cheap = False
    product_without_values = False

    def __init__(self, parent: KernelMatrix | None = None):
        self.counter: EvaluationCounter = EvaluationCounter() if parent is None else parent.counter
        self.origin: KernelOrigin = KernelOrigin() if parent is None else parent.origin
        # None instead of itself: a cycle would keep the memory, that of a GPU as well, until the
        # garbage collector runs, and the next fit would take new pages from the system.
        self.copied_from: KernelMatrix | None = None

    @abstractmethod
    def diagonal(self) -> np.ndarray:
        """The float64 diagonal."""

    @abstractmethod
    def block(
        self,
        rows: np.ndarray,
        columns: np.ndarray | None = None,
        dtype=None,
        out: np.ndarray | None = None,
        slots: np.ndarray | None = None,
    ) -> np.ndarray:
        """K[rows][:, columns].

        Parameters
        ----------
        columns : which; None for all. Where it is the array `rows` itself, half of the values may
            be computed
        dtype : np.float64 for values from scratch in float64; None for the matrix's own
        out : where to put them, out[slots[k], :] = K[rows[k], columns]; None for a new array
        slots : rows of `out`; None for 0, 1, 2, …
        """

    @abstractmethod
    def multiply(
        self,
        index: np.ndarray,
        coefficients: np.ndarray,
        rows: np.ndarray | None = None,
        precise: bool = False,
    ) -> np.ndarray:
        """K[rows][:, index] @ coefficients as a new float64 array.

        Parameters
        ----------
        rows : which; None for all
        precise : from scratch in float64, instead of values of `dtype` summed in float64
        """

    def values_of_product(self, n_index: int, n_rows: int) -> float:
        """Kernel values that take as long as `multiply` with so many samples for so many rows."""
        return float(n_index * n_rows)

    def values_of_certificate(self, n_support: int) -> float:
        """The same of a product for all rows in float64."""
        return self.values_of_product(n_support, self.n)

    @abstractmethod
    def restrict(self, index: np.ndarray, dtype=None) -> KernelMatrix:
        """The matrix of a subset of the samples, in that order.

        `dtype` is a wish: values that the user computed stay as they are.
        """

    @cached_property
    def scale(self) -> float:
        """The size of the values: thresholds on them are multiplied by it, those on β divided.

        Features times s make values of a linear kernel times s² and the optimal β times
        1/s², while residual, intercept and tol stay as they are.
        """
        return scale_of(self.diagonal())

    @property
    def source(self) -> KernelMatrix:
        """The matrix that this one is a copy of, else itself."""
        return self if self.copied_from is None else self.copied_from

    @property
    def evaluations(self) -> int:
        """Kernel values computed so far, those of its subsets included."""
        return self.counter.n

    def with_own_counter(self) -> KernelMatrix:
        """The same matrix with a counter of its own, for a task on another thread."""
        other = copy(self)
        other.counter = EvaluationCounter()
        return other

    def share_counter(self, other: KernelMatrix) -> None:
        """Let values of this matrix count as the other's."""
        self.counter = other.counter

    def as_array(self) -> np.ndarray | None:
        """The whole matrix as an array of `dtype` if it is in memory, else None."""
        return None

    def positions(self) -> np.ndarray:
        """Numbers of the samples in the whole matrix that this one is a subset of."""
        return np.arange(self.n)

    def features(self):
        """The samples as rows of a dense array or CSR matrix; None where there are none."""
        return None

    def few_features(self) -> np.ndarray | None:
        """X with K = XXᵀ as a float64 array of few columns; None where there is none."""
        return None

    def feature_major(self):
        """A `FeatureMajorSamples`, which computes one row at a time; None where there is none."""
        return None


def scale_of(diagonal: np.ndarray) -> float:
    """The size of the values of a kernel matrix with this diagonal."""
    return float(np.abs(diagonal).mean()) or 1.0


def put(values: np.ndarray, out: np.ndarray | None, slots: np.ndarray | None) -> np.ndarray:
    """`values`, or `out` after they were put there: what `KernelMatrix.block` returns."""
    if out is None:
        return values
    out[slice(len(values)) if slots is None else slots, : values.shape[1]] = values
    return out
