"""A solver for problems whose kernel matrix is in memory and whose start is near the optimum.

A fit alone spends its time on kernel values. Here they are given: a few SMO steps on the
samples near the margin, and a Newton step where these crawl, lead from the solution of one C
to that of the next.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin import constants
from maxmargin.kernels._rows import gather_block, subtract_rows
from maxmargin.optimality import certificate_from, violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import Capabilities, Solver
from maxmargin.solvers.common import costs
from maxmargin.solvers.common.newton import newton_change
from maxmargin.solvers.common.pair_steps import diagonal_for_gains, penalties_of, steps_on_block
from maxmargin.solvers.decomposition import Decomposition

# A round takes the free samples and the nearest to the margin: in all this many times the free
# samples, and at least this many.
_ACTIVE_PER_FREE, _LEAST_ACTIVE = 1.3, 768
# From this part of all samples on, picking some of them costs more than it saves.
_NEARLY_ALL = 0.7
# SMO steps of a round at least, and what a Newton step that failed counts as.
_LEAST_STEPS = 2_000
# Nanoseconds after which a round ends, so that an interrupt is served.
_ROUND_NANOSECONDS = 2e8
# Steps for one C after which the block method takes over, which has more than SMO steps.
_MAX_STEPS_PER_C = 200_000


class PathSolver(Solver):
    """SMO steps near the margin and Newton steps, on a kernel matrix in memory.

    It trusts its running residual: answers are provisional, and `RegularisationPath.solve`
    checks whether the kernel values are precise enough.
    """

    name = "path"
    capabilities = Capabilities(thread_safe=True)

    def solve(self, problem: Problem, run: Run) -> Solution:
        K = problem.kernel.as_array()
        if K is None:
            raise ValueError("PathSolver needs a kernel matrix that is in memory.")
        beta, residual = run.initial_beta(problem), run.start_residual
        if run.start is not None and residual is not None:
            beta = run.start.copy()
        else:
            residual = problem.residual_of(beta)
        return _PathRun(problem, run, K, beta, residual).until_optimal()


class _PathRun:
    """The state of one solve.

    Attributes
    ----------
    beta, residual : the present solution and p − Kβ
    violation, intercept : what goes with them
    """

    def __init__(self, problem: Problem, run: Run, K: np.ndarray, beta, residual):
        self.problem, self.run, self.K = problem, run, K
        self.lower, self.upper = problem.lower, problem.upper
        self.beta, self.residual = beta, residual.copy()
        self.target = constants.TARGET * run.tol
        self.steps, self._since_newton = 0, 0.0

    def until_optimal(self) -> Solution:
        monitor = self.run.monitor
        while True:
            self.violation, (self.intercept,) = violation_of(self.problem, self.beta, self.residual)
            if self.violation <= self.target:
                return self._solution(Status.CONVERGED)
            stop = monitor.should_stop(self.steps)
            if stop is not None:
                return self._solution(stop)
            if self.steps > _MAX_STEPS_PER_C:
                return self._hand_over()
            self._round(self._near_margin())

    def _solution(self, status: Status) -> Solution:
        estimate = certificate_from(self.problem, self.beta, self.residual)
        return Solution(self.beta, self.intercept, status, self.steps, certificate=estimate)

    def _hand_over(self) -> Solution:
        """Let the block method go on from here."""
        run = replace(self.run, start=self.beta, start_residual=None, provisional=False)
        return Decomposition().solve(self.problem, run)

    def _near_margin(self) -> np.ndarray:
        """The samples of the next round: all free samples, then the closest to the margin."""
        n = len(self.beta)
        lower, upper = self.problem.pieces(self.beta)
        free = (self.beta > lower) & (self.beta < upper)
        count = max(_LEAST_ACTIVE, int(_ACTIVE_PER_FREE * np.count_nonzero(free)))
        if count >= _NEARLY_ALL * n or not self.beta.any():
            return np.arange(n)
        grow, shrink = penalties_of(
            self.beta, self.lower, self.upper, self.problem.epsilon, False, self.target
        )
        gap = self.intercept - self.residual
        distance = np.where(free, -np.inf, np.minimum(gap - grow[0], shrink[0] - gap))
        return np.sort(np.argpartition(distance, count)[:count])

    def _round(self, active: np.ndarray) -> None:
        """SMO steps on the active samples; a Newton step where these have cost as much."""
        n, everything = len(active), len(active) == len(self.beta)
        K = self.K if everything else submatrix(self.K, active, active)
        beta, residual = self.beta[active], self.residual[active]
        lower, upper = self.lower[active], self.upper[active]
        newton = self._newton_cost(active, beta)
        cost = min(max(newton, costs.pair_steps(n, _LEAST_STEPS)), _ROUND_NANOSECONDS)
        tol = (
            self.target
            if everything
            else max(0.5 * self.target, constants.INNER_TOL * self.violation)
        )
        limit = 1 + int(cost / costs.pair_steps(n, 1))
        steps = steps_on_block(
            K, diagonal_for_gains(np.diagonal(K)), beta, residual, lower, upper, tol, limit,
            self.problem.epsilon,
        )  # fmt: skip
        self.steps += steps
        self._since_newton += costs.pair_steps(n, steps)
        stepped = True
        if steps == limit and self._since_newton > self._newton_cost(active, beta):
            stepped = not self._newton_step(K, active, beta, residual)
        change = beta - self.beta[active]
        self.beta[active] = beta
        if everything and stepped:
            self.residual = residual  # the SMO steps kept it
            return
        moved = np.flatnonzero(change)
        subtract_rows(self.residual, self.K, active[moved], change[moved], 0, len(self.beta))

    def _newton_step(self, K, active, beta, residual) -> bool:
        """Solve the problem of the free samples, in place; whether that was possible."""
        self._since_newton = 0.0
        lower, upper = self.problem.pieces(beta, active)
        free = np.flatnonzero((beta > lower) & (beta < upper))
        if len(free) < 2:
            return False
        lower, upper = lower[free], upper[free]
        slopes = self.problem.slopes(beta[free], residual[free])
        change = newton_change(submatrix(K, free, free), slopes, beta[free], lower, upper)
        if change is None:
            self.steps += _LEAST_STEPS  # so that failures, too, come to an end
            return False
        beta[free] = np.clip(beta[free] + change, lower, upper)
        return True

    def _newton_cost(self, active, beta: np.ndarray) -> float:
        lower, upper = self.problem.pieces(beta, active)
        n_free = int(np.count_nonzero((beta > lower) & (beta < upper)))
        return costs.newton_step(n_free, len(beta))


def submatrix(K: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """K[rows][:, columns] as a new array."""
    out = np.empty((len(rows), len(columns)), K.dtype)
    gather_block(K, rows, columns.astype(np.uint32), out, np.arange(len(rows)))
    return out
