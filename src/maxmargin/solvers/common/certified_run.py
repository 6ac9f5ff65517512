"""What the solvers that work on sets of samples have in common: passes and their certificates."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import replace

import numpy as np

from maxmargin.monitor import Monitor
from maxmargin.optimality import Certificate, certificate_from, certify
from maxmargin.problem import Problem
from maxmargin.solution import Status
from maxmargin.solvers.common.free_system import polish, solve_free
from maxmargin.solvers.common.precision import Passes, precise_enough

_REFINEMENTS = 8
# Up to this many samples the solution is refined to the exact one, which is cheap there.
REFINED_SAMPLES = 64
_EXACT = 1e-8
# Part of its range that a β may have moved from where its residual was computed.
_ROUNDING = 1e-9


def judged(problem: Problem, beta: np.ndarray) -> Certificate:
    """The certificate of β, or for a draft an estimate of it that costs a third."""
    if problem.draft:
        return certificate_from(problem, beta, problem.residual_of(beta))
    return certify(problem, beta)


def start_of(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """β to start from and its residual, in the precision of the rows where that will do."""
    beta = problem.initial_beta()
    if not beta.any():
        return beta, problem.linear
    known = problem.start_residual
    if known is not None and problem.start is not None:
        moved = np.abs(beta - problem.start)
        if (moved <= _ROUNDING * (problem.upper - problem.lower)).all():
            return beta, known
    estimate = replace(problem, draft=precise_enough(problem, beta))
    return beta, judged(estimate, beta).residual


class CertifiedRun(ABC):
    """One solve: passes over the active samples, each ended by the certificate of all of them.

    Attributes
    ----------
    may_shrink : whether the present pass may set samples aside
    rows_failed : whether the last pass ended because its rows lack precision
    seconds : where the time went
    """

    certificate: Certificate

    def __init__(self, problem: Problem, monitor: Monitor, shrinking: bool):
        self.problem, self.monitor, self.shrinking = problem, monitor, shrinking
        self.may_shrink = shrinking
        self.rows_failed = False
        self.n_iter = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @abstractmethod
    def _optimise(
        self, problem: Problem, beta: np.ndarray, residual: np.ndarray, max_rounds: float = np.inf
    ) -> tuple[np.ndarray, Status | None]:
        """Rounds until the active samples are optimal; β of all, and the reason to stop early."""

    def left_some_out(self) -> bool:
        """Whether the last pass set samples aside, or may have done so."""
        return self.may_shrink

    def running_residual(self, beta: np.ndarray) -> np.ndarray | None:
        """p − Kβ as the last pass believes it to be, where that costs little."""
        return None

    def seconds_by_part(self) -> dict:
        """The seconds as a report's details have them."""
        return {f"seconds_{name}": round(value, 6) for name, value in self.seconds.items()}

    def until_certified(self) -> Status:
        """Optimise until the float64 gradient of all samples agrees that it is the optimum.

        The running residual drifts, the more so with float32 rows. It is replaced by
        the certificate's, and the rounds go on: what is left is small, and converges
        like iterative refinement. If it does not, float64 rows are the last resort.
        """
        beta, residual = start_of(self.problem)
        passes = Passes()
        while True:
            self.may_shrink = self.shrinking and passes.may_shrink(self.problem.tol)
            beta, stop = self._optimise(self.problem, beta, residual)
            if self.refines and stop is None and self._solved_exactly(beta):
                return Status.CONVERGED
            # Where the rows lack precision, the next pass improves more than a linear system can.
            self._certify(beta, improve=stop is None and precise_enough(self.problem, beta))
            beta, residual = self.certificate.beta, self.certificate.residual
            violation = self.certificate.kkt_violation
            if violation <= self.problem.tol:
                self._refine()
                return Status.CONVERGED
            if stop is not None:
                return stop
            following = passes.next_problem(
                self.problem, beta, violation, self.left_some_out(), self.rows_failed
            )
            if following is None:
                return Status.STALLED
            self.problem = following

    def _certify(self, beta: np.ndarray, improve: bool) -> None:
        start = time.perf_counter()
        residual = self.running_residual(beta) if self.problem.draft else None
        if residual is not None:
            self.certificate = certificate_from(self.problem, beta, residual)
            if self.certificate.kkt_violation <= self.problem.tol:
                return
        self.certificate = judged(self.problem, beta)
        improve = improve and not self.problem.draft
        if improve and self.certificate.kkt_violation > self.problem.tol:
            self.certificate = polish(self.problem, self.certificate)
        self.seconds["certificate"] += time.perf_counter() - start

    def _solved_exactly(self, beta: np.ndarray) -> bool:
        """Whether one linear system makes β exact, as it does unless a bound was guessed wrong."""
        residual = self.running_residual(beta)
        if residual is None:
            return False
        self.certificate = certify(self.problem, solve_free(self.problem, beta, residual))
        return self.certificate.kkt_violation <= self.goal

    @property
    def refines(self) -> bool:
        """Whether the answer will be made exact."""
        wanted = self.problem.refine and not self.problem.draft
        return wanted and self.problem.n <= REFINED_SAMPLES

    @property
    def goal(self) -> float:
        """The KKT violation at which the answer is good enough."""
        return _EXACT * self.problem.tol if self.refines else self.problem.tol

    def _refine(self) -> None:
        """Small problems go on to the exact optimum: a linear system, then a round, in turn."""
        if not self.refines:
            return
        for _ in range(_REFINEMENTS):
            best = self.certificate = polish(self.problem, self.certificate)
            violation = best.kkt_violation
            if violation <= self.goal:
                return
            closer = replace(self.problem, tol=0.01 * violation)
            beta, _ = self._optimise(closer, best.beta, best.residual, max_rounds=1)
            self.certificate = certify(self.problem, beta)
            if self.certificate.kkt_violation >= violation:
                self.certificate = best
                return
