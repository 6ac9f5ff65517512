"""The compiled copy of scattered kernel values into a block."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def gather_block(rows, slots, columns, out):
    """out[a, b] = rows[slots[a], columns[b]]; unsigned columns save a test for negative ones."""
    for a in range(slots.size):
        row = rows[slots[a]]
        target = out[a]
        for b in range(columns.size):
            target[b] = row[columns[b]]
