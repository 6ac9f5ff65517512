"""Compiled: the certificate of a problem of a batch, and what a report says of its solution."""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import optimality
from maxmargin.compiled import inner, part_of
from maxmargin.optimality import FEASIBLE

_extremes, _pair_and_level = part_of(optimality.extremes), part_of(optimality.pair_and_level)
_feasibility, _gap_of = part_of(optimality.feasibility), part_of(optimality.gap_of)


@inner()
def record(p, beta, residual, linear, lower, upper, counts, numbers, total):
    """Enter what a report says of a solution, and its certificate; returns the violation."""
    support, bounded, product = 0, 0, 0.0
    for t in range(beta.size):
        support += beta[t] != 0.0
        bounded += beta[t] != 0.0 and (beta[t] == lower[t] or beta[t] == upper[t])
        product += beta[t] * (linear[t] + residual[t])
    violation, (positive, negative) = violation_and_levels(beta, residual, lower, upper, total)
    counts[3, p], counts[4, p] = support, bounded
    numbers[0, p], numbers[2, p] = -0.5 * product, violation
    numbers[1, p] = _gap_of(beta, residual, lower, upper, 0.0, positive, negative)
    numbers[3, p] = 0.5 * (positive + negative)
    if total is not None:
        numbers[4, p] = 0.5 * (negative - positive)
    return violation


@inner()
def violation_and_levels(beta, residual, lower, upper, total):
    """As in the certificate of `optimality.certify`: infinite where β is not feasible.

    `total` is the sum of the positive β where they have one of their own, else None. The levels
    are those of the positive and the negative β; with one sum both are the intercept.
    """
    found = _extremes(beta, residual, lower, upper, 0.0, total is not None)
    beyond, surplus, positive, negative = _feasibility(beta, lower, upper)
    violation, level = _pair_and_level(found[0], found[1], found[2], found[3])
    other = level
    if total is None:
        off = abs(surplus) / (positive - negative) if surplus != 0.0 else 0.0
    else:
        violation_of_other, other = _pair_and_level(found[4], found[5], found[6], found[7])
        violation = max(violation, violation_of_other)
        off = max(abs(positive - total), abs(negative + total)) / (2.0 * total)
    if not max(beyond, off) <= FEASIBLE or not np.isfinite(level + other):
        violation = np.inf
    return violation, (level, other)
