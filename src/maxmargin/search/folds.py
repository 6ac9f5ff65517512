"""The training and held-out parts of each split, prepared once for all candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from maxmargin.estimators.base import BaseSVM
from maxmargin.estimators.inputs import RegressionData, TrainingData
from maxmargin.estimators.tasks import Task
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction
from maxmargin.sklearn_private import check_method_params, safe_split


@dataclass(eq=False)
class CVData:
    """What all candidates are tried on: samples, targets, splits, and arguments by name.

    `train_scores` says whether the samples of a fit are scored as well.
    """

    X: Any
    y: Any
    splits: list[tuple[np.ndarray, np.ndarray]]
    fit_params: dict
    score_params: dict
    train_scores: bool = False


class Fold:
    """One split for candidates that slice samples and weigh classes alike.

    Attributes
    ----------
    split, train, test : its number, and the numbers of its samples
    X_train, y_train, X_test, y_test : the samples themselves
    fit_params, score_params : further arguments of `fit` and of the scorer
    train_params : arguments of the scorer for the training samples, where these are scored
    data, tasks : what a fit would make of the training samples, at C = 1
    error : what a fit would raise, or None
    """

    data: TrainingData | RegressionData
    tasks: Sequence[Task]

    def __init__(self, cv_data: CVData, split: int, estimator: BaseSVM):
        X, y = cv_data.X, cv_data.y
        self.split = split
        self.train, self.test = (_numbers(part) for part in cv_data.splits[split])
        self.X_train, self.y_train = safe_split(estimator, X, y, self.train)
        self.X_test, self.y_test = safe_split(estimator, X, y, self.test, self.train)
        self.fit_params = check_method_params(X, cv_data.fit_params, indices=self.train)
        self.score_params = check_method_params(X, cv_data.score_params, indices=self.test)
        self.train_params: dict | None = None
        if cv_data.train_scores:
            self.train_params = check_method_params(X, cv_data.score_params, indices=self.train)
        self.error: Exception | None = None

    def prepare(self, estimator: BaseSVM) -> Fold:
        """Find the tasks, or the reason why there are none."""
        estimator = clone(estimator).set_params(C=1.0)
        weights = self.fit_params.get("sample_weight")
        try:
            self.data = estimator._validate(self.X_train, self.y_train, weights)
            self.tasks = estimator._formulate(self.data)
        except Exception as error:
            self.error = error
        return self

    def at(self, C: float) -> TrainingData | RegressionData:
        """The training data with the bounds that a C makes."""
        costs = np.where(self.data.costs > 0, self.data.costs, np.nan) * C
        return replace(self.data, costs=np.where(np.isnan(costs), 0.0, costs))

    def kernel(self, estimator: Any):
        """The kernel of a candidate on this fold: gamma="scale" depends on its samples.

        What the kernel does not use is left out, so that equal kernels compare equal.
        """
        name = estimator.kernel
        if callable(name) or name not in BUILT_IN_KERNELS:
            return name
        if name == "linear":
            return KernelFunction("linear")
        gamma = estimator._resolve_gamma(self.data.X, self.data.sample_weights)
        if name == "rbf":
            return KernelFunction("rbf", gamma)
        degree = estimator.degree if name == "poly" else 3
        return KernelFunction(name, gamma, float(estimator.coef0), degree)


def _numbers(part) -> np.ndarray:
    """Sample numbers, of a splitter that may yield masks instead."""
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else part
