"""Models of one problem, without classes."""

from __future__ import annotations

import numpy as np

from maxmargin.estimators.inputs import RegressionData
from maxmargin.estimators.prediction import KernelModel
from maxmargin.estimators.warm_start import warm_start_of


class SingleProblemModel(KernelModel):
    """What regression and the one-class SVM share: one problem, coefficients in one row."""

    def _starts(self, data: RegressionData, tasks: list) -> list[np.ndarray | None]:
        return [warm_start_of(self, data, task.index) for task in tasks]

    def _assemble(self, data: RegressionData, tasks: list, answers: list, gamma: float) -> dict:
        """All attributes that a prediction needs; without an answer all coefficients are zero."""
        index = tasks[0].index
        beta, intercept = answers[0] if answers else (np.zeros(len(index)), 0.0)
        nonzero = np.flatnonzero(beta)
        return self._fitted(
            data, index[nonzero], gamma,
            n_support=np.array([len(nonzero)], dtype=np.int32),
            dual_coef=beta[nonzero][np.newaxis], intercept=np.array([intercept]),
        )  # fmt: skip

    def _iterations(self, n_iter: np.ndarray):
        return int(n_iter[0])
