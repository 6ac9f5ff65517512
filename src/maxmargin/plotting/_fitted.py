"""Facts about a fitted model that its pictures need."""

from __future__ import annotations

import numpy as np

from maxmargin.solvers.registry import make_solver
from maxmargin.sparse_format import densified

# Part of its bound from which a coefficient is at the bound: stored products have rounding errors.
_AT_BOUND = 1.0 - 1e-9


def check_samples(svm, X, caller: str) -> None:
    """Raise unless X can be the data that the model was fitted to."""
    fitted, given = svm.shape_fit_[0], X.shape[0] if hasattr(X, "shape") else len(X)
    if fitted != given:
        raise ValueError(
            f"X has {given} samples and the model was fitted to {fitted}; {caller} needs "
            "the samples of the fit, among which it marks the support vectors."
        )


def as_fitted(estimator, X, samples):
    """The points of the grid in a frame like that of the samples, if the model knows names."""
    if not hasattr(X, "columns") or not hasattr(estimator, "feature_names_in_"):
        return samples
    values, frame = np.asarray(samples), type(X)
    if frame.__module__.startswith("polars"):
        return frame(values, schema=list(X.columns))
    if frame.__module__.startswith("pyarrow"):
        return frame.from_pydict(dict(zip(X.column_names, values.T)))
    return frame(values, columns=X.columns)


def at_bound(svm, sample_weight) -> np.ndarray | None:
    """Which support vectors have a coefficient at its bound, in any of the binary problems.

    None where the solver knows no bounds, or the formulation scales them.
    """
    scaled = not hasattr(svm, "C") and hasattr(svm, "classes_")
    if scaled or not make_solver(svm.solver).capabilities.box:
        return None
    bounds = np.full(len(svm.support_), float(svm._cost))
    if hasattr(svm, "classes_"):
        bounds *= svm.class_weight_[np.repeat(np.arange(len(svm.classes_)), svm.n_support_)]
    if sample_weight is not None:
        bounds = bounds * np.asarray(sample_weight)[svm.support_]
    return (np.abs(densified(svm.dual_coef_)) >= _AT_BOUND * bounds).any(axis=0)
