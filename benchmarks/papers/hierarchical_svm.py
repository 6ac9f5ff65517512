"""The experiments of Wen and Lu: hierarchical parallel training beside its base alone.

Table 2 (Forest CoverType), Table 3 with Figures 2 and 3 (Space Shuttle), and what a
two-worker Dask cluster makes of CoverType. As in the paper, subproblems are solved one
after the other on one core and their time is *counted* in parallel: the longest chain
of subproblems of each pair of classes, summed over the pairs, in processor time.
Wall-clock times on the cores that are there stand beside it.

    python benchmarks/papers/hierarchical_svm.py --data FOLDER --out results/hierarchical

Table 2 at the paper's size, each fit within ten minutes (`default` is the solver of `SVC()`):

    python benchmarks/papers/hierarchical_svm.py --data FOLDER --only covtype --rows 290504 \
        --base auto --partitions default 1 2 3 4 --wall-only --limit 600
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import maxmargin
from data import load, scale_unit
from maxmargin import SVC
from maxmargin.solvers import HierarchicalSVM

COVTYPE = {"C": 128.0, "gamma": 1 / (2 * 0.25**2)}
SHUTTLE = {"C": 1000.0, "gamma": 1 / (2 * 50.0**2)}
PAPER_COVTYPE = {
    1: (0.936721, 47146, 13037, 1.0),
    2: (0.936153, 44455, 5281, 2.47),
    3: (0.936105, 44300, 3275, 3.98),
    4: (0.936752, 44365, 2582, 5.05),
}
PARTS = ("covtype", "shuttle", "cluster")
# In place of a K: no subproblems, the solver of `SVC()`.
DEFAULT = "default"


def covtype(folder: Path, rows: int):
    """`rows` training and as many test rows, drawn at random from all of Forest CoverType."""
    X, y = load(folder, "covtype")
    X = scale_unit(X.toarray())
    chosen = np.random.RandomState(0).permutation(len(y))[: 2 * rows]
    train, test = chosen[:rows], chosen[rows:]
    return (X[train], y[train]), (X[test], y[test])


def shuttle(folder: Path):
    """Space Shuttle without its sixth and seventh class."""
    sets = []
    for name in ("shuttle", "shuttle.t"):
        X, y = load(folder, name)
        kept = y < 6
        sets.append((X.toarray()[kept], y[kept]))
    return sets


def fit(train, options: dict, solver, n_jobs: int | None = None):
    model = SVC(solver=solver, n_jobs=n_jobs, random_state=0, **options)
    start = time.perf_counter()
    model.fit(*train)
    return model, time.perf_counter() - start


def seconds_of(problem) -> float:
    """The longest chain of a pair's subproblems; without subproblems, its own seconds."""
    return problem.details.get("seconds_longest_chain", problem.seconds)


def measure(train, test, options: dict, K: int | str, args) -> dict:
    """One K: counted in parallel on one core, in wall-clock on all, or both."""
    solver = "auto" if K == DEFAULT else HierarchicalSVM(
        args.base, partitions=K, certify=False, filter_tol=args.filter_tol or 1.0
    )  # fmt: skip
    options = options | {"time_limit": args.limit}
    wall_only = args.wall_only
    counted = [] if wall_only else [fit(train, options, solver, 1) for _ in range(args.repeat)]
    wall = [] if args.no_wall else [fit(train, options, solver)]
    runs = counted or wall
    model = runs[0][0]
    report = model.fit_report_
    pairs = np.min(
        [[seconds_of(problem) for problem in run.fit_report_] for run, _ in runs], axis=0
    )
    start = time.perf_counter()
    accuracy = model.score(*test)
    return {
        "K": K,
        "accuracy": accuracy,
        "predict_seconds": time.perf_counter() - start,
        "n_support": report.n_support,
        "counted_seconds": float(pairs.sum()),
        "sequential_seconds": min((seconds for _, seconds in counted), default=None),
        "wall_seconds": min((seconds for _, seconds in wall), default=None),
        "kkt_violation": report.kkt_violation,
        "status": str(report.status),
        "pairs": [
            {"pair": problem.problem, "seconds": float(seconds), "n_support": problem.n_support}
            for problem, seconds in zip(report, pairs)
        ],
    }


