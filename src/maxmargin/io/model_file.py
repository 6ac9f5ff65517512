"""Model files: LIBSVM text, or our own ``.npz``, which keeps all results of a fit.

The ``.npz`` holds arrays and one JSON text. Reading it runs no code of the file's
author, which reading a pickle does.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from numbers import Integral
from typing import Any

import numpy as np

from maxmargin.estimators.prediction import KernelModel
from maxmargin.io.files import DataError, atomic_write, display_name, errors_of, format_suffix
from maxmargin.io.libsvm_model import libsvm_labels, load_libsvm_model, save_libsvm_model
from maxmargin.io.model_schema import MODELS, check_names, fitted_model, has_classes, kind_of
from maxmargin.io.npz import read_npz
from maxmargin.io.schema import (
    Anything,
    Items,
    Nothing,
    Number,
    OneOf,
    Record,
    Text,
    Truth,
    record_of,
    shown,
)
from maxmargin.io.solver_options import solver_from_parts, solver_parts
from maxmargin.io.wrapped import bare_model
from maxmargin.monitor import Progress
from maxmargin.report import FitReport, ProblemReport, plain
from maxmargin.solution import Status
from maxmargin.sparse_format import densified

_VERSION = 1  # of the format; files of a later one are refused

_LABEL = OneOf((Text(), Number(), Truth()))
_PROBLEM = record_of(
    ProblemReport,
    {
        "status": Text(tuple(Status)),
        "history": Items(record_of(Progress, {})),
        "details": Record({}, extra=Anything()),
        "quantities": Record({}, extra=Number(finite=False)),
    },
)
_REPORT = OneOf(
    (
        Record(
            {
                "problems": Items(_PROBLEM, "n_problems"),
                "seconds": Number(at_least=0),
                "n_support": Number(whole=True, at_least=0),
                "tol": Number(),
            }
        ),
        Nothing(),
    )
)
_DESCRIPTION = Record(
    {
        "format": Text(),
        "parameters": Record({}, extra=Anything()),  # the model checks them itself
        "gamma": Number(at_least=0),
        "shape_fit": Items(Number(whole=True, at_least=1), 2),
        "report": Anything(),  # checked after the arrays, which say how many problems there are
    },
    # Labels that were Python objects come back as such.
    {"labels": Text(("object",))},
)
_CLASS_WEIGHT = OneOf((Items(Items(_LABEL, 2)), Text(("balanced",)), Nothing()))


def save_model(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted model: ``.npz`` for all of it, any other name for a LIBSVM model.

    Of a search its best model is written. A pipeline with a scaler, or a calibrated model, is
    refused: a file holds the SVM alone, and ``joblib.dump`` the whole.

    What a file cannot hold is refused in a sentence before the file is opened: kernels
    that are Python functions, probabilities, solvers that are not maxmargin's own. A
    `random_state` that is a generator, not a number, is the one thing that comes back
    as None.
    """
    if format_suffix(path) != ".npz":
        save_libsvm_model(model, path)
        return
    model = bare_model(model)
    arrays = _arrays(model)
    # A model that could not be read again is not written in the first place.
    _model(arrays, display_name(path))
    with atomic_write(path) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_model(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """Read what `save_model` wrote, or a model of `svm-train`.

    Parameters
    ----------
    path : file name
    n_features : see `load_libsvm_model`; an ``.npz`` model knows the number itself

    Returns
    -------
    model : SVC, NuSVC, SVR, NuSVR or OneClassSVM, whichever is in the file

    Raises
    ------
    DataError
        One sentence that names the file and what is wrong with it.
    """
    if format_suffix(path) != ".npz":
        return load_libsvm_model(path, n_features=n_features)
    return _model(read_npz(path), display_name(path))


def check_can_save(model: Any, classes: np.ndarray | None, path: str | os.PathLike) -> None:
    """Raise a ValueError of one sentence if a model with these classes could not be saved.

    It need not be fitted, so that this can be known before the training. None stands for
    the classes of a model that has none.
    """
    if format_suffix(path) == ".npz":
        _check_kernel(model)
        solver_parts(model.solver)
        if classes is not None:
            _stored_labels(classes)
    else:
        libsvm_labels(model, classes)


def _arrays(model: Any) -> dict[str, np.ndarray]:
    _check_kernel(model)
    kind = kind_of(model)
    parameters = model.get_params(deep=False)
    parameters["solver"] = solver_parts(model.solver)
    seed = model.random_state
    parameters["random_state"] = int(seed) if isinstance(seed, Integral) else None
    description: dict[str, Any] = {
        "format": f"maxmargin {kind.__name__} {_VERSION}",
        "parameters": parameters,
        "gamma": float(model._gamma),
        "shape_fit": [int(size) for size in model.shape_fit_],
        "report": _report_parts(model.fit_report_) if hasattr(model, "fit_report_") else None,
    }
    arrays = {
        "n_support": model._n_support,
        "support": model.support_,
        "dual_coef": densified(model._dual_coef_),
        "intercept": model._intercept_,
    }
    if has_classes(kind):
        parameters["class_weight"] = _pairs(model.class_weight)
        if model.classes_.dtype == object:
            description["labels"] = "object"
        arrays["classes"] = _stored_labels(model.classes_)
        arrays["class_weight"] = model.class_weight_
    arrays["description"] = np.array(json.dumps(plain(description, _tagged), allow_nan=False))
    if hasattr(model, "n_iter_"):
        arrays["n_iter"] = np.atleast_1d(model.n_iter_)
    if hasattr(model, "feature_names_in_"):
        arrays["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    if hasattr(model, "_pair_sigmoids"):
        arrays["probA"] = model._pair_sigmoids.slopes
        arrays["probB"] = model._pair_sigmoids.offsets
    if hasattr(model, "_noise"):
        arrays["noise"] = np.array([model._noise])
    vectors = model.support_vectors_
    if not model._sparse:
        return arrays | {"vectors": vectors}
    return arrays | {"data": vectors.data, "indices": vectors.indices, "indptr": vectors.indptr}


def _check_kernel(model: Any) -> None:
    if callable(model.kernel):
        raise ValueError("A model file cannot hold a kernel that is a Python function.")
    if hasattr(model, "_calibrated"):
        raise ValueError(
            "A model file cannot hold the probabilities of probability=True; fit without it, or "
            "train with maxmargin train -b 1."
        )


def _stored_labels(classes: np.ndarray) -> np.ndarray:
    """Labels as an array of numbers or text, which a file can hold."""
    if classes.dtype.kind in "biufU":
        return classes
    try:
        # NumPy's text drops zero characters at its end, and turns other objects into text.
        stored = classes.astype(str) if classes.dtype == object else None
    except (TypeError, ValueError):
        stored = None
    if stored is None or not np.array_equal(stored.astype(object), classes):
        raise ValueError(f"A model file holds numbers or text as labels, not {classes[0]!r}.")
    return stored


def _model(arrays: dict[str, np.ndarray], name: str) -> Any:
    kind, description = _description(arrays, name)
    parameters = description["parameters"]
    with errors_of(name):
        check_names(kind, parameters)
        if "class_weight" in parameters:
            _CLASS_WEIGHT.check(parameters["class_weight"], "class_weight", {})
            parameters["class_weight"] = _from_pairs(parameters["class_weight"])
        parameters["solver"] = solver_from_parts(parameters.get("solver", "auto"))
    parts: dict[str, Any] = {key: value for key, value in arrays.items() if key != "description"}
    parts["gamma"] = description["gamma"]
    parts["shape_fit"] = np.array(description["shape_fit"], dtype=np.int64)
    labels = arrays.get("classes", np.empty(0))
    if description.get("labels") == "object" and labels.dtype.kind != "U":
        raise DataError(f"{name}: classes must hold text.")
    model = fitted_model(kind, parts, parameters, name)
    if description.get("labels") == "object":
        model.classes_ = model.classes_.astype(object)
    with errors_of(name):
        _REPORT.check(description["report"], "report", {"n_problems": len(model.intercept_)})
    if description["report"] is not None:
        model.fit_report_ = _report(description["report"])
    return model


def _description(arrays: dict[str, np.ndarray], name: str) -> tuple[type[KernelModel], dict]:
    """Which kind of model it is, and its JSON text, checked."""
    text = arrays.get("description")
    if text is None or text.dtype.kind != "U" or text.ndim:
        raise DataError(f"{name}: is not a model of maxmargin.")
    try:
        description = json.loads(str(text), object_hook=_untagged)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name}: its description is not valid JSON.") from error
    form = description.get("format") if isinstance(description, dict) else None
    match = re.fullmatch(r"maxmargin (\w+) (\d{1,9})", form) if isinstance(form, str) else None
    if match is None:
        raise DataError(f"{name}: is not a model of maxmargin.")
    if match[1] not in MODELS or int(match[2]) > _VERSION:
        raise DataError(
            f"{name}: is a model of a later version of maxmargin ({shown(form)}); this one reads "
            f"{', '.join(MODELS)} of version {_VERSION}."
        )
    with errors_of(name):
        _DESCRIPTION.check(description, "", {})
    return MODELS[match[1]], description


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
        history = tuple(Progress(**line) for line in problem.get("history", ()))
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
    if entry.keys() == {"float"} and entry["float"] in ("inf", "-inf", "nan"):
        return float(entry["float"])
    return entry
