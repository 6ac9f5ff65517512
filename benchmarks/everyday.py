"""Two classes with `StandardScaler` and defaults, beside the peers.

    python benchmarks/everyday.py --data folder [--only "a*"] [--repeat 5]

Every set of two classes from a folder of LIBSVM files, at C = 1 and 10, and scikit-learn's
breast cancer, which needs no files. Fit, predict and predict of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sklearn import datasets
from sklearn.preprocessing import StandardScaler

import data
from _fits import Case, run

TWO_CLASSES = ("heart", "liver-disorders", "ionosphere", "banana1", "wdbc", "australian", "pima",
               "diabetis_ida", "german.numer", "splice", "a1a", "a2a", "w1a", "a3a", "splice_ida",
               "a4a", "w3a", "banana", "w4a", "lasvm_reuters", "w5a", "a6a")  # fmt: skip
# Beyond this many features standardised data are not scaled to zero mean, and stay sparse.
_MOST_FEATURES = 1000
_TEST_ROWS = 2000


def cases(folder: str | None, wanted: Callable[[str], bool]) -> Iterator[Case]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    for C in (1.0, 10.0):
        if wanted(f"breast cancer, C={C:g}"):
            yield Case(f"breast cancer, C={C:g}", StandardScaler().fit_transform(X), y, {"C": C})
    for name in TWO_CLASSES if folder else ():
        for C in (1.0, 10.0):
            if not wanted(f"{name}, C={C:g}"):
                continue
            X, y = data.load(folder, name)
            dense = X.shape[1] <= _MOST_FEATURES
            X = StandardScaler(with_mean=dense).fit_transform(X.toarray() if dense else X)
            yield Case(f"{name}, C={C:g}", X, y, {"C": C}, X[:_TEST_ROWS])


def main(arguments: list[str] | None = None) -> list[dict]:
    return run(cases, arguments, __doc__ or "")


if __name__ == "__main__":
    main()
