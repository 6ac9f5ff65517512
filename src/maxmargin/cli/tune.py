"""``maxmargin tune``: C, γ and ε by cross-validation."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

import maxmargin
from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._cross_validation import folds_of
from maxmargin.cli._grid import Axis, cost_axis, epsilon_axis, gamma_axis, grid_of
from maxmargin.cli._inputs import check_folder, check_model_file, classes_of, dataset_for
from maxmargin.cli._output import emit, print_json
from maxmargin.io.files import DataError, atomic_write

# The default score of each type that can be tuned.
_SCORES = {"c_svc": "accuracy", "epsilon_svr": "r2"}


def _powers(option: str, help: str) -> Any:
    return typer.Option(option, metavar="BEGIN,END,STEP", help=help)


_SvmType = Annotated[
    str,
    typer.Option(
        "--svm-type", "-s", metavar="TYPE", help="c_svc or epsilon_svr, or LIBSVM's 0 or 3."
    ),
]
_Log2C = Annotated[
    str, _powers("--log2c", "Exponents of C, or null: do not vary C. grid.py's -log2c works too.")
]
_Log2Gamma = Annotated[
    str | None,
    _powers(
        "--log2g", "Exponents of gamma, or null; -8,1,1 by default where the kernel has a gamma."
    ),
]
_Log2Epsilon = Annotated[
    str | None,
    _powers("--log2p", "Exponents of epsilon, or null; -7,-1,2 by default with epsilon_svr."),
]
_Folds = Annotated[
    int, typer.Option("--folds", "-v", metavar="N", min=2, help="Folds of cross-validation.")
]
_Scoring = Annotated[
    str | None,
    typer.Option(
        "--scoring", metavar="NAME",
        help="One of scikit-learn's names: f1, roc_auc, …; accuracy, or of regression r2, by "
        "default.",
    ),
]  # fmt: skip
_Cost = Annotated[float | None, typer.Option("--C", "-c", metavar="C", help="C with --log2c null.")]
_Gamma = Annotated[
    str | None, typer.Option("--gamma", "-g", metavar="GAMMA", help="Gamma with --log2g null.")
]
_Epsilon = Annotated[
    float | None, typer.Option("--epsilon", "-p", metavar="X", help="Epsilon with --log2p null.")
]
_Plot = Annotated[
    str | None, typer.Option("--plot", metavar="IMAGE", help="Draw the grid, as .png or .svg.")
]
_Model = Annotated[
    str | None, typer.Argument(metavar="MODEL", help="Write the best model, fitted to all.")
]
_Seed = Annotated[int, typer.Option("--seed", metavar="N", help="For the folds.")]


def tune(
    data: options.Data,
    model: _Model = None,
    svm_type: _SvmType = "c_svc",
    log2c: _Log2C = "-1,10,1",
    log2g: _Log2Gamma = None,
    log2p: _Log2Epsilon = None,
    folds: _Folds = 5,
    scoring: _Scoring = None,
    kernel: options.Kernel = "rbf",
    C: _Cost = None,
    gamma: _Gamma = None,
    epsilon: _Epsilon = None,
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    weight: options.Weights = None,
    tol: options.Tolerance = 1e-3,
    cache_size: options.CacheSize = "auto",
    plot: _Plot = None,
    jobs: options.Jobs = None,
    seed: _Seed = 0,
    label: options.Label = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find C and gamma, and epsilon of a regression, over a grid of powers of two."""
    kernel, svm_type = options.kernel_name(kernel), options.svm_type_name(svm_type)
    _check_type(svm_type, weight)
    axes = [cost_axis(log2c, C), gamma_axis(kernel, log2g, gamma)]
    grid, fixed = grid_of(axes + _epsilon_axes(svm_type, log2p, epsilon))
    scoring = scoring or _SCORES[svm_type]
    _check_scoring(scoring)
    _check_outputs(model, plot, grid)
    kind, kind_of_search = _kinds(svm_type)
    estimator = kind(
        kernel=kernel, degree=degree, coef0=coef0, tol=tol,
        cache_size=options.number_or(cache_size, ("auto",), "--cache-size"), **fixed,
    )  # fmt: skip
    dataset = dataset_for(estimator, data, label)
    classes = classes_of(estimator, dataset)
    splits, _ = folds_of(estimator, dataset, folds, seed)
    if weight:
        estimator.set_params(class_weight=options.class_weights(weight, classes))
    if model is not None:
        check_model_file(model, classes, estimator)
    search = kind_of_search(
        estimator, grid, cv=splits, scoring=scoring, refit=model is not None, n_jobs=jobs,
        error_score="raise",
    )  # fmt: skip
    with deferred.counting("tuning", quiet or json) as search._report:
        search.fit(dataset.X, dataset.labels)
    if model is not None:
        maxmargin.io.save_model(search.best_estimator_, model)
    if plot is not None:
        _draw(search, plot)
    _announce(search, list(grid), scoring, model, plot, json, quiet)
    if model is not None:
        raise typer.Exit(search.best_estimator_.fit_status_)


