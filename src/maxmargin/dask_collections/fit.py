"""`fit` on Dask collections, whose partitions stay on their workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, get_client

from maxmargin.dask_collections.check import (
    CheckRequest,
    Extremes,
    check_partitions,
    heads,
    solve_readmission,
)
from maxmargin.dask_collections.collection import Collection
from maxmargin.dask_collections.partitions import (
    Rows,
    TravellingSamples,
    all_without_rows,
    diagonal_sums,
    lend,
    solve_local,
    without_rows,
)
from maxmargin.dask_collections.problems import PairOfClasses, Regression
from maxmargin.execution.dask import Cluster
from maxmargin.execution.executors import Executor
from maxmargin.formulations import n_at_largest_cost, requested_bounds
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction
from maxmargin.model import kernel_expansion
from maxmargin.monitor import Monitor
from maxmargin.optimality import NOT_FINITE, extremes, infeasibility_of
from maxmargin.solution import STOPPED
from maxmargin.solvers.hierarchical.run import (
    Check,
    HierarchicalRun,
    limits_of,
    run_until_done,
)
from maxmargin.solvers.hierarchical.solver import HierarchicalSVM, target_scale
from maxmargin.solvers.hierarchical.subproblem import Support
from maxmargin.training.boundary import Outcome, check_feasible, proven_status
from maxmargin.training.fit import TrainingSource, resolve_gamma
from maxmargin.training.watch import FitWatch

# Partitions that lend rows to one that lacks a class.
_LENDERS = 4
# Bundles of problems that a thread of the cluster should have at least, where there are as many.
_BUNDLES_OF_A_THREAD = 2


class WorkersRun(HierarchicalRun):
    """The run of a problem whose samples are on the workers.

    A subproblem of the first step is a partition's own, since rows stay where they
    are; the second step takes the partitions' support vectors in `partitions` groups.

    Attributes
    ----------
    extremes : the largest p − Kβ of samples whose β may grow, and the smallest of samples whose β
        may shrink, by the last examination
    """

    def __init__(self, options, executor, samples, number: int, collection: Collection, problem,
                 tol: float, seed: int, limits: dict):  # fmt: skip
        self.sides = problem.sides(collection.counts)
        everybody = np.sum(self.sides, axis=0)
        scale = target_scale(collection.deviation) if isinstance(problem, Regression) else 1.0
        super().__init__(
            options, executor, samples, number, int(everybody.sum()), tol, limits, scale
        )
        self.problem, self.seed = problem, seed
        here = np.flatnonzero(everybody).tolist()
        self.here, self.partitions = here, collection.partitions
        together = executor.by_home(
            [self.partitions[at] for at in here], [int(everybody[at]) for at in here]
        )
        self._groups = [[here[place] for place in places] for places in together]
        self._before: Future | None = None
        self.extremes = (-np.inf, np.inf)
        self._checks: list[Any] = [None] * len(together)
        self._verdicts: list[Any] = []
        self.bundle: int | None = None

    def submit(self, function, *arguments, name, **others):
        bundle = None if self.bundle is None else (self.bundle, self.number)
        return super().submit(function, *arguments, name=name, bundle=bundle, **others)

    def known(self):
        return []

    def overlap(self, n_parts):
        return 1

    def first_step(self):
        alone = len(self.here) == 1
        limit = self.iterations(1 / len(self.here))
        task = self.task("union" if alone else "step-1", refine=alone, **limit)
        futures = [
            self.submit(
                solve_local, self.samples, self.partitions[at], self._loans(at), task,
                name="step-1", near=self.partitions[at],
            )
            for at in self.here
        ]  # fmt: skip
        K = min(self.options.partitions, len(futures))
        return futures, [futures[g::K] for g in range(K)]

    def _loans(self, at: int) -> list:
        """Rows of the class that a partition lacks, from the next ones that have it."""
        loans = []
        for side, positive in zip(self.sides, (True, False)):
            if side[at] > 0:
                continue
            after = (at + 1 + np.arange(len(side))) % len(side)
            lenders = [other for other in after if side[other] > 0][:_LENDERS]
            loans += [
                self.submit(
                    lend, self.partitions[other], self.problem, positive, self.seed,
                    name="loan", near=self.partitions[other],
                )
                for other in lenders
            ]  # fmt: skip
        return loans

    def summary(self, answer):
        return self.submit(without_rows, answer, name="summary")

    def summaries_of_first(self, answers):
        of = dict(zip(self.here, answers, strict=True))
        tasks = [
            self.submit(
                all_without_rows, [of[at] for at in group], name="summary",
                near=self.partitions[group[0]],
            )
            for group in self._groups
        ]  # fmt: skip
        found: dict[int, Support] = {}
        for group, task in zip(self._groups, tasks, strict=True):
            found.update(zip(group, (yield task), strict=True))
        return [found[at] for at in self.here]

    def examine(self, step, answer, provisional):
        submit, request = self.submit, CheckRequest(self.number, provisional, self.screening_radius)
        groups = [[self.partitions[at] for at in group] for group in self._groups]
        self._checks = [
            submit(check_partitions, self.samples, group, request, answer, self._before, last,
                   name="certificate", near=group[0])
            for group, last in zip(groups, self._checks, strict=True)
        ]  # fmt: skip
        self._before = answer
        # Each to be near its check, so that nothing but verdicts travels.
        self._verdicts = [
            submit(attrgetter("verdict"), check, name="verdict", near=group[0])
            for group, check in zip(groups, self._checks, strict=True)
        ]
        said, support = yield submit(heads, self._verdicts, answer, name="summary")
        self.add(step, support)
        found: dict[int, Extremes] = {}
        for group, extremes_there in zip(self._groups, said, strict=True):
            found.update(zip(group, extremes_there, strict=True))
        # In the order of the partitions: sums must not depend on which worker has which.
        everybody = [found[at] for at in self.here]
        self.evaluations += sum(e.evaluations for e in everybody)
        highest, lowest = max(e.highest for e in everybody), min(e.lowest for e in everybody)
        self.extremes = highest, lowest
        provisional = provisional and support.status not in STOPPED
        return Check(
            self.combined_violation(highest, lowest) if provisional else max(0.0, highest - lowest),
            support.objective, support.intercept,
            sum(e.gap for e in everybody), sum(e.n_violators for e in everybody),
        )  # fmt: skip

    def readmit(self, answer):
        task = self.task("readmission", resumes=True)
        return self.submit(solve_readmission, self.samples, answer, self._verdicts, task,
                           name="readmission", wide=True)  # fmt: skip


def bundles(sizes: list[int], threads: int) -> list[int]:
    """Which bundle each problem of these sizes is in, so that small ones share their tasks.

    A bundle is no larger than the largest problem, which a fit has to wait for anyway, or than
    a size that leaves several bundles to each thread.
    """
    most = max(max(sizes), sum(sizes) // (_BUNDLES_OF_A_THREAD * threads))
    filled: list[int] = []
    found = [0] * len(sizes)
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        fitting = (b for b, size in enumerate(filled) if size + sizes[at] <= most)
        found[at] = next(fitting, len(filled))
        if found[at] == len(filled):
            filled.append(0)
        filled[found[at]] += sizes[at]
    return found


def client_of(what: str) -> Client:
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            f"{what} needs a cluster to work on: start a dask.distributed Client first."
        ) from None


def refuse(estimator, solver) -> None:
    """Raise one sentence for options that Dask collections do not support."""
    if estimator._formulation not in HierarchicalSVM().capabilities.formulations:
        raise ValueError(
            f"X is a Dask collection, on which {type(estimator).__name__} does not train: load it "
            "into memory, or train on a part of it."
        )
    if not isinstance(solver, HierarchicalSVM):
        raise ValueError(
            "X is a Dask collection, whose partitions stay on their workers: it needs "
            f"solver='hierarchical', got solver={estimator.solver!r}."
        )
    if estimator.kernel not in BUILT_IN_KERNELS:
        raise ValueError(
            f"With a Dask collection the kernel must be one of {sorted(BUILT_IN_KERNELS)}, whose "
            f"support vectors can travel, got {estimator.kernel!r}."
        )
    if estimator.warm_start:
        raise ValueError("warm_start=True is not supported where X is a Dask collection.")
    if getattr(estimator, "probability", False) not in ("deprecated", False):
        raise ValueError("probability=True is not supported where X is a Dask collection.")


def source(estimator, solver, X, y, sample_weight) -> CollectionSource:
    """The training source of a dask array or dataframe."""
    refuse(estimator, solver)
    client = client_of("fit on a Dask collection")
    return CollectionSource(estimator, Collection(estimator, client, X, y, sample_weight), X)


def _problems(estimator, n_classes: int) -> list:
    if estimator._formulation == "epsilon_svr":
        return [Regression(float(estimator.epsilon))]
    if estimator.multi_class == "ovr" and n_classes > 2:
        return [PairOfClasses(code, None) for code in range(n_classes)]
    return [PairOfClasses(*pair) for pair in combinations(range(n_classes), 2)]


class CollectionSource(TrainingSource):
    """Partitions on the workers of a Dask cluster: support vectors travel, other rows do not."""

    def __init__(self, estimator, collection: Collection, X):
        self.estimator, self.collection = estimator, collection
        self._columns = getattr(X, "columns", None)
        self.problems = _problems(estimator, len(collection.classes))
        self.gamma = resolve_gamma(estimator, collection.n_features, collection.variance)
        self._supports: list[Support] = []

    def _tasks(self) -> list:
        """The problems as tasks without samples, which know their names and quantities."""
        no_index = np.empty(0, int)
        no_rows = Rows(np.empty((0, 0)), no_index, np.empty(0))
        return [problem.task(no_index, no_rows) for problem in self.problems]

    @property
    def names(self) -> list[str]:
        return [task.name(self.collection) for task in self._tasks()]

    def reports(self, outcomes):
        return [
            out.report(task.name(self.collection), task.quantities(out))
            for task, out in zip(self._tasks(), outcomes, strict=True)
        ]

    def outcomes(self, solver, watch: FitWatch, seed: int) -> Iterator[Outcome]:
        estimator, collection = self.estimator, self.collection
        function = KernelFunction(estimator.kernel, self.gamma, estimator.coef0, estimator.degree)
        self._measure(function)
        with Cluster(collection.client) as executor:
            samples = executor.put(
                TravellingSamples(
                    function, estimator.tol, estimator.cache_size, seed, self.problems
                )
            )
            runs: list[WorkersRun] = []
            for number in range(len(self.problems)):
                with watch.problem() as monitor:
                    if not runs:
                        limits = limits_of(monitor, executor)
                        runs = [
                            WorkersRun(solver, executor, samples, at, collection, problem,
                                      estimator.tol, seed, limits)
                            for at, problem in enumerate(self.problems)
                        ]  # fmt: skip
                        self._begin(runs, executor)

                    def report(event: Support, monitor=monitor):
                        return monitor.update(
                            event.n_iter,
                            event.violation,
                            event.objective,
                            event.beta,
                            event.intercept,
                        )

                    run_until_done(runs[number], list(runs), executor, monitor, report)
                    self._supports.append(runs[number].support)
                    yield _outcome(solver, runs[number], function, monitor)

    def _begin(self, runs: list[WorkersRun], executor: Executor) -> None:
        threads = sum(self.collection.client.nthreads().values())
        for run, bundle in zip(runs, bundles([run.size for run in runs], threads), strict=True):
            run.bundle = bundle
        for run in sorted(runs, key=lambda each: -each.size):
            run.begin()
        executor.flush()

    def _measure(self, function: KernelFunction) -> None:
        """Tell the problems the scale of their kernel values, as `KernelMatrix.scale` has it."""
        if function.name == "rbf":
            return
        client, partitions = self.collection.client, self.collection.partitions
        found = client.gather(
            client.map(diagonal_sums, partitions, function=function, problems=self.problems,
                       pure=False)
        )  # fmt: skip
        totals = np.sum(found, axis=0)
        for at, problem in enumerate(self.problems):
            scale = float(totals[at]) / np.sum(problem.sides(self.collection.counts))
            if not np.isfinite(scale):
                raise ValueError(NOT_FINITE)
            self.problems[at] = replace(problem, scale=scale or 1.0)

    def now(self, outcomes, beta, intercept):
        return self.attributes(outcomes)  # what is finished so far

    def attributes(self, outcomes):
        collection = self.collection
        width = collection.n_features
        nothing = sp.csr_array((0, width)) if collection.sparse else np.empty((0, width))
        parts = [s for s in self._supports if s.rows is not None and len(s.samples)]
        rows = Rows.joined([Rows(nothing, np.empty(0, int), np.empty(0)), *(s.rows for s in parts)])
        numbers = np.concatenate([np.empty(0, int), *(s.samples for s in parts)])
        numbers, first = np.unique(numbers, return_index=True)
        rows = rows[first]
        unsolved = Support(np.empty(0, int), np.empty(0))
        tasks, answers = [], []
        for at, problem in enumerate(self.problems):
            found = self._supports[at] if at < len(self._supports) else unsolved
            index = np.searchsorted(numbers, found.samples)
            tasks.append(problem.task(index, rows))
            answers.append((np.asarray(found.beta, np.float64), found.intercept))
        data = self.problems[0].data(rows, collection)
        attributes = self.estimator._assemble(data, tasks, answers, self.gamma)
        attributes["_sparse"] = collection.sparse
        attributes["support_"] = numbers[attributes["support_"]].astype(np.int32)
        attributes["shape_fit_"] = (collection.n, width)
        attributes["n_features_in_"] = width
        if self._columns is not None:
            attributes["feature_names_in_"] = np.asarray(self._columns, dtype=object)
        return attributes


def _outcome(
    solver, hierarchical: WorkersRun, function: KernelFunction, monitor: Monitor
) -> Outcome:
    """The answer of a run, with its examination by all workers."""
    support, check = hierarchical.support, hierarchical.check
    status = hierarchical.status
    if status in STOPPED:
        status = monitor.should_stop(hierarchical.n_iter) or status
    beta, costs = np.asarray(support.beta, np.float64), support.rows.costs
    fields = hierarchical.problem.fields(support.rows)
    infeasibility = infeasibility_of(beta, fields["lower"], fields["upper"])
    check_feasible(solver, infeasibility, (float(beta.sum()),), (0.0,))
    beyond = n_at_largest_cost(beta, costs, hierarchical.problem.scale)
    outcome = Outcome(
        beta, support.intercept,
        status=proven_status(solver, status, check.violation, hierarchical.tol),
        exact=solver.exact,
        solver=solver.name,
        reason="requested",
        n_iter=hierarchical.n_iter,
        kkt_violation=check.violation,
        objective=check.objective,
        duality_gap=check.gap,
        levels=(support.intercept,),
        seconds=monitor.seconds,
        kernel_evaluations=hierarchical.evaluations,
        n_samples=hierarchical.size,
        n_bounded=int(np.count_nonzero(np.abs(beta) == costs)),
        history=tuple(monitor.history),
        details=hierarchical.details(),
    )  # fmt: skip
    if not beyond:
        return outcome
    return outcome.not_separable(beyond, _violation(hierarchical, function))


def _violation(hierarchical: WorkersRun, function: KernelFunction) -> float:
    """The KKT violation where no bound stands for an infinite C.

    Such a bound matters for support vectors alone: for all other samples the last examination
    holds.
    """
    problem, support = hierarchical.problem, hierarchical.support
    fields = problem.fields(support.rows)
    bounds = requested_bounds(fields["lower"], fields["upper"], support.rows.costs, problem.scale)
    beta, X = np.asarray(support.beta, np.float64), support.rows.X
    residual = fields["linear"] - kernel_expansion(function, X, X, beta[:, np.newaxis])[:, 0]
    highest, lowest, *_ = extremes(beta, residual, *bounds, fields.get("epsilon", 0.0), False)
    return max(highest, hierarchical.extremes[0]) - min(lowest, hierarchical.extremes[1])
