"""The decision functions of a fitted SVC, made once and kept beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.deferred import decisions
from maxmargin.estimators.multiclass import coefficients_by_task

if TYPE_CHECKING:  # kernels, and with them the compiler, are loaded with the first fit
    from maxmargin.decisions import DecisionFunctions

# What the functions are made of: another object at one of these names, and they are made anew.
_PARTS = ("_dual_coef_", "_n_support", "_intercept_", "support_", "support_vectors_", "_X_fit",
          "kernel", "_gamma", "coef0", "degree", "classes_")  # fmt: skip
# Beside the models, not in them: a pickle has no use for it, and `predict` changes no attribute.
_made: WeakKeyDictionary = WeakKeyDictionary()


def decision_functions(model) -> DecisionFunctions:
    """The decision functions of a fitted SVC; those of the last call while it is the same."""
    parts = [getattr(model, name, None) for name in _PARTS]
    known = _made.get(model)
    if known is not None and all(a is b for a, b in zip(known[0], parts)):
        return known[1]
    functions = _make(model)
    _made[model] = parts, functions
    return functions


def _make(model) -> DecisionFunctions:
    intercept = np.asarray(model._intercept_)
    n_classes = len(getattr(model, "classes_", intercept))
    return decisions().DecisionFunctions(_terms(model, len(intercept)), intercept, n_classes)


def _terms(model, n_tasks: int):
    terms = decisions()
    dual_coef, vectors = model._dual_coef_, model.support_vectors_
    if dual_coef.shape[1] == 0 and not callable(model.kernel):
        return terms.NoTerms()
    if model.kernel == "linear" and _weights_are_less(vectors, dual_coef, n_tasks):
        return terms.LinearTerms(vectors, coefficients_by_task(dual_coef, model._n_support))
    dense = dual_coef.toarray() if sp.issparse(dual_coef) else np.asarray(dual_coef)
    coefficients = terms.Coefficients(dense, model._n_support, n_tasks)
    if model.kernel == "precomputed":
        return terms.PrecomputedTerms(model.support_, coefficients)
    if callable(model.kernel):
        return terms.CallableTerms(model.kernel, model._X_fit, model.support_, coefficients)
    function = terms.KernelFunction(model.kernel, model._gamma, model.coef0, model.degree)
    return terms.FeatureTerms(function, vectors, coefficients)


def _weights_are_less(vectors, dual_coef, n_tasks: int) -> bool:
    """Whether weights of the features are fewer numbers than support vectors and coefficients.

    The fewer numbers are also the fewer operations per sample, but for sparse data.
    """
    of_model = np.prod(dual_coef.shape) + (vectors.nnz if sp.issparse(vectors) else vectors.size)
    if not sp.issparse(vectors):
        return n_tasks * vectors.shape[1] <= of_model
    return (
        n_tasks <= of_model and n_tasks * len(decisions().occurring_features(vectors)) <= of_model
    )
