"""Models in LIBSVM's text format, for `svm-predict` and from `svm-train`."""

from __future__ import annotations

import io
import os

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.svc import SVC
from maxmargin.io.files import DataError, atomic_write, display_name, open_binary

# LIBSVM's names of the kernels, and which parameters each writes.
_KERNELS = {
    "linear": ("linear", ()),
    "poly": ("polynomial", ("degree", "gamma", "coef0")),
    "rbf": ("rbf", ("gamma",)),
    "sigmoid": ("sigmoid", ("gamma", "coef0")),
    "precomputed": ("precomputed", ()),
}
_LIBSVM_KERNELS = {theirs: ours for ours, (theirs, _) in _KERNELS.items()}
_REQUIRED = ("svm_type", "kernel_type", "nr_class", "total_sv", "rho", "label", "nr_sv")


def save_libsvm_model(model: SVC, path: str | os.PathLike) -> None:
    """Write a fitted SVC as a LIBSVM model, which `svm-predict` reads.

    All numbers are written such that they are read back to the last bit. The file
    appears whole or not at all.

    Parameters
    ----------
    model : fitted SVC
        Its classes must be whole numbers, its kernel one of LIBSVM's, and more than
        two classes trained as pairs (``multi_class="ovo"``).
    path : file name
    """
    check_is_fitted(model)
    labels = libsvm_labels(model)
    dual_coef = model._dual_coef_
    dual_coef = dual_coef.toarray() if sp.issparse(dual_coef) else dual_coef
    with atomic_write(path) as file:
        file.write(_header(model, labels).encode())
        for coefficients, vector in zip(dual_coef.T.tolist(), _vectors(model), strict=True):
            numbers = " ".join(map(repr, coefficients))
            file.write(f"{numbers} {vector} \n".encode())


def load_libsvm_model(path: str | os.PathLike, *, n_features: int | None = None) -> SVC:
    """Read a C-SVC model of LIBSVM as a fitted SVC.

    Parameters
    ----------
    path : file name
    n_features : int or None
        How many features the data has (with a precomputed kernel: how many training
        samples there were). The file does not say; None takes the highest that a
        support vector uses.

    Returns
    -------
    model : SVC
        It predicts what `svm-predict` does, ties included; `classes_` of more than two
        classes are therefore in the file's order. There is no `fit_report_`, and
        `support_` counts the support vectors where the file does not say which samples
        they were.
    """
    name = display_name(path)
    with open_binary(path) as file:
        header, lines = _parse_header(file, name)
    try:
        return _model(header, lines, name, n_features)
    except (KeyError, IndexError, OverflowError) as error:
        raise DataError(f"{name}: is not a LIBSVM model ({error!r}).") from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{name}: is not a LIBSVM model ({error}).") from error


def libsvm_labels(model: SVC) -> list[int]:
    """The classes of a model that LIBSVM can hold; else a sentence that says why not."""
    if callable(model.kernel):
        raise ValueError("A LIBSVM model cannot hold a kernel that is a Python function.")
    if len(model.classes_) > 2 and model.multi_class == "ovr":
        raise ValueError(
            "A LIBSVM model holds a decision for each pair of classes: fit with "
            "multi_class='ovo', not 'ovr'."
        )
    classes = model.classes_
    if classes.dtype.kind not in "iuf" or not np.array_equal(classes, classes.astype(np.int64)):
        raise ValueError(
            f"A LIBSVM model holds whole numbers as labels, not {classes.tolist()[0]!r}."
        )
    return [int(label) for label in classes]


def _header(model: SVC, labels: list[int]) -> str:
    kernel, parameters = _KERNELS[model.kernel]
    values = {
        "gamma": float(model._gamma),
        "coef0": float(model.coef0),
        "degree": int(model.degree),
    }
    lines = [
        "svm_type c_svc",
        f"kernel_type {kernel}",
        *(f"{parameter} {values[parameter]!r}" for parameter in parameters),
        f"nr_class {len(labels)}",
        f"total_sv {len(model.support_)}",
        "rho " + " ".join(map(repr, (-model._intercept_).tolist())),
        "label " + " ".join(map(str, labels)),
        "nr_sv " + " ".join(map(str, model._n_support.tolist())),
        "SV",
    ]
    return "\n".join(lines) + "\n"


def _vectors(model: SVC):
    """The support vectors as text."""
    if model.kernel == "precomputed":
        yield from (f"0:{sample + 1}" for sample in model.support_.tolist())
        return
    vectors = model.support_vectors_
    width = vectors.shape[1]
    for at in range(vectors.shape[0]):
        if sp.issparse(vectors):
            row = slice(vectors.indptr[at], vectors.indptr[at + 1])
            index, values = vectors.indices[row], vectors.data[row]
        else:
            index = np.flatnonzero(vectors[at])
            values = vectors[at, index]
        pairs = [f"{i + 1}:{v!r}" for i, v in zip(index.tolist(), values.tolist(), strict=True)]
        if at == 0 and not (len(index) and index[-1] == width - 1):
            # A zero that says how many features there are; LIBSVM reads over it.
            pairs.append(f"{width}:0")
        yield " ".join(pairs)


