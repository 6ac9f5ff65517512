"""ONNX through skl2onnx: importing this module registers a converter for our SVC."""

from __future__ import annotations

import warnings

import numpy as np

from maxmargin.estimators.svc import SVC

try:
    import skl2onnx
    from skl2onnx.common.shape_calculator import calculate_linear_classifier_output_shapes
    from skl2onnx.operator_converters.support_vector_machines import (
        convert_sklearn_svm_classifier,
    )
except ImportError as error:
    raise ImportError(
        "ONNX export needs skl2onnx and onnxruntime; pip install 'maxmargin[onnx]'."
    ) from error


def to_onnx(model, X, **options):
    """A fitted SVC, or a pipeline that ends in one, as an ONNX model.

    ONNX's own operator computes in float32; labels and scores are equal to that
    precision. For two classes ask for ``options={"raw_scores": True}`` to get the
    scores of `decision_function`.

    Parameters
    ----------
    model : fitted SVC or pipeline
    X : array
        Samples (one is enough), from which the types of the inputs are taken.
    **options
        Passed on to `skl2onnx.to_onnx`.
    """
    return skl2onnx.to_onnx(model, np.asarray(X, dtype=np.float32), **options)


class _DenseOperator:
    """An operator of skl2onnx with another model in it."""

    def __init__(self, operator, model):
        self._operator = operator
        self.raw_operator = model

    def __getattr__(self, name):
        return getattr(self._operator, name)


def _convert(scope, operator, container) -> None:
    """Convert our SVC as skl2onnx converts scikit-learn's."""
    model = operator.raw_operator
    if callable(model.kernel) or model.kernel == "precomputed":
        raise ValueError("ONNX has no kernels beside linear, poly, rbf and sigmoid.")
    fitted = model.to_sklearn()
    if model._sparse:
        fitted.support_vectors_ = fitted.support_vectors_.toarray()
        fitted.dual_coef_ = fitted.dual_coef_.toarray()
    options = container.get_options(model, {"raw_scores": False})
    container.options = (container.options or {}) | {id(fitted): options}
    with warnings.catch_warnings():
        # The converter looks at probA_ and probB_, which scikit-learn has deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        convert_sklearn_svm_classifier(scope, _DenseOperator(operator, fitted), container)


skl2onnx.update_registered_converter(
    SVC,
    "MaxmarginSVC",
    calculate_linear_classifier_output_shapes,
    _convert,
    options={
        "zipmap": [True, False, "columns"],
        "nocl": [True, False],
        "output_class_labels": [False, True],
        "raw_scores": [True, False],
    },
)
