"""``maxmargin train``: a model from data, or its cross-validation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import maxmargin
from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._cross_validation import cross_validate
from maxmargin.cli._inputs import check_model_file, classes_of, dataset_for
from maxmargin.cli._output import emit, note, print_json, report_values
from maxmargin.cli._probability import add_probability, check_probability
from maxmargin.io.data import Dataset
from maxmargin.io.files import DataError, write_text


def train(
    data: options.Data,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="DATA.model if left out. A LIBSVM model; .npz keeps the report and any labels.",
        ),
    ] = None,
    svm_type: options.SvmType = "c_svc",
    C: options.Cost = None,
    nu: options.Nu = None,
    epsilon: options.Epsilon = None,
    gamma: options.Gamma = "scale",
    kernel: options.Kernel = "rbf",
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    weight: options.Weights = None,
    tol: options.Tolerance = 1e-3,
    cache_size: options.CacheSize = "auto",
    shrinking: options.Shrinking = 1,
    folds: options.Folds = None,
    solver: options.SolverName = "auto",
    multi_class: options.MultiClass = None,
    max_iter: options.MaxIter = -1,
    time_limit: options.TimeLimit = None,
    jobs: options.Jobs = None,
    seed: options.Seed = 0,
    label: options.Label = None,
    report: options.Report = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    probability: options.Probability = 0,
) -> None:
    """Train a model: classes, regression or outliers, by --svm-type.

    Exit code 1 says that it is written but not optimal.
    """
    kernel = options.kernel_name(kernel)
    estimator = _estimator(
        options.svm_type_name(svm_type), quiet, C=C, nu=nu, epsilon=epsilon, weight=weight,
        multi_class=multi_class,
    )  # fmt: skip
    estimator.set_params(
        kernel=kernel, degree=degree, coef0=coef0, tol=tol, shrinking=bool(shrinking),
        gamma=options.gamma_value(gamma),
        cache_size=options.number_or(cache_size, ("auto",), "--cache-size"),
        max_iter=max_iter, time_limit=time_limit, solver=solver, n_jobs=jobs, random_state=seed,
    )  # fmt: skip
    dataset = dataset_for(estimator, data, label)
    classes = classes_of(estimator, dataset)
    if weight:
        estimator.set_params(class_weight=options.class_weights(weight, classes))
    if probability:
        check_probability(estimator, folds)
    if folds is not None:
        cross_validate(estimator, dataset, folds, seed, json, quiet)
        return
    path = model or _default_model(data, classes, estimator)
    check_model_file(path, classes, estimator)
    fit(estimator, dataset, classes, quiet or json)
    if probability:
        add_probability(estimator, dataset, seed)
    _write(estimator, dataset, path, report)
    _announce(estimator, dataset, path, report, json, quiet)
    raise typer.Exit(estimator.fit_status_)


def _estimator(svm_type: str, quiet: bool, **given: Any) -> Any:
    """The estimator of a type, with the options that only some types have.

    Options of svm-train that mean nothing to the type are ignored with a remark, as svm-train
    does; options that svm-train does not have are refused.
    """
    estimator = deferred.SVM_TYPES[svm_type]()
    known = estimator.get_params()
    given = {name: value for name, value in given.items() if value is not None}
    for name, letter in (("C", "-c"), ("nu", "-n"), ("epsilon", "-p")):
        if name in given and name not in known:
            del given[name]
            if not quiet:
                note(f"{letter} means nothing to {svm_type}, as in svm-train.")
    weight = given.pop("weight", None)
    for name, value in (("weight", weight), ("multi-class", given.get("multi_class"))):
        if value and "class_weight" not in known:
            raise DataError(f"--{name} is about classes, and {svm_type} has none.")
    return estimator.set_params(**given)


def fit(estimator, dataset: Dataset, classes: np.ndarray | None, quiet: bool) -> None:
    """Fit with a progress bar. Warnings become remarks; the exit code tells of convergence."""
    from sklearn.exceptions import ConvergenceWarning

    name, n_problems = estimator.solver, _n_problems(estimator, classes)
    with (
        warnings.catch_warnings(record=True) as caught,
        deferred.watched(estimator, n_problems, quiet),
    ):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            estimator.fit(dataset.X, dataset.y)
        finally:
            estimator.set_params(solver=name)
    for sentence in dict.fromkeys(str(one.message) for one in caught):
        note(sentence)


def _n_problems(estimator, classes: np.ndarray | None) -> int:
    if classes is None or len(classes) == 2:
        return 1
    n_classes = len(classes)
    return n_classes * (n_classes - 1) // 2 if estimator.multi_class == "ovo" else n_classes


def _default_model(data: str, classes: np.ndarray | None, estimator) -> str:
    """The name that svm-train gives the model; .npz where LIBSVM's format cannot hold it."""
    name = "model" if data == "-" else f"{Path(data).name}.model"
    try:
        deferred.check_can_save(estimator, classes, name)
    except ValueError:
        return f"{name}.npz"
    return name if classes is None or classes.dtype.kind in "iu" else f"{name}.npz"


def _write(estimator, dataset: Dataset, path: str, report: str | None) -> None:
    """Write the model, and a page about it if one is requested."""
    page = ""
    if report is not None:  # while the estimator has no names of columns: arrays have none
        page = deferred.html_report(estimator, dataset.X, dataset.y, title=dataset.name)
    if dataset.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(dataset.feature_names, dtype=object)
    maxmargin.io.save_model(estimator, path)
    if report is not None:
        write_text(report, page)


def _announce(estimator, dataset, path, report, json: bool, quiet: bool) -> None:
    if json:
        print_json(
            {
                "model": path,
                "html_report": report,
                "n_samples": dataset.X.shape[0],
                "n_features": dataset.X.shape[1],
                **_classes_found(estimator),
                **report_values(estimator.fit_report_),
            }
        )
    elif not quiet:
        emit(str(estimator.fit_report_))
        emit(f"model: {path}" + (f", report: {report}" if report else ""))


def _classes_found(estimator) -> dict[str, Any]:
    if not hasattr(estimator, "classes_"):
        return {}
    return {"classes": estimator.classes_, "n_support_by_class": estimator.n_support_}
