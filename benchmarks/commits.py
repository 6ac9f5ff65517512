"""Two states of the code side by side, on the cases of `small.py` and `peers.py`.

    python benchmarks/commits.py OLD [--data FOLDER] [--repeat 5] [--only "small-*,a9a"]

OLD is any commit; beside it runs the working tree. Each state has a process of its own, and
the two take turns on every case. The best time of each counts; a ratio above 1.05 is marked.
Cases that need a file are left out without `--data`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fnmatch import fnmatch
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path

import numpy as np

import _peers_cases
import small

ROOT = Path(__file__).resolve().parents[1]
_SLOWER = 1.05
# Short fits are repeated within a turn until they have taken this many seconds.
_TURN_SECONDS, _TURN_FITS = 0.3, 20


def cases(folder: Path | None) -> Iterator[tuple[str, object, np.ndarray, dict]]:
    """Name, X, y and the parameters of `SVC`."""
    for name, (X, y) in small.sets():
        for words, options in small.OPTIONS.items():
            yield f"{name} {words}", X, y, options
    for case in _peers_cases.select(None):
        try:
            samples = _peers_cases.read(case, folder)
        except FileNotFoundError:
            continue
        given = case.parameters(samples)
        yield case.name, samples.X, samples.y, {key: given[key] for key in ("C", "kernel", "gamma")}


def serve(address: str) -> None:
    """Fit what the parent sends and answer with the best seconds of a fit."""
    from maxmargin import SVC

    with Client(address) as parent:
        while (task := parent.recv()) is not None:
            X, y, options = task
            SVC(**options).fit(X[:: max(1, len(y) // 400)], y[:: max(1, len(y) // 400)])
            parent.send("ready")
            while parent.recv() == "turn":
                parent.send(_turn(SVC, X, y, options))


def _turn(contestant, X, y, options: dict) -> float:
    best, spent, fits = float("inf"), 0.0, 0
    while fits == 0 or (spent < _TURN_SECONDS and fits < _TURN_FITS):
        start = time.perf_counter()
        contestant(**options).fit(X, y)
        seconds = time.perf_counter() - start
        best, spent, fits = min(best, seconds), spent + seconds, fits + 1
    return best


def start(source: Path, folder: str, name: str) -> tuple[subprocess.Popen, Connection]:
    """A process whose `maxmargin` is the one in `source`."""
    address = os.path.join(folder, name)
    with Listener(address) as listener:
        process = subprocess.Popen(
            [sys.executable, __file__, "--serve", address],
            env=os.environ | {"PYTHONPATH": str(source / "src")},
        )
        return process, listener.accept()


def compare(connections: list[Connection], X, y, options: dict, repeat: int) -> list[float]:
    """Best seconds of each state."""
    for connection in connections:
        connection.send((X, y, options))
        connection.recv()
    best = [float("inf")] * len(connections)
    for _ in range(repeat):
        for at, connection in enumerate(connections):
            connection.send("turn")
            best[at] = min(best[at], connection.recv())
    for connection in connections:
        connection.send("end")
    return best


def check_out(commit: str, folder: Path) -> Path:
    """The files of a commit, in a folder of their own."""
    folder.mkdir()
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", help="commit to compare with")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--repeat", type=int, default=5, help="turns of each (default: 5)")
    parser.add_argument("--only", default="*", help="names or patterns, separated by commas")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return serve(options.serve)
    if not options.old:
        parser.error("which commit is the old one?")
    patterns = options.only.split(",")
    with tempfile.TemporaryDirectory(prefix="maxmargin-commits-") as folder:
        sources = [check_out(options.old, Path(folder) / "old"), ROOT]
        workers = [start(source, folder, f"s{at}") for at, source in enumerate(sources)]
        connections = [connection for _, connection in workers]
        print(f"{'milliseconds of a fit':28}{options.old[:10]:>10}{'now':>10}{'now/old':>9}")
        ratios = []
        for name, X, y, parameters in cases(options.data):
            if not any(fnmatch(name, pattern) for pattern in patterns):
                continue
            old, new = compare(connections, X, y, parameters, options.repeat)
            ratios.append(new / old)
            mark = " slower" if ratios[-1] > _SLOWER else ""
            cells = f"{1e3 * old:10.2f}{1e3 * new:10.2f}{ratios[-1]:9.2f}{mark}"
            print(f"{name:28}{cells}", flush=True)
        if ratios:
            mean = np.exp(np.mean(np.log(ratios)))
            slower = sum(ratio > _SLOWER for ratio in ratios)
            print(f"{len(ratios)} cases, geometric mean {mean:.3f}, {slower} slower than 1.05")
        for process, connection in workers:
            connection.send(None)
            process.wait()


if __name__ == "__main__":
    main()
