"""The tables of Bo, Wang and Jiao: greedy stagewise training against SMO and exact SVMs.

Table 1: kernel evaluations on Adult and Web, θ = 0.05. Table 2: accuracy on fifteen sets by
ten-fold cross-validation, parameters tuned by ten folds inside each training part, with
two-tailed paired t-tests. Choices: what the options beyond the paper buy on held-out data.

    python benchmarks/papers/greedy_svm.py 1 --data FOLDER
    python benchmarks/papers/greedy_svm.py 2 --data FOLDER --jobs 2
    python benchmarks/papers/greedy_svm.py choices --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import ttest_rel
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from data import load
from maxmargin import SVC
from maxmargin.multiclass import binary_tasks, votes
from maxmargin.optimality import violation_and_intercept
from maxmargin.solvers import GreedyStagewise
from maxmargin.solvers._greedy_steps import greedy_steps
from maxmargin.solvers._smo_steps import SECOND_ORDER, set_penalties, smo_steps

THETA = 0.05
# Name of the set: the paper's name, SMO-1, SMO-2 and GS-SVMs, in millions of kernel evaluations.
TABLE_1 = {
    "a1a": ("Adult-1", 29.518, 17.375, 0.845),
    "a4a": ("Adult-4", 344.977, 231.349, 6.791),
    "a7a": ("Adult-7", 856.212, 698.864, 73.014),
    "w1a": ("Web-1", 11.543, 11.187, 0.439),
    "w4a": ("Web-4", 79.415, 79.008, 3.224),
    "w7a": ("Web-7", 691.419, 703.495, 31.981),
}
# Name of the set: the paper's accuracies of GS-SVMs, HM-SVMs and SVMs.
TABLE_2 = {
    "australian": (84.93, 78.55, 84.49),
    "german.numer": (74.20, 69.30, 75.40),
    "glass": (71.54, 68.66, 66.81),
    "heart": (83.70, 76.67, 83.23),
    "ionosphere": (94.00, 94.00, 94.02),
    "iris": (95.33, 92.00, 96.00),
    "liver-disorders": (66.03, 61.69, 71.29),
    "page-blocks": (96.45, 96.50, 96.93),
    "pima": (77.21, 70.55, 77.08),
    "segment": (97.32, 96.84, 97.01),
    "splice_uci": (96.72, 96.31, 96.25),
    "vowel": (98.29, 99.05, 99.05),
    "wdbc": (97.72, 96.49, 97.54),
    "wine": (98.89, 96.64, 98.89),
    "zoo": (97.09, 96.09, 96.09),
}
THETAS = 2.0 ** np.arange(-8, 9)
COSTS = 2.0 ** np.arange(-1, 11)
HARD = 1e6  # stands for the infinite C of a hard margin
METHODS = ("GS-SVM", "GS-SVM with b", "HM-SVM", "SVM")
FOLDS = 10
TOL = 1e-3
# Steps of SMO a sample and value of C: where a hard margin does not exist it never converges.
STEPS_PER_SAMPLE = 100
# Up to this many samples SMO takes all of them at once.
SMALL = 1000


def table_1(folder: Path, sets, costs) -> list[dict]:
    """Kernel evaluations of GS-SVM, one row at a time and in panels, and of our SMO."""
    rows = []
    for name in sets:
        X, y = load(folder, name)
        one = SVC(gamma=THETA, solver=GreedyStagewise(panel=1)).fit(X, y).fit_report_[0]
        start = time.perf_counter()
        panels = SVC(gamma=THETA, solver=GreedyStagewise(panel=64)).fit(X, y).fit_report_[0]
        seconds = time.perf_counter() - start
        smo = [SVC(C=C, gamma=THETA, solver="smo").fit(X, y).fit_report_ for C in costs]
        title, smo_1, smo_2, paper = TABLE_1[name]
        rows.append({
            "problem": title, "n": len(y), "n_SV": one.n_support,
            "SMO-1 (paper)": smo_1, "SMO-2 (paper)": smo_2,
            "our SMO": np.mean([r.kernel_evaluations for r in smo]) / 1e6 if smo else np.nan,
            "GS-SVM (paper)": paper,
            "needed": one.details["algorithm_kernel_evaluations"] / 1e6,
            "panel=1": one.details["training_kernel_evaluations"] / 1e6,
            "panel=64": panels.details["training_kernel_evaluations"] / 1e6,
            "s, panel=1": one.seconds, "s, panel=64": seconds,
        })  # fmt: skip
        print_rows(rows[-1:], header=len(rows) == 1)
    return rows


# Table 2. The kernel matrix of a set and θ is computed once; every training works on a slice of it.


def greedy_training(K: np.ndarray, signs: np.ndarray, constant: float):
    """β and b of GS-SVM on a kernel matrix that is there."""
    n = len(signs)
    scale = signs / np.sqrt(np.diag(K) + constant)
    chosen, errors = np.empty(n, np.int64), np.empty(n, np.int64)
    coefficients, decreases = np.empty(n), np.empty(n)
    _, steps, _ = greedy_steps(
        K, np.arange(n), signs.copy(), scale, constant, 1e-6, n,
        chosen, coefficients, decreases, np.empty(0, np.int64), signs, errors,
    )  # fmt: skip
    beta = np.zeros(n)
    beta[chosen[:steps]] = coefficients[:steps]
    return beta, constant * beta.sum()


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
        _, intercept = violation_and_intercept(beta, residual, lower, upper)
        yield beta.copy(), intercept, converged
        last_cost = cost


def optimise(K, beta, residual, lower, upper) -> bool:
    """SMO on the samples that may move, more of them where that was not enough; in place."""
    active = np.full(len(beta), len(beta) <= SMALL)
    steps_left = STEPS_PER_SAMPLE * len(beta)
    while True:
        violation, middle = violation_and_intercept(beta, residual, lower, upper)
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
        residual -= (beta[chosen] - before)[changed] @ K[chosen[changed]]


def steps_on(K, chosen, beta, residual, lower, upper, limit) -> int:
    """SMO on the chosen samples alone, which changes β; the number of steps it took."""
    n = len(chosen)
    own = np.ascontiguousarray(K[np.ix_(chosen, chosen)])
    part, low, high = beta[chosen], lower[chosen], upper[chosen]
    grow, shrink = np.empty(n, np.float32), np.empty(n, np.float32)
    set_penalties(part, low, high, grow, shrink)
    _, steps, *_ = smo_steps(
        own, np.arange(n), np.zeros(n, np.int64), 0, np.diag(own).astype(np.float32),
        part, residual, low, high, grow, shrink, 0.9 * TOL, limit, SECOND_ORDER,
    )  # fmt: skip
    beta[chosen] = part
    return steps


def accuracies(K, codes, n_classes, train, test) -> tuple[np.ndarray, int]:
    """Accuracy on `test` of GS-SVM, GS-SVM with b and the SVMs of all C, trained on `train`.

    Returns
    -------
    accuracies of the 2 + 12 + 1 models, and the number of SMO runs that hit the limit of steps
    """
    n_models = 2 + len(COSTS) + 1
    tasks = binary_tasks(codes[train], n_classes, "ovo")
    decisions = np.empty((n_models, len(test), len(tasks)))
    unfinished = 0
    for at, task in enumerate(tasks):
        samples = train[task.index]
        if len(np.unique(task.signs)) < 2:
            # A class without a training sample in this fold (zoo has one of four) never wins.
            decisions[:, :, at] = task.signs[0] if len(samples) else 0.0
            continue
        own = np.ascontiguousarray(K[np.ix_(samples, samples)])
        models = [greedy_training(own, task.signs, constant) for constant in (0.0, 1.0)]
        for beta, intercept, converged in exact_trainings(own, task.signs):
            models.append((beta, intercept))
            unfinished += not converged
        betas = np.array([beta for beta, _ in models])
        values = betas @ K[np.ix_(samples, test)]
        decisions[:, :, at] = values + np.array([b for _, b in models])[:, np.newaxis]
    right = [np.mean(votes(decision, n_classes) == codes[test]) for decision in decisions]
    return np.array(right), unfinished


def outer_fold(X, codes, train, test, seed) -> tuple[np.ndarray, int]:
    """Test accuracy of the four methods, each tuned by ten folds of the training part."""
    n_classes = codes.max() + 1
    squares = np.einsum("ij,ij->i", X, X)
    distances = np.maximum(squares[:, np.newaxis] + squares - 2 * X @ X.T, 0.0)
    inner = list(folds(codes[train], seed))
    unfinished = 0
    tuned, tested = [], []
    for theta in THETAS:
        K = np.exp(-theta * distances).astype(np.float32 if len(codes) > 2000 else np.float64)
        scores = []
        for part, held in inner:
            right, limit = accuracies(K, codes, n_classes, train[part], train[held])
            scores.append(right)
            unfinished += limit
        tuned.append(np.mean(scores, axis=0))
        tested.append(accuracies(K, codes, n_classes, train, test)[0])
    tuned, tested = np.array(tuned), np.array(tested)
    columns = (slice(0, 1), slice(1, 2), slice(-1, None), slice(2, -1))
    results = []
    for chosen in columns:
        # The first of equals: the smoothest function, and the smallest C.
        best = np.unravel_index(np.argmax(tuned[:, chosen]), tuned[:, chosen].shape)
        results.append(tested[:, chosen][best])
    return np.array(results), unfinished


def folds(codes: np.ndarray, seed: int):
    import warnings

    with warnings.catch_warnings():
        # Classes of fewer than ten samples, as in zoo and glass, are not in every fold.
        warnings.simplefilter("ignore", UserWarning)
        yield from StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(codes, codes)


def scaled_to_unit_interval(X) -> np.ndarray:
    """Features in [−1, 1]; the paper does not say how it scaled."""
    X = X.toarray()
    X = X[:, np.ptp(X, axis=0) > 0]
    return 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1


def table_2(folder: Path, sets, jobs: int, seed: int) -> list[dict]:
    rows = []
    for name in sets:
        X, y = load(folder, name)
        X, codes = scaled_to_unit_interval(X), np.unique(y, return_inverse=True)[1]
        start = time.perf_counter()
        parts = Parallel(n_jobs=jobs)(
            delayed(outer_fold)(X, codes, train, test, seed) for train, test in folds(codes, seed)
        )
        by_fold = 100 * np.array([part[0] for part in parts])
        gs, _, hard, soft = by_fold.T
        row = {"problem": name, "n": len(codes)}
        row |= {method: mean for method, mean in zip(METHODS, by_fold.mean(axis=0))}
        row |= {f"{m} (paper)": v for m, v in zip(("GS", "HM", "SVM"), TABLE_2[name])}
        row |= {"GS vs SVM": verdict(gs, soft), "GS vs HM": verdict(gs, hard)}
        row |= {"limit": sum(part[1] for part in parts), "s": time.perf_counter() - start}
        rows.append(row)
        print_rows(rows[-1:], header=len(rows) == 1)
    if len(rows) > 1:
        numbers = [key for key in rows[0] if isinstance(rows[0][key], float) and key != "s"]
        mean = {key: np.mean([row[key] for row in rows]) for key in numbers}
        print_rows(
            [rows[0] | dict.fromkeys(rows[0], "") | {"problem": "mean"} | mean], header=False
        )
    return rows


def verdict(one: np.ndarray, other: np.ndarray) -> str:
    """Two-tailed paired t-test over the folds at 5%."""
    if np.ptp(one - other) == 0:
        return "same"
    if ttest_rel(one, other).pvalue >= 0.05:
        return "similar"
    return "better" if one.mean() > other.mean() else "worse"


def choices(folder: Path, sets, seed: int) -> list[dict]:
    """Accuracy on the test file of each set: the paper's method and what goes beyond it."""
    rows = []
    for name in sets:
        (X, y), (X_test, y_test) = load(folder, name), load(folder, f"{name}.t")
        plain = GreedyStagewise()
        n_support = len(SVC(gamma=THETA, solver=plain).fit(X, y).support_)
        solvers = [plain, GreedyStagewise(intercept=True), GreedyStagewise(validation=0.2)]
        for size in (n_support // 8, n_support // 2):
            solvers += [GreedyStagewise(max_support=size, backfit=b) for b in (False, True)]
            solvers += [GreedyStagewise(max_support=size, intercept=True)]
        for solver in (*solvers, "smo"):
            model = SVC(gamma=THETA, solver=solver, random_state=seed).fit(X, y)
            rows.append({
                "problem": name, "solver": describe(solver), "n_SV": len(model.support_),
                "accuracy": 100 * model.score(X_test, y_test),
                "objective": model.fit_report_.objective, "s": model.fit_report_.seconds,
            })  # fmt: skip
            print_rows(rows[-1:], header=len(rows) == 1)
    return rows


def describe(solver) -> str:
    if isinstance(solver, str):
        return f"{solver}, C=1"
    default = vars(GreedyStagewise())
    return ", ".join(f"{k}={v}" for k, v in vars(solver).items() if v != default[k]) or "paper's"


def print_rows(rows: list[dict], *, header: bool) -> None:
    def text(value) -> str:
        return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"

    if header:
        print("| " + " | ".join(rows[0]) + " |\n|" + "---|" * len(rows[0]))
    for row in rows:
        cells = [text(v) if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", choices=("1", "2", "choices"))
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", help="names of sets; default: all of the table")
    parser.add_argument("--C", nargs="*", type=float, default=[1.0], help="table 1: for our SMO")
    parser.add_argument("--jobs", type=int, default=2, help="table 2: processes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="file for the rows as JSON")
    options = parser.parse_args()
    start = time.perf_counter()
    if options.table == "1":
        rows = table_1(options.data, options.sets or list(TABLE_1), options.C)
    elif options.table == "2":
        rows = table_2(options.data, options.sets or list(TABLE_2), options.jobs, options.seed)
    else:
        rows = choices(options.data, options.sets or ["a1a", "a4a", "w1a", "w4a"], options.seed)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
