"""A fitted model that already knows its answers on the held-out samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.decisions import in_form
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
    """The solution of a fold for one C.

    Attributes
    ----------
    betas, intercepts : of each binary task
    decisions : array of shape (n_test, n_tasks), in LIBSVM's sign
    seconds : what it took
    """

    fold: Fold
    kernel: Any
    betas: list[np.ndarray]
    intercepts: list[float]
    decisions: np.ndarray
    seconds: float


class HeldOutSVC(SVC):
    """An SVC of one candidate and fold, for scorers.

    Decision values of the held-out samples came with the solution. Whatever else a
    scorer may ask for (other samples, support vectors) is made when it does.
    """

    @classmethod
    def of(cls, parameters: dict, solved: FoldSolution) -> HeldOutSVC:
        """The model of a solution, with the parameters of one of the candidates it holds for."""
        model = cls(**parameters)
        model.classes_ = solved.fold.data.classes
        model._solved = solved
        return model

    def _decisions(self, X, form):
        if X is not self._solved.fold.X_test:
            return super()._decisions(X, form)
        values = np.ascontiguousarray(self._solved.decisions.T)
        return in_form(values, form, len(self.classes_))

    def __getattr__(self, name: str):
        if name not in _MADE_WHEN_ASKED or "_solved" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        solved, data = self._solved, self._solved.fold.data
        answers = list(zip(solved.betas, solved.intercepts))
        gamma = getattr(solved.kernel, "gamma", 0.0)
        made = self._assemble(data, solved.fold.tasks, answers, gamma)
        if hasattr(data.X, "shape"):
            made["n_features_in_"] = data.X.shape[1]
        self.__dict__.update(made)
        return made[name]
