"""Fitted models between scikit-learn's SVC and ours."""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC as SklearnSVC
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.svc import SVC

# The parameters that the two have in common, less those whose values differ.
_SHARED = (
    "C", "kernel", "degree", "gamma", "coef0", "shrinking", "tol", "class_weight",
    "max_iter", "decision_function_shape", "break_ties", "random_state",
)  # fmt: skip
_SKLEARN_CACHE_MB = 200  # its default; it has no "auto"


def from_sklearn(fitted: SklearnSVC, model_class: type[SVC] = SVC) -> SVC:
    """A fitted SVC of ours with the parameters and the solution of scikit-learn's."""
    if not isinstance(fitted, SklearnSVC):
        raise TypeError(f"Expected a fitted sklearn.svm.SVC, got {type(fitted).__name__}.")
    check_is_fitted(fitted)
    if fitted.probability not in ("deprecated", False):
        warnings.warn(
            "Probabilities are not carried over; wrap the model in CalibratedClassifierCV.",
            UserWarning,
            stacklevel=3,
        )
    model = model_class(
        **{name: getattr(fitted, name) for name in _SHARED},
        cache_size=fitted.cache_size,
        verbose=fitted.verbose,
    )
    sparse = bool(fitted._sparse)
    # From the public attributes; private ones of another library may change their meaning.
    sign = -1.0 if len(fitted.classes_) == 2 else 1.0
    dual_coef = fitted.dual_coef_.toarray() if sparse else fitted.dual_coef_
    vectors = fitted.support_vectors_
    by_kernel = fitted.kernel == "precomputed" or callable(fitted.kernel)
    set_fitted(
        model,
        classes=fitted.classes_.copy(),
        n_support=fitted.n_support_.copy(),
        dual_coef=sign * dual_coef,
        intercept=sign * fitted.intercept_,
        gamma=0.0 if by_kernel else float(fitted._gamma),
        support=fitted.support_.copy(),
        vectors=sp.csr_array(vectors) if sparse else vectors.copy(),
        sparse=sparse,
        shape=fitted.shape_fit_,
        class_weight=fitted.class_weight_.copy(),
    )
    model.n_iter_ = fitted.n_iter_.copy()
    _copy_features(fitted, model)
    if callable(fitted.kernel):
        model._X_fit = fitted._BaseLibSVM__Xfit
    return model


def to_sklearn(model: SVC) -> SklearnSVC:
    """scikit-learn's SVC with the parameters and the solution of a fitted one of ours."""
    check_is_fitted(model)
    if len(model.classes_) > 2 and model.multi_class == "ovr":
        raise ValueError(
            "scikit-learn's SVC holds a decision for each pair of classes: fit with "
            "multi_class='ovo', not 'ovr'."
        )
    automatic = model.cache_size == "auto"
    fitted = SklearnSVC(
        **{name: getattr(model, name) for name in _SHARED},
        cache_size=_SKLEARN_CACHE_MB if automatic else model.cache_size,
        verbose=bool(model.verbose),
    )
    dual_coef = model._dual_coef_
    dual_coef = dual_coef.toarray() if model._sparse else dual_coef.copy()
    dual_coef = np.ascontiguousarray(dual_coef, dtype=np.float64)
    intercept = np.array(model._intercept_, dtype=np.float64)
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    pack = _full_csr if model._sparse else np.asarray
    fitted.__dict__.update(
        {
            "classes_": model.classes_.copy(),
            "class_weight_": model.class_weight_.copy(),
            "support_": model.support_.astype(np.int32),
            "support_vectors_": _vectors(model),
            "_n_support": model._n_support.astype(np.int32),
            "_dual_coef_": pack(dual_coef),
            "dual_coef_": pack(sign * dual_coef),
            "_intercept_": intercept,
            "intercept_": sign * intercept,
            "_probA": np.empty(0),
            "_probB": np.empty(0),
            "_effective_probability": False,
            "_gamma": model._gamma,
            "_sparse": model._sparse,
            "fit_status_": int(hasattr(model, "fit_report_") and model.fit_status_),
            "shape_fit_": model.shape_fit_,
        }
    )
    n_problems = len(intercept)
    fitted.n_iter_ = getattr(model, "n_iter_", np.zeros(n_problems)).astype(np.int32)
    fitted._num_iter = fitted.n_iter_
    _copy_features(model, fitted)
    if callable(model.kernel):
        fitted._BaseLibSVM__Xfit = model._X_fit
    return fitted


def _copy_features(source, target) -> None:
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(source, name):
            setattr(target, name, getattr(source, name))
        elif hasattr(target, name):
            delattr(target, name)


def _vectors(model: SVC):
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
