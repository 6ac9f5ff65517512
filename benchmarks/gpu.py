"""Training and prediction on a GPU: seconds, and the violation by a judge of its own.

    python benchmarks/gpu.py --data FOLDER [--only "covtype-*,a9a"] [--repeat 3] [--out FILE]

Data are NumPy arrays or CSR matrices in host memory, and their transfer is timed. The first fit
of each case is not counted: it may compile. The best of the others is. `--device cpu` runs the
same cases on the processor, `--quick` those that take it a few seconds.

The violation is LIBSVM's stopping quantity. It is computed in float64 from the dual coefficients
alone, by code that shares nothing with the package.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_friedman1

from data import load, one_against_rest, scale_unit, shells, two_gaussians
from maxmargin import SVC, SVR, OneClassSVM

_JUDGED_VALUES = 2**26
# cuML in float64 on an H200, as measured for this project earlier; it is not run here.
CUML_SECONDS = {
    "covtype-20k": 2.85, "covtype-80k": 15.3, "covtype-290k": 60.6, "covtype-581k": 136.7,
    "a9a": 0.125, "w7a": 0.093, "gauss-C100": 1.02,
}  # fmt: skip


@dataclass
class Case:
    """A fit: `make` returns X and y, `kind` is the estimator; `limited` ones get a time limit.

    A limit costs some percent of short fits, since the time of the certificate is measured.
    """

    name: str
    make: Callable[[], tuple]
    options: dict = field(default_factory=dict)
    quick: bool = False
    kind: type = SVC
    limited: bool = False


@cache
def whole_covtype(folder: Path) -> tuple:
    X, y = load(folder, "covtype")
    return scale_unit(X.toarray()), one_against_rest(y, 2)


def covtype(folder: Path, n: int) -> tuple:
    X, y = whole_covtype(folder)
    chosen = np.random.default_rng(0).permutation(len(y))[:n]
    return np.ascontiguousarray(X[chosen]), y[chosen]


def dense(folder: Path, name: str) -> tuple:
    X, y = load(folder, name)
    return X.toarray(), y


def digits_like(n: int, n_classes: int) -> tuple:
    """784 features in [0, 1], most of them zero: noisy copies of ten random prototypes."""
    rng = np.random.default_rng(0)
    prototypes = np.clip(rng.normal(size=(10, 784)) - 0.8, 0.0, None)
    y = rng.integers(0, 10, n)
    X = np.clip(prototypes[y] + 0.5 * rng.normal(size=(n, 784)) - 0.4, 0.0, 1.0)
    return X.astype(np.float32), y if n_classes == 10 else np.where(y == 0, 1.0, -1.0)


def clouds(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Sixteen features; classes that overlap, a few hundred samples in each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, n)
    return rng.normal(size=(n_classes, 16))[y] + 0.7 * rng.normal(size=(n, 16)), y


def friedman(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten features and standardised targets with noise."""
    X, y = make_friedman1(n, noise=1.0, random_state=0)
    return X, (y - y.mean()) / y.std()


def cases(folder: Path | None) -> Iterator[Case]:
    yield Case("clouds-26", lambda: clouds(15_000, 26), {"C": 10.0}, quick=True)
    yield Case("clouds-100", lambda: clouds(20_000, 100), {"C": 10.0})
    tube = {"C": 10.0, "epsilon": 0.1, "gamma": 0.1}
    yield Case("friedman-20k", lambda: friedman(20_000), tube, kind=SVR)
    yield Case("friedman-200k", lambda: friedman(200_000), tube, kind=SVR)
    density = {"nu": 0.1, "gamma": 0.05}
    yield Case("one-class-50k", lambda: shells(50_000), density, kind=OneClassSVM)
    yield Case("gauss-C100", lambda: two_gaussians(4000), {"C": 100.0, "gamma": 0.5}, quick=True)
    yield Case("gauss-C1e4", lambda: two_gaussians(4000), {"C": 1e4, "gamma": 0.5})
    yield Case("digits-one", lambda: digits_like(60_000, 2), {"C": 1.0})
    yield Case("digits-ten", lambda: digits_like(60_000, 10), {"C": 1.0})
    for n in (10_000, 100_000, 500_000, 2_000_000):
        options = {"C": 1.0, "gamma": 0.05}
        yield Case(f"shells-{n}", lambda n=n: shells(n), options, limited=n > 500_000)
    gauss = {"C": 1.0, "gamma": 0.5}
    yield Case("gauss-2e6", lambda: two_gaussians(2_000_000), gauss, limited=True)
    if folder is None:
        return
    rbf = {"C": 128.0, "gamma": 8.0}
    for n, name in ((20_000, "20k"), (80_000, "80k"), (290_000, "290k"), (581_012, "581k")):
        yield Case(f"covtype-{name}", lambda n=n: covtype(folder, n), rbf)
    yield Case("covtype-linear", lambda: covtype(folder, 20_000), {"kernel": "linear"})
    poly = {"kernel": "poly", "gamma": 1.0, "coef0": 1.0, "degree": 3}
    yield Case("covtype-poly", lambda: covtype(folder, 20_000), poly)
    yield Case("a9a", lambda: dense(folder, "a9a"), {"gamma": 1 / 123}, quick=False)
    for C in (100.0, 1e4):
        yield Case(f"a9a-C{C:g}", lambda: dense(folder, "a9a"), {"gamma": 1 / 123, "C": C})
    yield Case("w7a", lambda: dense(folder, "w7a"), {"gamma": 1 / 300})
    yield Case("reuters", lambda: load(folder, "lasvm_reuters"), {"gamma": 1.0}, quick=True)


