"""What `peers.py` trains on: every case is one problem with its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_friedman1

import data

TOLERANCE = 1e-3


@dataclass(frozen=True)
class Case:
    """One problem.

    Attributes
    ----------
    source : name of the file, or "gaussians" for two generated ones, or "friedman" for a
        generated regression
    kind : the class that solves it; its samples are −1 or +1, targets, or of one class
    gamma : that of the kernel; 0 stands for 1 / number of features
    epsilon : half the width of the tube of an SVR
    nu : of the kinds that have one; that of a NuSVC is a part of the largest feasible one
    positive : the class that stands against the rest, None where there are two classes
    rows : size of the random sample (or of the generated set), None for all
    unit : whether every feature is scaled to [0, 1]
    sparse : whether the contestants get X as CSR
    test : name of the file whose prediction is timed too
    series, at : the plot that the case is a point of ("n" or "C"), and where on its axis
    """

    name: str
    source: str
    C: float
    gamma: float = 1.0
    kernel: str = "rbf"
    positive: float | None = None
    rows: int | None = None
    unit: bool = False
    sparse: bool = False
    test: str | None = None
    series: str | None = None
    at: float = 0.0
    kind: str = "SVC"
    epsilon: float = 0.0
    nu: float = 0.0

    def parameters(self, samples: Samples) -> dict:
        """What the contestants and the judge are told beside X and y."""
        nu, y = self.nu, samples.y
        if self.kind == "NuSVC":  # the largest one would fail by its rounding
            nu *= (1 - 1e-12) * 2 * min(np.mean(y > 0), np.mean(y < 0))
        gamma = self.gamma or 1.0 / samples.X.shape[1]
        return {
            "C": self.C, "kernel": self.kernel, "gamma": gamma, "kind": self.kind,
            "epsilon": self.epsilon, "nu": float(nu),
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class Samples:
    """The data of a case; y holds −1 and +1, or targets of mean 0 and deviation 1."""

    X: np.ndarray | sp.csr_matrix
    y: np.ndarray
    X_test: np.ndarray | sp.csr_matrix | None = field(default=None)


def _gaussians(C: float) -> Case:
    name = f"gaussians-C{C:.0f}" if C < 1e4 else f"gaussians-C1e{np.log10(C):.0f}"
    return Case(name, "gaussians", C=C, gamma=0.5, rows=4000, series="C", at=C)


def _covtype(rows: int) -> Case:
    return Case(
        f"covtype-{rows // 1000}k", "covtype", C=128, gamma=8, positive=2, rows=rows, unit=True,
        series="n", at=rows,
    )  # fmt: skip


_MAIN = (
    Case("a9a", "a9a", C=1, gamma=0.05, test="a9a.t"),
    Case("a9a-wide", "a9a", C=1, gamma=0.005),
    Case("w7a", "w7a", C=5, gamma=0.05),
    Case("a1a", "a1a", C=1000, gamma=0.05),
    *(_gaussians(C) for C in (1.0, 1e2, 1e4, 1e6)),
    Case("banana", "banana1.t", C=316.2, gamma=0.5),
    Case("splice", "splice.t", C=1000, gamma=1 / (2 * 70**2)),
    _covtype(20_000),
    Case("covtype-linear", "covtype", C=1, kernel="linear", positive=2, rows=20_000, unit=True),
    Case("shuttle", "shuttle", C=1000, gamma=1 / (2 * 50**2), positive=1),
    # Sparse input; w8a as an array too, since that is the faster form for some.
    Case("w8a", "w8a", C=5, gamma=0.05, sparse=True),
    Case("w8a-dense", "w8a", C=5, gamma=0.05),
    Case("reuters-linear", "lasvm_reuters", C=1, kernel="linear", sparse=True),
    Case("reuters-rbf", "lasvm_reuters", C=1, gamma=1.0, sparse=True),
    # Where the cost of a call counts.
    *(Case(f"small-{n}", "gaussians", C=1, gamma=0.5, rows=n) for n in (20, 50, 100, 300, 1000)),
)
_SCALING = (
    *(_covtype(rows) for rows in (5_000, 10_000, 40_000, 80_000)),
    *(_gaussians(C) for C in (1e1, 1e3, 1e5)),
)
_REGRESSIONS = {
    "housing": "housing_scale", "abalone": "abalone_scale", "cpusmall": "cpusmall_scale",
    "friedman": "friedman",
}  # fmt: skip


def _regression(name: str, C: float, gamma: float, kind: str, **others) -> Case:
    width = f"e{others['epsilon']:g}" if kind == "SVR" else f"nu{others['nu']:g}"
    cost = f"C{C:g}" if C < 1e4 else f"C1e{np.log10(C):.0f}"
    case = f"{kind.lower()}-{name}-{cost}-{width}-{'g1' if gamma else 'gd'}"
    rows = 20_000 if name == "friedman" else None
    return Case(case, _REGRESSIONS[name], C, gamma, rows=rows, kind=kind, **others)


# Regression, ν and outliers.
_FAMILY = (
    *(
        _regression(name, C, gamma, kind, **others)
        for name in _REGRESSIONS
        for kind, others in (
            ("SVR", {"epsilon": 0.1}), ("SVR", {"epsilon": 0.01}), ("NuSVR", {"nu": 0.5}),
        )
        for gamma in (0.0, 1.0)
        for C in (1.0, 1e2, 1e4)
    ),
    *(
        Case(f"nusvc-{name}-{word}", name, C=1, gamma=0.05, kind="NuSVC", nu=part)
        for name in ("a9a", "w7a")
        for word, part in (("largest", 1.0), ("half", 0.5))
    ),
    *(
        Case(f"oneclass-shuttle-nu{nu:g}", "shuttle", C=1, gamma=1 / (2 * 50**2), positive=1,
             kind="OneClassSVM", nu=nu)
        for nu in (0.01, 0.1, 0.5)
    ),
    *(
        Case(f"oneclass-covtype-nu{nu:g}", "covtype", C=1, gamma=8, positive=2, rows=20_000,
             unit=True, kind="OneClassSVM", nu=nu)
        for nu in (0.01, 0.1, 0.5)
    ),
)  # fmt: skip
QUICK = ("small-*", "gaussians-C1", "gaussians-C10", "gaussians-C100", "a1a", "banana", "splice")


def names(text: str | None) -> list[str]:
    """The names of a list that is separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def select(
    patterns: list[str] | None, *, quick: bool = False, scaling: bool = False, family: bool = False
) -> list[Case]:
    """The cases asked for; those of one series follow each other in ascending order."""
    known = {case.name: case for case in (*_MAIN, *_SCALING, *_FAMILY)}
    if patterns:
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in known):
                raise ValueError(f"no case is called {pattern!r}; there are: {', '.join(known)}.")
        cases = [case for case in known.values() if _matches(case, patterns)]
    else:
        cases = [*_MAIN, *(_SCALING if scaling else ())]
        if family:
            cases = list(_FAMILY)
        if quick:
            cases = [case for case in cases if _matches(case, QUICK)]
    first = {case.series: at for at, case in reversed(list(enumerate(cases))) if case.series}
    place = {case.name: first.get(case.series or "", at) for at, case in enumerate(cases)}
    return sorted(cases, key=lambda case: (place[case.name], case.at))


