"""Newton's method on the free samples: their whole quadratic problem by one factorisation.

When many support vectors are free, pair steps crawl towards a point that one
linear system names. The bounds that its solution crosses are imposed on the same
factor, many at a time, so that the samples' own problem is solved to its optimum.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from maxmargin.problem import nearest_feasible, sums_of
from maxmargin.solvers.common.bordered import BorderedSystem, Cholesky, solve_multipliers

# Sets of samples at a bound that are tried at most.
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
    inwards and gains the samples that Δ puts beyond a bound, until neither happens
    (a primal-dual active set method). Returns None where K is not positive
    definite to working precision or more than a third of the samples meet a bound.

    Whatever the sets do, the end point is made feasible, hence so is the line to
    it, and its exact minimum on that line never increases the objective. With two
    `groups`, one column each, ΣΔ = 0 holds within each, and b has a value for each.
    """
    try:
        factor = Cholesky.with_ridge(K)
    except np.linalg.LinAlgError:
        return None
    m = len(beta)
    ones = np.ones((m, 1)) if groups is None else groups
    solved = factor.solve(np.column_stack([residual, ones]))
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
            columns = np.hstack([columns, factor.inverse_columns(new)])
        here = np.flatnonzero(side[met])
        fixed = met[here]
        at = np.where(side[fixed] > 0, upper[fixed], lower[fixed]) - beta[fixed]
        multipliers, intercept = _multipliers(
            columns[np.ix_(fixed, here)], by_residual, by_ones, ones, fixed, at
        )
        of_met = np.zeros(len(met))
        of_met[here] = multipliers
        change = by_residual - by_ones @ intercept - columns @ of_met
        change[fixed] = at
        target = beta + change
        hits = (side == 0) & ((target > upper) | (target < lower))
        wrong = fixed[multipliers * side[fixed] < 0] if round_ < _RELEASING_ROUNDS else met[:0]
        if not hits.any() and not len(wrong):
            break
        side[wrong] = 0
        side[hits] = np.where(target[hits] > upper[hits], 1, -1)
    return _feasible_decrease(K, residual, beta, lower, upper, change, groups is not None)


def _multipliers(block, by_residual, by_ones, ones, fixed, at) -> tuple[np.ndarray, np.ndarray]:
    """λ of the fixed samples and the intercepts, from their block of K⁻¹ and ΣΔ = 0."""
    corner, sums = ones.T @ by_ones, by_residual @ ones
    if not len(fixed):
        return np.empty(0), solve_multipliers(corner, sums)
    try:
        solve = Cholesky(block.copy()).solve
    except np.linalg.LinAlgError:
        solve = partial(_least_squares, block)
    return BorderedSystem(solve, by_ones[fixed], corner).solve(by_residual[fixed] - at, sums)


def _least_squares(A: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(A, right, rcond=None)[0]


def _feasible_decrease(K, residual, beta, lower, upper, change, by_sign: bool):
    """The change made feasible, and as far along it as the objective falls; None if it does not."""
    change = nearest_feasible(beta + change, lower, upper, sums_of(beta, by_sign)) - beta
    slope, curvature = residual @ change, change @ (K @ change)
    if slope <= 0:
        return None
    return change if curvature <= slope else change * (slope / curvature)
