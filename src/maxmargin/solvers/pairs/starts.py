"""Compiled: feasible points at which the steps of a problem of a batch begin."""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

from math import gcd

from maxmargin.compiled import inner
from maxmargin.problem import GOLDEN, ROUNDING_OF_BOUND, ROUNDING_OF_SUM


@inner()
def fill(beta, bounds, total):
    """A start with that sum: samples at their bounds, scattered over the group, and one below.

    Steps that are coprime to their number visit all samples once.
    """
    step, n = max(1, int(GOLDEN * beta.size)), beta.size
    while gcd(step, n) > 1:
        step += 1
    at, left = 0, abs(total)
    for _ in range(n):
        part = min(left, abs(bounds[at]))
        beta[at] = part if total > 0.0 else -part
        left -= part
        at = (at + step) % n


@inner()
def make_feasible(beta, lower, upper):
    """Put a start within its bounds, and shrink the side whose sum is the larger one."""
    positive, negative = 0.0, 0.0
    for t in range(beta.size):
        near = ROUNDING_OF_BOUND * (upper[t] - lower[t])
        beta[t] = min(max(beta[t], lower[t]), upper[t])
        if beta[t] - lower[t] <= near:
            beta[t] = lower[t]
        elif upper[t] - beta[t] <= near:
            beta[t] = upper[t]
        positive += max(beta[t], 0.0)
        negative -= min(beta[t], 0.0)
    if abs(positive - negative) <= ROUNDING_OF_SUM * (positive + negative):
        return
    least = min(positive, negative)
    for t in range(beta.size):
        if beta[t] > 0.0:
            beta[t] *= least / positive
        elif beta[t] < 0.0:
            beta[t] *= least / negative
