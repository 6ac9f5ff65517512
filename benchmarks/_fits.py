"""Fits, predictions and one-row predictions of ours beside those of the peers, in one process.

The contestants take turns and the best time of each counts. Beside each row stands a floor:
the time of union of support vectors × n kernel values at the speed of a matrix product,
measured on the same data in the same run.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC as SklearnSVC

from maxmargin import SVC
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.parallel import n_cores, session

_FLOOR_SAMPLES = 1024


@dataclass
class Case:
    """One row: data to fit, data to predict, options of SVC."""

    name: str
    X: np.ndarray
    y: np.ndarray
    options: dict = field(default_factory=dict)
    X_test: np.ndarray | None = None


class _Libsvm:
    """LIBSVM's own Python interface, with the parameters of scikit-learn's SVC."""

    def __init__(self, C=1.0, gamma="scale", kernel="rbf"):
        self.C, self.gamma, self.kernel = C, gamma, kernel

    def fit(self, X, y):
        from libsvm.svmutil import svm_parameter, svm_problem, svm_train

        gamma = self.gamma
        if gamma == "scale":
            mean = X.mean()
            square = X.multiply(X).mean() if sp.issparse(X) else np.square(X).mean()
            gamma = 1.0 / (X.shape[1] * (square - mean**2))
        number = {"linear": 0, "rbf": 2}[self.kernel]
        options = f"-q -t {number} -c {self.C} -g {gamma} -e 0.001 -m 1000"
        self._model = svm_train(svm_problem(y, X), svm_parameter(options))
        return self

    def predict(self, X):
        from libsvm.svmutil import svm_predict

        return np.array(svm_predict([], X, self._model, "-q")[0])


def contestants(chosen: Iterable[str]) -> dict[str, Callable]:
    """The chosen contestants that are installed, by name."""
    found: dict[str, Callable] = {"maxmargin": SVC, "scikit-learn": SklearnSVC}
    try:
        from sklearnex.svm import SVC as IntelexSVC

        found["intelex"] = IntelexSVC
    except ImportError:
        pass
    try:
        import libsvm.svmutil  # noqa: F401

        found["libsvm"] = _Libsvm
    except ImportError:
        pass
    return {name: make for name, make in found.items() if name in chosen}


# Predictions of each, unless they exceed the patience: some take less than a millisecond.
_PREDICTIONS = 20
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
_clock = time.perf_counter


def best_seconds(calls: dict[str, Callable], repeat: int, patience: float) -> dict[str, float]:
    """Best time of each call; they take turns until `repeat` or `patience` seconds each."""
    best, spent = dict.fromkeys(calls, math.inf), dict.fromkeys(calls, 0.0)
    for turn in range(repeat):
        for name, call in calls.items():
            if turn and spent[name] > patience:
                continue
            start = _clock()
            call()
            taken = _clock() - start
            best[name], spent[name] = min(best[name], taken), spent[name] + taken
    return best


def floor_seconds(case: Case, model) -> float:
    """Time of union of support vectors × n kernel values at the speed of a matrix product."""
    X = case.X[: min(_FLOOR_SAMPLES, len(case.y))]
    kernel = FeatureKernelMatrix(X, KernelFunction(model.kernel, model._gamma), np.float32)
    every, out = np.arange(kernel.n), np.empty((kernel.n, kernel.n), np.float32)
    with session(n_cores()):
        kernel.block(every, out=out)
        start = time.perf_counter()
        kernel.block(every, out=out)
        each = (time.perf_counter() - start) / out.size
    return each * len(model.support_) * case.X.shape[0]


def _peers(best: dict[str, float]) -> float:
    """The best peer: of fits below 5 ms scikit-learn's estimator, not LIBSVM's bare interface."""
    peers = {name: value for name, value in best.items() if name != "maxmargin"}
    if peers.get("scikit-learn", math.inf) < 5e-3:
        peers.pop("libsvm", None)
    return min(peers.values(), default=math.nan)


def measure(case: Case, makers: dict[str, Callable], repeat: int, patience: float) -> dict:
    """Seconds of fit, predict and predict of one row, for each contestant."""
    models: dict = {}

    def fitted(name, make):
        models[name] = make(**case.options).fit(case.X, case.y)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SVC(**case.options).fit(case.X, case.y)  # loads what is compiled
        fit = best_seconds(
            {name: (lambda n=name, m=make: fitted(n, m)) for name, make in makers.items()},
            repeat, patience,
        )  # fmt: skip
        X_test = case.X if case.X_test is None else case.X_test
        for rows in (2, 100):  # few rows and many: loads what is compiled
            models["maxmargin"].predict(X_test[:rows])
        predict = best_seconds(
            {name: (lambda m=model: m.predict(X_test)) for name, model in models.items()},
            _PREDICTIONS, patience,
        )  # fmt: skip
        row = X_test[:1]
        one = best_seconds(
            {name: (lambda m=model: m.predict(row)) for name, model in models.items()},
            20 * repeat, patience / 10,
        )  # fmt: skip
    ours, report = models["maxmargin"], models["maxmargin"].fit_report_
    return {
        "name": case.name, "n": case.X.shape[0], "d": case.X.shape[1],
        "classes": len(ours.classes_), "SVs": len(ours.support_), "fit": fit, "predict": predict,
        "one row": one, "floor": floor_seconds(case, ours), "status": report.status,
        "violation": report.kkt_violation, "solver": report.solver,
    }  # fmt: skip


def _ratio(best: dict[str, float]) -> float:
    return _peers(best) / best["maxmargin"]


def print_row(found: dict, names: list[str]) -> None:
    times = " ".join(f"{1e3 * found['fit'].get(name, math.nan):9.2f}" for name in names)
    print(
        f"{found['name']:34} {found['n']:6} {found['d']:5} {found['classes']:4} {found['SVs']:5} "
        f"{times} {_ratio(found['fit']):6.2f} {1e3 * found['floor']:8.2f} "
        f"{_ratio(found['predict']):7.1f} {_ratio(found['one row']):7.1f}  {found['solver']}",
        flush=True,
    )


def print_head(names: list[str]) -> None:
    print("milliseconds of a fit, and ratios of the best peer's time to ours")
    print(
        f"{'set':34} {'n':>6} {'d':>5} {'k':>4} {'SVs':>5} "
        + " ".join(f"{name:>9}"[:9] for name in names)
        + f" {'ratio':>6} {'floor':>8} {'predict':>7} {'one row':>7}  solver"
    )


def print_means(rows: list[dict]) -> None:
    """Geometric means of the ratios, over all and over the longer ones."""
    for title, least in (("all", 0.0), ("best peer over 20 ms", 0.02), ("over 50 ms", 0.05)):
        some = [_ratio(row["fit"]) for row in rows if _peers(row["fit"]) > least]
        if some:
            mean = math.exp(sum(map(math.log, some)) / len(some))
            print(f"fit, {title}: geometric mean {mean:.2f}, least {min(some):.2f} of {len(some)}")


def run(cases: Callable[[str | None, Callable], Iterable[Case]], arguments, description: str):
    """The command line of both benchmarks.

    `cases` takes the folder of the data and a function that says whether a name is wanted.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", help="folder with LIBSVM files NAME or NAME.xz")
    parser.add_argument("--only", default="*", help="names or patterns, separated by commas")
    parser.add_argument("--repeat", type=int, default=5, help="fits of each (default: 5)")
    parser.add_argument(
        "--patience", type=float, default=5.0, help="seconds for each contestant (default: 5)"
    )
    parser.add_argument(
        "--contestants", default="maxmargin,scikit-learn,intelex,libsvm", help="separated by commas"
    )
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall",
        help="cpu: seconds of all threads together, for machines that are busy",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    global _clock
    _clock = CLOCKS[options.clock]
    makers = contestants(options.contestants.split(","))
    print_head(list(makers))
    rows = []
    patterns = options.only.split(",")
    for case in cases(options.data, lambda name: any(fnmatch(name, p) for p in patterns)):
        rows.append(measure(case, makers, options.repeat, options.patience))
        print_row(rows[-1], list(makers))
    print_means(rows)
    return rows
