"""The chunks of IRWLS: how large they are, and which samples make them up (section 3)."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner, leaf
from maxmargin.solvers.common.active_set import ActiveSet

RANDOM, LARGEST, SMALLEST = 0, 1, 2
# Kinds of violation: at the lower bound, between the bounds, at the upper bound.
_KINDS = 3
# Larger chunks than this are taken only where so many samples are free, times a margin.
AUTO_CHUNK = 512
_FREE_SHARE = 1.25


@leaf()
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
    candidates, others, first = _classify(
        beta, residual, lower, upper, epsilon, positive, b, tolerance
    )
    chosen, taken, count = (
        np.empty(min(size, beta.size), np.int64),
        np.zeros(beta.size, np.bool_),
        0,
    )
    for place in range(first.size if candidates.size > chosen.size else 2):
        i = first[place]
        if i >= 0 and not taken[i] and count < chosen.size:
            chosen[count], taken[i] = i, True
            count += 1
    distance = np.abs(np.abs(residual - b) - epsilon)
    count = _take(candidates, chosen, count, taken, selection, distance, uniforms)
    count = _take(others, chosen, count, taken, SMALLEST, distance, uniforms)
    return np.sort(chosen[:count])


@inner()
def _classify(beta, residual, lower, upper, epsilon, positive, b, tolerance):
    """Candidates, all other samples, and the samples that come first.

    These are the maximal violating pair, with which the set makes progress, and the worst of each
    class and condition, or −1.
    """
    n = beta.size
    candidates, others = np.empty(n, np.int64), np.empty(n, np.int64)
    first, worst_by = np.full(2 + 2 * _KINDS, -1, np.int64), np.full(2 * _KINDS, tolerance)
    n_candidates, n_others = 0, 0
    highest, lowest = -np.inf, np.inf
    for i in range(n):
        e = residual[i] - b
        grows, shrinks = beta[i] < upper[i], beta[i] > lower[i]
        up = e - (epsilon if beta[i] >= 0.0 else -epsilon)
        down = e - (epsilon if beta[i] > 0.0 else -epsilon)
        if grows and up > highest:
            first[0], highest = i, up
        if shrinks and down < lowest:
            first[1], lowest = i, down
        violation = max(up if grows else -np.inf, -down if shrinks else -np.inf)
        if violation > tolerance or (grows and shrinks and up == down):
            candidates[n_candidates] = i
            n_candidates += 1
            kind = (1 if shrinks else 0) if grows else 2
            if positive[i]:
                kind += _KINDS
            if violation > worst_by[kind]:
                worst_by[kind], first[2 + kind] = violation, i
        else:
            others[n_others] = i
            n_others += 1
    return candidates[:n_candidates], others[:n_others], first


@inner()
def _take(pool, chosen, count, taken, selection, distance, uniforms):
    """Add samples of a pool that are not taken to the chosen ones; how many these are then."""
    pool = pool[~taken[pool]]
    wanted = min(chosen.size - count, pool.size)
    if wanted < pool.size:
        if selection == RANDOM:
            for k in range(wanted):
                j = k + int(uniforms[k] * (pool.size - k))
                pool[k], pool[j] = pool[j], pool[k]
        else:
            sign = -1.0 if selection == LARGEST else 1.0
            pool = pool[np.argsort(sign * distance[pool], kind="mergesort")]
    chosen[count : count + wanted] = pool[:wanted]
    return count + wanted


def chunk_size(wanted: int | str, active: ActiveSet) -> int:
    """The size of chunks that fit into memory: their kernel rows, and three blocks."""
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
