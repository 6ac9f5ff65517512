"""Compiled steps of the greedy stagewise method and of its backfitting."""

# Numba leaves and LLVM intrinsics have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf
from maxmargin.kernels.feature_major import TILE, kernel_values
from maxmargin.solvers.common.vector import fast_max

# The maximum is taken block by block, which vectorises, and then looked up in the winning block.
FINISHED, ROW_MISSING, LIMIT = 0, 1, 2


@leaf()
def _search(residual, scale, first, largest):
    """Position of `largest` among the scores of the block that starts at `first`."""
    for j in range(first, min(first + TILE, len(residual))):
        if residual[j] * scale[j] == largest:
            return j
    return first


@leaf()
def _largest_score(residual, scale):
    largest = -np.inf
    for j in range(len(residual)):
        largest = fast_max(largest, residual[j] * scale[j])
    return largest


@leaf()
def best_candidate(residual, scale):
    """The sample of the largest score, the first of equals."""
    largest, first = -np.inf, 0
    for start in range(0, len(residual), TILE):
        of_block = _largest_score(residual[start : start + TILE], scale[start : start + TILE])
        if of_block > largest:
            largest, first = of_block, start
    return _search(residual, scale, first, largest)


@leaf()
def _take_off(beta, row, constant, residual, scale):
    """Line 6 of Algorithm 1 for a block of samples; the largest score in it afterwards."""
    largest = -np.inf
    for j in range(len(residual)):
        value = residual[j] - beta * (row[j] + constant)
        residual[j] = value
        largest = fast_max(largest, value * scale[j])
    return largest


@leaf()
def _count_wrong(held_out, signs, residual):
    wrong = 0
    for k in held_out:
        # y·f = 1 − y·residual is not positive.
        wrong += residual[k] * signs[k] >= 1.0
    return wrong


@leaf()
def greedy_steps(
    cached, feature_major, residual, scale, constant, threshold, limit,
    chosen, coefficients, decreases, held_out, signs, errors,
):  # fmt: skip
    """Algorithm 1, lines 3 to 8, until no sample is left to choose or a row is missing.

    Parameters
    ----------
    cached : kernel rows, and the row of each sample or −1; or None
    feature_major : table, norms and parameters of a `FeatureMajorSamples`, from which each row is
        computed block by block when it is needed, and never stored; or None
    residual : y − f of each sample, updated in place
    scale : y/√K_ii of the unused samples, 0 for the others, updated in place. The
        largest residual·scale is the smallest h of equation (10).
    constant : added to each kernel value
    threshold : scores up to this count as zero
    chosen, coefficients, decreases : of each step the sample, its β and the decrease
        of the objective; written
    held_out, signs, errors : samples that are not trained on, the labels of all, and the
        number of held-out samples that the model gets wrong after each step; written

    Returns
    -------
    outcome, number of steps, best candidate
    """
    n = len(residual)
    if feature_major is not None:
        table, norms = feature_major[0], feature_major[1]
        sample, values = np.empty(len(table), table.dtype), np.empty(TILE, norms.dtype)
    best = best_candidate(residual, scale)
    for step in range(limit):
        score = residual[best] * scale[best]
        if not score > threshold:
            return FINISHED, step, best
        if cached is not None:
            rows, slot_of = cached
            if slot_of[best] < 0:
                return ROW_MISSING, step, best
            row = rows[slot_of[best]]
        if feature_major is not None:  # not `else`: only code behind an argument of None is pruned
            for feature in range(len(sample)):
                sample[feature] = table[feature, best]
            norm = norms[best : best + 1]
        beta = score * scale[best]
        chosen[step], coefficients[step], decreases[step] = best, beta, 0.5 * score * score
        scale[best] = 0.0
        largest, first = -np.inf, 0
        for start in range(0, n, TILE):
            stop = min(start + TILE, n)
            if cached is not None:
                tile = row[start:stop]
            if feature_major is not None:
                tile = values[: stop - start]
                kernel_values(*feature_major, sample, norm, start, tile)
            of_block = _take_off(beta, tile, constant, residual[start:stop], scale[start:stop])
            if of_block > largest:
                largest, first = of_block, start
        best = _search(residual, scale, first, largest)
        errors[step] = _count_wrong(held_out, signs, residual)
    return LIMIT, limit, best


@leaf()
def coordinate_sweeps(K, signs, beta, residual, limit):
    """Sweeps of coordinate descent on ½βᵀKβ − yᵀβ with yβ ≥ 0; β and y − Kβ in place.

    Returns
    -------
    The largest violation that the last sweep met.
    """
    worst = 0.0
    for _ in range(limit):
        worst = 0.0
        for i in range(len(beta)):
            pull = signs[i] * residual[i]
            if K[i, i] <= 0.0 or (pull <= 0.0 and beta[i] == 0.0):
                continue
            worst = max(worst, abs(pull))
            new = signs[i] * max(0.0, signs[i] * beta[i] + pull / K[i, i])
            change = new - beta[i]
            if change != 0.0:
                beta[i] = new
                for j in range(len(beta)):
                    residual[j] -= change * K[i, j]
        if worst == 0.0:
            break
    return worst
