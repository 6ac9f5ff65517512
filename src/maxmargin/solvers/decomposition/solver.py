"""The block method: large working sets, kernel rows by matrix products.

Each round optimises the samples that violate most, a thousand or so, by pair
steps on their block of the kernel matrix, and carries the change over to all the
others in one pass. Where pair steps crawl, second-order steps take over.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cached_property

import numpy as np

from maxmargin import constants
from maxmargin.kernels.budget import precision_of_rows
from maxmargin.kernels.in_memory import in_memory
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import FORMULATIONS, Capabilities, Solver
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.certified_run import CertifiedRun, certify_or_estimate
from maxmargin.solvers.common.free_system import solve_free
from maxmargin.solvers.common.interior_point import by_interior_point, steps_before
from maxmargin.solvers.common.limit import LimitIsSlack, seems_slack
from maxmargin.solvers.common.low_rank_passes import rank_of
from maxmargin.solvers.common.precision import Drift, can_double, steps_per_pass
from maxmargin.solvers.common.pricing import PartialPricing
from maxmargin.solvers.decomposition.second_order import SecondOrder
from maxmargin.solvers.decomposition.small import steps_in_memory

# Where the answer is made exact, steps to this part of tol are cheaper than a linear system.
_REFINED_TOL = 0.01


class Decomposition(Solver):
    """Working sets of many samples, with Newton and low-rank IRWLS steps where they pay.

    Parameters
    ----------
    working_set : int
        Samples that are optimised together. Problems up to this size are one block.
    shrinking : bool
        Whether to leave out samples that seem to stay at a bound.
    """

    name = "decomposition"
    capabilities = Capabilities(FORMULATIONS, thread_safe=True)

    def __init__(self, working_set: int = constants.WORKING_SET, shrinking: bool = True):
        if working_set < 2:
            raise ValueError(f"working_set must be at least 2, got {working_set}.")
        self.working_set = working_set
        self.shrinking = shrinking

    def solve(self, problem: Problem, run: Run) -> Solution:
        blocks = _BlockRun(problem, run, self.working_set, self.shrinking)
        status = blocks.until_certified()
        return blocks.solution(status, blocks.details())


class _BlockRun(CertifiedRun):
    """One solve: rounds on the active samples, then the certificate of all of them."""

    def __init__(self, problem: Problem, run: Run, size: int, shrinking: bool):
        super().__init__(problem, run, shrinking)
        self._hold_small_matrix()
        self.size, self.rounds = size, 0
        self.active: ActiveSet | None = None
        self.stop: Status | None = None  # what the monitor said during second-order steps
        self.second_order = SecondOrder(self.monitor.reserve)

    def _hold_small_matrix(self) -> None:
        """Keep all kernel values of a small problem in memory: they serve steps and certificate."""
        problem = self.problem
        small = problem.kernel.dtype == precision_of_rows(problem.n) == np.float64
        if small and 8 * problem.n**2 <= self.run.cache_bytes:
            kernel = in_memory(problem.kernel)
            if kernel is not problem.kernel:
                self.whole = self.problem = replace(problem, kernel=kernel)

    def details(self) -> dict:
        """Where the time went, and what second-order steps were taken."""
        taken = {"rounds": self.rounds, "second_order": self.second_order.taken}
        return taken | self.seconds_by_part()

    def until_certified(self) -> Status:
        n = self.problem.n
        if self.run.start_steps:
            self.second_order.count_round(n, n, self.run.start_steps, 0)
        if n <= self.size and self._solved_at_once():
            return Status.CONVERGED
        return super().until_certified()

    def _solved_at_once(self) -> bool:
        """Whether pair steps on a matrix in memory are all that the problem needs.

        If not, it is left where they brought it.
        """
        problem, K = self.problem, self.problem.kernel.as_array()
        if K is None or K.dtype != np.float64:
            return False
        start = time.perf_counter()
        tol = constants.TARGET * self.run.tol * (_REFINED_TOL if self.refines else 1.0)
        limit = constants.STEPS_AT_ONCE - self.run.start_steps
        limit = max(constants.STEPS_PER_SAMPLE * problem.n, limit)
        features = None
        # A batch that took steps before has tried the interior-point method as well.
        if not (self.refines or problem.by_sign or self.run.start_steps):
            features = problem.kernel.few_features()
        if features is not None:
            limit = int(steps_before(np.array(problem.n), features.shape[1]))
        beta, residual, self.n_iter = steps_in_memory(
            problem, self.run, K, tol, min(limit, self.monitor.iterations_left(0))
        )
        if features is not None and violation_of(problem, beta, residual)[0] > tol:
            left = self.monitor.iterations_left(self.n_iter)
            self.n_iter += by_interior_point(problem, features, tol, left, beta)
        self.second_order.count_round(problem.n, problem.n, self.n_iter, 0)
        if self.refines and self.monitor.should_stop(self.n_iter) is None:
            beta = solve_free(problem, beta, residual)
        self.seconds["inner"] = time.perf_counter() - start
        self.certificate = found = certify_or_estimate(problem, self.run, beta)
        self.seconds["certificate"] = time.perf_counter() - start - self.seconds["inner"]
        self.rounds = 1
        if found.kkt_violation <= self.goal and self.run.lower_tol(found, self.goal) >= self.goal:
            return True
        self.run = replace(self.run, start=found.beta, start_residual=found.residual)
        return False

    def _optimise(
        self, tol: float, beta: np.ndarray, residual: np.ndarray, max_rounds: float = np.inf
    ) -> tuple[np.ndarray, Status | None]:
        """Rounds until the active samples are optimal; β of all, and the reason to stop early."""
        problem, active = self.problem, self._active_samples(tol, beta, residual)
        violation, intercept = active.violation_and_intercept()
        nothing = np.empty(0, np.int64)
        working, rounds = nothing, 0
        drift, self.rows_failed = Drift(tol), False
        # A little less than tol leaves a margin for the drift of the residual.
        target = constants.TARGET * tol
        last_step = self.n_iter + steps_per_pass(problem.n)
        if self.run.start_steps and self.rounds == 0 and self._second_order_step(active):
            violation, intercept = active.violation_and_intercept()
        stop = self.stop
        while stop is None and rounds < max_rounds and self.n_iter < last_step:
            if violation <= target:
                # Where all are active, the certificate is the better look, for the same price.
                if active.n == problem.n or not self._correct(active, tol - violation):
                    break
                violation, intercept = active.violation_and_intercept()
                if violation <= target or drift.stalls(violation):
                    break
            if self._limit_is_slack(active):
                stop = Status.STALLED
                break
            many = active.n >= constants.MANY_SAMPLES and self._has_high_rank
            if many:
                self._round_of_many(active, violation)
            else:
                working = self._round(active, working, violation)
            violation, intercept = active.violation_and_intercept()
            rounds += 1
            n_before = active.n
            allowed = self.monitor.iterations_left(self.n_iter) > 0
            if violation > target and allowed and self._second_order_step(active):
                violation, intercept = active.violation_and_intercept()
                working = nothing
            stop = self.stop
            if self.may_shrink and (many or rounds % constants.SHRINK_INTERVAL == 0):
                active.shrink()
            if active.n < n_before:
                working = nothing  # its numbers are those of samples that were shrunk away since
            margin = drift.margin(problem, active.change(), violation)
            if violation > target and stop is None and self._correct(active, margin):
                violation, intercept = active.violation_and_intercept()
                self.rows_failed = drift.stalls(violation) and can_double(problem)
                if self.rows_failed:
                    break
            if violation > target and stop is None:
                stop = self.monitor.update(
                    self.n_iter, violation, active.objective(), active.beta_of_all(), intercept,
                    active.n_settled,
                )  # fmt: skip
        return active.beta_of_all().copy(), stop

    @cached_property
    def _has_high_rank(self) -> bool:
        """Whether nothing but rounds will solve the problem; low ranks have a faster way."""
        return rank_of(self.whole) > constants.MAX_RANK

    def _round_of_many(self, active: ActiveSet, violation: float) -> None:
        """Parts of many samples, each solved by itself, and updates of the others in turn."""
        size = min(int(constants.PART_OF_MANY * active.n), constants.LARGEST_PART)
        pricing, left = PartialPricing(active), violation

        def must_stop() -> bool:
            return self.monitor.should_stop(self.n_iter) is not None

        for _ in range(constants.PARTS_PER_ROUND):
            self._solve_part(active, pricing, size, left)
            some = pricing.violation_of_some(size, must_stop)
            if some is None:
                break
            left = some
        pricing.refresh(must_stop=must_stop)

    def _solve_part(
        self, active: ActiveSet, pricing: PartialPricing, size: int, violation: float
    ) -> None:
        """One part of many samples by rounds of its own on its own kernel rows.

        A sample moves often before it is where it belongs. Here it does so among some ten
        thousand others, and the kernel row over all samples is computed once for all its moves.
        """
        start = time.perf_counter()
        chosen = pricing.select(size)
        part, working, rounds = active.part(chosen), np.empty(0, np.int64), 0
        self.seconds["selection"] += time.perf_counter() - start

        def state() -> tuple:
            intercept = part.violation_and_intercept()[1]
            beta = part.beta_of_all()
            return violation, part.objective(), beta, intercept, active.n_settled

        goal = max(constants.PART_TOL * violation, 0.5 * constants.TARGET * active.tol)
        left, _ = part.violation_and_intercept()
        while left > goal and rounds < constants.ROUNDS_PER_PART:
            working = self._round(part, working, left)
            left, _ = part.violation_and_intercept()
            rounds += 1
            if self.monitor.observe(self.n_iter, state) is not None:
                break
        self.second_order.count_round(active.n, 0, 0, pricing.take_over(part, chosen))

    def _second_order_step(self, active: ActiveSet) -> bool:
        """A second-order step, if one is due; its own steps count as iterations."""

        def state() -> tuple:
            violation, intercept = active.violation_and_intercept()
            beta = active.beta_of_all()
            return violation, active.objective(), beta, intercept, active.n_settled

        def count_steps(steps: int) -> Status | None:
            self.n_iter += steps
            self.stop = self.stop or self.monitor.observe(self.n_iter, state)
            return self.stop

        try:
            return self.second_order.step(active, self.may_shrink, count_steps)
        except LimitIsSlack as slack:
            self.within_limits = active.beta_of_all().copy()
            self.within_limits[active.index] = slack.beta
            self.stop = self.stop or Status.STALLED
            return True

    def _limit_is_slack(self, active: ActiveSet) -> bool:
        """Whether to give the two sums up; if so, β is kept for what follows."""
        if not self.problem.limited or self.n_iter < self.problem.n:
            return False
        found = violation_of(active.problem, active.beta, active.residual)
        slack = seems_slack(self.problem, *found)
        if slack:
            self.within_limits = active.beta_of_all().copy()
        return slack

    def left_some_out(self) -> bool:
        return self.active is not None and self.active.n < self.problem.n

    def running_residual(self, beta):
        return None if self.active is None else self.active.running_residual(beta)

    def _active_samples(self, tol: float, beta, residual) -> ActiveSet:
        """Those of the last pass with their kernel rows where that is possible, else all."""
        if self.active is None or not self.active.resume_with(self.problem, tol, beta, residual):
            self.active = None  # its memory first
            self.active = ActiveSet(
                self.problem, tol, self.run.cache_bytes, beta, residual, self.seconds
            )
            if self.may_shrink and beta.any():
                self.active.shrink()
        return self.active

    def _correct(self, active: ActiveSet, margin: float) -> bool:
        if margin == np.inf or not self.monitor.has_time_for_another_certificate():
            return False
        start = time.perf_counter()
        corrected = active.correct(margin)
        self.seconds["certificate"] += time.perf_counter() - start
        return corrected

    def _round(self, active: ActiveSet, last: np.ndarray, violation: float) -> np.ndarray:
        """One working set: select, fetch, optimise, update."""
        start = time.perf_counter()
        # The first violators are as good as random: few of their rows will be wanted again.
        grown = (
            max(constants.FIRST_WORKING_SET, 2 * len(last)) if active.n > self.size else self.size
        )
        working = active.select(min(self.size, grown), last)
        selected, others = time.perf_counter(), self.seconds["kernel"] + self.seconds["update"]
        tol = constants.TARGET * active.tol
        if len(working) < active.n:
            tol = max(0.5 * tol, constants.INNER_TOL * violation)
        elif self.refines:
            tol *= _REFINED_TOL
        limit = min(constants.STEPS_PER_ROUND, self.monitor.iterations_left(self.n_iter))
        if len(working) == active.n:  # no other samples wait: second-order steps are asked earlier
            limit = min(limit, constants.STEPS_PER_SAMPLE * active.n)
        steps, moved = active.pair_steps(working, tol, limit)
        self.seconds["selection"] += selected - start
        others = self.seconds["kernel"] + self.seconds["update"] - others
        self.seconds["inner"] += time.perf_counter() - selected - others
        self.n_iter += steps
        self.rounds += 1
        self.second_order.count_round(active.n, len(working), steps, moved)
        return working
