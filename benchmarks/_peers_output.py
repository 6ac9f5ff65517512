"""What `peers.py` shows: tables, JSON and plots, with the ratios they are read for."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from _peers_cases import TOLERANCE, Case
from _peers_judge import Verdict

# LIBSVM stops on a gradient made of float32 kernel values, so that its true violation may
# lie a little above tol: up to here an answer still counts as one.
_REACHED = 1.05
_FEASIBLE = 1e-6


@dataclass
class Entry:
    """One contestant in one case; `exceeded` when it was killed, or would have been."""

    contestant: str
    status: str
    seconds: float | None = None
    predict_seconds: float | None = None
    verdict: Verdict | None = None
    exceeded: bool = False

    @property
    def ours(self) -> bool:
        return self.contestant.partition(":")[0] == "maxmargin"

    @property
    def reached(self) -> bool:
        """Whether the answer is optimal to tol, by the judge's word."""
        return (
            self.verdict is not None
            and self.verdict.kkt_violation <= _REACHED * TOLERANCE
            and self.verdict.infeasibility <= _FEASIBLE
        )


@dataclass
class Result:
    """One case with all its contestants."""

    case: Case
    n: int
    n_features: int
    limit: float
    floor: float | None = None
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True)
class Ratio:
    """How many times faster than the best peer; `bound` where that was killed at the limit."""

    value: float
    peer: str
    bound: bool = False

    def __str__(self) -> str:
        return f"{'> ' if self.bound else ''}{self.value:.3g}"


def ratio(result: Result, entry: Entry, *, reached: bool) -> Ratio | None:
    """Time of the best peer / time of `entry`; peers that did not reach tol count if not `reached`.

    None where there is nothing to compare with, or where `entry` itself has no answer.
    """
    if entry.seconds is None:
        return None
    peers = [other for other in result.entries if not other.ours]
    timed = [(o.seconds, o.contestant) for o in peers if o.seconds and (o.reached or not reached)]
    if timed:
        seconds, peer = min(timed)
        return Ratio(seconds / entry.seconds, peer)
    exceeded = [other.contestant for other in peers if other.exceeded]
    return Ratio(result.limit / entry.seconds, exceeded[0], bound=True) if exceeded else None


# ---- tables -------------------------------------------------------------------------------


def case_table(result: Result) -> str:
    """All contestants of one case."""
    case = result.case
    gamma = f"{case.gamma:.4g}" if case.gamma else f"1/{result.n_features}"
    kernel = f"γ = {gamma}" if case.kernel == "rbf" else case.kernel
    floor = "–" if result.floor is None else f"{result.floor:.3g} s"
    title = (
        f"{case.name}: n = {result.n}, {result.n_features} features, C = {case.C:g}, {kernel}; "
        f"floor {floor}"
    )
    head = ["contestant", "seconds", "best peer / it", "it / floor", "SVs (free)",
            "KKT violation", "optimal", "own word"]  # fmt: skip
    predicts = any(entry.predict_seconds for entry in result.entries)
    rows = [_cells(result, entry) for entry in result.entries]
    if predicts:
        head.insert(2, "predict")
        for row, entry in zip(rows, result.entries):
            row.insert(2, _number(entry.predict_seconds))
    return f"{title}\n{_table(head, rows)}"


def _cells(result: Result, entry: Entry) -> list[str]:
    verdict, seconds = entry.verdict, entry.seconds
    return [
        entry.contestant,
        f"> {result.limit:g}" if entry.exceeded else _number(seconds),
        str(ratio(result, entry, reached=False) or "–") if entry.ours else "",
        _number(seconds / result.floor if seconds and result.floor else None),
        f"{verdict.n_support} ({verdict.n_free})" if verdict else "–",
        f"{verdict.kkt_violation:.1e}" if verdict else "–",
        ("yes" if entry.reached else "NO") if verdict else "–",
        entry.status,
    ]


