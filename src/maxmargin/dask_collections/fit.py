"""`fit` on Dask collections, whose partitions stay on their workers."""

from __future__ import annotations

import time
import warnings
from itertools import combinations
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, Future, get_client
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin.dask_collections.check import Extremes, Question, inspect
from maxmargin.dask_collections.collection import Collection
from maxmargin.dask_collections.partitions import (
    Rows,
    TravellingSamples,
    lend,
    solve_local,
    without_rows,
)
from maxmargin.estimators.inputs import TrainingData
from maxmargin.estimators.multiclass import BinaryTask
from maxmargin.estimators.watch import watched_task
from maxmargin.execution.dask import Cluster
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction
from maxmargin.monitor import Interrupt, Monitor, Progress
from maxmargin.report import FitReport, ProblemReport
from maxmargin.solution import Status
from maxmargin.solvers.hierarchical.run import STOPPED, Check, Course, drive, limits_of
from maxmargin.solvers.hierarchical.solver import HierarchicalSVM
from maxmargin.solvers.hierarchical.subproblem import Support

# Partitions that lend rows to one that lacks a class.
_LENDERS = 4


class OnWorkers(Course):
    """The course of a problem whose samples are on the workers.

    A subproblem of the first step is a partition's own, since rows stay where they
    are; the second step takes the partitions' support vectors in `partitions` groups.
    """

    def __init__(self, options, executor, samples, number: int, collection: Collection, pair,
                 tol: float, seed: int, limits: dict):  # fmt: skip
        codes = np.arange(collection.counts.shape[1])
        positive = codes == pair[0]
        negative = ~positive if pair[1] is None else codes == pair[1]
        self.sides = [collection.counts[:, side].sum(axis=1) for side in (positive, negative)]
        size = int(sum(side.sum() for side in self.sides))
        super().__init__(options, executor, samples, number, size, tol, limits)
        self.pair, self.seed = pair, seed
        here = np.flatnonzero(self.sides[0] + self.sides[1]).tolist()
        self.here, self.partitions = here, collection.partitions
        together = executor.by_home([self.partitions[at] for at in here])
        self._groups = [[here[place] for place in places] for places in together]
        self._before: Future | None = None
        self._verdicts: list[Any] = [None] * len(together)

    def known(self):
        return []

    def overlap(self, n_parts):
        return 1

    def first_step(self):
        alone = len(self.here) == 1
        task = self.task("union" if alone else "step-1", refine=alone)
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
                    lend, self.partitions[other], self.pair, positive, self.seed,
                    name="loan", near=self.partitions[other],
                )
                for other in lenders
            ]  # fmt: skip
        return loans

    def summary(self, answer):
        return self.submit(without_rows, answer, name="summary")

    def examine(self, answer, draft):
        submit, question = self.submit, Question(self.number, draft, self.reach)
        groups = [[self.partitions[at] for at in group] for group in self._groups]
        self._verdicts = [
            submit(inspect, self.samples, group, question, answer, self._before, last,
                   name="certificate", near=group[0])
            for group, last in zip(groups, self._verdicts, strict=True)
        ]  # fmt: skip
        self._before = answer
        heads = [submit(attrgetter("extremes"), v, name="extremes") for v in self._verdicts]
        found: dict[int, Extremes] = {}
        for group, head in zip(self._groups, heads, strict=True):
            found.update(zip(group, (yield head), strict=True))
        # In the order of the partitions: sums must not depend on who has which.
        everybody = [found[at] for at in self.here]
        self.evaluations += sum(e.evaluations for e in everybody)
        highest, lowest = max(e.highest for e in everybody), min(e.lowest for e in everybody)
        return Check(
            self.spread(highest, lowest) if draft else max(0.0, highest - lowest),
            self.support.objective, self.support.intercept,
            sum(e.gap for e in everybody), sum(e.n_violators for e in everybody),
        )  # fmt: skip

    def violators(self):
        return [self.submit(attrgetter("violators"), v, name="violators") for v in self._verdicts]


def client_of(what: str) -> Client:
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            f"{what} needs a cluster to work on: start a dask.distributed Client first."
        ) from None


def refuse(estimator, solver) -> None:
    """One sentence for what Dask collections do not go with."""
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
    if estimator.probability not in ("deprecated", False):
        raise ValueError("probability=True is not supported where X is a Dask collection.")


