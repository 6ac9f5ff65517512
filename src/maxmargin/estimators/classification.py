"""What classifiers add to the training path: classes, pairs of them, LIBSVM's layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.deferred import decisions
from maxmargin.estimators.inputs import TrainingData, is_dask_collection, validate_training_data
from maxmargin.estimators.multiclass import BinaryTask, binary_tasks, merge
from maxmargin.estimators.prediction import KernelModel
from maxmargin.estimators.staged import staged_decisions
from maxmargin.estimators.warm_start import warm_start_of_all, warm_starts
from maxmargin.kernels.cuda import card_array
from maxmargin.warn import warn_user


def _has_stages(estimator) -> bool:
    if None in getattr(estimator, "_stages", [None]):
        raise AttributeError(
            "staged_decision_function is not available: the model is not fitted, or its solver "
            "keeps no models on the way."
        )
    return True


class BaseSVClassifier(KernelModel):
    """The binary problem of each pair of classes, or of each class against the rest."""

    kernel: Any
    multi_class: str
    decision_function_shape: str
    break_ties: bool

    def _validate(self, X, y, sample_weight) -> TrainingData:
        return validate_training_data(self, X, y, sample_weight)

    def _formulate(self, data: TrainingData) -> Sequence[BinaryTask]:
        return binary_tasks(data.codes, len(data.classes), self.multi_class)

    def _starts(self, data: TrainingData, tasks: Sequence[BinaryTask]) -> list[np.ndarray | None]:
        return warm_starts(self, data, tasks)

    def _layout(self, data: TrainingData):
        return data.layout(self.multi_class)

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
        return self._fitted(
            data, support, gamma,
            n_support=n_support, dual_coef=dual_coef, intercept=intercept,
            classes=data.classes, class_weight=data.class_weight,
        )  # fmt: skip

    def _check_solver(self, solver, data: TrainingData) -> None:
        if solver.capabilities.box:
            return
        costs = data.costs[data.codes >= 0]
        name = type(solver).__name__
        if (costs != costs[0]).any():
            raise ValueError(
                f"{name} has no box constraint: sample_weight and class_weight are not supported."
            )
        if costs[0] != type(self)()._cost:
            warn_user(f"{name} has no box constraint: C is not used.", UserWarning)

    def predict(self, X: Any) -> Any:
        """Class labels of the samples in X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples_train)
            Samples; for ``kernel="precomputed"`` their kernel values with the
            training samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            A dask array, not yet computed, where X is a Dask collection.
        """
        check_is_fitted(self)
        if is_dask_collection(X):
            return self._lazily("predict", X)
        if card_array(X) is not None:
            return self._on_card(self.predict, X)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        form = "votes"
        if len(self.classes_) > 2:
            own = self._form()
            if self.multi_class == "ovr":
                form = "largest"
            elif self.break_ties:
                return self.classes_.take(np.argmax(self._decisions(X, own), axis=1))
        return self.classes_.take(self._decisions(X, form))

    def decision_function(self, X: Any) -> Any:
        """Decision values of the samples in X.

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or \
                (n_samples, n_classes * (n_classes - 1) / 2)
            One value for two classes, positive for the second; else by
            `decision_function_shape`. A dask array where X is a Dask collection.
        """
        if is_dask_collection(X):
            return self._lazily("decision_function", X)
        if card_array(X) is not None:
            return self._on_card(self.decision_function, X)
        check_is_fitted(self)
        form = self._form()
        values = self._decisions(X, form)
        return -values[:, 0] if len(self.classes_) == 2 else values

    @available_if(_has_stages)
    def staged_decision_function(self, X):
        """Decision values with 1, 2, 3, … support vectors.

        Only of a solver that chooses support vectors one by one and does not touch
        their coefficients again, such as ``GreedyStagewise(backfit=False)``.

        Yields
        ------
        values : as of `decision_function`
            With several binary problems each has as many support vectors as the
            stage says, or all that it needs.
        """
        X, form, n_classes = self._validate_for_predict(X), self._form(), len(self.classes_)
        for of_stage in staged_decisions(self, X):
            values = decisions().in_form(np.ascontiguousarray(of_stage.T), form, n_classes)
            yield -values[:, 0] if n_classes == 2 else values

    def _form(self) -> str:
        """The form of decision values that the parameters ask for."""
        if len(self.classes_) == 2:
            return "tasks"
        if self.multi_class == "ovr":
            if self.decision_function_shape == "ovo":
                raise ValueError(
                    "decision_function_shape='ovo' needs a model of pairs: fit with "
                    "multi_class='ovo', not 'ovr'."
                )
            return "tasks"
        return "classes" if self.decision_function_shape == "ovr" else "tasks"

    def _public_sign(self) -> float:
        return -1.0 if len(self.classes_) == 2 else 1.0
