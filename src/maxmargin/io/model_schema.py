"""The one description of a fitted model in a file, for all file formats.

Readers take a file apart, `fitted_model` checks all parts and puts the model together. No
estimator and no compiled code sees a part before all of them have been checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.classification import BaseSVClassifier
from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.estimators.pair_sigmoids import PairSigmoids
from maxmargin.estimators.prediction import KernelModel
from maxmargin.estimators.regression import SVR, BaseSVRegressor, NuSVR
from maxmargin.estimators.svc import SVC
from maxmargin.io.files import DataError, brief
from maxmargin.io.schema import Array, Number, Part, Text, shown
from maxmargin.sklearn_private import check_parameters, parameter_names
from maxmargin.sparse_format import check_format

# The models that files hold, by their names in our own files.
MODELS: dict[str, type[KernelModel]] = {
    each.__name__: each for each in (SVC, NuSVC, SVR, NuSVR, OneClassSVM)
}
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_MAX_COUNT = 2**31 - 1  # LIBSVM's and scikit-learn's counts have 32 bits

# The parts that decide the sizes of all others.
_HEAD: dict[str, Part] = {
    "kernel": Text(KERNELS),
    "shape_fit": Array("iu", (2,), at_least=1, at_most=_MAX_COUNT),
    "n_support": Array("iu", ("n_groups",), at_least=0, at_most=_MAX_COUNT),
}
_CLASSES: dict[str, Part] = {
    "multi_class": Text(("ovo", "ovr")),
    "classes": Array("biufU", ("n_groups",), distinct=True),
}
_BODY: dict[str, Part] = {
    "gamma": Number(at_least=0),
    "dual_coef": Array("f", ("n_rows", "n_vectors")),
    "intercept": Array("f", ("n_problems",)),
}
# Parts that a format may lack.
_OPTIONAL: dict[str, Part] = {
    "support": Array("iu", ("n_vectors",), at_least=0, at_most=_MAX_COUNT),
    "n_iter": Array("iu", ("n_problems",), at_least=0),
    "feature_names": Array("U", ("n_features",)),
}
_OPTIONAL_OF_CLASSES: dict[str, Part] = {
    "class_weight": Array("f", ("n_groups",), at_least=0),
    "probA": Array("f", ("n_problems",)),
    "probB": Array("f", ("n_problems",)),
}
_OPTIONAL_OF_NUMBERS: dict[str, Part] = {"noise": Array("f", (1,), at_least=0)}
# Support vectors are a table, or the parts of a CSR matrix, or with a precomputed kernel nothing.
_DENSE: dict[str, Part] = {"vectors": Array("f", ("n_vectors", "n_features"))}
_SPARSE: dict[str, Part] = {
    "data": Array("f", ("n_entries",)),
    "indices": Array("iu", ("n_entries",), at_least=0, at_most=_MAX_COUNT),
    "indptr": Array("iu", ("n_pointers",), at_least=0),
}
_NO_VECTORS: dict[str, Part] = {"vectors": Array("f", (0, 0))}


def fitted_model(
    kind: type[KernelModel], parts: dict[str, Any], parameters: dict[str, Any], name: str
) -> Any:
    """A fitted model from the parts of a file.

    Parameters
    ----------
    kind : one of `MODELS`
    parts : what the descriptions above name; `dual_coef` and `intercept` in LIBSVM's sign
    parameters : those of the model; `kernel` among them
    name : what messages call the file

    Raises
    ------
    DataError
        One sentence that says which part does not fit, and what would.
    """
    try:
        model: Any = kind(**parameters)
        check_parameters(model)
        parts = {"kernel": model.kernel} | parts
        head, optional = _HEAD, _OPTIONAL
        if has_classes(kind):
            parts = {"multi_class": model.multi_class} | parts
            head, optional = _CLASSES | _HEAD, _OPTIONAL | _OPTIONAL_OF_CLASSES
        elif issubclass(kind, BaseSVRegressor):
            optional = _OPTIONAL | _OPTIONAL_OF_NUMBERS
        sizes = _sizes(head, parts)
        sparse = "data" in parts
        by_kernel = parts["kernel"] == "precomputed"
        vectors = _NO_VECTORS if by_kernel else _SPARSE if sparse else _DENSE
        _check(_BODY | vectors, parts, sizes)
        _check({part: optional[part] for part in optional if part in parts}, parts, sizes)
        unknown = parts.keys() - (head | _BODY | optional | vectors)
        if unknown:
            raise ValueError(f"its array {shown(min(unknown))} is not known.")
        _check_samples(parts, sizes)
        _set(model, parts, sizes, sparse and not by_kernel)
        _set_probabilities(model, parts, sizes)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{name}: {brief(error, 200)}.") from error
    return model


def has_classes(kind: type) -> bool:
    """Whether models of a kind are classifiers; the others have one function and no labels."""
    return issubclass(kind, BaseSVClassifier)


def kind_of(model) -> type[KernelModel]:
    """Which of `MODELS` a model is; a TypeError of one sentence where it is none."""
    for kind in MODELS.values():
        if isinstance(model, kind):
            return kind
    known = ", ".join(MODELS)
    raise TypeError(f"Model files hold one of {known}, not a {type(model).__name__}.")


def check_names(kind: type[KernelModel], parameters: dict[str, Any]) -> None:
    """Raise a ValueError of one sentence if the model has no such parameter."""
    unknown = [name for name in parameters if name not in parameter_names(kind)]
    if unknown:
        raise ValueError(f"{kind.__name__} has no parameter {shown(unknown[0])}.")


def _sizes(head: Mapping[str, Part], parts: dict[str, Any]) -> dict[str, int]:
    """The numbers that shapes are written with."""
    n_groups = n_problems = n_rows = 1
    if "classes" in head:
        classes = parts.get("classes")
        n_groups = len(classes) if isinstance(classes, np.ndarray) and classes.ndim == 1 else 0
    _check(head, parts, {"n_groups": n_groups})
    if "classes" in head:
        if n_groups < 2:
            raise ValueError(f"a model must have at least 2 classes, not {n_groups}.")
        pairs = n_groups == 2 or parts["multi_class"] == "ovo"
        n_problems = n_groups * (n_groups - 1) // 2 if pairs else n_groups
        n_rows = n_groups - 1 if pairs else n_groups
    n_vectors = int(parts["n_support"].sum(dtype=np.int64))
    n_samples, n_features = (int(size) for size in parts["shape_fit"])
    entries, pointers = parts.get("data"), n_vectors + 1
    return {
        "n_groups": n_groups,
        "n_problems": n_problems,
        "n_rows": n_rows,
        "n_vectors": n_vectors,
        "n_samples": n_samples,
        "n_features": n_features,
        "n_entries": entries.size if isinstance(entries, np.ndarray) else 0,
        "n_pointers": pointers,
    }


def _check(schema: Mapping[str, Part], parts: dict[str, Any], sizes: Mapping[str, int]) -> None:
    for part, description in schema.items():
        if part not in parts:
            raise ValueError(f"{part} is missing.")
        description.check(parts[part], part, sizes)


def _check_samples(parts: dict[str, Any], sizes: Mapping[str, int]) -> None:
    """Support vectors are samples of the training data."""
    n_samples = sizes["n_samples"]
    last = int(parts["support"].max(initial=0)) if "support" in parts else 0
    if last >= n_samples:
        raise ValueError(f"support must be less than {n_samples}, not {last}.")
    if parts["kernel"] == "precomputed" and n_samples != sizes["n_features"]:
        raise ValueError(f"a precomputed kernel must be square, not {parts['shape_fit'].tolist()}.")


def _set(model: Any, parts: dict[str, Any], sizes: Mapping[str, int], sparse: bool) -> None:
    """Give the model its attributes, in the types that a fit gives them."""
    shape = (sizes["n_samples"], sizes["n_features"])
    if sparse:
        entries = (_floats(parts["data"]), parts["indices"].astype(np.int32), parts["indptr"])
        vectors = sp.csr_array(entries, shape=(sizes["n_vectors"], shape[1]))
        check_format(vectors, "the table of support vectors")
        if not vectors.has_canonical_format:
            raise ValueError("the indices of each support vector must ascend.")
    else:
        vectors = _floats(parts["vectors"])
    support = parts.get("support", np.arange(sizes["n_vectors"]))
    classes, class_weight = parts.get("classes"), parts.get("class_weight")
    set_fitted(
        model,
        classes=None if classes is None else classes.astype(classes.dtype.newbyteorder("=")),
        n_support=parts["n_support"].astype(np.int32),
        dual_coef=parts["dual_coef"].astype(np.float64),
        intercept=parts["intercept"].astype(np.float64),
        gamma=float(parts["gamma"]),
        support=support.astype(np.int32),
        vectors=vectors,
        sparse=sparse,
        shape=shape,
        class_weight=None if class_weight is None else class_weight.astype(np.float64),
    )
    if "n_iter" in parts:
        model.n_iter_ = model._iterations(parts["n_iter"])
    if "feature_names" in parts:
        model.feature_names_in_ = parts["feature_names"].astype(object)


def _set_probabilities(model: Any, parts: dict[str, Any], sizes: Mapping[str, int]) -> None:
    """The sigmoids or the noise that LIBSVM's -b 1 adds to a model, where the file has them."""
    if "noise" in parts:
        model._noise = float(parts["noise"][0])
    given = [part for part in ("probA", "probB") if part in parts]
    if not given:
        return
    if len(given) < 2:
        raise ValueError(f"there is {given[0]}, but not the other of probA and probB.")
    if sizes["n_groups"] > 2 and model.multi_class == "ovr":
        raise ValueError("probA and probB are of pairs of classes, and this model has none.")
    model._pair_sigmoids = PairSigmoids(*(parts[part].astype(np.float64) for part in given))


def _floats(values: np.ndarray) -> np.ndarray:
    """In this machine's byte order, and of the types that compiled code takes."""
    return np.ascontiguousarray(values, np.float32 if values.dtype.itemsize == 4 else np.float64)
