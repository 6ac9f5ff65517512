"""Table 2 of Bo, Wang and Jiao: accuracy on fifteen sets, tuned by ten folds inside ten folds.

The kernel matrix of a set and θ is computed once; every training works on a slice of it. What an
outer fold and θ gave is one file, so that a run which was stopped goes on where it was.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from numba import njit
from scipy.stats import ttest_rel
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from data import load
from maxmargin.decisions import in_form
from maxmargin.estimators.multiclass import binary_tasks
from maxmargin.optimality import violation_and_levels
from maxmargin.solvers.common.pair_steps import SECOND_ORDER, penalties_of, smo_steps
from maxmargin.solvers.greedy.steps import coordinate_sweeps, greedy_steps

# Name of the set: the paper's accuracies of GS-SVMs, HM-SVMs and SVMs.
PAPER = {
    "zoo": (97.09, 96.09, 96.09),
    "iris": (95.33, 92.00, 96.00),
    "wine": (98.89, 96.64, 98.89),
    "glass": (71.54, 68.66, 66.81),
    "heart": (83.70, 76.67, 83.23),
    "liver-disorders": (66.03, 61.69, 71.29),
    "ionosphere": (94.00, 94.00, 94.02),
    "wdbc": (97.72, 96.49, 97.54),
    "australian": (84.93, 78.55, 84.49),
    "pima": (77.21, 70.55, 77.08),
    "vowel": (98.29, 99.05, 99.05),
    "german.numer": (74.20, 69.30, 75.40),
    "segment": (97.32, 96.84, 97.01),
    "splice_uci": (96.72, 96.31, 96.25),
    "page-blocks": (96.45, 96.50, 96.93),
}
THETAS = 2.0 ** np.arange(-8, 9)
COSTS = 2.0 ** np.arange(-1, 11)
HARD = 1e6  # stands for the infinite C of a hard margin
# The models of one training part, in this order, then SVMs of all C and the hard-margin SVM.
SINGLE_MODELS = ("GS-SVM", "GS-SVM with b", "HM-SVM without b")
METHODS = (*SINGLE_MODELS, "HM-SVM", "SVM")
FOLDS = 10
TOL = 1e-3
# Where a hard margin does not exist neither SMO nor coordinate descent ever converges.
STEPS_PER_SAMPLE = 100
STEPS_OF_LARGE = 20_000
WORK_OF_SWEEPS = 50_000_000
MAX_SWEEPS = 500
# Up to this many samples of a binary problem SMO takes all of them at once.
SMALL = 1000
# Sets of more samples than this have no column "HM without b", for its time.
LARGE = 3000


def greedy_training(K: np.ndarray, signs: np.ndarray, constant: float):
    """β and b of GS-SVM on a kernel matrix that is there."""
    n = len(signs)
    scale = signs / np.sqrt(np.diag(K) + constant)
    chosen, errors = np.empty(n, np.int64), np.empty(n, np.int64)
    coefficients, decreases = np.empty(n), np.empty(n)
    _, steps, _ = greedy_steps(
        (K, np.arange(n)), None, signs.copy(), scale, constant, 1e-6, n,
        chosen, coefficients, decreases, np.empty(0, np.int64), signs, errors,
    )  # fmt: skip
    beta = np.zeros(n)
    beta[chosen[:steps]] = coefficients[:steps]
    return beta, constant * beta.sum()


def hard_margin_without_b(K: np.ndarray, signs: np.ndarray, start: np.ndarray):
    """β of the paper's problem (1), which has no constraint Σβ = 0, by coordinate descent."""
    beta = start.copy()
    sweeps = min(MAX_SWEEPS, max(10, WORK_OF_SWEEPS // len(signs) ** 2))
    coordinate_sweeps(K, signs, beta, signs - K @ beta, sweeps)
    return beta, 0.0


def exact_trainings(K: np.ndarray, signs: np.ndarray):
    """β, b and whether SMO converged, for C = 2⁻¹ … 2¹⁰ and the hard margin, warm-started."""
    beta, residual = np.zeros(len(signs)), signs.copy()
    last_cost = COSTS[0]
    for cost in (*COSTS, HARD):
        # Both β and β·(C/last C) are feasible; begin at the one of the lower objective.
        factor = cost / last_cost
        scaled, of_scaled = factor * beta, signs - factor * (signs - residual)
        if scaled @ (signs + of_scaled) > beta @ (signs + residual):
            beta, residual = scaled, of_scaled
        lower, upper = np.where(signs > 0, 0.0, -cost), np.where(signs > 0, cost, 0.0)
        beta = np.clip(beta, lower, upper)
        converged = optimise(K, beta, residual, lower, upper)
        _, (intercept,) = violation_and_levels(beta, residual, lower, upper)
        yield beta.copy(), intercept, converged
        last_cost = cost


def optimise(K, beta, residual, lower, upper) -> bool:
    """SMO on the samples that may move, more of them where that was not enough; in place."""
    active = np.full(len(beta), len(beta) <= SMALL)
    steps_left = STEPS_PER_SAMPLE * len(beta) if len(beta) <= SMALL else STEPS_OF_LARGE
    while True:
        violation, (middle,) = violation_and_levels(beta, residual, lower, upper)
        if violation <= TOL or steps_left <= 0:
            return violation <= TOL
        can_grow, can_shrink = beta < upper, beta > lower
        pulled = (can_grow & (residual > middle)) | (can_shrink & (residual < middle))
        active |= pulled | (can_grow & can_shrink)
        chosen = np.flatnonzero(active)
        before = beta[chosen]
        steps_left -= steps_on(K, chosen, beta, residual[chosen], lower, upper, steps_left)
        changed = beta[chosen] != before
        if not changed.any():
            return False
        take_off(K, chosen[changed], (beta[chosen] - before)[changed], residual)


def steps_on(K, chosen, beta, residual, lower, upper, limit) -> int:
    """SMO on the chosen samples alone, which changes β; the number of steps it took."""
    n = len(chosen)
    own = K if n == len(K) else block(K, chosen)
    part, low, high = beta[chosen], lower[chosen], upper[chosen]
    grow, shrink = penalties_of(part, low, high, 0.0, False, TOL)
    _, steps, *_ = smo_steps(
        own, np.arange(n), np.zeros(n, np.int64), 0, np.diag(own).astype(np.float32),
        part, residual, low, high, grow, shrink, 0.0, 0.9 * TOL, limit, SECOND_ORDER,
    )  # fmt: skip
    beta[chosen] = part
    return steps


def block(K: np.ndarray, index: np.ndarray) -> np.ndarray:
    """K[index][:, index]."""
    return K[index[:, np.newaxis], index]


@njit(cache=True)
def take_off(K, rows, change, residual):
    """residual −= change @ K[rows], without a copy of rows in another precision."""
    for k in range(len(rows)):
        row, factor = K[rows[k]], change[k]
        for j in range(len(residual)):
            residual[j] -= factor * row[j]


def accuracies(K, codes, n_classes, train, test) -> tuple[np.ndarray, int]:
    """Accuracy on `test` of all models trained on `train`.

    Returns
    -------
    accuracies of the 3 + 12 + 1 models, and the number of SMO runs that hit the limit of steps
    """
    n_models = len(SINGLE_MODELS) + len(COSTS) + 1
    tasks = binary_tasks(codes[train], n_classes, "ovo")
    decisions = np.empty((n_models, len(test), len(tasks)))
    unfinished = 0
    for at, task in enumerate(tasks):
        samples = train[task.index]
        if len(np.unique(task.signs)) < 2:
            # A class without a training sample in this fold (zoo has one of four) never wins.
            decisions[:, :, at] = task.signs[0] if len(samples) else 0.0
            continue
        own = block(K, samples)
        models = [greedy_training(own, task.signs, constant) for constant in (0.0, 1.0)]
        if len(codes) <= LARGE:
            models.append(hard_margin_without_b(own, task.signs, models[0][0]))
        else:
            models.append(models[0])
        for beta, intercept, converged in exact_trainings(own, task.signs):
            models.append((beta, intercept))
            unfinished += not converged
        betas = np.array([beta for beta, _ in models])
        values = betas @ K[np.ix_(samples, test)]
        decisions[:, :, at] = values + np.array([b for _, b in models])[:, np.newaxis]
    chosen = [in_form(np.ascontiguousarray(d.T), "votes", n_classes) for d in decisions]
    right = [np.mean(votes == codes[test]) for votes in chosen]
    return np.array(right), unfinished


def run_part(X, codes, train, test, seed, theta, path: Path) -> None:
    """Accuracies of all models of one θ, inside the training part and on the test part."""
    start = time.process_time()
    n_classes = codes.max() + 1
    squares = np.einsum("ij,ij->i", X, X)
    distances = np.maximum(squares[:, np.newaxis] + squares - 2 * X @ X.T, 0.0)
    K = np.exp(-theta * distances).astype(np.float32 if len(codes) > 2000 else np.float64)
    parts = [
        accuracies(K, codes, n_classes, train[part], train[held])
        for part, held in folds(codes[train], seed)
    ]
    tested, _ = accuracies(K, codes, n_classes, train, test)
    result = {
        "n": len(codes), "tuned": np.mean([right for right, _ in parts], axis=0).tolist(),
        "tested": tested.tolist(), "limit": sum(limit for _, limit in parts),
        "seconds": time.process_time() - start,
    }  # fmt: skip
    path.write_text(json.dumps(result))


def folds(codes: np.ndarray, seed: int):
    with warnings.catch_warnings():
        # Classes of fewer than ten samples, as in zoo and glass, are not in every fold.
        warnings.simplefilter("ignore", UserWarning)
        yield from StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(codes, codes)


def features(folder: Path, name: str, scaling: str) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features and class numbers; the paper does not say how it scaled.

    splice: the 3,175 sequences without an unknown base, a base being four indicators.
    """
    X, y = load(folder, name)
    X = X.toarray()
    if name == "splice_uci":
        known = (X > 0).all(axis=1)
        X, y = X[known], y[known]
        X = np.hstack([base == X for base in (1, 2, 3, 4)]).astype(float)
    X = X[:, np.ptp(X, axis=0) > 0]
    if scaling == "standard":
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    else:
        X = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    return X, np.unique(y, return_inverse=True)[1]


def table_2(folder: Path, sets, jobs: int, seed: int, scaling: str, out: Path) -> list[dict]:
    """The rows of the table, with those folds computed that `out` does not have yet."""
    out.mkdir(parents=True, exist_ok=True)
    missing, files = [], {}
    for name in sets:
        X, codes = features(folder, name, scaling)
        files[name] = []
        for k, (train, test) in enumerate(folds(codes, seed)):
            of_fold = [out / f"{name}-{scaling}-{seed}-{k}-{at}.json" for at in range(len(THETAS))]
            files[name].append(of_fold)
            for theta, path in zip(THETAS, of_fold, strict=True):
                if not path.exists():
                    missing.append(delayed(run_part)(X, codes, train, test, seed, theta, path))
    with threadpool_limits(1 if jobs > 1 else None):
        Parallel(n_jobs=jobs)(missing)
    rows = [row(name, [joined(of_fold) for of_fold in files[name]]) for name in sets]
    return [*rows, mean_row(rows)] if len(rows) > 1 else rows


def joined(paths: list[Path]) -> dict:
    """One outer fold: its files of all θ."""
    parts = [json.loads(path.read_text()) for path in paths]
    sums = {key: sum(part[key] for part in parts) for key in ("limit", "seconds")}
    lists = {key: [part[key] for part in parts] for key in ("tuned", "tested")}
    return {"n": parts[0]["n"]} | sums | lists


def row(name: str, parts: list[dict]) -> dict:
    by_fold = 100 * np.array([tested_accuracies(part) for part in parts])
    means = dict(zip(METHODS, by_fold.mean(axis=0), strict=True))
    errors = by_fold.std(axis=0, ddof=1) / np.sqrt(FOLDS)
    greedy, _, _, hard, soft = by_fold.T
    cells: dict = {"problem": name, "n": parts[0]["n"]}
    for method, paper in zip(("GS-SVM", "HM-SVM", "SVM"), PAPER[name], strict=True):
        at = METHODS.index(method)
        cells |= {method: means[method], f"± {method}": errors[at], f"{method}, paper": paper}
    without_b = means["HM-SVM without b"] if parts[0]["n"] <= LARGE else np.nan
    cells |= {"GS-SVM with b": means["GS-SVM with b"], "HM without b": without_b}
    cells |= {"GS vs SVM": verdict(greedy, soft), "GS vs HM": verdict(greedy, hard)}
    seconds = sum(part["seconds"] for part in parts)
    return cells | {"limit": sum(part["limit"] for part in parts), "CPU s": seconds}


def mean_row(rows: list[dict]) -> dict:
    cells = dict.fromkeys(rows[0], "") | {"problem": "mean"}
    for key, value in rows[0].items():
        if isinstance(value, float):
            cells[key] = float(np.nanmean([row[key] for row in rows]))
    return cells | {"CPU s": float(sum(row["CPU s"] for row in rows))}


def tested_accuracies(part: dict) -> list[float]:
    """Test accuracy of each method with the parameters that the inner folds choose."""
    tuned, tested = np.array(part["tuned"]), np.array(part["tested"])
    single = len(SINGLE_MODELS)
    columns = [slice(k, k + 1) for k in range(single)]
    columns += [slice(-1, None), slice(single, -1)]
    results = []
    for chosen in columns:
        # Of equals the one in the middle: grids have plateaus on small sets, with bad edges.
        best = np.argwhere(tuned[:, chosen] >= tuned[:, chosen].max() - 1e-12)
        theta, model = best[len(best) // 2]
        results.append(float(tested[:, chosen][theta, model]))
    return results


def verdict(one: np.ndarray, other: np.ndarray) -> str:
    """Two-tailed paired t-test over the folds at 5%."""
    if np.ptp(one - other) == 0:
        return "same"
    if ttest_rel(one, other).pvalue >= 0.05:
        return "similar"
    return "better" if one.mean() > other.mean() else "worse"
