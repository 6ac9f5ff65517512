"""The engine of IRWLS for large working sets: stages of a narrowing corner of the hinge.

The kernel matrix is given whole (`DenseSystem`) or as K = VVᵀ (`LowRankSystem`), where
the re-weighted system is a diagonal plus a matrix of low rank, and the inversion lemma
makes it small.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_lapack_funcs

from maxmargin.parallel import blas_threads, run_blocks, split
from maxmargin.solvers.common.reweighted_steps import (
    CORNER_RATIO,
    FAR,
    FEW_CHANGES,
    dense_stage,
    exact_step,
    has_settled,
    place,
)

_potrf, _potrs = get_lapack_funcs(("potrf", "potrs"), (np.empty((1, 1)),))
# Operations between two looks at the clock and the keyboard (about 0.1 s).
_WORK_PER_CALL = 2e9
_STEPS_PER_STAGE = 100
# Rows of V that one thread multiplies at a time.
_ROWS_OF_V = 2048
# Rows of V may come and go this often, as a part of those that count, before VᵀV is summed anew.
_UPDATES = 0.5


class DenseSystem:
    """The problem of a working set with its block of the kernel matrix in memory."""

    def __init__(self, K: np.ndarray, linear, lower, upper, beta: np.ndarray, epsilon: float = 0.0):
        self.epsilon = epsilon
        self.K, self.linear, self.lower, self.upper = K, linear, lower, upper
        self.total = beta.sum()
        self.gamma, self.f = beta.copy(), K @ beta
        # Two at least: the second tells whether the sets repeat, and has the factor of the first.
        self.steps_per_call = int(max(2, _WORK_PER_CALL // (len(beta) ** 3 / 3 + 1)))

    def stage(self, inverse_weights, centre, b, max_steps, last):
        return dense_stage(
            self.K, self.linear, self.lower, self.upper, self.epsilon, self.total,
            inverse_weights, centre, self.gamma, self.f, b, max_steps,
            0.0 if last else FEW_CHANGES,
        )  # fmt: skip

    def inside(self, index: np.ndarray) -> np.ndarray:
        """β of samples between their bounds, as the last system gave it."""
        return self.gamma[index]


class LowRankSystem:
    """The same with K = VVᵀ: the state is w = Vᵀβ, as if V were features of a linear SVM."""

    steps_per_call = 1

    def __init__(self, V: np.ndarray, linear, lower, upper, beta: np.ndarray, epsilon: float = 0.0):
        self.V, self.linear, self.lower, self.upper = V, linear, lower, upper
        self.epsilon = epsilon
        self.total = beta.sum()
        self.w = V.T @ beta
        self.f = V @ self.w
        self._beta = beta.copy()
        self._gram = _Gram(V)
        self._inside = np.empty(0, np.int64)

    def inside(self, index: np.ndarray) -> np.ndarray:
        return self._beta[index]

    def stage(self, inverse_weights, centre, b, max_steps, last):
        """As `dense_stage`."""
        n = len(self.linear)
        u, target, side = np.empty(n), np.empty(n), np.empty(n)
        data = (inverse_weights, centre, self.lower, self.upper, self.epsilon, u, target, side)
        place(self.linear, self.f, b, *data)
        dead = self.epsilon / inverse_weights
        for step in range(1, max_steps + 1):
            inside = np.flatnonzero(side)
            right = self.linear + inverse_weights * centre - self.epsilon * side
            try:
                w, f, new_b = self._solve(inside, target, inverse_weights, right, b)
            except np.linalg.LinAlgError:
                return b, step, False, False
            direction, image, move_b = w - self.w, f - self.f, new_b - b
            pull = image + move_b
            slope = self.w @ direction + move_b * self.total
            t = exact_step(
                u, -pull / inverse_weights, pull, self.lower, self.upper, slope,
                direction @ direction, dead,
            )  # fmt: skip
            if t == 0.0:
                return b, step, True, True
            self.w = self.w + t * direction
            self.f += t * image
            b += t * move_b
            before, last_side = target.copy(), side.copy()
            place(self.linear, self.f, b, *data)
            changed = last_side != side
            changed |= (last_side == 0) & (before != target)
            allowed = 0.0 if last else FEW_CHANGES * len(inside)
            again = np.array_equal(inside, self._inside)
            self._inside = inside
            if has_settled(t, np.count_nonzero(changed), allowed, again):
                return b, step, True, True
        return b, max_steps, False, True

    def _solve(self, inside, target, inverse_weights, right, b):
        """Step 1 of Table 1, by the kernel matrix of S₁ or by the inversion lemma: w, Vw, b.

        (K + D) β + b·1 = right for the samples inside.
        """
        bounded = target.copy()
        bounded[inside] = 0.0
        rest = self.total - bounded.sum()
        if len(inside) == 0:
            w = _sums(self.V, bounded)
            return w, _times(self.V, w), b - FAR if rest > 0 else b + FAR
        if len(inside) <= self.V.shape[1]:
            return self._by_kernel(inside, bounded, rest, inverse_weights, right)
        return self._by_lemma(inside, bounded, rest, inverse_weights, right)

    def _by_kernel(self, inside, bounded, rest, inverse_weights, right):
        V, D, w = self.V[inside], inverse_weights[inside], _sums(self.V, bounded)
        right = right[inside] - V @ w
        system = V @ V.T
        system[np.diag_indices_from(system)] += D
        for_right, for_ones = _solve(system, np.column_stack([right, np.ones(len(D))])).T
        b = (for_right.sum() - rest) / for_ones.sum()
        self._beta[inside] = for_right - b * for_ones
        w += V.T @ self._beta[inside]
        return w, _times(self.V, w), b

    def _by_lemma(self, inside, bounded, rest, inverse_weights, right):
        """w = (1 + VᵀAV)⁻¹ (Vᵀ(bounded + A right) − b VᵀA1), A the weights of those inside."""
        weights = np.zeros(len(bounded))
        weights[inside] = 1.0 / inverse_weights[inside]
        system = self._gram.of(inside, 1.0 / inverse_weights)
        system[np.diag_indices_from(system)] += 1.0
        rights = [_sums(self.V, bounded + weights * right), _sums(self.V, weights)]
        w_right, w_ones = _solve(system, np.column_stack(rights)).T
        f_right, f_ones = _times(self.V, w_right), _times(self.V, w_ones)
        b = (weights @ (right - f_right) - rest) / (weights @ (1.0 - f_ones))
        f = f_right - b * f_ones
        self._beta[inside] = (weights * (right - b - f))[inside]
        return w_right - b * w_ones, f, b


# One vector at a time: BLAS multiplies two of them, as a matrix, three times as slowly. The parts
# are the same whatever the number of threads, and so are the bits.


def _sums(V: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Vᵀx, on the session's threads."""
    parts = split(len(V), _ROWS_OF_V)
    return np.sum(run_blocks(lambda rows: x[rows] @ V[rows], parts), axis=0)


