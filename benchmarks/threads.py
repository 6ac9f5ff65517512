"""Threads: a fit on one and two cores, and what its blocks of work allow on more.

    python benchmarks/threads.py [--repeat 5] [--data folder]

One and two threads are measured. For more, the fit is cut into blocks as it would be for so many
threads, one thread runs them one after the other, and each takes the next block when it is free
in the computation alone. Time outside of blocks, and what the interpreter takes for each block
while it holds its lock, is nobody's but one thread's. Caches and the memory's bandwidth are not
part of the model, so that its numbers are upper limits.
"""

from __future__ import annotations

import argparse
import heapq
import sys
import time
from contextlib import contextmanager

import numpy as np

import data
from classes import clouds
from maxmargin import SVC, parallel

# Seconds of the interpreter for one block: taken off a queue, called, its result stored.
_LOCKED = 5e-6
SIMULATED = (2, 4, 8, 16)


class Recorder:
    """Runs blocks one after the other and adds up what so many threads would save."""

    def __init__(self):
        self.saved, self.in_blocks = 0.0, 0.0

    def run_blocks(self, function, blocks) -> list:
        threads, given = parallel.n_threads(), parallel._state.n_threads
        parallel._state.n_threads = 1  # blocks within blocks have no threads of their own
        seconds, results = [], []
        try:
            for block in list(blocks):
                start = time.perf_counter()
                results.append(function(block))
                seconds.append(time.perf_counter() - start)
        finally:
            parallel._state.n_threads = given
        if threads > 1 and len(seconds) > 1:
            self.in_blocks += sum(seconds)
            self.saved += sum(seconds) - max(makespan(seconds, threads), _LOCKED * len(seconds))
        return results

    def run_beside(self, function, other):
        other()
        return function()


def makespan(seconds: list[float], threads: int) -> float:
    """When the last block ends if each thread takes the next one as soon as it is free."""
    free = [0.0] * threads
    for each in seconds:
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


@contextmanager
def recording():
    """A recorder in the place of the threads, in all modules that know them by name."""
    recorder, names = Recorder(), ("run_blocks", "run_beside")
    replaced = [
        (module, name)
        for module in list(sys.modules.values())
        for name in names
        if getattr(module, name, None) is getattr(parallel, name)
    ]
    before = {name: getattr(parallel, name) for name in names}
    for module, name in replaced:
        setattr(module, name, getattr(recorder, name))
    try:
        yield recorder
    finally:
        for module, name in replaced:
            setattr(module, name, before[name])


def cases(folder):
    """Names, samples, labels and parameters."""
    yield "letter-like, 15,002 × 16, 26 classes", *clouds(26, 577, 16, 0.8), {"C": 10.0}
    yield "usps-like, 7,000 × 256, 10 classes", *clouds(10, 700, 256, 2.0), {"C": 10.0}
    yield "two classes, 20,000 × 20", *clouds(2, 10_000, 20, 3.0), {"C": 1.0}
    if folder is None:
        return
    for name, gamma in (("usps", 2.0**-7), ("isolet", 0.002)):
        X, y = data.load(folder, name)
        yield name, X.toarray(), y, {"C": 10.0, "gamma": gamma}


def measured(X, y, parameters: dict, threads: int) -> float:
    start = time.perf_counter()
    SVC(n_jobs=threads, **parameters).fit(X, y)
    return time.perf_counter() - start


def simulated(X, y, parameters: dict, threads: int) -> tuple[float, float]:
    """Seconds on so many threads, and the part of one thread's time that is in blocks."""
    with recording() as recorder:
        total = measured(X, y, parameters, threads)
    return total - recorder.saved, recorder.in_blocks / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--data", help="folder of LIBSVM files")
    options = parser.parse_args()
    print("seconds, and times as fast as one thread")
    heads = [f"{threads} sim." for threads in SIMULATED]
    print(f"{'':38}{'1':>8}{'2':>14}" + "".join(f"{head:>14}" for head in heads) + "  in blocks")
    for name, X, y, parameters in cases(options.data):
        measured(X, y, parameters, 2)  # all modules are loaded, and what they need is compiled
        rounds = [
            [measured(X, y, parameters, threads) for threads in (1, 2)]
            + [simulated(X, y, parameters, threads) for threads in SIMULATED]
            for _ in range(options.repeat)
        ]
        one, two = (min(each[place] for each in rounds) for place in (0, 1))
        many = [min(each[2 + place] for each in rounds) for place in range(len(SIMULATED))]
        times = [two, *(seconds for seconds, _ in many)]
        share = np.median([each[2][1] for each in rounds])
        print(f"{name:38}{one:8.3f}" + "".join(f"{t:8.3f} {one / t:4.1f}×" for t in times)
              + f"  {share:6.1%}")  # fmt: skip


if __name__ == "__main__":
    main()
