"""The experiments of Boley and Cao: ClusterSVM beside the solver that it wraps.

Tables 1 to 4 and Figures 4 to 6, the paper's figures next to ours. The speed-up is
over the same base solver alone; seconds are wall-clock ones of a whole `fit`.

    python benchmarks/papers/cluster_svm.py --data FOLDER --out results/cluster-svm

With `--out` every training is written down as soon as it has ended, and is not done
again by the next call: a long run can be cut into slices (`--only`, or a `timeout`).
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import maxmargin
from data import load
from maxmargin import SVC
from maxmargin.solvers import ClusterSVM

CENTRES = np.array([(0.0, np.sqrt(3.0)), (-1.0, 0.0), (1.0, 0.0)])
OPTIONS = {
    "artificial": {"kernel": "linear", "C": 1e4},
    "usps": {"kernel": "poly", "degree": 3, "gamma": 1 / 256, "C": 10.0},
    "isolet": {"kernel": "linear", "C": 0.02},
}
PAPER = {
    "artificial": {"N": 3103, "speed-up": 3.2, "error": 25.43, "error alone": 25.47},
    "usps": {"N": 1836, "speed-up": 1.5, "error": 5.28, "error alone": 5.43},
    "isolet": {"N": 1041, "speed-up": 1.9, "error": 4.55, "error alone": 4.55},
}
PAPER_PASSES = {0: 25.87, 1: 25.43, 2: 25.48, 3: 25.47}
AS_PRINTED = "as printed, 1 pass"
PARTS = ("artificial", "usps", "isolet", "passes", "clusters", "scaling")


class Results:
    """What was measured so far, by part and row; on disk where a folder is given."""

    def __init__(self, folder: Path | None):
        self.file = None if folder is None else folder / "results.json"
        known = self.file is not None and self.file.is_file()
        self.rows: dict = json.loads(self.file.read_text()) if known else {}

    def get(self, part: str, row: str, measure: Callable[[], dict]) -> dict:
        """The row, measured now unless an earlier run did it."""
        rows = self.rows.setdefault(part, {})
        if row not in rows:
            rows[row] = measure()
            if self.file is not None:
                self.file.parent.mkdir(parents=True, exist_ok=True)
                self.file.write_text(json.dumps(self.rows, indent=1))
        return rows[row]


def artificial(n: int, seed: int):
    """n points in three classes: normal distributions around the corners of a triangle."""
    random = np.random.default_rng(seed)
    y = np.repeat(np.arange(3), n // 3)
    return random.normal(size=(len(y), 2)) + CENTRES[y], y


def smoothed_usps(folder: Path, name: str):
    X, y = load(folder, name)
    images = X.toarray().reshape(-1, 16, 16)
    return gaussian_filter(images, sigma=(0, 0.75, 0.75)).reshape(len(y), -1), y


def dense(folder: Path, name: str):
    X, y = load(folder, name)
    return X.toarray(), y


@lru_cache(maxsize=1)
def data(name: str, n: int, seed: int, folder: Path | None):
    """Training and test set."""
    if name == "artificial":
        return artificial(n, 2 * seed), artificial(n, 2 * seed + 1)
    if folder is None:
        raise SystemExit(f"{name} needs --data")
    read = smoothed_usps if name == "usps" else dense
    return read(folder, name), read(folder, f"{name}.t")


def measure(solver, train, test, options: dict, time_limit: float | None = None) -> dict:
    """One training, one class against the rest: its time, its error, what it reports."""
    model = SVC(solver=solver, multi_class="ovr", random_state=0, time_limit=time_limit, **options)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is in the result
        model.fit(*train)
    seconds = time.perf_counter() - start
    report = model.fit_report_
    details = [problem.details for problem in report if "n_train" in problem.details]
    return {
        "n": len(train[1]),
        "seconds": seconds,
        "status": report.status,
        "error": 100 * (1 - model.score(*test)),
        "kkt_violation": report.kkt_violation,
        "n_iter": report.n_iter,
        "n_support": report.n_support,
        "N_train": [d["n_train"][-1] for d in details],
        "trainings": [len(d["n_train"]) for d in details],
        "clustering_seconds": sum(d["clustering_seconds"] for d in details),
        "training_seconds": sum(sum(d["training_seconds"]) for d in details),
    }


def variants(base: str) -> dict:
    """What is compared: the base alone, and what ClusterSVM makes of it."""
    return {
        "alone": base,
        "1 pass": ClusterSVM(base),
        "exact": ClusterSVM(base, passes=None),
        "boundary, 1 pass": ClusterSVM(base, boundary_clusters=True),
        "boundary, exact": ClusterSVM(base, passes=None, boundary_clusters=True),
        AS_PRINTED: ClusterSVM(base, weighted=False, continuation=False),
    }


def ablations(base: str, n: int) -> dict:
    """Where C is large: how much is due to continuation in C, how much to clusters."""
    return {
        "as printed, continuation": ClusterSVM(base, weighted=False),
        # Every sample its own cluster: what continuation does without any reduction.
        "continuation alone": ClusterSVM(base, clusters=n, passes=0),
    }


def table(part: str, args, results: Results) -> None:
    """Tables 2 to 4: N_train, times, speed-up and error of every variant."""
    train, test = data(part, args.n, 0, args.data)
    n = len(train[1])
    runs = variants(args.base) | (ablations(args.base, n) if part == "artificial" else {})
    paper = PAPER[part]
    print(f"\n## {part}: {n} samples, {OPTIONS[part]}, base {args.base}")
    print(f"paper: N_train {paper['N']}, speed-up {paper['speed-up']}, error {paper['error']} "
          f"(alone {paper['error alone']})")  # fmt: skip
    print(f"{'':26}{'seconds':>9}{'speed-up':>9}{'cluster.':>9}{'training':>9}{'N_train':>8}"
          f"{'error %':>9}{'KKT':>9}  status")  # fmt: skip
    rows: dict[str, dict] = {}
    for repeat in range(args.repeat):  # in turn, so that what else the machine does meets all
        for label, solver in runs.items():
            row = results.get(
                f"{part} {args.base}", f"{label} #{repeat + 1}",
                lambda solver=solver: measure(solver, train, test, OPTIONS[part], args.time_limit),
            )  # fmt: skip
            rows[label] = min(rows.get(label, row), row, key=lambda row: row["seconds"])
    for label, row in rows.items():
        size = np.mean(row["N_train"]) if row["N_train"] else n
        print(f"{label:26}{row['seconds']:9.2f}{speed_up(rows['alone'], row):>9}"
              f"{row['clustering_seconds']:9.2f}{row['training_seconds']:9.2f}{size:8.0f}"
              f"{row['error']:9.2f}{row['kkt_violation']:9.2g}  {row['status']}")  # fmt: skip
    print("N_train of each classifier:", *rows["1 pass"]["N_train"])


def speed_up(alone: dict, row: dict) -> str:
    """Over the base alone: a lower bound where that was stopped, none where the row was."""
    if row["status"] != "converged" and row is not alone:
        return "–"
    ratio = format(alone["seconds"] / row["seconds"], ".2f")
    return ratio if alone["status"] == "converged" else f">{ratio}"


def passes_table(args, results: Results) -> None:
    """Table 1: the error after 0, 1, 2, 3 passes."""
    print("\n## Table 1: passes, error of the paper, ours, KKT violation")
    for passes, theirs in PAPER_PASSES.items():
        row = results.get(
            f"passes {args.base}", str(passes),
            lambda passes=passes: measure(
                ClusterSVM(args.base, passes=passes), *data("artificial", args.n, 0, None),
                OPTIONS["artificial"], args.time_limit,
            ),
        )  # fmt: skip
        print(f"{passes}: {theirs:6.2f} {row['error']:6.2f} {row['kkt_violation']:9.2g}",
              flush=True)  # fmt: skip


def clusters_figure(args, results: Results) -> None:
    """Figures 4 and 5: relative difference of the error and time against the clusters."""
    print("\n## Figures 4 and 5: clusters k, relative difference of the error, seconds")

    def of_one_set(run: int) -> dict:
        pair = data("artificial", args.n, run, None)

        def fit(solver) -> dict:
            return measure(solver, *pair, OPTIONS["artificial"], args.time_limit)

        true = fit(ClusterSVM(args.base, passes=None))
        found = {k: fit(ClusterSVM(args.base, passes=0, clusters=k))
                 for k in range(1, 82, args.cluster_step)}  # fmt: skip
        return {
            "kkt_violation": true["kkt_violation"],
            "difference": {k: abs(f["error"] - true["error"]) / true["error"]
                           for k, f in found.items()},
            "seconds": {k: f["seconds"] for k, f in found.items()},
        }  # fmt: skip

    part = f"clusters {args.base}"
    sets = [
        results.get(part, str(run), lambda run=run: of_one_set(run)) for run in range(args.runs)
    ]
    print("largest KKT violation of the exact runs:", max(s["kkt_violation"] for s in sets))
    for k, difference, seconds in mean_over_sets(sets):
        print(f"{k:3d} {difference:8.4f} {seconds:8.3f}")


def mean_over_sets(sets: list[dict]) -> list[tuple[int, float, float]]:
    """(k, relative difference, seconds), means over the sets."""
    return [
        (int(k), *(float(np.mean([s[what][k] for s in map(_text_keys, sets)]))
                   for what in ("difference", "seconds")))
        for k in _text_keys(sets[0])["seconds"]
    ]  # fmt: skip


def _text_keys(row: dict) -> dict:
    """Numbers as keys become text in a file: the same for rows that come from none."""
    return json.loads(json.dumps(row))


def scaling_figure(args, results: Results) -> None:
    """Figure 6, and beyond: time against n; the base alone up to `--alone-up-to`."""
    print("\n## Figure 6: seconds, speed-up, N_train, error, KKT violation (* stopped before tol)")
    for n in args.sizes:
        rows: dict = {}
        for label, solver in variants(args.base).items():
            plain = label in ("alone", AS_PRINTED)
            if (plain and n > args.alone_up_to) or (n > args.pairs_up_to and "bound" not in label):
                continue
            row = rows[label] = results.get(
                f"scaling {args.base}", f"{n} {label}",
                lambda n=n, solver=solver: measure(
                    solver, *data("artificial", n, 0, None), OPTIONS["artificial"],
                    args.time_limit,
                ),
            )  # fmt: skip
            ratio = speed_up(rows["alone"], row) if "alone" in rows else "–"
            size = np.mean(row["N_train"]) if row["N_train"] else n
            print(f"{n:6d} {label:26}{row['seconds']:9.2f}"
                  f"{'' if row['status'] == 'converged' else '*':1}{ratio:>9}{size:8.0f}"
                  f"{row['error']:8.2f}{row['kkt_violation']:9.2g}", flush=True)  # fmt: skip


def draw(args, results: Results) -> None:
    """Figures 4 to 6, once both of their parts are there."""
    sets = list(results.rows.get(f"clusters {args.base}", {}).values())
    scaling = results.rows.get(f"scaling {args.base}", {})
    if not sets or not scaling or args.out is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    ks, difference, seconds = zip(*mean_over_sets(sets))
    axes[0].plot(ks, difference)
    axes[0].set(xlabel="initial clusters k", ylabel="relative difference of the error")
    axes[1].plot(ks, seconds)
    axes[1].set(xlabel="initial clusters k", ylabel="seconds to the initial SVM")
    for label in dict.fromkeys(key.split(" ", 1)[1] for key in scaling):
        points = [(row["n"], row["seconds"]) for key, row in scaling.items()
                  if key.split(" ", 1)[1] == label and row["status"] == "converged"]  # fmt: skip
        if points:
            axes[2].loglog(*zip(*sorted(points)), marker="o", label=label)
    axes[2].set(xlabel="n", ylabel="seconds")
    axes[2].legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    figure.savefig(args.out / "figures.png", dpi=80)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with usps and isolet (LIBSVM text)")
    parser.add_argument("--out", type=Path, help="folder for results.json and figures.png")
    parser.add_argument("--base", default="smo", help="the solver that ClusterSVM wraps")
    parser.add_argument("--n", type=int, default=6000, help="size of the artificial set")
    parser.add_argument("--sizes", type=int, nargs="+",
                        default=[300, 600, 1500, 3000, 6000, 15000, 30000, 60000])  # fmt: skip
    parser.add_argument("--alone-up-to", type=int, default=3000,
                        help="largest size without continuation in Figure 6")  # fmt: skip
    parser.add_argument("--pairs-up-to", type=int, default=15000,
                        help="largest size without boundary clusters in Figure 6")  # fmt: skip
    parser.add_argument("--runs", type=int, default=10, help="sets that Figures 4 and 5 average")
    parser.add_argument("--cluster-step", type=int, default=2)
    parser.add_argument("--time-limit", type=float, help="seconds for each training")
    parser.add_argument("--repeat", type=int, default=1,
                        help="trainings of which Tables 2 to 4 take the fastest")  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to run")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    print(f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}: {' '.join(sys.argv)}")  # fmt: skip
    small = artificial(150, 0)
    for solver in variants(args.base).values():  # compiles what is to be compiled
        measure(solver, small, small, OPTIONS["artificial"])
        measure(solver, small, small, OPTIONS["usps"] | {"C": 1.0})
    results = Results(args.out)
    figures = {"passes": passes_table, "clusters": clusters_figure, "scaling": scaling_figure}
    for part in args.only or PARTS:
        if part in figures:
            figures[part](args, results)
        elif part == "artificial" or args.data is not None:
            table(part, args, results)
        else:
            print(f"\n{part} needs --data")
    draw(args, results)


if __name__ == "__main__":
    main()
