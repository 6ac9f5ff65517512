"""A primal-dual interior-point method for kernels of low rank.

The number of iterations hardly depends on C, and with K = VVᵀ each costs n·r²
operations. It serves where pair steps need millions: large C, few features.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from maxmargin.parallel import blas_threads

_MAX_ITERATIONS = 80
# Go this part of the way to the boundary.
_TO_BOUNDARY = 0.995
# Diagonal entries below this would leave the Woodbury formula no correct digits.
_SMALL_DIAGONAL = 1e-7
_RIDGE = 1e-14
# Mean complementarity, relative to tol and the width of the box, at which the bounds are told
# apart: a sample whose multiplier is at least tol is then within this part of its bound.
_CLOSE = 1e-7


def interior_point(
    V: np.ndarray,
    linear: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    total: float,
    tol: float,
    should_stop: Callable[[], object],
) -> np.ndarray | None:
    """β near the optimum of ½‖Vᵀβ‖² − pᵀβ with lower ≤ β ≤ upper, Σβ = total.

    Mehrotra's predictor and corrector. At the end the samples that belong to a
    bound are put on it: those whose distance to it, as a part of the box, is less
    than its multiplier. What remains is the work of a linear system on the free
    samples, which the caller does with the true kernel. None if it was stopped
    or did not converge.
    """
    state = _State(V, linear, lower, upper, total)
    for _ in range(_MAX_ITERATIONS):
        if should_stop():
            return None
        if state.look() <= _CLOSE * tol and np.abs(state.slope).max() <= 0.1 * tol:
            return state.snapped()
        try:
            state.step()
        except np.linalg.LinAlgError:
            return None
    return None


class _State:
    """β, the multipliers of its bounds, and that of the sum."""

    def __init__(self, V, linear, lower, upper, total):
        self.V, self.linear, self.lower, self.upper, self.total = V, linear, lower, upper, total
        self.width = upper - lower
        self.beta = lower + self.width * ((total - lower.sum()) / self.width.sum())
        self.below, self.above = np.ones(len(linear)), np.ones(len(linear))
        self.intercept = 0.0

    def look(self) -> float:
        """Recompute slope and complementarity; the mean of the latter, as a part of the box."""
        self.room_below, self.room_above = self.beta - self.lower, self.upper - self.beta
        gradient = self.V @ (self.V.T @ self.beta) - self.linear
        self.slope = gradient + self.intercept - self.below + self.above
        products = self.room_below @ self.below + self.room_above @ self.above
        self.mean = products / (2 * len(self.beta))
        return self.mean / self.width.max()

    def step(self) -> None:
        """Mehrotra's step: predict, choose the centring, correct."""
        system = _System(self.V, self.below / self.room_below + self.above / self.room_above)
        predicted = self._right(0.0, 0.0)
        by_ones, solved = system.solve(np.column_stack([np.ones_like(predicted), predicted])).T
        step, _, d_below, d_above = self._direction(solved, by_ones, 0.0, 0.0)
        primal, dual = self._lengths(step, d_below, d_above)
        after = (self.room_below + primal * step) @ (self.below + dual * d_below)
        after += (self.room_above - primal * step) @ (self.above + dual * d_above)
        centre = self.mean * (after / (2 * len(step) * self.mean)) ** 3
        centres = centre - step * d_below, centre + step * d_above
        solved = system.solve(self._right(*centres)[:, np.newaxis])[:, 0]
        step, shift, d_below, d_above = self._direction(solved, by_ones, *centres)
        primal, dual = self._lengths(step, d_below, d_above)
        primal, dual = min(1.0, _TO_BOUNDARY * primal), min(1.0, _TO_BOUNDARY * dual)
        self.beta = self.beta + primal * step
        self.intercept += dual * shift
        self.below = self.below + dual * d_below
        self.above = self.above + dual * d_above

    def _right(self, centre_below, centre_above) -> np.ndarray:
        pull = centre_below / self.room_below - self.below
        return pull - (centre_above / self.room_above - self.above) - self.slope

    def _direction(self, solved, by_ones, centre_below, centre_above):
        shift = (solved.sum() + self.beta.sum() - self.total) / by_ones.sum()
        step = solved - shift * by_ones
        d_below = (centre_below - self.below * step) / self.room_below - self.below
        d_above = (centre_above + self.above * step) / self.room_above - self.above
        return step, shift, d_below, d_above

    def _lengths(self, step, d_below, d_above) -> tuple[float, float]:
        primal = min(_longest(self.room_below, step), _longest(self.room_above, -step))
        return primal, min(_longest(self.below, d_below), _longest(self.above, d_above))

    def snapped(self) -> np.ndarray:
        """β with the samples that belong to a bound put on it."""
        at_lower = self.room_below / self.width < self.below
        at_upper = self.room_above / self.width < self.above
        return np.where(at_lower, self.lower, np.where(at_upper, self.upper, self.beta))


def _longest(value: np.ndarray, change: np.ndarray) -> float:
    """The largest multiple of a change (up to a little over 1) that keeps a value positive."""
    falling = change < 0
    limit = np.min(-value[falling] / change[falling], initial=np.inf)
    return min(1.0 / _TO_BOUNDARY, float(limit))


class _System:
    """Solves (VVᵀ + diag(d)) x = right.

    Samples with a tiny d, the free ones to be, are kept apart. For the others the
    Woodbury formula is harmless, and the Schur complement of the few is factored
    directly, so that no digits cancel; one step of refinement does the rest.
    """

    def __init__(self, V: np.ndarray, d: np.ndarray):
        self.V, self.d = V, d
        self.small = d < _SMALL_DIAGONAL
        self.large = ~self.small
        self.V_small, self.V_large = V[self.small], V[self.large]
        self.root = np.sqrt(d[self.large])[:, np.newaxis]
        self.scaled = self.V_large / self.root
        with blas_threads(1.0 * self.scaled.size * self.scaled.shape[1]):
            inner = self.scaled.T @ self.scaled
        inner[np.diag_indices_from(inner)] += 1.0
        self.inner = cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)
        schur = self.V_small @ cho_solve(self.inner, self.V_small.T, check_finite=False)
        schur[np.diag_indices_from(schur)] += d[self.small] + _RIDGE * len(schur)
        if len(schur):
            self.schur = cho_factor(schur, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, right: np.ndarray) -> np.ndarray:
        if not self.small.any():
            return self._solve_large(right)
        x = self._solve_apart(right)
        rest = right - self.V @ (self.V.T @ x) - self.d[:, np.newaxis] * x
        return x + self._solve_apart(rest)

    def _solve_apart(self, right: np.ndarray) -> np.ndarray:
        x = np.empty_like(right)
        on_large = self._solve_large(right[self.large])
        reduced = right[self.small] - self.V_small @ (self.V_large.T @ on_large)
        x[self.small] = cho_solve(self.schur, reduced, check_finite=False)
        pull = self.V_large @ (self.V_small.T @ x[self.small])
        x[self.large] = on_large - self._solve_large(pull)
        return x

    def _solve_large(self, right: np.ndarray) -> np.ndarray:
        base = right / self.root
        solved = cho_solve(self.inner, self.scaled.T @ base, check_finite=False)
        return (base - self.scaled @ solved) / self.root
