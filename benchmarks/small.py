"""Fits of few samples beside scikit-learn's: by features, by classes, by kernel.

    python benchmarks/small.py [--repeat 15] [--only "digits*,iris"]

All in one process, which has fitted once; the two take turns, and the best time of each
counts. The sets come with scikit-learn or are drawn by `make_classification`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from fnmatch import fnmatch

from sklearn import datasets
from sklearn.svm import SVC as SklearnSVC

from maxmargin import SVC


def generated(n: int, n_features: int, n_classes: int):
    informative = min(n_features, 10 if n_classes > 2 else 6)
    return datasets.make_classification(
        n, n_features, n_informative=informative, n_redundant=0, n_classes=n_classes,
        n_clusters_per_class=1, flip_y=0.1, random_state=0,
    )  # fmt: skip


def sets() -> Iterator[tuple[str, tuple]]:
    """Names and data, two classes first."""
    for n in (20, 100, 300, 1000):
        for n_features in (2, 10, 50, 300):
            yield f"n{n}-d{n_features}", generated(n, n_features, 2)
    for n_classes, sizes in ((3, (60, 150, 300, 1000)), (10, (150, 300, 1000, 2000))):
        for n in sizes:
            yield f"n{n}-d20-classes{n_classes}", generated(n, 20, n_classes)
    yield "iris", datasets.load_iris(return_X_y=True)
    X, y = datasets.load_breast_cancer(return_X_y=True)
    yield "cancer", ((X - X.mean(axis=0)) / X.std(axis=0), y)
    X, y = datasets.load_digits(return_X_y=True)
    yield "digits1000", (X[:1000], y[:1000])
    yield "digits", (X, y)


OPTIONS = {"rbf": {}, "rbf, C = 100": {"C": 100.0}, "linear": {"kernel": "linear"}}


def measure(X, y, options: dict, repeat: int) -> list[float]:
    """Best seconds of a fit, ours and scikit-learn's."""
    best = [float("inf")] * 2
    for _ in range(repeat):
        for who, contestant in enumerate((SVC, SklearnSVC)):
            start = time.perf_counter()
            contestant(**options).fit(X, y)
            best[who] = min(best[who], time.perf_counter() - start)
    return best


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=15, help="fits of each (default: 15)")
    parser.add_argument("--only", default="*", help="names or patterns, separated by commas")
    options = parser.parse_args(arguments)
    patterns = options.only.split(",")
    print("milliseconds, maxmargin / scikit-learn (ratio)")
    print(f"{'set':20}", *(f"{name:>24}" for name in OPTIONS))
    for name, (X, y) in sets():
        if not any(fnmatch(name, pattern) for pattern in patterns):
            continue
        SVC().fit(X[:200], y[:200])  # loads what is compiled
        found = (measure(X, y, chosen, options.repeat) for chosen in OPTIONS.values())
        cells = (f"{1e3 * a:9.2f} / {1e3 * b:.2f} ({b / a:.2f})" for a, b in found)
        print(f"{name:20}", *(f"{cell:>24}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
