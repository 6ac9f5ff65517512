"""Compiled: Newton's step of the free samples of one problem, whose kernel values are in memory.

Where C is large most support vectors are free, and SMO steps crawl towards a point that a linear
system names.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import inner, part_of
from maxmargin.solvers.common import costs, reweighted_steps
from maxmargin.solvers.pairs.rows import subtract

# Systems that are solved at most, each without the samples that the one before put beyond a bound.
_MAX_SYSTEMS = 3
# Part of the trace that makes the matrix of repeated samples definite.
_RIDGE = 1e-13
# Of a step, whatever its size, in nanoseconds: there is no interpreter around it.
_COST_OF_STEP = 2e4

_model_of_cost = inner()(costs.newton_step)
_cholesky = part_of(reweighted_steps.cholesky)
_solve_factored = part_of(reweighted_steps.solve_factored)
_dot = part_of(reweighted_steps.dot)


@inner()
def free_samples(beta, lower, upper):
    """Numbers of the samples between their bounds."""
    free, count = np.empty(beta.size, np.int64), 0
    for t in range(beta.size):
        if lower[t] < beta[t] < upper[t]:
            free[count] = t
            count += 1
    return free[:count]


@inner()
def cost_of_newton_step(n_free, n):
    """Nanoseconds of a step that solves one system, without the interpreter's share."""
    return _model_of_cost(n_free, n) - constants.COST_OF_NEWTON_STEP + _COST_OF_STEP


@inner()
def newton_step(free, vectors, rows, memory, first, by_group):
    """Move the free β, and the residual with them, where that lowers the objective: whether."""
    beta, residual, lower, upper = vectors[:4]
    change = newton_change(free, vectors, rows, memory, first, by_group)
    if change is None:
        return False
    _move(beta, lower, upper, free, change)
    carry_over(residual, first, change, free, rows, memory)
    return True


@inner()
def _move(beta, lower, upper, samples, change):
    """Change some of β within their bounds; the change becomes what it is after rounding."""
    for a in range(samples.size):
        t = samples[a]
        moved = min(max(beta[t] + change[a], lower[t]), upper[t])
        change[a] = moved - beta[t]
        beta[t] = moved


@inner()
def carry_over(residual, first, change, samples, rows, memory):
    """The residual after a change of the β of some samples, from float64 values."""
    subtract(residual[:first], change, memory, rows[0][samples])
    subtract(residual[first:], change, memory, rows[1][samples])


@inner()
def newton_change(free, vectors, rows, memory, first, by_group):
    """The change of the free β that lowers the objective; None where there is none.

    minimise ½ΔᵀKΔ − residualᵀΔ  subject to  ΣΔ = 0, in each group where `by_group` is True

    Samples that Δ puts beyond a bound stay there, and the others follow by a system of their own.
    What is left of the sum is taken off the larger side. The end point is feasible, hence so is
    the line to it, and the exact minimum on that line never increases the objective.
    """
    beta, residual, lower, upper = vectors[:4]
    f = free.size
    K, change, inside, of_first = np.empty((f, f)), np.zeros(f), np.arange(f), 0
    for a in range(f):
        of_first += by_group is None or free[a] < first
        at_first, at_second = rows[0][free[a]], rows[1][free[a]] - first
        for b in range(f):
            u = free[b]
            K[a, b] = memory[at_first + u] if u < first else memory[at_second + u]
    for _ in range(_MAX_SYSTEMS):
        if inside.size < 2 or not _solve_system(
            K, residual, free, inside, change, of_first, by_group
        ):
            return None
        count = 0
        for a in inside:
            least, most = lower[free[a]] - beta[free[a]], upper[free[a]] - beta[free[a]]
            if least < change[a] < most:
                inside[count] = a
                count += 1
            else:
                change[a] = min(max(change[a], least), most)
        if count == inside.size:
            break
        inside = inside[:count]
    return change if _scale(K, residual, free, change, of_first) else None


@inner()
def _solve_system(K, residual, free, inside, change, of_first, by_group):
    """Set the change of the samples inside, where those of the others are given: if possible."""
    m, trace = inside.size, 0.0
    L, right = np.empty((m, m)), np.empty(m)
    for a in inside:
        change[a] = 0.0
        trace += K[a, a]
    for a in range(m):
        row = K[inside[a]]
        right[a] = residual[free[inside[a]]] - _dot(row, change)
        for b in range(a + 1):
            L[a, b] = row[inside[b]]
        L[a, a] += _RIDGE * trace
    if not _cholesky(L, m):
        return False
    _solve_factored(L, m, right)
    if by_group is None:
        ones = np.ones(m)
        _solve_factored(L, m, ones)
        level = (right.sum() + change.sum()) / ones.sum()
        for a in range(m):
            right[a] -= level * ones[a]
    else:
        _subtract_levels(L, right, inside, change, of_first)
    for a in range(m):
        change[inside[a]] = right[a]
    return True


@inner(error_model="numpy")
def _subtract_levels(L, right, inside, change, of_first):
    """Take the solutions for ones in either group off the right side, so that both sums are zero.

    The multiplier of a group that has no sample inside does not matter.
    """
    m = inside.size
    first, second, sums = np.zeros(m), np.zeros(m), np.zeros((2, 3))
    for a in range(m):
        first[a] = inside[a] < of_first
        second[a] = 1.0 - first[a]
    _solve_factored(L, m, first)
    _solve_factored(L, m, second)
    for a in range(m):
        group = 0 if inside[a] < of_first else 1
        sums[group, 0] += first[a]
        sums[group, 1] += second[a]
        sums[group, 2] += right[a]
    for a in range(change.size):
        sums[0 if a < of_first else 1, 2] += change[a]
    for group in range(2):
        if sums[group, group] == 0.0:
            sums[group, group] = 1.0
    determinant = sums[0, 0] * sums[1, 1] - sums[0, 1] * sums[1, 0]
    of_first_level = (sums[0, 2] * sums[1, 1] - sums[0, 1] * sums[1, 2]) / determinant
    of_second_level = (sums[0, 0] * sums[1, 2] - sums[1, 0] * sums[0, 2]) / determinant
    for a in range(m):
        right[a] -= of_first_level * first[a] + of_second_level * second[a]


@inner()
def _scale(K, residual, free, change, of_first):
    """Give the change sums of zero, and end it where the objective is least: if it falls."""
    slope, curvature = 0.0, 0.0
    _balance(change[:of_first])
    _balance(change[of_first:])
    for a in range(change.size):
        slope += residual[free[a]] * change[a]
        curvature += change[a] * _dot(K[a], change)
    if not slope > 0.0:
        return False
    if curvature > slope:
        change *= slope / curvature
    return True


@inner()
def _balance(change):
    """Shrink the larger side of the changes of a group, so that their sum is zero."""
    positive, negative = 0.0, 0.0
    for value in change:
        positive += max(value, 0.0)
        negative -= min(value, 0.0)
    least = min(positive, negative)
    if not least > 0.0:
        change[:] = 0.0
        return
    for a in range(change.size):
        change[a] *= least / (positive if change[a] > 0.0 else negative)
