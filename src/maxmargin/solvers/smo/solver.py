"""Sequential minimal optimisation with second-order working set selection."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.row_cache import RowCache
from maxmargin.monitor import WORK_PER_CALL
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import FORMULATIONS, Capabilities, Solver
from maxmargin.solvers.common.certified_run import CertifiedRun
from maxmargin.solvers.common.limit import seems_slack
from maxmargin.solvers.common.pair_steps import (
    CONVERGED,
    EXHAUSTIVE,
    MAXIMAL_VIOLATING_PAIR,
    ROW_MISSING,
    SECOND_ORDER,
    diagonal_for_gains,
    likely_next,
    penalties_of,
    smo_steps,
)
from maxmargin.solvers.common.shrinking import worth_shrinking_to

SELECTIONS = {
    "second-order": SECOND_ORDER,
    "maximal-violating-pair": MAXIMAL_VIOLATING_PAIR,
    "exhaustive": EXHAUSTIVE,
}
# Steps between two attempts to shrink, as in LIBSVM.
_SHRINK_INTERVAL = 1000
# Rows computed along with a missing one: a block product makes them cheap, but guesses that are
# not used push rows out that are (a9a with 200 MB: 16 s without, 13 s with 8, 17 s with 32).
_AHEAD = 8
# Up to this many samples, all rows in one product cost less than their fetching one by one.
_WHOLE_MATRIX = 1024


class SMO(Solver):
    """Two samples per step, chosen by the method of Fan, Chen and Lin.

    Parameters
    ----------
    selection : {"second-order", "maximal-violating-pair", "exhaustive"}
        How a pair is chosen. The first sample is always the one that violates
        most. Its partner is the one of the largest decrease of the objective
        ("second-order"), or the one that violates most on the other side.
        "exhaustive" checks all pairs for the largest decrease; each step costs
        n² operations and the whole kernel matrix must fit the cache, so it is of
        use to research alone.
    shrinking : bool
        Whether to leave samples out that seem to stay at a bound. Their gradient is
        computed anew before the solver believes that it has converged.
    """

    name = "smo"
    capabilities = Capabilities(FORMULATIONS, thread_safe=True)

    def __init__(self, selection: str = "second-order", shrinking: bool = True):
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {sorted(SELECTIONS)}, got {selection!r}.")
        self.selection = selection
        self.shrinking = shrinking

    def solve(self, problem: Problem, run: Run) -> Solution:
        if self.selection == "exhaustive":
            _require_whole_matrix(problem, run)
        steps = _PairRun(problem, run, SELECTIONS[self.selection], self.shrinking)
        return steps.solution(steps.until_certified())


class _PairRun(CertifiedRun):
    """The state of one solve: β of all samples, and arrays of the active ones."""

    refined_samples = _WHOLE_MATRIX

    def __init__(self, problem: Problem, run: Run, selection: int, shrinking: bool):
        super().__init__(problem, run, shrinking)
        self.selection = selection
        self.diagonal = diagonal_for_gains(problem.kernel.diagonal())

    def _optimise(self, tol, beta, residual, max_rounds=np.inf):
        """Steps on the active samples, fewer and fewer of them, until these are optimal.

        A round is as many steps as there are samples.
        """
        self.beta, self.residual = beta.copy(), residual.copy()
        problem = self.problem
        self.objective = problem.objective(beta, residual)
        active, stop = np.arange(problem.n), None
        last = self.n_iter + problem.n * max_rounds
        cache = RowCache(problem.kernel, self.run.cache_bytes)
        while True:
            stop, kept = self._steps(problem, tol, cache, active, last)
            if kept is None:
                return self.beta, stop
            problem, active = problem.restrict(kept, self.beta[active]), active[kept]
            cache.restrict(kept, problem.kernel)

    def _steps(self, problem, tol, cache, active, last) -> tuple[Status | None, np.ndarray | None]:
        """Steps until the active samples are optimal (None), or a smaller set is worth it."""
        beta, residual = self.beta[active], self.residual[active]
        self._before = beta.copy(), residual.copy()
        diagonal = self.diagonal[active]
        grow, shrink = penalties_of(
            beta, problem.lower, problem.upper, problem.epsilon, problem.by_sign, tol
        )
        since_shrink = 0
        per_call = max(1, WORK_PER_CALL // problem.n)
        if self.selection == EXHAUSTIVE:
            per_call = max(1, per_call // problem.n)
        if self.selection == EXHAUSTIVE or cache.capacity == problem.n <= _WHOLE_MATRIX:
            cache.fetch(np.arange(problem.n))
        stop, kept = None, None
        while stop is None and kept is None and self.n_iter < last:
            allowed = min(last - self.n_iter, self.monitor.iterations_left(self.n_iter))
            limit = int(min(allowed, per_call, _SHRINK_INTERVAL))
            rows, slot_of, last_used = cache.arrays()
            outcome, steps, missing, violation, cache.clock = smo_steps(
                rows, slot_of, last_used, cache.clock, diagonal, beta, residual,
                problem.lower, problem.upper, grow, shrink, problem.epsilon, tol, limit,
                self.selection,
            )  # fmt: skip
            self.n_iter += steps
            since_shrink += steps
            if outcome == CONVERGED:
                break
            if outcome == ROW_MISSING:
                wanted = likely_next(
                    residual, grow.max(axis=0), shrink.min(axis=0), slot_of, missing,
                    min(_AHEAD, cache.capacity // 8),
                )  # fmt: skip
                cache.fetch(np.array(sorted(set(wanted.tolist()))))
            stop = self._watch(beta, residual, violation, problem, active)
            if since_shrink < min(problem.n, _SHRINK_INTERVAL):
                continue
            since_shrink = 0
            if stop is None and self._limit_is_slack(problem, beta, residual, active):
                stop = Status.STALLED
            elif self.may_shrink:
                kept = worth_shrinking_to(problem, beta, residual, tol)
        self.objective = self._objective_now(beta, residual)
        self.beta[active], self.residual[active] = beta, residual
        return stop, kept

    def _objective_now(self, beta: np.ndarray, residual: np.ndarray) -> float:
        """The objective of all samples, from its change since the active ones were chosen.

        Only these have moved since.
        """
        old_beta, old_residual = self._before
        return self.objective - self.problem.decrease(old_beta, beta, old_residual, residual)

    def _limit_is_slack(self, problem, beta, residual, active) -> bool:
        """Whether to give the two sums up; if so, β is kept for what follows."""
        if not problem.limited or self.n_iter < self.problem.n:
            return False
        if not seems_slack(problem, *violation_of(problem, beta, residual)):
            return False
        self.within_limits = self.beta.copy()
        self.within_limits[active] = beta
        return True

    def _watch(self, beta, residual, violation, problem, active) -> Status | None:
        def state() -> tuple[float, float, np.ndarray, float, int]:
            self.beta[active] = beta
            _, levels = violation_of(problem, beta, residual)
            objective = self._objective_now(beta, residual)
            n_settled = self.problem.n - len(active)
            return violation, objective, self.beta, sum(levels) / len(levels), n_settled

        return self.monitor.observe(self.n_iter, state)


def _require_whole_matrix(problem: Problem, run: Run) -> None:
    needed = problem.n**2 * problem.kernel.dtype.itemsize
    if needed > run.cache_bytes:
        raise ValueError(
            f"selection='exhaustive' needs the whole kernel matrix, {needed / 2**20:.0f} MB for "
            f"{problem.n} samples; cache_size allows {run.cache_bytes / 2**20:.0f} MB."
        )
