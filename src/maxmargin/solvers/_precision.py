"""When float32 kernel rows are good enough, and what to do when they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.problem import Problem

# Part of tol that rounding of the rows may cost the residual.
_SHARE_OF_TOL = 0.3


def precise_enough(problem: Problem, beta: np.ndarray) -> bool:
    """Whether the rows' rounding leaves the running residual p − Kβ exact to a part of tol.

    Each of the rounding errors is up to eps/2 and has either sign, so that their
    sum grows with the norm of β.
    """
    if problem.kernel.dtype == np.float64:
        return True
    rounding = float(np.finfo(problem.kernel.dtype).eps) / 4
    return rounding * float(np.linalg.norm(beta)) <= _SHARE_OF_TOL * problem.tol


def with_double_rows(problem: Problem) -> Problem | None:
    """The same problem with float64 kernel rows; None where it has them or cannot have them."""
    if problem.kernel.dtype == np.float64:
        return None
    kernel = problem.kernel.restrict_in_double(np.arange(problem.n))
    return replace(problem, kernel=kernel) if kernel.dtype == np.float64 else None
