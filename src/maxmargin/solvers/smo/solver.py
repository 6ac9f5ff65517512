"""Sequential minimal optimisation with second-order working set selection."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from maxmargin.kernels.row_cache import RowCache
from maxmargin.monitor import Monitor
from maxmargin.optimality import violation_and_intercept
from maxmargin.problem import Problem
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.common.certified_run import judged, start_of
from maxmargin.solvers.common.free_system import polish
from maxmargin.solvers.common.pair_steps import (
    CONVERGED,
    EXHAUSTIVE,
    MAXIMAL_VIOLATING_PAIR,
    ROW_MISSING,
    SECOND_ORDER,
    likely_next,
    set_penalties,
    smo_steps,
)
from maxmargin.solvers.common.precision import Passes

SELECTIONS = {
    "second-order": SECOND_ORDER,
    "maximal-violating-pair": MAXIMAL_VIOLATING_PAIR,
    "exhaustive": EXHAUSTIVE,
}
# Steps between two attempts to shrink, as in LIBSVM.
_SHRINK_INTERVAL = 1000
# Work between two looks at the clock and the keyboard, in samples touched (about 0.05 s).
_WORK_PER_CALL = 50_000_000
_UPDATE_SECONDS = 0.1
# Rows computed along with a missing one: a block product makes them cheap, but guesses that are
# not used push rows out that are (a9a with 200 MB: 16 s without, 13 s with 8, 17 s with 32).
_AHEAD = 8
# Up to this many samples, all rows in one product cost less than their fetching one by one.
_WHOLE_MATRIX = 1024
# Rounds of refinement, and the part of tol that counts as exact.
_REFINEMENTS = 8
_EXACT = 1e-8
_UNLIMITED = np.iinfo(np.int64).max


class SMO(Solver):
    """Two samples a step, chosen by the method of Fan, Chen and Lin.

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
        Whether to set samples aside that seem to stay at a bound. The gradient of
        those is computed anew before the solver believes that it has converged.
    """

    name = "smo"
    side_by_side = True

    def __init__(self, selection: str = "second-order", shrinking: bool = True):
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {sorted(SELECTIONS)}, got {selection!r}.")
        self.selection = selection
        self.shrinking = shrinking

    def solve(self, problem: Problem, monitor: Monitor) -> Solution:
        if self.selection == "exhaustive":
            _require_whole_matrix(problem)
        run = _Run(problem, monitor, SELECTIONS[self.selection], self.shrinking)
        status = run.until_certified()
        return Solution(
            run.certificate.beta, run.certificate.intercept, status, run.n_iter,
            solver=self.name, reason="asked for", certificate=run.certificate,
        )  # fmt: skip


class _Run:
    """The state of one solve: β of all samples, and arrays of the active ones."""

    def __init__(self, problem: Problem, monitor: Monitor, selection: int, shrinking: bool):
        self.problem, self.monitor = problem, monitor
        self.selection, self.shrinking = selection, shrinking
        self.beta, residual = start_of(problem)
        self.residual = residual.copy()
        self.diagonal = problem.kernel.diagonal().astype(np.float32)
        self.may_shrink = shrinking
        self.n_iter = 0
        self.objective = -0.5 * float(self.beta @ (problem.linear + self.residual))
        self._last_update = -np.inf

    def until_certified(self) -> Status:
        """Solve on the active samples until the float64 gradient of all of them agrees.

        The running gradient drifts, the more so with float32 kernel rows. So it
        is replaced by one computed from scratch, and the steps go on from there:
        what is left is small, and converges like iterative refinement.
        """
        passes = Passes()
        while True:
            self.may_shrink = self.shrinking and passes.may_shrink(self.problem.tol)
            stop = self._optimise(self.problem)
            violation = self._certify()
            if violation <= self.problem.tol:
                self._refine()
                return Status.CONVERGED
            if stop is not None:
                return stop
            following = passes.next_problem(self.problem, self.beta, violation, self.may_shrink)
            if following is None:
                return Status.STALLED
            self.problem = following

    def _certify(self) -> float:
        self.certificate = judged(self.problem, self.beta.copy())
        self.objective = self.certificate.objective
        self.residual = self.certificate.residual.copy()
        return self.certificate.kkt_violation

    def _refine(self) -> None:
        """Small problems go on to the exact optimum: a linear system, then steps, in turn."""
        if self.problem.draft or not self.problem.refine:
            return
        for _ in range(_REFINEMENTS):
            best = self.certificate = polish(self.problem, self.certificate)
            violation = best.kkt_violation
            if self.problem.n > _WHOLE_MATRIX or violation <= _EXACT * self.problem.tol:
                return
            self.beta, self.residual = best.beta.copy(), best.residual.copy()
            self._optimise(replace(self.problem, tol=0.01 * violation), self.problem.n)
            if self._certify() >= violation:
                self.certificate = best
                return

    def _optimise(self, problem: Problem, max_steps: int = _UNLIMITED) -> Status | None:
        """Steps on the active samples, fewer and fewer of them, until these are optimal."""
        active = np.arange(problem.n)
        last = min(_UNLIMITED, self.n_iter + max_steps)
        cache = RowCache(problem.kernel, problem.cache_bytes)
        while True:
            stop, kept = self._steps(problem, cache, active, last)
            if kept is None:
                return stop
            problem, active = problem.restrict(kept), active[kept]
            cache.restrict(kept, problem.kernel)

    def _steps(self, problem, cache, active, last) -> tuple[Status | None, np.ndarray | None]:
        """Steps until the active samples are optimal (None), or a smaller set is worth it."""
        beta, residual = self.beta[active], self.residual[active]
        self._before = beta.copy(), residual.copy()
        diagonal = self.diagonal[active]
        grow, shrink = np.empty_like(diagonal), np.empty_like(diagonal)
        set_penalties(beta, problem.lower, problem.upper, grow, shrink)
        clock = since_shrink = 0
        per_call = max(1, _WORK_PER_CALL // problem.n)
        if self.selection == EXHAUSTIVE:
            per_call = max(1, per_call // problem.n)
        if self.selection == EXHAUSTIVE or cache.n_slots == problem.n <= _WHOLE_MATRIX:
            cache.fetch(np.arange(problem.n), clock)
        stop, kept = None, None
        while stop is None and kept is None and self.n_iter < last:
            allowed = min(last - self.n_iter, self.monitor.iterations_left(self.n_iter))
            limit = min(allowed, per_call, _SHRINK_INTERVAL)
            outcome, steps, missing, violation, clock = smo_steps(
                cache.rows, cache.slot_of, cache.last_used, clock, diagonal, beta, residual,
                problem.lower, problem.upper, grow, shrink, problem.tol, limit, self.selection,
            )  # fmt: skip
            self.n_iter += steps
            since_shrink += steps
            if outcome == CONVERGED:
                break
            if outcome == ROW_MISSING:
                wanted = likely_next(
                    residual, grow, shrink, cache.slot_of, missing, min(_AHEAD, cache.n_slots // 8)
                )
                cache.fetch(np.array(sorted(set(wanted.tolist()))), clock)
            stop = self._watch(beta, residual, violation, problem, active)
            if self.may_shrink and since_shrink >= min(problem.n, _SHRINK_INTERVAL):
                since_shrink = 0
                kept = _worth_keeping(beta, residual, problem)
        self.objective = self._objective_now(beta, residual)
        self.beta[active], self.residual[active] = beta, residual
        return stop, kept

    def _objective_now(self, beta: np.ndarray, residual: np.ndarray) -> float:
        """The objective of all samples, from its change since the active ones were chosen.

        Only these have moved since: ½βᵀKβ − pᵀβ changes by −½(β − β₀)ᵀ(r + r₀).
        """
        old_beta, old_residual = self._before
        return self.objective - 0.5 * float((beta - old_beta) @ (residual + old_residual))

    def _watch(self, beta, residual, violation, problem, active) -> Status | None:
        now = time.perf_counter()
        if now - self._last_update < _UPDATE_SECONDS:
            return self.monitor.should_stop(self.n_iter)
        self._last_update = now
        self.beta[active] = beta
        objective = self._objective_now(beta, residual)
        _, intercept = violation_and_intercept(beta, residual, problem.lower, problem.upper)
        return self.monitor.update(self.n_iter, violation, objective, self.beta, intercept)


def _worth_keeping(beta, residual, problem: Problem) -> np.ndarray | None:
    """The samples that may still move, or None while they are most of the set.

    A sample at a bound is set aside when it is pulled outwards beyond every
    sample that could be its partner (LIBSVM's rule, in β-form).
    """
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    highest, lowest = residual[can_grow].max(), residual[can_shrink].min()
    settled = (~can_grow & (residual > highest)) | (~can_shrink & (residual < lowest))
    kept = np.flatnonzero(~settled)
    # Compacting costs a new cache: it pays only once a good part of the samples has gone.
    return kept if 2 <= len(kept) < 0.7 * problem.n else None


def _require_whole_matrix(problem: Problem) -> None:
    needed = problem.n**2 * problem.kernel.dtype.itemsize
    if needed > problem.cache_bytes:
        raise ValueError(
            f"selection='exhaustive' needs the whole kernel matrix, {needed / 2**20:.0f} MB for "
            f"{problem.n} samples; cache_size allows {problem.cache_bytes / 2**20:.0f} MB."
        )
