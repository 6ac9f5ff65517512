"""Hundreds of thousands of rows: time, memory and floor, and how they grow.

    python benchmarks/large.py --data FOLDER [--cases "covtype,easy*"] [--sizes 10000,581012]

Every fit has a process of its own. Beside it stand the floor, which is the time of support vectors
× n kernel values at the speed of a matrix product, measured on the same data in the same run, and
the most memory that the process took beyond what it had before the fit, data included. Peers run
where they finish within the limit. Predictions have 103,000 support vectors (what covtype has with
all its rows), rows of the same data with random coefficients, and n is the number of rows to
predict: their labels, or with `values` their decision values. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path

import numpy as np
from sklearn.svm import SVC as SklearnSVC
from sklearn.svm import LinearSVC

from _peers_cases import names
from _peers_judge import floor, kernel_product
from _peers_output import _environment, _table, exponent
from data import ball, load, one_against_rest, patches, plane, scale_unit, shells, two_gaussians
from maxmargin import SVC

# The floor of a part of the data stands for that of all.
_FLOOR_ROWS, _FLOOR_SUPPORT = 50_000, 2_000
_WARM_UP_ROWS = 3_000
_PREDICTED_SUPPORT = 103_000
_MEGABYTE = 2**20


@dataclass(frozen=True)
class Case:
    """Fits of one kind of data at several sizes.

    Attributes
    ----------
    make : folder of the data, rows → X and y
    options : of SVC
    sizes : rows; the largest may be more than a set has, which then has all of them
    peers : names of the peers that are tried
    file : the set that it needs, None where it is generated
    predicts : method of a model that is timed in place of its fit
    """

    name: str
    make: Callable[[Path | None, int], tuple[np.ndarray, np.ndarray]]
    options: dict
    sizes: tuple[int, ...]
    peers: tuple[str, ...] = ()
    file: str | None = None
    predicts: str | None = None


@dataclass
class Line:
    """What was measured of one fit, or of one prediction.

    Attributes
    ----------
    floor : seconds of support vectors × n kernel values
    memory : MB beyond those before the fit
    judged : the float64 KKT violation by code of its own, where it was asked for
    """

    case: str
    contestant: str
    n: int
    features: int = 0
    seconds: float | None = None
    cpu_seconds: float | None = None
    floor: float | None = None
    memory: float | None = None
    n_support: int | None = None
    n_free: int | None = None
    status: str = "killed at the limit"
    violation: float | None = None
    objective: float | None = None
    judged: float | None = None
    details: dict = field(default_factory=dict)


# ---- data ---------------------------------------------------------------------------------


@cache
def _whole_covtype(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = load(folder, "covtype")
    order = np.random.default_rng(0).permutation(len(y))
    return scale_unit(X.toarray())[order], one_against_rest(y, 2)[order]


def covtype(folder: Path | None, n: int) -> tuple[np.ndarray, np.ndarray]:
    assert folder is not None
    X, y = _whole_covtype(folder)
    return X[:n].copy(), y[:n]


def a9a(folder: Path | None, n: int) -> tuple[np.ndarray, np.ndarray]:
    assert folder is not None
    X, y = load(folder, "a9a")
    return X[:n], y[:n]


def generated(make: Callable, folder: Path | None, n: int) -> tuple[np.ndarray, np.ndarray]:
    return make(n)


_gaussians = partial(generated, two_gaussians)
SIZES = (10_000, 20_000, 40_000, 80_000, 160_000)
_SVC = ("scikit-learn", "intelex")
_LINEAR = {"kernel": "linear", "C": 1.0}
CASES = (
    Case("covtype", covtype, {"C": 128.0, "gamma": 8.0}, (*SIZES, 290_506, 581_012), _SVC,
         "covtype"),
    Case("shells", partial(generated, shells), {"C": 1.0, "gamma": 0.05}, (*SIZES, 320_000), _SVC),
    Case("patches", partial(generated, patches), {"C": 10.0, "gamma": 4.0}, SIZES, _SVC),
    Case("easy-gaussians-C1", _gaussians, {"C": 1.0, "gamma": 0.5}, (100_000, 1_000_000), _SVC),
    Case("easy-gaussians-C100", _gaussians, {"C": 100.0, "gamma": 0.5}, (100_000, 1_000_000), _SVC),
    Case("easy-ball", partial(generated, ball), {"C": 100.0, "gamma": 5.0}, (245_057,), _SVC),
    Case("linear-covtype", covtype, _LINEAR, (581_012,), ("LinearSVC",), "covtype"),
    Case("linear-plane", partial(generated, plane), _LINEAR, (1_000_000,), ("LinearSVC",)),
    Case("linear-a9a", a9a, _LINEAR, (32_561,), ("LinearSVC", *_SVC), "a9a"),
    *(
        Case(f"{name}-{data}", make, options, sizes, ("scikit-learn",), file, method)
        for name, method in (("predict", "predict"), ("values", "decision_function"))
        for data, make, options, sizes, file in (
            ("covtype", covtype, {"C": 128.0, "gamma": 8.0}, (20_000, 581_012), "covtype"),
            ("shells", partial(generated, shells), {"C": 1.0, "gamma": 0.05}, (20_000,), None),
        )
    ),
)  # fmt: skip


# ---- in a process of its own --------------------------------------------------------------


def _estimator(contestant: str, options: dict):
    if contestant == "LinearSVC":
        return LinearSVC(loss="hinge", C=options["C"], max_iter=100_000)
    if contestant == "intelex":
        from sklearnex.svm import SVC as IntelexSVC

        return IntelexSVC(**options)
    return (SVC if contestant == "maxmargin" else SklearnSVC)(**options)


def _memory(name: str) -> float:
    """VmRSS, what this process has, or VmHWM, the most that it had since `_forget_peak`, in MB."""
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(name))
    # Elsewhere the most that it ever had stands for both, and tells too little.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / _MEGABYTE


def _forget_peak() -> None:
    """Let VmHWM begin anew: reading the data may have taken more than a fit."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _work(connection, contestant: str, case: str, folder: Path | None, n: int, judged: bool):
    warnings.simplefilter("ignore")
    try:
        connection.send(_measure(contestant, _named(case), folder, n, judged, connection))
    except ImportError as error:
        connection.send(Line(case, contestant, n, status=f"not installed: {error.name}"))


