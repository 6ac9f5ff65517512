"""Support vector machines as instances of the one dual problem."""

from __future__ import annotations

import numpy as np

# An infinite C would leave the problem without bounds. C times the size of the kernel values is
# what counts: from _HARD_MARGIN on, float64 arithmetic leaves no digit of p − Kβ at the bound, and
# another bound stands for it that does.
_HARD_MARGIN = 1e20
_LARGEST_C = 1e12


def c_svc(
    signs: np.ndarray, costs: np.ndarray, scale: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The C-SVC of samples with labels ±1: (linear, lower, upper) of the dual in β = yα.

    minimise ½αᵀQα − Σα with 0 ≤ α ≤ C, yᵀα = 0 and Q_ij = y_i y_j K_ij becomes
    minimise ½βᵀKβ − yᵀβ with β between 0 and yC, Σβ = 0.

    Parameters
    ----------
    signs : labels, +1.0 or −1.0
    costs : C of each sample, its weights included
    scale : the size of the kernel values, see `KernelMatrix.scale`
    """
    bounds = signs * np.where(costs * scale < _HARD_MARGIN, costs, _LARGEST_C / scale)
    return signs, np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)


def are_bounds(costs: np.ndarray, scale: float) -> bool:
    """Whether all C are the bounds of the problem themselves; see `c_svc`."""
    return bool((costs * scale < _HARD_MARGIN).all())


def n_at_largest_cost(beta: np.ndarray, costs: np.ndarray, scale: float) -> int:
    """Samples whose β has met the bound that stands for their C."""
    replaced = costs * scale >= _HARD_MARGIN
    return int(np.count_nonzero(replaced & (np.abs(beta) >= _LARGEST_C / scale)))
