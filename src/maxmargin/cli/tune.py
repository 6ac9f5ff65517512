"""``maxmargin tune``: C and γ by cross-validation."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._inputs import check_folder, check_model_file, dataset_for
from maxmargin.cli._output import emit, print_json
from maxmargin.io.files import DataError, atomic_write

_MAX_EXPONENT, _MAX_VALUES = 1000, 10_000


def tune(
    data: options.Data,
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Write the best model, fitted to all.")
    ] = None,
    log2c: Annotated[
        str,
        typer.Option(
            "--log2c",
            metavar="BEGIN,END,STEP",
            help="Exponents of C, or null: do not vary C. grid.py's -log2c works too.",
        ),
    ] = "-1,10,1",
    log2g: Annotated[
        str | None,
        typer.Option(
            "--log2g",
            metavar="BEGIN,END,STEP",
            help="Exponents of gamma, or null; -8,1,1 by default where the kernel has a gamma.",
        ),
    ] = None,
    folds: Annotated[
        int, typer.Option("--folds", "-v", metavar="N", min=2, help="Folds of cross-validation.")
    ] = 5,
    scoring: Annotated[
        str,
        typer.Option(
            "--scoring", metavar="NAME", help="One of scikit-learn's names: f1, roc_auc, …"
        ),
    ] = "accuracy",
    kernel: options.Kernel = "rbf",
    C: Annotated[
        float | None, typer.Option("--C", "-c", metavar="C", help="C with --log2c null.")
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option("--gamma", "-g", metavar="GAMMA", help="Gamma with --log2g null."),
    ] = None,
    degree: options.Degree = 3,
    coef0: options.Coef0 = 0.0,
    weight: options.Weights = None,
    tol: options.Tolerance = 1e-3,
    cache_size: options.CacheSize = "auto",
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="IMAGE", help="Draw the grid, as .png or .svg.")
    ] = None,
    jobs: options.Jobs = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For the folds.")] = 0,
    label: options.Label = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find C and gamma by cross-validation over a grid of powers of two."""
    from sklearn.model_selection import StratifiedKFold

    from maxmargin import SVC, SVCSearch
    from maxmargin.cli._progress import counting

    kernel = options.kernel_name(kernel)
    grid, fixed = _grid(kernel, log2c, log2g, C, gamma)
    _check_scoring(scoring)
    if plot is not None:
        _check_plot(plot, grid)
    for path in filter(None, (model, plot)):
        check_folder(path)
    dataset = dataset_for(SVC(kernel=kernel), data, label)
    classes, counts = np.unique(dataset.labels, return_counts=True)
    if counts.min() < folds:
        raise DataError(f"{dataset.name}: --folds {folds}, but a class has {counts.min()} samples.")
    fixed |= {
        "kernel": kernel, "degree": degree, "coef0": coef0, "tol": tol,
        "class_weight": options.class_weights(weight, classes),
        "cache_size": options.number_or(cache_size, ("auto",), "--cache-size"),
    }  # fmt: skip
    if model is not None:
        check_model_file(model, classes, SVC(kernel=kernel))
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
    _announce(search, list(grid), scoring, model, plot, json, quiet)
    if model is not None:
        raise typer.Exit(search.best_estimator_.fit_status_)


def _grid(kernel: str, log2c: str, log2g: str | None, C: float | None, gamma: str | None):
    """Values of what is varied, and of what is not."""
    has_gamma = kernel in ("poly", "rbf", "sigmoid")
    if log2g is None:
        log2g = "-8,1,1" if has_gamma else "null"
    if log2g != "null" and not has_gamma:
        raise DataError(f"--log2g: the {kernel} kernel has no gamma.")
    grid: dict[str, list[float]] = {}
    fixed: dict[str, float | str] = {}
    if log2c == "null":
        fixed["C"] = 1.0 if C is None else C
    elif C is not None:
        raise DataError("-c: --log2c varies C; use --log2c null for one value.")
    else:
        grid["C"] = powers_of_two(log2c, "--log2c")
    if log2g == "null":
        fixed["gamma"] = options.gamma_value(gamma or "scale")
    elif gamma is not None:
        raise DataError("-g: --log2g varies gamma; use --log2g null for one value.")
    else:
        grid["gamma"] = powers_of_two(log2g, "--log2g")
    if not grid:
        raise DataError("--log2c and --log2g are both null: there is nothing to tune.")
    return grid, fixed


def _check_scoring(scoring: str) -> None:
    from sklearn.metrics import get_scorer_names

    if scoring not in get_scorer_names():
        near = get_close_matches(scoring, get_scorer_names(), 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise DataError(f"--scoring: scikit-learn has no score {scoring!r}.{hint}")


def _check_plot(path: str, grid: dict) -> None:
    """Say before the search, not after it, that it could not be drawn."""
    if len(grid) < 2:
        raise DataError("--plot draws a grid of C and gamma, and only one of them varies.")
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
        score = f"{100 * search.best_score_:g}%" if scoring == "accuracy" else search.best_score_
        letters = {"C": "-c", "gamma": "-g"}
        emit(" ".join(f"{letters[name]} {best[name]:g}" for name in best) + f"  {scoring} {score}")
        for kind, path in (("model", model), ("plot", plot)):
            if path is not None:
                emit(f"{kind}: {path}")


def powers_of_two(text: str, option: str) -> list[float]:
    """``-1,10,1`` (LIBSVM's grid.py) as 2⁻¹, 2⁰, …, 2¹⁰."""
    try:
        begin, end, step = (float(part) for part in text.split(","))
        if max(abs(begin), abs(end)) > _MAX_EXPONENT or abs(end - begin) > _MAX_VALUES * abs(step):
            raise DataError(f"{option}: {text!r} leads too far, or in too small steps.")
        exponents = np.arange(begin, end + step * 1e-9, step)
    except DataError:
        raise
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{option} must be BEGIN,END,STEP or null, not {text!r}.") from None
    if not len(exponents):
        raise DataError(f"{option}: there is nothing from {begin:g} to {end:g} by {step:g}.")
    return [float(2.0**exponent) for exponent in exponents]
