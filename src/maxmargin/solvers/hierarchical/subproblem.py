"""One subproblem of the hierarchical method: what goes into it, and what comes out.

These functions run on workers. They see where the samples are (`Samples`), sets of
support vectors of other subproblems, and nothing else.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin.monitor import Monitor
from maxmargin.optimality import is_issued
from maxmargin.parallel import always_one_thread
from maxmargin.problem import Problem, snap_to_bounds
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.common.certified_run import CertificateCost

# Kernel rows that a subproblem always has memory for.
_LEAST_ROWS = 4
# Distance to the margin within which a sample is nearly on its wrong side, and the number of
# support vectors per such sample that is readmitted.
_NEAR_MARGIN = 0.1
_SUPPORT_PER_NEAR = 4


@dataclass(frozen=True, eq=False)
class Support:
    """Samples with their β: what a subproblem hands on.

    Attributes
    ----------
    samples : their numbers, ascending
    beta : signed coefficients, none of them zero in what a solver returns
    rows : the samples themselves, where the reader has no access to them
    residual : p − Kβ of each, where β is the whole answer that they are of or were checked with
    proven : whether that residual is of a certificate for this very β
    intercept, violation, objective : of the subproblem
    status, n_iter, seconds, evaluations, n_samples : how it was solved
    n_iter_before : iterations of all subproblems that led to it
    chain : seconds of the longest chain of subproblems that ends with this one
    """

    samples: np.ndarray
    beta: np.ndarray
    rows: Any = None
    residual: np.ndarray | None = None
    proven: bool = False
    intercept: float = 0.0
    violation: float = np.inf
    objective: float = 0.0
    status: Status = Status.CONVERGED
    n_iter: int = 0
    seconds: float = 0.0
    evaluations: int = 0
    n_samples: int = 0
    chain: float = 0.0
    n_iter_before: int = 0

    def __sizeof__(self) -> int:
        # Dask runs a task where most bytes of its arguments are.
        rows = 0 if self.rows is None else self.rows.__sizeof__()
        residual = 0 if self.residual is None else self.residual.nbytes
        return rows + self.samples.nbytes + self.beta.nbytes + residual


class Samples(ABC):
    """Where a worker finds the samples of all problems of a fit."""

    @abstractmethod
    def union(self, parts: list[Support], number: int) -> tuple[np.ndarray, Problem, Run, Any]:
        """Numbers, problem, run and rows of all samples of the parts; it starts at their β."""


class SharedSamples(Samples):
    """Samples of problems that every worker can read: in its memory, or mapped into it."""

    def __init__(self, batch: list[tuple[Problem, Run]]):
        self.batch = batch

    def union(self, parts, number):
        samples = np.sort(np.concatenate([part.samples for part in parts]), kind="stable")
        samples = samples[np.append(True, samples[1:] != samples[:-1])[: len(samples)]]
        start = np.zeros(len(samples))
        for part in parts:
            if part.beta.any():
                start[np.searchsorted(samples, part.samples)] += part.beta
        problem, run = self.batch[number]
        return samples, problem.restrict(samples), replace(run, start=start), None

    def residual(
        self, number: int, index: np.ndarray, support: Support, provisional: bool
    ) -> tuple[np.ndarray, int]:
        """p − Kβ of some samples of a problem, and the kernel values it took.

        In float64; for a provisional answer in the precision of the kernel's rows.
        """
        problem, _ = self.batch[number]
        kernel = problem.kernel.with_own_counter()
        product = kernel.multiply(
            support.samples, support.beta, rows=index, precise=not provisional
        )
        return problem.linear[index] - product, kernel.evaluations


@dataclass(frozen=True, eq=False)
class Task:
    """How a subproblem is to be solved.

    Attributes
    ----------
    base : what solves it
    number : which of the fit's problems it is a part of
    tol : the KKT violation at which it counts as solved
    provisional : whether all samples judge its answer before it is relied upon
    refine : whether a small one is solved to the exact optimum
    share : factor on the β that its parts come with
    resumes : whether its parts are one answer and samples with β = 0
    memory : part of the whole problem's memory that it may take
    max_iter, deadline, stop : limits; iterations are those of all subproblems that it comes
        from, and the deadline is a `time.time()`
    """

    base: Solver
    number: int
    tol: float
    provisional: bool = False
    refine: bool = True
    share: float = 1.0
    resumes: bool = False
    memory: float = 1.0
    max_iter: int = -1
    deadline: float | None = None
    stop: Any = None


def solve_union(samples: Samples, parts: list[Support], task: Task) -> Support:
    """Solve the problem of the union of some parts, and return its support vectors.

    After a request to stop it returns its start, so that the whole graph of tasks ends at
    once, with a feasible β.
    """
    # Alone in its thread, a task counts its own processor time: what else the machine does, or
    # another thread that holds the interpreter, is no part of the paper's count.
    clock = time.thread_time if always_one_thread() else time.perf_counter
    begun = clock()
    index, problem, run, rows = samples.union(parts, task.number)
    problem = replace(problem, kernel=problem.kernel.with_own_counter())
    before = sum(part.n_iter_before + part.n_iter for part in parts)
    run = _run_of(task, run, problem, before)
    if task.resumes:
        run = replace(run, start_residual=_known_residual(index, parts))
    found = _solved(task.base, problem, run)
    nonzero = np.flatnonzero(found.beta)
    seconds = clock() - begun
    return replace(
        found,
        samples=index[nonzero],
        beta=found.beta[nonzero],
        rows=None if rows is None else rows[nonzero],
        residual=None if found.residual is None else found.residual[nonzero],
        evaluations=problem.kernel.evaluations,
        seconds=seconds,
        n_samples=len(index),
        chain=seconds + max((part.chain for part in parts), default=0.0),
        n_iter_before=before,
    )


def _run_of(task: Task, run: Run, problem: Problem, n_iter_before: int) -> Run:
    """The options of a subproblem: the task's limits, and its share of memory and of the start."""
    memory = max(int(task.memory * run.cache_bytes), _LEAST_ROWS * 8 * problem.n)
    start = None if run.start is None else task.share * run.start
    deadline = None
    if task.deadline is not None:
        deadline = time.perf_counter() + (task.deadline - time.time())
    max_iter = task.max_iter if task.max_iter < 0 else max(0, task.max_iter - n_iter_before)
    monitor = Monitor(max_iter=max_iter, deadline=deadline, interrupt=task.stop)
    if not task.provisional:
        monitor.certificate_seconds = CertificateCost(problem)
    return replace(
        run,
        tol=task.tol,
        provisional=task.provisional,
        refine=task.refine,
        start=start if start is not None and start.any() else None,
        start_residual=None,
        cache_bytes=min(memory, run.cache_bytes),
        monitor=monitor,
    )


