"""``maxmargin train``: a model from data, or its accuracy by cross-validation."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, note, print_json, report_values
from maxmargin.io.data import Dataset, read_data
from maxmargin.io.files import DataError, atomic_write, format_suffix


def train(
    data: options.Data,
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL",
            help="DATA.model if left out. A LIBSVM model; .npz keeps the report and any labels.",
        ),
    ] = None,
    C: options.Cost = 1.0,
    gamma: options.Gamma = "scale",
    kernel: options.Kernel = "rbf",
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    weight: options.Weights = None,
    tol: options.Tolerance = 1e-3,
    cache_size: options.CacheSize = "auto",
    shrinking: Annotated[
        int,
        typer.Option(
            "--shrinking",
            "-h",
            metavar="0|1",
            min=0,
            max=1,
            help="Whether solvers set samples aside that seem settled.",
        ),
    ] = 1,
    folds: Annotated[
        int | None,
        typer.Option(
            "--folds",
            "-v",
            metavar="N",
            min=2,
            help="Cross-validate with N folds instead; no model is written.",
        ),
    ] = None,
    solver: options.SolverName = "auto",
    multi_class: Annotated[
        str,
        typer.Option(
            "--multi-class",
            metavar="WAY",
            help="More than two classes: ovo trains each pair, ovr each against the rest.",
        ),
    ] = "ovo",
    max_iter: Annotated[
        int, typer.Option("--max-iter", metavar="N", help="Limit on iterations; -1 for none.")
    ] = -1,
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", metavar="SECONDS", help="Limit on the time of training."),
    ] = None,
    jobs: options.Jobs = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="For folds and random choices.")
    ] = 0,
    label: options.Label = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="HTML", help="Write a page about the fit.")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    svm_type: Annotated[int, typer.Option("--svm-type", "-s", hidden=True)] = 0,
    probability: Annotated[int, typer.Option("--probability", "-b", hidden=True)] = 0,
    epsilon: Annotated[float | None, typer.Option("--epsilon", "-p", hidden=True)] = None,
    nu: Annotated[float | None, typer.Option("--nu", "-n", hidden=True)] = None,
) -> None:
    """Train a model.

    Exit code 1 says that it is written but not optimal.
    """
    from maxmargin import SVC
    from maxmargin.io import save_model

    if svm_type != 0:
        raise DataError("-s: only 0, C-SVC, can be trained.")
    if probability != 0:
        raise DataError("-b: probabilities need Python: CalibratedClassifierCV(SVC()).")
    for option, value in (("-p", epsilon), ("-n", nu)):
        if value is not None and not quiet:
            note(f"{option} means nothing to C-SVC, as in svm-train.")
    kernel = options.kernel_name(kernel)
    estimator = SVC(
        C=C, kernel=kernel, degree=degree, coef0=coef0, tol=tol, shrinking=bool(shrinking),
        gamma=options.gamma_value(gamma),
        cache_size=options.number_or(cache_size, ("auto",), "--cache-size"),
        max_iter=max_iter, time_limit=time_limit, solver=solver, multi_class=multi_class,
        n_jobs=jobs, random_state=seed,
    )  # fmt: skip
    dataset = labelled(data, label, precomputed=kernel == "precomputed")
    classes = np.unique(dataset.labels)
    estimator.set_params(class_weight=options.class_weights(weight, classes))
    if folds is not None:
        _cross_validate(estimator, dataset, folds, seed, json, quiet)
        return
    path = model or _default_model(data, classes, estimator)
    check_model_file(path, classes, estimator)
    fit(estimator, dataset, len(classes), quiet or json)
    page = "" if report is None else _page(estimator, dataset)
    if dataset.feature_names is not None:
        estimator.feature_names_in_ = np.asarray(dataset.feature_names, dtype=object)
    save_model(estimator, path)
    if report is not None:
        with atomic_write(report) as file:
            file.write(page.encode())
    _announce(estimator, dataset, path, report, json, quiet)
    raise typer.Exit(estimator.fit_status_)


def labelled(data: str, label: str | None, *, precomputed: bool = False) -> Dataset:
    """Read data that must have labels."""
    if label is None and format_suffix(data) in (".csv", ".parquet"):
        raise DataError(f"{data}: --label must say which column to learn.")
    dataset = read_data(data, label=label, precomputed=precomputed)
    if len(np.unique(dataset.labels)) < 2:
        raise DataError(f"{dataset.name}: all samples have the label {dataset.labels[0]}.")
    return dataset


def fit(estimator, dataset: Dataset, n_classes: int, quiet: bool) -> None:
    """Fit with a progress bar; each warning is a sentence, a lack of convergence the exit code."""
    from sklearn.exceptions import ConvergenceWarning

    from maxmargin.cli._progress import watched

    pairs = n_classes == 2 or estimator.multi_class == "ovo"
    n_problems = n_classes * (n_classes - 1) // 2 if pairs else n_classes
    name = estimator.solver
    with warnings.catch_warnings(record=True) as caught, watched(estimator, n_problems, quiet):
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            estimator.fit(dataset.X, dataset.labels)
        finally:
            estimator.set_params(solver=name)
    for sentence in dict.fromkeys(str(one.message) for one in caught):
        note(sentence)


def _page(estimator, dataset: Dataset) -> str:
    from maxmargin.html_report import html_report

    return html_report(estimator, dataset.X, dataset.labels, title=dataset.name)


def _default_model(data: str, classes: np.ndarray, estimator) -> str:
    """svm-train's name for it, in the present folder; .npz where LIBSVM could not hold it."""
    from maxmargin.io.model_file import check_can_save

    name = "model" if data == "-" else f"{Path(data).name}.model"
    try:
        check_can_save(estimator, classes, name)
    except ValueError:
        return f"{name}.npz"
    return name if classes.dtype.kind in "iu" else f"{name}.npz"


