"""The first fit: on a machine that has never compiled anything, and in a new process after that.

Beside scikit-learn, which has nothing to compile. Every case is a process of its own; times are
seconds of the processor, so that other load on the machine counts less.

    python benchmarks/cold_start.py
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
_CASES = ((300, 2), (900, 2), (1800, 10), (5000, 2))


def seconds(library: str, n: int, classes: int, folder: str) -> float:
    """Processor time of the first fit of a process that keeps compiled code in a folder."""
    command = [sys.executable, "-c", _PROGRAM, library, str(n), str(classes)]
    environment = os.environ | {"NUMBA_CACHE_DIR": folder}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(run.stdout)


def main() -> None:
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
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
