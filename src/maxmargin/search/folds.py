"""The training and held-out parts of each split, prepared once for all candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from traceback import format_exc
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params

from maxmargin.estimators.inputs import TrainingData, validate_training_data
from maxmargin.estimators.multiclass import BinaryTask, binary_tasks
from maxmargin.estimators.svc import SVC
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction


@dataclass(eq=False)
class CVData:
    """What all candidates are tried on: samples, labels, splits, and arguments by name."""

    X: Any
    y: Any
    splits: list[tuple[np.ndarray, np.ndarray]]
    fit_params: dict
    score_params: dict


class Fold:
    """One split for candidates that slice samples and weigh classes alike.

    Attributes
    ----------
    split, train, test : its number, and the numbers of its samples
    X_train, y_train, X_test, y_test : the samples themselves
    fit_params, score_params : further arguments of `fit` and of the scorer
    data, tasks : what a fit would make of the training samples, at C = 1
    error : why a fit would fail, or None
    """

    data: TrainingData
    tasks: Sequence[BinaryTask]

    def __init__(self, cv_data: CVData, split: int, estimator: SVC):
        X, y = cv_data.X, cv_data.y
        self.split = split
        self.train, self.test = (_numbers(part) for part in cv_data.splits[split])
        self.X_train, self.y_train = _safe_split(estimator, X, y, self.train)
        self.X_test, self.y_test = _safe_split(estimator, X, y, self.test, self.train)
        self.fit_params = _check_method_params(X, cv_data.fit_params, indices=self.train)
        self.score_params = _check_method_params(X, cv_data.score_params, indices=self.test)
        self.error: str | None = None

    def prepare(self, estimator: SVC) -> Fold:
        """Find the binary tasks, or the reason why there are none."""
        weights = self.fit_params.get("sample_weight")
        try:
            self.data = validate_training_data(
                estimator.set_params(C=1.0), self.X_train, self.y_train, weights
            )
            n_classes = len(self.data.classes)
            self.tasks = binary_tasks(self.data.codes, n_classes, estimator.multi_class)
        except Exception:
            self.error = format_exc()
        return self

    def kernel(self, estimator: SVC):
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