def _measure(contestant, case: Case, folder: Path | None, n: int, judged: bool, connection) -> Line:
    X, y = case.make(folder, _PREDICTED_SUPPORT if case.predicts else n)
    model = _estimator(contestant, case.options)
    small = _estimator(contestant, case.options).fit(X[:_WARM_UP_ROWS], y[:_WARM_UP_ROWS])
    if case.predicts:
        model = _grown(small, case.options["C"], X, y)
        X = case.make(folder, n)[0]
        getattr(model, case.predicts)(X[:1000])
    connection.send("ready")
    _forget_peak()
    before, cpu, start = _memory("VmRSS"), time.process_time(), time.perf_counter()
    if case.predicts:
        getattr(model, case.predicts)(X)
    else:
        model.fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    line = Line(
        case.name, contestant, X.shape[0], X.shape[1], seconds, cpu, status="finished",
        memory=_memory("VmHWM") - before,
    )  # fmt: skip
    if contestant == "LinearSVC":
        line.objective = _primal(model, X, y, case.options["C"])
        return line
    line.n_support = len(model.support_)
    if contestant == "maxmargin" and not case.predicts:
        report = model.fit_report_
        line.status, line.violation = str(report.status), report.kkt_violation
        line.objective, line.details = report.objective, dict(report[0].details)
        line.seconds = seconds - report.compile_seconds
    line.floor = _floor(X, line.n_support, case.options)
    line.n_free = int(np.sum(np.abs(model.dual_coef_) < case.options["C"]))
    if judged and not case.predicts:
        line.judged = _violation(model, X, y, case.options)
    return line


def _grown(model, C: float, X, y):
    """A model of two classes with all samples as support vectors, at random between their bounds.

    To train one would take far longer than what is to be measured.
    """
    order = np.argsort(y, kind="stable")
    alpha = C * np.random.default_rng(0).random(len(y))
    counts = np.array([np.sum(y < 0), np.sum(y > 0)], np.int32)
    beta = (y * alpha * np.where(y > 0, 1.0, counts[1] / counts[0]))[order][np.newaxis]
    model.support_, model.support_vectors_ = order.astype(np.int32), X[order]
    model._n_support, model.dual_coef_, model._dual_coef_ = counts, beta, -beta
    return model


def _floor(X, n_support: int, options: dict) -> float | None:
    """Seconds of n_support × n kernel values, measured on a part of them."""
    n, part = X.shape[0], min(X.shape[0], _FLOOR_ROWS)
    support = min(n_support, _FLOOR_SUPPORT, part)
    if support == 0 or options.get("kernel") == "linear":
        return None
    seconds = floor(X[:part], support, kernel="rbf", gamma=options["gamma"])
    return None if seconds is None else seconds * (n_support / support) * (n / part)


def _primal(model, X, y, C: float) -> float:
    """Minus the primal objective: what the dual one is at most."""
    weights = model.coef_.ravel()
    hinge = np.maximum(0.0, 1.0 - y * (X @ weights + model.intercept_))
    return -(0.5 * float(weights @ weights) + C * float(hinge.sum()))


def _violation(model, X, y, options: dict) -> float:
    """The maximal violating pair, from the coefficients alone."""
    beta = np.zeros(len(y))
    beta[model.support_] = np.ravel(model.dual_coef_)
    kernel = options.get("kernel", "rbf")
    slope = y - kernel_product(X, beta, kernel=kernel, gamma=options.get("gamma", 1.0))
    bound = y * options["C"]
    can_grow, can_shrink = beta < np.maximum(bound, 0.0), beta > np.minimum(bound, 0.0)
    return float(slope[can_grow].max() - slope[can_shrink].min())


# ---- in the parent ------------------------------------------------------------------------


