"""ONNX through skl2onnx: importing this module registers a converter for each of our models."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import is_outlier_detector

from maxmargin.io.model_schema import MODELS, has_classes

try:
    import skl2onnx
    from skl2onnx.common.data_types import Int64TensorType
    from skl2onnx.common.shape_calculator import (
        calculate_linear_classifier_output_shapes,
        calculate_linear_regressor_output_shapes,
    )
    from skl2onnx.operator_converters.support_vector_machines import (
        convert_sklearn_svm_classifier,
        convert_sklearn_svm_regressor,
    )
except ImportError as error:
    raise ImportError(
        "ONNX export needs skl2onnx and onnxruntime; pip install 'maxmargin[onnx]'."
    ) from error


def to_onnx(model, X, **options):
    """A fitted model, or a pipeline that ends in one, as an ONNX model.

    ONNX's own operators compute in float32; labels, predictions and scores are equal to
    that precision. Of classifiers and of a OneClassSVM the outputs are labels and scores;
    for two classes ask for ``options={"raw_scores": True}`` to get the scores of
    `decision_function`.

    Parameters
    ----------
    model : fitted SVC, NuSVC, SVR, NuSVR, OneClassSVM or pipeline
    X : array
        Samples (one is enough), from which the types of the inputs are taken.
    **options
        Passed on to `skl2onnx.to_onnx`.
    """
    return skl2onnx.to_onnx(model, np.asarray(X, dtype=np.float32), **options)


class _Operator:
    """An operator of skl2onnx with another model in it, and with other names of its outputs."""

    def __init__(self, operator, model, outputs=None):
        self._operator = operator
        self.raw_operator = model
        self.output_full_names = outputs or operator.output_full_names

    def __getattr__(self, name):
        return getattr(self._operator, name)


def _dense_sklearn_model(model):
    """scikit-learn's model, with arrays that its converters take."""
    if callable(model.kernel) or model.kernel == "precomputed":
        raise ValueError("ONNX has no kernels beside linear, poly, rbf and sigmoid.")
    if not len(model.support_):
        raise ValueError(
            "ONNX has no SVM without support vectors, and this model has none: it predicts the "
            f"constant {model.intercept_[0]:g}."
        )
    fitted = model.to_sklearn()
    if model._sparse:
        fitted.support_vectors_ = fitted.support_vectors_.toarray()
        fitted.dual_coef_ = fitted.dual_coef_.toarray()
    return fitted


def _convert_classifier(scope, operator, container) -> None:
    """Convert a classifier as skl2onnx converts scikit-learn's."""
    model = operator.raw_operator
    fitted = _dense_sklearn_model(model)
    options = container.get_options(model, {"raw_scores": False})
    container.options = (container.options or {}) | {id(fitted): options}
    with warnings.catch_warnings():
        # The converter looks at probA_ and probB_, which scikit-learn has deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        convert_sklearn_svm_classifier(scope, _Operator(operator, fitted), container)


def _convert_regressor(scope, operator, container) -> None:
    fitted = _dense_sklearn_model(operator.raw_operator)
    convert_sklearn_svm_regressor(scope, _Operator(operator, fitted), container)


def _convert_detector(scope, operator, container) -> None:
    """Labels are +1 or −1; skl2onnx has 0 for samples on the boundary, which are outliers."""
    fitted = _dense_sklearn_model(operator.raw_operator)
    label, score = operator.output_full_names
    sign, doubled, shifted = (scope.get_unique_variable_name("sign") for _ in range(3))
    convert_sklearn_svm_regressor(scope, _Operator(operator, fitted, [sign, score]), container)
    one = scope.get_unique_variable_name("one")
    container.add_initializer(one, skl2onnx.proto.onnx_proto.TensorProto.INT64, [], [1])
    container.add_node("Add", [sign, sign], doubled, op_version=7)
    container.add_node("Sub", [doubled, one], shifted, op_version=7)
    container.add_node("Sign", shifted, label, op_version=9)


def _detector_shapes(operator) -> None:
    n_samples = operator.inputs[0].get_first_dimension()
    operator.outputs[0].type = Int64TensorType([n_samples, 1])
    operator.outputs[1].type.shape = [n_samples, 1]


def _register(kind: type) -> None:
    name = f"Maxmargin{kind.__name__}"
    if has_classes(kind):
        options = {
            "zipmap": [True, False, "columns"],
            "nocl": [True, False],
            "output_class_labels": [False, True],
            "raw_scores": [True, False],
        }
        shapes = calculate_linear_classifier_output_shapes
        skl2onnx.update_registered_converter(
            kind, name, shapes, _convert_classifier, options=options
        )
    elif is_outlier_detector(kind()):
        skl2onnx.update_registered_converter(kind, name, _detector_shapes, _convert_detector)
    else:
        shapes = calculate_linear_regressor_output_shapes
        skl2onnx.update_registered_converter(kind, name, shapes, _convert_regressor)


for _kind in MODELS.values():
    _register(_kind)
