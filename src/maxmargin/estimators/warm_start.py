"""The solution of the last fit as the start of the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.inputs import RegressionData, TrainingData
from maxmargin.estimators.multiclass import BinaryTask, coefficients_by_task
from maxmargin.sparse_format import densified


def warm_starts(model, data: TrainingData, tasks: Sequence[BinaryTask]) -> list[np.ndarray | None]:
    """β of the last fit for each task, scaled to the present C; None for a cold start."""
    if not model.warm_start or not _continues_last_fit(model, data, len(tasks)):
        return [None] * len(tasks)
    by_task = coefficients_by_task(model._dual_coef_, model._n_support)
    scale, starts, beta = scale_of(model), [], np.zeros(data.n)
    for task, start, stop in zip(tasks, by_task.indptr, by_task.indptr[1:], strict=False):
        used = model.support_[by_task.indices[start:stop]]
        beta[used] = by_task.data[start:stop] * scale
        starts.append(beta[task.index])
        beta[used] = 0.0
    return starts


def warm_start_of_all(
    model, data: TrainingData, order: np.ndarray, n_tasks: int
) -> np.ndarray | None:
    """The same for all tasks in one array of LIBSVM's layout, for the samples in that order."""
    if not model.warm_start or not _continues_last_fit(model, data, n_tasks):
        return None
    dual_coef = densified(model._dual_coef_)
    pairs = n_tasks > 1 and model.multi_class == "ovo"
    if len(dual_coef) != (len(data.classes) - 1 if pairs else n_tasks):
        return None  # of pairs then, of one-vs-rest now, or the other way round
    column = np.zeros(data.n, np.int64)
    column[order] = np.arange(len(order))
    start = np.zeros((len(dual_coef), len(order)))
    start[:, column[model.support_]] = dual_coef * scale_of(model)
    return start


def warm_start_of(model, data: RegressionData, index: np.ndarray) -> np.ndarray | None:
    """The same for a model without classes, of the samples `index`."""
    if not model.warm_start or not hasattr(model, "support_"):
        return None
    if data.n < model.shape_fit_[0] or not _same_vectors(model, data.X):
        return None
    beta = np.zeros(data.n)
    beta[model.support_] = densified(model._dual_coef_)[0] * scale_of(model)
    return beta[index]


def scale_of(model) -> float:
    """What the last β is multiplied with: bounds have moved with C."""
    both_finite = np.isfinite(model._cost) and np.isfinite(model._fit_cost)
    return model._cost / model._fit_cost if both_finite else 1.0


def _continues_last_fit(model, data: TrainingData, n_tasks: int) -> bool:
    """Whether the last support vectors are still at their places, with their classes."""
    if not hasattr(model, "support_") or not np.array_equal(model.classes_, data.classes):
        return False
    if len(model._intercept_) != n_tasks or data.n < model.shape_fit_[0]:
        return False
    expected = np.repeat(np.arange(len(data.classes)), model._n_support)
    if not np.array_equal(data.codes[model.support_], expected):
        return False
    return _same_vectors(model, data.X)


def _same_vectors(model, X) -> bool:
    if model.kernel == "precomputed" or callable(model.kernel):
        return True
    now = model._vectors_of(X, model.support_)
    if now.shape != model.support_vectors_.shape or sp.issparse(now) != model._sparse:
        return False
    return (abs(now - model.support_vectors_)).max() == 0 if len(model.support_) else True
