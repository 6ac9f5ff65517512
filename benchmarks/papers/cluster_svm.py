"""The experiments of Boley and Cao: ClusterSVM beside the solver that it wraps.

Tables 1 to 4 and Figures 4 to 6, the paper's figures next to ours. The speed-up is
over the same base solver alone, in the same run; seconds are wall-clock ones.

    python benchmarks/papers/cluster_svm.py --data FOLDER --out results/cluster-svm
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import warnings
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
ARTIFICIAL = {"kernel": "linear", "C": 1e4}
USPS = {"kernel": "poly", "degree": 3, "gamma": 1 / 256, "C": 10.0}
ISOLET = {"kernel": "linear", "C": 0.02}
PAPER = {
    "artificial": {"N": 3103, "speed-up": 3.2, "error": 25.43, "error alone": 25.47},
    "usps": {"N": 1836, "speed-up": 1.5, "error": 5.28, "error alone": 5.43},
    "isolet": {"N": 1041, "speed-up": 1.9, "error": 4.55, "error alone": 4.55},
}
PARTS = ("artificial", "usps", "isolet", "passes", "clusters", "scaling")
PAPER_PASSES = {0: 25.87, 1: 25.43, 2: 25.48, 3: 25.47}


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
        "seconds": seconds,
        "status": report.status,
        "error": 100 * (1 - model.score(*test)),
        "kkt_violation": report.kkt_violation,
        "n_iter": report.n_iter,
        "kernel_evaluations": report.kernel_evaluations,
        "n_support": report.n_support,
        "N_train": [d["n_train"][-1] for d in details],
        "passes": [d["passes"] for d in details],
        "clustering_seconds": sum(d["clustering_seconds"] for d in details),
        "training_seconds": sum(sum(d["training_seconds"]) for d in details),
    }


def variants(base: str) -> dict:
    """What is compared: the base alone, and what ClusterSVM makes of it."""
    return {
        f"{base} alone": base,
        "cluster, 1 pass": ClusterSVM(base),
        "cluster, boundary, 1 pass": ClusterSVM(base, boundary_clusters=True),
        "cluster, exact": ClusterSVM(base, passes=None),
        "cluster, boundary, exact": ClusterSVM(base, passes=None, boundary_clusters=True),
    }


def table(name: str, train, test, options: dict, args, ablation: bool = False) -> dict:
    """Tables 2 to 4: N_train, times, speed-up and error of every variant."""
    print(f"\n## {name}: {len(train[1])} samples, {options}, base {args.base}")
    paper = PAPER[name]
    print(f"paper: N_train {paper['N']}, speed-up {paper['speed-up']}, error {paper['error']} "
          f"(alone {paper['error alone']})")  # fmt: skip
    runs = variants(args.base)
    if ablation:
        runs["cluster, 1 pass, no continuation"] = ClusterSVM(args.base, continuation=False)
        # Every sample its own cluster: what continuation does without any reduction.
        runs["continuation alone"] = ClusterSVM(args.base, clusters=len(train[1]), passes=0)
    results: dict = {}
    print(f"{'':34}{'seconds':>9}{'speed-up':>9}{'cluster.':>9}{'N_train':>8}{'error %':>9}"
          f"{'KKT':>9}  status")  # fmt: skip
    for label, solver in runs.items():
        row = results[label] = measure(solver, train, test, options, args.time_limit)
        alone = results[f"{args.base} alone"]
        row["speed-up"] = alone["seconds"] / row["seconds"]
        mark = ">" if alone["status"] != "converged" and row is not alone else ""
        size = np.mean(row["N_train"]) if row["N_train"] else len(train[1])
        print(f"{label:34}{row['seconds']:9.2f}{mark + format(row['speed-up'], '.2f'):>9}"
              f"{row['clustering_seconds']:9.2f}{size:8.0f}{row['error']:9.2f}"
              f"{row['kkt_violation']:9.2g}  {row['status']}", flush=True)  # fmt: skip
    print("N_train of each classifier:", results["cluster, 1 pass"]["N_train"])
    return results


def passes_table(train, test, args) -> dict:
    """Table 1: the error after 0, 1, 2, 3 passes."""
    print("\n## Table 1: error after NP passes (paper, ours, KKT violation)")
    results = {}
    for passes, theirs in PAPER_PASSES.items():
        row = results[passes] = measure(
            ClusterSVM(args.base, passes=passes), train, test, ARTIFICIAL, args.time_limit
        )
        print(
            f"{passes}: {theirs:6.2f} {row['error']:6.2f} {row['kkt_violation']:9.2g}", flush=True
        )
    return results


def clusters_figure(args) -> list[dict]:
    """Figures 4 and 5: relative difference of the error and time against the clusters."""
    print("\n## Figures 4 and 5: clusters k, relative difference of the error, seconds")
    rows = []
    sets = [
        (artificial(args.n, 2 * run), artificial(args.n, 2 * run + 1)) for run in range(args.runs)
    ]
    true = [
        measure(ClusterSVM(args.base, passes=None), *pair, ARTIFICIAL, args.time_limit)["error"]
        for pair in sets
    ]
    for k in range(1, 82, args.cluster_step):
        found = [
            measure(ClusterSVM(args.base, passes=0, clusters=k), *pair, ARTIFICIAL, args.time_limit)
            for pair in sets
        ]
        difference = np.mean([abs(f["error"] - t) / t for f, t in zip(found, true)])
        seconds = float(np.mean([f["seconds"] for f in found]))
        rows.append({"k": k, "relative_difference": float(difference), "seconds": seconds})
        print(f"{k:3d} {difference:8.4f} {seconds:8.3f}", flush=True)
    return rows


def scaling_figure(args) -> list[dict]:
    """Figure 6, and beyond: time against n; the base alone up to `--alone-up-to`."""
    print("\n## Figure 6: n, then seconds of:", ", ".join(variants(args.base)))
    rows = []
    for n in args.sizes:
        train, test = artificial(n, 0), artificial(n, 1)
        row: dict = {"n": n}
        for label, solver in variants(args.base).items():
            if label.endswith("alone") and n > args.alone_up_to:
                continue
            row[label] = measure(solver, train, test, ARTIFICIAL, args.time_limit)
        rows.append(row)
        cells = [
            f"{row[label]['seconds']:10.2f}{'' if row[label]['status'] == 'converged' else '*'}"
            if label in row else "         –"
            for label in variants(args.base)
        ]  # fmt: skip
        print(f"{n:6d}", *cells, "(* stopped before tol)", flush=True)
    return rows


def draw(results: dict, folder: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(14, 4))
    ks = [row["k"] for row in results["clusters"]]
    axes[0].plot(ks, [row["relative_difference"] for row in results["clusters"]])
    axes[0].set(xlabel="initial clusters k", ylabel="relative difference of the error")
    axes[1].plot(ks, [row["seconds"] for row in results["clusters"]])
    axes[1].set(xlabel="initial clusters k", ylabel="seconds to the initial SVM")
    labels = dict.fromkeys(key for row in results["scaling"] for key in row if key != "n")
    for label in labels:
        points = [(row["n"], row[label]["seconds"]) for row in results["scaling"] if label in row]
        axes[2].loglog(*zip(*points), marker="o", label=label)
    axes[2].set(xlabel="n", ylabel="seconds")
    axes[2].legend()
    figure.tight_layout()
    figure.savefig(folder / "figures.png", dpi=120)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with usps and isolet (LIBSVM text)")
    parser.add_argument("--out", type=Path, help="folder for results.json and figures.png")
    parser.add_argument("--base", default="smo", help="the solver that ClusterSVM wraps")
    parser.add_argument("--n", type=int, default=6000, help="size of the artificial set")
    parser.add_argument("--sizes", type=int, nargs="+",
                        default=[300, 600, 1500, 3000, 6000, 15000, 30000, 60000])  # fmt: skip
    parser.add_argument("--alone-up-to", type=int, default=6000,
                        help="largest size for the base alone in Figure 6")  # fmt: skip
    parser.add_argument("--runs", type=int, default=10, help="sets that Figures 4 and 5 average")
    parser.add_argument("--cluster-step", type=int, default=2)
    parser.add_argument("--time-limit", type=float, help="seconds for each training")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to run")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    print(f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}: {' '.join(sys.argv)}")  # fmt: skip
    wanted = args.only or PARTS
    small = artificial(150, 0)
    for solver in variants(args.base).values():  # compiles what is to be compiled
        measure(solver, small, small, {"kernel": "linear", "C": 1e4})
        measure(solver, small, small, USPS | {"C": 1.0})
    results: dict = {"command": sys.argv}
    train, test = artificial(args.n, 0), artificial(args.n, 1)
    for part in wanted:
        if part == "artificial":
            results[part] = table(part, train, test, ARTIFICIAL, args, ablation=True)
        elif part == "passes":
            results[part] = passes_table(train, test, args)
        elif part == "clusters":
            results[part] = clusters_figure(args)
        elif part == "scaling":
            results[part] = scaling_figure(args)
        elif args.data is None:
            print(f"\n{part} needs --data")
        else:
            read, options = (smoothed_usps, USPS) if part == "usps" else (dense, ISOLET)
            results[part] = table(
                part, read(args.data, part), read(args.data, f"{part}.t"), options, args
            )
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.json").write_text(json.dumps(results, indent=1))
        if {"clusters", "scaling"} <= set(results):
            draw(results, args.out)


if __name__ == "__main__":
    main()
