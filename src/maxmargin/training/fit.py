"""The training path of all estimators, wherever the samples are.

`fit → validate → formulate → solve → certify → assemble`. An estimator says how its data are
validated, which problems they make and which attributes the answers become. A source of
samples (arrays of this process, partitions on Dask workers) solves the problems.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from maxmargin.report import FitReport
from maxmargin.solution import Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.registry import make_solver
from maxmargin.training.boundary import Outcome
from maxmargin.training.watch import FitWatch
from maxmargin.warn import warn_user


class TrainingSource(ABC):
    """Validated samples of a fit, and the way to solve its problems where they are."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The name of each problem in the report."""

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
    start = time.perf_counter()
    solver = make_solver(estimator.solver, shrinking=estimator.shrinking)
    check_formulation(estimator, solver)
    source: TrainingSource = estimator._source(solver, X, y, sample_weight)
    seed = int(check_random_state(estimator.random_state).randint(np.iinfo(np.int32).max))
    outcomes: list[Outcome] = []
    watch = FitWatch(
        estimator, len(source.names), X, y, sample_weight, start,
        lambda beta, intercept: source.now(outcomes, beta, intercept),
    )  # fmt: skip
    with watch.fitting():
        with watch.interrupt.listening():
            for outcome in source.outcomes(solver, watch, seed):
                outcomes.append(outcome)
                _warn_unless_converged(estimator, outcome)
        estimator.__dict__.update(source.attributes(outcomes))
        estimator.n_iter_ = np.array([outcome.n_iter for outcome in outcomes], dtype=np.int32)
        estimator._stages = [outcome.stages for outcome in outcomes]
        estimator.fit_report_ = FitReport(
            [outcome.report(name) for name, outcome in zip(source.names, outcomes, strict=True)],
            seconds=time.perf_counter() - start,
            n_support=len(estimator.support_),
            tol=estimator.tol,
        )
        estimator._finish(X, y, sample_weight)
    return estimator


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
    spread = variance()
    return 1.0 / (n_features * spread) if spread != 0 else 1.0


def _warn_unless_converged(estimator, outcome: Outcome) -> None:
    if outcome.status is Status.CONVERGED:
        return
    message = outcome.status.message(
        max_iter=estimator.max_iter, time_limit=estimator.time_limit, tol=estimator.tol
    )
    n_beyond = outcome.details.get("beyond_hard_margin")
    if n_beyond:
        message = (
            f"C={estimator.C:g} asks for a hard margin, and {n_beyond} samples cannot have it: the "
            "classes of the training data cannot be separated in float64 arithmetic. Use a "
            "smaller C."
        )
    warn_user(message, ConvergenceWarning)