def _parse_header(file, name: str) -> tuple[dict[str, list[str]], list[bytes]]:
    header: dict[str, list[str]] = {}
    for line in file:
        key, *values = line.decode("latin-1").split() or [""]
        if key == "SV":
            break
        header[key] = values
        if len(header) > 20:  # no LIBSVM model has so many entries
            raise DataError(f"{name}: is not a LIBSVM model.")
    missing = [key for key in _REQUIRED if key not in header]
    if header.get("svm_type", ["c_svc"]) != ["c_svc"]:
        raise DataError(
            f"{name}: is a model of type {' '.join(header['svm_type'])}; only c_svc can be read."
        )
    if missing:
        raise DataError(f"{name}: is not a LIBSVM model; it does not say its {missing[0]}.")
    return header, file.readlines()


def _model(header, lines: list[bytes], name: str, n_features: int | None) -> SVC:
    kernel = header["kernel_type"][0]
    if kernel not in _LIBSVM_KERNELS:
        raise DataError(f"{name}: its kernel, {kernel!r}, is not known.")
    labels = np.array([int(label) for label in header["label"]])
    n_support = np.array([int(count) for count in header["nr_sv"]], dtype=np.int32)
    rho = np.array([float(value) for value in header["rho"]])
    n_classes = len(labels)
    if n_classes < 2 or len(n_support) != n_classes or len(rho) != n_classes * (n_classes - 1) / 2:
        raise DataError(f"{name}: its numbers of classes, nr_sv and rho do not fit together.")
    lines = [line for line in lines if line.strip()]
    if len(lines) != n_support.sum() or len(lines) != int(header["total_sv"][0]):
        raise DataError(
            f"{name}: it should have {n_support.sum()} support vectors, and has {len(lines)}; "
            "it may be cut short."
        )
    dual_coef, X = _support_vectors(lines, n_classes - 1, name)
    model = SVC(
        kernel=_LIBSVM_KERNELS[kernel],
        degree=int(header.get("degree", ["3"])[0]),
        gamma=float(header["gamma"][0]) if "gamma" in header else "scale",
        coef0=float(header.get("coef0", ["0"])[0]),
    )
    rows, labels, n_support, dual_coef, intercept = _ascending(labels, n_support, dual_coef, -rho)
    set_fitted(
        model, classes=labels, n_support=n_support, dual_coef=dual_coef, intercept=intercept,
        gamma=float(header.get("gamma", ["0"])[0]), **_samples(model, X[rows], name, n_features),
    )  # fmt: skip
    return model


def _samples(model: SVC, X: sp.csr_array, name: str, n_features: int | None) -> dict:
    """Which samples the support vectors are, and how many features they have."""
    if model.kernel == "precomputed":
        support = X[:, [0]].toarray()[:, 0].astype(np.int32) - 1
        if (support < 0).any():
            raise DataError(f"{name}: a support vector does not say which sample it is.")
        width = int(support.max()) + 1
    else:
        X = X[:, 1:]  # features are counted from 1
        support = np.arange(X.shape[0], dtype=np.int32)
        width = X.shape[1]
    if n_features is not None and n_features < width:
        raise DataError(f"{name}: its support vectors use {width} features, not {n_features}.")
    width = n_features or width
    if model.kernel == "precomputed":
        vectors, sparse, shape = np.empty((0, 0)), False, (width, width)
    else:
        X.resize((X.shape[0], width))
        vectors, sparse, shape = X, True, (X.shape[0], width)
    return {"support": support, "vectors": vectors, "sparse": sparse, "shape": shape}


def _support_vectors(lines: list[bytes], n_coefficients: int, name: str):
    """Coefficients of shape (n_classes − 1, n_support) and the vectors, column 0 included."""
    dual_coef = np.empty((n_coefficients, len(lines)))
    features = []
    for at, line in enumerate(lines):
        fields = line.split(maxsplit=n_coefficients)
        try:
            dual_coef[:, at] = [float(field) for field in fields[:n_coefficients]]
        except ValueError:
            raise DataError(f"{name}: support vector {at + 1} is broken.") from None
        features.append(b"0 " + (fields[n_coefficients] if len(fields) > n_coefficients else b""))
    text = b"\n".join(line.rstrip() for line in features)
    try:
        X, _ = load_svmlight_file(io.BytesIO(text), zero_based=True)
    except ValueError as error:
        raise DataError(f"{name}: its support vectors are broken ({error}).") from None
    X = sp.csr_array(X)
    X.eliminate_zeros()  # such as the one that only says how many features there are
    return dual_coef, X


def _ascending(labels: np.ndarray, n_support: np.ndarray, dual_coef, intercept):
    """A model of two classes with the lower label first: rows, and all parts in that order.

    The decision then changes its sign. With more classes the order stays, because a
    tie of votes goes to the class that comes first.
    """
    rows = np.arange(n_support.sum())
    if len(labels) > 2 or labels[0] < labels[1]:
        return rows, labels, n_support, dual_coef, intercept
    rows = np.roll(rows, n_support[1])
    return rows, labels[::-1].copy(), n_support[::-1].copy(), -dual_coef[:, rows], -intercept
