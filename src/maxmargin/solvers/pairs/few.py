"""Compiled: problems of a few samples, whose kernel values are all at hand.

Where classes have a handful of samples each, most of these are free support vectors, and one
linear system is their optimum. So the steps begin at the solution of such systems.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner
from maxmargin.solvers.common.pair_steps import FAST
from maxmargin.solvers.common.vector import fast_max, fast_min
from maxmargin.solvers.pairs.steps import LIMIT, OPTIMAL, move

# Samples up to which K is gathered and loops have a constant length, which is the lesser one where
# that suffices. Of more samples to gather K takes longer than it saves.
SMALL, _SMALLER = 32, 16

# Systems that are solved at most: each leaves the samples that it moves beyond a bound at it.
_MOST_SYSTEMS = 4
# Part of a diagonal value that a pivot must have: with less the matrix counts as singular.
_LEAST_PIVOT = 1e-10
# The least pivot in units of a label over the largest β. A β is a part of its label divided by its
# pivot or less, so that with a smaller one it is most probably beyond its bound.
_PIVOT_WITHIN_BOUND = 0.1


@inner()
def workspace(n):
    """What problems of up to n samples need: K, its factor, vectors and places of free samples."""
    return np.empty((n, n)), np.empty((n, n)), np.empty((3, n)), np.empty(n, np.int64)


@inner(fastmath={"contract", "nsz"})
def residual_of_few(K, beta, linear, residual):
    """p − Kβ from scratch: the residual of the certificate."""
    for t in range(beta.size):
        residual[t] = linear[t]
    for s in range(beta.size):
        factor, row = beta[s], K[s]
        if factor != 0.0:
            for t in range(beta.size):
                residual[t] -= factor * row[t]


@inner(error_model="numpy")
def start_of_few(space, beta, linear, lower, upper, most):
    """Set a β of zeros to the optimum for a guess of the free samples; the systems solved.

    First all samples are free. β stays as it is where no guess has a solution within the bounds,
    and where it is not zero.
    """
    K, _, vectors, free = space
    solution = vectors[0]
    n, systems = beta.size, 0
    if not _may_meet_margins(K, linear, lower, upper):
        return systems
    for t in range(n):
        free[t] = t
        if beta[t] != 0.0:
            return systems
    m = n
    while m > 1 and systems < min(_MOST_SYSTEMS, most):
        fixed = 0.0
        for t in range(n):
            fixed += beta[t]
        systems += 1
        if not _solve(space, m, beta, linear, lower, upper, fixed):
            break
        kept = 0
        for a in range(m):
            t = free[a]
            if lower[t] < solution[a] < upper[t]:
                free[kept] = t
                solution[kept] = solution[a]
                kept += 1
            else:
                beta[t] = lower[t] if solution[a] <= lower[t] else upper[t]
        if kept == m:
            for a in range(m):
                beta[free[a]] = solution[a]
            return systems
        m = kept
    for t in range(n):
        beta[t] = 0.0
    return systems


@inner()
def _may_meet_margins(K, linear, lower, upper):
    """Whether any β within the bounds puts the first and the last sample at their margins."""
    last, most = linear.size - 1, 0.0
    for t in range(linear.size):
        difference = K[0, t] - K[last, t]
        most += max(difference * lower[t], difference * upper[t])
    return most >= linear[0] - linear[last]


@inner(error_model="numpy", fastmath={"contract", "nsz"})
def _solve(space, m, beta, linear, lower, upper, fixed):
    """The optimum of m free samples while the others stay, by Cholesky's factor; False: no use.

    K_FF u = p_F − K_FB β_B and K_FF v = 1 give β_F = u − level · v, whose sum is −Σβ_B.
    """
    K, L, vectors, free = space
    u, v, inverse = vectors[0], vectors[1], vectors[2]
    for a in range(m):
        i = free[a]
        own, row = K[i], L[a]
        right = linear[i]
        if m < beta.size:
            for t in range(beta.size):
                right -= own[t] * beta[t]
        for b in range(a):
            other = L[b]
            total = own[free[b]]
            for c in range(b):
                total -= row[c] * other[c]
            row[b] = total * inverse[b]
        pivot, one = own[i], 1.0
        for c in range(a):
            pivot -= row[c] * row[c]
            right -= row[c] * u[c]
            one -= row[c] * v[c]
        enough = pivot * (upper[i] - lower[i]) > _PIVOT_WITHIN_BOUND
        if not enough or not pivot > _LEAST_PIVOT * own[i]:
            return False
        inverse[a] = 1.0 / np.sqrt(pivot)
        u[a], v[a] = right * inverse[a], one * inverse[a]
    sum_u, sum_v = 0.0, 0.0
    for a in range(m - 1, -1, -1):
        u[a] *= inverse[a]
        v[a] *= inverse[a]
        row, by_u, by_v = L[a], u[a], v[a]
        for c in range(a):
            u[c] -= row[c] * by_u
            v[c] -= row[c] * by_v
        sum_u += by_u
        sum_v += by_v
    level = (sum_u + fixed) / sum_v
    for a in range(m):
        u[a] -= level * v[a]
    return True


@inner(error_model="numpy")
def steps_of_few(
    K, padded, beta, residual, lower, upper, least, tol, max_steps, first, by_group
):  # fmt: skip
    """SMO steps of a few samples, whose kernel values are all in K, as `pair_steps` takes them.

    Whether a sample takes part is hard to predict, so the loops have no branches. Their lengths are
    constants, and vectors need neither slices nor a remainder: places beyond the samples take no
    part. `padded` is memory for seven vectors; penalties have a row for each sum.
    """
    now, diagonal, gains, grow, shrink = padded[0], padded[1], padded[2], padded[3:5], padded[5:7]
    n, first, side = np.uint64(beta.size), np.uint64(first), np.uint64(0)
    nothing, one, steps, reason = np.uint64(0), np.uint64(1), 0, OPTIMAL
    for t in range(np.uint64(SMALL)):
        now[t], diagonal[t] = 0.0, 1.0
        grow[0, t], grow[1, t], shrink[0, t], shrink[1, t] = -np.inf, -np.inf, np.inf, np.inf
    for t in range(n):
        now[t], diagonal[t] = residual[t], K[t, t]
        own = one if by_group is not None and t >= first else nothing
        _penalise(t, own, beta, lower, upper, grow, shrink)
        for s in range(n, np.uint64(_SMALLER if n <= _SMALLER else SMALL)):
            K[t, s] = 0.0
    i, j, delta = nothing, nothing, 0.0
    while True:
        highest, lowest = _update_few(K, now, grow, shrink, nothing, i, j, delta, n)
        if by_group is not None:
            side = nothing
            high, low = _update_few(K, now, grow, shrink, one, i, i, 0.0, n)
            if high - low > highest - lowest:
                highest, lowest, side = high, low, one
        if not highest - lowest > tol:
            break
        if steps >= max_steps:
            reason = LIMIT
            break
        i = _place_of_sum(now, grow, side, highest, n)
        best = _gains_of_few(K, now, shrink, side, diagonal, i, highest, least, gains, n)
        j = _place_of(gains, best, n) if best > 0.0 else _place_of_sum(now, shrink, side, lowest, n)
        curvature = max(diagonal[i] + diagonal[j] - 2.0 * K[i, j], least)
        delta = move(i, j, curvature, beta, now, lower, upper)
        _penalise(i, side, beta, lower, upper, grow, shrink)
        _penalise(j, side, beta, lower, upper, grow, shrink)
        steps += 1
    for t in range(n):
        residual[t] = now[t]
    return reason, steps


@inner()
def _penalise(t, side, beta, lower, upper, grow, shrink):
    grow[side, t] = 0.0 if beta[t] < upper[t] else -np.inf
    shrink[side, t] = 0.0 if beta[t] > lower[t] else np.inf


@inner(error_model="numpy")
def _gains_of_few(K, residual, shrink, side, diagonal, i, highest, least, gains, n):
    if n <= _SMALLER:
        return _gains_of(K, residual, shrink, side, diagonal, i, highest, least, gains, _SMALLER)
    return _gains_of(K, residual, shrink, side, diagonal, i, highest, least, gains, SMALL)


@inner(error_model="numpy", fastmath=FAST, forceinline=True)
def _gains_of(K, residual, shrink, side, diagonal, i, highest, least, gains, length):
    """The decreases of the objective by pairs (i, t), and the largest one."""
    best, own = 0.0, diagonal[i]
    for t in range(length):
        difference = fast_max(highest - residual[t] - shrink[side, t], 0.0)
        curvature = fast_max(own + diagonal[t] - 2.0 * K[i, t], least)
        gains[t] = difference * difference / curvature
        best = fast_max(best, gains[t])
    return best


@inner(error_model="numpy")
def _update_few(K, residual, grow, shrink, side, i, j, delta, n):
    if n <= _SMALLER:
        return _update_of(K, residual, grow, shrink, side, i, j, delta, _SMALLER)
    return _update_of(K, residual, grow, shrink, side, i, j, delta, SMALL)


@inner(error_model="numpy", fastmath=FAST, forceinline=True)
def _update_of(K, residual, grow, shrink, side, i, j, delta, length):
    """The residual after a step of i and j, and its extremes on one side."""
    highest, lowest = -np.inf, np.inf
    for t in range(length):
        value = residual[t] - delta * (K[i, t] - K[j, t])
        residual[t] = value
        highest = fast_max(highest, value + grow[side, t])
        lowest = fast_min(lowest, value + shrink[side, t])
    return highest, lowest


@inner()
def _place_of(values, value, n):
    for t in range(n):
        if values[t] == value:
            return t
    return np.uint64(0)


@inner()
def _place_of_sum(values, penalties, side, value, n):
    for t in range(n):
        if values[t] + penalties[side, t] == value:
            return t
    return np.uint64(0)
