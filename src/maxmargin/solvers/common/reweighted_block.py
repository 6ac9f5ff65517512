"""IRWLS on a working set whose block of the kernel matrix is in memory.

Any number of samples may meet a bound or leave it in one step, which pair steps do one by
one, and Newton's method on the free samples not at all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.problem import Problem, nearest_feasible, sums_of
from maxmargin.solvers.common.limit import raise_if_closed
from maxmargin.solvers.common.reweighted import DenseSystem, solve_stages
from maxmargin.solvers.common.reweighted_steps import LARGEST_ERROR_OF_SUM

# Largest and least upper − lower that weights are made of, times the scale of K: a bound may be far
# away, or a sample's weight next to nothing, and the kernel values must still count.
_LARGEST_RANGE = 1e12
_LEAST_RANGE = 1e-16
# Part of the violation that a tube has at the beginning, where the levels leave none.
_LEAST_TUBE = 1e-3
# Part of the samples at each end of p that do not count for its range.
_OUTSIDE = 0.1
# Rounding of K relative to its diagonal, by the bytes of a value; inverse weights must exceed it.
_ROUNDING_OF_KERNEL = {4: 3e-7, 8: 1e-15}


def ranges_of(problem: Problem) -> np.ndarray:
    """upper − lower, within what a weight can express."""
    scale = problem.kernel.scale
    return np.clip(problem.upper - problem.lower, _LEAST_RANGE / scale, _LARGEST_RANGE / scale)


def unit_of(problem: Problem) -> float:
    """The scale of residuals: half the range of p, which is 1 where p holds labels.

    Targets have any scale, and a few of them may be far from the others, which do not count. It
    is 1 where all p are the same.
    """
    for share in (_OUTSIDE, 0.0):
        low, high = np.quantile(problem.linear, (share, 1.0 - share))
        if high > low:
            return 0.5 * float(high - low)
    return 1.0


def weakest_of(dtype: np.dtype, K: np.ndarray) -> float:
    """The inverse weight that makes K + D definite in spite of the rounding of its values.

    `dtype` is the type they were computed in, whatever the type of K.
    """
    rounding = _ROUNDING_OF_KERNEL[np.dtype(dtype).itemsize]
    return rounding * np.sqrt(len(K)) * max(1e-300, float(np.abs(K.diagonal()).max()))


def knows(problem: Problem) -> bool:
    """Whether IRWLS knows a problem: one sum of β, or the two of a regression with ν."""
    return not problem.by_sign or bool(((problem.lower < 0) & (problem.upper > 0)).all())


def tube_of(
    problem: Problem, beta: np.ndarray, levels: tuple[float, ...], violation: float
) -> tuple[float, float | None]:
    """ε, and what Σ|β| must be: with two sums it is fixed, and ε follows from their levels."""
    if not problem.by_sign:
        return problem.epsilon, None
    tube = max(0.5 * (levels[0] - levels[1]), _LEAST_TUBE * violation)
    return tube, float(np.abs(beta).sum())


def solve_block(
    problem: Problem,
    K: np.ndarray,
    index: np.ndarray,
    beta: np.ndarray,
    residual: np.ndarray,
    levels: tuple[float, ...],
    violation: float,
    smoothings: tuple[float, float],
    watch: Callable[[int, np.ndarray | None], object],
    dtype: np.dtype | None = None,
) -> np.ndarray | None:
    """β of the samples `index` that lowers their objective, the others held where they are.

    K, beta and residual are theirs. None where there is no such β; `watch` as in
    `solve_stages`; `dtype` is what K was computed in, where not that of the kernel's rows.
    Raises `LimitIsSlack`.
    """
    lower, upper = problem.lower[index], problem.upper[index]
    system = DenseSystem(
        K, residual + K @ beta, lower, upper, beta, *tube_of(problem, beta, levels, violation)
    )
    middle = sum(levels) / len(levels)
    ranges = ranges_of(problem)[index]
    weakest = weakest_of(problem.kernel.dtype if dtype is None else dtype, K)
    found = solve_stages(system, ranges, weakest, beta, middle, smoothings, watch)
    if found is None or not np.isfinite(found).all():
        return None
    raise_if_closed(problem, system, found, smoothings[1])
    totals = sums_of(beta, problem.by_sign)
    found = nearest_feasible(found, *problem.pieces(found, index), totals)
    off = np.abs(np.subtract(sums_of(found, problem.by_sign), totals)).max()
    if off > LARGEST_ERROR_OF_SUM * np.abs(found).sum():
        return None
    after = residual - K @ (found - beta)
    return found if problem.decrease(beta, found, residual, after) > 0 else None