def run(contestant: str, case: Case, folder: Path | None, n: int, limit: float, judged=False):
    """One fit in a fresh process, which is killed `limit` seconds into it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, contestant, case.name, folder, n, judged))
    process.start()
    theirs.close()
    try:
        first = ours.recv()
        if isinstance(first, Line):
            return first
        patience = limit + (2 * limit if judged else 60.0)  # the floor and the judge come after it
        return ours.recv() if ours.poll(patience) else Line(case.name, contestant, n)
    except EOFError:
        return Line(case.name, contestant, n, status="the process ended without an answer")
    finally:
        process.kill()
        process.join()
        ours.close()


def _named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def table(lines: list[Line]) -> str:
    head = ["case", "rows", "contestant", "seconds", "floor, s", "floors", "MB", "SVs (free)",
            "KKT violation", "status"]  # fmt: skip
    rows = []
    for line in lines:
        ratio = line.seconds / line.floor if line.seconds and line.floor else None
        violation = line.violation if line.judged is None else line.judged
        support = "–" if line.n_support is None else f"{line.n_support} ({line.n_free})"
        numbers = (line.seconds, line.floor, ratio)
        rows.append(
            [line.case, f"{line.n}", line.contestant]
            + ["–" if value is None else f"{value:.3g}" for value in numbers]
            + ["–" if line.memory is None else f"{line.memory:.0f}", support]
            + ["–" if violation is None else f"{violation:.1e}", line.status]
        )
    return _table(head, rows)


def exponents(lines: list[Line]) -> dict[str, float]:
    """How time grows with n, of each case and contestant with three points or more."""
    found = {}
    for case, contestant in dict.fromkeys((line.case, line.contestant) for line in lines):
        power = exponent(*_curve(lines, case, contestant))
        if power is not None:
            found[f"{case}, {contestant}"] = power
    return found


def _curve(lines, case: str, contestant: str, what: str = "seconds") -> tuple[list, list]:
    points = [
        (line.n, getattr(line, what))
        for line in lines
        if (line.case, line.contestant) == (case, contestant) and getattr(line, what) is not None
    ]
    return [at for at, _ in points], [value for _, value in points]


def plot(path: Path, lines: list[Line]) -> bool:
    """Time with the fitted exponents and memory against n; False where nothing has three points."""
    powers = exponents(lines)
    if not powers:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, memory) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for name, power in powers.items():
        case, _, contestant = name.partition(", ")
        times.plot(*_curve(lines, case, contestant), "o-", label=f"{name}: n$^{{{power:.2f}}}$")
        memory.plot(*_curve(lines, case, contestant, "memory"), "o-")
    for axes, of in ((times, "seconds"), (memory, "MB beyond those before the fit")):
        axes.set(xscale="log", yscale="log", xlabel="n", ylabel=of)
        axes.grid(alpha=0.3)
    times.legend()
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True


def main(arguments: list[str] | None = None) -> list[Line]:
    options = _parser().parse_args(arguments)
    chosen = [case for case in CASES if any(fnmatchcase(case.name, p) for p in options.cases)]
    if not chosen:
        there = ", ".join(case.name for case in CASES)
        sys.exit(f"no case is called {','.join(options.cases)!r}; there are: {there}.")
    options.out.mkdir(parents=True, exist_ok=True)
    command = ["python", *(sys.argv if arguments is None else ["large.py", *arguments])]
    lines: list[Line] = []
    for case in chosen:
        if case.file and options.data is None:
            print(f"skipped {case.name}: needs --data")
            continue
        hopeless: set[str] = set()
        for n in options.sizes or case.sizes:
            for name in ("maxmargin", *(peer for peer in case.peers if peer in options.peers)):
                if name in hopeless:
                    continue
                print(f"{case.name}, {n} rows: {name}", file=sys.stderr, flush=True)
                line = run(name, case, options.data, n, options.limit, options.judge)
                if line.seconds is None or line.seconds > options.limit / 3:
                    hopeless |= {name} - {"maxmargin"}
                lines.append(line)
                _write(options.out / "large.json", lines, shlex.join(command))
    print(table(lines))
    for name, power in exponents(lines).items():
        print(f"time of {name} grows as n^{power:.2f}")
    if plot(options.out / "large.png", lines):
        print(f"plot: {options.out / 'large.png'}")
    return lines


def _write(path: Path, lines: list[Line], command: str) -> None:
    """All figures so far: an interrupted run leaves what it has."""
    content = {
        "command": command, "environment": _environment(),
        "lines": [asdict(line) for line in lines], "exponents": exponents(lines),
    }  # fmt: skip
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of LIBSVM files (NAME or NAME.xz)")
    add("--out", type=Path, default=Path("results/large"), help="folder for JSON and plot")
    add("--cases", type=names, default=["*"], help="names or patterns, separated by commas")
    add("--sizes", type=lambda text: [int(n) for n in names(text)], help="rows of all cases")
    add("--peers", type=names, default=["scikit-learn", "intelex", "LinearSVC"])
    add("--limit", type=float, default=600.0, help="seconds a fit may take (default: 600)")
    add("--judge", action="store_true", help="recompute violations by other code, which takes long")
    return parser


if __name__ == "__main__":
    main()
