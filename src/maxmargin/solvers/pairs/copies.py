"""Compiled: kernel rows of one problem, copied side by side when a step first wants them.

A copy holds K_st − (K_ss + K_tt) / 2, which is −½ times the squared distance of the images. Since
the changes of β sum to zero, steps on it are those on K, and its rounding is small against
distances, not against kernel values: in single precision that is worth several digits where all
samples are alike to the kernel.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner
from maxmargin.solvers.common.pair_steps import FAST, TINY
from maxmargin.solvers.common.vector import fast_max, fast_min
from maxmargin.solvers.pairs.steps import move, value_of

# The tol from which on steps may compute in single precision: rounding over some thousand of them
# is small beside what they leave of tol. It also hides the last digits of kernel values: of samples
# on a grid many gains are equal, and which of them is taken must not depend on how K was computed.
_TOL_OF_SINGLE = 1e-4

# Rows are padded to a multiple of this: loops of vectors then have no remainder, and places beyond
# the samples take no part.
_MULTIPLE = 64
# Beyond every place; below it float32 has all whole numbers.
_NOWHERE = 2**24


def type_of_copies(tol: float) -> np.ndarray:
    """An empty array of the type in which steps towards this tol compute."""
    return np.empty(0, np.float32 if tol >= _TOL_OF_SINGLE else np.float64)


@inner()
def padded(n):
    """The length of a row of n values."""
    return -(-n // _MULTIPLE) * _MULTIPLE


@inner()
def room_for_copies(n, kind):
    """Memory for problems of up to n samples; the copies have the type of the array `kind`."""
    values = np.empty(n * padded(n), kind.dtype)
    return values, np.empty(n, np.int64), np.empty(n), np.zeros(1, np.int64)


@inner()
def copies_of(room, n):
    """The part of the room for n samples; no row where it is none."""
    values, slot_of, half, count = room
    n_rows = n if n <= slot_of.size else 0
    block = values[: n_rows * padded(n)].reshape((n_rows, padded(n)))
    return block, slot_of[:n_rows], half[:n_rows], count


@inner()
def begin_copies(copies, place, rows, memory):
    """Forget all rows: the copies are of this problem from now on."""
    _, slot_of, half, count = copies
    first = place[1] - place[0]
    count[0] = 0
    for t in range(slot_of.size):
        slot_of[t], half[t] = -1, 0.5 * value_of(memory, rows[0], rows[1], first, t, t)


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
    target[n:] = 0.0


@inner()
def steps_on_copies(copies, place, vectors, rows, memory, level, tol, most):
    """SMO steps until the maximal violating pair is within tol: whether it is, and how many.

    They keep a residual of their own, of the type of the copies and measured from the intercept:
    so it has the smallest numbers where they count. Penalties as in `common/pair_steps.py`.
    """
    beta, residual, lower, upper = vectors
    block, slot_of, _, _ = copies
    kind, width = block.dtype.type, np.uint64(block.shape[1])
    own, gains = np.zeros(width, block.dtype), np.empty(width, block.dtype)
    grow, shrink = np.full(width, kind(-np.inf)), np.full(width, kind(np.inf))
    for t in range(beta.size):
        own[t] = residual[t] - level
        _penalise(t, beta, lower, upper, grow, shrink)
    highest, lowest = _update(own, own, own, kind(0.0), grow, shrink, width)
    steps = 0
    while highest - lowest > tol:
        if steps >= most:
            return False, steps
        i = _place_of_sum(own, grow, highest, width)
        if slot_of[i] < 0:
            copy_row(i, copies, place, rows, memory)
        row = block[slot_of[i]]
        best = _gains(own, shrink, row, highest, gains, width)
        if best > 0.0:
            j = _place_of(gains, best, width)
        else:
            j = _place_of_sum(own, shrink, lowest, width)
        if slot_of[j] < 0:
            copy_row(j, copies, place, rows, memory)
        curvature = max(-2.0 * np.float64(row[j]), TINY)
        delta = move(i, j, curvature, beta, own, lower, upper)
        _penalise(i, beta, lower, upper, grow, shrink)
        _penalise(j, beta, lower, upper, grow, shrink)
        other = block[slot_of[j]]
        highest, lowest = _update(own, row, other, kind(delta), grow, shrink, width)
        steps += 1
    return True, steps


@inner()
def _penalise(t, beta, lower, upper, grow, shrink):
    grow[t] = 0.0 if beta[t] < upper[t] else -np.inf
    shrink[t] = 0.0 if beta[t] > lower[t] else np.inf


# Loops over whole rows: with an unsigned length they need no test for negative places.


@inner(fastmath=FAST, error_model="numpy")
def _gains(residual, shrink, row, highest, gains, width):
    """The decreases of the objective by pairs (i, t), and the largest one."""
    kind = residual.dtype.type
    best, nothing, least, twice = kind(0.0), kind(0.0), kind(TINY), kind(-2.0)
    for t in range(width):
        difference = fast_max(highest - residual[t] - shrink[t], nothing)
        gains[t] = difference * difference / fast_max(twice * row[t], least)
        best = fast_max(best, gains[t])
    return best


@inner(fastmath=FAST)
def _update(residual, row_i, row_j, delta, grow, shrink, width):
    """The residual after a step; its largest growing and least shrinking value."""
    kind = residual.dtype.type
    highest, lowest = kind(-np.inf), kind(np.inf)
    for t in range(width):
        value = residual[t] - delta * (row_i[t] - row_j[t])
        residual[t] = value
        highest = fast_max(highest, value + grow[t])
        lowest = fast_min(lowest, value + shrink[t])
    return highest, lowest


# As in `common/pair_steps.py`, a place is looked for without leaving the loop early.


@inner()
def _place_of(values, wanted, width):
    kind = values.dtype.type
    nowhere = kind(_NOWHERE)
    index = nowhere
    for t in range(width):
        index = fast_min(index, kind(t) if values[t] == wanted else nowhere)
    return np.int64(index) if index < nowhere else 0


@inner()
def _place_of_sum(values, penalties, wanted, width):
    kind = values.dtype.type
    nowhere = kind(_NOWHERE)
    index = nowhere
    for t in range(width):
        index = fast_min(index, kind(t) if values[t] + penalties[t] == wanted else nowhere)
    return np.int64(index) if index < nowhere else 0


@inner()
def steps_of_active(active, copies, place, vectors, rows, memory, level, tol, most):
    """The same of some samples, whose values are gathered; the residual stays as it was."""
    beta, residual, lower, upper = vectors
    block, slot_of, _, _ = copies
    m = active.size
    part, work = np.zeros((m, padded(m)), block.dtype), np.empty((4, m))
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
