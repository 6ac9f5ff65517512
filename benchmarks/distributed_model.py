"""A fit on a Dask cluster: measured on 1 and 2 workers, and simulated as data and workers grow.

Rows are made on the workers (two overlapping classes of normal distributions). Fits on one
worker tell what tasks cost, in processor time: a first-step task by its rows, a subproblem of
support vectors by its rows, a check by rows × support vectors, the scheduler (with the client) by
tasks; and how the sizes grow, as powers of n. Subproblems of tens of thousands of rows are what a
large fit waits for, so classes that overlap more are trained for their cost alone. A simulation of
the same graph of tasks with these costs (`_cluster_simulation.py`) is compared with the fits on one
and two workers, and then tells seconds, bytes and memory of clusters that are not here.

    python benchmarks/distributed_model.py --sizes 40000 80000 160000
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import WorkerPlugin
from scipy.optimize import nnls

sys.path.insert(0, str(Path(__file__).resolve().parent))
import maxmargin
from _cluster_simulation import Cluster, Simulated, Task
from maxmargin import SVC
from maxmargin.execution.dask import _ROWS_TOGETHER
from maxmargin.solvers import HierarchicalSVM

PARTITION = 5000
GROUPS = HierarchicalSVM().partitions
BEYOND = (10**6, 10**7, 10**8)
WORKERS = (4, 16, 64)
# Standard deviations between classes that overlap, and rows of theirs.
OVERLAPPING = ((3.0, 20_000), (3.0, 60_000))
# A worker with more rows than its partitions of PARTITION rows would make tasks of has larger ones.
PARTITIONS_OF_A_WORKER = 64


class Clock(WorkerPlugin):
    """Processor seconds of each task of a worker with one thread."""

    name = "clock"

    def setup(self, worker):
        self.log, self._begun = [], {}

    def transition(self, key, start, finish, **others):
        if finish == "executing":
            self._begun[key] = time.process_time()
        elif start == "executing" and key in self._begun:
            seconds = time.process_time() - self._begun.pop(key)
            if str(key).startswith("maxmargin-"):
                self.log.append((str(key).removeprefix("maxmargin-").rsplit("-", 1)[0], seconds))

    def taken(self):
        log, self.log = self.log, []
        return log


def samples(n: int, d: int, separation: float, partition: int):
    """n rows on the workers, `partition` of them in each; the classes take turns."""

    def features(block_info=None):
        (start, stop), _ = block_info[None]["array-location"]
        X = np.random.default_rng(start).normal(size=(stop - start, d))
        X[:, 0] += separation * np.where(np.arange(start, stop) % 2, 0.5, -0.5)
        return X

    def labels(block_info=None):
        ((start, stop),) = block_info[None]["array-location"]
        return np.arange(start, stop) % 2

    chunks = (partition,) * (n // partition)
    X = da.map_blocks(features, chunks=(chunks, (d,)), dtype=float, meta=np.empty((0, 0)))
    return X, da.map_blocks(labels, chunks=(chunks,), dtype=int, meta=np.empty(0, int))


@dataclass
class Fit:
    """One fit: its sizes, its seconds (wall, and processor time of each process), its tasks."""

    n: int
    partition: int
    n_support: int
    rounds: int
    readmitted: int
    sizes: dict
    kkt_violation: float
    wall: float
    worker_seconds: list[float]
    client_seconds: float
    n_bytes: int
    tasks: dict[str, list[float]]

    @property
    def n_tasks(self) -> int:
        return sum(len(seconds) for seconds in self.tasks.values())


def measure(client, n: int, args, partition: int = PARTITION, separation=None) -> Fit:
    def sent(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total

    def taken(dask_worker):
        return dask_worker.plugins["clock"].taken()

    # On the workers before the clock starts: making them is no part of a fit.
    X, y = client.persist(samples(n, args.features, separation or args.separation, partition))
    client.gather(client.compute([X[:: n // 10].sum(), y.sum()]))
    client.run(taken)
    before = sum(client.run(sent).values())
    wall, own = time.perf_counter(), time.process_time()
    model = SVC(C=1.0, solver=HierarchicalSVM(), random_state=0).fit(X, y)
    wall, own = time.perf_counter() - wall, time.process_time() - own
    tasks: dict[str, list[float]] = {}
    logs = client.run(taken).values()
    for step, seconds in (each for log in logs for each in log):
        tasks.setdefault(step, []).append(seconds)
    report = model.fit_report_[0]
    details = report.details
    return Fit(
        n, partition, report.n_support, details["rounds_of_readmission"], details["readmitted"],
        details["n_samples_by_step"], report.kkt_violation, wall,
        [sum(seconds for _, seconds in log) for log in logs], own,
        sum(client.run(sent).values()) - before, tasks,
    )  # fmt: skip


@dataclass(frozen=True)
class Power:
    """factor · x^exponent."""

    factor: float
    exponent: float

    def __call__(self, x: float) -> float:
        return self.factor * x**self.exponent

    def __str__(self) -> str:
        return f"{self.factor:.3g}·x^{self.exponent:.2f}"

    @classmethod
    def of(cls, x, values) -> Power:
        """By least squares of the logarithms."""
        exponent, factor = np.polyfit(np.log(x), np.log(values), 1)
        return cls(float(np.exp(factor)), float(exponent))


@dataclass(frozen=True)
class Quadratic:
    """linear · x + square · x²: what touches each row, and each of its kernel values."""

    linear: float
    square: float

    def __call__(self, x: float) -> float:
        return self.linear * x + self.square * x**2

    def __str__(self) -> str:
        return f"{self.linear:.3g}·x + {self.square:.3g}·x²"

    @classmethod
    def of(cls, x, values) -> Quadratic:
        """By least squares of the relative errors, neither part below zero."""
        x, values = np.asarray(x, float), np.asarray(values, float)
        found, _ = nnls(np.column_stack([x / values, x**2 / values]), np.ones(len(x)))
        return cls(*map(float, found))


@dataclass
class Laws:
    """What tasks cost and how sizes grow, as fits on one worker have it.

    Attributes
    ----------
    first : seconds of a first-step task by its rows
    kept : rows that it hands on, by its rows
    subproblem : seconds of a subproblem by its rows: second step, union, readmission
    union, support : rows of the union and support vectors, by n
    back : violators and nearly violators of a round, per support vector
    rounds : of readmission
    check : seconds per row and support vector
    scheduler : seconds per task
    row : bytes of a row that travels
    """

    first: Power
    kept: Power
    subproblem: Quadratic
    union: Power
    support: Power
    back: float
    rounds: int
    check: float
    scheduler: float
    row: int

    @classmethod
    def of(cls, fits: list[Fit], overlapping: list[Fit], d: int) -> Laws:
        one = [fit for fit in fits if fit.partition == PARTITION]
        rows, seconds = [], []
        for fit in [*one, *overlapping]:
            for step, size in (("step-2", "second"), ("union",) * 2, ("readmission",) * 2):
                rows += [float(np.mean(fit.sizes[size]))]
                seconds += [float(np.mean(fit.tasks[step]))]
        largest = one[-1]
        checked = [sum(f.tasks["certificate"]) / (f.n * f.n_support * (f.rounds + 1)) for f in one]
        per_partition = [(fit.partition, float(np.median(fit.tasks["step-1"]))) for fit in fits]
        handed = [sum(fit.sizes["second"]) / len(fit.sizes["first"]) for fit in fits]
        return cls(
            first=Power.of(*zip(*per_partition)),
            kept=Power.of([fit.partition for fit in fits], handed),
            subproblem=Quadratic.of(rows, seconds),
            union=Power.of([f.n for f in one], [f.sizes["union"][0] for f in one]),
            support=Power.of([f.n for f in one], [f.n_support for f in one]),
            back=largest.readmitted / max(1, largest.rounds) / largest.n_support,
            rounds=max(f.rounds for f in one),
            check=float(np.median(checked)),
            scheduler=float(np.median([f.client_seconds / f.n_tasks for f in one])),
            row=8 * d + 40,
        )


def graph(laws: Laws, n: int, n_workers: int, partition: int, n_second: int = GROUPS) -> list[Task]:
    """The tasks of `WorkersRun`, each next to its rows."""
    n_parts = n // partition
    homes = [at * n_workers // n_parts for at in range(n_parts)]
    kept, union, support = laws.kept(partition), laws.union(n), laws.support(n)
    first = [Task("step-1", home, laws.first(partition), n_bytes=laws.row * kept) for home in homes]
    seconds = laws.subproblem(kept * n_parts / n_second)
    second = [
        Task(
            "step-2",
            g * n_workers // n_second,
            seconds,
            first[g::n_second],
            laws.row * union / n_second,
        )
        for g in range(n_second)
    ]
    answer = Task("union", 0, laws.subproblem(union), second, laws.row * support)
    tasks = [*first, *second, answer]
    checkers: list[tuple[int, float]] = []
    for worker, rows in enumerate(partition * np.bincount(homes, minlength=n_workers)):
        n_groups = -(-int(rows) // _ROWS_TOGETHER)
        if not n_groups:  # fewer partitions than workers
            continue
        own = [task for task in first if task.worker == worker]
        checkers += [(worker, rows / n_groups)] * n_groups
        tasks += [Task("summary", worker, 0.0, own[g::n_groups]) for g in range(n_groups)]
    tasks += [Task("summary", each.worker, 0.0, [each]) for each in second]
    for last in [False] * laws.rounds + [True]:
        checks = [
            Task("certificate", worker, laws.check * rows * support, [answer])
            for worker, rows in checkers
        ]
        back = laws.row * laws.back * support / len(checks)
        verdicts = [Task("verdict", check.worker, 0.0, [check], back) for check in checks]
        heads = Task("summary", 0, 0.0, verdicts)
        tasks += [*checks, *verdicts, heads]
        if not last:
            rows = support * (1 + laws.back)
            answer = Task("readmission", 0, laws.subproblem(rows), [heads, answer, *verdicts],
                          laws.row * support)  # fmt: skip
            tasks.append(answer)
    return tasks


def simulate(
    laws: Laws, n: int, n_workers: int, args, partition: int, n_second: int = GROUPS
) -> tuple[Simulated, float]:
    """A fit on a cluster, and the most bytes that a worker holds."""
    tasks = graph(laws, n, n_workers, partition, n_second)
    network = args.gigabytes_per_second * 1e9
    found = Cluster(n_workers, laws.scheduler, network).run(tasks)
    # Rows with their number, class, cost and gradient; the kernel values of the union, in float32.
    return found, n / n_workers * laws.row + 4 * laws.union(n) ** 2


def partition_for(n: int, n_workers: int) -> int:
    return max(PARTITION, -(-n // (PARTITIONS_OF_A_WORKER * n_workers)))


def fits_on(n_workers: int, cases: list[tuple], args) -> list[Fit]:
    """Fits of n rows in partitions of a size, of a separation if it is a third."""
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Clock())
        measure(client, 8 * PARTITION, args)  # loads what is compiled
        return [
            min((measure(client, n, args, *others) for _ in range(args.repeat)),
                key=lambda fit: fit.wall)
            for n, *others in cases
        ]  # fmt: skip


def print_fits(n_workers: int, fits: list[Fit], laws: Laws, args) -> None:
    """Measured beside simulated; processor time is what a busy machine leaves alone."""
    for fit in fits:
        found, _ = simulate(laws, fit.n, n_workers, args, fit.partition)
        print(f"{n_workers:8d}{fit.n:9d}{fit.partition:10d}{fit.n_support:7d}{fit.rounds:7d}"
              f"{fit.n_tasks:7d}", end="")  # fmt: skip
        for measured, simulated in (
            (sum(fit.worker_seconds), sum(found.busy)),
            (max(fit.worker_seconds), max(found.busy)),
            (fit.client_seconds, found.scheduler),
            (fit.wall, found.seconds),
        ):
            print(f"{measured:9.2f}{simulated:7.2f}{simulated / measured:6.2f}", end="")
        print(f"{fit.n_bytes / 1e6:9.2f}{found.n_bytes / 1e6:7.2f}{fit.kkt_violation:9.1g}")


def print_beyond(laws: Laws, args) -> None:
    """Clusters that are not here; the largest also with a remedy for a large second step."""
    print(f"\n{'n':>9}{'workers':>8}{'partition':>10}{'second':>7}{'its rows':>9}{'SVs':>9}"
          f"{'tasks':>8}{'seconds':>9}{'busiest':>9}{'checks':>9}{'second':>9}{'scheduler':>10}"
          f"{'sent MB':>9}{'GB a worker':>12}")  # fmt: skip
    plain = [(n, n_workers, 1, GROUPS) for n in BEYOND for n_workers in WORKERS]
    remedies = [
        (n, WORKERS[-1], coarser, n_second)
        for n in BEYOND
        for coarser, n_second in ((4, GROUPS), (1, 4 * GROUPS))
    ]
    for n, n_workers, coarser, n_second in [*plain, *remedies]:
        partition = coarser * partition_for(n, n_workers)
        found, memory = simulate(laws, n, n_workers, args, partition, n_second)
        rows = laws.kept(partition) * (n // partition) / n_second
        checks = (laws.rounds + 1) * laws.check * n / n_workers * laws.support(n)
        print(f"{n:9.0e}{n_workers:8d}{partition:10d}{n_second:7d}{rows:9.0f}"
              f"{laws.support(n):9.0f}{len(found.finished):8d}{found.seconds:9.1f}"
              f"{max(found.busy):9.1f}{checks:9.1f}{laws.subproblem(rows):9.1f}"
              f"{found.scheduler:10.1f}{found.n_bytes / 1e6:9.0f}{memory / 1e9:12.2f}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[40_000, 80_000, 160_000])
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--separation", type=float, default=6.0, help="in standard deviations")
    parser.add_argument("--gigabytes-per-second", type=float, default=1.0, help="of a link")
    parser.add_argument("--repeat", type=int, default=3, help="the quickest of so many fits")
    args = parser.parse_args()
    print(f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
          f"{platform.machine()}: {' '.join(sys.argv)}")  # fmt: skip
    cases = [(n, PARTITION) for n in args.sizes]
    middle = args.sizes[len(args.sizes) // 2]
    others = [(middle, partition) for partition in (PARTITION // 2, 2 * PARTITION)]
    hard = [(n, n // 12, separation) for separation, n in OVERLAPPING]
    alone = fits_on(1, [*hard, *others, *cases], args)
    overlapping, alone = alone[: len(hard)], alone[len(hard) :]
    laws = Laws.of(alone, overlapping, args.features)
    for name, value in vars(laws).items():
        print(f"  {name}: {value if isinstance(value, (Power, Quadratic)) else f'{value:.3g}'}")
    print(f"  subproblems of up to {max(max(f.sizes['union']) for f in overlapping)} rows")
    print(f"{'workers':>8}{'n':>9}{'partition':>10}{'SVs':>7}{'rounds':>7}{'tasks':>7}"
          f"{'CPU s':>9}{'sim.':>7}{'ratio':>6}{'busiest':>9}{'sim.':>7}{'ratio':>6}"
          f"{'client':>9}{'sim.':>7}{'ratio':>6}{'wall s':>9}{'sim.':>7}{'ratio':>6}"
          f"{'sent MB':>9}{'sim.':>7}{'KKT':>9}")  # fmt: skip
    print_fits(1, alone, laws, args)
    print_fits(2, fits_on(2, cases, args), laws, args)
    print_beyond(laws, args)


if __name__ == "__main__":
    main()
