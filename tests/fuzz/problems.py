"""Random training problems, each a function of its seed alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from . import family

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed", "callable")
# Iterations of a fit without a limit of its own: who needs more has lost its way. Methods that
# take small steps by choice may need more, and are stopped earlier.
GUARD = 5_000_000
GUARD_OF_SMALL_STEPS = 20_000


@dataclass
class FuzzProblem:
    """One problem: data, the parameters of an estimator, and how it is fitted.

    Attributes
    ----------
    params : keyword arguments of the estimator, without the solver
    solver, options : the solver's name and its options
    first : parameters of a fit that this one starts from, or None
    like_large : whether small problems take the paths that large ones take
    limited : whether max_iter is part of the problem, and not only a guard
    kind : the name of the estimator
    """

    seed: int
    X: object
    y: np.ndarray
    weights: np.ndarray | None
    params: dict
    solver: str
    options: dict
    first: dict | None
    like_large: bool
    limited: bool
    notes: list[str] = field(default_factory=list)
    kind: str = "SVC"

    def __str__(self) -> str:
        shape = f"{self.X.shape[0]}×{self.X.shape[1]} {self.X.dtype}"
        layout = "sparse" if sp.issparse(self.X) else "dense"
        what = f"{len(np.unique(self.y))} classes, " if "SVC" in self.kind else ""
        more = f" after {self.first}" if self.first else ""
        weights = ", weights" if self.weights is not None else ""
        large = ", like large" if self.like_large else ""
        return (
            f"seed {self.seed}: {self.kind}, {shape} {layout}{weights}{large}, {what}"
            f"{', '.join(self.notes)}; {self.solver}{self.options} {self.params}{more}"
        )


# From this seed on every eighth problem has categories; earlier seeds stay what they were.
FIRST_OF_CATEGORIES = 100_000
# From this one on the problems are those of the other four estimators.
FIRST_OF_FAMILY = 10_000_000


def exponential(A, B):
    """exp(−‖a − b‖₁), for `kernel=callable`."""
    A, B = (M.toarray() if sp.issparse(M) else np.asarray(M, float) for M in (A, B))
    return np.exp(-np.abs(A[:, np.newaxis] - B[np.newaxis]).sum(axis=2))


def make_problem(seed: int) -> FuzzProblem:
    """The problem of a seed."""
    return _of_family(seed) if seed >= FIRST_OF_FAMILY else _classification(seed)


def _classification(seed: int) -> FuzzProblem:
    """The problem of an `SVC`."""
    rng = np.random.default_rng([18, seed])
    notes: list[str] = []
    X, y = _samples(rng, notes)
    if seed >= FIRST_OF_CATEGORIES and seed % 8 == 0:
        X = _categories(rng, y, notes)
    kernel = str(rng.choice(KERNELS, p=[0.25, 0.12, 0.3, 0.11, 0.12, 0.1]))
    X = _scaled(rng, X, kernel, notes)
    if rng.random() < 0.3:
        X = X.astype(np.float32)
    params = _parameters(rng, kernel, X)
    if kernel == "precomputed":
        X = _matrix(rng, X.astype(np.float64), notes)
    elif kernel != "callable" and rng.random() < 0.25:
        X = sp.csr_array(X * (rng.random(X.shape) < 0.5))
    weights = _weights(rng, y)
    solver, options = _solver(rng, len(y))
    if solver == "greedy":
        weights, params["class_weight"] = None, None
    limited = bool(rng.random() < 0.08)
    params["max_iter"] = int(rng.integers(1, 200)) if limited else GUARD
    slow = solver not in ("auto", "decomposition") or params["cache_size"] < 200
    if not limited and slow:
        params["max_iter"], limited = 5 * GUARD_OF_SMALL_STEPS, True
    if options.get("working_set", 99) < 50 or options.get("selection") == "exhaustive":
        params["max_iter"], limited = min(params["max_iter"], GUARD_OF_SMALL_STEPS // 5), True
    first = None
    if rng.random() < 0.12:
        first = {"C": params["C"] * 10.0 ** rng.uniform(-2, 2), "max_iter": int(rng.integers(300))}
    return FuzzProblem(
        seed, X, y, weights, params, solver, options, first,
        like_large=bool(rng.random() < 0.35), limited=limited, notes=notes,
    )  # fmt: skip


def _of_family(seed: int) -> FuzzProblem:
    """The problem of one of the other four estimators."""
    rng = np.random.default_rng([20, seed])
    notes: list[str] = []
    kind = str(rng.choice(family.KINDS))
    X, y = _samples(rng, notes)
    kernel = str(rng.choice(KERNELS, p=[0.25, 0.12, 0.33, 0.08, 0.12, 0.1]))
    X = _scaled(rng, X, kernel, notes)
    params = _parameters(rng, kernel, X)
    y = family.targets_of(rng, kind, X, y, notes)
    if kernel == "precomputed":
        X = _matrix(rng, X, notes)
    elif kernel != "callable" and rng.random() < 0.25:
        X = sp.csr_array(X * (rng.random(X.shape) < 0.5))
    weights = _weights(rng, y if kind == "NuSVC" else np.zeros(len(y)))
    params = family.parameters_of(rng, kind, params, y, weights)
    solver, options = family.solver_of(rng, kind)
    limited = bool(rng.random() < 0.08)
    params["max_iter"] = int(rng.integers(1, 200)) if limited else GUARD
    if not limited and (solver in ("smo", "irwls", "hierarchical") or params["cache_size"] < 200):
        params["max_iter"], limited = 5 * GUARD_OF_SMALL_STEPS, True
    like_large = bool(rng.random() < 0.35)
    return FuzzProblem(
        seed, X, y, weights, params, solver, options, None, like_large, limited, notes, kind
    )


def _weights(rng, y) -> np.ndarray | None:
    """Weights of samples, some of them zero, but not all of one class."""
    if rng.random() >= 0.2:
        return None
    weights = rng.choice([0.1, 1.0, 2.0, 1000.0], len(y))
    if rng.random() < 0.5:
        weights *= rng.random(len(y)) > 0.1
        for label in np.unique(y):
            weights[np.flatnonzero(y == label)[0]] = 1.0
    return weights


def _samples(rng, notes) -> tuple[np.ndarray, np.ndarray]:
    n, d = int(np.exp(rng.uniform(np.log(5), np.log(201)))), int(rng.integers(1, 21))
    n_classes = int(rng.choice([2, 3, 4], p=[0.75, 0.15, 0.1]))
    kind = str(rng.choice(["apart", "overlapping", "random", "linear", "counts"]))
    notes.append(kind)
    y = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, max(0, n - n_classes))])
    if rng.random() < 0.15:  # few of one class
        y[n_classes:] = np.where(rng.random(len(y) - n_classes) < 0.95, 0, y[n_classes:])
        notes.append("unbalanced")
    n = len(y)
    X = rng.normal(size=(n, d))
    if kind in ("apart", "overlapping"):
        X += (6.0 if kind == "apart" else 1.0) * rng.normal(size=(n_classes, d))[y]
    elif kind == "linear":
        cuts = np.quantile(X[:, 0], np.linspace(0, 1, n_classes + 1)[1:-1])
        y = np.searchsorted(cuts, X[:, 0])
    elif kind == "counts":
        X = rng.poisson(0.7, size=(n, d)).astype(float) + (y[:, np.newaxis] == 1)
    if rng.random() < 0.25:  # some samples several times, at times with the other label
        again = rng.integers(0, n, n // 3)
        X[again] = X[rng.integers(0, n, len(again))]
        notes.append("duplicates")
    if rng.random() < 0.15:
        X[:, rng.integers(0, d)] = rng.choice([0.0, 1.0, -1e4])
        notes.append("constant feature")
    return (X, y) if len(np.unique(y)) > 1 else (X, np.arange(n) % 2)


def _categories(rng, y, notes) -> np.ndarray:
    """Standardised features of two values, whose commoner one is not zero."""
    notes.append("categories")
    share = rng.uniform(0.05, 0.35, (2, int(rng.integers(16, 40))))
    X = (rng.random((len(y), share.shape[1])) < share[y % 2]).astype(float)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _scaled(rng, X, kernel, notes):
    where = rng.random()
    if where < 0.25:
        scale = 10.0 ** rng.uniform(-8, 8)
        notes.append(f"×{scale:.1e}")
        return X * scale
    if where < 0.35:
        notes.append("features of many scales")
        return X * 10.0 ** rng.uniform(-3, 3, X.shape[1])
    if where < 0.4:
        notes.append("far from the origin")
        return X + 10.0 ** rng.uniform(1, 4)
    return X


def _parameters(rng, kernel, X) -> dict:
    gamma = rng.choice(["scale", "auto", "number"], p=[0.5, 0.15, 0.35])
    C = np.inf if rng.random() < 0.05 else float(10.0 ** rng.uniform(-3, 6))
    return {
        "kernel": exponential if kernel == "callable" else kernel,
        "C": C,
        "gamma": float(10.0 ** rng.uniform(-3, 2)) if gamma == "number" else str(gamma),
        "degree": int(rng.integers(0, 6)) if rng.random() < 0.5 else 3,
        "coef0": float(rng.choice([0.0, 1.0, -1.0])),
        "tol": float(rng.choice([1e-3, 1e-1, 1e-5])) if rng.random() < 0.4 else 1e-3,
        "cache_size": float(10.0 ** rng.uniform(-4, 0)) if rng.random() < 0.25 else 200.0,
        "shrinking": bool(rng.random() < 0.7),
        "class_weight": str(rng.choice(["balanced"])) if rng.random() < 0.15 else None,
        "multi_class": "ovr" if rng.random() < 0.3 else "ovo",
        "random_state": int(rng.integers(1000)),
        "n_jobs": 2 if rng.random() < 0.1 else 1,
    }


def _matrix(rng, X, notes) -> np.ndarray:
    """A precomputed kernel matrix; some are indefinite."""
    size = np.abs(X).max() or 1.0
    if rng.random() < 0.3:
        A = rng.normal(size=(len(X), len(X)))
        notes.append("indefinite")
        return (A + A.T) * 10.0 ** rng.uniform(-3, 3)
    K = X @ X.T if rng.random() < 0.5 else (1.0 + (X / size) @ (X / size).T) ** 2
    return 0.5 * (K + K.T)


def _solver(rng, n: int) -> tuple[str, dict]:
    names = ("auto", "decomposition", "smo", "irwls", "cluster", "hierarchical", "greedy")
    name = str(rng.choice(names, p=[0.3, 0.17, 0.13, 0.15, 0.1, 0.1, 0.05]))
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    if name == "decomposition":
        return name, {"working_set": pick(2, 3, 5, 16, 40, 1024), "shrinking": pick(True, False)}
    if name == "smo":
        selections = ["second-order", "maximal-violating-pair"] + ["exhaustive"] * (n <= 30)
        return name, {"selection": pick(*selections), "shrinking": pick(True, False)}
    if name == "irwls":
        return name, {
            "chunk_size": pick("auto", "all", 2, 5, 20, 300),
            "selection": pick("random", "largest", "smallest"),
            "shrinking": pick(True, False),
        }
    if name == "cluster":
        return name, {
            "base": pick("auto", "smo", "irwls"),
            "clusters": pick("sqrt", 2, 5),
            "passes": pick(None, 1, 2),
            "boundary_clusters": pick(True, False),
            "weighted": pick(True, False),
            "continuation": pick(True, False),
        }
    if name == "hierarchical":
        return name, {
            "base": pick("auto", "smo", "irwls"),
            "partitions": pick(1, 2, 4, 7),
            "certify": pick(True, False),
            "filter_tol": pick(1.0, 0.1, 1e-3),
        }
    if name == "greedy":
        backfit = pick(True, False)
        return name, {
            "intercept": pick(True, False),
            "max_support": pick(None, 1, 10),
            "validation": 0.0 if backfit else pick(0.0, 0.3),
            "backfit": backfit,
        }
    return name, {}
