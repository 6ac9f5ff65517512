"""What the solvers that work on sets of samples have in common: passes and their certificates."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import replace

import numpy as np

from maxmargin import constants
from maxmargin.formulations import STEPS_BELOW_TOL
from maxmargin.optimality import (
    FEASIBLE,
    Certificate,
    certificate_from,
    certify,
    infeasibility_of,
)
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import GAVE_UP, Solution, Status
from maxmargin.solvers.common.free_system import polish, solve_free
from maxmargin.solvers.common.precision import Passes, precise_enough

# Refinements at most, each a linear system and a round.
_REFINEMENTS = 8
# Part of tol at which a refined answer counts as exact.
_EXACT = 1e-8
# Rounds towards a tol below the given one between two looks at the steps that were taken.
_ROUNDS_BELOW_TOL = 8
# Kernel values of a certificate from which on its time counts, the values by which its time is
# measured, and the growth of the support from which on it is measured again.
_WORTH_MEASURING = 2e7
_MEASURED_VALUES = 10**7
_GROWN = 1.2
# Part of the largest β that one may have moved from where its residual was computed.
_ROUNDING = 1e-9


def certify_or_estimate(
    problem: Problem, run: Run, beta: np.ndarray, since: Certificate | None = None
) -> Certificate:
    """The certificate of β, or for a provisional answer an estimate at a third of the cost."""
    if run.provisional:
        return certificate_from(problem, beta, problem.residual_of(beta))
    return certify(problem, beta, since=since)


def start_of(problem: Problem, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """β to start from and its residual, in the precision of the rows where that suffices."""
    beta = run.initial_beta(problem)
    if not beta.any():
        return beta, problem.linear
    known = run.start_residual
    if known is not None and run.start is not None:
        moved = np.abs(beta - run.start)
        if moved.max(initial=0.0) <= _ROUNDING * np.abs(beta).max():
            return beta, known
    if precise_enough(problem, run.tol, beta):
        return beta, problem.residual_of(beta)
    return beta, certify(problem, beta).residual


class CertificateCost:
    """β → the seconds that its certificate will take, measured on some of the samples."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._n_support, self._seconds_per_value = 0, 0.0

    def __call__(self, beta: np.ndarray) -> float:
        support, n, kernel = np.flatnonzero(beta), self._problem.n, self._problem.kernel
        n_values = kernel.values_of_certificate(len(support))
        if n_values < _WORTH_MEASURING:
            return 0.0
        if len(support) > _GROWN * self._n_support:
            self._n_support = len(support)
            rows = np.arange(0, n, -(-len(support) * n // _MEASURED_VALUES))
            start = time.perf_counter()
            kernel.multiply(support, beta[support], rows, precise=True)
            measured = kernel.values_of_product(len(support), len(rows))
            self._seconds_per_value = (time.perf_counter() - start) / measured
        return self._seconds_per_value * n_values


class CertifiedRun(ABC):
    """One solve: passes over the active samples, each ended by the certificate of all of them.

    Attributes
    ----------
    whole : the problem as it was given; the certificate is about it
    problem : the same problem, with kernel rows in the precision of the present pass
    start : the β that the solve was given to start from, or None
    may_shrink : whether the present pass may shrink its set of active samples
    rows_failed : whether the last pass ended because its rows lack precision
    gave_up : whether a tol below the given one was out of reach in reasonable time
    seconds : where the time went
    within_limits : see `Solution`
    """

    certificate: Certificate
    within_limits: np.ndarray | None = None
    # Up to this many samples the solution is refined to the exact one, which is cheap there.
    refined_samples = constants.REFINED_SAMPLES

    def __init__(self, problem: Problem, run: Run, shrinking: bool):
        self.whole = self.problem = problem
        self.run, self.monitor, self.shrinking = run, run.monitor, shrinking
        self.start = run.start
        self.may_shrink = shrinking
        self.rows_failed = self.gave_up = False
        self.n_iter = 0
        self._last: Certificate | None = None  # of the pass before
        self.seconds: defaultdict[str, float] = defaultdict(float)

    @abstractmethod
    def _optimise(
        self, tol: float, beta: np.ndarray, residual: np.ndarray, max_rounds: float = np.inf
    ) -> tuple[np.ndarray, Status | None]:
        """Rounds until the active samples are optimal; β of all, and the reason to stop early."""

    def left_some_out(self) -> bool:
        """Whether the last pass shrank its set of active samples, or may have done so."""
        return self.may_shrink

    def running_residual(self, beta: np.ndarray) -> np.ndarray | None:
        """p − Kβ as the last pass believes it to be, where that costs little."""
        return None

    def seconds_by_part(self) -> dict:
        """The seconds as a report's details have them."""
        return {f"seconds_{name}": round(value, 6) for name, value in self.seconds.items()}

    def solution(self, status: Status, details: dict | None = None) -> Solution:
        """The last certified β as a solver's answer."""
        found, details = self.certificate, details or {}
        if self.gave_up:
            details |= {GAVE_UP: True}
        return Solution(
            found.beta, found.intercept, status, self.n_iter,
            details=details, certificate=found, within_limits=self.within_limits,
        )  # fmt: skip

    def until_certified(self) -> Status:
        """Optimise until the float64 gradient of all samples agrees that it is the optimum.

        The running residual drifts, the more so with float32 rows. It is replaced by
        the certificate's, and the rounds go on: the rest is small, and converges
        like iterative refinement. If it does not, float64 rows are the last resort.
        """
        given = tol = self.run.tol
        beta, residual = start_of(self.problem, self.run)
        passes = Passes(self.whole, self.start, tol)
        within, last_step = None, np.inf  # once the given tol is reached and a lower one is wanted
        while True:
            self.may_shrink = self.shrinking and passes.may_shrink()
            rounds = np.inf if within is None else _ROUNDS_BELOW_TOL
            beta, stop = self._optimise(tol, beta, residual, rounds)
            if self.refines and stop is None and self._solved_exactly(beta):
                return Status.CONVERGED
            # Where the rows lack precision, the next pass improves more than a linear system can.
            self._certify(beta, improve=stop is None and precise_enough(self.problem, tol, beta))
            beta, residual = self.certificate.beta, self.certificate.residual
            if self.certificate.kkt_violation <= tol:
                lower = self.run.lower_tol(self.certificate, given)
                if lower >= tol or self.run.provisional:
                    self._refine()
                    return Status.CONVERGED
                if within is None:
                    last_step = self.n_iter + STEPS_BELOW_TOL * max(self.n_iter, self.whole.n)
                within = self.certificate
                self.run, tol = replace(self.run, tol=lower), lower
                passes = Passes(self.whole, self.start, tol)
            elif within is not None and self.n_iter > last_step:
                self.certificate, self.gave_up = within, True
                return Status.CONVERGED
            # Another pass would end with another certificate, for which there may be no time.
            stop = stop or self.monitor.should_stop(self.n_iter)
            if stop is not None:
                return stop
            following = passes.next_problem(
                self.problem, self.certificate, self.left_some_out(), self.rows_failed
            )
            if following is None:
                self.certificate = passes.best()
                return Status.STALLED
            self.problem = following

    def _certify(self, beta: np.ndarray, improve: bool) -> None:
        start = time.perf_counter()
        # Rounding of β on its way may be more than its sums are in the end.
        if infeasibility_of(beta, self.whole.lower, self.whole.upper, self.whole.totals) > FEASIBLE:
            beta = self.whole.feasible(beta)
        residual = self.running_residual(beta) if self.run.provisional else None
        if residual is not None:
            self.certificate = certificate_from(self.whole, beta, residual)
            if self.certificate.kkt_violation <= self.run.tol:
                return
        self.certificate = certify_or_estimate(self.whole, self.run, beta, self._last)
        improve = improve and not self.run.provisional
        if improve and self.certificate.kkt_violation > self.run.tol:
            self.certificate = polish(self.certificate)
        self._last = self.certificate
        self.seconds["certificate"] += time.perf_counter() - start

    def _solved_exactly(self, beta: np.ndarray) -> bool:
        """Whether one linear system makes β exact, as it does unless a bound was guessed wrong."""
        residual = self.running_residual(beta)
        if residual is None:
            return False
        self.certificate = certify(self.whole, solve_free(self.problem, beta, residual))
        return self.certificate.kkt_violation <= self.goal

    @property
    def refines(self) -> bool:
        """Whether the answer will be made exact."""
        wanted = self.run.refine and not self.run.provisional
        return wanted and self.problem.n <= self.refined_samples

    @property
    def goal(self) -> float:
        """The KKT violation at which the answer is good enough."""
        return _EXACT * self.run.tol if self.refines else self.run.tol

    def _refine(self) -> None:
        """Small problems go on to the exact optimum: a linear system, then a round, in turn."""
        if not self.refines:
            return
        for _ in range(_REFINEMENTS):
            best = self.certificate = polish(self.certificate)
            violation = best.kkt_violation
            if violation <= self.goal:
                return
            beta, _ = self._optimise(0.01 * violation, best.beta, best.residual, max_rounds=1)
            self.certificate = certify(self.whole, beta)
            if self.certificate.kkt_violation >= violation:
                self.certificate = best
                return
