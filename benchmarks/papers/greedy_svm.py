"""The tables of Bo, Wang and Jiao: greedy stagewise training against SMO and exact SVMs.

Table 1: kernel evaluations on Adult and Web, θ = 0.05. Table 2: accuracy on fifteen sets by
ten-fold cross-validation, parameters tuned by ten folds inside each training part, with
two-tailed paired t-tests. Choices: what the options beyond the paper buy on held-out data. Speed:
seconds beside the exact default.

    python benchmarks/papers/greedy_svm.py 1 --data FOLDER
    python benchmarks/papers/greedy_svm.py 2 --data FOLDER --jobs 2
    python benchmarks/papers/greedy_svm.py choices --data FOLDER
    python benchmarks/papers/greedy_svm.py speed --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from greedy_table_2 import PAPER, table_2

from data import load
from maxmargin import SVC
from maxmargin.solvers import GreedyStagewise

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

# Sets with a test file and their γ.
SPEED = {"a9a": 0.05, "w7a": 0.05, "usps": 1 / 128}


def table_1(folder: Path, sets, costs) -> list[dict]:
    """Kernel evaluations of GS-SVM, one row at a time and in panels, and of our SMO."""
    rows = []
    for name in sets:
        X, y = load(folder, name)
        models = [SVC(gamma=THETA, solver=GreedyStagewise(panel=panel)) for panel in (None, 1, 64)]
        for model in models:
            load_compiled_code(model, X, y)
        by_feature, one, panels = (model.fit(X, y).fit_report_[0] for model in models)
        smo = [SVC(C=C, gamma=THETA, solver="smo").fit(X, y).fit_report_ for C in costs]
        title, smo_1, smo_2, paper = TABLE_1[name]
        rows.append({
            "problem": title, "n": len(y), "n_SV": one.n_support,
            "SMO-1 (paper)": smo_1, "SMO-2 (paper)": smo_2,
            "our SMO": np.mean([r.kernel_evaluations for r in smo]) / 1e6 if smo else np.nan,
            "GS-SVM (paper)": paper,
            "needed": one.details["algorithm_kernel_evaluations"] / 1e6,
            "default": by_feature.details["training_kernel_evaluations"] / 1e6,
            "panel=64": panels.details["training_kernel_evaluations"] / 1e6,
            "s, default": by_feature.seconds, "s, panel=1": one.seconds,
            "s, panel=64": panels.seconds,
        })  # fmt: skip
        print_rows(rows[-1:], header=len(rows) == 1)
    return rows


def load_compiled_code(model, X, y) -> None:
    few = np.linspace(0, len(y) - 1, 1500).astype(int)
    model.fit(X[few], y[few])


def speed(folder: Path, sets) -> list[dict]:
    """Seconds and accuracy on the test file of GS-SVM and of the exact default with C = 1."""
    rows = []
    for name in sets:
        (X, y), (X_test, y_test) = load(folder, name), load(folder, f"{name}.t")
        for solver in ("greedy", "auto"):
            model = SVC(gamma=SPEED[name], solver=solver)
            load_compiled_code(model, X, y)
            seconds = [model.fit(X, y).fit_report_.seconds for _ in range(3)]
            rows.append({
                "problem": name, "n": len(y), "solver": solver, "s, best of 3": min(seconds),
                "s, worst": max(seconds), "n_SV": len(model.support_),
                "accuracy": 100 * model.score(X_test, y_test),
            })  # fmt: skip
            print_rows(rows[-1:], header=len(rows) == 1)
    return rows


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
    parser.add_argument("table", choices=("1", "2", "choices", "speed"))
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", help="names of sets; default: all of the table")
    parser.add_argument("--C", nargs="*", type=float, default=[1.0], help="table 1: for our SMO")
    parser.add_argument("--jobs", type=int, default=2, help="table 2: processes")
    parser.add_argument("--scaling", choices=("interval", "standard"), default="interval")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out",
        type=Path,
        help="file for the rows as JSON; table 2: folder for the folds, where a run goes on",
    )
    options = parser.parse_args()
    start = time.perf_counter()
    if options.table == "1":
        rows = table_1(options.data, options.sets or list(TABLE_1), options.C)
    elif options.table == "2":
        folder = options.out or Path("greedy-table-2")
        rows = table_2(
            options.data, options.sets or list(PAPER), options.jobs, options.seed,
            options.scaling, folder,
        )  # fmt: skip
        print_rows(rows, header=True)
    elif options.table == "speed":
        rows = speed(options.data, options.sets or list(SPEED))
    else:
        rows = choices(options.data, options.sets or ["a1a", "a4a", "w1a", "w4a"], options.seed)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.out is not None and options.table != "2":
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
