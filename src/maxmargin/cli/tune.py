"""``maxmargin tune``: C and γ by cross-validation."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, print_json
from maxmargin.cli.train import check_folder, check_model_file, labelled
from maxmargin.io.files import DataError, atomic_write


def tune(
    data: options.Data,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Write the best model, fitted to all.")
    ] = None,
    log2c: Annotated[
        str, typer.Option("--log2c", metavar="BEGIN,END,STEP", help="Exponents of C.")
    ] = "-1,10,1",
    log2g: Annotated[
        str, typer.Option("--log2g", metavar="BEGIN,END,STEP", help="Exponents of gamma.")
    ] = "-8,1,1",
    folds: Annotated[int, typer.Option("--folds", "-v", min=2)] = 5,
    scoring: Annotated[
        str, typer.Option("--scoring", help="One of scikit-learn's names: f1, roc_auc, …")
    ] = "accuracy",
    weight: options.Weights = None,
    tol: options.Tolerance = 1e-3,
    cache_size: options.CacheSize = "auto",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="IMAGE", help="Draw the grid, as .png or .svg.")
    ] = None,
    jobs: options.Jobs = None,
    seed: Annotated[int, typer.Option("--seed", help="For the folds.")] = 0,
    label: options.Label = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find C and gamma by cross-validation over a grid of powers of two."""
    from sklearn.model_selection import StratifiedKFold

    from maxmargin import SVC, SVCSearch
    from maxmargin.cli._progress import counting

    grid = {"C": powers_of_two(log2c, "--log2c"), "gamma": powers_of_two(log2g, "--log2g")}
    _check_scoring(scoring)
    if plot is not None:
        _check_plot(plot)
    for path in filter(None, (model, plot)):
        check_folder(path)
    dataset = labelled(data, label)
    classes, counts = np.unique(dataset.labels, return_counts=True)
    if counts.min() < folds:
        raise DataError(f"{dataset.name}: --folds {folds}, but a class has {counts.min()} samples.")
    fixed = {
        "class_weight": options.class_weights(weight, classes),
        "tol": tol,
        "cache_size": options.number_or(cache_size, ("auto",), "--cache-size"),
    }
    if model is not None:
        check_model_file(model, classes, SVC())
    search = SVCSearch(
        grid | {name: [value] for name, value in fixed.items()},
        cv=StratifiedKFold(folds, shuffle=True, random_state=seed), scoring=scoring,
        refit=model is not None, n_jobs=jobs,
    )  # fmt: skip
    with counting("tuning", quiet or json) as search._report:
        search.fit(dataset.X, dataset.labels)
    if model is not None:
        from maxmargin.io import save_model

        save_model(search.best_estimator_, model)
    if plot is not None:
        _draw(search, plot)
    _announce(search, scoring, model, plot, json, quiet)
    if model is not None:
        raise typer.Exit(search.best_estimator_.fit_status_)


def _check_scoring(scoring: str) -> None:
    from sklearn.metrics import get_scorer_names

    if scoring not in get_scorer_names():
        near = get_close_matches(scoring, get_scorer_names(), 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(f"--scoring: scikit-learn has no score {scoring!r}.{hint}")


def _check_plot(path: str) -> None:
    """Say before the search, not after it, that it could not be drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise DataError("--plot needs matplotlib: pip install 'maxmargin[plot]'.") from None
    known = Figure().canvas.get_supported_filetypes()
    if Path(path).suffix.removeprefix(".") not in known:
        raise DataError(f"{path}: a picture must end in one of .{', .'.join(sorted(known))}.")


def _draw(search, path: str) -> None:
    from maxmargin.plotting import plot_grid

    with atomic_write(path) as file:
        kind = Path(path).suffix.removeprefix(".")
        plot_grid(search).figure_.savefig(file, format=kind, dpi=150)


def _announce(search, scoring: str, model, plot, json: bool, quiet: bool) -> None:
    best = {name: search.best_params_[name] for name in ("C", "gamma")}
    results = search.cv_results_
    if json:
        tried = [
            {"C": one["C"], "gamma": one["gamma"], "mean": mean, "std": std}
            for one, mean, std in zip(
                results["params"], results["mean_test_score"], results["std_test_score"]
            )
        ]
        found = {"best": best, scoring: search.best_score_, "model": model, "plot": plot}
        print_json(found | {"folds": search.n_splits_, "candidates": tried})
    elif not quiet:
        score = f"{100 * search.best_score_:g}%" if scoring == "accuracy" else search.best_score_
        emit(f"-c {best['C']:g} -g {best['gamma']:g}  {scoring} {score}")
        for kind, path in (("model", model), ("plot", plot)):
            if path is not None:
                emit(f"{kind}: {path}")


def powers_of_two(text: str, option: str) -> list[float]:
    """``-1,10,1`` (LIBSVM's grid.py) as 2⁻¹, 2⁰, …, 2¹⁰."""
    try:
        begin, end, step = (float(part) for part in text.split(","))
        exponents = np.arange(begin, end + step * 1e-9, step)
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{option} must be BEGIN,END,STEP, not {text!r}.") from None
    if not len(exponents):
        raise DataError(f"{option}: there is nothing from {begin:g} to {end:g} by {step:g}.")
    return [float(2.0**exponent) for exponent in exponents]
