"""Bytes and rounds of a fit on a Dask cluster: measured, modelled, and as data grows.

Rows are made on the workers (two overlapping classes of normal distributions). Measured is
what the workers sent to each other; the model counts it from the sizes in `fit_report_`:

    (second + union + readmitted rows) · row · (1 − 1/W)   sets of rows go to one worker
    + checks · support vectors · row · (W − 1)             each answer goes to the others

with W workers and row = 8·d + 40 bytes (features; number, β, class, cost and gradient).
Support vectors grow as n^a with the measured a; the rounds are taken to stay as they are.

    python benchmarks/distributed_model.py --sizes 20000 40000 80000
"""

from __future__ import annotations

import argparse
import platform
import sys
import time

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

import maxmargin
from maxmargin import SVC
from maxmargin.solvers import HierarchicalSVM

PARTITION = 5000
WORKERS = 2
BEYOND = (10**6, 10**7, 10**8)


def samples(n: int, d: int, separation: float):
    """n rows on the workers, PARTITION of them in each; the classes take turns."""

    def features(block_info=None):
        (start, stop), _ = block_info[None]["array-location"]
        X = np.random.default_rng(start).normal(size=(stop - start, d))
        X[:, 0] += separation * np.where(np.arange(start, stop) % 2, 0.5, -0.5)
        return X

    def labels(block_info=None):
        ((start, stop),) = block_info[None]["array-location"]
        return np.arange(start, stop) % 2

    chunks = (PARTITION,) * (n // PARTITION)
    X = da.map_blocks(features, chunks=(chunks, (d,)), dtype=float, meta=np.empty((0, 0)))
    return X, da.map_blocks(labels, chunks=(chunks,), dtype=int, meta=np.empty(0, int))


def modelled(details: dict, n_support: int, d: int) -> float:
    row = 8 * d + 40
    steps = details["n_samples_by_step"]
    gathered = sum(steps.get("second", [])) + sum(steps["union"]) + details["readmitted"]
    checks = details["rounds_of_readmission"] + 1
    return row * (gathered * (1 - 1 / WORKERS) + checks * n_support * (WORKERS - 1))


def measure(client, n: int, args) -> dict:
    def sent(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total

    X, y = samples(n, args.features, args.separation)
    before = sum(client.run(sent).values())
    start = time.perf_counter()
    model = SVC(C=1.0, solver=HierarchicalSVM(), random_state=0).fit(X, y)
    seconds = time.perf_counter() - start
    report = model.fit_report_[0]
    return {
        "n": n, "seconds": seconds, "n_support": report.n_support,
        "rounds": report.details["rounds_of_readmission"],
        "measured": sum(client.run(sent).values()) - before,
        "modelled": modelled(report.details, report.n_support, args.features),
        "kkt_violation": report.kkt_violation, "sizes": report.details["n_samples_by_step"],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[20_000, 40_000, 80_000])
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--separation", type=float, default=6.0, help="in standard deviations")
    args = parser.parse_args()
    print(f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}: {' '.join(sys.argv)}")  # fmt: skip
    print(f"{'n':>10}{'data MB':>10}{'SVs':>8}{'rounds':>8}{'sent MB':>10}{'model MB':>10}"
          f"{'seconds':>9}{'KKT':>9}")  # fmt: skip
    rows = []
    with (
        LocalCluster(n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        measure(client, 2 * PARTITION, args)
        for n in args.sizes:
            row = measure(client, n, args)
            rows.append(row)
            print(f"{n:10d}{8e-6 * n * args.features:10.1f}{row['n_support']:8d}"
                  f"{row['rounds']:8d}{row['measured'] / 1e6:10.2f}{row['modelled'] / 1e6:10.2f}"
                  f"{row['seconds']:9.1f}{row['kkt_violation']:9.1g}", flush=True)  # fmt: skip
    sizes = np.log([row["n"] for row in rows])
    power = np.polyfit(sizes, np.log([row["n_support"] for row in rows]), 1)[0]
    print(f"support vectors grow as n^{power:.2f}")
    last = rows[-1]
    for n in BEYOND:
        growth = (n / last["n"]) ** power
        print(f"{n:10.0e}{8e-6 * n * args.features:10.0f}{growth * last['n_support']:8.0f}"
              f"{last['rounds']:8d}{'':10}{growth * last['modelled'] / 1e6:10.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
