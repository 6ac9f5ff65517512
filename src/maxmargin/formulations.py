"""Support vector machines as instances of the one dual problem."""

from __future__ import annotations

import numpy as np

# An infinite C would leave the problem without bounds; no float64 solution tells this from it.
_LARGEST_C = 1e12


def c_svc(signs: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The C-SVC of samples with labels ±1: (linear, lower, upper) of the dual in β = yα.

    minimise ½αᵀQα − Σα with 0 ≤ α ≤ C, yᵀα = 0 and Q_ij = y_i y_j K_ij becomes
    minimise ½βᵀKβ − yᵀβ with β between 0 and yC, Σβ = 0.

    Parameters
    ----------
    signs : labels, +1.0 or −1.0
    costs : C of each sample, its weights included
    """
    bounds = signs * np.minimum(costs, _LARGEST_C)
    return signs, np.minimum(bounds, 0.0), np.maximum(bounds, 0.0)
