"""Support vector classification with ν in the place of C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from maxmargin.estimators.classification import BaseSVClassifier
from maxmargin.estimators.documentation import with_parameters_of
from maxmargin.estimators.inputs import TrainingData
from maxmargin.estimators.multiclass import BinaryTask, binary_tasks
from maxmargin.estimators.parameters import CLASSIFICATION, NU
from maxmargin.estimators.probability import ProbabilityMixin
from maxmargin.estimators.svc import SVC


@with_parameters_of(SVC)
class NuSVC(ProbabilityMixin, ClassifierMixin, BaseSVClassifier):
    """Nu-support vector classification: nu bounds the part of margin errors.

    Takes every parameter of :class:`sklearn.svm.NuSVC` with the same meaning and has the
    same fitted attributes. `class_weight` counts here as a weight of every sample of
    the class; scikit-learn accepts it and does not use it.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the part of margin errors, and lower bound on the part of support
        vectors; in (0, 1]. Twice the share of the smaller class is the largest possible.
    probability : bool, default="deprecated"
        Deprecated in scikit-learn; use ``CalibratedClassifierCV(NuSVC(), ensemble=False)``,
        which is what this option does.
    class_weight : dict or "balanced", default=None
        Factors on the weights of the samples by class.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, \
decision_function_shape, break_ties, random_state, solver, multi_class, n_jobs, warm_start, \
time_limit, device
        As of :class:`SVC`.

    Attributes
    ----------
    fit_report_ : FitReport
        What was solved, by which solver and why, in how long, how close to the optimum.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, classes_, \
class_weight_, n_iter_, fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in :class:`sklearn.svm.NuSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import NuSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = make_pipeline(StandardScaler(), NuSVC(nu=0.1)).fit(X, y)
    >>> clf[-1].fit_report_.status
    'converged'
    """

    _formulation = "nu_svc"
    _parameter_constraints: dict = {**NU, **CLASSIFICATION}

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = "deprecated",
        tol: float = 1e-3,
        cache_size: float | str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        verbose: int = 0,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        multi_class: str = "ovo",
        n_jobs: int | None = None,
        warm_start: bool = False,
        time_limit: float | None = None,
        device: str = "cpu",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.time_limit = time_limit
        self.device = device

    def _formulate(self, data: TrainingData) -> Sequence[BinaryTask]:
        return binary_tasks(data.codes, len(data.classes), self.multi_class, self.nu)

    def _layout(self, data: TrainingData):
        # A class has a sum of its own, so it is a group. Starts are made one by one.
        if self.warm_start or (self.multi_class == "ovr" and len(data.classes) > 2):
            return None
        return data.layout(self.multi_class, by_class=True)

    def _starts(self, data: TrainingData, tasks: Sequence[BinaryTask]) -> list[np.ndarray | None]:
        # The coefficients of the last fit are divided by its ρ: their sum says by how much.
        starts = super()._starts(data, tasks)
        return [
            None
            if start is None
            else _with_sum(start, 0.5 * self.nu * data.costs[task.index].sum())
            for task, start in zip(tasks, starts, strict=True)
        ]


def _with_sum(start: np.ndarray, total: float) -> np.ndarray:
    positive = start[start > 0].sum()
    return start * (total / positive) if positive > 0 else start
