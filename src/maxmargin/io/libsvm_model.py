"""Models in LIBSVM's text format, for `svm-predict` and from `svm-train`."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.one_class import OneClassSVM
from maxmargin.io import libsvm_data
from maxmargin.io.files import DataError, atomic_write, display_name, errors_of, open_binary
from maxmargin.io.model_schema import MODELS, fitted_model, has_classes, kind_of
from maxmargin.io.schema import shown
from maxmargin.io.wrapped import bare_model
from maxmargin.sparse_format import densified

# LIBSVM's names of the kernels, and which parameters each writes.
_KERNELS = {
    "linear": ("linear", ()),
    "poly": ("polynomial", ("degree", "gamma", "coef0")),
    "rbf": ("rbf", ("gamma",)),
    "sigmoid": ("sigmoid", ("gamma", "coef0")),
    "precomputed": ("precomputed", ()),
}
_LIBSVM_KERNELS = {theirs: ours for ours, (theirs, _) in _KERNELS.items()}
# LIBSVM's names of the models are those of our formulations.
SVM_TYPES = {kind._formulation: kind for kind in MODELS.values()}
# Keys that the header of any model must have, further keys of a classifier, and all keys.
_REQUIRED = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho")
_OF_CLASSES = ("label", "nr_sv")
_ALLOWED = (
    *_REQUIRED, *_OF_CLASSES, "degree", "gamma", "coef0", "probA", "probB", "prob_density_marks",
)  # fmt: skip
_NO_CLASSES = 2  # LIBSVM's nr_class of a model without classes
_MAX_LABEL = 2**31 - 1  # LIBSVM reads labels as C's int


def save_libsvm_model(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted model as a LIBSVM model, which `svm-predict` reads.

    All numbers are read back to the last bit. The file appears whole or not at all.

    Parameters
    ----------
    model : fitted SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Its kernel must be one of LIBSVM's, classes must be whole numbers, and more than
        two of them trained as pairs (``multi_class="ovo"``).
    path : file name
    """
    model = bare_model(model)
    kind_of(model)
    labels = libsvm_labels(model, getattr(model, "classes_", None))
    by_vector = densified(model._dual_coef_).T.tolist()
    with atomic_write(path) as file:
        file.write(_header(model, labels).encode())
        for coefficients, vector in zip(by_vector, _vectors(model), strict=True):
            numbers = " ".join(map(repr, coefficients))
            file.write(f"{numbers} {vector} \n".encode())


def load_libsvm_model(path: str | os.PathLike, *, n_features: int | None = None) -> Any:
    """Read a model of LIBSVM.

    Parameters
    ----------
    path : file name
    n_features : int or None
        How many features the data has (with a precomputed kernel: how many training
        samples there were). The file does not say; None takes the highest that a
        support vector uses.

    Returns
    -------
    model : SVC, NuSVC, SVR, NuSVR or OneClassSVM, as the file's `svm_type` says
        It predicts what `svm-predict` does, ties included; `classes_` of more than two
        classes are therefore in the file's order. There is no `fit_report_`, and
        `support_` counts the support vectors where the file does not say which samples
        they were. C, nu and epsilon are not in the file. Where it has probabilities,
        a classifier has `predict_proba`; those of a one-class model are ignored.

    Raises
    ------
    DataError
        One sentence that names the file and what is wrong with it.
    """
    name = display_name(path)
    with open_binary(path) as file:
        header, first_line = _read_header(file, name)
        lines = file.readlines()
    kind = SVM_TYPES[header["svm_type"][0]]
    with errors_of(name):
        parts, parameters = _parts(header, kind)
        n_coefficients = len(parts["classes"]) - 1 if has_classes(kind) else 1
        coefficients, X = _support_vectors(lines, n_coefficients, first_line)
        if X.shape[0] != parts["n_support"].sum():
            raise ValueError(
                f"it should have {parts['n_support'].sum()} support vectors, and has "
                f"{X.shape[0]}; it may be cut short."
            )
        parts |= {"dual_coef": coefficients} | _samples(X, parameters["kernel"], n_features)
        if has_classes(kind):
            parts = _ascending(parts)
    return fitted_model(kind, parts, parameters, name)


