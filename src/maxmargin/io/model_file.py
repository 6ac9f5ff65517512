"""Model files: LIBSVM text, or our own ``.npz``, which keeps all that a fit found out.

The ``.npz`` holds arrays and one JSON text. Reading it runs no code of the file's
author, which reading a pickle does.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import asdict

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.svc import SVC
from maxmargin.io.files import DataError, atomic_write, display_name, format_suffix, open_binary
from maxmargin.io.libsvm_model import load_libsvm_model, save_libsvm_model
from maxmargin.monitor import Progress
from maxmargin.report import FitReport, ProblemReport, plain

_FORMAT = "maxmargin SVC 1"


def save_model(model: SVC, path: str | os.PathLike) -> None:
    """Write a fitted SVC: ``.npz`` for all of it, any other name for a LIBSVM model."""
    if format_suffix(path) != ".npz":
        save_libsvm_model(model, path)
        return
    check_is_fitted(model)
    arrays = _arrays(model)  # all that can be refused is refused before a file is opened
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_model(path: str | os.PathLike, *, n_features: int | None = None) -> SVC:
    """Read what `save_model` wrote, or a C-SVC model of `svm-train`.

    Parameters
    ----------
    path : file name
    n_features : see `load_libsvm_model`; an ``.npz`` model knows the number itself
    """
    if format_suffix(path) != ".npz":
        return load_libsvm_model(path, n_features=n_features)
    name = display_name(path)
    with open_binary(path) as file:
        content = io.BytesIO(file.read())
    try:
        with np.load(content, allow_pickle=False) as arrays:
            return _model(dict(arrays), name)
    except (KeyError, ValueError, TypeError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise DataError(f"{name}: is not a model of maxmargin, or is cut short.") from error


def _arrays(model: SVC) -> dict[str, np.ndarray]:
    if callable(model.kernel):
        raise ValueError("A model file cannot hold a kernel that is a Python function.")
    if hasattr(model, "_calibrated"):
        raise ValueError("A model file cannot hold probabilities; fit with probability=False.")
    if model.classes_.dtype.kind not in "biufU":
        raise ValueError(f"A model file holds numbers or text as labels, not {model.classes_[0]!r}")
    parameters = model.get_params(deep=False)
    parameters["solver"] = getattr(model.solver, "name", model.solver)
    parameters["class_weight"] = _pairs(model.class_weight)
    if not isinstance(model.random_state, int | None):
        parameters["random_state"] = None
    description = {
        "format": _FORMAT,
        "parameters": parameters,
        "gamma": float(model._gamma),
        "shape_fit": [int(size) for size in model.shape_fit_],
        "report": _report_parts(model.fit_report_) if hasattr(model, "fit_report_") else None,
    }
    dual_coef = model._dual_coef_.toarray() if model._sparse else model._dual_coef_
    arrays = {
        "description": np.array(json.dumps(plain(description, _tagged), allow_nan=False)),
        "classes": model.classes_,
        "class_weight": model.class_weight_,
        "n_support": model._n_support,
        "support": model.support_,
        "dual_coef": dual_coef,
        "intercept": model._intercept_,
    }
    if hasattr(model, "n_iter_"):
        arrays["n_iter"] = model.n_iter_
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    vectors = model.support_vectors_
    if not model._sparse:
        return arrays | {"vectors": vectors}
    return arrays | {"data": vectors.data, "indices": vectors.indices, "indptr": vectors.indptr}


def _model(arrays: dict[str, np.ndarray], name: str) -> SVC:
    description = json.loads(str(arrays["description"]), object_hook=_untagged)
    if description["format"] != _FORMAT:
        raise DataError(f"{name}: is a model of a later version, {description['format']!r}.")
    parameters = description["parameters"]
    parameters["class_weight"] = _from_pairs(parameters["class_weight"])
    model = SVC(**parameters)
    shape = tuple(description["shape_fit"])
    sparse = "data" in arrays
    if sparse:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        vectors = sp.csr_array(parts, shape=(len(arrays["support"]), shape[1]))
    else:
        vectors = arrays["vectors"]
    set_fitted(
        model, classes=arrays["classes"], n_support=arrays["n_support"],
        dual_coef=arrays["dual_coef"], intercept=arrays["intercept"],
        gamma=description["gamma"], support=arrays["support"], vectors=vectors, sparse=sparse,
        shape=shape, class_weight=arrays["class_weight"],
    )  # fmt: skip
    if "n_iter" in arrays:
        model.n_iter_ = arrays["n_iter"]
    if "feature_names" in arrays:
        model.feature_names_in_ = arrays["feature_names"].astype(object)
    if description["report"] is not None:
        model.fit_report_ = _report(description["report"])
    return model


def _report_parts(report: FitReport) -> dict:
    return {
        "problems": [asdict(problem) for problem in report],
        "seconds": report.seconds,
        "n_support": report.n_support,
        "tol": report.tol,
    }


def _report(values: dict) -> FitReport:
    problems = []
    for problem in values["problems"]:
        history = tuple(Progress(**line) for line in problem["history"])
        problems.append(ProblemReport(**(problem | {"history": history})))
    return FitReport(
        problems, seconds=values["seconds"], n_support=values["n_support"], tol=values["tol"]
    )


def _pairs(class_weight):
    """JSON has no dictionary whose keys are numbers."""
    return list(class_weight.items()) if isinstance(class_weight, dict) else class_weight


def _from_pairs(class_weight):
    return dict(class_weight) if isinstance(class_weight, list) else class_weight


def _tagged(number: float) -> dict:
    """Infinity and NaN (C of a hard margin, a bound that is not known), which JSON lacks."""
    return {"float": repr(number)}


def _untagged(entry: dict):
    return float(entry["float"]) if entry.keys() == {"float"} else entry