def summary_table(results: list[Result]) -> str:
    """One row a case and solver of ours.

    The first ratio takes the fastest peer whatever its answer is worth, the
    second the fastest one that reached tol.
    """
    head = ["case", "solver", "seconds", "best peer", "ratio", "ratio to optimal peers",
            "it / floor", "KKT violation", "optimal"]  # fmt: skip
    rows = []
    for result in results:
        for entry in result.entries:
            if not entry.ours:
                continue
            fastest = ratio(result, entry, reached=False)
            cells = _cells(result, entry)
            rows.append(
                [
                    result.case.name,
                    entry.contestant.partition(":")[2] or "auto",
                    cells[1],
                    fastest.peer if fastest else "–",
                    str(fastest or "–"),
                    str(ratio(result, entry, reached=True) or "–"),
                    cells[3],
                    *cells[5:7],
                ]
            )
    return _table(head, rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table that reads well as plain text too."""
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        for line in lines
    )


# ---- JSON ---------------------------------------------------------------------------------


def write_json(path: Path, results: list[Result], skipped: dict[str, str], command: str) -> None:
    """Everything that was measured, and on what."""
    content = {
        "command": command,
        "environment": _environment(),
        "tol": TOLERANCE,
        "cases": [_as_dict(result) for result in results],
        "skipped": skipped,
        "exponents": {series: exponents(results, series) for series in ("n", "C")},
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _as_dict(result: Result) -> dict:
    content = asdict(result)
    for entry, filled in zip(result.entries, content["entries"]):
        filled["reached"] = entry.reached
        if entry.ours:
            for name, reached in (("ratio", False), ("ratio_to_optimal_peers", True)):
                value = ratio(result, entry, reached=reached)
                filled[name] = None if value is None else asdict(value)
    return content


def _environment() -> dict:
    packages = ("numpy", "scipy", "numba", "scikit-learn", "scikit-learn-intelex",
                "libsvm-official", "maxmargin")  # fmt: skip
    versions: dict[str, str | None] = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "python": platform.python_version(),
        "packages": versions,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


# ---- how cost grows -----------------------------------------------------------------------


def exponent(at: list[float], seconds: list[float]) -> float | None:
    """k of the law seconds ∝ at^k, by least squares on a log-log scale; from three points on."""
    if len(at) < 3:
        return None
    return float(np.polyfit(np.log(at), np.log(seconds), 1)[0])


def exponents(results: list[Result], series: str) -> dict[str, float | None]:
    """The fitted exponent of every contestant in a series."""
    curves = _curves(results, series)
    return {name: exponent(*curve["timed"]) for name, curve in curves.items()}


def _curves(results: list[Result], series: str) -> dict[str, dict]:
    curves: dict[str, dict] = {}
    for result in results:
        if result.case.series != series:
            continue
        for entry in result.entries:
            curve = curves.setdefault(entry.contestant, {"timed": ([], []), "exceeded": ([], [])})
            kind, seconds = "timed", entry.seconds
            if entry.exceeded:
                kind, seconds = "exceeded", result.limit
            if seconds:
                curve[kind][0].append(result.case.at)
                curve[kind][1].append(seconds)
    return curves


def plot(path: Path, results: list[Result], series: str) -> bool:
    """Time against n or C with the fitted exponents; False where there are no two points."""
    curves = _curves(results, series)
    points = {at for curve in curves.values() for at in curve["timed"][0]}
    if len(points) < 2:
        return False
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, curve in curves.items():
        power = exponent(*curve["timed"])
        label = name if power is None else f"{name}: {series}$^{{{power:.2f}}}$"
        (line,) = axes.plot(*curve["timed"], "o-", label=label)
        axes.plot(*curve["exceeded"], "^", color=line.get_color(), fillstyle="none")
    case = next(result.case for result in results if result.case.series == series)
    fixed = f"C = {case.C:g}" if series == "n" else f"n = {case.rows}"
    title = f"{case.source}, {fixed}, γ = {case.gamma:g}, tol {TOLERANCE:g}"
    axes.set(xscale="log", yscale="log", xlabel=series, ylabel="seconds", title=title)
    axes.grid(alpha=0.3)
    axes.legend(title="open triangle: killed at the limit")
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return True
