"""Pair steps of SMO within a working set: the compiled leaf of the NumPy backend."""

from __future__ import annotations

import numpy as np
from numba import njit

_LEAST_CURVATURE = 1e-12


@njit(cache=True, nogil=True)
def pair_steps(K, residual, beta, lower, upper, relative, tolerance, max_steps):
    """Second-order pair steps (Fan, Chen and Lin, 2005); β and residual are overwritten."""
    m = beta.size
    for number in range(max_steps):
        i, highest, lowest = -1, -np.inf, np.inf
        for t in range(m):
            if beta[t] < upper[t] and residual[t] > highest:
                i, highest = t, residual[t]
            if beta[t] > lower[t] and residual[t] < lowest:
                lowest = residual[t]
        if number == 0:
            tolerance = max(relative * (highest - lowest), tolerance)
        if i < 0 or not highest - lowest > tolerance:
            return
        j, best = -1, 0.0
        for t in range(m):
            difference = highest - residual[t]
            if beta[t] > lower[t] and difference > 0.0:
                curvature = max(K[i, i] + K[t, t] - 2.0 * K[i, t], _LEAST_CURVATURE)
                if difference * difference / curvature > best:
                    j, best = t, difference * difference / curvature
        if j < 0:
            return
        curvature = max(K[i, i] + K[j, j] - 2.0 * K[i, j], _LEAST_CURVATURE)
        up, down = upper[i] - beta[i], beta[j] - lower[j]
        step = min((highest - residual[j]) / curvature, up, down)
        # What reaches its bound is put exactly there.
        beta[i] = upper[i] if step == up else beta[i] + step
        beta[j] = lower[j] if step == down else beta[j] - step
        for t in range(m):
            residual[t] -= step * (K[i, t] - K[j, t])
