"""Newton's method on the free samples: their whole quadratic problem by one factorisation.

When many support vectors are free, pair steps crawl towards a point that one
linear system names. The bounds that its solution crosses are imposed on the same
factor, many at a time, so that the samples' own problem is solved to its optimum.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, get_lapack_funcs

from maxmargin.parallel import blas_threads

_RIDGE = 1e-13
_ROUNDS = 25
# Rounds in which a sample may also come off its bound; without an end the sets could cycle.
_RELEASING_ROUNDS = 15


def newton_change(
    K: np.ndarray,
    residual: np.ndarray,
    beta: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    groups: np.ndarray | None = None,
) -> np.ndarray | None:
    """The change of β that minimises over the box the problem of these samples alone.

    minimise ½ΔᵀKΔ − residualᵀΔ  subject to  lower ≤ β + Δ ≤ upper,  ΣΔ = 0.

    With the set H of samples at a bound fixed, stationarity KΔ + b·1 + λ = residual
    (λ zero outside H) gives Δ = K⁻¹(residual − b·1 − λ): a small system in b and
    λ_H, whose matrix is a block of K⁻¹. H then loses the samples whose λ pulls
    inwards and gains those that Δ puts beyond a bound, until neither happens
    (a primal-dual active set method). Returns None where K is not positive
    definite to working precision or more than a third of the samples meet a bound.

    Whatever the sets do, the end point is made feasible, hence so is the line to
    it, and its exact minimum on that line never increases the objective. With two
    `groups`, one column each, ΣΔ = 0 holds within each, and b has a value for each.
    """
    inverse = _Inverse(K)
    if inverse.failed:
        return None
    m = len(beta)
    ones = np.ones((m, 1)) if groups is None else groups
    solved = inverse @ np.column_stack([residual, ones])
    by_residual, by_ones = solved[:, 0], solved[:, 1:]
    met = np.empty(0, np.int64)  # samples that ever met a bound: their columns of K⁻¹ are kept
    columns = np.empty((m, 0))
    side = np.zeros(m, np.int8)
    change = np.zeros(m)
    for round_ in range(_ROUNDS):
        new = np.setdiff1d(np.flatnonzero(side), met, assume_unique=True)
        if len(met) + len(new) > m // 3:
            return None
        if len(new):
            met = np.concatenate([met, new])
            columns = np.hstack([columns, inverse.columns(new)])
        here = np.flatnonzero(side[met])
        fixed = met[here]
        at = np.where(side[fixed] > 0, upper[fixed], lower[fixed]) - beta[fixed]
        multipliers, intercept = _multipliers(
            columns[np.ix_(fixed, here)], by_residual, by_ones, ones, fixed, at
        )
        all_multipliers = np.zeros(len(met))
        all_multipliers[here] = multipliers
        change = by_residual - by_ones @ intercept - columns @ all_multipliers
        change[fixed] = at
        target = beta + change
        hits = (side == 0) & ((target > upper) | (target < lower))
        wrong = fixed[multipliers * side[fixed] < 0] if round_ < _RELEASING_ROUNDS else met[:0]
        if not hits.any() and not len(wrong):
            break
        side[wrong] = 0
        side[hits] = np.where(target[hits] > upper[hits], 1, -1)
    return _feasible_decrease(K, residual, beta, lower, upper, change, ones)


def _multipliers(block, by_residual, by_ones, ones, fixed, at) -> tuple[np.ndarray, np.ndarray]:
    """λ of the fixed samples and the intercepts, from their block of K⁻¹ and ΣΔ = 0."""
    solved = right = np.column_stack([by_residual[fixed] - at, by_ones[fixed]])
    if len(fixed):  # LAPACK of older SciPy takes no empty systems
        try:
            solved = cho_solve(cho_factor(block, lower=True), right)
        except np.linalg.LinAlgError:
            solved = np.linalg.lstsq(block, right, rcond=None)[0]
    for_residual, for_ones = solved[:, 0], solved[:, 1:]
    system = ones.T @ by_ones - by_ones[fixed].T @ for_ones
    sums = by_residual @ ones - for_residual @ by_ones[fixed]
    # The system is singular where all samples of a group are fixed: any intercept will do.
    intercept = np.linalg.lstsq(system, sums, rcond=None)[0]
    return for_residual - for_ones @ intercept, intercept


def _feasible_decrease(K, residual, beta, lower, upper, change, ones) -> np.ndarray | None:
    target = np.clip(beta + change, lower, upper)
    for member in ones.T:
        surplus = member @ (target - beta)
        if surplus:
            room = member * (target - lower if surplus > 0 else target - upper)
            if abs(room.sum()) < abs(surplus):
                return None
            target -= room * (surplus / room.sum())
    change = target - beta
    slope, curvature = residual @ change, change @ (K @ change)
    if slope <= 0:
        return None
    return change if curvature <= slope else change * (slope / curvature)


class _Inverse:
    """K⁻¹ by a Cholesky factorisation in float64."""

    def __init__(self, K: np.ndarray):
        factor = np.array(K, dtype=np.float64, order="F")
        factor.flat[:: len(factor) + 1] += _RIDGE * np.abs(factor.diagonal()).sum()
        potrf, self._potrs = get_lapack_funcs(("potrf", "potrs"), (factor,))
        with blas_threads(len(factor) ** 3 / 3):
            self._factor, info = potrf(factor, lower=True, overwrite_a=True, clean=False)
        self.failed = info != 0

    def __matmul__(self, right: np.ndarray) -> np.ndarray:
        with blas_threads(2.0 * len(right) ** 2 * right.shape[1]):
            solved, _ = self._potrs(self._factor, right, lower=True)
        return solved

    def columns(self, index: np.ndarray) -> np.ndarray:
        unit = np.zeros((len(self._factor), len(index)), order="F")
        unit[index, np.arange(len(index))] = 1.0
        return self @ unit
