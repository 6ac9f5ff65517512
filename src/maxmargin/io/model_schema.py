"""The one description of a fitted SVC in a file, whatever the format of the file.

Readers take a file apart, `fitted_svc` checks all parts and puts the model together. No
estimator and no compiled code sees a part before all of them have been checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.svc import SVC
from maxmargin.io.files import DataError, brief
from maxmargin.io.schema import Array, Number, Part, Text, shown
from maxmargin.sparse_format import check_format

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_MAX_COUNT = 2**31 - 1  # LIBSVM's and scikit-learn's counts have 32 bits

# What the sizes of all other parts follow from.
_HEAD: dict[str, Part] = {
    "kernel": Text(KERNELS),
    "multi_class": Text(("ovo", "ovr")),
    "shape_fit": Array("iu", (2,), at_least=1, at_most=_MAX_COUNT),
    "classes": Array("biufU", ("n_classes",), distinct=True),
    "n_support": Array("iu", ("n_classes",), at_least=0, at_most=_MAX_COUNT),
}
_BODY: dict[str, Part] = {
    "gamma": Number(at_least=0),
    "dual_coef": Array("f", ("n_rows", "n_vectors")),
    "intercept": Array("f", ("n_problems",)),
}
# A reader leaves out what its format does not have.
_OPTIONAL: dict[str, Part] = {
    "support": Array("iu", ("n_vectors",), at_least=0, at_most=_MAX_COUNT),
    "class_weight": Array("f", ("n_classes",), at_least=0),
    "n_iter": Array("iu", ("n_problems",), at_least=0),
    "feature_names": Array("U", ("n_features",)),
}
# Support vectors are a table, or the parts of a CSR matrix, or with a precomputed kernel nothing.
_DENSE: dict[str, Part] = {"vectors": Array("f", ("n_vectors", "n_features"))}
_SPARSE: dict[str, Part] = {
    "data": Array("f", ("n_entries",)),
    "indices": Array("iu", ("n_entries",), at_least=0, at_most=_MAX_COUNT),
    "indptr": Array("iu", ("n_pointers",), at_least=0),
}
_NO_VECTORS: dict[str, Part] = {"vectors": Array("f", (0, 0))}


def fitted_svc(parts: dict[str, Any], parameters: dict[str, Any], name: str) -> SVC:
    """A fitted SVC from the parts of a file.

    Parameters
    ----------
    parts : what the descriptions above name; `dual_coef` and `intercept` in LIBSVM's sign
    parameters : those of the SVC; `kernel` and `multi_class` among them
    name : what messages call the file

    Raises
    ------
    DataError
        One sentence that says which part does not fit, and what would.
    """
    try:
        model = SVC(**parameters)
        model._validate_params()
        parts = {"kernel": model.kernel, "multi_class": model.multi_class} | parts
        sizes = _sizes(parts)
        sparse = "data" in parts
        by_kernel = parts["kernel"] == "precomputed"
        vectors = _NO_VECTORS if by_kernel else _SPARSE if sparse else _DENSE
        _check(_BODY | vectors, parts, sizes)
        _check({part: _OPTIONAL[part] for part in _OPTIONAL if part in parts}, parts, sizes)
        unknown = parts.keys() - (_HEAD | _BODY | _OPTIONAL | vectors)
        if unknown:
            raise ValueError(f"its array {shown(min(unknown))} is not known.")
        _check_samples(parts, sizes)
        _set(model, parts, sizes, sparse and not by_kernel)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{name}: {brief(error, 200)}.") from error
    return model


def check_is_svc(model) -> None:
    """Raise a TypeError of one sentence for a model that these files do not hold."""
    if not isinstance(model, SVC):
        name = type(model).__name__
        raise TypeError(
            f"Model files hold an SVC, not a {name}: pickle it, or what its to_sklearn() returns."
        )


def check_names(parameters: dict[str, Any]) -> None:
    """Raise a ValueError of one sentence if the SVC has no such parameter."""
    unknown = [name for name in parameters if name not in SVC._get_param_names()]
    if unknown:
        raise ValueError(f"SVC has no parameter {shown(unknown[0])}.")


def _sizes(parts: dict[str, Any]) -> dict[str, int]:
    """The numbers that shapes are written with."""
    classes = parts.get("classes")
    n_classes = len(classes) if isinstance(classes, np.ndarray) and classes.ndim == 1 else 0
    _check(_HEAD, parts, {"n_classes": n_classes})
    if n_classes < 2:
        raise ValueError(f"a model must have at least 2 classes, not {n_classes}.")
    pairs = n_classes == 2 or parts["multi_class"] == "ovo"
    n_vectors = int(parts["n_support"].sum(dtype=np.int64))
    n_samples, n_features = (int(size) for size in parts["shape_fit"])
    entries, pointers = parts.get("data"), n_vectors + 1
    return {
        "n_classes": n_classes,
        "n_problems": n_classes * (n_classes - 1) // 2 if pairs else n_classes,
        "n_rows": n_classes - 1 if pairs else n_classes,
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


def _set(model: SVC, parts: dict[str, Any], sizes: Mapping[str, int], sparse: bool) -> None:
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
    set_fitted(
        model,
        classes=parts["classes"].astype(parts["classes"].dtype.newbyteorder("=")),
        n_support=parts["n_support"].astype(np.int32),
        dual_coef=parts["dual_coef"].astype(np.float64),
        intercept=parts["intercept"].astype(np.float64),
        gamma=float(parts["gamma"]),
        support=support.astype(np.int32),
        vectors=vectors,
        sparse=sparse,
        shape=shape,
        class_weight=parts["class_weight"].astype(np.float64) if "class_weight" in parts else None,
    )
    if "n_iter" in parts:
        model.n_iter_ = parts["n_iter"]
    if "feature_names" in parts:
        model.feature_names_in_ = parts["feature_names"].astype(object)


def _floats(values: np.ndarray) -> np.ndarray:
    """In this machine's byte order, and of the types that compiled code takes."""
    return np.ascontiguousarray(values, np.float32 if values.dtype.itemsize == 4 else np.float64)
