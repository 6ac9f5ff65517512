"""Fitted models between scikit-learn's classes and ours of the same names."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import svm
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.pair_sigmoids import PairSigmoids
from maxmargin.estimators.prediction import KernelModel
from maxmargin.sklearn_private import fitted_part, parameter_names, set_fitted_parts
from maxmargin.sparse_format import densified

# Parameters whose values differ between the two, or that only one of them has a use for.
_OWN = {"cache_size", "verbose", "probability"}
_SKLEARN_CACHE_MB = 200  # its default; it has no "auto"


def _counterpart(model_class: type[KernelModel]) -> Any:
    """scikit-learn's class of the same name; subclasses of ours count as what they derive from."""
    names = [each.__name__ for each in model_class.__mro__]
    return next(getattr(svm, name) for name in names if hasattr(svm, name))


def _shared(model, other: Any) -> dict:
    """The parameters that the two have in common, except those whose values differ."""
    theirs = parameter_names(other)
    return {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name in theirs and name not in _OWN
    }


def from_sklearn(fitted: Any, model_class: type[KernelModel]) -> KernelModel:
    """A fitted model of ours with the parameters and the solution of scikit-learn's."""
    expected = _counterpart(model_class)
    if not isinstance(fitted, expected):
        raise TypeError(
            f"Expected a fitted sklearn.svm.{expected.__name__}, got {type(fitted).__name__}."
        )
    check_is_fitted(fitted)
    model = model_class(
        **_shared(fitted, model_class),
        cache_size=fitted.cache_size,
        verbose=fitted.verbose,
    )
    sparse = bool(fitted_part(fitted, "sparse"))
    # From the public attributes; private ones of another library may change their meaning.
    classes = getattr(fitted, "classes_", None)
    sign = -1.0 if classes is not None and len(classes) == 2 else 1.0
    vectors = fitted.support_vectors_
    by_kernel = fitted.kernel == "precomputed" or callable(fitted.kernel)
    set_fitted(
        model,
        classes=None if classes is None else classes.copy(),
        n_support=fitted.n_support_.copy(),
        dual_coef=sign * densified(fitted.dual_coef_),
        intercept=sign * fitted.intercept_,
        gamma=0.0 if by_kernel else float(fitted_part(fitted, "gamma")),
        support=fitted.support_.copy(),
        vectors=sp.csr_array(vectors) if sparse else vectors.copy(),
        sparse=sparse,
        shape=fitted.shape_fit_,
        class_weight=None if classes is None else fitted.class_weight_.copy(),
    )
    model.n_iter_ = copy(fitted.n_iter_)
    if getattr(fitted, "probability", False) not in ("deprecated", False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # as the parameter they come from
            model._pair_sigmoids = PairSigmoids(fitted.probA_.copy(), fitted.probB_.copy())
    _copy_features(fitted, model)
    if callable(fitted.kernel):
        model._X_fit = fitted_part(fitted, "X_fit")
    return model


def to_sklearn(model):
    """scikit-learn's model with the parameters and the solution of a fitted one of ours."""
    check_is_fitted(model)
    classes, their_class = getattr(model, "classes_", None), _counterpart(type(model))
    if classes is not None and len(classes) > 2 and model.multi_class == "ovr":
        raise ValueError(
            f"scikit-learn's {their_class.__name__} holds a decision for each pair of classes: fit "
            "with multi_class='ovo', not 'ovr'."
        )
    automatic = model.cache_size == "auto"
    sigmoids = getattr(model, "_pair_sigmoids", None)
    fitted = their_class(
        **_shared(model, their_class),
        **({} if sigmoids is None else {"probability": True}),
        cache_size=_SKLEARN_CACHE_MB if automatic else model.cache_size,
        verbose=bool(model.verbose),
    )
    if classes is not None:
        fitted.classes_, fitted.class_weight_ = classes.copy(), model.class_weight_.copy()
    if hasattr(model, "offset_"):
        fitted.offset_ = model.offset_
    _set_solution(fitted, model)
    n_iter = getattr(model, "n_iter_", np.zeros(len(model._intercept_)))
    n_iter = np.atleast_1d(n_iter).astype(np.int32)
    set_fitted_parts(fitted, n_iter=n_iter)
    fitted.n_iter_ = int(n_iter[0]) if classes is None else n_iter
    _copy_features(model, fitted)
    if callable(model.kernel):
        set_fitted_parts(fitted, X_fit=model._X_fit)
    return fitted


def _set_solution(fitted, model) -> None:
    """The solution of a fitted model of ours, as scikit-learn's decisions read it."""
    dual_coef = np.array(densified(model._dual_coef_), dtype=np.float64, order="C")
    intercept = np.array(model._intercept_, dtype=np.float64)
    sign = model._public_sign()
    pack = _full_csr if model._sparse else np.asarray
    sigmoids = getattr(model, "_pair_sigmoids", None)
    fitted.support_ = model.support_.astype(np.int32)
    fitted.support_vectors_ = _vectors(model)
    fitted.dual_coef_, fitted.intercept_ = pack(sign * dual_coef), sign * intercept
    fitted.fit_status_ = int(hasattr(model, "fit_report_") and model.fit_status_)
    fitted.shape_fit_ = model.shape_fit_
    set_fitted_parts(
        fitted,
        n_support=_counts(model),
        dual_coef=pack(dual_coef),
        intercept=intercept,
        gamma=model._gamma,
        sparse=model._sparse,
        slopes=np.empty(0) if sigmoids is None else sigmoids.slopes.copy(),
        offsets=np.empty(0) if sigmoids is None else sigmoids.offsets.copy(),
        has_probability=sigmoids is not None,
    )


def _copy_features(source, target) -> None:
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))
        elif hasattr(target, name):
            delattr(target, name)


def _counts(model) -> np.ndarray:
    """How many support vectors each class has; scikit-learn has two numbers where there is one."""
    counts = model._n_support.astype(np.int32)
    return counts if hasattr(model, "classes_") else np.append(counts, np.int32(0))


def _vectors(model):
    vectors = model.support_vectors_
    if not model._sparse:
        return np.array(vectors, dtype=np.float64, order="C")
    vectors = sp.csr_matrix(vectors, dtype=np.float64)
    vectors.indices = vectors.indices.astype(np.int32)
    vectors.indptr = vectors.indptr.astype(np.int32)
    return vectors


def _full_csr(values: np.ndarray) -> sp.csr_matrix:
    """A CSR matrix that stores the zeros too, which scikit-learn's compiled code counts on."""
    n_rows, n_columns = values.shape
    indices = np.tile(np.arange(n_columns, dtype=np.int32), n_rows)
    indptr = np.arange(0, n_rows * n_columns + 1, max(n_columns, 1), dtype=np.int32)
    return sp.csr_matrix((values.ravel(), indices, indptr[: n_rows + 1]), shape=values.shape)