def _times(V: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Vx, on the session's threads."""
    return np.concatenate(run_blocks(lambda rows: V[rows] @ x, split(len(V), _ROWS_OF_V)))


class _Gram:
    """VᵀAV of the samples inside, kept up to date where few of them come or go."""

    def __init__(self, V: np.ndarray):
        self.V = V
        self._inside = np.zeros(len(V), bool)
        self._shares = np.zeros(len(V))
        self._sum: np.ndarray = np.zeros((0, 0))
        self._updates = 0

    def of(self, inside: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # The weights of all stages are the same but for a constant, which is kept out of the sum.
        scale = weights.max()
        shares = weights / scale
        now = np.zeros(len(self.V), bool)
        now[inside] = True
        changed = np.flatnonzero(now != self._inside)
        self._updates += len(changed)
        if self._updates > _UPDATES * len(inside) or not np.allclose(shares, self._shares):
            self._sum, self._updates, self._shares = self._weighted(inside, shares), 0, shares
        else:
            signed = np.where(now, self._shares, -self._shares)
            self._sum += self._weighted(changed, signed)
        self._inside = now
        return self._sum * scale

    def _weighted(self, index: np.ndarray, weights: np.ndarray) -> np.ndarray:
        V = self.V[index]
        with blas_threads(2.0 * V.size * V.shape[1]):
            return V.T @ (V * weights[index, np.newaxis])


def _solve(system: np.ndarray, rights: np.ndarray) -> np.ndarray:
    """system⁻¹ rights, by Cholesky."""
    with blas_threads(len(system) ** 3 / 3):
        factor, info = _potrf(system.T, lower=True, overwrite_a=True, clean=False)
    if info != 0:
        raise np.linalg.LinAlgError("not positive definite")
    return _potrs(factor, rights, lower=True)[0]


def solve_stages(
    system: DenseSystem | LowRankSystem,
    widths: np.ndarray,
    weakest: float,
    beta: np.ndarray,
    b: float,
    corners: tuple[float, float],
    watch: Callable[[int, np.ndarray | None], object],
) -> np.ndarray | None:
    """β after stages whose corner of the hinge narrows from the first width to the last.

    `watch(steps, β)` is called between blocks of steps, with β at the end of a stage
    only; if it returns something the stages end there. None where the system is
    not positive definite.
    """
    corner, last_corner = max(corners), corners[1]
    centre, target = beta.copy(), beta.copy()
    u, side = np.empty(len(beta)), np.empty(len(beta))
    stop = None
    while True:
        inverse_weights = np.maximum(corner / widths, weakest)
        taken, settled = 0, False
        while not (settled or stop) and taken < _STEPS_PER_STAGE:
            limit = min(system.steps_per_call, _STEPS_PER_STAGE - taken)
            b, steps, settled, definite = system.stage(
                inverse_weights, centre, b, limit, corner <= last_corner
            )
            taken += steps
            if not definite:
                return None
            stop = watch(steps, None)
        place(
            system.linear, system.f, b, inverse_weights, centre, system.lower, system.upper,
            system.epsilon, u, target, side,
        )  # fmt: skip
        stop = stop or watch(0, target)
        if stop or corner <= last_corner:
            inside = np.flatnonzero(side)
            if settled:
                # The system's own answer has more correct digits than u.
                target[inside] = system.inside(inside)
            return np.clip(target, system.lower, system.upper)
        centre = target.copy()
        corner = max(last_corner, corner * CORNER_RATIO)
