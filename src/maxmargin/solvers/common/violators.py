"""The samples that violate the optimality conditions most, as working sets want them."""

from __future__ import annotations

import numpy as np

from maxmargin.optimality import extremes, violation_of
from maxmargin.problem import Problem
from maxmargin.solvers.common.radix_select import largest


def violators(
    problem: Problem, beta: np.ndarray, residual: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Half of `count` samples that violate most by growing, and half by shrinking."""
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    # Measured from the middle of the maximal violating pair: `largest` takes values as equal
    # that differ by a ten-thousandth, and an intercept may be much larger than a violation.
    found = extremes(beta, residual, problem.lower, problem.upper, problem.epsilon, problem.by_sign)
    if not problem.kinked:
        pull = residual - 0.5 * (found[0] + found[1])
        growing = largest(pull, can_grow, count // 2)
        can_shrink[growing] = False
        return growing, largest(-pull, can_shrink, count // 2)
    grow = residual - np.where(beta >= 0, problem.epsilon, -problem.epsilon)
    shrink = residual - np.where(beta > 0, problem.epsilon, -problem.epsilon)
    # Partners belong to the same sum, so that each has its share.
    every = np.ones(problem.n, bool)
    sums = [(beta >= 0, beta > 0), (beta < 0, beta <= 0)] if problem.by_sign else [(every, every)]
    growing, shrinking = [], []
    for (may_grow, may_shrink), (high, low) in zip(sums, (found[:2], found[4:6]), strict=False):
        middle = 0.5 * (high + low) if np.isfinite(high + low) else 0.0
        each = max(1, count // (2 * len(sums)))
        growing.append(largest(grow - middle, can_grow & may_grow, each))
        can_shrink[growing[-1]] = False
        shrinking.append(largest(middle - shrink, can_shrink & may_shrink, each))
        can_grow[shrinking[-1]] = False
    return np.concatenate(growing), np.concatenate(shrinking)


def pulls(
    problem: Problem, beta: np.ndarray, residual: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """How much each sample of `index` wants to move; below zero, how far it is from wanting to."""
    _, levels = violation_of(problem, beta, residual)
    value, slope = beta[index], residual[index]
    # The level and the slope of ε|β| are those of the piece that the sample would move on.
    above = np.where(value < 0, levels[-1] - problem.epsilon, levels[0] + problem.epsilon)
    below = np.where(value > 0, levels[0] + problem.epsilon, levels[-1] - problem.epsilon)
    grow = np.where(value < problem.upper[index], slope - above, -np.inf)
    return np.maximum(grow, np.where(value > problem.lower[index], below - slope, -np.inf))