def fit_collection(estimator, solver, X, y, sample_weight):
    """The `fit` of an estimator to a dask array or dataframe; returns it."""
    start = time.perf_counter()
    refuse(estimator, solver)
    client = client_of("fit on a Dask collection")
    seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
    collection = Collection(estimator, client, X, y, sample_weight)
    gamma = _gamma(estimator, collection)
    K = len(collection.classes)
    pairs: list = list(combinations(range(K), 2))
    if estimator.multi_class == "ovr" and K > 2:
        pairs = [(code, None) for code in range(K)]
    context = estimator._init_callback_context(max_subtasks=len(pairs))
    told = {"X": X, "y": y, "metadata": None}
    context.call_on_fit_task_begin(estimator=estimator, **told)
    function = KernelFunction(estimator.kernel, gamma, estimator.coef0, estimator.degree)
    interrupt = Interrupt()
    model = _Model(estimator, collection, pairs, gamma)
    reports = []
    with Cluster(client) as executor, interrupt.listening():
        samples = executor.put(
            TravellingSamples(function, estimator.tol, estimator.cache_size, seed, pairs)
        )
        courses: list[OnWorkers] = []
        for number in range(len(pairs)):
            watched = watched_task(estimator, context, interrupt, start, model.attributes_now, told)
            with watched as monitor:
                if not courses:
                    limits = limits_of(monitor, executor)
                    courses = [
                        OnWorkers(solver, executor, samples, at, collection, pair, estimator.tol,
                                  seed, limits)
                        for at, pair in enumerate(pairs)
                    ]  # fmt: skip
                    for course in sorted(courses, key=lambda each: -each.size):
                        course.begin()

                def tell(news: Support, monitor=monitor):
                    return monitor.update(
                        news.n_iter, news.violation, news.objective, news.beta, news.intercept
                    )

                drive(courses[number], list(courses), executor, monitor, tell)
                model.supports.append(courses[number].support)
                reports.append(_report(estimator, solver, collection, courses[number], monitor))
    estimator.__dict__.update(model.attributes())
    estimator.n_features_in_ = collection.n_features
    if hasattr(X, "columns"):
        estimator.feature_names_in_ = np.asarray(X.columns, dtype=object)
    estimator._paths = [None] * len(pairs)
    estimator.n_iter_ = np.array([report.n_iter for report in reports], dtype=np.int32)
    estimator.fit_report_ = FitReport(
        reports, seconds=time.perf_counter() - start, n_support=len(estimator.support_),
        tol=estimator.tol,
    )  # fmt: skip
    context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes={}, **told)
    return estimator


def _gamma(estimator, collection: Collection) -> float:
    if estimator.gamma == "auto":
        return 1.0 / collection.n_features
    if estimator.gamma == "scale":
        variance = collection.variance()
        return 1.0 / (collection.n_features * variance) if variance != 0 else 1.0
    return float(estimator.gamma)


class _Model:
    """Fitted attributes from the support vectors that came back, those of all pairs together."""

    def __init__(self, estimator, collection: Collection, pairs: list, gamma: float):
        self.estimator, self.collection, self.pairs, self.gamma = (
            estimator, collection, pairs, gamma,
        )  # fmt: skip
        self.supports: list[Support] = []

    def attributes_now(self, beta, intercept) -> dict:
        """For callbacks that want to predict: what is finished so far."""
        return self.attributes()

    def attributes(self) -> dict:
        from maxmargin.estimators.base import _Answer

        collection = self.collection
        width = collection.n_features
        nothing = sp.csr_array((0, width)) if collection.sparse else np.empty((0, width))
        parts = [s for s in self.supports if s.rows is not None and len(s.samples)]
        rows = Rows.joined([Rows(nothing, np.empty(0, int), np.empty(0)), *(s.rows for s in parts)])
        numbers = np.concatenate([np.empty(0, int), *(s.samples for s in parts)])
        numbers, first = np.unique(numbers, return_index=True)
        rows = rows[first]
        unsolved = Support(np.empty(0, int), np.empty(0))
        tasks, answers = [], []
        for at, (positive, negative) in enumerate(self.pairs):
            found = self.supports[at] if at < len(self.supports) else unsolved
            index = np.searchsorted(numbers, found.samples)
            signs = np.where(rows.codes[index] == positive, 1.0, -1.0)
            tasks.append(BinaryTask(positive, negative, index, signs))
            answers.append(_Answer(np.asarray(found.beta, np.float64), found.intercept))
        data = TrainingData(
            rows.X, rows.codes, collection.classes, collection.class_weight, rows.costs, None
        )
        fixed = {"gamma": self.gamma, "sparse": collection.sparse}
        attributes = self.estimator._attributes(data, tasks, answers, fixed)
        attributes["support_"] = numbers[attributes["support_"]].astype(np.int32)
        attributes["shape_fit_"] = (collection.n, width)
        return attributes


def _report(estimator, solver, collection, course: OnWorkers, monitor: Monitor) -> ProblemReport:
    support, check = course.support, course.check
    status = course.status
    if status in STOPPED:
        status = monitor.should_stop(course.n_iter) or status
    if status is not Status.CONVERGED:
        limits = {"max_iter": estimator.max_iter, "time_limit": estimator.time_limit}
        message = status.message(**limits, tol=estimator.tol)
        warnings.warn(message, ConvergenceWarning, stacklevel=7)
    positive, negative = course.pair
    other = "rest" if negative is None else collection.classes[negative]
    bounded = np.abs(support.beta) == support.rows.costs
    last = Progress(
        monitor.seconds, course.n_iter, check.violation, check.objective, len(support.beta)
    )
    return ProblemReport(
        problem=f"{collection.classes[positive]} vs {other}",
        solver=solver.name,
        reason="asked for",
        status=str(status),
        exact=solver.exact,
        seconds=monitor.seconds,
        n_iter=course.n_iter,
        kernel_evaluations=course.evaluations,
        n_samples=course.size,
        n_support=len(support.beta),
        n_bounded=int(np.count_nonzero(bounded)),
        objective=check.objective,
        duality_gap=check.gap,
        kkt_violation=check.violation,
        history=(*monitor.history, last),
        details=course.details(),
    )
