"""Positive definite systems, and the same with a border: a column for each multiplier of a sum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs

from maxmargin.parallel import blas_threads

# Part of the trace that makes the matrix of repeated samples definite.
_RIDGE = 1e-13
# Called directly: SciPy's wrappers around them take longer than the systems of small problems.
_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), (np.empty((1, 1)),))


class Cholesky:
    """The factor of a symmetric float64 matrix, which is overwritten.

    Raises `LinAlgError` where the matrix is not positive definite.
    """

    def __init__(self, A: np.ndarray):
        with blas_threads(len(A) ** 3 / 3):
            self._factor, info = _potrf(A.T, lower=True, overwrite_a=True, clean=False)
        if info != 0:
            raise np.linalg.LinAlgError("The matrix is not positive definite.")

    @classmethod
    def with_ridge(cls, K: np.ndarray) -> Cholesky:
        """The factor of a copy of K with a ridge of the size of rounding."""
        A = np.array(K, dtype=np.float64, order="C")
        A.flat[:: len(A) + 1] += _RIDGE * float(np.abs(A.diagonal()).sum())
        return cls(A)

    def solve(self, right: np.ndarray) -> np.ndarray:
        with blas_threads(2.0 * right.size * len(self._factor)):
            return _potrs(self._factor, right, lower=True)[0]

    def inverse_columns(self, index: np.ndarray) -> np.ndarray:
        """Some columns of the inverse."""
        unit = np.zeros((len(self._factor), len(index)), order="F")
        unit[index, np.arange(len(index))] = 1.0
        return self.solve(unit)


class BorderedSystem:
    """A x + B m = right, Bᵀx + C m = sums, by elimination of x.

    Parameters
    ----------
    solve : A⁻¹ times one or more columns
    border : B, with few columns
    corner : C; zero where the sums are those of x alone
    """

    def __init__(self, solve: Callable, border: np.ndarray, corner: np.ndarray | float = 0.0):
        self._solve, self._border = solve, border
        self._by_border = solve(border)
        self._system = border.T @ self._by_border - corner

    def solve(
        self, right: np.ndarray, sums: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """x and the multipliers m."""
        by_right = self._solve(right)
        m = solve_multipliers(self._system, self._border.T @ by_right - sums)
        return by_right - self._by_border @ m, m


def solve_multipliers(system: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The multipliers of the sums; of the least size where the system is singular.

    It is where all samples of one sum are at their bounds.
    """
    if len(right) == 1 and system[0, 0] != 0.0:
        return right / system[0]
    return np.linalg.lstsq(system, right, rcond=None)[0]
