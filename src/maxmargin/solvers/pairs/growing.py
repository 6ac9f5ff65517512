"""Compiled: pairs of classes for growing C, each solution the start of the next.

All kernel values are in memory, of all samples in the order of their classes. Samples that take
no part, such as those of a held-out fold, have a C of zero: so one matrix serves all folds as it
is. The steps keep a residual of their own, in single precision where that will do; exact ones come
from the matrix.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import inner, leaf, part_of
from maxmargin.solvers.common.shrinking import settled_samples
from maxmargin.solvers.pairs.certificates import violation_and_levels
from maxmargin.solvers.pairs.copies import (
    begin_copies,
    copies_of,
    room_for_copies,
    steps_of_active,
    steps_on_copies,
)
from maxmargin.solvers.pairs.newton import (
    carry_over,
    cost_of_newton_step,
    free_samples,
    newton_step,
)
from maxmargin.solvers.pairs.problems import CONVERGED, HARD, STEP_BUDGET

# Steps per sample, and at least, after which samples at rest are left out: from a start at zero,
# where most samples have to move, and from the solution of a smaller C.
_FIRST_STEPS_PER_SAMPLE, _STEPS_PER_SAMPLE, _LEAST_STEPS = 2.0, 0.5, 125
# Steps of the others before a Newton step, at least.
_STEPS_BEFORE_NEWTON = 300
# From this part of all samples on, to leave out the others saves nothing.
_NEARLY_ALL = 0.7
# How often steps that had reached tol begin again from an exact residual.
_MAX_PASSES = 5

_settled_samples = part_of(settled_samples)


@leaf()
def follow_pairs(
    K, pairs, begin, end, starts, stops, costs, growing, tol, running, beta_of, outcome
):  # fmt: skip
    """Solve the pairs from `begin` to `end` in each fold, for each C in turn.

    Parameters
    ----------
    K : the kernel matrix of all samples, float64
    pairs : array of shape (n_pairs, 2), the classes with labels +1 and −1
    starts, stops : where the samples of each class begin and end
    costs : array of shape (n_folds, n), C of each sample at C = 1
    growing : the values of C in ascending order
    tol : the KKT violation at which a solution counts as found
    running : an empty array of the type that steps compute in
    beta_of : array of shape (n_folds, n_C, n_classes − 1, n), β of all pairs in LIBSVM's layout;
        set here
    outcome : three arrays of shape (n_folds, n_C, n_pairs), set here: HARD where another solver has
        to go on from the β that is left, else CONVERGED; the C whose solution it is; the intercept
    """
    status, solved_at, intercepts = outcome
    memory, n = K.reshape(K.size), K.shape[0]
    largest = 0
    for p in range(begin, end):
        g, h = pairs[p]
        largest = max(largest, stops[g] - starts[g] + stops[h] - starts[h])
    work, places = np.empty((5, largest)), np.empty((3, largest), np.int64)
    room = room_for_copies(largest, running)
    for p in range(begin, end):
        g, h = pairs[p]
        place = starts[g], stops[g], starts[h], stops[h], g, h
        first = stops[g] - starts[g]
        size = first + stops[h] - starts[h]
        linear, samples = work[0, :size], places[0, :size]
        rows = places[1, :size], places[2, :size]
        for t in range(size):
            s = starts[g] + t if t < first else starts[h] + t - first
            linear[t], samples[t] = 1.0 if t < first else -1.0, s
            rows[0][t], rows[1][t] = s * n + starts[g], s * n + starts[h]
        copies = copies_of(room, size)
        begin_copies(copies, place, rows, memory)
        vectors = work[1, :size], work[2, :size], work[3, :size], work[4, :size]
        for fold in range(len(costs)):
            _follow_fold(
                place, vectors, linear, rows, memory, copies, costs[fold][samples], growing, tol,
                beta_of[fold], status[fold, :, p], solved_at[fold, :, p], intercepts[fold, :, p],
            )  # fmt: skip


@inner()
def _follow_fold(
    place, vectors, linear, rows, memory, copies, of_one, growing, tol, beta_of, status, solved_at,
    intercepts,
):  # fmt: skip
    """One pair in one fold, for each C in turn."""
    beta, residual, lower, upper = vectors
    beta[:], residual[:] = 0.0, linear
    for c in range(growing.size):
        _set_bounds(lower, upper, linear, of_one, growing[c])
        if c > 0:
            violation, (intercept, _) = violation_and_levels(beta, residual, lower, upper, None)
            if violation <= constants.TARGET * tol:
                # No larger C has another solution.
                status[c], solved_at[c], intercepts[c] = CONVERGED, solved_at[c - 1], intercept
                _copy_beta(beta, place, beta_of[c])
                continue
            _start(beta, residual, linear, of_one, growing[c - 1], growing[c])
        per_sample = _FIRST_STEPS_PER_SAMPLE if c == 0 else _STEPS_PER_SAMPLE
        limit = max(int(per_sample * beta.size), _LEAST_STEPS)
        status[c] = _solve(place, vectors, linear, rows, memory, copies, tol, limit)
        _, (intercepts[c], _) = violation_and_levels(beta, residual, lower, upper, None)
        solved_at[c] = c
        _copy_beta(beta, place, beta_of[c])
        if status[c] != CONVERGED:
            for later in range(c, growing.size):
                status[later], solved_at[later] = HARD, later
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


@inner()
def _solve(place, vectors, linear, rows, memory, copies, tol, limit):
    """Steps and exact residuals in turn until the certificate agrees: the status.

    Steps of all samples come first, then, for as long as `limit` is too few, steps of the samples
    not at rest, and a Newton step of the free ones wherever these have cost as much.
    """
    beta, residual, lower, upper = vectors
    n, first, target = beta.size, place[1] - place[0], constants.TARGET * tol
    worst, passes, crawling, everything = np.inf, 0, False, np.arange(n)
    _, (level, _) = violation_and_levels(beta, residual, lower, upper, None)
    near, taken = steps_on_copies(copies, place, vectors, rows, memory, level, target, limit)
    read = taken * n
    while True:
        residual[:] = linear
        carry_over(residual, first, beta, everything, rows, memory)
        violation, (level, _) = violation_and_levels(beta, residual, lower, upper, None)
        if violation <= tol:
            return CONVERGED
        if near:  # but for what the steps' residual lacks, or for samples left out
            passes += 1
            if not violation < worst or passes > _MAX_PASSES:
                return HARD
            worst = violation
        free = free_samples(beta, lower, upper)
        # In the time of a Newton step, about.
        values = cost_of_newton_step(free.size, n) / constants.COST_OF_PAIR_STEP
        if crawling and values < STEP_BUDGET:
            read += int(values)
            if newton_step(free, vectors, rows, memory, first, None):
                violation, (level, _) = violation_and_levels(beta, residual, lower, upper, None)
        active = np.flatnonzero(
            ~_settled_samples(beta, residual, lower, upper, 0.0, False, level, level, violation)
        )
        if read >= STEP_BUDGET or active.size < 2:
            return HARD
        if active.size > _NEARLY_ALL * n:
            near, taken = steps_on_copies(
                copies, place, vectors, rows, memory, level, target, limit
            )
            read += taken * n
            continue
        most = max(int(values / active.size), _STEPS_BEFORE_NEWTON)
        most = min(most, int((STEP_BUDGET - read) / active.size) + 1)
        near, taken = steps_of_active(
            active, copies, place, vectors, rows, memory, level, target, most
        )
        crawling = not near
        read += taken * active.size + active.size**2
