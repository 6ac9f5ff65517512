"""A start for very many samples: the solution of a part of them, then of a larger part.

With fewer samples, and bounds that are wider in proportion, the problem estimates that of all
samples, and its function f(x) differs from theirs by a statistical error. So a part is solved until
the hinge is smoothed by no more than that, and the next larger part begins with this function: the
β of a sample follows from the side of its margin that it is on. The sets of all samples are
nearly right before the first system of all of them is solved.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.optimality import violation_of
from maxmargin.problem import GOLDEN, Problem
from maxmargin.solvers.common.factors import Factor, LandmarkFactor, StoredFactor
from maxmargin.solvers.common.low_rank_passes import first_smoothing, moved
from maxmargin.solvers.common.reweighted import LowRankSystem, solve_stages
from maxmargin.solvers.common.reweighted_block import ranges_of, unit_of
from maxmargin.solvers.common.reweighted_steps import SMOOTHING_PART_OF_TOL

# Samples of a part as a multiple of those of the part before, and of the first part at least.
_GROWTH = 4
_LEAST_PART = 8_000
# The last smoothing width of a part is this times √(rank / samples), in units of p; the first of
# the next part is so many times that.
_STATISTICAL_ERROR = 0.2
_WIDER = 2.0


def solve_levels(
    problem: Problem,
    V: LandmarkFactor,
    tol: float,
    cache_bytes: int,
    beta: np.ndarray,
    residual: np.ndarray,
    watch: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray] | None:
    """β and residual of all samples, near the solution; None if nothing is won.

    `watch(steps)` is called between blocks of work. If it returns something, the work ends; what
    only a part of the samples has said by then is lost.
    """
    stopped: list[bool] = []

    def watched(steps: int, _) -> bool:
        if watch(steps):
            stopped.append(True)
        return bool(stopped)

    violation, levels = violation_of(problem, beta, residual)
    linear, ranges = residual + V.times(V.sums(beta)), ranges_of(problem)
    middle, total, w = 0.5 * (problem.lower + problem.upper), beta.sum(), None
    b, smoothing = sum(levels) / len(levels), first_smoothing(problem, ranges, violation)
    scattered = (np.arange(problem.n) * GOLDEN) % 1.0
    for part in _parts(problem.n):
        index = np.flatnonzero(scattered < part)
        centre = np.zeros(len(index)) if w is None else middle[index] / part
        last = SMOOTHING_PART_OF_TOL * tol
        if part < 1.0:
            error = _STATISTICAL_ERROR * unit_of(problem) * np.sqrt(V.rank / len(index))
            last = max(last, min(smoothing, error))
        system = LowRankSystem(
            _factor_of_part(V, index, cache_bytes), linear[index], problem.lower[index] / part,
            problem.upper[index] / part, np.zeros(len(index)), problem.epsilon, start=w,
            total=total,
        )  # fmt: skip
        found = solve_stages(
            system, ranges[index] / part, 0.0, centre, b, (smoothing, last), watched,
            rough=part < 1.0,
        )  # fmt: skip
        if found is None or (stopped and part < 1.0):
            return None
        w, b, smoothing = system.point, system.b, _WIDER * last
    return moved(problem, beta, residual, found)


def _parts(n: int) -> list[float]:
    """The parts of all samples, in ascending order; the last is all of them."""
    parts = [1.0]
    while n * parts[-1] >= _GROWTH * _LEAST_PART:
        parts.append(parts[-1] / _GROWTH)
    return parts[::-1]


def _factor_of_part(V: LandmarkFactor, index: np.ndarray, cache_bytes: int) -> Factor:
    """V of some samples, in memory where it takes a third of what is allowed."""
    part = V.restrict(index)
    small = 3 * 8 * part.n * part.rank <= cache_bytes
    return StoredFactor(part.rows(np.arange(part.n))) if small else part
