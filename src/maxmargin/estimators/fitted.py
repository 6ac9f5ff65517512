"""The fitted attributes of a model from its parts, whether a fit or a file gave them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.sklearn_private import in_sparse_interface


def fitted_attributes(
    *, n_support, dual_coef, intercept, gamma, support, vectors, sparse, shape, cost,
    classes=None, class_weight=None, X_fit=None,
) -> dict:  # fmt: skip
    """All attributes that a prediction or a warm start needs, in LIBSVM's layout.

    Parameters
    ----------
    dual_coef, intercept : in LIBSVM's sign, in which a positive decision means the first
        of two classes; scikit-learn's public attributes mean the second
    support, vectors : row numbers of the support vectors in the training data, and the vectors
        themselves, class by class
    n_support : the number of support vectors of each class
    sparse : whether the training data was sparse
    shape, cost : shape of the training data, and the bound of the coefficients, C where there is
        one
    classes, class_weight : None where there are no classes
    X_fit : the training data, where the kernel is a user's function
    """
    stored = sp.csr_array(dual_coef) if sparse else np.asarray(dual_coef, dtype=np.float64)
    sign, of_classes = 1.0, {}
    if classes is not None:
        weights = np.ones(len(classes)) if class_weight is None else class_weight
        of_classes = {"classes_": classes, "class_weight_": weights}
        sign = -1.0 if len(classes) == 2 else 1.0
    return of_classes | {
        "support_": support,
        "support_vectors_": in_sparse_interface(vectors),
        "_n_support": n_support,
        "_dual_coef_": stored,
        "_intercept_": intercept,
        "dual_coef_": in_sparse_interface(sign * stored),
        "intercept_": sign * intercept,
        "shape_fit_": shape,
        "_gamma": gamma,
        "_sparse": sparse,
        "_X_fit": X_fit,
        "_fit_cost": cost,
    }


def widen(model, n_features: int) -> None:
    """Let a fitted model take data with more features, which are zero in its support vectors.

    With a precomputed kernel the additional columns are training samples without coefficients.
    """
    if model.kernel == "precomputed":
        model.shape_fit_ = (n_features, n_features)
    else:
        vectors = sp.csr_array(model.support_vectors_)
        parts, n_vectors = (vectors.data, vectors.indices, vectors.indptr), vectors.shape[0]
        wider = sp.csr_array(parts, shape=(n_vectors, n_features))
        model.support_vectors_ = in_sparse_interface(wider)
        model.shape_fit_ = (model.shape_fit_[0], n_features)
        if not model._sparse:
            model._sparse = True
            model._dual_coef_ = sp.csr_array(model._dual_coef_)
            model.dual_coef_ = in_sparse_interface(sp.csr_array(model.dual_coef_))
    model.n_features_in_ = n_features


def set_fitted(model, **parts) -> None:
    """Make a model a fitted one, from the parts that `fitted_attributes` takes, less the cost."""
    model.__dict__.update(fitted_attributes(cost=model._cost, **parts))
    model.n_features_in_ = parts["shape"][1]
