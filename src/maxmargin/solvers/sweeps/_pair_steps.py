"""SMO steps within a working set: the compiled leaf of the NumPy backend."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf

# What stands for a curvature that is not positive, as in pair_steps.cu.
_LEAST_CURVATURE = 1e-12


@leaf()
def pair_steps(K, residual, beta, lower, upper, relative, tolerance, max_steps):
    """Second-order SMO steps (Fan, Chen and Lin, 2005), and how many; β and residual change.

    The residual is that less the multiplier of its sum. Pairs are chosen in float32, as on a GPU.
    """
    m = beta.size
    for number in range(max_steps):
        i, highest, lowest = -1, np.float32(-np.inf), np.float32(np.inf)
        for t in range(m):
            value = np.float32(residual[t])
            if beta[t] < upper[t] and value > highest:
                i, highest = t, value
            if beta[t] > lower[t] and value < lowest:
                lowest = value
        if number == 0:
            tolerance = max(relative * (highest - lowest), tolerance)
        if i < 0 or not highest - lowest > tolerance:
            return number
        j, best = -1, np.float32(0.0)
        for t in range(m):
            difference = residual[i] - residual[t]
            if beta[t] > lower[t] and difference > 0.0:
                curvature = max(K[i, i] + K[t, t] - 2.0 * K[i, t], _LEAST_CURVATURE)
                gain = np.float32(difference) * (np.float32(difference) / np.float32(curvature))
                if gain > best:
                    j, best = t, gain
        if j < 0:
            return number
        curvature = max(K[i, i] + K[j, j] - 2.0 * K[i, j], _LEAST_CURVATURE)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        step = min((residual[i] - residual[j]) / curvature, up, down)
        # What reaches its bound is put exactly there.
        beta[i] = upper[i] if step == up else beta[i] + step
        beta[j] = lower[j] if step == down else beta[j] - step
        for t in range(m):
            residual[t] -= step * (K[i, t] - K[j, t])
    return max_steps
