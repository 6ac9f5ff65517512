"""Compiled: kernel rows of one pair of classes, copied side by side when a step first wants them.

A copy holds K_st − (K_ss + K_tt) / 2, which is −½ times the squared distance of the images. Since
the changes of β sum to zero, steps on it are those on K, and its rounding is small against
distances, not against kernel values: in single precision that is worth several digits where all
samples are alike to the kernel.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner, part_of
from maxmargin.solvers.common import pair_steps
from maxmargin.solvers.common.pair_steps import ROW_MISSING, SECOND_ORDER

_smo_steps = part_of(pair_steps.smo_steps)


@inner()
def begin_copies(copies, samples, K):
    """Forget all rows: the copies are of these samples from now on."""
    _, slot_of, half, count = copies
    count[0] = 0
    for t in range(samples.size):
        slot_of[t], half[t] = -1, 0.5 * K[samples[t], samples[t]]


@inner()
def copy_row(t, copies, place, rows, memory):
    """Provide the row of sample t."""
    block, slot_of, half, count = copies
    first, n = place[1] - place[0], slot_of.size
    slot_of[t] = count[0]
    count[0] += 1
    target, own = block[slot_of[t]], half[t]
    values = memory[rows[0][t] : rows[0][t] + first]
    for u in range(first):
        target[u] = values[u] - (own + half[u])
    values = memory[rows[1][t] : rows[1][t] + n - first]
    for u in range(n - first):
        target[first + u] = values[u] - (own + half[first + u])


@inner()
def steps_on_copies(copies, place, vectors, rows, memory, level, tol, most):
    """SMO steps until the maximal violating pair is within tol: whether it is, and how many.

    They keep a residual of their own, of the type of the copies and measured from the intercept:
    so it has the smallest numbers where they count.
    """
    beta, residual, lower, upper = vectors
    block, slot_of, _, _ = copies
    n, steps, clock = beta.size, 0, 0
    own, last_used = np.empty(n, block.dtype), np.empty(n, np.int64)
    grow, shrink = np.empty((1, n), np.float32), np.empty((1, n), np.float32)
    diagonal, nothing = np.zeros(n, np.float32), np.float32(0.0)
    for t in range(n):
        own[t] = residual[t] - level
        grow[0, t] = nothing if beta[t] < upper[t] else -np.inf
        shrink[0, t] = nothing if beta[t] > lower[t] else np.inf
    while True:
        outcome, taken, missing, _, clock = _smo_steps(
            block, slot_of, last_used, clock, diagonal, beta, own, lower, upper, grow, shrink,
            0.0, tol, most - steps, SECOND_ORDER,
        )  # fmt: skip
        steps += taken
        if outcome != ROW_MISSING:
            return outcome == pair_steps.CONVERGED, steps
        copy_row(missing, copies, place, rows, memory)


@inner()
def steps_of_active(active, copies, place, vectors, rows, memory, level, tol, most):
    """The same of some samples, whose values are gathered; the residual stays as it was."""
    beta, residual, lower, upper = vectors
    block, slot_of, _, _ = copies
    m = active.size
    part, work = np.empty((m, m), block.dtype), np.empty((4, m))
    for a in range(m):
        t = active[a]
        if slot_of[t] < 0:
            copy_row(t, copies, place, rows, memory)
        work[0, a], work[1, a], work[2, a], work[3, a] = beta[t], residual[t], lower[t], upper[t]
        row, target = block[slot_of[t]], part[a]
        for b in range(m):
            target[b] = row[active[b]]
    all_there = part, np.arange(m), work[0], np.zeros(1, np.int64)
    near, steps = steps_on_copies(
        all_there, place, (work[0], work[1], work[2], work[3]), rows, memory, level, tol, most
    )
    for a in range(m):
        beta[active[a]] = work[0, a]
    return near, steps