def _check_type(svm_type: str, weight: list[str] | None) -> None:
    if svm_type not in _SCORES:
        raise DataError(f"-s: {' and '.join(_SCORES)} can be tuned, not {svm_type}.")
    if svm_type == "epsilon_svr" and weight:
        raise DataError(f"--weight is about classes, and {svm_type} has none.")


def _epsilon_axes(svm_type: str, log2p: str | None, epsilon: float | None) -> list[Axis]:
    if svm_type == "epsilon_svr":
        return [epsilon_axis(log2p, epsilon)]
    if log2p is not None or epsilon is not None:
        raise DataError(f"--log2p and -p are about epsilon, and {svm_type} has none.")
    return []


def _kinds(svm_type: str) -> tuple[Any, Any]:
    """The estimator of a type that can be tuned, and its search."""
    if svm_type == "epsilon_svr":
        return maxmargin.SVR, maxmargin.SVRSearch
    return maxmargin.SVC, maxmargin.SVCSearch


def _check_scoring(scoring: str) -> None:
    from sklearn.metrics import get_scorer_names

    if scoring not in get_scorer_names():
        near = get_close_matches(scoring, get_scorer_names(), 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(f"--scoring: scikit-learn has no score {scoring!r}.{hint}")


def _check_outputs(model: str | None, plot: str | None, grid: dict) -> None:
    """Say before the search, not after it, that a result could not be drawn or written."""
    if plot is not None:
        _check_plot(plot, grid)
    for path in filter(None, (model, plot)):
        check_folder(path)


def _check_plot(path: str, grid: dict) -> None:
    if len(grid) < 2:
        raise DataError("--plot draws a grid of two parameters, and only one varies.")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DataError("--plot needs matplotlib: pip install 'maxmargin[plot]'.") from None
    known = Figure().canvas.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".") not in known:
        raise DataError(f"{path}: a picture must end in one of .{', .'.join(sorted(known))}.")


def _draw(search, path: str) -> None:
    with atomic_write(path) as file:
        kind = Path(path).suffix.removeprefix(".")
        maxmargin.plotting.plot_grid(search).figure_.savefig(file, format=kind, dpi=150)


def _announce(search, varied: list[str], scoring: str, model, plot, json, quiet) -> None:
    best = {name: search.best_params_[name] for name in varied}
    results = search.cv_results_
    if json:
        tried = [
            {name: one[name] for name in varied} | {"mean": mean, "std": std}
            for one, mean, std in zip(
                results["params"], results["mean_test_score"], results["std_test_score"]
            )
        ]
        found = {"best": best, scoring: search.best_score_, "model": model, "plot": plot}
        print_json(found | {"folds": search.n_splits_, "candidates": tried})
    elif not quiet:
        best_score = search.best_score_
        score = f"{100 * best_score:g}%" if scoring == "accuracy" else f"{best_score:g}"
        letters = {"C": "-c", "gamma": "-g", "epsilon": "-p"}
        emit(" ".join(f"{letters[name]} {best[name]:g}" for name in best) + f"  {scoring} {score}")
        for kind, path in (("model", model), ("plot", plot)):
            if path is not None:
                emit(f"{kind}: {path}")
