"""SVCSearch beside GridSearchCV over scikit-learn's SVC and over scikit-learn-intelex's.

    python benchmarks/search.py --data FOLDER
    python benchmarks/search.py --data FOLDER --kind SVR --set abalone_scale

All get the same samples, the same five folds and the same number of cores, one after the
other in one process: C = 2⁻¹ … 2¹⁰ and γ = 2⁻⁸ … 2¹, or with ``--kind SVR`` SVRSearch beside
theirs, standardised targets, C = 2⁻² … 2⁸, γ = 2⁻⁶ … 2² and ε = 0.05, 0.1, 0.2. Each tunes a
few hundred samples first, so that imports, compilers and worker processes are not timed. The
best candidate is not fitted again. Scores are compared cell by cell.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold

from data import load, two_gaussians

CONTESTANTS = ("maxmargin", "intelex", "scikit-learn")
_WARM_UP = 600


def grid_of(kind: str, step: int) -> dict:
    """The grid of a kind, its exponents in steps of `step`."""
    if kind == "SVC":
        return {
            "C": [2.0**k for k in range(-1, 11, step)],
            "gamma": [2.0**k for k in range(-8, 2, step)],
        }
    return {
        "C": [2.0**k for k in range(-2, 9, step)],
        "gamma": [2.0**k for k in range(-6, 3, step)],
        "epsilon": [0.05, 0.1, 0.2],
    }


def make_search(name: str, kind: str, grid: dict, jobs: int):
    """The contestant's search; None where its library is not installed."""
    cv = StratifiedKFold(5) if kind == "SVC" else KFold(5)
    if name == "maxmargin":
        import maxmargin

        return getattr(maxmargin, f"{kind}Search")(grid, cv=cv, refit=False, n_jobs=jobs)
    home = "sklearnex.svm" if name == "intelex" else "sklearn.svm"
    try:
        estimator = getattr(importlib.import_module(home), kind)()
    except ImportError:
        return None
    return GridSearchCV(estimator, grid, cv=cv, refit=False, n_jobs=jobs)


def measure(name: str, kind: str, X, y, grid: dict, jobs: int) -> dict | None:
    """Seconds of one contestant, and the scores that it found."""
    small = {parameter: values[:2] for parameter, values in grid.items()}
    warm_up = make_search(name, kind, small, jobs)
    if warm_up is None:
        return None
    warm_up.fit(X[:_WARM_UP], y[:_WARM_UP])
    search = make_search(name, kind, grid, jobs)
    start = time.perf_counter()
    search.fit(X, y)
    return {
        "contestant": name,
        "seconds": time.perf_counter() - start,
        "best": search.best_params_,
        "best_score": float(search.best_score_),
        "scores": search.cv_results_["mean_test_score"].tolist(),
    }


def table(results: list[dict]) -> str:
    """One line a contestant; ratios and scores against the first of them."""
    ours = results[0]
    lines = [
        "| search | seconds | ratio | best candidate | score | largest difference of a score |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        apart = np.abs(np.subtract(result["scores"], ours["scores"])).max()
        best = ", ".join(f"{name} {value:g}" for name, value in result["best"].items())
        lines.append(
            f"| {result['contestant']} | {result['seconds']:.2f} "
            f"| {result['seconds'] / ours['seconds']:.1f} | {best} "
            f"| {result['best_score']:.5f} | {apart:.1e} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.data is None:
        X, y = two_gaussians(options.samples or 1000)
    else:
        X, y = load(options.data, options.set)
        if options.samples is not None:
            X, y = X[: options.samples], y[: options.samples]
    if options.kind == "SVR":
        y = (y - y.mean()) / y.std()
    grid = grid_of(options.kind, options.step)
    fits = 5 * int(np.prod([len(values) for values in grid.values()]))
    print(f"{X.shape[0]} samples, {fits} fits, {options.jobs} cores", file=sys.stderr, flush=True)
    results = []
    for name in options.contestants.split(","):
        if name not in CONTESTANTS:
            sys.exit(f"no contestant is called {name!r}; there are: {', '.join(CONTESTANTS)}.")
        print(name, file=sys.stderr, flush=True)
        result = measure(name, options.kind, X, y, grid, options.jobs)
        if result is None:
            print(f"{name} is not installed", file=sys.stderr)
        else:
            results.append(result)
    print(table(results))
    if options.out is not None:
        options.out.write_text(json.dumps({"grid": grid, "results": results}), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of LIBSVM files; without it, two Gaussians")
    add("--kind", choices=("SVC", "SVR"), default="SVC", help="what is tuned (default: SVC)")
    add("--set", default="a4a", help="which of its sets (default: a4a)")
    add("--samples", type=int, help="only the first so many")
    add("--step", type=int, default=1, help="exponents in steps of this (default: 1)")
    add("--jobs", type=int, default=os.cpu_count(), help="cores for each (default: all)")
    add("--contestants", default=",".join(CONTESTANTS), help="in this order (default: all)")
    add("--out", type=Path, help="JSON file for all scores")
    return parser


if __name__ == "__main__":
    main()