def _matches(case: Case, patterns) -> bool:
    return any(fnmatchcase(case.name, pattern) for pattern in patterns)


def read(case: Case, folder: Path | None) -> Samples:
    """The data of a case, from its file or generated."""
    if case.source == "gaussians":
        assert case.rows is not None
        return Samples(*data.two_gaussians(case.rows))
    if case.source == "friedman":
        X, y = make_friedman1(case.rows, noise=1.0, random_state=0)
        return Samples(2 * X - 1, _standardised(y))
    if folder is None:
        raise FileNotFoundError("needs --data")
    X, y = _file(folder, case.source, case.unit)
    if case.kind in ("SVR", "NuSVR"):
        return Samples(_between(X.toarray()), _standardised(y))
    y = _signs(y, case.positive)
    if case.kind == "OneClassSVM":
        X, y = X[y > 0], y[y > 0]
    if case.rows is not None:
        # Prefixes of one permutation: the smaller samples are parts of the larger ones.
        chosen = np.random.default_rng(0).permutation(len(y))[: case.rows]
        X, y = X[chosen], y[chosen]
    X_test = None if case.test is None else _container(data.load(folder, case.test)[0], case)
    return Samples(_container(X, case), y, X_test)


@lru_cache(maxsize=1)
def _file(folder: Path, source: str, unit: bool):
    """A file as it is read; the last one is kept, since neighbouring cases share it."""
    X, y = data.load(folder, source)
    return (data.scale_unit(X) if unit else X), y


def _signs(y: np.ndarray, positive: float | None) -> np.ndarray:
    classes = np.unique(y)
    if positive is None and len(classes) != 2:
        raise ValueError(f"needs two classes, found {len(classes)}.")
    return data.one_against_rest(y, classes[1] if positive is None else positive)


def _container(X: sp.csr_matrix, case: Case):
    return sp.csr_matrix(X) if case.sparse else X.toarray()


def _standardised(y: np.ndarray) -> np.ndarray:
    return (y - y.mean()) / y.std()


def _between(X: np.ndarray) -> np.ndarray:
    """Every feature in [−1, 1]."""
    low, width = X.min(axis=0), np.ptp(X, axis=0)
    return 2 * (X - low) / np.where(width > 0, width, 1.0) - 1
