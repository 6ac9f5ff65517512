"""The problems of a fit on workers: the rows of each problem, and its fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.estimators.inputs import RegressionData, TrainingData
from maxmargin.estimators.multiclass import BinaryTask
from maxmargin.estimators.tasks import EpsilonRegression, Task
from maxmargin.formulations import c_svc, epsilon_svr


@dataclass(frozen=True)
class PairOfClasses:
    """A class against another, or against the rest (None); `scale` is that of kernel values."""

    positive: int
    negative: int | None
    scale: float = 1.0

    def members(self, rows) -> np.ndarray:
        """Which rows take part."""
        codes = rows.values
        if self.negative is None:
            return np.flatnonzero(codes >= 0)
        return np.flatnonzero((codes == self.positive) | (codes == self.negative))

    def fields(self, rows) -> dict:
        """The `Problem` of some rows that take part, but for its kernel."""
        signs = np.where(rows.values == self.positive, 1.0, -1.0)
        linear, lower, upper = c_svc(signs, rows.costs, self.scale)
        return {"linear": linear, "lower": lower, "upper": upper, "labels": rows.values}

    def sides(self, counts: np.ndarray) -> list[np.ndarray]:
        """How many rows of each class a partition has, by the counts of all classes."""
        codes = np.arange(counts.shape[1])
        positive = codes == self.positive
        negative = ~positive if self.negative is None else codes == self.negative
        return [counts[:, side].sum(axis=1) for side in (positive, negative)]

    def task(self, index: np.ndarray, rows) -> Task:
        """The same for rows of which `index` are support vectors."""
        signs = np.where(rows.values[index] == self.positive, 1.0, -1.0)
        return BinaryTask(index, signs, self.positive, self.negative)

    def data(self, rows, collection) -> TrainingData:
        return TrainingData(
            rows.X, rows.values, collection.classes, collection.class_weight, rows.costs, None
        )


@dataclass(frozen=True)
class Regression:
    """The one problem of a regression; `scale` is that of kernel values."""

    epsilon: float
    scale: float = 1.0

    def members(self, rows) -> np.ndarray:
        return np.flatnonzero(rows.costs > 0)

    def fields(self, rows) -> dict:
        return epsilon_svr(rows.values, rows.costs, self.epsilon, self.scale)

    def sides(self, counts: np.ndarray) -> list[np.ndarray]:
        return [counts.sum(axis=1)]

    def task(self, index: np.ndarray, rows) -> Task:
        return EpsilonRegression(index, self.epsilon)

    def data(self, rows, collection) -> RegressionData:
        return RegressionData(rows.X, rows.values, rows.costs, None)
