"""The hierarchical parallel method: subproblems of parts, then of their support vectors.

After Wen and Lu, "A Hierarchical and Parallel Method for Training Support Vector
Machines". The single pass of the paper filters samples and may lose some that matter;
here the samples that violate the optimality of its answer come back, until the KKT
violation of the whole problem is within tol.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from maxmargin.execution.executors import Executor, active_executor
from maxmargin.monitor import Monitor
from maxmargin.optimality import Certificate, certify
from maxmargin.parallel import split
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import STOPPED, Solution
from maxmargin.solvers.base import Capabilities, Solver
from maxmargin.solvers.hierarchical.run import (
    Check,
    HierarchicalRun,
    TaskGenerator,
    limits_of,
    run_until_done,
)
from maxmargin.solvers.hierarchical.subproblem import (
    SharedSamples,
    Support,
    beyond_margin,
    extremes_outside,
    samples_to_readmit,
)
from maxmargin.solvers.registry import make_solver

# With Σβ = 0 any part of the samples is a feasible problem of its own.
_FORMULATIONS = frozenset({"c_svc", "epsilon_svr"})
# Rows whose gradient is one task. The size is fixed, so that bits do not depend on the workers.
_ROWS_OF_A_TASK = 4096


class HierarchicalSVM(Solver):
    """Another solver, called on parts of the samples in parallel and on their support vectors.

    Subproblems run on the threads of this process, on joblib's processes inside
    ``joblib.parallel_config(backend="loky", n_jobs=...)``, or on the workers of a Dask
    cluster inside ``joblib.parallel_config(backend="dask")``. The answer has the same
    bits everywhere.

    Parameters
    ----------
    base : str or Solver
        What solves the subproblems.
    partitions : int
        Parts that the samples of each class, or of a regression, are divided into (K of
        equation 1); a class of fewer samples has as many parts as samples. For Dask
        collections it is the number of subproblems of the second step.
    certify : bool
        Whether samples that the steps lost and that violate the optimality conditions are
        readmitted until there are none: the optimum of the whole problem. False is the
        paper's single pass, whose gap to that optimum is reported.
    filter_tol : float
        KKT violation at which subproblems of the first two steps count as solved, in a
        regression in tenths of the targets' standard deviation. They only choose the samples
        of the last one, which is solved to the `tol` of the fit.
    """

    name = "hierarchical"

    def __init__(
        self,
        base: str | Solver = "auto",
        partitions: int = 4,
        certify: bool = True,
        filter_tol: float = 1.0,
    ):
        if not isinstance(partitions, int) or partitions < 1:
            raise ValueError(f"partitions must be a positive integer, got {partitions!r}.")
        if not filter_tol > 0:
            raise ValueError(f"filter_tol must be positive, got {filter_tol!r}.")
        self.base = base
        self.partitions = partitions
        self.certify = certify
        self.filter_tol = filter_tol

    @property
    def capabilities(self) -> Capabilities:  # type: ignore[override]
        solved = _FORMULATIONS & make_solver(self.base).capabilities.formulations
        return Capabilities(formulations=solved, exact=self.certify)

    def base_solver(self) -> Solver:
        """The solver of the subproblems; an error where the certificate cannot build on it."""
        base = make_solver(self.base)
        has_box = base.capabilities.box
        if not has_box or (self.certify and not base.exact):
            wanted = "ends at the optimum" if has_box else "has a box constraint"
            raise ValueError(
                f"HierarchicalSVM(certify={self.certify}) needs a base that {wanted}; {base!r} "
                "does not."
            )
        return base

    @contextmanager
    def prepare_batch(self, batch):
        everything = list(batch)
        with active_executor() as executor:
            yield _Together(self, everything, executor), everything

    def solve(self, problem: Problem, run: Run) -> Solution:
        with self.prepare_batch([(problem, run)]) as (together, _):
            return together.solve(problem, run)


class _Together(Solver):
    """All problems of one fit, whose subproblems are in one graph of tasks."""

    name = HierarchicalSVM.name

    def __init__(
        self, options: HierarchicalSVM, batch: list[tuple[Problem, Run]], executor: Executor
    ):
        self._options, self._batch, self._executor = options, batch, executor
        self.capabilities = options.capabilities
        self._runs: dict[int, LocalRun] = {}

    def solve(self, problem: Problem, run: Run) -> Solution:
        monitor = run.monitor
        if not self._runs:
            self._begin(monitor)

        def report(event: Support):
            beta = np.zeros(problem.n)
            beta[event.samples] = event.beta
            return monitor.update(
                event.n_iter, event.violation, event.objective, beta, event.intercept
            )

        hierarchical = self._runs[id(problem)]
        run_until_done(hierarchical, list(self._runs.values()), self._executor, monitor, report)
        return hierarchical.solution(monitor)

    def _begin(self, monitor: Monitor) -> None:
        limits = limits_of(monitor, self._executor)
        # Options of a run travel to the workers, its monitor does not.
        batch = [(problem, replace(run, monitor=Monitor())) for problem, run in self._batch]
        samples = self._executor.put(SharedSamples(batch))
        # The largest first: nothing could run beside its last step otherwise.
        for number in sorted(range(len(batch)), key=lambda at: -batch[at][0].n):
            problem, run = self._batch[number]
            hierarchical = LocalRun(
                self._options, self._executor, samples, number, problem, run, limits
            )
            self._runs[id(problem)] = hierarchical
            hierarchical.begin()
        self._executor.flush()


class LocalRun(HierarchicalRun):
    """The run of a problem whose samples this process has: the paper's K² subproblems."""

    certificate: Certificate
    _came: Support

    def __init__(
        self, options, executor, samples, number: int, problem: Problem, run: Run, limits: dict
    ):
        has_classes = not ((problem.lower < 0) & (problem.upper > 0)).any()
        scale = 1.0 if has_classes else target_scale(problem.linear.std())
        super().__init__(options, executor, samples, number, problem.n, run.tol, limits, scale)
        self.problem, self.run = problem, run
        self._margin_violation = np.full(problem.n, np.inf)

    def known(self):
        # With a certificate, readmission finds the samples that the last fit did not have.
        start = self.run.initial_beta(self.problem)
        return [_part(np.flatnonzero(start), start)] if self.options.certify and start.any() else []

    def first_step(self):
        start = self.run.initial_beta(self.problem)
        positive, negative = class_parts(
            self.problem, self.run.random_state, self.options.partitions
        )
        if not negative:
            return self._first_step_without_classes(positive, start)
        self._overlap = min(len(positive), len(negative))
        alone = len(positive) * len(negative) == 1
        step = "union" if alone else "step-1"
        limit = self.iterations(1 / (len(positive) * len(negative)))
        cells = {
            (i, j): self.solve(
                [_part(plus, start), _part(minus, start)], step, refine=alone, **limit
            )
            for i, plus in enumerate(positive)
            for j, minus in enumerate(negative)
        }
        groups = cross_combination(len(positive), len(negative))
        return list(cells.values()), [[cells[at] for at in group] for group in groups]

    def _first_step_without_classes(self, parts: list[np.ndarray], start: np.ndarray):
        """Each part is a subproblem, and the second step takes two of them at a time."""
        self._overlap, alone = 1, len(parts) == 1
        step = "union" if alone else "step-1"
        others = {"refine": alone} | self.iterations(1 / len(parts))
        first = [self.solve([_part(part, start)], step, **others) for part in parts]
        return first, [first[at : at + 2] for at in range(0, len(first), 2)]

    def overlap(self, n_parts):
        return self._overlap

    def examine(self, step, answer, provisional):
        """The gradient of samples, in parallel, and what it says of the answer."""
        yield from self.count(step, answer)
        problem, support = self.problem, self.support
        provisional = provisional and support.status not in STOPPED
        beta = np.zeros(problem.n)
        beta[support.samples] = support.beta
        outside = beta == 0
        index = np.arange(problem.n)
        if provisional:
            index = np.flatnonzero(outside & (self._margin_violation > -self.screening_radius))
        residual = yield from self._residual_of(index, answer, provisional)
        if provisional:
            check = self._provisional_check(index, residual)
        else:
            now = self.certificate = certify(problem, beta, residual)
            check = Check(now.kkt_violation, now.objective, now.intercept, now.duality_gap, 0)
            index, residual = index[outside], residual[outside]
        self._margin_violation[support.samples] = np.inf  # not known, should they drop out
        lower, upper = problem.lower[index], problem.upper[index]
        self._margin_violation[index] = beyond_margin(
            residual, check.intercept, lower, upper, problem.epsilon
        )
        back = np.sort(samples_to_readmit(self._margin_violation[index], len(support.samples)))
        self._came = Support(index[back], np.zeros(len(back)), residual=residual[back])
        return replace(check, n_violators=len(back))

    def readmit(self, answer):
        return self.solve([answer, self._came], "readmission", resumes=True)

    def _residual_of(self, index: np.ndarray, answer, provisional: bool) -> TaskGenerator:
        tasks = [
            self.submit(
                SharedSamples.residual, self.samples, self.number, index[part], answer, provisional,
                name="certificate",
            )
            for part in split(len(index), _ROWS_OF_A_TASK)
        ]  # fmt: skip
        parts = [np.empty(0)]
        for task in tasks:
            residual, evaluations = yield task
            self.evaluations += evaluations
            parts.append(residual)
        return np.concatenate(parts)

    def _provisional_check(self, index: np.ndarray, residual: np.ndarray) -> Check:
        support, problem = self.support, self.problem
        lower, upper = problem.lower[index], problem.upper[index]
        violation = self.combined_violation(
            *extremes_outside(residual, lower, upper, problem.epsilon)
        )
        return Check(violation, support.objective, support.intercept, np.nan, 0)

    def solution(self, monitor: Monitor) -> Solution:
        self.problem.kernel.counter.add(self.evaluations)
        status = self.status
        if status in STOPPED:
            # A task was asked to stop and does not know why; the monitor does.
            status = monitor.should_stop(self.n_iter) or status
        intercept = self.certificate.intercept if self.optimal else self.support.intercept
        return Solution(
            self.certificate.beta, intercept, status, self.n_iter, details=self.details(),
            certificate=self.certificate,
        )  # fmt: skip


