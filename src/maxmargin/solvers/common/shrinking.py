"""Shrinking: samples that seem to stay at a bound are left out of the steps for a while."""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import leaf
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem


def settled(
    problem: Problem, beta, residual, levels: tuple[float, ...], margin: float
) -> np.ndarray:
    """Whether a sample is at a bound or kink, and by more than `margin` from leaving it."""
    return settled_samples(
        beta, residual, problem.lower, problem.upper, problem.epsilon, problem.by_sign,
        levels[0], levels[-1], margin,
    )  # fmt: skip


@leaf()
def settled_samples(beta, residual, lower, upper, epsilon, by_sign, positive, negative, margin):
    at_rest = np.empty(beta.size, np.bool_)
    for t in range(beta.size):
        value = beta[t]
        # The level and the slope of ε|β| are those of the piece that the sample would move on.
        grow = residual[t] - (epsilon if value >= 0.0 else -epsilon)
        shrink = residual[t] - (epsilon if value > 0.0 else -epsilon)
        above = negative if by_sign and value < 0.0 else positive
        below = negative if by_sign and value <= 0.0 else positive
        may_grow = value < upper[t] and not grow < above - margin
        may_shrink = value > lower[t] and not shrink > below + margin
        at_rest[t] = not (may_grow or may_shrink)
    return at_rest


def worth_shrinking_to(problem: Problem, beta, residual, tol: float) -> np.ndarray | None:
    """The samples that may still move; None while they are most of the set.

    A sample is left out when it keeps the whole present violation away from leaving its
    bound, which implies LIBSVM's rule.
    """
    violation, levels = violation_of(problem, beta, residual)
    kept = np.flatnonzero(~settled(problem, beta, residual, levels, max(violation, tol)))
    return kept if 2 <= len(kept) <= constants.WORTH_SHRINKING * problem.n else None
