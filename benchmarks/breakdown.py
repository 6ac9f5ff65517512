"""Where the time of the block method goes, case by case, in floors.

    python benchmarks/breakdown.py --data FOLDER [--cases "gaussians*,shuttle"]

The cases are those of `peers.py`, and so is the floor: one GEMM + exp pass over support
vectors × n kernel values in float32. All in one process, the faster of two fits.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import _peers_cases as cases
from _peers_judge import floor
from maxmargin import SVC

_PARTS = ("kernel", "inner", "update", "selection", "certificate")
_TURNS = 2


def breakdown(case: cases.Case, folder: Path | None) -> tuple[float, float, list[float]] | None:
    """Floor and time of a fit, and its seconds by part; None where the case has no floor."""
    samples = cases.read(case, folder)
    best, model = float("inf"), None
    for _ in range(_TURNS):
        start = time.perf_counter()
        fitted = SVC(
            C=case.C, kernel=case.kernel, gamma=case.gamma, tol=cases.TOLERANCE,
            solver="decomposition",
        )  # fmt: skip
        fitted.fit(samples.X, samples.y)
        if time.perf_counter() - start < best:
            best, model = time.perf_counter() - start, fitted
    assert model is not None
    lowest = floor(samples.X, len(model.support_), kernel=case.kernel, gamma=case.gamma)
    if lowest is None:
        return None
    details = model.fit_report_[0].details
    return lowest, best, [details.get(f"seconds_{part}", 0.0) for part in _PARTS]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder of LIBSVM files (NAME or NAME.xz)")
    parser.add_argument("--cases", help="names or patterns, separated by commas (default: all)")
    options = parser.parse_args(arguments)
    chosen = cases.select(options.cases.split(",") if options.cases else None)
    SVC().fit(*_few())
    print(
        f"{'case':16} {'floor, ms':>9} {'floors':>7}", *(f"{part:>11}" for part in _PARTS), "rest"
    )
    for case in chosen:
        found = breakdown(case, options.data)
        if found is None:
            continue
        lowest, total, parts = found
        shares = [seconds / lowest for seconds in (*parts, total - sum(parts))]
        print(
            f"{case.name:16} {1e3 * lowest:9.2f} {total / lowest:7.1f}",
            *(f"{share:11.1f}" for share in shares[:-1]), f"{shares[-1]:.1f}", flush=True,
        )  # fmt: skip


def _few():
    """A first fit, which loads what is compiled."""
    samples = cases.read(cases.select(["small-300"])[0], None)
    return samples.X, samples.y


if __name__ == "__main__":
    main()
