"""The solution of the last fit as the start of the next."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.inputs import TrainingData
from maxmargin.estimators.multiclass import BinaryTask, coefficients_by_task


def warm_starts(model, data: TrainingData, tasks: list[BinaryTask]) -> list[np.ndarray | None]:
    """β of the last fit for each task, scaled to the present C; None for a cold start."""
    if not model.warm_start or not _continues_last_fit(model, data, len(tasks)):
        return [None] * len(tasks)
    stored = model._dual_coef_
    dual_coef = stored.toarray() if sp.issparse(stored) else stored
    by_task = coefficients_by_task(dual_coef, model._n_support, len(tasks))
    both_finite = np.isfinite(model.C) and np.isfinite(model._fit_C)
    scale = model.C / model._fit_C if both_finite else 1.0
    starts = []
    for task, coefficients in zip(tasks, by_task.T, strict=True):
        beta = np.zeros(data.n)
        beta[model.support_] = coefficients * scale
        starts.append(beta[task.index])
    return starts


def _continues_last_fit(model, data: TrainingData, n_tasks: int) -> bool:
    """Whether the last support vectors are still at their places, with their classes."""
    if not hasattr(model, "support_") or not np.array_equal(model.classes_, data.classes):
        return False
    if len(model._intercept_) != n_tasks or data.n < model.shape_fit_[0]:
        return False
    expected = np.repeat(np.arange(len(data.classes)), model._n_support)
    if not np.array_equal(data.codes[model.support_], expected):
        return False
    if model.kernel == "precomputed" or callable(model.kernel):
        return True
    now = model._vectors_of(data.X, model.support_)
    if now.shape != model.support_vectors_.shape or sp.issparse(now) != model._sparse:
        return False
    return (abs(now - model.support_vectors_)).max() == 0 if len(model.support_) else True
