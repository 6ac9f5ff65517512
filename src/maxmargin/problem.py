"""The dual quadratic problem that every solver solves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.kernels.feature_matrix import KernelMatrix

_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Problem:
    """minimise ½ βᵀKβ − pᵀβ  subject to  lower ≤ β ≤ upper,  Σβ = 0.

    This is the dual of every support vector machine in its signed form β = yα;
    formulations differ in `linear` (p) and the bounds alone.

    Attributes
    ----------
    kernel : the matrix K
    linear, lower, upper : float64 arrays of length n
    tol : the KKT violation at which the problem counts as solved
    cache_bytes : memory that kernel values may take
    start : a feasible β to start from, or None
    start_residual : p − Kβ at the start, where somebody has computed it
    random_state : seed for solvers that draw random numbers
    groups : class number of each sample, or None; one-vs-rest joins many classes in one sign
    draft : whether others judge its answer: then the solver need not do so in float64, and
        does not refine it
    refine : whether a small problem is solved beyond tol, to the exact optimum
    """

    kernel: KernelMatrix
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    tol: float = 1e-3
    cache_bytes: int = 200 * 2**20
    start: np.ndarray | None = None
    start_residual: np.ndarray | None = None
    random_state: int = 0
    groups: np.ndarray | None = None
    draft: bool = False
    refine: bool = True

    @property
    def n(self) -> int:
        return self.kernel.n

    def initial_beta(self) -> np.ndarray:
        """The start, made feasible; zero, which always is, where there is none."""
        if self.start is None:
            return np.zeros(self.n)
        return nearest_feasible(self.start, self.lower, self.upper)

    def residual_of(self, beta: np.ndarray) -> np.ndarray:
        """p − Kβ, from scratch in the precision of the kernel's rows."""
        residual, support = self.linear.copy(), np.flatnonzero(beta)
        if len(support):
            self.kernel.subtract(residual, support, beta[support])
        return residual

    def restrict(self, index: np.ndarray) -> Problem:
        """The problem of a subset of the samples, the others being held at zero."""
        return replace(
            self,
            kernel=self.kernel.restrict(index),
            linear=self.linear[index],
            lower=self.lower[index],
            upper=self.upper[index],
            start=None if self.start is None else self.start[index],
            start_residual=None,
            groups=None if self.groups is None else self.groups[index],
        )


def nearest_feasible(
    beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: float = 0.0
) -> np.ndarray:
    """A feasible β near the given one: within its bounds, and Σβ = total.

    What is within rounding of a bound is put on it. The rest of the sum is taken
    from the samples between their bounds in proportion to their room, and only if
    that is not enough from the others.
    """
    beta = np.clip(beta, lower, upper)
    snap = 1e-12 * (upper - lower)
    beta = np.where(upper - beta <= snap, upper, np.where(beta - lower <= snap, lower, beta))
    free = (beta > lower) & (beta < upper)
    for movable in (free, np.ones_like(free)):
        surplus = beta.sum() - total
        room = np.where(movable, beta - lower if surplus > 0 else beta - upper, 0.0)
        available = room.sum()
        # A surplus of mere rounding is left: it would take samples off their bounds by as little.
        if abs(surplus) > _ROUNDING * np.abs(beta).sum() and available != 0:
            beta = beta - room * min(1.0, surplus / available)
    return beta
