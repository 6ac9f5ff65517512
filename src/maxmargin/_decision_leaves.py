"""Compiled passes over tiles of decision values, of shape (n_tasks, n_samples).

Pairs are numbered as in LIBSVM: (0, 1), (0, 2), …, (1, 2), …
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner, leaf

_SUM = {"reassoc", "contract", "nsz"}
# Columns of a block of coefficients up to which it is multiplied in half the time of BLAS, which
# copies the values before it uses them. (benchmarks/classes.py)
_FEW_COLUMNS = 16


@leaf(inline="always")
def _pair(first, second, n_classes):
    """Number of the pair of two classes, first < second."""
    return first * (2 * n_classes - first - 1) // 2 + second - first - 1


@inner(fastmath=_SUM)
def _multiply(block, values, product):
    """product = blockᵀ @ values, four rows of values at a time."""
    n = len(values)
    whole = n - n % 4
    product[:] = 0.0
    for s in range(0, whole, 4):
        one, two, three, four = values[s], values[s + 1], values[s + 2], values[s + 3]
        for column in range(block.shape[1]):
            target = product[column]
            a, b = block[s, column], block[s + 1, column]
            c, d = block[s + 2, column], block[s + 3, column]
            for r in range(target.size):
                target[r] += (a * one[r] + b * two[r]) + (c * three[r] + d * four[r])
    for s in range(whole, n):
        one = values[s]
        for column in range(block.shape[1]):
            target, a = product[column], block[s, column]
            for r in range(target.size):
                target[r] += a * one[r]


@leaf()
def add_class_blocks(blocks, numbers, begins, bounds, n_classes, values, tile, magnitudes):
    """tile += coefficients @ values for support vectors that are stored class by class.

    The first class of a pair comes before the second, and its first block sets the values of
    the pair, whatever was there before: a tile of many pairs is not read once more to clear it.

    Parameters
    ----------
    blocks : one C-contiguous block of shape (its vectors, n_classes − 1) after the other; each
        has one more column where there are magnitudes
    numbers : the class of each block
    begins : whether it is the first block of its class
    bounds : where the vectors of each block begin in `values`, and where the last ends
    values : C-contiguous array of shape (n_vectors, n_samples)
    magnitudes : array of shape (n_classes, n_samples) for the sums of the last columns, or (0, …)
    """
    n_samples = values.shape[1]
    others = n_classes - 1
    weighted = magnitudes.shape[0] > 0
    width = others + 1 if weighted else others
    product = np.empty((width, n_samples), tile.dtype)
    start_of_block = 0
    for b in range(numbers.size):
        i, start, stop = numbers[b], bounds[b], bounds[b + 1]
        size = width * (stop - start)
        block = blocks[start_of_block : start_of_block + size].reshape((stop - start, width))
        start_of_block += size
        if size == 0:  # a class without support vectors
            product[:] = 0.0
        else:
            if width <= _FEW_COLUMNS:
                _multiply(block, values[start:stop], product)
            else:
                np.dot(block.T, values[start:stop], product)
        for other in range(i):
            target, source = tile[_pair(other, i, n_classes)], product[other]
            for r in range(n_samples):
                target[r] += source[r]
        first = _pair(i, i + 1, n_classes)
        for other in range(i, others):
            target, source = tile[first + other - i], product[other]
            if begins[b]:
                for r in range(n_samples):
                    target[r] = source[r]
            else:
                for r in range(n_samples):
                    target[r] += source[r]
        if weighted:
            target, source = magnitudes[i], product[others]
            for r in range(n_samples):
                target[r] = source[r] if begins[b] else target[r] + source[r]


@leaf(fastmath=_SUM)
def _dot(a, b):
    total = 0.0
    for t in range(a.size):
        total += a[t] * b[t]
    return total


@leaf()
def add_class_blocks_of_few(blocks, numbers, begins, bounds, n_classes, values, tile):
    """The same for few samples, without BLAS; `values` has shape (n_samples, n_vectors)."""
    n_samples = values.shape[0]
    others = n_classes - 1
    product = np.empty(others)
    start_of_block = 0
    for b in range(numbers.size):
        i, start, stop = numbers[b], bounds[b], bounds[b + 1]
        first = _pair(i, i + 1, n_classes)
        for r in range(n_samples):
            product[:] = 0.0
            at = start_of_block
            for s in range(start, stop):
                value, row = values[r, s], blocks[at : at + others]
                for other in range(others):
                    product[other] += value * row[other]
                at += others
            for other in range(i):
                tile[_pair(other, i, n_classes), r] += product[other]
            if begins[b]:
                tile[first : first + others - i, r] = product[i:]
            else:
                tile[first : first + others - i, r] += product[i:]
        start_of_block += others * (stop - start)


@leaf()
def products_of_few(left, right, out):
    """out[i, r] = ⟨left row i, right row r⟩, without waking the threads of BLAS."""
    for i in range(left.shape[0]):
        for r in range(right.shape[0]):
            out[i, r] = _dot(left[i], right[r])


@leaf()
def votes(tile, n_classes):
    """The class with most pairwise wins for each sample; of equals the first, as in LIBSVM."""
    n_samples = tile.shape[1]
    wins = np.zeros((n_classes, n_samples), np.int32)
    task = 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            values, of_i, of_j = tile[task], wins[i], wins[j]
            for r in range(n_samples):
                first = np.int32(values[r] > 0)
                of_i[r] += first
                of_j[r] += np.int32(1) - first
            task += 1
    best = np.zeros(n_samples, np.int64)
    for r in range(n_samples):
        for i in range(1, n_classes):
            if wins[i, r] > wins[best[r], r]:
                best[r] = i
    return best


@leaf()
def certain_votes(tile, n_classes, errors, offsets):
    """The same from values that are not exact, and whether exact ones would say the same.

    The value of a pair (i, j) may be off by errors[i] + errors[j] + the offset of the pair. The
    winner is certain if no other class comes before it with all wins that it may have.

    Parameters
    ----------
    errors : array of shape (n_classes, n_samples)
    offsets : array of shape (n_tasks,)
    """
    n_samples = tile.shape[1]
    # Sure wins, and sure losses in the upper half: one array, for the loop to become vectors.
    counts = np.zeros((n_classes, n_samples), np.int32)
    half = np.int32(16)
    task = 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            values, offset = tile[task], offsets[task]
            error_of_i, error_of_j, of_i, of_j = errors[i], errors[j], counts[i], counts[j]
            for r in range(n_samples):
                error = error_of_i[r] + error_of_j[r] + offset
                first, second = np.int32(values[r] > error), np.int32(values[r] < -error)
                of_i[r] += first + np.int32(second << half)
                of_j[r] += second + np.int32(first << half)
            task += 1
    best, certain = np.zeros(n_samples, np.int64), np.ones(n_samples, np.bool_)
    for r in range(n_samples):
        wins = counts[0, r] & 0xFFFF
        for i in range(1, n_classes):
            if counts[i, r] & 0xFFFF > wins:
                best[r], wins = i, counts[i, r] & 0xFFFF
        for i in range(n_classes):
            most = n_classes - 1 - (counts[i, r] >> 16)
            if i != best[r] and (most > wins or (most == wins and i < best[r])):
                certain[r] = False
    return best, certain


@leaf()
def confidences(tile, n_classes):
    """Wins per class plus its sum of decision values, squeezed into (−⅓, ⅓).

    The same numbers, and sums in the same order, as scikit-learn's decision function of
    shape "ovr".
    """
    n_samples = tile.shape[1]
    wins = np.zeros((n_classes, n_samples))
    total = np.zeros((n_classes, n_samples))
    task = 0
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            values = tile[task]
            for r in range(n_samples):
                second = 1.0 if values[r] < 0 else 0.0
                wins[i, r] += 1.0 - second
                wins[j, r] += second
                total[i, r] += values[r]
                total[j, r] -= values[r]
            task += 1
    result = np.empty((n_samples, n_classes))
    for r in range(n_samples):
        for i in range(n_classes):
            result[r, i] = wins[i, r] + total[i, r] / (3.0 * (abs(total[i, r]) + 1.0))
    return result
