"""The first fit: on a machine that has never compiled anything, and in a new process after that.

Beside scikit-learn, which has nothing to compile. Every case is a process of its own; times are
seconds of the processor, so that other load on the machine counts less.

    python benchmarks/cold_start.py [--parts]

`--parts` says instead where the first fit of a process spends its time once all is compiled.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

_PROGRAM = """
import sys, time
import numpy as np
library, n, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if library == "maxmargin":
    from maxmargin import SVC
else:
    from sklearn.svm import SVC
rng = np.random.default_rng(0)
X = rng.normal(size=(n, 10))
y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), np.linspace(-1, 1, classes - 1))
start = time.process_time()
SVC().fit(X, y)
print(time.process_time() - start)
"""
# Numba reads its tables of functions when it first compiles, or loads what it compiled.
_PARTS = """
import time
import numpy as np
from maxmargin import SVC
X = np.random.default_rng(0).normal(size=(300, 10))
y = X[:, 0] > 0
times = [time.process_time()]
import numba
times.append(time.process_time())
from numba.core.registry import cpu_target
cpu_target.typing_context.refresh()
cpu_target.target_context.refresh()
times.append(time.process_time())
model = SVC().fit(X, y)
times.append(time.process_time())
model.fit(X, y)
times.append(time.process_time())
print(*(after - before for before, after in zip(times[:-1], times[1:])))
"""
_NAMES = (
    "import Numba",
    "Numba's tables of functions",
    "the rest of the first fit",
    "a second fit",
)
_CASES = ((300, 2), (900, 2), (1800, 10), (5000, 2))


def seconds(library: str, n: int, classes: int, folder: str) -> float:
    """Processor time of the first fit of a process that keeps compiled code in a folder."""
    command = [sys.executable, "-c", _PROGRAM, library, str(n), str(classes)]
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def show_parts() -> None:
    """Seconds of the parts of a first fit, the least of three processes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"NUMBA_CACHE_DIR": folder}
        runs = []
        for _ in range(4):  # the first one compiles
            command = [sys.executable, "-c", _PARTS]
            run = subprocess.run(command, env=environment, capture_output=True, check=True)
            runs.append([float(word) for word in run.stdout.split()])
    print("| part of a first fit | seconds |\n|---|---|")
    for name, *times in zip(_NAMES, *runs[1:], strict=True):
        print(f"| {name} | {min(times):.3f} |")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", action="store_true", help="where the time of a process goes")
    if parser.parse_args(arguments).parts:
        show_parts()
        return
    print("| samples | classes | nothing compiled | new process | scikit-learn |")
    print("|---|---|---|---|---|")
    for n, classes in _CASES:
        with tempfile.TemporaryDirectory() as folder:
            cold = seconds("maxmargin", n, classes, folder)
            warm = seconds("maxmargin", n, classes, folder)
            peer = seconds("sklearn", n, classes, folder)
        print(f"| {n:,} | {classes} | {cold:.1f} s | {warm:.2f} s | {peer:.3f} s |", flush=True)


if __name__ == "__main__":
    main()