def table(name: str, train, test, options: dict, partitions, args, paper: dict) -> list[dict]:
    """One line for each K. With --wall-only nothing is counted: chains share the cores then."""
    print(f"\n## {name}: {len(train[1])} training rows, {len(test[1])} test rows, {options}, "
          f"base {args.base}")  # fmt: skip
    print(
        f"{'K':>7}{'accuracy':>10}{'SVs':>8}{'counted s':>11}{'speed-up':>10}{'wall s':>9}"
        f"{'speed-up':>10}{'KKT':>9}{'predict s':>11}  status, paper: accuracy, SVs, s, speed-up"
    )
    rows: list[dict] = []
    for K in partitions:
        row = measure(train, test, options, K, args)
        rows.append(row)
        columns = ""
        for kind, shown in (("counted", not args.wall_only), ("wall", not args.no_wall)):
            if shown:
                row[f"{kind}_speed-up"] = rows[0][f"{kind}_seconds"] / row[f"{kind}_seconds"]
                columns += f"{row[f'{kind}_seconds']:10.3f}{row[f'{kind}_speed-up']:10.2f}"
            else:
                columns += f"{'–':>10}{'–':>10}"
        print(f"{K:>7}{row['accuracy']:10.5f}{row['n_support']:8d} {columns}"
              f"{row['kkt_violation']:9.2g}{row['predict_seconds']:11.2f}  {row['status']} "
              f"{paper.get(K, '')}", flush=True)  # fmt: skip
        if args.out is not None:  # an interrupted run leaves what it has
            args.out.mkdir(parents=True, exist_ok=True)
            (args.out / f"{name}.json").write_text(json.dumps(rows, indent=1))
    return rows


def summarise_shuttle(rows: list[dict]) -> None:
    """Table 3: the accuracy of K > 1, whose mean and variance the paper gives."""
    if len(rows) < 3 or "counted_speed-up" not in rows[0]:
        return
    accuracy = np.array([row["accuracy"] for row in rows[1:]])
    off = np.abs(accuracy - rows[0]["accuracy"]).max()
    best = max(rows, key=lambda row: row["counted_speed-up"])
    print(f"K = 1: {rows[0]['accuracy']:.5f}; K > 1: mean {accuracy.mean():.5f}, standard "
          f"deviation {accuracy.std():.5f}, farthest from K = 1 {off:.5f}; largest speed-up "
          f"{best['counted_speed-up']:.1f} at K = {best['K']}")  # fmt: skip
    print("paper: K = 1: 0.99897; K > 1: mean 0.99894, variance 0.00036; speed-up above 10")


