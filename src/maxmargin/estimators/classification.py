"""What classifiers add to the training path: classes, pairs of them, LIBSVM's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from maxmargin.estimators.base import BaseSVM
from maxmargin.estimators.fitted import fitted_attributes
from maxmargin.estimators.inputs import TrainingData, validate_training_data
from maxmargin.estimators.multiclass import BinaryTask, binary_tasks, merge
from maxmargin.estimators.warm_start import warm_start_of_all, warm_starts
from maxmargin.warn import warn_user


class BaseSVClassifier(BaseSVM):
    """The C-SVC of each pair of classes, or of each class against the rest."""

    _formulation = "c_svc"

    C: float
    kernel: Any
    multi_class: str

    def _validate(self, X, y, sample_weight) -> TrainingData:
        return validate_training_data(self, X, y, sample_weight)

    def _formulate(self, data: TrainingData) -> Sequence[BinaryTask]:
        return binary_tasks(data.codes, len(data.classes), self.multi_class)

    def _starts(self, data: TrainingData, tasks: Sequence[BinaryTask]) -> list[np.ndarray | None]:
        return warm_starts(self, data, tasks)

    def _layout(self, data: TrainingData):
        return data.layout(self.multi_class) if self._formulation == "c_svc" else None

    def _start_of_all(self, data: TrainingData, order: np.ndarray, n_tasks: int):
        return warm_start_of_all(self, data, order, n_tasks)

    def _assemble(
        self,
        data: TrainingData,
        tasks: Sequence[BinaryTask],
        answers: list[tuple[np.ndarray, float]],
        gamma: float,
    ) -> dict:
        """All attributes that a prediction needs; tasks without an answer count as zero."""
        unsolved = [(np.zeros(len(task.index)), 0.0) for task in tasks[len(answers) :]]
        betas, intercepts = zip(*answers, *unsolved, strict=True)
        support, n_support, dual_coef = merge(tasks, list(betas), data.codes, len(data.classes))
        return self._merged(data, support, n_support, dual_coef, np.array(intercepts), gamma)

    def _merged(self, data: TrainingData, support, n_support, dual_coef, intercept, gamma) -> dict:
        """The attributes of support vectors of all tasks, class by class, in LIBSVM's layout."""
        return fitted_attributes(
            classes=data.classes,
            class_weight=data.class_weight,
            support=support.astype(np.int32),
            vectors=self._vectors_of(data.X, support),
            n_support=n_support,
            dual_coef=dual_coef,
            intercept=intercept,
            shape=data.X.shape if hasattr(data.X, "shape") else (_num_samples(data.X),),
            X_fit=data.X if callable(self.kernel) else None,
            C=self.C,
            gamma=gamma,
            sparse=self._is_sparse(data.X),
        )

    def _check_solver(self, solver, data: TrainingData) -> None:
        if solver.capabilities.box:
            return
        costs = data.costs[data.codes >= 0]
        name = type(solver).__name__
        if (costs != costs[0]).any():
            raise ValueError(
                f"{name} has no box constraint: sample_weight and class_weight are not supported."
            )
        if costs[0] != type(self)().C:
            warn_user(f"{name} has no box constraint: C is not used.", UserWarning)
