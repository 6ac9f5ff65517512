"""Compiled: pairs of classes for growing C, each solution the start of the next.

All kernel values are in memory, of all samples in the order of their classes. Samples that take
no part, such as those of a held-out fold, have a C of zero: so one matrix serves all folds as it
is, and no value of it is copied.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import inner, leaf
from maxmargin.solvers.pairs.problems import (
    CONVERGED,
    HARD,
    STEP_BUDGET,
    solve_one,
    violation_and_intercept,
)
from maxmargin.solvers.pairs.steps import ZERO

# Steps per sample, and at least, after which samples at rest are left out: fewer than from a start
# at zero.
_STEPS_PER_SAMPLE = 1
_LEAST_STEPS = 125
# Nothing is computed on demand.
_NO_SOURCE = None, None, None, (0.0, 0, 0.0, 0.0, 0)


@leaf()
def follow_pairs(K, pairs, begin, end, starts, stops, costs, growing, tol, beta_of, outcome):
    """Solve the pairs from `begin` to `end` for each C in turn.

    Parameters
    ----------
    K : the kernel matrix of all samples, float64
    pairs : array of shape (n_pairs, 2), the classes with labels +1 and −1
    starts, stops : where the samples of each class begin and end
    costs : C of each sample at C = 1
    growing : the values of C in ascending order
    tol : the KKT violation at which a solution counts as found
    beta_of : array of shape (n_C, n_classes − 1, n), β of all pairs in LIBSVM's layout; set here
    outcome : three arrays of shape (n_C, n_pairs), set here: HARD where another solver has to go
        on from the β that is left, else CONVERGED; the C whose solution it is; the intercept
    """
    status, solved_at, intercepts = outcome
    memory, n = K.reshape(K.size), K.shape[0]
    largest = 0
    for p in range(begin, end):
        g, h = pairs[p]
        largest = max(largest, stops[g] - starts[g] + stops[h] - starts[h])
    work, places = np.empty((6, largest)), np.empty((2, largest), np.int64)
    all_diagonal, nothing = np.empty(largest, np.float32), np.empty((0, 0))
    limits = tol, False, np.iinfo(np.int64).max, STEP_BUDGET, _STEPS_PER_SAMPLE, _LEAST_STEPS
    for p in range(begin, end):
        g, h = pairs[p]
        place = starts[g], stops[g], starts[h], stops[h], g, h
        first = stops[g] - starts[g]
        size = first + stops[h] - starts[h]
        beta, residual, linear, lower, upper, of_one = (
            work[0, :size], work[1, :size], work[2, :size], work[3, :size], work[4, :size],
            work[5, :size],
        )  # fmt: skip
        rows, diagonal = (places[0, :size], places[1, :size]), all_diagonal[:size]
        for t in range(size):
            s = starts[g] + t if t < first else starts[h] + t - first
            linear[t] = 1.0 if t < first else -1.0
            beta[t], residual[t], of_one[t], diagonal[t] = 0.0, linear[t], costs[s], K[s, s]
            rows[0][t], rows[1][t] = s * n + starts[g], s * n + starts[h]
        vectors = beta, residual, lower, upper, diagonal
        for c in range(growing.size):
            _set_bounds(lower, upper, linear, of_one, growing[c])
            if c > 0:
                violation, intercept = violation_and_intercept(beta, residual, lower, upper)
                if violation <= constants.TARGET * tol:
                    # No larger C has another solution.
                    status[c, p], solved_at[c, p] = CONVERGED, solved_at[c - 1, p]
                    intercepts[c, p] = intercept
                    _copy_beta(beta, place, beta_of[c])
                    continue
                _start(beta, residual, linear, of_one, growing[c - 1], growing[c])
            status[c, p], _, _ = solve_one(
                place, vectors, linear, rows, memory, None, None, None, (ZERO, ZERO), _NO_SOURCE,
                None, limits, nothing, None, True, ZERO, ZERO, True,
            )  # fmt: skip
            _, intercepts[c, p] = violation_and_intercept(beta, residual, lower, upper)
            solved_at[c, p] = c
            _copy_beta(beta, place, beta_of[c])
            if status[c, p] != CONVERGED:
                for later in range(c, growing.size):
                    status[later, p], solved_at[later, p] = HARD, later
                break


@inner()
def _set_bounds(lower, upper, linear, of_one, C):
    for t in range(lower.size):
        bound = C * of_one[t]
        lower[t], upper[t] = (0.0, bound) if linear[t] > 0.0 else (-bound, 0.0)


@inner()
def _copy_beta(beta, place, target):
    """β of a pair to its place in LIBSVM's layout."""
    g_start, g_stop, h_start, _, g, h = place
    first = g_stop - g_start
    for t in range(beta.size):
        if t < first:
            target[h - 1, g_start + t] = beta[t]
        else:
            target[g, h_start + t - first] = beta[t]


@inner()
def _start(beta, residual, linear, of_one, smaller, larger):
    """All of β grown with C, or β as it is: whichever has the better objective.

    The former suits samples at their bounds, the latter free ones; both residuals are known.
    """
    ratio = larger / smaller
    curvature, slope = 0.0, 0.0  # of the objective along β
    for t in range(beta.size):
        curvature += beta[t] * (linear[t] - residual[t])
        slope += beta[t] * linear[t]
    if 0.5 * ratio * ratio * curvature - ratio * slope >= 0.5 * curvature - slope:
        return
    for t in range(beta.size):
        bound = larger * of_one[t]
        # Bounds are met exactly.
        if abs(beta[t]) >= smaller * of_one[t]:
            beta[t] = bound if linear[t] > 0.0 else -bound
        else:
            beta[t] *= ratio
        residual[t] = linear[t] - ratio * (linear[t] - residual[t])
