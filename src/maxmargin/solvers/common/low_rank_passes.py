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
from maxmargin.solvers.common.free_system import solve_free
from maxmargin.solvers.common.low_rank import expected_rank, sampled_factor
from maxmargin.solvers.common.reweighted import LowRankSystem, solve_stages
from maxmargin.solvers.common.reweighted_block import ROUNDING_OF_SUM, tube_of, widths_of

_CANDIDATES = 1024
# Accuracy of the factor relative to the diagonal: what it lacks times C must stay small, or the
# passes do not converge.
_LEAST_ACCURACY = 1e-15
_LACKS_AT_BOUND = 1e-3
_PASSES = 4
# Part of tol that a corner may take.
_CORNER = 0.25
_WIDER_CORNER = 100.0
# Far from the solution, the part of the diagonal that the first systems add to it.
_FIRST_RIDGE = 1e-3


def _accuracy(problem: Problem) -> float:
    """How accurate the factor must be."""
    widest = float((problem.upper - problem.lower).max()) * problem.kernel.scale
    return max(
        _LEAST_ACCURACY, min(constants.FACTOR_ACCURACY, _LACKS_AT_BOUND / max(widest, 1e-300))
    )


def rank_of(problem: Problem) -> float:
    """A guess of the columns that the factor would have, from a look at a few samples."""
    return min(problem.n, expected_rank(problem.kernel, _accuracy(problem)))


def factor_of(
    problem: Problem,
    cache_bytes: int,
    max_rank: int | None = None,
    expected: float | None = None,
) -> np.ndarray | None:
    """V, where its rank and the memory allow; `expected` is the `rank_of` the problem."""
    fits = cache_bytes // (3 * 8 * problem.n)
    max_rank = min(max_rank or constants.MAX_RANK, fits)
    candidates = min(_CANDIDATES, int(np.sqrt(cache_bytes / 24)))
    if max_rank < 2:
        return None
    return sampled_factor(problem.kernel, max_rank, _accuracy(problem), candidates, expected)


def low_rank_passes(
    problem: Problem,
    tol: float,
    V: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    watch: Callable[[int, Callable | None], object],
) -> tuple[np.ndarray, np.ndarray, bool]:
    """β and residual p − Kβ after passes with K = VVᵀ, and whether they are worth another try.

    The sums of β are kept as they are. `watch(steps, state)` is called between blocks of work;
    `state()` gives violation, objective, β and intercept. If it returns something, the passes end.
    """
    totals, stopped = sums_of(beta, problem.by_sign), []

    def state_of(now: np.ndarray) -> tuple[float, float, np.ndarray, float]:
        errors = linear - V @ (V.T @ now)
        violation, levels = violation_of(problem, now, errors)
        return violation, problem.objective(now, errors), now, sum(levels) / len(levels)

    def watched(steps: int, now: np.ndarray | None) -> bool:
        if watch(steps, None if now is None else partial(state_of, now)):
            stopped.append(True)
        return bool(stopped)

    last_corner = _CORNER * tol
    for _ in range(_PASSES):
        violation, levels = violation_of(problem, beta, residual)
        if violation <= constants.TARGET * tol or stopped:
            break
        linear = residual + V @ (V.T @ beta)
        tube = tube_of(problem, beta, levels, violation)
        system = LowRankSystem(V, linear, problem.lower, problem.upper, beta, *tube)
        b, widths = sum(levels) / len(levels), widths_of(problem)
        corners = (_first_corner(problem, widths, violation), last_corner)
        new = solve_stages(system, widths, 0.0, beta, b, corners, watched)
        better = None if new is None else _accept(problem, tol, beta, residual, new, totals)
        if better is not None:
            beta, residual = better
            continue
        # A corner narrower than the rounding of Vw leaves nothing of Σβ. After a wider one, the
        # linear system of the free samples does the rest.
        last_corner *= _WIDER_CORNER
        if last_corner >= violation:
            return beta, residual, False
    return beta, residual, True


def _first_corner(problem: Problem, widths: np.ndarray, violation: float) -> float:
    """The corner to begin with: so wide that the first systems have some regularity.

    With the weights of a large C they have none, and a start far from the solution takes
    a hundred steps to find its sets. A start near by knows them.
    """
    if violation < 1.0:
        return violation
    scale = float(problem.kernel.diagonal().max() * np.median(widths))
    return max(1.0, _FIRST_RIDGE * scale)


def _accept(problem, tol, beta, residual, new, totals) -> tuple[np.ndarray, np.ndarray] | None:
    """β and residual with the true kernel, if the objective falls; the free samples exactly."""
    if not np.isfinite(new).all():  # a system that rounding left without a solution
        return None
    lower, upper = problem.pieces(new)
    new = nearest_feasible(new, lower, upper, totals)
    off = np.abs(np.subtract(sums_of(new, problem.by_sign), totals)).max()
    if off > ROUNDING_OF_SUM * np.abs(new).sum():
        return None
    after = residual - _effect(problem, new - beta)
    if problem.decrease(beta, new, residual, after) <= 0:
        return None
    residual = after
    violation, _ = violation_of(problem, new, residual)
    if violation <= 0.1 * tol:
        return new, residual
    solved = solve_free(problem, new, residual, constants.MAX_RANK)
    return solved, residual - _effect(problem, solved - new)


def _effect(problem: Problem, change: np.ndarray) -> np.ndarray:
    """K @ change, from scratch in float64."""
    changed = np.flatnonzero(change)
    return problem.kernel.multiply(changed, change[changed], precise=True)
