"""Compiled: a problem of a batch with a linear kernel of few features, where SMO steps crawl."""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import leaf, part_of
from maxmargin.solvers.common import interior_point as common
from maxmargin.solvers.pairs.certificates import record
from maxmargin.solvers.pairs.problems import CONVERGED

_interior_point = part_of(common.interior_point)


@leaf()
def solve_linear(
    problems, p, bounds, codes, costs, by_pair, X, tol, max_steps, coefficients, counts, numbers
):
    """Solve problem p by the interior-point method, and certify it, where that succeeds.

    The kernel does not see where the origin is, as Σβ = 0. It is moved to the mean of the samples,
    so that their products keep their digits. The certificate is computed from the samples as they
    are. Arguments are those of `solve_problems`, but for the features X. Where it does not succeed,
    the coefficients and the status stay as they were.
    """
    positive, g, h = problems[p]
    g_start, first = bounds[g], bounds[g + 1] - bounds[g]
    h_start, second = (bounds[h], bounds[h + 1] - bounds[h]) if h >= 0 else (0, 0)
    n, n_features = first + second, X.shape[1]
    beta, linear, lower, upper = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    features, mean = np.empty((n, n_features)), np.zeros(n_features)
    for t in range(n):
        s = g_start + t if t < first else h_start + t - first
        linear[t] = 1.0 if codes[s] == positive else -1.0
        lower[t], upper[t] = (0.0, costs[s]) if linear[t] > 0.0 else (-costs[s], 0.0)
        for k in range(n_features):
            features[t, k] = X[s, k]
            mean[k] += X[s, k] / n
    centred = features - mean
    iterations, solved = _interior_point(
        centred, linear, lower, upper, 0.0, 0.0, constants.TARGET * tol, max_steps - counts[1, p],
        beta,
    )  # fmt: skip
    counts[1, p] += iterations
    if not solved:
        return
    product = np.dot(features, np.dot(features.T, beta))
    if record(p, beta, linear - product, linear, lower, upper, counts, numbers, None) > tol:
        return
    counts[0, p] = CONVERGED
    row_g, row_h = (h - 1, g) if by_pair else (p, p)
    for t in range(n):
        s, row = (g_start + t, row_g) if t < first else (h_start + t - first, row_h)
        coefficients[row, s] = beta[t]
