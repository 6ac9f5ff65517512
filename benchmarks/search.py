"""SVCSearch beside GridSearchCV over scikit-learn's SVC and over scikit-learn-intelex's.

    python benchmarks/search.py --data FOLDER
    python benchmarks/search.py --data FOLDER --kind SVR --set abalone_scale
    python benchmarks/search.py --classes

All get the same samples, the same five folds and the same number of cores, one after the
other in one process: C = 2⁻¹ … 2¹⁰ and γ = 2⁻⁸ … 2¹, or with ``--kind SVR`` SVRSearch beside
theirs, standardised targets, C = 2⁻² … 2⁸, γ = 2⁻⁶ … 2² and ε = 0.05, 0.1, 0.2. With
``--classes`` sets of many classes, which need no files, standardised, with C = 1, 8, 64, 512 and
γ = 1/8, 1/2, 2 and 8 divided by the number of features. Each tunes a few hundred samples first,
so that imports, compilers and worker processes are not timed. The best candidate is not fitted
again. Scores are compared cell by cell. ``--clock cpu`` takes one job and the time of the
processor instead: the ratio then hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from _fits import CLOCKS
from classes import clouds
from data import load, two_gaussians

CONTESTANTS = ("maxmargin", "intelex", "scikit-learn")
_WARM_UP = 600
# Sets of many classes: clouds as `classes.py` has them, and several clouds per class that overlap.
MANY_CLASSES = {
    "digits": lambda: load_digits(return_X_y=True),
    "6 clouds, 36 features": lambda: clouds(6, 667, 36, 1.2),
    "10 clouds, 16 features": lambda: clouds(10, 400, 16, 0.6),
    "6 classes of two clouds, 36 features": lambda: _overlapping(36, 6),
    "10 classes of two clouds, 16 features": lambda: _overlapping(16, 10),
}


def _overlapping(n_features: int, n_classes: int):
    return make_classification(
        4000, n_features, n_informative=12, n_classes=n_classes, class_sep=1.5, random_state=0
    )


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


def grid_of_classes(n_features: int) -> dict:
    """16 candidates for standardised features."""
    return {
        "C": [1.0, 8.0, 64.0, 512.0],
        "gamma": [factor / n_features for factor in (0.125, 0.5, 2.0, 8.0)],
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


def measure(name: str, kind: str, X, y, grid: dict, jobs: int, clock="wall") -> dict | None:
    """Seconds of one contestant, and the scores that it found."""
    small = {parameter: values[:2] for parameter, values in grid.items()}
    warm_up = make_search(name, kind, small, jobs)
    if warm_up is None:
        return None
    few = np.random.default_rng(0).permutation(len(y))[:_WARM_UP]
    warm_up.fit(X[few], y[few])
    search, now = make_search(name, kind, grid, jobs), CLOCKS[clock]
    start = now()
    search.fit(X, y)
    return {
        "contestant": name,
        "seconds": now() - start,
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


def _of_classes(make, samples: int | None) -> tuple:
    X, y = make()
    X, chosen = StandardScaler().fit_transform(X), np.arange(len(y))
    if samples is not None:
        chosen = np.random.default_rng(0).permutation(len(y))[:samples]
    return X[chosen], y[chosen], grid_of_classes(X.shape[1])


def problems(options) -> dict:
    """Samples, targets and grid of each set by its name."""
    if options.classes:
        return {name: _of_classes(make, options.samples) for name, make in MANY_CLASSES.items()}
    if options.data is None:
        X, y = two_gaussians(options.samples or 1000)
    else:
        X, y = load(options.data, options.set)
        if options.samples is not None:
            X, y = X[: options.samples], y[: options.samples]
    if options.kind == "SVR":
        y = (y - y.mean()) / y.std()
    return {"": (X, y, grid_of(options.kind, options.step))}


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    jobs = 1 if options.clock == "cpu" else options.jobs
    contestants = options.contestants.split(",")
    for name in contestants:
        if name not in CONTESTANTS:
            sys.exit(f"no contestant is called {name!r}; there are: {', '.join(CONTESTANTS)}.")
    found = []
    for title, (X, y, grid) in problems(options).items():
        fits = 5 * int(np.prod([len(values) for values in grid.values()]))
        print(f"{X.shape[0]} samples, {fits} fits, {jobs} cores", file=sys.stderr, flush=True)
        results = []
        for name in contestants:
            print(name, file=sys.stderr, flush=True)
            result = measure(name, options.kind, X, y, grid, jobs, options.clock)
            if result is None:
                print(f"{name} is not installed", file=sys.stderr)
            else:
                results.append(result)
        if title:
            print(f"{title}: {X.shape[0]} samples\n")
        print(table(results), flush=True)
        found.append({"set": title, "grid": grid, "results": results})
    if options.out is not None:
        options.out.write_text(json.dumps(found), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of LIBSVM files; without it, two Gaussians")
    add("--kind", choices=("SVC", "SVR"), default="SVC", help="what is tuned (default: SVC)")
    add("--classes", action="store_true", help="sets of many classes instead, made here")
    add("--set", default="a4a", help="which of its sets (default: a4a)")
    add("--samples", type=int, help="only the first so many")
    add("--step", type=int, default=1, help="exponents in steps of this (default: 1)")
    add("--jobs", type=int, default=os.cpu_count(), help="cores for each (default: all)")
    add("--clock", choices=tuple(CLOCKS), default="wall", help="cpu: of the processor, one job")
    add("--contestants", default=",".join(CONTESTANTS), help="in this order (default: all)")
    add("--out", type=Path, help="JSON file for all scores")
    return parser


if __name__ == "__main__":
    main()
