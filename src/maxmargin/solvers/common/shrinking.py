"""Shrinking: samples that seem to stay at a bound are left out of the steps for a while."""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.optimality import violation_and_intercept
from maxmargin.problem import Problem


def settled(problem: Problem, beta, residual, intercept: float, margin: float) -> np.ndarray:
    """Whether a sample is at a bound, and by more than `margin` from leaving it."""
    at_upper, at_lower = beta >= problem.upper, beta <= problem.lower
    return (at_upper & (residual > intercept + margin)) | (
        at_lower & (residual < intercept - margin)
    )


def worth_shrinking_to(problem: Problem, beta, residual, tol: float) -> np.ndarray | None:
    """The samples that may still move; None while they are most of the set.

    A sample is left out when it keeps the whole present violation away from leaving its
    bound, which implies LIBSVM's rule.
    """
    violation, intercept = violation_and_intercept(beta, residual, problem.lower, problem.upper)
    kept = np.flatnonzero(~settled(problem, beta, residual, intercept, max(violation, tol)))
    return kept if 2 <= len(kept) <= constants.WORTH_SHRINKING * problem.n else None
