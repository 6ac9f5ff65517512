"""The compiled loop of sequential minimal optimisation.

It works in β-form on the residual p − Kβ: a sample can take part on the growing
side while β < upper and on the shrinking side while β > lower. Penalties of 0 or
∓∞ added to the residual stand for these tests, so that the loops have no
branches and vectorise. Kernel rows come through `slot_of`, which maps a sample to
its row in `rows`; a loop that needs a row that is not there returns and says so.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from maxmargin.solvers.common.vector import fast_max, fast_min

# Why a loop returned.
CONVERGED, STEP_LIMIT, ROW_MISSING = 0, 1, 2
# How the second sample of a pair is chosen.
SECOND_ORDER, MAXIMAL_VIOLATING_PAIR, EXHAUSTIVE = 0, 1, 2

# Parts of the largest diagonal entry that stand for a curvature that is not positive, as in LIBSVM:
# indefinite kernels have such pairs, and so do equal samples. Single precision loses more of it.
LEAST_CURVATURE = 1e-12
LEAST_CURVATURE_SINGLE = 1e-7
TINY = 1e-30
_BLOCK = 512
_NOWHERE = np.float32(2**24)
_FAST = {"nnan", "nsz", "contract", "arcp", "reassoc"}


@njit(cache=True, nogil=True)
def set_penalties(beta, lower, upper, grow_penalty, shrink_penalty):
    """Penalties of 0 where β may move in that direction, else −∞ (grow) or +∞ (shrink)."""
    for t in range(beta.size):
        grow_penalty[t] = 0.0 if beta[t] < upper[t] else -np.inf
        shrink_penalty[t] = 0.0 if beta[t] > lower[t] else np.inf


# The loops over a block take slices: counting from zero, they need no check for negative indices,
# which would keep them from being vectorised.


@njit(cache=True, nogil=True, fastmath=_FAST)
def update_block(residual, row_i, row_j, delta, grow_penalty, shrink_penalty):
    """Residual of one block after a step; its largest growing and least shrinking value."""
    kind = residual.dtype.type
    step, highest, lowest = kind(delta), kind(-np.inf), kind(np.inf)
    for t in range(residual.size):
        value = residual[t] - step * (kind(row_i[t]) - kind(row_j[t]))
        residual[t] = value
        highest = fast_max(highest, value + kind(grow_penalty[t]))
        lowest = fast_min(lowest, value + kind(shrink_penalty[t]))
    return highest, lowest


@njit(cache=True, nogil=True, fastmath=_FAST)
def extremes_of_block(residual, grow_penalty, shrink_penalty):
    kind = residual.dtype.type
    highest, lowest = kind(-np.inf), kind(np.inf)
    for t in range(residual.size):
        highest = fast_max(highest, residual[t] + kind(grow_penalty[t]))
        lowest = fast_min(lowest, residual[t] + kind(shrink_penalty[t]))
    return highest, lowest


@njit(cache=True, nogil=True, fastmath=_FAST)
def gains_of_block(residual, shrink_penalty, row_i, diagonal, diagonal_i, highest, least, gains):
    """Decrease (f_i − f_t)² / (K_ii + K_tt − 2K_it) of the pairs (i, t), in single precision."""
    best, highest = np.float32(0.0), residual.dtype.type(highest)
    for t in range(residual.size):
        difference = np.float32(highest - residual[t]) - shrink_penalty[t]
        difference = fast_max(difference, np.float32(0.0))
        curvature = diagonal_i + diagonal[t] - np.float32(2.0) * np.float32(row_i[t])
        gain = difference * difference / fast_max(curvature, least)
        gains[t] = gain
        best = fast_max(best, gain)
    return best


@njit(cache=True, nogil=True)
def _second_order_partner(residual, shrink_penalty, row_i, diagonal, i, highest, least, gains):
    """The partner of i by second-order information (the paper's heuristic, step 2), or −1."""
    n = residual.size
    diagonal_i = diagonal[i]
    best = np.float32(0.0)
    best_block = 0
    start = 0
    while start < n:
        stop = min(start + _BLOCK, n)
        gain = gains_of_block(
            residual[start:stop], shrink_penalty[start:stop], row_i[start:stop],
            diagonal[start:stop], diagonal_i, highest, least, gains[start:stop],
        )  # fmt: skip
        if gain > best:
            best = gain
            best_block = start
        start = stop
    if best == 0.0:
        return -1
    return best_block + first_place(gains[best_block : best_block + _BLOCK], best)


# The place of an extreme value is looked for without leaving the loop early, which would keep it
# from being vectorised; whole numbers up to 2²⁴ are exact in single precision. Where the values
# overflowed there may be none: then it is the first place, which is at least one.


@njit(cache=True, nogil=True)
def first_place(values, wanted):
    """Index of the first value that is the wanted one."""
    index = _NOWHERE
    for t in range(values.size):
        index = fast_min(index, np.float32(t) if values[t] == wanted else _NOWHERE)
    return np.int64(index) if index < _NOWHERE else 0


@njit(cache=True, nogil=True)
def first_sum(residual, penalty, wanted):
    """Index of the first sample whose residual and penalty have the wanted sum."""
    kind = residual.dtype.type
    index, wanted = _NOWHERE, kind(wanted)
    for t in range(residual.size):
        here = residual[t] + kind(penalty[t]) == wanted
        index = fast_min(index, np.float32(t) if here else _NOWHERE)
    return np.int64(index) if index < _NOWHERE else 0


@njit(cache=True, nogil=True)
def _best_pair(rows, slot_of, residual, grow_penalty, shrink_penalty, n, least):
    """The pair of the largest second-order decrease among all pairs; needs every row."""
    best = 0.0
    best_i = -1
    best_j = -1
    for i in range(n):
        if grow_penalty[i] != 0.0:
            continue
        row = rows[slot_of[i]]
        for j in range(n):
            difference = residual[i] - residual[j]
            if shrink_penalty[j] == 0.0 and difference > 0.0:
                curvature = row[i] + rows[slot_of[j], j] - 2.0 * row[j]
                gain = difference * difference / max(curvature, least)
                if gain > best:
                    best = gain
                    best_i = i
                    best_j = j
    return best_i, best_j


@njit(cache=True, nogil=True)
def smo_steps(
    rows, slot_of, last_used, clock, diagonal, beta, residual, lower, upper,
    grow_penalty, shrink_penalty, tol, max_steps, selection,
):  # fmt: skip
    """Take pair steps until the maximal violating pair is within tol, or a row is missing.

    Parameters
    ----------
    rows, slot_of : kernel rows, and the row of each sample (−1: not there)
    last_used, clock : time stamps for the cache's choice of what to drop
    diagonal : float32, the diagonal of the kernel matrix
    beta : float64, updated in place
    residual : float64, or float32 where that will do; updated in place
    lower, upper : float64 bounds
    grow_penalty, shrink_penalty : float32, see `set_penalties`; updated in place
    selection : SECOND_ORDER, MAXIMAL_VIOLATING_PAIR or EXHAUSTIVE

    Returns
    -------
    outcome, steps, missing sample, violation, clock
    """
    n = beta.size
    highest = -np.inf
    lowest = np.inf
    high_block = 0
    low_block = 0
    start = 0
    while start < n:
        stop = min(start + _BLOCK, n)
        high, low = extremes_of_block(
            residual[start:stop], grow_penalty[start:stop], shrink_penalty[start:stop]
        )
        if high > highest:
            highest, high_block = high, start
        if low < lowest:
            lowest, low_block = low, start
        start = stop

    gains = np.empty(n, np.float32)
    largest = np.float64(np.abs(diagonal).max())
    least_single = np.float32(LEAST_CURVATURE_SINGLE * largest + TINY)
    least = LEAST_CURVATURE * largest + TINY
    if rows.itemsize == 4:
        least = np.float64(least_single)
    steps = 0
    while True:
        if highest - lowest <= tol:
            return CONVERGED, steps, -1, max(highest - lowest, 0.0), clock
        if steps >= max_steps:
            return STEP_LIMIT, steps, -1, highest - lowest, clock
        if selection == EXHAUSTIVE:
            i, j = _best_pair(rows, slot_of, residual, grow_penalty, shrink_penalty, n, least)
        else:
            stop = high_block + _BLOCK
            i = high_block + first_sum(
                residual[high_block:stop], grow_penalty[high_block:stop], highest
            )
            if slot_of[i] < 0:
                return ROW_MISSING, steps, i, highest - lowest, clock
            j = -1
            if selection == SECOND_ORDER:
                j = _second_order_partner(
                    residual, shrink_penalty, rows[slot_of[i]], diagonal, i, highest, least_single,
                    gains,
                )  # fmt: skip
            if j < 0:
                stop = low_block + _BLOCK
                j = low_block + first_sum(
                    residual[low_block:stop], shrink_penalty[low_block:stop], lowest
                )
        # The stamp comes first: fetching the partner's row must not drop this one.
        clock += 1
        last_used[slot_of[i]] = clock
        if slot_of[j] < 0:
            return ROW_MISSING, steps, j, highest - lowest, clock
        last_used[slot_of[j]] = clock
        row_i = rows[slot_of[i]]
        row_j = rows[slot_of[j]]

        # All three from the rows: beside a float64 row, the diagonal in single precision would
        # leave nothing but rounding where samples are far from the origin.
        curvature = np.float64(row_i[i]) + np.float64(row_j[j]) - 2.0 * np.float64(row_i[j])
        delta = (residual[i] - residual[j]) / max(curvature, least)
        room_i = upper[i] - beta[i]
        room_j = beta[j] - lower[j]
        if delta >= room_i or delta >= room_j:
            delta = min(room_i, room_j)
        # A bound that is reached is set exactly: rounding must not leave a sample nearly there.
        beta[i] = upper[i] if delta >= room_i else beta[i] + delta
        beta[j] = lower[j] if delta >= room_j else beta[j] - delta
        grow_penalty[i] = 0.0 if beta[i] < upper[i] else -np.inf
        shrink_penalty[i] = 0.0 if beta[i] > lower[i] else np.inf
        grow_penalty[j] = 0.0 if beta[j] < upper[j] else -np.inf
        shrink_penalty[j] = 0.0 if beta[j] > lower[j] else np.inf

        highest = -np.inf
        lowest = np.inf
        start = 0
        while start < n:
            stop = min(start + _BLOCK, n)
            high, low = update_block(
                residual[start:stop], row_i[start:stop], row_j[start:stop], delta,
                grow_penalty[start:stop], shrink_penalty[start:stop],
            )  # fmt: skip
            if high > highest:
                highest, high_block = high, start
            if low < lowest:
                lowest, low_block = low, start
            start = stop
        steps += 1


def steps_on_block(K, diagonal, beta, residual, lower, upper, tol: float, max_steps: int) -> int:
    """Second-order steps on samples whose kernel values are all there; how many were taken.

    beta and residual are updated in place; diagonal is float32.
    """
    grow, shrink = np.empty_like(diagonal), np.empty_like(diagonal)
    set_penalties(beta, lower, upper, grow, shrink)
    itself = np.arange(len(beta))
    return smo_steps(
        K, itself, np.zeros_like(itself), 0, diagonal, beta, residual, lower, upper, grow, shrink,
        tol, max_steps, SECOND_ORDER,
    )[1]  # fmt: skip


@njit(cache=True, nogil=True)
def likely_next(residual, grow_penalty, shrink_penalty, slot_of, first, count):
    """`first` and up to `count` samples whose rows are missing and that violate most.

    Half of them can grow, half can shrink: the samples that coming steps will want.
    """
    chosen = np.empty(count + 1, np.int64)
    chosen[0] = first
    total = 1
    half = count // 2
    if half == 0:
        return chosen[:1]
    values = np.empty(half)
    for side in range(2):
        begin = total
        filled = 0
        least = 0
        for t in range(residual.size):
            if slot_of[t] >= 0 or t == first:
                continue
            value = residual[t] + grow_penalty[t]
            if side == 1:
                value = -(residual[t] + shrink_penalty[t])
            if value == -np.inf:
                continue
            if filled < half:
                chosen[begin + filled] = t
                values[filled] = value
                filled += 1
                if filled == half:
                    least = np.argmin(values)
            elif value > values[least]:
                chosen[begin + least] = t
                values[least] = value
                least = np.argmin(values)
        total += filled
    return chosen[:total]
