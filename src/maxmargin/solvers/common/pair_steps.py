"""The compiled loop of sequential minimal optimisation.

It works in β-form on the residual p − Kβ: a sample can take part on the growing
side while β < upper and on the shrinking side while β > lower. Penalties of ∓∞
added to the residual stand for these tests, and of ∓ε for the slope of ε|β|, so
that the loops have no branches and vectorise. Where two sums are fixed, the
penalties have a row for each, and both samples of a pair belong to the same sum.
Kernel rows come through `slot_of`, which maps a sample to its row in `rows`; a
loop that needs a row that is not there returns and says so.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner, leaf
from maxmargin.solvers.common.vector import fast_max, fast_min

# Why a loop returned.
CONVERGED, STEP_LIMIT, ROW_MISSING = 0, 1, 2
# How the second sample of a pair is chosen.
SECOND_ORDER, MAXIMAL_VIOLATING_PAIR, EXHAUSTIVE = 0, 1, 2

# Parts of the largest diagonal entry that stand for a curvature that is not positive, as in LIBSVM:
# indefinite kernels have such pairs, and so do equal samples. Single precision loses more of it.
LEAST_CURVATURE = 1e-12
LEAST_CURVATURE_SINGLE = 1e-7
TINY = 1e-30  # a curvature where all kernel values are zero
# Samples of a block: four arrays of this length fit the first-level cache.
BLOCK = 512
# Beyond every place in a block; below it float32 has all whole numbers.
_NOWHERE = np.float32(2**24)
# Of the diagonal in float32: a step adds a few kernel values, and must not overflow.
LARGEST_DIAGONAL = 1e37
FAST = {"nnan", "nsz", "contract", "arcp", "reassoc"}


# Part of tol that penalties in single precision may cost.
_ROUNDING_OF_PENALTY = 0.01


def diagonal_for_gains(diagonal: np.ndarray) -> np.ndarray:
    """The diagonal of the kernel matrix as the loops take it: float32, and finite.

    Kernel values beyond the range of float32 make the gains of their pairs meaningless, not the
    steps: those follow the rows. An infinite diagonal would make every step zero.
    """
    return np.clip(diagonal, -LARGEST_DIAGONAL, LARGEST_DIAGONAL).astype(np.float32)


def penalties_of(beta, lower, upper, epsilon: float, by_sign: bool, tol: float):
    """The penalties of growing and shrinking, one row per sum; see `_penalise`."""
    exact = epsilon * 2.0**-23 > _ROUNDING_OF_PENALTY * tol
    shape, kind = (1 + by_sign, len(beta)), np.float64 if exact else np.float32
    grow, shrink = np.empty(shape, kind), np.empty(shape, kind)
    _penalise_all(beta, lower, upper, epsilon, grow, shrink)
    return grow, shrink


@inner()
def _penalise(t, beta, lower, upper, epsilon, grow_penalty, shrink_penalty):
    """Penalties of one sample: the slope of −ε|β| where β may move in that direction, else ∓∞.

    At zero a sample grows among the positive ones, and shrinks among the negative ones.
    """
    value = beta[t]
    grow = (-epsilon if value >= 0.0 else epsilon) if value < upper[t] else -np.inf
    shrink = (-epsilon if value > 0.0 else epsilon) if value > lower[t] else np.inf
    if grow_penalty.shape[0] == 1:
        grow_penalty[0, t] = grow
        shrink_penalty[0, t] = shrink
    else:
        grow_penalty[0, t] = grow if value >= 0.0 else -np.inf
        grow_penalty[1, t] = grow if value < 0.0 else -np.inf
        shrink_penalty[0, t] = shrink if value > 0.0 else np.inf
        shrink_penalty[1, t] = shrink if value <= 0.0 else np.inf


@leaf()
def _penalise_all(beta, lower, upper, epsilon, grow_penalty, shrink_penalty):
    for t in range(beta.size):
        _penalise(t, beta, lower, upper, epsilon, grow_penalty, shrink_penalty)


# The loops over a block take slices: counting from zero, they need no check for negative indices,
# which would keep them from being vectorised.


@inner(fastmath=FAST)
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


@inner(fastmath=FAST)
def extremes_of_block(residual, grow_penalty, shrink_penalty):
    kind = residual.dtype.type
    highest, lowest = kind(-np.inf), kind(np.inf)
    for t in range(residual.size):
        highest = fast_max(highest, residual[t] + kind(grow_penalty[t]))
        lowest = fast_min(lowest, residual[t] + kind(shrink_penalty[t]))
    return highest, lowest


# Python's error model would test each divisor for zero, and keep the loop from being vectorised.
@inner(fastmath=FAST, error_model="numpy")
def gains_of_block(residual, shrink_penalty, row_i, diagonal, diagonal_i, highest, least, gains):
    """Decrease (f_i − f_t)² / (K_ii + K_tt − 2K_it) of the pairs (i, t), in single precision."""
    best, highest = np.float32(0.0), residual.dtype.type(highest)
    for t in range(residual.size):
        difference = np.float32(highest - residual[t]) - np.float32(shrink_penalty[t])
        difference = fast_max(difference, np.float32(0.0))
        curvature = diagonal_i + diagonal[t] - np.float32(2.0) * np.float32(row_i[t])
        gain = difference * difference / fast_max(curvature, least)
        gains[t] = gain
        best = fast_max(best, gain)
    return best


@inner()
def _second_order_partner(residual, shrink_penalty, row_i, diagonal, i, highest, least, gains):
    """The partner of i by second-order information (the paper's heuristic, step 2), or −1."""
    n = residual.size
    diagonal_i = diagonal[i]
    best = np.float32(0.0)
    best_block = 0
    start = 0
    while start < n:
        stop = min(start + BLOCK, n)
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
    return best_block + first_place(gains[best_block : best_block + BLOCK], best)


# The place of an extreme value is looked for without leaving the loop early, which would keep it
# from being vectorised; whole numbers up to 2²⁴ are exact in single precision. Where the values
# overflowed there may be none: then it is the first place, which is at least one.


@inner()
def first_place(values, wanted):
    """Index of the first value that is the wanted one."""
    index = _NOWHERE
    for t in range(values.size):
        index = fast_min(index, np.float32(t) if values[t] == wanted else _NOWHERE)
    return np.int64(index) if index < _NOWHERE else 0


@inner()
def first_sum(residual, penalty, wanted):
    """Index of the first sample whose residual and penalty have the wanted sum."""
    kind = residual.dtype.type
    index, wanted = _NOWHERE, kind(wanted)
    for t in range(residual.size):
        here = residual[t] + kind(penalty[t]) == wanted
        index = fast_min(index, np.float32(t) if here else _NOWHERE)
    return np.int64(index) if index < _NOWHERE else 0


@inner()
def _best_pair(rows, slot_of, residual, grow_penalty, shrink_penalty, n, least):
    """The pair of the largest second-order decrease among all pairs; needs every row.

    −1 and −1 where rounding leaves no pair a decrease.
    """
    best = 0.0
    best_i = -1
    best_j = -1
    for i in range(n):
        grow = residual[i] + grow_penalty[i]
        if grow == -np.inf:
            continue
        row = rows[slot_of[i]]
        for j in range(n):
            difference = grow - (residual[j] + shrink_penalty[j])
            if difference > 0.0:
                curvature = row[i] + rows[slot_of[j], j] - 2.0 * row[j]
                gain = difference * difference / max(curvature, least)
                if gain > best:
                    best = gain
                    best_i = i
                    best_j = j
    return best_i, best_j


@inner()
def _extremes(residual, grow_penalty, shrink_penalty):
    """The largest growing and least shrinking value, and the blocks that they are in."""
    highest, lowest, high_block, low_block = -np.inf, np.inf, 0, 0
    start = 0
    while start < residual.size:
        stop = min(start + BLOCK, residual.size)
        high, low = extremes_of_block(
            residual[start:stop], grow_penalty[start:stop], shrink_penalty[start:stop]
        )
        if high > highest:
            highest, high_block = high, start
        if low < lowest:
            lowest, low_block = low, start
        start = stop
    return highest, lowest, high_block, low_block


# The parts of a step are written into the loop: as calls they would take a third of its time.


@inner(forceinline=True)
def _select_pair(
    rows, slot_of, diagonal, residual, grow_penalty, shrink_penalty, selection,
    highest, lowest, high_block, low_block, least, least_single, gains,
):  # fmt: skip
    """The samples of the next step; the second is −1 where the row of the first is missing."""
    if selection == EXHAUSTIVE:
        n = residual.size
        i, j = _best_pair(rows, slot_of, residual, grow_penalty, shrink_penalty, n, least)
        if j >= 0:
            return i, j
    stop = high_block + BLOCK
    i = high_block + first_sum(residual[high_block:stop], grow_penalty[high_block:stop], highest)
    if slot_of[i] < 0:
        return i, -1
    j = -1
    if selection == SECOND_ORDER:
        row_i = rows[slot_of[i]]
        j = _second_order_partner(
            residual, shrink_penalty, row_i, diagonal, i, highest, least_single, gains
        )
    if j < 0:
        stop = low_block + BLOCK
        j = low_block + first_sum(residual[low_block:stop], shrink_penalty[low_block:stop], lowest)
    return i, j


@inner(forceinline=True)
def _move_pair(i, j, row_i, row_j, beta, residual, lower, upper, epsilon, kinked, least):
    """Move β of a pair to the optimum along it, or to the first bound; how far."""
    # All three from the rows: beside a float64 row, the diagonal in single precision would
    # leave nothing but rounding where samples are far from the origin.
    curvature = np.float64(row_i[i]) + np.float64(row_j[j]) - 2.0 * np.float64(row_i[j])
    pull = residual[i] - residual[j]
    top, bottom = upper[i], lower[j]
    if kinked:
        # A step does not pass through zero: there it ends as at a bound.
        pull -= epsilon if beta[i] >= 0.0 else -epsilon
        pull += epsilon if beta[j] > 0.0 else -epsilon
        top = upper[i] if beta[i] >= 0.0 else 0.0
        bottom = 0.0 if beta[j] > 0.0 else lower[j]
    delta = pull / max(curvature, least)
    slack_i = top - beta[i]
    slack_j = beta[j] - bottom
    if delta >= slack_i or delta >= slack_j:
        delta = min(slack_i, slack_j)
    # A bound that is reached is set exactly: rounding must not leave a sample nearly there.
    beta[i] = top if delta >= slack_i else beta[i] + delta
    beta[j] = bottom if delta >= slack_j else beta[j] - delta
    return delta


@inner(forceinline=True)
def _update(residual, row_i, row_j, delta, grow_penalty, shrink_penalty):
    """Residual after a step; then as `_extremes`."""
    highest, lowest, high_block, low_block = -np.inf, np.inf, 0, 0
    start = 0
    while start < residual.size:
        stop = min(start + BLOCK, residual.size)
        high, low = update_block(
            residual[start:stop], row_i[start:stop], row_j[start:stop], delta,
            grow_penalty[start:stop], shrink_penalty[start:stop],
        )  # fmt: skip
        if high > highest:
            highest, high_block = high, start
        if low < lowest:
            lowest, low_block = low, start
        start = stop
    return highest, lowest, high_block, low_block


@leaf()
def smo_steps(
    rows, slot_of, last_used, clock, diagonal, beta, residual, lower, upper,
    grow_penalties, shrink_penalties, epsilon, tol, max_steps, selection,
):  # fmt: skip
    """Take SMO steps until the maximal violating pair is within tol, or a row is missing.

    Parameters
    ----------
    rows, slot_of : kernel rows, and the row of each sample (−1: not there)
    last_used, clock : time stamps for the cache's choice of what to drop
    diagonal : float32, the diagonal of the kernel matrix
    beta : float64, updated in place
    residual : float64, or float32 where that suffices; updated in place
    lower, upper : float64 bounds
    grow_penalties, shrink_penalties : see `penalties_of`; updated in place
    epsilon : the slope of ε|β|
    selection : SECOND_ORDER, MAXIMAL_VIOLATING_PAIR or EXHAUSTIVE

    Returns
    -------
    outcome, steps, missing sample, violation, clock
    """
    n = beta.size
    two_sums = grow_penalties.shape[0] == 2
    kinked = two_sums or epsilon > 0.0
    grow_penalty, shrink_penalty = grow_penalties[0], shrink_penalties[0]
    highest, lowest, high_block, low_block = _extremes(residual, grow_penalty, shrink_penalty)
    gains = np.empty(n, np.float32)
    largest = np.float64(np.abs(diagonal).max())
    least_single = np.float32(LEAST_CURVATURE_SINGLE * largest + TINY)
    least = LEAST_CURVATURE * largest + TINY
    if rows.itemsize == 4:
        least = np.float64(least_single)
    steps = 0
    while True:
        if two_sums:
            # The pair is one of the sum that violates more.
            grow_penalty, shrink_penalty = grow_penalties[0], shrink_penalties[0]
            other = _extremes(residual, grow_penalties[1], shrink_penalties[1])
            if other[0] - other[1] > highest - lowest:
                highest, lowest, high_block, low_block = other
                grow_penalty, shrink_penalty = grow_penalties[1], shrink_penalties[1]
        if highest - lowest <= tol:
            return CONVERGED, steps, -1, max(highest - lowest, 0.0), clock
        if steps >= max_steps:
            return STEP_LIMIT, steps, -1, highest - lowest, clock
        i, j = _select_pair(
            rows, slot_of, diagonal, residual, grow_penalty, shrink_penalty, selection,
            highest, lowest, high_block, low_block, least, least_single, gains,
        )  # fmt: skip
        if j < 0:
            return ROW_MISSING, steps, i, highest - lowest, clock
        # The stamp comes first: fetching the partner's row must not drop this one.
        clock += 1
        last_used[slot_of[i]] = clock
        if slot_of[j] < 0:
            return ROW_MISSING, steps, j, highest - lowest, clock
        last_used[slot_of[j]] = clock
        row_i = rows[slot_of[i]]
        row_j = rows[slot_of[j]]
        delta = _move_pair(i, j, row_i, row_j, beta, residual, lower, upper, epsilon, kinked, least)
        _penalise(i, beta, lower, upper, epsilon, grow_penalties, shrink_penalties)
        _penalise(j, beta, lower, upper, epsilon, grow_penalties, shrink_penalties)
        highest, lowest, high_block, low_block = _update(
            residual, row_i, row_j, delta, grow_penalties[0], shrink_penalties[0]
        )
        steps += 1


def steps_on_block(
    K, diagonal, beta, residual, lower, upper, tol: float, max_steps: int,
    epsilon: float = 0.0, by_sign: bool = False,
) -> int:  # fmt: skip
    """Second-order steps on samples whose kernel values are all there; how many were taken.

    beta and residual are updated in place; diagonal is float32.
    """
    grow, shrink = penalties_of(beta, lower, upper, epsilon, by_sign, tol)
    itself = np.arange(len(beta))
    return smo_steps(
        K, itself, np.zeros_like(itself), 0, diagonal, beta, residual, lower, upper, grow, shrink,
        epsilon, tol, max_steps, SECOND_ORDER,
    )[1]  # fmt: skip


@leaf()
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