def _solved(base: Solver, problem: Problem, run: Run) -> Support:
    """β of all samples of a subproblem; the start where it may not, or need not, be solved."""
    everybody = np.arange(problem.n)
    status = run.monitor.should_stop(0)
    if status is not None or not (problem.upper.any() and problem.lower.any()):
        beta = run.initial_beta(problem)
        return Support(everybody, beta, status=status or Status.CONVERGED)
    solution = base.solve(problem, run)
    # The mean of several starts may be next to a bound.
    beta = snap_to_bounds(solution.beta, problem.lower, problem.upper)
    found = Support(
        everybody, beta, intercept=solution.intercept, status=solution.status,
        n_iter=solution.n_iter,
    )  # fmt: skip
    now = solution.certificate
    if now is None:
        return found
    return replace(
        found, residual=now.residual, proven=is_issued(now, problem, beta),
        violation=now.kkt_violation, objective=now.objective,
    )  # fmt: skip


def _known_residual(index: np.ndarray, parts: list[Support]) -> np.ndarray | None:
    """p − Kβ of all these samples at the start, if it came with the parts."""
    residual = np.full(len(index), np.nan)
    for part in parts:
        if part.residual is not None:
            residual[np.searchsorted(index, part.samples)] = part.residual
    return residual if np.isfinite(residual).all() else None


def beyond_margin(residual, intercept: float, lower, upper, epsilon: float = 0.0) -> np.ndarray:
    """How far samples with β = 0 are beyond their margin, or outside their tube."""
    error = residual - intercept
    growing = np.where(upper > 0, error - epsilon, -np.inf)
    return np.maximum(growing, np.where(lower < 0, -error - epsilon, -np.inf))


def extremes_outside(residual, lower, upper, epsilon: float = 0.0) -> tuple[float, float]:
    """The largest p − Kβ − ε of samples with β = 0 that may grow, the least p − Kβ + ε of those
    that may shrink.
    """
    highest = float(np.max(residual[upper > 0], initial=-np.inf))
    lowest = float(np.min(residual[lower < 0], initial=np.inf))
    return highest - epsilon, lowest + epsilon


def samples_to_readmit(distance: np.ndarray, n_support: int) -> np.ndarray:
    """The samples with β = 0 to readmit, the farthest on the wrong side first.

    `distance` is how far they are beyond their margin. All samples beyond it are readmitted,
    and for every four support vectors one sample that is nearly beyond: it would be the next.
    """
    beyond = int(np.count_nonzero(distance > 0))
    nearly = int(np.count_nonzero(distance > -_NEAR_MARGIN)) - beyond
    nearly = min(nearly, n_support // _SUPPORT_PER_NEAR)
    return np.argsort(-distance, kind="stable")[: beyond + nearly]
