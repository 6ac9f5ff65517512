"""The training path of all estimators, wherever the samples are.

`fit → validate → formulate → solve → certify → assemble`. An estimator says how its data are
validated, which problems they make and which attributes the answers become. A source of
samples (arrays of this process, partitions on Dask workers) solves the problems.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin.clock import compile_seconds, watch_compiler
from maxmargin.report import FitReport, ProblemReport
from maxmargin.solution import Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.registry import make_solver
from maxmargin.training.boundary import Outcome
from maxmargin.training.watch import FitWatch
from maxmargin.warn import warn_user


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers to all problems of a fit.

    Attributes
    ----------
    attributes : the fitted attributes that they become
    n_iter : iterations of each problem
    stages : the models on the way of each problem, or None where its solver keeps none
    reports : of each problem
    """

    attributes: dict
    n_iter: np.ndarray
    stages: list
    reports: Sequence[ProblemReport]


class TrainingSource(ABC):
    """Validated samples of a fit, and the way to solve its problems where they are."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The name of each problem in the report."""

    @property
    def n_problems(self) -> int:
        return len(self.names)

    def together(self, solver: Solver, watch: FitWatch, seed: int) -> Answers | None:
        """The answers to all problems at once; None where they are solved one by one."""
        return None

    @abstractmethod
    def reports(self, outcomes: list[Outcome]) -> list[ProblemReport]:
        """The lines of the fit's report."""

    @abstractmethod
    def outcomes(self, solver: Solver, watch: FitWatch, seed: int) -> Iterator[Outcome]:
        """The certified answers to all problems, in their order."""

    @abstractmethod
    def attributes(self, outcomes: list[Outcome]) -> dict:
        """The fitted attributes; problems without an outcome count as zero."""

    @abstractmethod
    def now(self, outcomes: list[Outcome], beta: np.ndarray, intercept: float) -> dict:
        """The same while the next problem is being solved, for callbacks that want to predict."""


def train(estimator, X, y, sample_weight):
    """Fit an estimator; returns it."""
    watch_compiler()
    start, compiled = time.perf_counter(), compile_seconds()
    solver = make_solver(estimator.solver, shrinking=estimator.shrinking)
    check_formulation(estimator, solver)
    source: TrainingSource = estimator._source(solver, X, y, sample_weight)
    seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
    outcomes: list[Outcome] = []
    watch = FitWatch(
        estimator, source.n_problems, X, y, sample_weight, start,
        lambda beta, intercept: source.now(outcomes, beta, intercept),
    )  # fmt: skip
    with watch.fitting():
        with watch.interrupt.listening():
            answers = source.together(solver, watch, seed)
            if answers is None:
                for outcome in source.outcomes(solver, watch, seed):
                    outcomes.append(outcome)
                    warn_unless_converged(estimator, outcome.status, outcome.details)
                answers = _from_outcomes(source, outcomes)
        estimator.__dict__.update(answers.attributes)
        estimator.n_iter_ = estimator._iterations(answers.n_iter)
        estimator._stages = answers.stages
        estimator.fit_report_ = FitReport(
            answers.reports,
            seconds=time.perf_counter() - start,
            n_support=len(estimator.support_),
            tol=estimator.tol,
            compile_seconds=compile_seconds() - compiled,
        )
        estimator._finish(X, y, sample_weight)
    return estimator


def _from_outcomes(source: TrainingSource, outcomes: list[Outcome]) -> Answers:
    """The answers of problems that were solved one by one."""
    return Answers(
        source.attributes(outcomes),
        np.array([outcome.n_iter for outcome in outcomes], dtype=np.int32),
        [outcome.stages for outcome in outcomes],
        source.reports(outcomes),
    )


def check_formulation(estimator, solver: Solver) -> None:
    """One sentence for a solver that does not solve the estimator's formulation."""
    formulation = estimator._formulation
    known = solver.capabilities.formulations
    if formulation not in known:
        raise ValueError(
            f"{type(estimator).__name__} is the formulation {formulation!r}, which solver "
            f"{solver.name!r} does not solve (it solves {', '.join(sorted(known))}); choose "
            "another solver."
        )


def resolve_gamma(estimator, n_features: int, variance) -> float:
    """The number behind gamma="scale" and "auto"; `variance` is called where it is needed."""
    if estimator.kernel == "precomputed" or callable(estimator.kernel):
        return 0.0
    if isinstance(estimator.gamma, Real):
        return float(estimator.gamma)
    if estimator.gamma == "auto":
        return 1.0 / n_features
    found = variance()
    return 1.0 / (n_features * found) if found != 0 else 1.0


def warn_unless_converged(estimator, status: Status, details: dict) -> None:
    """Say in one sentence how a problem ended, if not at its optimum."""
    if status is Status.CONVERGED:
        return
    message = status.message(
        max_iter=estimator.max_iter, time_limit=estimator.time_limit, tol=estimator.tol
    )
    n_beyond = details.get("beyond_hard_margin")
    if n_beyond:
        C = getattr(estimator, "C", None)
        asks, smaller = "Weights this large ask", "smaller weights"
        if C is not None:
            asks, smaller = f"C={C:g} asks", "a smaller C"
        finite = C is None or np.isfinite(C)
        message = (
            f"{asks} for a hard margin, and {n_beyond} samples cannot have it: the "
            "classes of the training data cannot be separated in float64 arithmetic. "
            f"{'Scale the features, or use' if finite else 'Use'} {smaller}."
        )
    warn_user(message, ConvergenceWarning)
