"""Many classes: ours beside scikit-learn, scikit-learn-intelex and LIBSVM.

    python benchmarks/classes.py --data folder [--only "usps*,*C=1"] [--repeat 5]

Sets of more than two classes from a folder of LIBSVM files, digits and iris, and generated
ones; with `StandardScaler` and defaults at C = 1 and 10, and with settings as they are tuned.
Fit, predict and predict of one row. Without --data only the sets that need no files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import data
from _fits import Case, run

EVERYDAY = ("iris", "wine", "zoo", "glass", "vowel", "segment", "dna", "splice_uci", "page-blocks",
            "usps", "isolet", "shuttle", "covtype")  # fmt: skip
TUNED = {
    "usps": {"C": 10.0, "gamma": 2.0**-7},
    "isolet": {"C": 10.0, "gamma": 0.002},
    "dna": {"C": 10.0, "gamma": 0.01},
    "shuttle": {"C": 100.0, "gamma": 1 / 5000},
}
# Of larger sets so many rows: scikit-learn takes minutes for more.
_MOST_ROWS = 20_000
# Classes, samples per class and features; and how far apart the classes are.
GENERATED = {
    "k=3": (3, 700, 20, 1.0),
    "k=6": (6, 700, 36, 1.2),
    "k=10": (10, 750, 16, 0.6),
    "k=26": (26, 577, 16, 0.8),
    "k=100": (100, 20, 64, 0.8),
    "k=300": (300, 5, 64, 0.8),
    "k=1000": (1000, 5, 64, 0.8),
}


def clouds(n_classes: int, size: int, n_features: int, spread: float, seed: int = 0):
    """Normal clouds of one size around normally distributed centres."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), size)
    X = rng.normal(size=(n_classes, n_features))[y]
    return X + spread * rng.normal(size=X.shape), y


def _with_test(folder, name: str, scaled: bool):
    X, y = data.load(folder, name)
    test = data.load(folder, f"{name}.t")[0] if data.path_of(folder, f"{name}.t") else X
    if len(y) > _MOST_ROWS:
        chosen = np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS]
        X, y, test = X[chosen], y[chosen], test[:5000]
    X, test = X.toarray(), test.toarray()
    if scaled:
        scaler = StandardScaler().fit(X)
        X, test = scaler.transform(X), scaler.transform(test)
    return X, y, test


def cases(folder: str | None, wanted: Callable[[str], bool]) -> Iterator[Case]:
    for name, load in (("digits", datasets.load_digits), ("iris (sklearn)", datasets.load_iris)):
        X, y = load(return_X_y=True)
        for C in (1.0, 10.0):
            if wanted(f"{name}, C={C:g}"):
                yield Case(f"{name}, C={C:g}", StandardScaler().fit_transform(X), y, {"C": C})
    for name in EVERYDAY if folder else ():
        for C in (1.0, 10.0):
            if wanted(f"{name}, C={C:g}"):
                X, y, test = _with_test(folder, name, scaled=True)
                yield Case(f"{name}, C={C:g}", X, y, {"C": C}, test)
    for name, options in TUNED.items() if folder else ():
        if wanted(f"{name}, tuned"):
            X, y, test = _with_test(folder, name, scaled=False)
            yield Case(f"{name}, tuned", X, y, options, test)
    for name, shape in GENERATED.items():
        for C in (1.0, 10.0):
            if wanted(f"{name}, C={C:g}"):
                X, y = clouds(*shape)
                yield Case(f"{name}, C={C:g}", X, y, {"C": C}, clouds(*shape, seed=1)[0][:1000])


def main(arguments: list[str] | None = None) -> list[dict]:
    return run(cases, arguments, __doc__ or "")


if __name__ == "__main__":
    main()
