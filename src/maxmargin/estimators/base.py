"""The one `fit` of all estimators: validate → formulate → solve → certify → model."""

from __future__ import annotations

import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from maxmargin.estimators.fitted import fitted_attributes
from maxmargin.estimators.inputs import (
    TrainingData,
    is_dask_collection,
    validate_training_data,
)
from maxmargin.estimators.multiclass import BinaryTask, binary_tasks, coefficients_by_task, merge
from maxmargin.estimators.watch import watched_task
from maxmargin.parallel import n_threads, resolve_n_jobs, session, stream_side_by_side
from maxmargin.report import FitReport, ProblemReport
from maxmargin.solution import Status

# Of sparse data up to this size gamma="scale" has the same bits as of the same dense data.
_SPREAD_ENTRIES = 2**16
# Problems up to this size take less time than to hand them from thread to thread.
_WORTH_A_THREAD = 384


@dataclass(frozen=True, eq=False)
class _Answer:
    """β and intercept of one binary task, and the models on the way where the solver kept them."""

    beta: np.ndarray
    intercept: float
    path: Any = None


class BaseSVM(CallbackSupportMixin, BaseEstimator):
    """Base of the estimators; holds the path from data to fitted attributes."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None):
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply C for each sample. A weight of 2 is the same as
            the sample twice, a weight of 0 the same as without it.

        Returns
        -------
        self : object
            The fitted estimator. If anything is wrong with the input, an error is
            raised and the estimator stays as it was.
        """
        with self._unchanged_on_error():
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        from maxmargin.monitor import Interrupt
        from maxmargin.solvers import make_solver

        start = time.perf_counter()
        solver = make_solver(self.solver, shrinking=self.shrinking)
        if is_dask_collection(X):
            from maxmargin.dask_collections import fit_collection

            return fit_collection(self, solver, X, y, sample_weight)
        data = validate_training_data(self, X, y, sample_weight)
        if not solver.uses_costs:
            _check_costs_unused(self, solver, data)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        tasks = binary_tasks(data.codes, len(data.classes), self.multi_class)
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        told = {"X": X, "y": y, "metadata": metadata}
        context = None
        if self._has_callbacks():
            context = self._init_callback_context(max_subtasks=len(tasks))
            context.call_on_fit_task_begin(estimator=self, **told)
        fixed = {
            "gamma": self._resolve_gamma(data.X, data.sample_weights),
            "sparse": self._is_sparse(data.X),
        }
        starts = self._warm_starts(data, tasks)
        interrupt = Interrupt()
        answers: list[_Answer] = []
        reports: list[ProblemReport] = []

        def attributes_now(beta, intercept) -> dict:
            return self._attributes(data, tasks, [*answers, _Answer(beta, intercept)], fixed)

        with session(resolve_n_jobs(self.n_jobs)), interrupt.listening():
            side_by_side = solver.side_by_side and self._worth_doing_side_by_side(tasks)
            made = self._problems(
                data, tasks, fixed["gamma"], starts, seed, n_threads() if side_by_side else 1,
                hold=solver.side_by_side,
            )  # fmt: skip
            with solver.working_on(made) as (working, problems):

                def solve(pair):
                    task, problem = pair
                    watched = watched_task(self, context, interrupt, start, attributes_now, told)
                    with watched as monitor:
                        return self._solve_task(working, task, problem, monitor, data)

                in_turn = stream_side_by_side if side_by_side else map
                for answer, report in in_turn(solve, zip(tasks, problems, strict=True)):
                    self._warn_unless_converged(report)
                    answers.append(answer)
                    reports.append(report)
        self.__dict__.update(self._attributes(data, tasks, answers, fixed))
        self._paths = [answer.path for answer in answers]
        self.n_iter_ = np.array([report.n_iter for report in reports], dtype=np.int32)
        self.fit_report_ = FitReport(
            reports,
            seconds=time.perf_counter() - start,
            n_support=len(self.support_),
            tol=self.tol,
        )
        self._finish(data, X, y, sample_weight)
        if context is not None:
            context.call_on_fit_task_end(estimator=self, reconstruction_attributes={}, **told)
        return self

    def _has_callbacks(self) -> bool:
        return bool(getattr(self, "_skl_callbacks", []))

    @classmethod
    @cache
    def _get_param_names(cls):
        """The names of the parameters; scikit-learn reads the signature anew for each fit."""
        return super()._get_param_names()

    def _worth_doing_side_by_side(self, tasks: list[BinaryTask]) -> bool:
        """Whether many problems are better solved each on a thread of its own.

        They are if each has room for its kernel matrix, and takes longer than to wake a
        thread. Callbacks and progress lines tell of one problem after the other, and then
        it is so.
        """
        from maxmargin.kernels.row_cache import cache_bytes

        if not 1 < n_threads() <= len(tasks) or self.verbose or self._has_callbacks():
            return False
        largest = max(len(task.index) for task in tasks)
        if largest <= _WORTH_A_THREAD:
            return False
        return 8 * largest**2 * n_threads() <= cache_bytes(self.cache_size, largest)

    def _warn_unless_converged(self, report: ProblemReport) -> None:
        status = Status(report.status)
        if status is not Status.CONVERGED:
            message = status.message(
                max_iter=self.max_iter, time_limit=self.time_limit, tol=self.tol
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=5)

    def _problems(self, data, tasks, gamma, starts, seed, shares=1, hold=False):
        """One `Problem` a task, made when its turn comes; they share the kernel matrix.

        The memory is divided into `shares` for as many problems at the same time. `hold`
        says that the solver wants nothing of the data but kernel values.
        """
        from maxmargin.estimators.formulations import c_svc
        from maxmargin.estimators.kernels import kernels_of_tasks
        from maxmargin.kernels.row_cache import cache_bytes
        from maxmargin.problem import Problem
        from maxmargin.solvers.common.certified_run import REFINED_SAMPLES

        memory = cache_bytes(self.cache_size, len(data.codes))
        few = len(data.codes) <= REFINED_SAMPLES
        kernels = kernels_of_tasks(self, data, tasks, gamma, memory, hold)
        for task, kernel, beta in zip(tasks, kernels, starts, strict=True):
            linear, lower, upper = c_svc(task.signs, data.costs[task.index])
            yield Problem(
                kernel, linear, lower, upper,
                tol=self.tol, cache_bytes=memory // shares, start=beta, random_state=seed,
                # What is small in a larger fit is solved to tol, like the rest of it.
                groups=data.codes[task.index], refine=few or len(task.index) > REFINED_SAMPLES,
            )  # fmt: skip

    def _solve_task(self, solver, task: BinaryTask, problem, monitor, data: TrainingData):
        """Solve one problem and certify what came out of it."""
        from maxmargin.monitor import Progress
        from maxmargin.optimality import certify

        solution = solver.solve(problem, monitor)
        certificate = solution.certificate
        if certificate is None or certificate.beta is not solution.beta:
            certificate = certify(problem, solution.beta)
        status = solution.status
        if not (np.isfinite(solution.beta).all() and np.isfinite(solution.intercept)):
            raise ValueError(
                "The dual coefficients or intercepts are not finite. The input data may contain "
                "large values and need to be preprocessed."
            )
        negative = "rest" if task.negative is None else data.classes[task.negative]
        bounded = (solution.beta == problem.lower) | (solution.beta == problem.upper)
        n_support = int(np.count_nonzero(solution.beta))
        # The history ends with the truth, where the lines before it are what the solver believed.
        last = Progress(
            monitor.seconds, int(solution.n_iter), certificate.kkt_violation,
            certificate.objective, n_support,
        )  # fmt: skip
        report = ProblemReport(
            problem=f"{data.classes[task.positive]} vs {negative}",
            solver=solution.solver,
            reason=solution.reason,
            status=str(status),
            exact=solution.exact,
            seconds=monitor.seconds,
            n_iter=int(solution.n_iter),
            kernel_evaluations=problem.kernel.evaluations,
            n_samples=problem.n,
            n_support=n_support,
            n_bounded=int(np.count_nonzero(bounded & (solution.beta != 0))),
            objective=certificate.objective,
            duality_gap=certificate.duality_gap,
            kkt_violation=certificate.kkt_violation,
            history=(*monitor.history, last),
            details=solution.details,
        )
        path = getattr(solution, "path", None)
        if path is not None:
            path = replace(path, samples=task.index[path.samples])
        return _Answer(solution.beta, solution.intercept, path), report

    def _attributes(self, data, tasks, answers: list[_Answer], fixed: dict) -> dict:
        """All fitted attributes that a prediction needs; tasks without an answer count as zero."""
        unsolved = [_Answer(np.zeros(len(task.index)), 0.0) for task in tasks[len(answers) :]]
        answers = answers + unsolved
        betas = [answer.beta for answer in answers]
        intercept = np.array([answer.intercept for answer in answers])
        support, n_support, dual_coef = merge(tasks, betas, data.codes, len(data.classes))
        return fitted_attributes(
            classes=data.classes,
            class_weight=data.class_weight,
            support=support.astype(np.int32),
            vectors=self._support_vectors(data.X, support),
            n_support=n_support,
            dual_coef=dual_coef,
            intercept=intercept,
            shape=data.X.shape if hasattr(data.X, "shape") else (_num_samples(data.X),),
            X_fit=data.X if callable(self.kernel) else None,
            C=self.C,
            **fixed,
        )

    def _support_vectors(self, X, support: np.ndarray):
        if self.kernel == "precomputed" or callable(self.kernel):
            return np.empty((0, 0))
        vectors = X[support]
        return vectors if vectors.dtype.kind == "f" else vectors.astype(np.float64)

    def _warm_starts(self, data: TrainingData, tasks) -> list[np.ndarray | None]:
        """β of the last fit for each task, scaled to the present C; None for a cold start."""
        if not self.warm_start or not self._continues_last_fit(data):
            return [None] * len(tasks)
        dual_coef = (
            self._dual_coef_.toarray() if sp.issparse(self._dual_coef_) else self._dual_coef_
        )
        by_task = coefficients_by_task(dual_coef, self._n_support, len(tasks))
        both_finite = np.isfinite(self.C) and np.isfinite(self._fit_C)
        scale = self.C / self._fit_C if both_finite else 1.0
        starts = []
        for task, coefficients in zip(tasks, by_task.T, strict=True):
            beta = np.zeros(len(data.codes))
            beta[self.support_] = coefficients * scale
            starts.append(beta[task.index])
        return starts

    def _continues_last_fit(self, data: TrainingData) -> bool:
        """Whether the last support vectors are still at their places, with their classes."""
        if not hasattr(self, "support_") or not np.array_equal(self.classes_, data.classes):
            return False
        if len(self._intercept_) != len(
            binary_tasks(data.codes, len(data.classes), self.multi_class)
        ):
            return False
        if len(data.codes) < self.shape_fit_[0]:
            return False
        expected = np.repeat(np.arange(len(data.classes)), self._n_support)
        if not np.array_equal(data.codes[self.support_], expected):
            return False
        if self.kernel == "precomputed" or callable(self.kernel):
            return True
        now = self._support_vectors(data.X, self.support_)
        if now.shape != self.support_vectors_.shape or sp.issparse(now) != self._sparse:
            return False
        return (abs(now - self.support_vectors_)).max() == 0 if len(self.support_) else True

    def _resolve_gamma(self, X, sample_weights) -> float:
        """The number behind gamma="scale" and "auto"."""
        if self.kernel == "precomputed" or callable(self.kernel):
            return 0.0
        if isinstance(self.gamma, Real):
            return float(self.gamma)
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        variance = _variance(X, sample_weights)
        return 1.0 / (X.shape[1] * variance) if variance != 0 else 1.0

    def _is_sparse(self, X) -> bool:
        return sp.issparse(X) and not callable(self.kernel)

    def _finish(self, data, X, y, sample_weight) -> None:
        """For what an estimator adds to its attributes."""

    @contextmanager
    def _unchanged_on_error(self):
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # The callbacks' own state must survive: the decorator around `fit` cleans it up.
            kept = {k: v for k, v in vars(self).items() if k.startswith(("_skl_", "_callback_"))}
            self.__dict__.clear()
            self.__dict__.update(before | kept)
            raise


