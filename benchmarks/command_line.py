"""What a command takes beside LIBSVM's own program, all that a process does included.

    python benchmarks/command_line.py [--repeat 5]

The commands and, where they are installed, `svm-train`, `svm-predict` and `svm-scale` take
turns on generated files; the best of each counts. Seconds of the processor hardly depend
on what else the machine does, those of the clock do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import dump_svmlight_file, make_classification

OURS = [sys.executable, "-m", "maxmargin.cli"]
# name, our arguments, LIBSVM's program and its arguments
COMMANDS = (
    ("help", ["--help"], None),
    ("inspect", ["inspect", "model"], None),
    ("scale 270 × 13", ["scale", "small", "out"], ["svm-scale", "small"]),
    ("predict 270 × 13", ["predict", "small", "model", "out"],
     ["svm-predict", "small", "model", "out"]),
    ("train 270 × 13", ["train", "-q", "small", "out"], ["svm-train", "-q", "small", "out"]),
    ("train 4,800 × 120", ["train", "-q", "large", "out"], ["svm-train", "-q", "large", "out"]),
)  # fmt: skip


def write_files(folder: Path) -> None:
    """A small table, a larger sparse one, and a model of the first."""
    X, y = make_classification(270, 13, n_informative=6, random_state=0)
    dump_svmlight_file(X, y, str(folder / "small"), zero_based=False)
    rng = np.random.default_rng(0)
    X = (rng.random((4800, 120)) < 0.12).astype(float)
    y = (X @ rng.normal(size=120) + rng.normal(size=4800) > 0).astype(int)
    dump_svmlight_file(X, y, str(folder / "large"), zero_based=False)
    subprocess.run([*OURS, "train", "-q", "small", "model"], cwd=folder, check=True)


def seconds_of(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of the processor and of the clock that a process takes."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system, wall


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=5, help="turns of each; the best counts")
    options = parser.parse_args(arguments)
    print("| command | maxmargin: processor, clock | LIBSVM |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        for title, ours, theirs in COMMANDS:
            contestants = [[*OURS, *ours]]
            if theirs is not None and shutil.which(theirs[0]):
                contestants.append(theirs)
            best = [(float("inf"), float("inf"))] * len(contestants)
            for _ in range(options.repeat):
                for at, command in enumerate(contestants):
                    best[at] = min(best[at], seconds_of(command, folder))
            cells = [f"{cpu:.2f} s, {wall:.2f} s" for cpu, wall in best]
            print(f"| {' | '.join([title, *cells, *['–'] * (2 - len(cells))])} |", flush=True)


if __name__ == "__main__":
    main()