def target_scale(deviation: float) -> float:
    """The unit of `filter_tol` in a regression whose targets have this standard deviation."""
    return 0.1 * float(deviation) or 1.0


def _part(samples: np.ndarray, start: np.ndarray) -> Support:
    return Support(samples, start[samples])


def class_parts(problem: Problem, seed: int, K: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Equation (1): the samples of each class in K random parts of equal size.

    Where β may have either sign there are no classes: all samples are on the first side.
    """
    random = np.random.default_rng(seed)
    positive = problem.upper > 0
    members = (np.flatnonzero(positive), np.flatnonzero(~positive))
    plus, minus = (
        [np.sort(part) for part in np.array_split(random.permutation(of), min(K, len(of)))]
        if len(of)
        else []
        for of in members
    )
    return plus, minus


def cross_combination(n_positive: int, n_negative: int) -> list[list[tuple[int, int]]]:
    """Equation (3): which of the K² sets each subproblem of the second step takes.

    Each has every part of both classes, and each set is in one of them. Where a class
    is too small for K parts, there are as many subproblems as it has parts.
    """
    if n_positive >= n_negative:
        return [[(j, (j + i) % n_negative) for j in range(n_positive)] for i in range(n_negative)]
    return [[((j + i) % n_positive, j) for j in range(n_negative)] for i in range(n_positive)]
