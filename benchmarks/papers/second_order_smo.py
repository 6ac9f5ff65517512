"""The comparisons of Fan, Chen and Lin (2005): how SMO chooses its pairs.

1. Second-order selection against the maximal violating pair: the ratio of
   iterations and of time over a grid of C and γ, with and without shrinking, with
   the whole kernel matrix in the cache and with a tenth of it.
2. All pairs against the O(n) heuristic: the ratio of iterations on small sets.

A ratio is that of the totals over the grid; below 1 the first method is better.

    python benchmarks/papers/second_order_smo.py --data FOLDER --out results/second-order-smo
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import maxmargin
from data import load, scale_unit
from maxmargin import SVC
from maxmargin.solution import Solution
from maxmargin.solvers import SMO
from maxmargin.solvers.smo.solver import SELECTIONS, _PairRun

SETS = ("heart", "liver-disorders", "ionosphere", "banana1", "wdbc", "australian", "diabetis_ida",
        "german.numer", "splice", "a1a", "w1a")  # fmt: skip
QUICK_SETS = SETS[:4]
GRID_C = (0.125, 2.0, 32.0, 512.0)
GRID_GAMMA = (2.0**-7, 2.0**-5, 2.0**-3, 2.0**-1, 2.0)
# Checking all pairs costs n² a step.
EXHAUSTIVE_UP_TO = 800
SMALL_CACHE = 0.1
REPEAT_BELOW_SECONDS = 0.05


class _RunToTolerance(_PairRun):
    """A run that stops at tol, where the library goes on to the exact optimum of small problems.

    Those last steps follow a linear system and say nothing about the selection.
    """

    def _refine(self) -> None:
        pass


class SelectionOnly(SMO):
    """SMO as in the paper: from zero to tol, nothing after it."""

    def solve(self, problem, run) -> Solution:
        steps = _RunToTolerance(problem, run, SELECTIONS[self.selection], self.shrinking)
        start = time.process_time()
        status = steps.until_certified()
        return steps.solution(status, {"cpu_seconds": time.process_time() - start})


def measure(X, y, C, gamma, selection, shrinking, cache) -> dict:
    """Iterations and CPU seconds of one training; short ones are timed three times."""
    n = len(y)
    matrix_megabytes = 8 * n * n / 2**20
    model = SVC(
        C=C, gamma=gamma, solver=SelectionOnly(selection, shrinking), n_jobs=1,
        cache_size=matrix_megabytes * (1.0 if cache == "whole" else SMALL_CACHE) + 0.01,
    )  # fmt: skip
    seconds = []
    while not seconds or (seconds[0] < REPEAT_BELOW_SECONDS and len(seconds) < 3):
        report = model.fit(X, y).fit_report_[0]
        seconds.append(report.details["cpu_seconds"])
    return {
        "C": C, "gamma": gamma, "selection": selection, "shrinking": shrinking, "cache": cache,
        "iterations": report.n_iter, "seconds": min(seconds), "n_support": report.n_support,
        "kkt_violation": report.kkt_violation, "status": report.status,
    }  # fmt: skip


def measure_set(folder: Path, name: str) -> list[dict]:
    """All trainings on one data set."""
    X, y = load(folder, name)
    if name not in ("a1a", "w1a"):  # those are 0/1 already
        X = scale_unit(X).toarray()
    pairwise = ("second-order", "maximal-violating-pair")
    combinations = list(product(GRID_C, GRID_GAMMA, pairwise, (True, False), ("whole", "small")))
    if len(y) <= EXHAUSTIVE_UP_TO:
        combinations += product(GRID_C, GRID_GAMMA, ("exhaustive",), (False,), ("whole",))
    return [{"data": name, "n": len(y)} | measure(X, y, *choice) for choice in combinations]


def total(records: list[dict], what: str, **wanted) -> float:
    """Sum of one quantity over the records with the wanted values."""
    chosen = (r for r in records if all(r[key] == value for key, value in wanted.items()))
    return sum(record[what] for record in chosen)


def ratios(records: list[dict]) -> dict:
    """The ratios of one data set."""
    result: dict = {"data": records[0]["data"], "n": records[0]["n"]}
    compared = {
        "iterations": ("iterations", "whole"),
        "seconds_whole_cache": ("seconds", "whole"),
        "seconds_small_cache": ("seconds", "small"),
    }
    for (label, (what, cache)), shrinking in product(compared.items(), (True, False)):
        same = {"shrinking": shrinking, "cache": cache}
        second = total(records, what, selection="second-order", **same)
        first = total(records, what, selection="maximal-violating-pair", **same)
        result[f"{label}_{'shrinking' if shrinking else 'plain'}"] = second / first
    all_pairs = total(records, "iterations", selection="exhaustive")
    if all_pairs:
        heuristic = total(
            records, "iterations", selection="second-order", shrinking=False, cache="whole"
        )
        result["iterations_all_pairs"] = all_pairs / heuristic
    return result


def table(rows: list[dict]) -> str:
    """The ratios as a Markdown table."""
    names = ["iterations", "seconds_whole_cache", "seconds_small_cache"]
    keys = [f"{name}_{suffix}" for suffix in ("shrinking", "plain") for name in names]
    keys.append("iterations_all_pairs")
    lines = [
        "| | | shrinking | | | no shrinking | | | all pairs |",
        "|---|---|---|---|---|---|---|---|---|",
        "| data | n | steps | time, whole cache | time, tenth | "
        "steps | time, whole cache | time, tenth | steps |",
    ]
    for row in rows:
        cells = [f"{row[key]:.2f}" if key in row else "" for key in keys]
        lines.append(f"| {row['data']} | {row['n']} | " + " | ".join(cells) + " |")
    means = [geometric_mean([row[key] for row in rows if key in row]) for key in keys]
    lines.append("| geometric mean | | " + " | ".join(f"{mean:.2f}" for mean in means) + " |")
    return "\n".join(lines)


def table_by_cost(records: list[dict]) -> str:
    """Ratios of steps for each C (no shrinking), as geometric means over the data sets."""
    lines = ["| C | second order / maximal violating pair | all pairs / second order |",
             "|---|---|---|"]  # fmt: skip
    names = dict.fromkeys(record["data"] for record in records)
    for C in GRID_C:
        steps = {
            selection: np.array([
                total(records, "iterations", data=name, C=C, selection=selection,
                      shrinking=False, cache="whole")
                for name in names
            ])
            for selection in SELECTIONS
        }  # fmt: skip
        second, every = steps["second-order"], steps["exhaustive"] > 0
        cells = (
            geometric_mean(second / steps["maximal-violating-pair"]),
            geometric_mean(steps["exhaustive"][every] / second[every]),
        )
        lines.append(f"| {C:g} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return "\n".join(lines)


def geometric_mean(values) -> float:
    return float(np.exp(np.mean(np.log(values))))


def plot(rows: list[dict], path: Path) -> None:
    """The paper's picture: data sets along the axis, ratios above them, a line at 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained",
                                width_ratios=(1, 1, 0.8))  # fmt: skip
    series = {
        "time, a tenth of the matrix cached": ("seconds_small_cache", "s", "#1b7837"),
        "time, whole matrix cached": ("seconds_whole_cache", "o", "#2166ac"),
        "iterations": ("iterations", "x", "#b2182b"),
    }
    for ax, suffix, title in zip(
        axes, ("shrinking", "plain"), ("with shrinking", "without shrinking")
    ):
        for label, (key, marker, colour) in series.items():
            ax.plot([row[f"{key}_{suffix}"] for row in rows], marker=marker, color=colour,
                    linewidth=0.8, markersize=5, label=label)  # fmt: skip
        ax.set_title(f"second order / maximal violating pair,\n{title}", fontsize=10)
    small = [row for row in rows if "iterations_all_pairs" in row]
    axes[2].bar(range(len(small)), [row["iterations_all_pairs"] for row in small],
                color="#b2182b", width=0.5)  # fmt: skip
    axes[2].set_title("all pairs / second order,\niterations", fontsize=10)
    for ax, shown in zip(axes, (rows, rows, small)):
        ax.axhline(1.0, color="0.4", linewidth=0.8, linestyle="--")
        ax.set_xticks(range(len(shown)), [row["data"] for row in shown], rotation=45, ha="right",
                      fontsize=8)  # fmt: skip
        ax.set_ylim(0, 1.3)
        ax.grid(axis="y", linewidth=0.3)
    axes[0].set_ylabel("ratio")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3,
                  fontsize=9, frameon=False)  # fmt: skip
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of LIBSVM files")
    parser.add_argument("--out", type=Path, default=Path("results/second-order-smo"))
    parser.add_argument("--quick", action="store_true", help="four small sets only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    SVC(solver=SelectionOnly()).fit([[0.0], [1.0]], [0, 1])  # loads the compiled loops
    records, rows = [], []
    start = time.perf_counter()
    for name in QUICK_SETS if options.quick else SETS:
        of_set = measure_set(options.data, name)
        records += of_set
        rows.append(ratios(of_set))
        print(f"{name}: {time.perf_counter() - start:.0f} s so far", file=sys.stderr, flush=True)
    print(table(rows), table_by_cost(records), sep="\n\n")
    about = {
        "maxmargin": maxmargin.__version__, "python": platform.python_version(),
        "machine": platform.machine(), "seconds": time.perf_counter() - start,
    }  # fmt: skip
    (options.out / "results.json").write_text(
        json.dumps({"about": about, "ratios": rows, "records": records}, indent=1) + "\n"
    )
    plot(rows, options.out / "ratios.png")


if __name__ == "__main__":
    main()
