"""The operations that the solver needs from a processor or a GPU.

The solver is written once, against the array module `xp` (NumPy or CuPy) for what is
rarely done, and against the methods below for what must be fast.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import ModuleType

import numpy as np

from maxmargin.solvers.sweeps.pieces import Array, Kink, State, Variables


class Backend(ABC):
    """Arithmetic with the kernel matrix of a problem, where its samples are.

    Attributes
    ----------
    xp : NumPy or CuPy
    dtype : working precision, that of kernel values in memory
    name : what a report calls it
    block_size : samples of a working set, a multiple of 32
    max_blocks : most working sets that are optimised at the same time
    panel : columns of the Cholesky factor that are computed at a time
    precise : whether even products that need not be precise are in float64
    """

    xp: ModuleType
    dtype: np.dtype
    name: str
    block_size: int
    max_blocks: int
    panel: int
    precise: bool

    @abstractmethod
    def asarray(self, values: np.ndarray) -> Array:
        """A host array on the device."""

    @abstractmethod
    def to_host(self, values: Array) -> np.ndarray:
        """A device array as a NumPy array."""

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that may still be taken."""

    # The kernel matrix of all samples, which may be too large for the memory.

    @abstractmethod
    def block(self, rows: Array, columns: Array) -> Array:
        """K[rows][:, columns] in working precision."""

    @abstractmethod
    def matrix(self, index: Array) -> Array:
        """K[index][:, index] in working precision; the last such matrix may be overwritten."""

    @abstractmethod
    def replace(self, K: Array, index: Array, places: Array) -> None:
        """Make K the matrix of `index` again, after other samples have come to some places."""

    @abstractmethod
    def product(self, index: Array, coefficients: Array, precise: bool = True) -> Array:
        """K[:, index] @ coefficients, from scratch; in float64 if it is to be precise."""

    # Sweeps on a matrix in memory.

    @abstractmethod
    def submatrix(
        self, K: Array, rows: np.ndarray, columns: np.ndarray, ridge: float = 0.0
    ) -> Array:
        """(K + ridge · I)[rows][:, columns] in float64."""

    @abstractmethod
    def unit_columns(self, n: int, places: np.ndarray) -> Array:
        """Columns of the n × n identity."""

    @abstractmethod
    def nearest(self, rows: Array, landmarks: np.ndarray, places: np.ndarray) -> Array:
        """A key per sample: the place of its nearest landmark, then the distance from it.

        `rows` has the kernel values of the landmarks with all samples, a landmark per row.
        """

    @abstractmethod
    def state(self, at: Variables, kink: Kink) -> State:
        """The maximal violating pair of each sum."""

    @abstractmethod
    def pieces(self, at: Variables, kink: Kink, state: State, only: int | None) -> Variables:
        """See `pieces.pieces`; β is the same array. The operations of a sweep take its result."""

    @abstractmethod
    def working_sets(
        self, at: Variables, order: Array, threshold: float, bonus: float, shift: float
    ) -> tuple[Array, int]:
        """Working sets of the samples whose violation is above the threshold, one per row.

        Of too many samples those with the largest violations are taken; the second value is how
        many there were. The violation of a free sample counts as larger by `bonus`. Samples that
        should grow and samples that should shrink are taken as they come in `order` and cut into
        equally many pieces; piece k of the one and piece k of the other are working set k. Every
        set can thus move without changing its own sum, and most samples that would undo each
        other's steps are in the same one. `shift` moves the cuts by that part of a piece. Rows end
        with −1.
        """

    @abstractmethod
    def own_blocks(self, K: Array, index: Array) -> Array:
        """K[index[b]][:, index[b]] for each working set b, with zeros where `index` is negative."""

    @abstractmethod
    def steps(
        self, blocks: Array, at: Variables, index: Array, relative: float, tolerance: float,
        max_steps: int,
    ) -> tuple[Array, Array]:  # fmt: skip
        """The change of β by SMO steps within each working set, and how many steps it took.

        `blocks` are the kernel values of the sets, `index` the places of their samples in `at`.
        """

    @abstractmethod
    def pair_steps(
        self, K: Array, at: Variables, index: Array, relative: float, tolerance: float
    ) -> Array:
        """The change of β by SMO steps within each working set, a row of `index`.

        A set is optimised to the `relative` part of its violation, or to the tolerance.
        Negative numbers in `index` are padding.
        """

    @abstractmethod
    def block_products(self, K: Array, index: Array, change: Array) -> Array:
        """A matrix with row b = K[:, index[b]] @ change[b]."""

    @abstractmethod
    def couplings(self, at: Variables, index: Array, change: Array, products: Array) -> np.ndarray:
        """change[b] · products[c, index[b]] in row c and column b; change · pull last."""

    @abstractmethod
    def move(
        self, at: Variables, index: Array, change: Array, products: Array, lengths: np.ndarray
    ) -> None:
        """Add lengths[b] times the change of set b to β, and take the products off the residual.

        What comes within rounding of a bound is put on it.
        """

    # Newton steps.

    @abstractmethod
    def cholesky(self, A: Array) -> tuple[Array, Array] | None:
        """L and L⁻¹ of A = LLᵀ; None where A is not positive definite."""

    @abstractmethod
    def matrix_product(self, K: Array, index: Array, coefficients: Array) -> Array:
        """K[:, index] @ coefficients for a symmetric matrix in memory, summed up in float64."""

    @abstractmethod
    def solve_definite(self, A: Array, rows: np.ndarray, right: np.ndarray) -> np.ndarray | None:
        """A[rows][:, rows]⁻¹ right for a definite A on the device; None where it is not."""

    @abstractmethod
    def sweep_cost(self, values: float) -> float:
        """The cost of a sweep that reads this many kernel values, in a unit of the backend."""

    @abstractmethod
    def newton_cost(self, size: float) -> float:
        """The cost of a Newton step of this many samples, in the same unit."""

    def release(self) -> None:  # noqa: B027, most backends keep none
        """Give memory back that is kept for the next matrix."""

    def algebra(self, size: int) -> Backend:
        """The backend for the linear algebra of a Newton step of `size` samples."""
        return self
