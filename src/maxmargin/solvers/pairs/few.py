"""Compiled: problems of a few samples, whose kernel values are all at hand.

Where classes have a handful of samples each, most of these are free support vectors, and one
linear system is their optimum. So the steps begin at the solution of such systems.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner

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
