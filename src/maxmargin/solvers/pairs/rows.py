"""Compiled: kernel rows for the problems of a batch, computed when a step first wants them.

A problem has the samples of two groups, or of one, which lie side by side. A row has a part
per group: the part of a sample's own group is wanted by all problems of that group and kept
for them, the other one by this problem alone.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin.compiled import inner
from maxmargin.kernels.feature_major import TILE, kernel_values_part, to_kernel_values
from maxmargin.solvers.pairs.atomic import load_flag, store_flag

# Rows that are computed together, at most.
MOST_ROWS = 16


@inner()
def _one_row(source, sample, start, stop, memory, at):
    """memory[at:] = kernel values of one sample with those from start to stop."""
    table, samples, norms, parameters = source
    unit, kind, gamma, coef0, degree = parameters
    own, norm = samples[sample], norms[sample : sample + 1]
    while start < stop:
        size = min(TILE, stop - start)
        out = memory[at : at + size]
        kernel_values_part(table, norms, unit, kind, gamma, coef0, degree, own, norm, start, out)
        start += size
        at += size


@inner()
def _some_rows(source, features, chosen, start, stop, out):
    """out[k] = kernel values of sample chosen[k] with those from start to stop, by one product."""
    _, _, norms, parameters = source
    _, kind, gamma, coef0, degree = parameters
    left, left_norms = np.empty((chosen.size, features.shape[1])), np.empty(chosen.size)
    for k in range(chosen.size):
        own = features[chosen[k]]
        for feature in range(own.size):
            left[k, feature] = own[feature]
        left_norms[k] = norms[chosen[k]]
    np.dot(left, features[start:stop].T, out)
    to_kernel_values(out, left_norms, norms[start:stop], kind, gamma, coef0, degree)


@inner()
def _rows(source, features, chosen, start, stop, memory, at):
    """Rows of the chosen samples, one after the other in `memory`."""
    if features is None:
        for k in range(chosen.size):
            _one_row(source, chosen[k], start, stop, memory, at + k * (stop - start))
    else:
        out = memory[at : at + chosen.size * (stop - start)]
        _some_rows(source, features, chosen, start, stop, out.reshape((chosen.size, stop - start)))


@inner()
def _shared_rows(source, chosen, start, stop, memory, at, ready):
    """Rows within a group, at the places that all its problems know.

    Two threads may compute the same row at the same time. Each does so apart, and writes the
    same bits to its place, so that a thread that reads it already does not notice. Rows of matrix
    products would not have the same bits, so these are all computed at the beginning.
    """
    size = stop - start
    row = np.empty(size)
    for s in chosen:
        if load_flag(ready, s) == 0:
            _one_row(source, s, start, stop, row, 0)
            place = at + (s - start) * size
            for t in range(size):
                memory[place + t] = row[t]
            store_flag(ready, s, 1)


@inner()
def fetch(
    t, place, residual, fetched, memory, shared_at, ready, free, stop, source, features, at_first,
    at_second,
):  # fmt: skip
    """Provide the kernel row of sample t of a problem, and of others where that is cheaper.

    Parameters
    ----------
    place : first sample, end and number of the problem's groups
    residual : of the problem; the samples next to violate will be wanted next
    fetched : rows that the problem has so far
    shared_at, ready : where the values within each group begin in `memory`, and whether those
        of a sample are there; None where they are not kept
    free, stop : the part of `memory` for this problem
    features : of all samples, where rows are computed by matrix products; else None. What stands
        for None is not compiled
    at_first, at_second : where the two parts of each row begin; set here

    Returns
    -------
    first free place of the memory, rows provided (0: it did not suffice), values computed
    """
    g_start, g_stop, h_start, h_stop, g, h = place
    first = g_stop - g_start
    in_first = t < first
    group = g if in_first else h
    own_start, own_stop = (g_start, g_stop) if in_first else (h_start, h_stop)
    other_start, other_stop = (h_start, h_stop) if in_first else (g_start, g_stop)
    own_size, other_size = own_stop - own_start, other_stop - other_start
    shift = own_start if in_first else own_start - first
    wanted = other_size + own_size if shared_at is None else other_size
    if free + wanted > stop:
        return free, 0, 0
    chosen = np.empty(MOST_ROWS, np.int64)
    chosen[0] = t
    count = 1
    if features is not None:
        most = min(MOST_ROWS, 1 + fetched // 2, (stop - free) // max(1, wanted))
        count = _next_to_violate(t, in_first, first, residual, at_first, chosen, most)
    for k in range(count):
        chosen[k] += shift
    chosen = chosen[:count]
    other_at, own_at = free, free + count * other_size
    if other_size > 0:
        _rows(source, features, chosen, other_start, other_stop, memory, other_at)
    if shared_at is None:
        _rows(source, features, chosen, own_start, own_stop, memory, own_at)
    else:
        _shared_rows(source, chosen, own_start, own_stop, memory, shared_at[group], ready)
    for k in range(count):
        t = chosen[k] - shift
        of_other = other_at + k * other_size
        of_own = own_at + k * own_size
        if shared_at is not None:
            of_own = shared_at[group] + (chosen[k] - own_start) * own_size
        at_first[t] = of_own if in_first else of_other
        at_second[t] = of_other if in_first else of_own
    return free + count * wanted, count, count * wanted


@inner()
def _next_to_violate(t, in_first, first, residual, at_first, chosen, most):
    """t and the samples of its group without rows that enter the next steps, if any do."""
    begin, end = (0, first) if in_first else (first, residual.size)
    sign = 1.0 if in_first else -1.0
    scores = np.empty(MOST_ROWS)
    count, least = 1, 1
    for u in range(begin, end):
        if at_first[u] >= 0 or u == t:
            continue
        score = sign * residual[u]
        if count < most:
            chosen[count], scores[count] = u, score
            if score < scores[least]:
                least = count
            count += 1
        elif most > 1 and score > scores[least]:
            chosen[least], scores[least] = u, score
            least = 1
            for k in range(2, count):
                if scores[k] < scores[least]:
                    least = k
    return count


@inner(fastmath={"contract", "nsz"})
def subtract(part, beta, memory, places):
    """part −= Σ_t β_t · the values from places[t] on.

    Four rows at a time, so that the residual is read and written less often.
    """
    four, count, size = np.empty(4, np.int64), 0, part.size
    for t in range(beta.size):
        if beta[t] == 0.0:
            continue
        four[count] = t
        count += 1
        if count == 4:
            count = 0
            a, b, c, d = four
            row_a, row_b = (
                memory[places[a] : places[a] + size],
                memory[places[b] : places[b] + size],
            )
            row_c, row_d = (
                memory[places[c] : places[c] + size],
                memory[places[d] : places[d] + size],
            )
            by_a, by_b, by_c, by_d = beta[a], beta[b], beta[c], beta[d]
            for u in range(size):
                total = by_a * row_a[u] + by_b * row_b[u] + by_c * row_c[u]
                part[u] -= total + by_d * row_d[u]
    for k in range(count):
        row, factor = memory[places[four[k]] : places[four[k]] + size], beta[four[k]]
        for u in range(size):
            part[u] -= factor * row[u]


@inner()
def exact_residual(
    place, beta, residual, linear, rows, memory, on_demand, shared_at, ready, free, stop, source,
    features, fetched,
):  # fmt: skip
    """p − Kβ from scratch, from float64 values: the residual of the certificate.

    Returns
    -------
    whether there was memory for all rows, first free place, rows that the problem has, values
    computed
    """
    first, computed = place[1] - place[0], np.int64(0)
    for t in range(beta.size):
        residual[t] = linear[t]
    for t in range(beta.size):
        if on_demand is not None and beta[t] != 0.0 and rows[0][t] < 0:
            free, count, values = fetch(
                t, place, residual, fetched, memory, shared_at, ready, free, stop, source, features,
                rows[0], rows[1],
            )  # fmt: skip
            if count == 0:
                return False, free, fetched, computed
            fetched += count
            computed += values
    subtract(residual[:first], beta, memory, rows[0])
    subtract(residual[first:], beta, memory, rows[1])
    return True, free, fetched, computed


@inner()
def gather(
    place, residual, rows, memory, on_demand, shared_at, ready, free, stop, source, features, K
):  # fmt: skip
    """All kernel values of a few samples in K: free place, values computed (−1: no memory)."""
    n, first, computed = residual.size, place[1] - place[0], 0
    for t in range(n):
        residual[t] = 0.0
    for t in range(n):
        if on_demand is not None and rows[0][t] < 0:
            free, count, values = fetch(
                t, place, residual, t, memory, shared_at, ready, free, stop, source, features,
                rows[0], rows[1],
            )  # fmt: skip
            if count == 0:
                return free, -1
            computed += values
        for u in range(first):
            K[t, u] = memory[rows[0][t] + u]
        for u in range(first, n):
            K[t, u] = memory[rows[1][t] + u - first]
    return free, computed
