"""IRWLS: iteratively re-weighted least squares inside a chunking scheme (SVC-radit)."""

from __future__ import annotations

import time
from collections import defaultdict
from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

from maxmargin import constants
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import ONE_SUM, Capabilities, Solver
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.certified_run import CertifiedRun
from maxmargin.solvers.common.low_rank_passes import factor_of, low_rank_passes
from maxmargin.solvers.common.precision import can_double, precise_enough, steps_per_pass
from maxmargin.solvers.common.reweighted_block import ranges_of, solve_block, weakest_of
from maxmargin.solvers.common.reweighted_steps import SMOOTHING_PART_OF_TOL, solve_chunk
from maxmargin.solvers.irwls.chunks import (
    LARGEST,
    RANDOM,
    SMALLEST,
    chunk_size,
    select_chunk,
)

SELECTIONS = {"random": RANDOM, "largest": LARGEST, "smallest": SMALLEST}
# The first smoothing width of a chunk, as part of the present violation.
_FIRST_SMOOTHING = 0.4
# Chunks up to this size are one compiled call; larger ones are watched between their stages.
_COMPILED_CHUNK = 256
# Newton steps of a stage of such a chunk, at most.
_STEPS_PER_STAGE = 50
# From this many samples on a factor of low rank is looked for, whose rank is at most this
# part of them, and at most so many.
_LOW_RANK_SAMPLES = 1000
_MAX_RANK_PART = 0.2
_MAX_RANK = 1500
# SMO steps of a chunk that is left to them, at most.
_STEPS_WITHOUT_SYSTEM = 50_000


class IRWLS(Solver):
    """Re-weighted least squares on chunks of samples (Pérez-Cruz et al., SVC-radit).

    A chunk's problem is solved by the algorithm of Table 1: samples at 0 (S₂), at C
    (S₃) and between (S₁), for which the system K + D with the inverse weights D is
    solved, until the sets stay as they are. Added to the paper, because Table 1 as
    printed swings between the sets and does not settle:

    - *Smoothing.* The weight C/e of equation (8), with C in place of the paper's 2C
      (whose fixed point is β = 2C), grows beyond all bounds where e → 0. Here it
      is C/max(e, δ): the smoothed hinge, quadratic on a width δ. A sample with e > δ
      would have a·e = C; it belongs to S₃ and leaves the system, as in step 4b.
    - *Stages.* δ narrows from stage to stage. Each stage shifts its hinge by the β of
      the last one (the method of multipliers), so that the optimum does not
      depend on δ in the end, and few samples change sets between stages.
    - *A line search.* The objective of a stage is convex and piecewise quadratic, and
      its minimum on the line to the system's solution is found exactly; so it falls
      with every step, and a stage ends after finitely many.
    - *A guard.* K + D is factored by Cholesky, and b eliminated through the border.
      Where K is indefinite, or a chunk's answer would not lower the dual objective,
      the chunk is left to SMO steps.

    In a regression, errors within the tube cost nothing, and the weight is C/max(e − ε, δ) on
    either side of it (the authors' form for regression): S₁ are the samples between 0 and a
    bound, on one side or the other.

    Parameters
    ----------
    chunk_size : int, "auto" or "all"
        Samples of a working set (q of the paper). "all" solves without chunks.
        "auto" does so where the kernel matrix has a low rank, which makes (3) a
        diagonal plus a matrix of low rank, and else takes chunks of up to 512.
    selection : {"random", "largest", "smallest"}
        Which of the samples that violate the optimality conditions make up a chunk:
        random ones (the paper's choice), those with the largest absolute error
        or those with the smallest.
    shrinking : bool
        Whether to leave out samples that seem to stay at a bound.
    """

    name = "irwls"
    capabilities = Capabilities(formulations=ONE_SUM, thread_safe=True)

    def __init__(
        self, chunk_size: int | str = "auto", selection: str = "random", shrinking: bool = True
    ):
        whole_number = isinstance(chunk_size, Integral) and chunk_size >= 2
        if chunk_size not in ("auto", "all") and not whole_number:
            raise ValueError(
                f"chunk_size must be a whole number from 2, 'auto' or 'all', got {chunk_size!r}."
            )
        if selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {sorted(SELECTIONS)}, got {selection!r}.")
        self.chunk_size = chunk_size
        self.selection = selection
        self.shrinking = shrinking

    def solve(self, problem: Problem, run: Run) -> Solution:
        chunks = _ChunkRun(problem, run, self)
        status = chunks.until_certified()
        return chunks.solution(status, chunks.details())


