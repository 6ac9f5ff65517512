"""When float32 kernel rows are good enough, and what to do when they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin import constants
from maxmargin.optimality import Certificate, certify
from maxmargin.problem import Problem

# A certificate that is not better than this times the last one will not be so again; one that is
# as good as this shows that the residual, made exact after each pass, makes up for the rows.
_PROGRESS = 0.9
_GOOD_PROGRESS = 0.5
# Multiple of tol from which on the rounding of the residual leaves nothing to gain by passes.
_HOPELESS = 10.0
# The part of the objective by which a pass must lower it to have helped without a violation that
# is better; or else the gap is better.
_FALL_OF_OBJECTIVE = 1e-3
# SMO steps of one pass: a number, and a number per sample.
_STEPS_PER_PASS = 200_000
_STEPS_PER_SAMPLE = 200
# Part of the violation that the drift of the residual may reach before rounds are lost to it.
_DRIFT = 0.1
# Within this multiple of tol all samples stay active: one shrunk away in error would come back.
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
    rounding = float(np.finfo(problem.kernel.dtype).eps) / 4 * problem.kernel.scale
    enough = max(tol, constants.SHARE_OF_VIOLATION * violation)
    return rounding * float(np.linalg.norm(change)) <= enough


def can_double(problem: Problem) -> bool:
    """Whether the problem could have float64 kernel rows and does not."""
    if problem.kernel.dtype == np.float64:
        return False
    return problem.kernel.restrict(np.arange(min(1, problem.n)), np.float64).dtype == np.float64


def with_double_rows(problem: Problem) -> Problem | None:
    """The same problem with float64 kernel rows; None where it has them or cannot have them."""
    if not can_double(problem):
        return None
    return replace(problem, kernel=problem.kernel.restrict(np.arange(problem.n), np.float64))


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


def steps_per_pass(n: int) -> int:
    """SMO steps after which a pass ends in any case, for its progress to be judged."""
    return _STEPS_PER_PASS + _STEPS_PER_SAMPLE * n


class Passes:
    """Judges the passes of a solver, each of which ends with a certificate above tol.

    Parameters
    ----------
    problem, start : the problem, and the β that its solve was given to start from, or None
    """

    def __init__(self, problem: Problem, start: np.ndarray | None, tol: float) -> None:
        self._whole, self._start, self._tol = problem, start, tol
        self._best: Certificate | None = None
        self._least = self._violation = np.inf
        self._objective = self._gap = np.inf
        self._failures = 0
        self._left_out_in_error = False
        self._beta: np.ndarray | float = 0.0

    def may_shrink(self) -> bool:
        """Whether the next pass may shrink its active set.

        It must be far enough from the optimum, and the last pass must not have left out samples
        that then violated nearly as much as any before it.
        """
        return self._violation > _CLOSE * self._tol and not self._left_out_in_error

    def next_problem(
        self,
        problem: Problem,
        certificate: Certificate,
        shrank: bool,
        rows_failed: bool = False,
    ) -> Problem | None:
        """The problem of the next pass, with float64 rows where these are due; None if stuck."""
        beta, violation = certificate.beta, certificate.kkt_violation
        change, self._beta = beta - self._beta, beta
        helped = violation <= _GOOD_PROGRESS * self._least
        helped = helped or precise_enough(problem, self._tol, change)
        falls = self._falls(certificate)
        hopeless = _lost_to_rounding(problem, beta) > _HOPELESS * self._tol
        better = violation <= _PROGRESS * self._least and np.isfinite(violation)
        failed = not better and (hopeless or not falls)
        # A pass that left samples out in error may end worse once, not twice.
        self._failures = self._failures + 1 if failed else 0
        stuck = self._failures > int(shrank and not hopeless)
        self._left_out_in_error = shrank and violation > _GOOD_PROGRESS * self._violation
        self._least, self._violation = min(self._least, violation), violation
        if self._best is None or certificate.duality_gap < self._best.duality_gap:
            self._best = certificate
        if helped and not (stuck or rows_failed):
            return problem
        doubled = with_double_rows(problem)
        if doubled is not None:
            self._least, self._failures = np.inf, 0
            return doubled
        return None if stuck else problem

    def best(self) -> Certificate:
        """The certificate of the least duality gap of all passes, of the start and of no start."""
        starts = [None] if self._start is None else [None, self._start]
        found = [certify(self._whole, self._whole.feasible(start)) for start in starts]
        if self._best is not None:
            found.append(self._best)
        return min(found, key=lambda certificate: certificate.duality_gap)

    def _falls(self, certificate: Certificate) -> bool:
        """Whether objective or gap are well below those of all passes before.

        The violation of many free samples goes up and down meanwhile. Near the solution of a
        large C, what is left to win is a small part of the objective.
        """
        objective, gap = certificate.objective, certificate.duality_gap
        before, self._objective = self._objective, min(self._objective, objective)
        gap_before, self._gap = self._gap, min(self._gap, gap)
        if before == np.inf or gap <= _PROGRESS * gap_before:
            return True
        return before - objective > _FALL_OF_OBJECTIVE * abs(before)


def _lost_to_rounding(problem: Problem, beta: np.ndarray) -> float:
    """What float64 arithmetic loses of the residual p − Kβ, in the order of magnitude."""
    return float(np.finfo(np.float64).eps * problem.kernel.scale * np.linalg.norm(beta))
