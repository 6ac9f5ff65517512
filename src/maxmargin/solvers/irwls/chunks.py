"""The chunks of IRWLS: how large they are, and which samples make them up (section 3)."""

from __future__ import annotations

import numpy as np
from numba import njit

from maxmargin.solvers.common.active_set import ActiveSet

RANDOM, LARGEST, SMALLEST = 0, 1, 2
# Kinds of violation: at the lower bound, between the bounds, at the upper bound.
_KINDS = 3
# Larger chunks than this are taken only where so many samples are free, times a margin.
AUTO_CHUNK = 512
_FREE_SHARE = 1.25


@njit(cache=True, nogil=True)
def select_chunk(
    beta, residual, lower, upper, epsilon, positive, b, tolerance, size, selection, uniforms
):  # fmt: skip
    """The working set, sorted.

    Candidates are the samples that violate (9) or (10) and those between their
    bounds. If they are more than `size`: one sample per class and violated
    condition first, the worst of each, then others by `selection`. If they are
    fewer: all of them, and the samples with the least |e| of the rest.

    Parameters
    ----------
    epsilon : half the width of a regression's tube, else 0
    positive : the class of each sample, or the side of the tube that it is on
    b, tolerance : e = residual − b; what the stopping conditions allow
    uniforms : `size` random numbers in [0, 1)
    """
    n = beta.size
    candidates = np.empty(n, np.int64)
    others = np.empty(n, np.int64)
    worst = np.full(2 * _KINDS, -1, np.int64)
    worst_by = np.full(2 * _KINDS, tolerance)
    n_candidates, n_others = 0, 0
    high, low, highest, lowest = 0, 0, -np.inf, np.inf
    for i in range(n):
        e = residual[i] - b
        grows, shrinks = beta[i] < upper[i], beta[i] > lower[i]
        up = e - (epsilon if beta[i] >= 0.0 else -epsilon)
        down = e - (epsilon if beta[i] > 0.0 else -epsilon)
        if grows and up > highest:
            high, highest = i, up
        if shrinks and down < lowest:
            low, lowest = i, down
        violation = max(up if grows else -np.inf, -down if shrinks else -np.inf)
        if violation > tolerance or (grows and shrinks and up == down):
            candidates[n_candidates] = i
            n_candidates += 1
            kind = (1 if shrinks else 0) if grows else 2
            if positive[i]:
                kind += _KINDS
            if violation > worst_by[kind]:
                worst_by[kind] = violation
                worst[kind] = i
        else:
            others[n_others] = i
            n_others += 1
    chosen = np.empty(min(size, n), np.int64)
    taken = np.zeros(n, np.bool_)
    count = 0
    for i in (high, low):  # the maximal violating pair: with it the set makes progress
        if not taken[i]:
            chosen[count] = i
            taken[i] = True
            count += 1
    if n_candidates > chosen.size:
        for i in worst:
            if i >= 0 and not taken[i] and count < chosen.size:
                chosen[count] = i
                taken[i] = True
                count += 1
    pools = (candidates[:n_candidates], others[:n_others])
    for which in range(2):
        pool = pools[which]
        left = 0
        for k in range(pool.size):
            if not taken[pool[k]]:
                pool[left] = pool[k]
                left += 1
        pool = pool[:left]
        wanted = min(chosen.size - count, left)
        if wanted == 0:
            continue
        if wanted < left:
            if which == 0 and selection == RANDOM:
                for k in range(wanted):
                    j = k + int(uniforms[k] * (left - k))
                    pool[k], pool[j] = pool[j], pool[k]
            else:
                size_of_error = np.abs(np.abs(residual[pool] - b) - epsilon)
                if which == 0 and selection == LARGEST:
                    size_of_error = -size_of_error
                pool = pool[np.argsort(size_of_error, kind="mergesort")]
        chosen[count : count + wanted] = pool[:wanted]
        count += wanted
    return np.sort(chosen[:count])


def chunk_size(wanted: int | str, active: ActiveSet) -> int:
    """The size of chunks that the memory has room for: their kernel rows, and three blocks."""
    memory, row = active.cache_bytes, active.n * active.problem.kernel.dtype.itemsize
    blocks = int(np.sqrt(memory / 48))
    fits = max(2, min(active.n, memory // row, blocks))
    if wanted == "all":
        if fits < active.n:
            raise ValueError(
                f"chunk_size='all' needs about {48 * active.n**2 / 2**20:.0f} MB for "
                f"{active.n} samples; cache_size allows {memory / 2**20:.0f} MB."
            )
        return active.n
    if wanted == "auto":
        # A chunk that leaves most free samples out is undone by the next one.
        wanted = max(AUTO_CHUNK, int(_FREE_SHARE * len(active.free())))
    return min(fits, int(wanted))
