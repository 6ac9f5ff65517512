"""The certificate: how far a β is from the optimum, computed from scratch in float64.

Nothing that a solver believes enters here but β itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from maxmargin.problem import Problem


@dataclass(frozen=True, eq=False)
class Certificate:
    """Optimality of a β.

    Attributes
    ----------
    beta : the β that it speaks of
    residual : p − Kβ, the negative gradient; at the optimum it equals the intercept
        wherever β is strictly between its bounds
    kkt_violation : LIBSVM's stopping quantity, the maximal violating pair
    objective : ½βᵀKβ − pᵀβ
    duality_gap : primal minus dual objective, an upper bound on the distance to the optimum
    intercept : the constant of the decision function that goes with β
    """

    beta: np.ndarray
    residual: np.ndarray
    kkt_violation: float
    objective: float
    duality_gap: float
    intercept: float


def certify(problem: Problem, beta: np.ndarray) -> Certificate:
    """Recompute everything about β from the kernel, in float64."""
    support = np.flatnonzero(beta)
    residual = problem.linear - problem.kernel.product(support, beta[support])
    return certificate_from(problem, beta, residual)


def certificate_from(problem: Problem, beta: np.ndarray, residual: np.ndarray) -> Certificate:
    """The certificate of β, given p − Kβ."""
    violation, intercept = violation_and_intercept(beta, residual, problem.lower, problem.upper)
    # βᵀKβ = βᵀ(p − residual), so the objective is −½ βᵀ(p + residual).
    objective = -0.5 * float(beta @ (problem.linear + residual))
    gap = gap_of(beta, residual, problem.lower, problem.upper, intercept)
    return Certificate(beta, residual, violation, objective, gap, intercept)


@njit(cache=True, nogil=True)
def gap_of(beta, residual, lower, upper, intercept):
    """The part of the duality gap of some samples: what each could still gain alone."""
    gap = 0.0
    for t in range(beta.size):
        slope = intercept - residual[t]
        gap += slope * (beta[t] - (lower[t] if slope > 0 else upper[t]))
    return gap


def violation_and_intercept(
    beta: np.ndarray, residual: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[float, float]:
    """The maximal violating pair of β, and the intercept that residual p − Kβ implies.

    A sample whose β can grow pulls the intercept above its residual, one whose β
    can shrink below; the pair that pulls hardest is the violation. The intercept
    is the mean residual of the free samples (where 0 < α < C), as in LIBSVM, or
    the middle of the interval that the others leave.
    """
    highest, lowest, total, n_free = _pulls(beta, residual, lower, upper)
    if np.isinf(highest) or np.isinf(lowest):  # nobody can grow, or nobody can shrink
        return 0.0, 0.0
    intercept = total / n_free if n_free else 0.5 * (highest + lowest)
    return max(0.0, highest - lowest), intercept


@njit(cache=True, nogil=True)
def _pulls(beta, residual, lower, upper):
    """Highest residual of those who can grow, lowest of those who can shrink, sum of both."""
    highest, lowest = -np.inf, np.inf
    total, n_free = 0.0, 0
    for t in range(beta.size):
        value = residual[t]
        if value != value:  # an overflow: no intercept goes with it
            return np.nan, np.nan, np.nan, 1
        can_grow, can_shrink = beta[t] < upper[t], beta[t] > lower[t]
        if can_grow and value > highest:
            highest = value
        if can_shrink and value < lowest:
            lowest = value
        if can_grow and can_shrink:
            total += value
            n_free += 1
    return highest, lowest, total, n_free
