"""One of the constants that decide speed, over a range of values.

    python benchmarks/constants.py WORKING_SET 256 512 1024 2048 [--repeat 3]

Fits of generated problems, each value in turn, the best time of each counts. A value is worth
a change if it is better on several cases and worse on none.
"""

from __future__ import annotations

import argparse
import ast
import time
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import make_classification

from maxmargin import SVC, constants


def cases() -> Iterator[tuple[str, object, np.ndarray, dict]]:
    """Dense and one-hot data, few and many support vectors, small and large C, many classes."""
    rng = np.random.default_rng(0)
    for n, C in ((100, 1.0), (1000, 1.0), (5000, 1.0), (5000, 100.0)):
        X, y = make_classification(n, 20, n_informative=8, flip_y=0.05, random_state=0)
        yield f"dense n={n} C={C:g}", X, y, {"C": C}
    X = (rng.uniform(size=(8000, 120)) < 0.11).astype(float)
    y = X @ rng.normal(size=120) + rng.normal(size=8000) > 0
    yield "one-hot n=8000", X, y, {"gamma": 0.05}
    centres = np.repeat([[0.0, 0.0], [1.5, 1.5]], 1500, axis=0)
    X, y = rng.normal(size=(3000, 2)) + centres, np.repeat([0, 1], 1500)
    for C in (10.0, 1e4):
        yield f"Gaussians n=3000 C={C:g}", X, y, {"C": C, "gamma": 0.5}
    X, y = make_classification(
        4000, 16, n_informative=10, n_redundant=0, n_classes=10, n_clusters_per_class=1,
        random_state=0,
    )  # fmt: skip
    yield "10 classes n=4000", X, y, {"C": 10.0}


def main(arguments: list[str] | None = None) -> None:
    names = [name for name in dir(constants) if name.isupper()]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("values", nargs="+", type=ast.literal_eval, metavar="VALUE")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args(arguments)
    default = getattr(constants, args.name)
    print(f"{args.name} = {default!r} now; seconds of a fit")
    print(f"{'':24}" + "".join(f"{value!r:>12}" for value in args.values))
    for case, X, y, options in cases():
        best = [np.inf] * len(args.values)
        for _ in range(args.repeat):
            for at, value in enumerate(args.values):
                setattr(constants, args.name, value)
                start = time.perf_counter()
                SVC(**options).fit(X, y)
                best[at] = min(best[at], time.perf_counter() - start)
        setattr(constants, args.name, default)
        print(f"{case:24}" + "".join(f"{seconds:12.4f}" for seconds in best), flush=True)


if __name__ == "__main__":
    main()