def cluster(train, test, options: dict, args) -> list[dict]:
    """K = 4 on two worker processes of one thread, beside the default solver on two cores.

    Dask arrays stay on the workers and solve K subproblems; data of the client's, K². All
    take turns, and the best time of each counts.
    """
    import dask.array as da
    from distributed import Client, LocalCluster
    from joblib import parallel_config

    def on_cluster(data, certify: bool):
        solver = HierarchicalSVM(certify=certify, filter_tol=args.filter_tol or 1.0)
        with parallel_config(backend="dask"):
            return fit(data, options, solver)

    divided = [da.from_array(v, chunks=(-(-len(v) // 4), *v.shape[1:])) for v in train]
    few = [da.from_array(v[:2000], chunks=(500, *v.shape[1:])) for v in train]
    contestants = {}
    for certify in (False, True):
        label = f"dask arrays of 4 partitions, certify={certify}"
        contestants[label] = partial(on_cluster, divided, certify)
    for certify in () if args.no_wall else (False, True):
        label = f"K² subproblems, K = 4, certify={certify}"
        contestants[label] = partial(on_cluster, train, certify)
    fit([v[:2000] for v in train], options, "auto")
    found: dict[str, list] = {"default solver, two threads": []} | {at: [] for at in contestants}
    for _ in range(args.repeat):
        # Without a cluster: the scheduler's thread would be in the default solver's process.
        found["default solver, two threads"].append(fit(train, options, "auto"))
        with (
            LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
            Client(local),
        ):
            on_cluster(few, certify=True)  # loads what is compiled into the workers
            for label, run in contestants.items():
                found[label].append(run())
    return _cluster_table(found, test, len(train[1]), options)


def _cluster_table(found: dict[str, list], test, n: int, options: dict) -> list[dict]:
    print(f"\n## two-worker cluster: {n} training rows, {options}")
    print(f"{'':44}{'seconds':>9}{'ratio':>9}{'accuracy':>10}{'SVs':>8}{'KKT':>10}  all turns")
    rows: list[dict] = []
    for label, runs in found.items():
        model, seconds = min(runs, key=lambda run: run[1])
        report = model.fit_report_
        row = {
            "label": label, "seconds": seconds, "accuracy": model.score(*test),
            "n_support": report.n_support, "kkt_violation": report.kkt_violation,
            "status": report.status, "turns": [each for _, each in runs],
        }  # fmt: skip
        rows.append(row)
        turns = " ".join(f"{each:.2f}" for each in row["turns"])
        print(f"{label:44}{seconds:9.2f}{seconds / rows[0]['seconds']:9.2f}"
              f"{row['accuracy']:10.5f}{row['n_support']:8d}{row['kkt_violation']:10.2g}  {turns}",
              flush=True)  # fmt: skip
    return rows


def draw(results: dict, folder: Path) -> None:
    """Figures 2 and 3: time and support vectors, by pair of classes and by K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 8))
    if "covtype" in results:
        for row in results["covtype"]:
            names = [pair["pair"] for pair in row["pairs"]]
            for axis, key in zip(axes[0], ("seconds", "n_support")):
                values = [pair[key] for pair in row["pairs"]]
                axis.semilogy(names, values, marker=".", label=f"K = {row['K']}")
                axis.tick_params(axis="x", rotation=90)
        axes[0, 0].set(title="CoverType, by pair", ylabel="counted seconds")
        axes[0, 1].set(title="CoverType, by pair", ylabel="support vectors")
        axes[0, 0].legend()
    if "shuttle" in results:
        ks = [row["K"] for row in results["shuttle"]]
        for axis, key in zip(axes[1], ("counted_seconds", "n_support")):
            axis.plot(ks, [row[key] for row in results["shuttle"]], marker=".")
            axis.set(title="Shuttle", xlabel="K", ylabel=key.replace("_", " "), ylim=(0, None))
    figure.tight_layout()
    figure.savefig(folder / "figures.png", dpi=110)


def partitions_of(text: str) -> int | str:
    return DEFAULT if text == DEFAULT else int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with covtype, shuttle")
    parser.add_argument("--out", type=Path, help="folder for results.json and figures.png")
    parser.add_argument("--base", default="smo", help="the solver of the subproblems")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows of CoverType")
    parser.add_argument(
        "--partitions",
        type=partitions_of,
        nargs="+",
        metavar="K",
        help=f"values of K, or {DEFAULT}; Shuttle 1 to 30, CoverType 1 to 4",
    )
    parser.add_argument("--limit", type=float, help="seconds that a fit may take")
    parser.add_argument("--filter-tol", type=float, help="of HierarchicalSVM; default its own")
    parser.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="the best of so many turns; in the tables of the paper pair by pair",
    )
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument(
        "--no-wall", action="store_true", help="count in parallel only; of the cluster, dask arrays"
    )
    kinds.add_argument("--wall-only", action="store_true", help="no fits on one core to count")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="parts to run")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    print(f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}: {' '.join(sys.argv)}")  # fmt: skip
    results: dict = {"command": sys.argv}
    for part in args.only or PARTS:
        if part == "shuttle":
            train, test = shuttle(args.data)
            fit((train[0][:2000], train[1][:2000]), SHUTTLE, HierarchicalSVM(args.base))
            partitions = args.partitions or range(1, 31)
            results[part] = table(part, train, test, SHUTTLE, partitions, args, {})
            summarise_shuttle(results[part])
            continue
        train, test = covtype(args.data, args.rows)
        if part == "cluster":
            results[part] = cluster(train, test, COVTYPE, args)
        else:
            fit((train[0][:2000], train[1][:2000]), COVTYPE, HierarchicalSVM(args.base))
            partitions = args.partitions or range(1, 5)
            results[part] = table(part, train, test, COVTYPE, partitions, args, PAPER_COVTYPE)
    if args.out is not None:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "results.json").write_text(json.dumps(results, indent=1))
        if {"covtype", "shuttle"} & set(results):
            draw(results, args.out)


if __name__ == "__main__":
    main()
