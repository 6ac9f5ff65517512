"""Compiled passes over kernel rows: copies of scattered values, and sums of rows."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf


@leaf()
def gather_block(rows, slots, columns, out, targets):
    """out[targets[a], b] = rows[slots[a], columns[b]]; unsigned columns save a test each."""
    for a in range(slots.size):
        row = rows[slots[a]]
        target = out[targets[a]]
        for b in range(columns.size):
            target[b] = row[columns[b]]


@leaf(fastmath={"contract", "nsz"})
def subtract_rows(residual, rows, slots, change, start, stop):
    """residual[start:stop] −= Σ_k change[k] · rows[slots[k], start:stop], summed in float64.

    Four rows at a time, so that the residual is read and written less often.
    """
    part = residual[start:stop]
    width = part.size
    k = 0
    while k + 4 <= slots.size:
        c0, c1, c2, c3 = change[k], change[k + 1], change[k + 2], change[k + 3]
        r0 = rows[slots[k]][start:stop]
        r1 = rows[slots[k + 1]][start:stop]
        r2 = rows[slots[k + 2]][start:stop]
        r3 = rows[slots[k + 3]][start:stop]
        for t in range(width):
            total = c0 * np.float64(r0[t]) + c1 * np.float64(r1[t])
            part[t] -= total + c2 * np.float64(r2[t]) + c3 * np.float64(r3[t])
        k += 4
    while k < slots.size:
        c0 = change[k]
        r0 = rows[slots[k]][start:stop]
        for t in range(width):
            part[t] -= c0 * np.float64(r0[t])
        k += 1
