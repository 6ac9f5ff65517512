"""When float32 kernel rows are good enough, and what to do when they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.problem import Problem

# Part of tol that rounding of the rows may cost the residual, or of a violation far above it.
_SHARE_OF_TOL = 1.0
_SHARE_OF_VIOLATION = 0.003
# A certificate that is not better than this times the last one will not be so again; one that is
# as good as this shows that the residual, made exact after each pass, makes up for the rows.
_PROGRESS = 0.9
_GOOD_PROGRESS = 0.5
# Part of the violation that the drift of the residual may reach before rounds are lost to it.
_DRIFT = 0.1
# Within this multiple of tol all samples stay active: one set aside in error would come back.
_CLOSE = 20.0


def precise_enough(
    problem: Problem, tol: float, change: np.ndarray, violation: float = 0.0
) -> bool:
    """Whether a change of β since the residual p − Kβ was exact leaves it so to a part of tol.

    While the violation is large, a part of that is enough. Each of the rounding errors
    of the rows is up to eps/2 and has either sign, so that their sum grows with the
    norm of the change.
    """
    if problem.kernel.dtype == np.float64:
        return True
    rounding = float(np.finfo(problem.kernel.dtype).eps) / 4
    enough = max(_SHARE_OF_TOL * tol, _SHARE_OF_VIOLATION * violation)
    return rounding * float(np.linalg.norm(change)) <= enough


def can_double(problem: Problem) -> bool:
    """Whether the problem could have float64 kernel rows and does not."""
    if problem.kernel.dtype == np.float64:
        return False
    return problem.kernel.restrict_in_double(np.arange(min(1, problem.n))).dtype == np.float64


def with_double_rows(problem: Problem) -> Problem | None:
    """The same problem with float64 kernel rows; None where it has them or cannot have them."""
    if not can_double(problem):
        return None
    return replace(problem, kernel=problem.kernel.restrict_in_double(np.arange(problem.n)))


class Drift:
    """Says when the residual of a pass must be exact again, and when its rows are not worth it."""

    def __init__(self, tol: float) -> None:
        self._tol = tol
        self._looked_at = self._corrected = np.inf

    def margin(self, problem: Problem, change: np.ndarray, violation: float) -> float:
        """The drift from which on the residual is to be computed anew; ∞ where no look is due."""
        if not precise_enough(problem, self._tol, change, violation) and can_double(problem):
            return 0.0
        if violation > 0.5 * self._looked_at:
            return np.inf
        self._looked_at = violation
        return _DRIFT * violation

    def stalls(self, violation: float) -> bool:
        """Whether the violation of an exact residual has not even halved since the last one."""
        last, self._corrected = self._corrected, violation
        return violation > _GOOD_PROGRESS * last


class Passes:
    """Judges the passes of a solver, each of which ends with a certificate above tol."""

    def __init__(self, tol: float) -> None:
        self._tol = tol
        self._best = self._violation = np.inf
        self._failures = 0
        self._beta: np.ndarray | float = 0.0

    def may_shrink(self) -> bool:
        """Whether the next pass is far enough from the optimum to shrink its active set."""
        return self._violation > _CLOSE * self._tol

    def next_problem(
        self,
        problem: Problem,
        beta: np.ndarray,
        violation: float,
        shrank: bool,
        rows_failed: bool = False,
    ) -> Problem | None:
        """The problem of the next pass, with float64 rows where these are due; None if stuck."""
        change, self._beta = beta - self._beta, beta
        helped = violation <= _GOOD_PROGRESS * self._best
        helped = helped or precise_enough(problem, self._tol, change)
        # A pass that set samples aside in error may end worse once, not twice.
        self._failures = self._failures + 1 if violation > _PROGRESS * self._best else 0
        stuck = self._failures > int(shrank)
        self._best, self._violation = min(self._best, violation), violation
        if helped and not (stuck or rows_failed):
            return problem
        better = with_double_rows(problem)
        if better is not None:
            self._best, self._failures = np.inf, 0
            return better
        return None if stuck else problem