class _ChunkRun(CertifiedRun):
    """One solve: chunks of the active samples, then the certificate of all of them."""

    def __init__(self, problem: Problem, run: Run, options: IRWLS):
        super().__init__(problem, run, options.shrinking)
        self.options = options
        self.chunks = self.pair_steps = self.size = 0
        self.rank: int | None = None
        self.try_low_rank = options.chunk_size in ("auto", "all")
        self.random = check_random_state(run.random_state)
        self.ranges = ranges_of(problem)

    def details(self) -> dict:
        """What was solved how often, and where the time went."""
        return {
            "chunk_size": self.size, "chunks": self.chunks, "rank": self.rank,
            "pair_steps": self.pair_steps, **self.seconds_by_part(),
        }  # fmt: skip

    def _optimise(
        self, tol: float, beta: np.ndarray, residual: np.ndarray, max_rounds: float = np.inf
    ) -> tuple[np.ndarray, Status | None]:
        """Solve until the active samples are optimal; β of all, and the reason to stop early."""
        problem, beta = self.problem, beta.copy()
        target = constants.TARGET * tol
        violation, _ = violation_of(problem, beta, residual)
        if self.try_low_rank and problem.n >= _LOW_RANK_SAMPLES and violation > target:
            beta, residual, stop = self._all_by_low_rank(tol, beta, residual)
            violation, _ = violation_of(problem, beta, residual)
            if stop is not None or violation <= target:
                return beta, stop
        active = ActiveSet(problem, tol, self.run.cache_bytes, beta, residual, defaultdict(float))
        stop, chunks, last_step = None, 0, self.n_iter + steps_per_pass(problem.n)
        while stop is None and chunks < max_rounds and self.n_iter < last_step:
            violation, b = active.violation_and_intercept()
            if violation <= target:
                break
            if chunks:
                stop = self._watch(active, violation, b)
            if stop is not None:
                break
            self.size = chunk_size(self.options.chunk_size, active)
            stop = self._chunk(active, b, violation)
            chunks += 1
            if not precise_enough(problem, tol, active.change(), violation) and can_double(problem):
                break
            if self.may_shrink and chunks % constants.SHRINK_INTERVAL == 0:
                active.shrink()
        return active.beta_of_all().copy(), stop

    def _chunk(self, active: ActiveSet, b: float, violation: float) -> Status | None:
        """Select a chunk, solve its problem, and carry the change over to all active samples."""
        clock = time.perf_counter()
        problem = active.problem
        if self.size < active.n:
            working = select_chunk(
                active.beta, active.residual, problem.lower, problem.upper, problem.epsilon,
                _sides(active, b), b, 0.5 * constants.TARGET * active.tol, self.size,
                SELECTIONS[self.options.selection], self.random.random_sample(self.size),
            )  # fmt: skip
        else:
            working = np.arange(active.n)
        clock = self._count("selection", clock)
        K = active.block(working).astype(np.float64)
        clock = self._count("kernel", clock)
        before = active.beta[working]
        smoothing = SMOOTHING_PART_OF_TOL * active.tol
        if len(working) < active.n:
            smoothing = max(smoothing, constants.INNER_TOL * violation)
        new, stop = self._solve_block(active, working, K, b, violation, smoothing)
        clock = self._count("optimise", clock)
        self.chunks += 1
        if new is None:
            limit = min(_STEPS_WITHOUT_SYSTEM, self.monitor.iterations_left(self.n_iter))
            steps, _ = active.pair_steps(
                working, max(smoothing, constants.INNER_TOL * violation), limit
            )
            self.n_iter += steps
            self.pair_steps += steps
            self._count("optimise", clock)
            return None
        active.beta[working] = new
        active.update_residual(working, new - before)
        self._count("update", clock)
        return stop

    def _solve_block(
        self, active, working, K, b, violation, smoothing
    ) -> tuple[np.ndarray | None, Status | None]:
        """β that lowers the objective of the working set, or None; and the reason to stop."""
        beta, residual = active.beta[working], active.residual[working]
        lower, upper = active.problem.lower[working], active.problem.upper[working]
        ranges = self.ranges[active.index[working]]
        first = min(1.0, _FIRST_SMOOTHING * violation)
        if len(working) <= _COMPILED_CHUNK:
            new, _, steps, decrease = solve_chunk(
                K, residual, beta, lower, upper, active.problem.epsilon, ranges,
                weakest_of(active.problem.kernel.dtype, K), b, first, smoothing, _STEPS_PER_STAGE,
            )  # fmt: skip
            self.n_iter += steps
            return (new if decrease > 0 else None), None
        stopped: list[Status] = []

        def watch(steps: int, _) -> bool:
            self.n_iter += steps
            status = self.monitor.should_stop(self.n_iter)
            if status is not None:
                stopped.append(status)
            return bool(stopped)

        found = solve_block(
            active.problem, K, working, beta, residual, (b,), violation, (first, smoothing), watch
        )
        stop = stopped[0] if stopped else None
        return (beta if found is None and stop else found), stop

    def _all_by_low_rank(self, tol: float, beta: np.ndarray, residual: np.ndarray):
        """All samples at once with K = VVᵀ; what V lacks is made up for by the true residual."""
        clock = time.perf_counter()
        problem = self.problem
        V = factor_of(
            problem, self.run.cache_bytes, min(_MAX_RANK, int(_MAX_RANK_PART * problem.n))
        )
        clock = self._count("kernel", clock)
        if V is None:
            self.try_low_rank = False
            return beta, residual, None
        self.size, self.rank = problem.n, V.shape[1]
        stop: list[Status] = []

        def watch(steps: int, state) -> bool:
            self.n_iter += steps
            status = self.monitor.should_stop(self.n_iter)
            if status is None and state is not None:
                status = self.monitor.update(self.n_iter, *state())
            if status is not None:
                stop.append(status)
            return bool(stop)

        beta, residual, self.try_low_rank = low_rank_passes(problem, tol, V, beta, residual, watch)
        self.chunks += 1
        self._count("optimise", clock)
        return beta, residual, stop[0] if stop else None

    def _count(self, part: str, since: float) -> float:
        now = time.perf_counter()
        self.seconds[part] += now - since
        return now

    def _watch(self, active: ActiveSet, violation, b) -> Status | None:
        return self.monitor.observe(
            self.n_iter, lambda: (violation, active.objective(), active.beta_of_all(), b)
        )


def _sides(active: ActiveSet, b: float) -> np.ndarray:
    """The class of each sample; in a regression, the side of the function that it is on."""
    problem = active.problem
    return active.residual > b if problem.labels is None else problem.linear > 0