def violation(model: SVC, X, y, device: str) -> float:
    """The maximal violating pair of a model of two classes, from its coefficients."""
    if device == "cuda":
        import cupy as xp
    else:
        xp = np
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    alpha = np.zeros(len(y))
    alpha[model.support_] = np.abs(
        model.dual_coef_ if not sp.issparse(model.dual_coef_) else model.dual_coef_.toarray()
    ).ravel()
    rows = X.toarray() if sp.issparse(X) else X
    basis = xp.asarray(rows[model.support_], dtype=np.float64)
    weights = xp.asarray((alpha * signs)[model.support_])
    values = np.empty(len(y))
    step = max(1, _JUDGED_VALUES // max(1, len(basis)))
    for start in range(0, len(y), step):
        part = xp.asarray(rows[start : start + step], dtype=np.float64)
        values_of = _kernel(xp, model, part, basis) @ weights
        values[start : start + step] = values_of.get() if device == "cuda" else values_of
    pull = signs - values
    C = model.C
    can_grow = np.where(signs > 0, alpha < C, alpha > 0)
    can_shrink = np.where(signs > 0, alpha > 0, alpha < C)
    return float(pull[can_grow].max() - pull[can_shrink].min())


def _kernel(xp, model: SVC, A, B):
    products = A @ B.T
    if model.kernel == "linear":
        return products
    if model.kernel == "poly":
        return (model.gamma * products + model.coef0) ** model.degree
    gamma = model.gamma if not isinstance(model.gamma, str) else model._gamma
    distances = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2.0 * products
    return xp.exp(-gamma * xp.maximum(distances, 0.0))


def measure(case: Case, device: str, repeat: int, limit: float) -> dict:
    X, y = case.make()
    seconds, model = [], None
    for number in range(repeat + 1):
        seconds_allowed = limit if case.limited else None
        model = case.kind(device=device, time_limit=seconds_allowed, random_state=0, **case.options)
        if device == "cpu":
            model.set_params(solver="sweeps")
        start = time.perf_counter()
        model.fit(X, y)
        taken = time.perf_counter() - start
        seconds += [taken] if number else []
        if taken > 0.5 * limit:
            seconds = seconds or [taken]
            break
    start = time.perf_counter()
    model.predict(X)
    line = {
        "case": case.name, "n": X.shape[0], "d": X.shape[1], "seconds": min(seconds),
        "predict": time.perf_counter() - start, "status": model.fit_report_.status,
        "n_support": len(model.support_), "reported": model.fit_report_.kkt_violation,
        "details": model.fit_report_.problems[0].details,
        "reason": model.fit_report_.problems[0].reason,
    }  # fmt: skip
    if len(getattr(model, "classes_", ())) == 2:
        line["judged"] = violation(model, X, y, device)
    return line


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of LIBSVM files; see README.md")
    parser.add_argument("--only", default="*", help="names of cases, with * and commas")
    parser.add_argument("--quick", action="store_true", help="only what is small")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--limit", type=float, default=60.0, help="seconds for one fit of two million rows"
    )
    parser.add_argument("--out", type=Path, help="a JSON file of all figures")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    patterns = options.only.split(",")
    print(
        f"{'case':16} {'rows':>9} {'fit s':>8} {'predict s':>9} {'cuML s':>7} {'SVs':>7} violation"
    )
    lines = []
    for case in cases(options.data):
        if not any(fnmatch(case.name, p) for p in patterns) or (options.quick and not case.quick):
            continue
        line = measure(case, options.device, options.repeat, options.limit)
        lines.append(line)
        judged = f"{line['judged']:.1e}" if "judged" in line else f"{line['reported']:.1e} (own)"
        cuml = CUML_SECONDS.get(case.name, "")
        print(
            f"{case.name:16} {line['n']:9} {line['seconds']:8.3f} {line['predict']:9.3f} "
            f"{cuml:>7} {line['n_support']:7} {judged} {line['status']}",
            flush=True,
        )
        if options.out:
            options.out.write_text(json.dumps(lines, indent=1))
    return lines


if __name__ == "__main__":
    main()