def libsvm_labels(model: Any, classes: np.ndarray | None) -> list[int]:
    """The classes as whole numbers; an error if a LIBSVM model cannot hold them or the kernel."""
    if callable(model.kernel):
        raise ValueError("A LIBSVM model cannot hold a kernel that is a Python function.")
    if classes is None:
        return []
    if len(classes) > 2 and model.multi_class == "ovr":
        raise ValueError(
            "A LIBSVM model holds a decision for each pair of classes: fit with "
            "multi_class='ovo', not 'ovr'."
        )
    labels = classes.tolist()
    for label in labels:
        whole = isinstance(label, int | float) and not isinstance(label, bool) and label % 1 == 0
        if not whole:
            raise ValueError(f"A LIBSVM model holds whole numbers as labels, not {shown(label)}.")
        if abs(label) > _MAX_LABEL:
            raise ValueError(f"A LIBSVM model holds labels up to {_MAX_LABEL}, not {shown(label)}.")
    return [int(label) for label in labels]


def _header(model: Any, labels: list[int]) -> str:
    kernel, parameters = _KERNELS[model.kernel]
    values = {
        "gamma": float(model._gamma),
        "coef0": float(model.coef0),
        "degree": int(model.degree),
    }
    lines = [
        f"svm_type {model._formulation}",
        f"kernel_type {kernel}",
        *(f"{parameter} {values[parameter]!r}" for parameter in parameters),
        f"nr_class {len(labels) or _NO_CLASSES}",
        f"total_sv {len(model.support_)}",
        "rho " + " ".join(map(repr, (-model._intercept_).tolist())),
    ]
    if labels:
        lines.append("label " + " ".join(map(str, labels)))
    lines += [
        f"{name} " + " ".join(map(repr, numbers.tolist()))
        for name, numbers in _probabilities(model).items()
    ]
    if labels:
        lines.append("nr_sv " + " ".join(map(str, model._n_support.tolist())))
    return "\n".join([*lines, "SV"]) + "\n"


def _probabilities(model: Any) -> dict[str, np.ndarray]:
    """The numbers that svm-train's -b 1 adds: sigmoids of pairs, or the noise of a regression."""
    if hasattr(model, "_pair_sigmoids"):
        sigmoids = model._pair_sigmoids
        return {"probA": sigmoids.slopes, "probB": sigmoids.offsets}
    return {"probA": np.array([model._noise])} if hasattr(model, "_noise") else {}


def _vectors(model: Any):
    """The support vectors as text."""
    if model.kernel == "precomputed":
        yield from (f"0:{sample + 1}" for sample in model.support_.tolist())
        return
    width = model.support_vectors_.shape[1]
    for at, pairs in enumerate(libsvm_data.rows_as_text(model.support_vectors_)):
        if at == 0 and not f" {pairs}".rpartition(" ")[2].startswith(f"{width}:"):
            # A zero that records the number of features; LIBSVM ignores it.
            pairs = f"{pairs} {width}:0".lstrip()
        yield pairs


def _read_header(file, name: str) -> tuple[dict[str, list[str]], int]:
    """The header's values by key, and the number of the line of the first support vector."""
    header: dict[str, list[str]] = {}
    for number, line in enumerate(file, start=1):
        key, *values = line.decode("latin-1").split() or [""]
        if key == "SV":
            break
        if key not in _ALLOWED or key in header:
            what = "is there twice" if key in header else "is not known"
            raise DataError(f"{name}: is not a LIBSVM model; line {number}: {shown(key)} {what}.")
        header[key] = values
    else:
        number = len(header)
    required: tuple[str, ...] = _REQUIRED
    if "svm_type" in header:
        required += _of_type(" ".join(header["svm_type"]), header, name)
    kernel = _LIBSVM_KERNELS.get(" ".join(header.get("kernel_type", [])))
    if kernel is not None:
        required += _KERNELS[kernel][1]
    missing = [key for key in required if key not in header]
    if missing:
        raise DataError(f"{name}: is not a LIBSVM model; it does not say its {missing[0]}.")
    return header, number + 1


