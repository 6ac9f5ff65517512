"""Compiled: SMO steps on the rows of one problem of a batch, chosen by second-order information.

The loops are those of `solvers/common/pair_steps.py`, over rows that have a part per group. Where
each group has a sum of its own (ν-SVC), both samples of a pair are of the group that violates more.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner, part_of
from maxmargin.solvers.common.pair_steps import (
    BLOCK,
    LEAST_CURVATURE,
    LEAST_CURVATURE_SINGLE,
    TINY,
    extremes_of_block,
    first_place,
    first_sum,
    gains_of_block,
    update_block,
)
from maxmargin.solvers.common.shrinking import settled_samples
from maxmargin.solvers.pairs.rows import fetch

# Samples whose kernel values are gathered for steps without the others.
_MOST_ACTIVE = 1024
# Why the steps ended: within tol; at the limit; without memory for a row, or beyond the budget.
OPTIMAL, LIMIT, TOO_MUCH = 0, 1, 2
# A zero whose type is that of a count, see `_solve_one`.
ZERO = np.int64(0)
_settled_samples = part_of(settled_samples)


@inner()
def _end_of_block(start, first, n):
    """Blocks do not reach from one group into the next: their rows are elsewhere."""
    return min(start + BLOCK, first if start < first else n)


@inner()
def _extremes(residual, grow, shrink, first, start, end):
    """Largest growing and least shrinking residual, and the blocks that they are in.

    Of the samples from `start` to `end`, like the functions below.
    """
    highest, lowest, high_block, low_block = -np.inf, np.inf, start, start
    while start < end:
        stop = _end_of_block(start, first, end)
        high, low = extremes_of_block(residual[start:stop], grow[start:stop], shrink[start:stop])
        if high > highest:
            highest, high_block = high, start
        if low < lowest:
            lowest, low_block = low, start
        start = stop
    return highest, lowest, high_block, low_block


@inner()
def _partner(
    residual, shrink, memory, at_first, at_second, diagonal, i, highest, first, least, gains,
    start, end,
):  # fmt: skip
    """The partner of i by second-order information, or −1."""
    best, best_block, best_stop = np.float32(0.0), 0, 0
    while start < end:
        stop = _end_of_block(start, first, end)
        at = at_first[i] + start if start < first else at_second[i] + start - first
        gain = gains_of_block(
            residual[start:stop], shrink[start:stop], memory[at : at + stop - start],
            diagonal[start:stop], diagonal[i], highest, least, gains[start:stop],
        )  # fmt: skip
        if gain > best:
            best, best_block, best_stop = gain, start, stop
        start = stop
    if best == 0.0:
        return -1
    return best_block + first_place(gains[best_block:best_stop], best)


@inner()
def _update(residual, memory, rows, change, grow, shrink, first, start, end):
    """The residual after a step of i and j, and its extremes."""
    (at_first, at_second), (i, j, delta) = rows, change
    highest, lowest, high_block, low_block = -np.inf, np.inf, start, start
    while start < end:
        stop = _end_of_block(start, first, end)
        if start < first:
            of_i, of_j = at_first[i] + start, at_first[j] + start
        else:
            of_i, of_j = at_second[i] + start - first, at_second[j] + start - first
        size = stop - start
        high, low = update_block(
            residual[start:stop], memory[of_i : of_i + size], memory[of_j : of_j + size], delta,
            grow[start:stop], shrink[start:stop],
        )  # fmt: skip
        if high > highest:
            highest, high_block = high, start
        if low < lowest:
            lowest, low_block = low, start
        start = stop
    return highest, lowest, high_block, low_block


@inner()
def _wider(one, other):
    """The extremes that are farther apart."""
    return other if other[0] - other[1] > one[0] - one[1] else one


@inner()
def least_curvature(diagonal):
    """What stands for a curvature that is not positive, as in `smo_steps`."""
    largest = np.float32(0.0)
    for value in diagonal:
        largest = max(largest, abs(value))
    return LEAST_CURVATURE * np.float64(largest) + TINY


@inner()
def value_of(memory, at_first, at_second, first, i, j):
    """The kernel value of samples i and j of the problem, from the row of i."""
    return memory[at_first[i] + j] if j < first else memory[at_second[i] + j - first]


@inner()
def move(i, j, curvature, beta, residual, lower, upper):
    """The step of i and j; a bound that is reached is set exactly."""
    delta = (residual[i] - residual[j]) / curvature
    slack_i, slack_j = upper[i] - beta[i], beta[j] - lower[j]
    if delta >= slack_i or delta >= slack_j:
        delta = min(slack_i, slack_j)
    beta[i] = upper[i] if delta >= slack_i else beta[i] + delta
    beta[j] = lower[j] if delta >= slack_j else beta[j] - delta
    return delta


@inner()
def pair_steps(
    place, vectors, rows, memory, on_demand, shared_at, ready, free, stop, source, features,
    fetched, tol, max_steps, by_group,
):  # fmt: skip
    """Steps until the maximal violating pair is within tol; rows are fetched on the way.

    Parameters
    ----------
    vectors : β, residual, bounds, and float32 diagonal of the problem
    rows : where the two parts of each kernel row begin in `memory`, −1: they are not there
    on_demand : None where no row is missing, see `solve_problems`
    by_group : True where each group has a sum of its own, else None
    place, memory, shared_at, ready, free, stop, source, features, fetched : see `fetch`

    Returns
    -------
    why they ended, steps, first free place, rows that the problem has, values computed
    """
    beta, residual, lower, upper, diagonal = vectors
    at_first, at_second = rows
    first, n = place[1] - place[0], beta.size
    grow, shrink = np.empty(n, np.float32), np.empty(n, np.float32)
    gains, least = np.empty(n, np.float32), least_curvature(diagonal)
    least_single = np.float32(least * (LEAST_CURVATURE_SINGLE / LEAST_CURVATURE))
    if memory.itemsize == 4:
        least = np.float64(least_single)
    for t in range(n):
        grow[t] = 0.0 if beta[t] < upper[t] else -np.inf
        shrink[t] = 0.0 if beta[t] > lower[t] else np.inf
    begin, end = ZERO, n
    if by_group is None:
        extremes = _extremes(residual, grow, shrink, first, begin, end)
    else:
        extremes = _wider(
            _extremes(residual, grow, shrink, first, ZERO, first),
            _extremes(residual, grow, shrink, first, first, n),
        )
    highest, lowest, high_block, low_block = extremes
    steps, computed = 0, 0
    while highest - lowest > tol:
        if steps >= max_steps:
            return LIMIT, steps, free, fetched, computed
        if by_group is not None:
            begin, end = (ZERO, first) if high_block < first else (first, n)
        last = _end_of_block(high_block, first, n)
        i = high_block + first_sum(residual[high_block:last], grow[high_block:last], highest)
        if on_demand is not None and at_first[i] < 0:
            free, count, values = fetch(
                i, place, residual, fetched, memory, shared_at, ready, free, stop, source, features,
                at_first, at_second,
            )  # fmt: skip
            if count == 0:
                return TOO_MUCH, steps, free, fetched, computed
            fetched += count
            computed += values
            max_steps -= on_demand * count
        j = _partner(
            residual, shrink, memory, at_first, at_second, diagonal, i, highest, first,
            least_single, gains, begin, end,
        )  # fmt: skip
        if j < 0:
            last = _end_of_block(low_block, first, n)
            j = low_block + first_sum(residual[low_block:last], shrink[low_block:last], lowest)
        if on_demand is not None and at_first[j] < 0:
            free, count, values = fetch(
                j, place, residual, fetched, memory, shared_at, ready, free, stop, source, features,
                at_first, at_second,
            )  # fmt: skip
            if count == 0:
                return TOO_MUCH, steps, free, fetched, computed
            fetched += count
            computed += values
            max_steps -= on_demand * count
        curvature = value_of(memory, at_first, at_second, first, i, i)
        curvature += value_of(memory, at_first, at_second, first, j, j)
        curvature -= 2.0 * value_of(memory, at_first, at_second, first, i, j)
        delta = move(i, j, max(curvature, least), beta, residual, lower, upper)
        for t in (i, j):
            grow[t] = 0.0 if beta[t] < upper[t] else -np.inf
            shrink[t] = 0.0 if beta[t] > lower[t] else np.inf
        change = i, j, delta
        if by_group is None:
            extremes = _update(residual, memory, rows, change, grow, shrink, first, ZERO, n)
        else:
            extremes = _wider(
                _update(residual, memory, rows, change, grow, shrink, first, ZERO, first),
                _update(residual, memory, rows, change, grow, shrink, first, first, n),
            )
        highest, lowest, high_block, low_block = extremes
        steps += 1
    return OPTIMAL, steps, free, fetched, computed


@inner()
def steps_of_active(
    place, vectors, levels, margin, rows, memory, on_demand, shared_at, ready, free, stop, source,
    features, fetched, tol, max_steps, by_group,
):  # fmt: skip
    """Steps of the samples that may still move; the residual of the others stays as it was.

    `levels` are those of the two groups, `margin` is the violation. No step is taken where the
    samples are too many, or there is no memory for the row of one of them. Returns what
    `pair_steps` does.
    """
    beta, residual, lower, upper, diagonal = vectors
    first, m, of_first, computed = place[1] - place[0], ZERO, ZERO, 0
    at_rest = _settled_samples(
        beta, residual, lower, upper, 0.0, by_group is not None, levels[0], levels[1], margin
    )
    active = np.empty(beta.size, np.int64)
    for t in range(beta.size):
        if not at_rest[t]:
            active[m] = t
            m += 1
            of_first += t < first
    if by_group is None:
        of_first = m  # one sum: blocks need not end where a group does
    if not 2 <= m <= _MOST_ACTIVE:
        return LIMIT, 0, free, fetched, computed
    for a in range(m):
        if on_demand is not None and rows[0][active[a]] < 0:
            free, count, values = fetch(
                active[a], place, residual, fetched, memory, shared_at, ready, free, stop, source,
                features, rows[0], rows[1],
            )  # fmt: skip
            if count == 0:
                return LIMIT, 0, free, fetched, computed
            fetched += count
            computed += values
    block, at, work, of_active = (
        np.empty(m * m), np.empty((2, m), np.int64), np.empty((4, m)), np.empty(m, np.float32)
    )  # fmt: skip
    for a in range(m):
        t = active[a]
        work[0, a], work[1, a], work[2, a], work[3, a] = beta[t], residual[t], lower[t], upper[t]
        at[0, a], at[1, a], of_active[a] = a * m, a * m + of_first, diagonal[t]
        for b in range(m):
            block[a * m + b] = value_of(memory, rows[0], rows[1], first, t, active[b])
    alone = ZERO, of_first, ZERO, ZERO, place[4], place[5]
    reason, steps, _, _, _ = pair_steps(
        alone, (work[0], work[1], work[2], work[3], of_active), (at[0], at[1]), block, on_demand,
        shared_at, ready, ZERO, ZERO, source, features, ZERO, tol, max_steps, by_group,
    )  # fmt: skip
    for a in range(m):
        beta[active[a]] = work[0, a]
    return reason, steps, free, fetched, computed
