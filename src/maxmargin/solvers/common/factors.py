"""The factor V of a kernel matrix K ≈ VVᵀ, stored or computed from landmarks when it is wanted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from typing import Self

import numpy as np
from scipy.linalg import get_blas_funcs, solve_triangular

from maxmargin.kernels.interface import KernelMatrix
from maxmargin.parallel import blas_threads, run_blocks, split

# Rows of V that one thread multiplies at a time, and rows that are made of landmarks at a time.
_ROWS_OF_V = 2048
ROWS_AT_ONCE = 8192
# Multiplications and kernel values between two questions whether to go on: about 0.1 s of one core.
_MULTIPLIES_AT_ONCE = 1e9
_VALUES_AT_ONCE = 2**25
# Part of the rows of V up to which they are sooner gathered than all of them read.
_FEW_ROWS = 0.3


class Stopped(Exception):
    """Raised between two blocks of work that the caller no longer wants."""


def pause_until(unwanted: Callable[[], object]) -> Callable[[], None]:
    """What to call between two blocks of work: it raises `Stopped` once that says so."""

    def pause() -> None:
        if unwanted():
            raise Stopped

    return pause


def rows_at_once(rank: int) -> int:
    """Rows of V that are made, or multiplied with each other, without asking whether to go on."""
    return int(min(ROWS_AT_ONCE, max(256, _MULTIPLIES_AT_ONCE / rank**2)))


def _gram(
    rows_of: Callable, index: np.ndarray, weights: np.ndarray, rank: int, pause: Callable
) -> np.ndarray:
    """VᵀAV of some rows, as a product with itself: half the work by symmetry."""
    total = np.zeros((rank, rank))
    for part in split(len(index), rows_at_once(rank)):
        pause()
        V = rows_of(index[part]) * np.sqrt(weights[part, np.newaxis])
        with blas_threads(V.size * rank):
            total += V.T @ V
    return total


class Factor(ABC):
    """V, with a row for each sample, as the systems of IRWLS see it."""

    n: int
    rank: int
    pause: Callable[[], None] = staticmethod(lambda: None)

    def pausing(self, pause: Callable[[], None]) -> Self:
        """The same factor, which calls `pause` between blocks of work.

        That raises `Stopped` where no more of it is wanted.
        """
        other = copy(self)
        other.pause = pause
        return other

    @abstractmethod
    def rows(self, index: np.ndarray) -> np.ndarray:
        """V[index]."""

    @abstractmethod
    def sums(self, x: np.ndarray) -> np.ndarray:
        """Vᵀx, for an x with or without many zeros."""

    @abstractmethod
    def times(self, w: np.ndarray, index: np.ndarray | None = None) -> np.ndarray:
        """Vw, of all samples or of some."""

    def gram(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """VᵀAV of some samples, with A the diagonal of their weights, none negative."""
        return _gram(self.rows, index, weights, self.rank, self.pause)


class StoredFactor(Factor):
    """V in memory."""

    def __init__(self, V: np.ndarray):
        self.V = V
        self.n, self.rank = V.shape

    def rows(self, index):
        return self.V[index]

    # One vector at a time: BLAS multiplies two of them, as a matrix, three times as slowly. The
    # parts are the same whatever the number of threads, and so are the bits.

    def sums(self, x):
        index = np.flatnonzero(x)
        if len(index) < _FEW_ROWS * self.n:
            return x[index] @ self.V[index]
        parts = split(self.n, _ROWS_OF_V)
        return np.sum(run_blocks(lambda rows: x[rows] @ self.V[rows], parts), axis=0)

    def times(self, w, index=None):
        if index is not None and len(index) < _FEW_ROWS * self.n:
            return self.V[index] @ w
        parts = split(self.n, _ROWS_OF_V)
        f = np.concatenate(run_blocks(lambda rows: self.V[rows] @ w, parts))
        return f if index is None else f[index]


def as_factor(V: np.ndarray | Factor) -> Factor:
    """An array as a factor."""
    return StoredFactor(V) if isinstance(V, np.ndarray) else V


class LandmarkFactor(Factor):
    """V = K(X, Z) L⁻ᵀ with K(Z, Z) = LLᵀ for few samples Z, of which nothing but L is stored.

    Products with V are sums of kernel values against the landmarks Z, which the kernel takes as
    fast as it can; only rows of few samples are ever made. Samples far from all landmarks have
    further columns, which are zero for all others and therefore cost next to nothing.

    Parameters
    ----------
    landmarks : numbers of the samples Z
    triangle : L
    shift : a constant that is added to each kernel value
    far, columns : numbers of the samples with further columns, and their rows of these
    index : the samples that V has rows for, by default all
    """

    def __init__(
        self, kernel: KernelMatrix, landmarks: np.ndarray, triangle: np.ndarray, shift: float,
        far: np.ndarray, columns: np.ndarray, index: np.ndarray | None = None,
    ):  # fmt: skip
        self.kernel, self.landmarks, self.triangle = kernel, landmarks, triangle
        self.shift, self.far, self.columns, self.index = shift, far, columns, index
        self.n = kernel.n if index is None else len(index)
        self._near = len(landmarks)
        self.rank = self._near + columns.shape[1]
        self._place = np.full(kernel.n, -1)
        self._place[far] = np.arange(len(far))
        if index is not None:
            self._place = self._place[index]

    def restrict(self, index: np.ndarray) -> LandmarkFactor:
        """V of some of its samples."""
        return LandmarkFactor(
            self.kernel, self.landmarks, self.triangle, self.shift, self.far, self.columns,
            self._numbers(index),
        )  # fmt: skip

    def _numbers(self, index: np.ndarray) -> np.ndarray:
        return index if self.index is None else self.index[index]

    def _far_samples(self, index: np.ndarray | slice) -> tuple[np.ndarray, np.ndarray]:
        """Which of these samples have further columns, and where."""
        place = self._place[index]
        which = np.flatnonzero(place >= 0)
        return which, place[which]

    def near_rows(self, index: np.ndarray) -> np.ndarray:
        """The columns that all samples have."""
        values = self.kernel.block(self._numbers(index), self.landmarks, dtype=np.float64)
        values += self.shift
        (trsm,) = get_blas_funcs(("trsm",), (values,))
        with blas_threads(float(values.size) * self._near):
            return trsm(1.0, self.triangle, values.T, lower=1, overwrite_b=1).T

    def rows(self, index):
        V = np.zeros((len(index), self.rank))
        for part in split(len(index), rows_at_once(self._near)):
            self.pause()
            V[part, : self._near] = self.near_rows(index[part])
        which, place = self._far_samples(index)
        V[which, self._near :] = self.columns[place]
        return V

    def sums(self, x):
        index, values = np.flatnonzero(x), np.zeros(self._near)
        for part in self._parts(len(index)):
            some = index[part]
            values += self.kernel.multiply(
                self._numbers(some), x[some], self.landmarks, precise=True
            )
        values += self.shift * x[index].sum()
        which, place = self._far_samples(index)
        near = solve_triangular(self.triangle, values, lower=True, check_finite=False)
        return np.concatenate([near, x[index[which]] @ self.columns[place]])

    def times(self, w, index=None):
        near = w[: self._near]
        coefficients = solve_triangular(
            self.triangle, near, lower=True, trans=1, check_finite=False
        )
        of = self._numbers(np.arange(self.n) if index is None else index)
        f = np.empty(len(of))
        for part in self._parts(len(of)):
            f[part] = self.kernel.multiply(self.landmarks, coefficients, of[part], precise=True)
        f += self.shift * coefficients.sum()
        which, place = self._far_samples(slice(None) if index is None else index)
        f[which] += self.columns[place] @ w[self._near :]
        return f

    def _parts(self, n: int) -> Iterator[slice]:
        """Parts of n samples whose kernel values are not many, with a pause before each."""
        for part in split(n, max(ROWS_AT_ONCE, _VALUES_AT_ONCE // self._near)):
            self.pause()
            yield part

    def gram(self, index, weights):
        near, total = slice(0, self._near), np.zeros((self.rank, self.rank))
        total[near, near] = _gram(self.near_rows, index, weights, self._near, self.pause)
        which, place = self._far_samples(index)
        weighted = self.columns[place] * weights[which, np.newaxis]
        further = slice(self._near, self.rank)
        total[near, further] = self.near_rows(index[which]).T @ weighted
        total[further, near] = total[near, further].T
        total[further, further] = self.columns[place].T @ weighted
        return total
