"""The SVM inside pipelines, searches, calibrated models and other wrappers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.prediction import KernelModel
from maxmargin.report import FitReport

# Attributes in which wrappers keep the fitted model: of searches, then of thresholds, targets and
# the like; and parameters that hold the model, which in a frozen one is fitted itself.
_FITTED = ("best_estimator_", "estimator_", "regressor_", "base_estimator_")
_GIVEN = ("estimator", "regressor")


@dataclass(frozen=True)
class Unwrapped:
    """A fitted SVM, and the steps between it and the user's data.

    Attributes
    ----------
    svm : the fitted SVM
    before : the fitted transformers that samples pass through on their way to it
    after : the wrappers that turn its answers into others, such as probabilities
    """

    svm: Any
    before: tuple = ()
    after: tuple = ()

    def features(self, X):
        """Samples as the SVM sees them."""
        for step in self.before:
            X = step.transform(X)
        return X


def unwrap(model) -> Unwrapped:
    """The fitted SVM of a model, inside any wrappers.

    Raises
    ------
    TypeError, ValueError, NotFittedError
        One sentence that says why there is no such SVM.
    """
    if isinstance(model, KernelModel):
        check_is_fitted(model)
        return Unwrapped(model)
    if _is_pipeline(model):
        inner = unwrap(model.steps[-1][1])
        steps = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        # Samplers, which other libraries put into pipelines, pass new samples on as they are.
        passed = tuple(step for step in steps if hasattr(step, "transform"))
        return replace(inner, before=passed + inner.before)
    inner = unwrap(_fitted_inside(model))
    if hasattr(model, "best_estimator_") or type(model).__name__ == "FrozenEstimator":
        return inner  # answers as the model inside does
    if hasattr(model, "transform") and hasattr(model, "estimator_"):  # it selects features
        return replace(inner, before=(model, *inner.before))
    return replace(inner, after=(model, *inner.after))


def fit_report(model) -> FitReport:
    """The report of the SVM in a fitted model."""
    svm = unwrap(model).svm
    if not hasattr(svm, "fit_report_"):
        raise ValueError(
            f"This {type(svm).__name__} has no fit_report_: it was read from a file or made from "
            "another library's model, and not fitted here."
        )
    return svm.fit_report_


def _is_pipeline(model) -> bool:
    """Without the class itself, whose import takes longer than a small prediction."""
    return hasattr(model, "steps") and hasattr(model, "named_steps")


def svm_of(model) -> Any:
    """The SVM of a model that need not be fitted, or None."""
    while model is not None and not isinstance(model, KernelModel):
        if _is_pipeline(model):
            model = model.steps[-1][1]
        else:
            model = next((getattr(model, name) for name in _GIVEN if hasattr(model, name)), None)
    return model


def _fitted_inside(model):
    name = type(model).__name__
    parts = getattr(model, "estimators_", [])
    parts = list(parts.flat if isinstance(parts, np.ndarray) else parts)
    if any(svm_of(part) is not None for part in parts):
        if len(parts) > 1:
            raise ValueError(
                f"{name} holds {len(parts)} fitted models; choose one of its estimators_."
            )
        return parts[0]
    if svm_of(model) is None and not hasattr(model, "best_estimator_"):
        raise TypeError(f"{name} holds no SVM of maxmargin.")
    calibrated = getattr(model, "calibrated_classifiers_", None)
    if calibrated is not None:
        if len(calibrated) > 1:
            raise ValueError(
                f"{name} holds {len(calibrated)} SVMs, each fitted to a part of the samples; fit "
                "it with ensemble=False, or choose one: calibrated_classifiers_[0].estimator."
            )
        return calibrated[0].estimator
    if name == "FrozenEstimator":
        return model.estimator
    if hasattr(model, "cv_results_") and not hasattr(model, "best_estimator_"):
        raise ValueError(f"{name} kept no fitted model; fit it with refit=True.")
    for attribute in _FITTED:
        if hasattr(model, attribute):
            return getattr(model, attribute)
    raise NotFittedError(f"This {name} instance is not fitted yet; call 'fit' first.")
