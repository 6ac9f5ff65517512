"""Random problems of every kind beside scikit-learn's, to find the ones that are slow.

    python benchmarks/outliers.py [--problems 100] [--first 0] [--kinds SVC,SVR]

Sizes, kernels, parameters and data follow from a seed. Seconds are of the processor and of one
thread, so they hardly depend on what else the machine does. The slowest beside scikit-learn come
last, each with its seed: `--problems 1 --first SEED` repeats it.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import svm
from sklearn.datasets import make_blobs, make_classification, make_friedman1, make_regression
from sklearn.preprocessing import normalize, scale

import maxmargin

KINDS = ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM")
# Fits of each: some, and more of short ones.
_FITS, _FITS_OF_SHORT, _SHORT = 3, 25, 0.03
# Steps after which a problem is left out, as scikit-learn would take minutes.
_MOST_STEPS = 200_000


@dataclass(frozen=True, eq=False)
class RandomProblem:
    """Data and parameters that follow from a seed."""

    kind: str
    X: Any
    y: np.ndarray
    parameters: dict

    def __str__(self) -> str:
        given = ", ".join(
            f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
            for name, value in self.parameters.items()
        )
        classes = f", {len(np.unique(self.y))} classes" if "SVC" in self.kind else ""
        n, n_features = self.X.shape
        return f"{self.kind} {n} × {n_features}{classes}; {given}"


def make_problem(seed: int, kinds: tuple[str, ...] = KINDS) -> RandomProblem:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(kinds))
    n, n_features = int(10 ** rng.uniform(2, 3.7)), int(10 ** rng.uniform(0.3, 2.3))
    if kind in ("SVR", "NuSVR"):
        X, y = _targets(rng, n, n_features)
    else:
        X, y = _classes(rng, n, n_features, int(rng.choice([2, 2, 2, 3, 5, 10, 20])))
    widths = [0.05 / X.shape[1], 5.0 / X.shape[1]]
    parameters: dict[str, Any] = {
        "kernel": str(rng.choice(["rbf", "rbf", "rbf", "linear", "poly", "sigmoid"])),
        "gamma": ["scale", "auto", *widths][rng.integers(4)],
    }
    if kind in ("SVC", "SVR", "NuSVR"):
        parameters["C"] = float(10 ** rng.uniform(-1, 3))
    if kind == "SVR":
        parameters["epsilon"] = float(rng.choice([0.01, 0.1, 0.3]))
    if kind in ("NuSVC", "NuSVR", "OneClassSVM"):
        parameters["nu"] = float(rng.choice([0.01, 0.1, 0.2] if kind != "NuSVR" else [0.2, 0.8]))
    if parameters["kernel"] == "poly":
        parameters["coef0"] = 1.0
    return RandomProblem(kind, X, y, parameters)


def _classes(rng, n: int, n_features: int, k: int) -> tuple[Any, np.ndarray]:
    source, seed = rng.choice(["clusters", "blobs", "categories", "text"]), int(rng.integers(2**31))
    if source == "clusters":
        informative = max(int(np.ceil(np.log2(2 * k))) + 1, min(n_features, 8))
        X, y = make_classification(
            n, max(n_features, informative), n_informative=informative, n_redundant=0,
            n_classes=k, n_clusters_per_class=1, flip_y=float(rng.choice([0.0, 0.05, 0.2])),
            class_sep=float(rng.uniform(0.5, 2)), random_state=seed,
        )  # fmt: skip
        return scale(X), y
    if source == "blobs":
        spread = float(rng.uniform(2, 24) / np.sqrt(n_features))
        X, y = make_blobs(n, n_features, centers=k, cluster_std=spread, random_state=seed)
        return scale(X), y
    if source == "categories":
        X: Any = (rng.random((n, n_features)) < 0.1).astype(float)
    else:
        width = 100 * n_features
        X = normalize(sp.random_array((n, width), density=min(1.0, 60 / width), rng=rng).tocsr())
    weights = rng.normal(size=(X.shape[1], k))
    return X, np.argmax(X @ weights + 0.3 * rng.normal(size=(n, k)), axis=1)


def _targets(rng, n: int, n_features: int) -> tuple[Any, np.ndarray]:
    source, seed = rng.choice(["friedman", "linear", "sines"]), int(rng.integers(2**31))
    if source == "sines":
        X = rng.uniform(-3, 3, (n, min(n_features, 4)))
        return X, np.sin(2 * X.sum(axis=1)) + 0.2 * rng.normal(size=n)
    if source == "friedman":
        X, y = make_friedman1(n, max(n_features, 5), noise=1.0, random_state=seed)
    else:
        X, y = make_regression(n, n_features, noise=10.0, random_state=seed)
    return scale(X), scale(y)


def seconds_of(estimator, X, y) -> float:
    """Best seconds of the processor of a fit."""
    best, fits = float("inf"), 0
    while fits < _FITS or (best < _SHORT and fits < _FITS_OF_SHORT):
        start = time.process_time()
        estimator.fit(X, y)
        best, fits = min(best, time.process_time() - start), fits + 1
    return best


def compare(problem: RandomProblem) -> tuple[float, float, str] | None:
    """Seconds of ours and scikit-learn's, and our status; None where scikit-learn gives up."""
    theirs = getattr(svm, problem.kind)(
        cache_size=500, max_iter=_MOST_STEPS, **problem.parameters
    )  # fmt: skip
    try:
        theirs.fit(problem.X, problem.y)
    except ValueError:  # ν is infeasible
        return None
    if theirs.fit_status_:
        return None
    ours = getattr(maxmargin, problem.kind)(n_jobs=1, **problem.parameters)
    ours.fit(problem.X, problem.y)  # loads what is compiled
    seconds = seconds_of(ours, problem.X, problem.y), seconds_of(theirs, problem.X, problem.y)
    return *seconds, ours.fit_report_.status


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="separated by commas")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.simplefilter("ignore")
    found = []
    for seed in range(options.first, options.first + options.problems):
        problem = make_problem(seed, tuple(options.kinds.split(",")))
        answer = compare(problem)
        if answer is not None:
            ours, theirs, status = answer
            line = f"{theirs / ours:7.2f} {1e3 * ours:9.2f} {1e3 * theirs:9.2f}  {seed}: {problem}"
            found.append((theirs / ours, f"{line}; {status}" if status != "converged" else line))
    print("  ratio milliseconds: ours, scikit-learn's; seed and problem")
    print(*(line for _, line in sorted(found, reverse=True)), sep="\n")
    for kind in KINDS:
        ratios = [ratio for ratio, line in found if f": {kind} " in line]
        if ratios:
            mean, slower = np.exp(np.mean(np.log(ratios))), sum(ratio < 1 for ratio in ratios)
            print(f"{kind}: {len(ratios)} problems, geometric mean {mean:.2f}, {slower} slower")


if __name__ == "__main__":
    main()