def _check_costs_unused(estimator, solver, data: TrainingData) -> None:
    """One sentence for who passes C or weights to a solver that has no use for them."""
    costs = data.costs[data.codes >= 0]
    name = type(solver).__name__
    if (costs != costs[0]).any():
        raise ValueError(
            f"{name} has no box constraint: sample_weight and class_weight are not supported."
        )
    if costs[0] != type(estimator)().C:
        warnings.warn(f"{name} has no box constraint: C is not used.", UserWarning, stacklevel=5)


def _variance(X, sample_weights: np.ndarray | None) -> float:
    """Variance of all entries of X, each row counted as often as its weight says."""
    if sp.issparse(X) and X.shape[0] * X.shape[1] <= _SPREAD_ENTRIES:
        X = X.toarray()
    if sample_weights is None and not sp.issparse(X):
        return float(X.var(dtype=np.float64))
    weights = np.ones(X.shape[0]) if sample_weights is None else sample_weights
    total = weights.sum() * X.shape[1]
    mean = float((X.T @ weights).sum()) / total
    if not sp.issparse(X):
        return float((np.square(np.subtract(X, mean, dtype=np.float64)).T @ weights).sum()) / total
    # Of the stored entries alone, and in float64: squares of small integers would overflow.
    square = np.square(X.data, dtype=np.float64) @ np.repeat(weights, np.diff(X.indptr))
    return float(square) / total - mean**2
