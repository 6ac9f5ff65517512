"""A fitted SVC from its parts, wherever they come from."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.svc import SVC


def set_fitted(
    model: SVC, *, classes, n_support, dual_coef, intercept, gamma, support, vectors, sparse,
    shape, class_weight=None,
) -> None:  # fmt: skip
    """Make an SVC a fitted one, from parts in LIBSVM's layout and sign."""
    stored = sp.csr_array(dual_coef) if sparse else np.asarray(dual_coef, dtype=np.float64)
    sign = -1.0 if len(classes) == 2 else 1.0
    model.__dict__.update(
        {
            "classes_": classes,
            "class_weight_": np.ones(len(classes)) if class_weight is None else class_weight,
            "support_": support,
            "support_vectors_": vectors,
            "_n_support": n_support,
            "_dual_coef_": stored,
            "_intercept_": intercept,
            "dual_coef_": sign * stored,
            "intercept_": sign * intercept,
            "shape_fit_": shape,
            "n_features_in_": shape[1],
            "_gamma": gamma,
            "_sparse": sparse,
            "_X_fit": None,
            "_fit_C": model.C,
        }
    )
