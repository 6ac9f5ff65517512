"""The IRWLS engine in the place of parts of the default solver, and on its hardest case.

python benchmarks/papers/irwls_inside.py --data FOLDER
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from irwls_svc import Case, read

import _peers_cases
from maxmargin import SVC
from maxmargin.optimality import violation_and_levels
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.reweighted import DenseSystem, solve_stages
from maxmargin.solvers.common.reweighted_steps import balance
from maxmargin.solvers.decomposition import second_order as _second_order

CASES = (
    Case("Adult1", "a1a", 1000, 10),
    Case("Splice", "splice.t", 1000, 70),
    Case("Adult6", "a6a", 1, 10),
    Case("Web1", "w1a", 5, 10),
    Case("Banana", "banana1.t", 1e4, 1),
    Case("Gauss-M", "gaussians", 100, 1),
    Case("Gauss-M", "gaussians", 1e4, 1),
)
_pair_steps = ActiveSet.pair_steps


def no_factor(*arguments, **options):
    """In the place of `factor_of`: as if the kernel had no low rank."""
    return None


def dense_stages(self, working, tol, max_steps):
    """In the place of `ActiveSet.pair_steps`."""
    K = self.block(working).astype(np.float64)
    beta, residual = self.beta[working], self.residual[working]
    lower, upper = self.problem.lower[working], self.problem.upper[working]
    violation, (b,) = violation_and_levels(beta, residual, lower, upper)
    steps = [0]

    def watch(count, _):
        steps[0] += count

    new = solve_stages(
        DenseSystem(K, residual + K @ beta, lower, upper, beta), upper - lower,
        3e-7 * np.sqrt(len(K)), beta, b,
        (min(1.0, 0.4 * violation), max(0.5 * tol, 0.25 * self.tol)), watch,
    )  # fmt: skip
    if new is None:
        return _pair_steps(self, working, tol, max_steps)
    balance(new, lower, upper, beta.sum())
    change = new - beta
    if residual @ change <= 0.5 * change @ (K @ change):
        return _pair_steps(self, working, tol, max_steps)
    self.beta[working] = new
    return steps[0], self.update_residual(working, change)


def variants() -> dict:
    """What is replaced, for each column of the table."""
    return {
        "as it is": [],
        "instead of SMO steps": [patch.object(ActiveSet, "pair_steps", dense_stages)],
        "without low-rank steps": [patch.object(_second_order, "factor_of", no_factor)],
    }


def seconds(X, y, repeat=2, **options) -> str:
    """The best time of some fits of the default solver; marked where it did not converge."""
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        SVC(**options).fit(X[:1200], y[:1200])
        for _ in range(repeat):
            start = time.perf_counter()
            report = SVC(random_state=0, **options).fit(X, y).fit_report_[0]
            times.append(time.perf_counter() - start)
    used = "low-rank IRWLS" in report.details.get("second_order", ())
    mark = "" if report.status == "converged" else f" ({report.status})"
    return f"{min(times):.3f}{mark}{' *' if used else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of LIBSVM files")
    options = parser.parse_args()
    print("| case | " + " | ".join(variants()) + " |", "|---|" + "---|" * 3, sep="\n")
    for case in CASES:
        X, y = read(case, options.data)
        cells = []
        for replaced in variants().values():
            with ExitStack() as stack:
                for change in replaced:
                    stack.enter_context(change)
                cells.append(
                    seconds(X, y, C=case.C, gamma=case.gamma, solver="decomposition", time_limit=20)
                )
        print(f"| {case.name}, C = {case.C:g} | " + " | ".join(cells) + " |", flush=True)
    print("\n* the low-rank step was taken\n")
    covtype = _peers_cases.select(["covtype-5k"])[0]
    samples = _peers_cases.read(covtype, options.data)
    for solver in ("irwls", "decomposition"):
        taken = seconds(
            samples.X, samples.y, 1, C=covtype.C, gamma=covtype.gamma, solver=solver, time_limit=60
        )
        print(f"covtype, 5,000 rows, C = {covtype.C:g}, {solver}: {taken} s", flush=True)


if __name__ == "__main__":
    main()