def check_folder(path: str) -> None:
    """Say before the work, not after it, that there is nowhere to write to."""
    if not Path(path).absolute().parent.is_dir():
        raise DataError(f"{path}: there is no such folder to write to.")


def check_model_file(path: str, classes: np.ndarray, estimator) -> None:
    """Say before the training, not after it, that the model could not be written."""
    from maxmargin.io.model_file import check_can_save

    check_folder(path)
    try:
        check_can_save(estimator, classes, path)
    except ValueError as error:
        hint = "" if format_suffix(path) == ".npz" else " Or give the model a name in .npz."
        raise DataError(f"{path}: {error}{hint}") from error


def _cross_validate(
    estimator, dataset: Dataset, folds: int, seed: int, json: bool, quiet: bool
) -> None:
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import StratifiedKFold
    from sklearn.utils.metaestimators import _safe_split

    from maxmargin.cli._progress import counted

    y = dataset.labels
    fewest = np.unique(y, return_counts=True)[1].min()
    if fewest < folds:
        raise DataError(f"{dataset.name}: --folds {folds}, but a class has {fewest} samples.")
    splits = StratifiedKFold(folds, shuffle=True, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        right = 0
        for fit_on, test_on in counted(splits.split(dataset.X, y), folds, "folds", json or quiet):
            model = clone(estimator).fit(*_safe_split(estimator, dataset.X, y, fit_on))
            X_test, y_test = _safe_split(estimator, dataset.X, y, test_on, fit_on)
            right += int(np.sum(model.predict(X_test) == y_test))
    accuracy = right / len(y)
    converged = not any(issubclass(one.category, ConvergenceWarning) for one in caught)
    if json:
        print_json({"folds": folds, "accuracy": accuracy, "converged": converged})
    else:
        emit(f"Cross Validation Accuracy = {100 * accuracy:g}%")  # as svm-train says it
        if not converged:
            emit("not all folds converged")
    raise typer.Exit(int(not converged))


def _announce(estimator, dataset, path, report, json: bool, quiet: bool) -> None:
    if json:
        print_json(
            {
                "model": path,
                "html_report": report,
                "n_samples": dataset.X.shape[0],
                "n_features": dataset.X.shape[1],
                "classes": estimator.classes_,
                "n_support_by_class": estimator.n_support_,
                **report_values(estimator.fit_report_),
            }
        )
    elif not quiet:
        emit(str(estimator.fit_report_))
        emit(f"model: {path}" + (f", report: {report}" if report else ""))
