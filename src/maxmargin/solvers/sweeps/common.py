"""What all backends have in common."""

from __future__ import annotations

import numpy as np

from maxmargin.solvers.common.bordered import Cholesky

# SMO steps of a working set, per sample.
STEPS_PER_SAMPLE = 1
# Matrices up to this size are in float64, where that is fast.
DOUBLE_BYTES = 2**30
# A β is put on a bound that it reaches up to this part of itself and its change.
SNAP = 1e-13
# Multiplier of a hash (Knuth), and the part of a violation by which it decides among equals.
_HASH = 2654435761
SCATTER = 1e-3


def n_sets(samples: int, size: int) -> int:
    """The number of working sets for `samples`; two places per set are kept for uneven cuts."""
    return max(1, -(-samples // (size - 2)))


def scatter(index: np.ndarray) -> np.ndarray:
    """Pseudo-random factors just below 1: at the start all samples violate equally."""
    return 1.0 - SCATTER * (index * _HASH % 2**32) / 2**32


def solve_definite(A: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """A⁻¹ right for a positive definite A, which is overwritten; None where it is not."""
    try:
        return Cholesky(A).solve(right)
    except np.linalg.LinAlgError:
        return None
