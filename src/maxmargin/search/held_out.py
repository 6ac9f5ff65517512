"""Fitted models that already know their answers on the samples that are scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.decisions import in_form
from maxmargin.estimators.prediction import KernelModel
from maxmargin.estimators.regression import SVR
from maxmargin.estimators.svc import SVC
from maxmargin.search.folds import Fold

# What a fit leaves behind and a score does not need, unless its scorer asks.
_MADE_WHEN_ASKED = {
    "class_weight_", "support_", "support_vectors_", "dual_coef_", "intercept_", "shape_fit_",
    "n_features_in_", "_n_support", "_dual_coef_", "_intercept_", "_X_fit", "_fit_cost", "_gamma",
    "_sparse",
}  # fmt: skip


@dataclass(eq=False)
class FoldSolution:
    """The solution of a fold for one candidate.

    Attributes
    ----------
    answers : makes β and intercept of each task, when somebody asks for them
    decisions : array of shape (n_tasks, n_scored), in LIBSVM's sign: of the held-out samples,
        then, where they are scored too, of the training samples
    seconds : what it took
    """

    fold: Fold
    kernel: Any
    answers: Callable[[], list[tuple[np.ndarray, float]]]
    decisions: np.ndarray
    seconds: float


class _KnownDecisions(KernelModel):
    """A model of one candidate and fold, for scorers.

    Decision values of the scored samples came with the solution. Whatever else a
    scorer may ask for (other samples, support vectors) is made when it does.
    """

    _solved: FoldSolution

    def _decisions(self, X, form):
        fold, values = self._solved.fold, self._solved.decisions
        n_test = len(fold.test)
        if X is fold.X_test:
            values = values[:, :n_test]
        elif X is fold.X_train and values.shape[1] > n_test:
            values = values[:, n_test:]
        else:
            return super()._decisions(X, form)
        return in_form(np.ascontiguousarray(values), form, len(getattr(self, "classes_", ())))

    def __getattr__(self, name: str):
        if name not in _MADE_WHEN_ASKED or "_solved" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        solved, data = self._solved, self._solved.fold.data
        gamma = getattr(solved.kernel, "gamma", 0.0)
        made = self._assemble(data, solved.fold.tasks, solved.answers(), gamma)
        if hasattr(data.X, "shape"):
            made["n_features_in_"] = data.X.shape[1]
        self.__dict__.update(made)
        return made[name]


class HeldOutSVC(_KnownDecisions, SVC):
    """An SVC that knows its answers."""

    def score(self, X, y, sample_weight=None):
        """The accuracy; to look at the labels of a fold once more would take longer than to count.

        They are those of `accuracy_score` unless they are the fold's own whole numbers or words.
        """
        own = y is self._solved.fold.y_test and isinstance(y, np.ndarray) and y.ndim == 1
        if not own or y.dtype.kind not in "biuU" or sample_weight is not None:
            return super().score(X, y, sample_weight)
        return float(np.mean(self.predict(X) == y))


class HeldOutSVR(_KnownDecisions, SVR):
    """An SVR that knows its answers."""


_MODELS: dict[type, type] = {SVC: HeldOutSVC, SVR: HeldOutSVR}


def held_out_model(estimator, solved: FoldSolution):
    """The model of a solution, with the parameters of one of the candidates it holds for."""
    model = _MODELS[type(estimator)](**estimator.get_params(deep=False))
    model._solved = solved
    if hasattr(solved.fold.data, "classes"):
        model.classes_ = solved.fold.data.classes
    return model
