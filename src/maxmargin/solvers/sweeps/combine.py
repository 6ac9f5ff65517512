"""How far each working set may go when all of them move at the same time."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf

# Passes of the descent at most, and the change of θ at which it ends: lengths need not be exact.
_PASSES = 200
_PRECISION = 1e-3


@leaf()
def step_lengths(coupling, gain):
    """θ in [0, 1] that minimises ½θᵀGθ − gᵀθ, by coordinate descent from 0.

    With Δ_b the change that working set b would like, G_bc = Δ_bᵀKΔ_c and g_b is the slope
    of the objective along Δ_b: the objective after Σ θ_bΔ_b is never above the one
    that the best single set alone would reach.
    """
    count = gain.size
    theta = np.zeros(count)
    slope = gain.copy()
    for _ in range(_PASSES):
        largest = 0.0
        for b in range(count):
            if coupling[b, b] > 0.0:
                new = min(max(theta[b] + slope[b] / coupling[b, b], 0.0), 1.0)
            else:  # no curvature, or not convex: all the way if that is downhill
                new = 1.0 if slope[b] > 0.0 else theta[b]
            step = new - theta[b]
            if step != 0.0:
                theta[b] = new
                for c in range(count):
                    slope[c] -= step * coupling[c, b]
                largest = max(largest, abs(step))
        if largest < _PRECISION:
            break
    return theta
