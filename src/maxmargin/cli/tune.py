"""``maxmargin tune``: C and γ by cross-validation."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, print_json
from maxmargin.cli.train import labelled
from maxmargin.io.files import DataError


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
    jobs: options.Jobs = None,
    label: options.Label = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Find C and gamma by cross-validation over a grid of powers of two."""
    try:
        from maxmargin import SVCSearch  # type: ignore[attr-defined]
    except ImportError:
        raise DataError("tune needs maxmargin.SVCSearch, which this version lacks.") from None
    from maxmargin.cli._progress import shows_progress

    grid = {"C": powers_of_two(log2c, "--log2c"), "gamma": powers_of_two(log2g, "--log2g")}
    dataset = labelled(data, label)
    search = SVCSearch(
        grid, cv=folds, refit=model is not None, n_jobs=jobs,
        verbose=int(shows_progress(quiet or json)),
    )  # fmt: skip
    search.fit(dataset.X, dataset.labels)
    if model is not None:
        from maxmargin.io import save_model

        save_model(search.best_estimator_, model)
    best = search.best_params_
    if json:
        print_json({"best": best, "accuracy": search.best_score_, "model": model})
    elif not quiet:
        emit(f"-c {best['C']:g} -g {best['gamma']:g}  accuracy {100 * search.best_score_:g}%")
        if model is not None:
            emit(f"model: {model}")


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