def _of_type(svm_type: str, header: dict[str, list[str]], name: str) -> tuple[str, ...]:
    """The keys that the header needs because of the type of the model."""
    if svm_type not in SVM_TYPES:
        known = ", ".join(SVM_TYPES)
        raise DataError(f"{name}: is a model of type {shown(svm_type)}, not of {known}.")
    if has_classes(SVM_TYPES[svm_type]):
        return _OF_CLASSES
    found = [key for key in _OF_CLASSES if key in header]
    if found:
        raise DataError(f"{name}: a model of type {svm_type} has no classes, and so no {found[0]}.")
    return ()


def _parts(header: dict[str, list[str]], kind: type) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts and the parameters of the model that the header gives."""
    kernel = " ".join(header["kernel_type"])
    if kernel not in _LIBSVM_KERNELS:
        raise ValueError(f"its kernel, {shown(kernel)}, is not known.")
    parameters: dict[str, Any] = {"kernel": _LIBSVM_KERNELS[kernel]}
    for key, type_ in (("degree", int), ("gamma", float), ("coef0", float)):
        if key in header:
            parameters[key] = _numbers(header, key, type_, 1)[0]
    parts = {
        "intercept": -np.array(_numbers(header, "rho", float)),
        "gamma": parameters.get("gamma", 0.0),
    }
    n_classes = _numbers(header, "nr_class", int, 1)[0]
    total = _numbers(header, "total_sv", int, 1)[0]
    if has_classes(kind):
        return parts | _class_parts(header, n_classes, total), parameters
    if n_classes != _NO_CLASSES:
        raise ValueError(f"nr_class must be {_NO_CLASSES} where there are none, not {n_classes}.")
    parts["n_support"] = np.array([total])
    if "probA" in header and kind is not OneClassSVM:
        parts["noise"] = np.array(_numbers(header, "probA", float))
    return parts, parameters


def _class_parts(header: dict[str, list[str]], n_classes: int, total: int) -> dict[str, Any]:
    labels = np.array(_numbers(header, "label", int))
    n_support = np.array(_numbers(header, "nr_sv", int))
    if not n_classes == len(labels) == len(n_support):
        raise ValueError(
            f"nr_class is {n_classes}, but there are {len(labels)} labels and {len(n_support)} "
            "numbers of support vectors (nr_sv)."
        )
    if n_classes < 2:
        raise ValueError(f"a model must have at least 2 classes, not {n_classes}.")
    if total != n_support.sum() or (n_support < 0).any():
        raise ValueError(f"total_sv is {total}, but nr_sv is {shown(' '.join(header['nr_sv']))}.")
    probabilities = {
        key: np.array(_numbers(header, key, float)) for key in ("probA", "probB") if key in header
    }
    return {"classes": labels, "n_support": n_support} | probabilities


def _numbers(header: dict[str, list[str]], key: str, kind: type, count: int | None = None) -> list:
    """The numbers of one line of the header, `count` of them where it is given."""
    texts = header[key]
    if count is not None and len(texts) != count:
        raise ValueError(f"{key} must be {count} number, not {shown(' '.join(texts))}.")
    numbers = []
    for text in texts:
        try:
            numbers.append(kind(text))
        except ValueError:
            what = "whole numbers" if kind is int else "numbers"
            raise ValueError(f"{key} must be {what}, not {shown(text)}.") from None
        if abs(numbers[-1]) > _MAX_LABEL and kind is int:
            raise ValueError(f"{key} must be at most {_MAX_LABEL}, not {shown(text)}.")
    return numbers


def _samples(X: sp.csr_array, kernel: str, n_features: int | None) -> dict[str, Any]:
    """Which samples the support vectors are, and how many features they have."""
    n_vectors = X.shape[0]
    if kernel == "precomputed":
        if not np.array_equal(X.indptr, np.arange(n_vectors + 1)) or X.indices.any():
            raise ValueError("each support vector must be one pair, 0:number of the sample.")
        if (X.data % 1 != 0).any() or (X.data < 1).any() or (X.data > _MAX_LABEL).any():
            raise ValueError("a support vector does not say which sample it is.")
        support = X.data.astype(np.int64) - 1
        width = int(support.max(initial=0)) + 1
    else:
        if len(X.indices) and X.indices.min() < 1:
            raise ValueError("features are counted from 1, and a support vector has feature 0.")
        width = max(1, X.shape[1] - 1)
    if n_features is not None and n_features < width:
        raise ValueError(f"its support vectors use {width} features, not {n_features}.")
    width = n_features or width
    if kernel == "precomputed":
        shape = np.array([width, width])
        return {"support": support, "vectors": np.empty((0, 0)), "shape_fit": shape}
    X = sp.csr_array((X.data, X.indices - 1, X.indptr), shape=(n_vectors, width))
    X.eliminate_zeros()  # such as the one that only says how many features there are
    shape = np.array([max(1, n_vectors), width])
    return {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape_fit": shape}


def _support_vectors(lines: list[bytes], n_coefficients: int, first_line: int):
    """Coefficients of shape (n_classes − 1, n_support), and the vectors as they are written."""
    coefficients, features, numbers = [], [], []
    for number, line in enumerate(lines, start=first_line):
        fields = line.split(maxsplit=n_coefficients)
        if not fields:
            continue
        try:
            coefficients.append([float(field) for field in fields[:n_coefficients]])
        except ValueError:
            raise ValueError(f"line {number}: a coefficient is not a number.") from None
        if len(coefficients[-1]) < n_coefficients:
            raise ValueError(f"line {number}: there should be {n_coefficients} coefficients.")
        # As a line of data, whose label is 0.
        features.append(b"0 " + (fields[n_coefficients] if len(fields) > n_coefficients else b""))
        numbers.append(number)
    return (
        np.array(coefficients, dtype=np.float64).reshape(len(features), n_coefficients).T,
        _vectors_of(features, numbers),
    )


def _vectors_of(features: list[bytes], numbers: list[int]) -> sp.csr_array:
    text = b"\n".join(line.rstrip() for line in features)
    if not text:
        return sp.csr_array((0, 2))
    # Data may have remarks and query numbers, support vectors may not.
    problem = b"#" in text or b"qid" in text
    try:
        X, _ = libsvm_data.parse(io.BytesIO(text), zero_based=True)
        problem = problem or not np.isfinite(X.data).all()
    except (ValueError, OverflowError):
        problem = True
    if problem:
        for number, line in zip(numbers, features, strict=True):
            sentence = libsvm_data.problem_of(line.split(), 0, queries=False)
            if sentence:
                raise ValueError(f"line {number}: {sentence}")
        raise ValueError("its support vectors are broken.")
    return X


def _ascending(parts: dict[str, Any]) -> dict[str, Any]:
    """A model of two classes with the lower label first; the decision then changes its sign.

    With more classes the order stays, because a tie of votes goes to the class that
    comes first.
    """
    if len(parts["classes"]) != 2 or parts["classes"][0] < parts["classes"][1]:
        return parts
    rows = np.roll(np.arange(parts["n_support"].sum()), parts["n_support"][1])
    turned = {key: parts[key][::-1].copy() for key in ("classes", "n_support")}
    turned |= {"dual_coef": -parts["dual_coef"][:, rows], "intercept": -parts["intercept"]}
    if "probB" in parts:
        turned["probB"] = -parts["probB"]
    if "support" in parts:
        return parts | turned | {"support": parts["support"][rows]}
    entries = (parts["data"], parts["indices"], parts["indptr"])
    X = sp.csr_array(entries, shape=(len(rows), parts["shape_fit"][1]))[rows]
    return parts | turned | {"data": X.data, "indices": X.indices, "indptr": X.indptr}
