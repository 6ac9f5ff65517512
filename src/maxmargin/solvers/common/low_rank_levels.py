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
from maxmargin.solvers.common.factors import (
    Factor,
    LandmarkFactor,
    Stopped,
    StoredFactor,
    pause_until,
)
from maxmargin.solvers.common.low_rank_passes import first_smoothing, moved, moved_towards
from maxmargin.solvers.common.reweighted import LowRankSystem, solve_stages
from maxmargin.solvers.common.reweighted_block import ranges_of, unit_of
from maxmargin.solvers.common.reweighted_steps import SMOOTHING_PART_OF_TOL, clip_to_box

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
    affords: Callable[[np.ndarray], bool] = lambda beta: True,
) -> tuple[np.ndarray, np.ndarray] | None:
    """β and residual of all samples, near the solution; None if nothing is won.

    `watch(steps)` is called between blocks of work. If it returns something, the work ends, and
    the best that the present part says about all samples by then is kept, with the residual that
    V gives. `affords(β)` sets time aside for the certificate of a β with so many
    support vectors, and says whether there is as much.
    """
    stopped: list[bool] = []

    def watched(steps: int, _=None) -> bool:
        if watch(steps):
            stopped.append(True)
        return bool(stopped)

    pause = pause_until(lambda: watched(0))
    levels, reserved = _Levels(problem, V, tol, cache_bytes, pause), False
    try:
        levels.begin(beta, residual)
        for part in _parts(problem.n):
            found = levels.solve(part, watched)
            if found is None:
                return None
            if stopped:
                break
            support = np.count_nonzero(found) / len(found)
            reserved = affords((levels.scattered < support).astype(np.float64))
    except Stopped:
        pass
    if not stopped:
        return moved(problem, beta, residual, found)
    kept = [moved_towards(problem, V, beta, residual, new) for new in levels.beta_of_all()]
    best = min(filter(None, kept), key=lambda one: problem.objective(*one), default=None)
    return best if best is not None and (reserved or affords(best[0])) else None


class _Levels:
    """The function that a part of the samples has found, f(x) + b, for the next part to begin with.

    Attributes
    ----------
    w, b : f = Vw, None before the first part; the intercept
    smoothing : the smoothing width at which they were found
    of_parts : β of the last two parts, times their share of the samples; zero for all others
    scattered : a number in [0, 1) for each sample, below `part` for the samples of a part
    """

    def __init__(self, problem: Problem, V: LandmarkFactor, tol: float, cache_bytes: int, pause):
        self.problem, self.V, self.tol = problem, V, tol
        self.cache_bytes, self.pause = cache_bytes, pause
        self.w: np.ndarray | None = None
        self.of_parts: list[np.ndarray] = []
        self.ranges = ranges_of(problem)
        self.middle = 0.5 * (problem.lower + problem.upper)
        self.scattered = (np.arange(problem.n) * GOLDEN) % 1.0

    def begin(self, beta: np.ndarray, residual: np.ndarray) -> None:
        """What does not depend on the part."""
        V = self.V.pausing(self.pause)
        self.linear, self.total = residual + V.times(V.sums(beta)), beta.sum()
        violation, levels = violation_of(self.problem, beta, residual)
        self.b = sum(levels) / len(levels)
        self.smoothing = first_smoothing(self.problem, self.ranges, violation)

    def solve(self, part: float, watch: Callable) -> np.ndarray | None:
        """β of a part of the samples, all where that is 1; None where it has no solution."""
        problem, index = self.problem, np.flatnonzero(self.scattered < part)
        centre = np.zeros(len(index)) if self.w is None else self.middle[index] / part
        first, last = self.smoothing, SMOOTHING_PART_OF_TOL * self.tol
        if self.w is not None:
            first *= _WIDER
        if part < 1.0:
            error = _STATISTICAL_ERROR * unit_of(problem) * np.sqrt(self.V.rank / len(index))
            last = max(last, min(first, error))
        system = LowRankSystem(
            _factor_of_part(self.V, index, self.cache_bytes, self.pause), self.linear[index],
            problem.lower[index] / part, problem.upper[index] / part, np.zeros(len(index)),
            problem.epsilon, start=self.w, total=self.total,
        )  # fmt: skip
        found = solve_stages(
            system, self.ranges[index] / part, 0.0, centre, self.b, (first, last), watch,
            rough=part < 1.0,
        )  # fmt: skip
        self.w, self.b, self.smoothing = system.point, system.b, system.smoothing
        if found is not None:
            of_part = np.zeros(problem.n)
            of_part[index] = part * found
            self.of_parts = [*self.of_parts[-1:], of_part]
        return found

    def beta_of_all(self) -> list[np.ndarray]:
        """What the parts say about all samples: several β, any of which may be the best one.

        The function of the last part implies one, as in the first step of the next part. The
        others are β of the last two parts themselves, in the proportion of the bounds to theirs.
        """
        if self.w is None:
            return []
        problem, n = self.problem, self.problem.n
        u, target, side = np.empty(n), np.empty(n), np.empty(n)
        clip_to_box(
            self.linear, self.V.times(self.w), self.b, self.smoothing / self.ranges, self.middle,
            problem.lower, problem.upper, problem.epsilon, u, target, side,
        )  # fmt: skip
        return [target, *self.of_parts]


def _parts(n: int) -> list[float]:
    """The parts of all samples, in ascending order; the last is all of them."""
    parts = [1.0]
    while n * parts[-1] >= _GROWTH * _LEAST_PART:
        parts.append(parts[-1] / _GROWTH)
    return parts[::-1]


def _factor_of_part(
    V: LandmarkFactor, index: np.ndarray, cache_bytes: int, pause: Callable[[], None]
) -> Factor:
    """V of some samples, in memory where it takes a third of what is allowed.

    Not so where the kernel has sums of its values in half the time that reading them takes.
    """
    part = V.restrict(index).pausing(pause)
    small = 3 * 8 * part.n * part.rank <= cache_bytes
    cheap = 2 * V.kernel.values_of_product(part.rank, part.n) < part.rank * part.n
    if cheap or not small:
        return part
    return StoredFactor(part.rows(np.arange(part.n))).pausing(pause)
