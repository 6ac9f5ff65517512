"""All samples at once, where the kernel matrix has a low rank.

With K = VVᵀ the re-weighted system of IRWLS is a diagonal plus a matrix of low rank,
and the number of its steps hardly depends on C. What V lacks of the true kernel is
made up for pass by pass, as in iterative refinement.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from maxmargin import constants
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem, nearest_feasible, sums_of
from maxmargin.solvers.common.factors import (
    Factor,
    LandmarkFactor,
    Stopped,
    as_factor,
    pause_until,
)
from maxmargin.solvers.common.free_system import solve_free
from maxmargin.solvers.common.limit import raise_if_closed
from maxmargin.solvers.common.low_rank import (
    expected_rank,
    lacking,
    landmark_factor,
    sampled_factor,
)
from maxmargin.solvers.common.reweighted import LowRankSystem, solve_stages
from maxmargin.solvers.common.reweighted_block import ranges_of, tube_of, unit_of
from maxmargin.solvers.common.reweighted_steps import (
    LARGEST_ERROR_OF_SUM,
    SMOOTHING_PART_OF_TOL,
)

# Candidates for the first columns of the factor, at most.
_CANDIDATES = 1024
# Least accuracy of the factor relative to the diagonal; what it may lack times the largest range of
# a β, or the passes do not converge; passes at most.
_LEAST_ACCURACY = 1e-15
_LACKS_AT_BOUND = 1e-3
_PASSES = 4
# Candidates for landmarks, at most, and what the factor that they make may lack, relative to the
# diagonal, times the largest range of a β.
_LANDMARK_CANDIDATES = 4096
_LANDMARKS_LACK = 1e-7
# What a rough factor may lack times the largest range of a β, which is also the last smoothing with
# it, in units of p; and the most that it may lack, relative to the diagonal.
_ROUGH_SMOOTHING = 0.08
_ROUGHEST = 1e-3
# Factor by which the last smoothing width grows after a pass that failed.
_MORE_SMOOTHING = 100.0
# Far from the solution, the part of the diagonal that the first systems add to it.
_FIRST_RIDGE = 1e-3


def _accuracy(problem: Problem) -> float:
    """How accurate the factor must be."""
    lacks = _LACKS_AT_BOUND / _largest_range(problem)
    return max(_LEAST_ACCURACY, min(constants.FACTOR_ACCURACY, lacks))


def _largest_range(problem: Problem) -> float:
    """The largest range of a β, in units that give kernel values and p a scale of one."""
    largest = float((problem.upper - problem.lower).max()) * problem.kernel.scale
    return max(largest / unit_of(problem), 1e-300)


def rough_accuracy(problem: Problem) -> float:
    """How accurate the factor of a `rough_pass` must be."""
    return min(_ROUGHEST, _ROUGH_SMOOTHING / _largest_range(problem))


def rank_of(problem: Problem, accuracy: float | None = None) -> float:
    """A guess of the columns that the factor would have, from a look at a few samples."""
    return min(problem.n, expected_rank(problem.kernel, accuracy or _accuracy(problem)))


def factor_of(
    problem: Problem,
    cache_bytes: int,
    max_rank: int | None = None,
    expected: float | None = None,
) -> np.ndarray | None:
    """V, where its rank and the memory allow; `expected` is the `rank_of` the problem."""
    return _factor(problem, cache_bytes, max_rank or constants.MAX_RANK, expected)


def rough_factor_of(problem: Problem, cache_bytes: int, expected: float) -> np.ndarray | None:
    """V for a `rough_pass`, as accurate as that wants or as its rank allows."""
    return _factor(problem, cache_bytes, constants.ROUGH_RANK, expected, rough=True)


def _factor(problem, cache_bytes: int, max_rank: int, expected, rough: bool = False):
    fits = cache_bytes // (3 * 8 * problem.n)
    max_rank = min(max_rank, fits)
    candidates = min(_CANDIDATES, int(np.sqrt(cache_bytes / 24)))
    if max_rank < 2:
        return None
    accuracy = rough_accuracy(problem) if rough else _accuracy(problem)
    return sampled_factor(problem.kernel, max_rank, accuracy, candidates, expected, truncate=rough)


def landmarks_of(
    problem: Problem, cache_bytes: int, pause: Callable[[], None]
) -> LandmarkFactor | None:
    """V of very many samples, which is not stored."""
    candidates = min(_LANDMARK_CANDIDATES, int(np.sqrt(cache_bytes / 24)))
    accuracy = _LANDMARKS_LACK / max(1.0, _largest_range(problem))
    return landmark_factor(
        problem.kernel, constants.MAX_RANK, max(_LEAST_ACCURACY, accuracy), candidates, pause
    )


def low_rank_passes(
    problem: Problem,
    tol: float,
    V: np.ndarray | Factor,
    beta: np.ndarray,
    residual: np.ndarray,
    watch: Callable[[int, Callable | None], object],
) -> tuple[np.ndarray, np.ndarray, bool]:
    """β and residual p − Kβ after passes with K = VVᵀ, and whether they are worth another try.

    The sums of β are kept as they are. `watch(steps, state)` is called between blocks of work;
    `state()` gives violation, objective, β and intercept. If it returns something, the passes end.
    Raises `LimitIsSlack`.
    """
    stopped: list[bool] = []
    V = as_factor(V)

    def state_of(now: np.ndarray) -> tuple[float, float, np.ndarray, float]:
        errors = linear - V.times(V.sums(now))
        violation, levels = violation_of(problem, now, errors)
        return violation, problem.objective(now, errors), now, sum(levels) / len(levels)

    def watched(steps: int, now: np.ndarray | None) -> bool:
        if watch(steps, None if now is None else partial(state_of, now)):
            stopped.append(True)
        return bool(stopped)

    last_smoothing = SMOOTHING_PART_OF_TOL * tol
    for _ in range(_PASSES):
        violation, levels = violation_of(problem, beta, residual)
        if violation <= constants.TARGET * tol or stopped:
            break
        try:
            linear = residual + V.times(V.sums(beta))
            tube = tube_of(problem, beta, levels, violation)
            patient = V.pausing(pause_until(lambda: watched(0, None)))
            system = LowRankSystem(patient, linear, problem.lower, problem.upper, beta, *tube)
        except Stopped:
            break
        b, ranges = sum(levels) / len(levels), ranges_of(problem)
        smoothings = (first_smoothing(problem, ranges, violation), last_smoothing)
        new = solve_stages(system, ranges, 0.0, beta, b, smoothings, watched)
        raise_if_closed(problem, system, new, last_smoothing)
        better = None
        if stopped and new is not None:  # the certificate that follows has the exact residual
            better = moved_towards(problem, V, beta, residual, new)
        elif new is not None:
            better = _accept(problem, tol, beta, residual, new)
        if better is not None:
            beta, residual = better
            continue
        # Smoothing below the rounding of Vw leaves nothing of Σβ. After a wider one, the
        # linear system of the free samples does the rest.
        last_smoothing *= _MORE_SMOOTHING
        if last_smoothing >= violation:
            return beta, residual, False
    return beta, residual, True


def rough_pass(
    problem: Problem,
    V: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    watch: Callable[[int], object],
) -> tuple[np.ndarray, np.ndarray] | None:
    """β and residual after one pass with a rough factor; None if nothing is won.

    The inverse weights are never less than what the factor lacks of the diagonal. Far from the
    solution that costs nothing: the first systems are regularised by more in any case.
    """
    violation, levels = violation_of(problem, beta, residual)
    weakest = max(lacking(problem.kernel, V), rough_accuracy(problem) * problem.kernel.scale)
    if weakest * float(np.median(problem.upper - problem.lower)) > violation:
        return None
    linear = residual + V @ (V.T @ beta)
    tube = tube_of(problem, beta, levels, violation)
    system = LowRankSystem(V, linear, problem.lower, problem.upper, beta, *tube)
    b, ranges = sum(levels) / len(levels), ranges_of(problem)
    smoothings = (first_smoothing(problem, ranges, violation), weakest * float(np.median(ranges)))
    new = solve_stages(
        system, ranges, weakest, beta, b, smoothings, lambda steps, now: watch(steps)
    )
    return None if new is None else moved(problem, beta, residual, new)


def first_smoothing(problem: Problem, ranges: np.ndarray, violation: float) -> float:
    """The smoothing width to begin with: so large that the first systems have some regularity.

    With the weights of a large C they have none, and a start far from the solution takes
    a hundred steps to find its sets. A start near by knows them.
    """
    unit = unit_of(problem)
    if violation < unit:
        return violation
    scale = float(problem.kernel.diagonal().max() * np.median(ranges))
    return max(unit, _FIRST_RIDGE * scale)


def _accept(problem, tol, beta, residual, new) -> tuple[np.ndarray, np.ndarray] | None:
    """As `moved`, and then the free samples exactly."""
    found = moved(problem, beta, residual, new)
    if found is None or violation_of(problem, *found)[0] <= 0.1 * tol:
        return found
    new, residual = found
    solved = solve_free(problem, new, residual, constants.MAX_RANK)
    return solved, residual - _effect(problem, solved - new)


def moved(
    problem, beta, residual, new, effect: Callable[[np.ndarray], np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray] | None:
    """The new β, with the sums of the old, and its residual, if the objective falls.

    `effect(change)` is K @ change, by default from scratch in float64.
    """
    if not np.isfinite(new).all():  # a system that rounding left without a solution
        return None
    totals = sums_of(beta, problem.by_sign)
    lower, upper = problem.pieces(new)
    new = nearest_feasible(new, lower, upper, totals)
    off = np.abs(np.subtract(sums_of(new, problem.by_sign), totals)).max()
    if off > LARGEST_ERROR_OF_SUM * np.abs(new).sum():
        return None
    after = residual - (_effect(problem, new - beta) if effect is None else effect(new - beta))
    if problem.decrease(beta, new, residual, after) <= 0:
        return None
    return new, after


def moved_towards(problem, V: Factor, beta, residual, new) -> tuple[np.ndarray, np.ndarray] | None:
    """As `moved`, but no farther than the objective falls, and with the kernel VVᵀ.

    It is for a pass that was stopped: `new` may be far from the solution, and the certificate that
    follows computes the residual with the true kernel.
    """
    lower, upper = problem.pieces(new)
    change = nearest_feasible(new, lower, upper, sums_of(beta, problem.by_sign)) - beta
    effect = V.times(V.sums(change))
    fall = problem.decrease(beta, beta + change, residual, residual)  # without the curvature
    curvature = float(change @ effect)
    t = 1.0 if problem.by_sign or fall >= curvature else max(0.0, fall / curvature)
    return moved(problem, beta, residual, beta + t * change, lambda _: t * effect)


def _effect(problem: Problem, change: np.ndarray) -> np.ndarray:
    """K @ change, from scratch in float64."""
    changed = np.flatnonzero(change)
    return problem.kernel.multiply(changed, change[changed], precise=True)
