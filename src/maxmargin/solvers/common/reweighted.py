"""The engine of IRWLS for large working sets: stages of a hinge smoothed less and less.

The kernel matrix is given whole (`DenseSystem`) or as K = VVᵀ (`LowRankSystem`), where
the re-weighted system is a diagonal plus a matrix of low rank, and the inversion lemma
makes it small.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from maxmargin.parallel import blas_threads
from maxmargin.solvers.common.bordered import BorderedSystem, Cholesky, solve_multipliers
from maxmargin.solvers.common.changing_system import ChangingSystem
from maxmargin.solvers.common.factors import Factor, Stopped, as_factor
from maxmargin.solvers.common.reweighted_steps import (
    FEW_CHANGES,
    INTERCEPT_STEP,
    SMOOTHING_RATIO,
    clip_to_box,
    exact_step,
    has_settled,
)

# Newton steps of a stage at most.
_STEPS_PER_STAGE = 100
# Part of the rows of K up to which they are sooner gathered than all of them read.
_FEW_ROWS = 0.3
# Rows of V may come and go this often, as a part of those that count, before VᵀV is summed anew.
_UPDATES = 0.5
# Solutions of a system at most, each of what rounding left of the one before: the borders of a
# factor lose digits. The error, as a part of what the weights contribute, that may be left, and the
# part of the error before that shows that there is more to win.
_REFINEMENTS = 3
_REFINED = 1e-6
_WORTH_REFINING = 0.1


class _System(ABC):
    """The problem of some samples: a point, and Newton steps from it at fixed weights.

    Where Σ|β| is limited as well (`norm_limit`), ε ≥ 0 is its multiplier, and part of the point.
    Strong smoothing in first stages may leave the limit slack even where it is met in the end.

    Attributes
    ----------
    point : β, or what stands for it
    f : Kβ
    b, smoothing : the intercept after the last stage, and the smoothing width of that
    """

    steps_per_call = 1
    b = smoothing = 0.0
    point: np.ndarray
    f: np.ndarray

    def __init__(self, linear, lower, upper, beta: np.ndarray, epsilon: float, norm_limit):
        self.linear, self.lower, self.upper = linear, lower, upper
        self.epsilon, self.norm_limit = epsilon, norm_limit
        self.total = beta.sum()
        self._beta = beta.copy()
        self._inside = np.empty(0, np.int64)

    def inside(self, index: np.ndarray) -> np.ndarray:
        """β of samples between their bounds, as the last system gave it."""
        return self._beta[index]

    def stage(self, inverse_weights, centre, b, max_steps, last):
        """As `dense_stage`."""
        n = len(self.linear)
        u, target, side = np.empty(n), np.empty(n), np.empty(n)

        def look() -> None:
            clip_to_box(
                self.linear, self.f, b, inverse_weights, centre, self.lower, self.upper,
                self.epsilon, u, target, side,
            )  # fmt: skip

        look()
        right = self.linear + inverse_weights * centre
        for step in range(1, max_steps + 1):
            inside = np.flatnonzero(side)
            try:
                point, f, new_b, new_epsilon = self._solve(
                    inside, target, side, inverse_weights, right, b
                )
            except np.linalg.LinAlgError:
                return b, step, False, False
            direction, image, move_b = point - self.point, f - self.f, new_b - b
            widening = new_epsilon - self.epsilon
            pull = image + move_b
            slope = self._product(direction, self.point, self.f) + move_b * self.total
            slope += widening * (self.norm_limit or 0.0)
            t = exact_step(
                u, -pull / inverse_weights, pull, self.lower, self.upper, slope,
                self._product(direction, direction, image), self.epsilon / inverse_weights,
                widening / inverse_weights, widening,
            )  # fmt: skip
            closes = self.epsilon + t * widening <= 0.0 < self.epsilon
            if closes:
                t = -self.epsilon / widening
            if t == 0.0:
                return b, step, True, True
            self.point = self.point + t * direction
            self.f += t * image
            self.epsilon = 0.0 if closes else self.epsilon + t * widening
            b += t * move_b
            before, last_side = target.copy(), side.copy()
            look()
            changed = last_side != side
            changed |= (last_side == 0) & (before != target)
            allowed = 0.0 if last else FEW_CHANGES * len(inside)
            again = np.array_equal(inside, self._inside)
            self._inside = inside
            if has_settled(t, np.count_nonzero(changed), allowed, again):
                return b, step, True, True
        return b, max_steps, False, True

    def _solve(self, inside, target, side, inverse_weights, right, b):
        """Step 1 of Table 1: the point, its f, b and ε.

        (K + D) β + b·1 + ε·side = right for the samples inside.
        """
        bounded = target.copy()
        bounded[inside] = 0.0
        rest = [self.total - bounded.sum()]
        if len(inside) == 0:
            return (
                *self._point_of(bounded),
                b - INTERCEPT_STEP if rest[0] > 0 else b + INTERCEPT_STEP,
                self.epsilon,
            )
        # One column for each multiplier: b, and ε where it is one. A closed tube stays closed while
        # Σ|β| is less than it may be: then the limit on it is slack.
        columns = [np.ones(len(side))]
        open_tube = self.norm_limit is not None and (
            self.epsilon > 0.0 or np.abs(target).sum() > self.norm_limit
        )
        if open_tube:
            columns.append(side if self.epsilon > 0.0 else np.sign(target) * side)
            rest.append(self.norm_limit - np.abs(bounded).sum())
        else:
            right = right - self.epsilon * side
        point, f, multipliers = self._solve_inside(
            inside, bounded, np.array(rest), inverse_weights, right, columns
        )
        if not open_tube:
            return point, f, multipliers[0], self.epsilon
        epsilon = multipliers[1] if self.epsilon > 0.0 else max(0.0, multipliers[1])
        return point, f, multipliers[0], epsilon

    @abstractmethod
    def _product(self, one, other, image) -> float:
        """The inner product of two points, the f of the second being `image`."""

    @abstractmethod
    def _point_of(self, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The point of a β, and its f."""

    @abstractmethod
    def _solve_inside(self, inside, bounded, rest, inverse_weights, right, columns):
        """The point, its f and the multipliers; `bounded` is β of the others, which are fixed."""


class DenseSystem(_System):
    """The problem of a working set with its block of the kernel matrix in memory."""

    def __init__(
        self, K: np.ndarray, linear, lower, upper, beta: np.ndarray, epsilon: float = 0.0,
        norm_limit: float | None = None,
    ):  # fmt: skip
        super().__init__(linear, lower, upper, beta, epsilon, norm_limit)
        self.K, self._systems = K, ChangingSystem(K)
        self.point, self.f = beta.copy(), self._times(beta)
        self._bounded, self._f_bounded = self.point, self.f

    def _product(self, one, other, image):
        return one @ image

    def _times(self, beta: np.ndarray) -> np.ndarray:
        with blas_threads(2.0 * self.K.size):
            return self.K @ beta

    def _point_of(self, beta):
        """From the last one, where few samples have met a bound or left it since."""
        changed = np.flatnonzero(beta != self._bounded)
        if len(changed) < _FEW_ROWS * len(beta):
            move = (beta - self._bounded)[changed]
            self._f_bounded = self._f_bounded + move @ self.K[changed]
        else:
            self._f_bounded = self._times(beta)
        self._bounded = beta
        return beta, self._f_bounded

    def _solve_inside(self, inside, bounded, rest, inverse_weights, right, columns):
        _, f = self._point_of(bounded)
        weights, border = inverse_weights[inside], np.column_stack(columns)[inside]
        system = BorderedSystem(self._systems.solver(inside, inverse_weights), border)
        left, sums, before = right[inside] - f[inside], rest, np.inf
        within, multipliers = np.zeros(len(bounded)), np.zeros(len(rest))
        for _ in range(_REFINEMENTS):
            change, more = system.solve(left, sums)
            within[inside] += change
            multipliers += more
            image, beta = self._times(within), within[inside]
            left = right[inside] - f[inside] - image[inside] - weights * beta - border @ multipliers
            error = np.abs(left).max()
            if not _REFINED * np.abs(weights * beta).max() < error < _WORTH_REFINING * before:
                break
            sums, before = rest - border.T @ beta, error
        point = bounded.copy()
        point[inside] = self._beta[inside] = within[inside]
        return point, f + image, multipliers


class LowRankSystem(_System):
    """The same with K = VVᵀ: the point is w = Vᵀβ, as if V were features of a linear SVM.

    Any other w may be the start, since the steps see nothing of β but its sum, `total`.
    """

    def __init__(
        self, V: np.ndarray | Factor, linear, lower, upper, beta: np.ndarray, epsilon: float = 0.0,
        norm_limit: float | None = None, start: np.ndarray | None = None,
        total: float | None = None,
    ):  # fmt: skip
        super().__init__(linear, lower, upper, beta, epsilon, norm_limit)
        self.total = self.total if total is None else total
        self.V = as_factor(V)
        self._gram, self._inner = _Gram(self.V), _InnerProducts()
        self._bounded, self._w_bounded = beta, self.V.sums(beta)
        self.point = self._w_bounded if start is None else start
        self.f = self.V.times(self.point)

    def _product(self, one, other, image):
        return one @ other

    def _point_of(self, beta):
        w = self._w_of(beta)
        return w, self.V.times(w)

    def _solve_inside(self, inside, bounded, rest, inverse_weights, right, columns):
        w = self._w_of(bounded)
        if len(inside) > self.V.rank:
            return self._by_lemma(inside, w, rest, inverse_weights, right, columns)
        V = self.V.rows(inside)
        K = self._inner.of(inside, V)
        K.flat[:: len(K) + 1] += inverse_weights[inside]
        system = BorderedSystem(Cholesky(K).solve, np.column_stack(columns)[inside])
        self._beta[inside], multipliers = system.solve(right[inside] - V @ w, rest)
        w = w + self._beta[inside] @ V
        return w, self.V.times(w), multipliers

    def _w_of(self, bounded: np.ndarray) -> np.ndarray:
        """Vᵀβ of the samples at a bound, from the last where few have met one or left it since."""
        move = bounded - self._bounded
        if np.count_nonzero(move) < _FEW_ROWS * len(bounded):
            self._w_bounded = self._w_bounded + self.V.sums(move)
        else:
            self._w_bounded = self.V.sums(bounded)
        self._bounded = bounded
        return self._w_bounded

    def _by_lemma(self, inside, w_bounded, rest, inverse_weights, right, columns):
        """w = (1 + VᵀAV)⁻¹ (Vᵀ(bounded + A right) − b VᵀA1), A the weights of those inside.

        With Σ|β| fixed, − ε VᵀA side is added to it.
        """
        weights, right = 1.0 / inverse_weights[inside], right[inside]
        columns = [column[inside] for column in columns]
        system = self._gram.of(inside, 1.0 / inverse_weights)
        system[np.diag_indices_from(system)] += 1.0
        rights = [self._sums_inside(inside, weights * one) for one in (right, *columns)]
        rights[0] += w_bounded
        solved = Cholesky(system).solve(np.column_stack(rights)).T
        f_right, *f_columns = (self.V.times(one, inside) for one in solved)
        left = [weights * (column - f) for column, f in zip(columns, f_columns)]
        multipliers = solve_multipliers(
            np.array([[column @ one for one in left] for column in columns]),
            np.array([(weights * column) @ (right - f_right) for column in columns]) - rest,
        )
        w = solved[0] - multipliers @ solved[1:]
        f = self.V.times(w)
        rest_of = right - f[inside] - sum(m * column for m, column in zip(multipliers, columns))
        self._beta[inside] = weights * rest_of
        return w, f, multipliers

    def _sums_inside(self, inside: np.ndarray, values: np.ndarray) -> np.ndarray:
        x = np.zeros(self.V.n)
        x[inside] = values
        return self.V.sums(x)


class _Gram:
    """VᵀAV of the samples inside, kept up to date where few of them come or go."""

    def __init__(self, V: Factor):
        self.V = V
        self._inside = np.zeros(V.n, bool)
        self._shares = np.zeros(V.n)
        self._sum: np.ndarray = np.zeros((0, 0))
        self._updates = 0

    def of(self, inside: np.ndarray, weights: np.ndarray) -> np.ndarray:
        # The weights of all stages are the same but for a constant, which is kept out of the sum.
        scale = weights.max()
        shares = weights / scale
        now = np.zeros(self.V.n, bool)
        now[inside] = True
        changed = np.flatnonzero(now != self._inside)
        self._updates += len(changed)
        if self._updates > _UPDATES * len(inside) or not np.allclose(shares, self._shares):
            self._sum, self._updates, self._shares = self.V.gram(inside, shares[inside]), 0, shares
        else:
            come, gone = changed[now[changed]], changed[~now[changed]]
            self._sum += self.V.gram(come, self._shares[come])
            self._sum -= self.V.gram(gone, self._shares[gone])
        self._inside = now
        return self._sum * scale


class _InnerProducts:
    """VVᵀ of the samples inside, kept from step to step but for those that come."""

    def __init__(self) -> None:
        self._inside, self._values = np.empty(0, np.int64), np.empty((0, 0))

    def of(self, inside: np.ndarray, V: np.ndarray) -> np.ndarray:
        """A new array of the products of V[inside], which is `V`; `inside` is ascending."""
        place = np.searchsorted(self._inside, inside)
        known = np.append(self._inside, -1)[place] == inside
        old, stay, new = place[known], np.flatnonzero(known), np.flatnonzero(~known)
        values = np.empty((len(inside), len(inside)))
        values[np.ix_(stay, stay)] = self._values[old].take(old, axis=1)
        with blas_threads(2.0 * len(new) * V.size):
            values[new] = V[new] @ V.T
        values[:, new] = values[new].T
        self._inside, self._values = inside, values
        return values.copy()


def solve_stages(
    system: DenseSystem | LowRankSystem,
    ranges: np.ndarray,
    weakest: float,
    beta: np.ndarray,
    b: float,
    smoothings: tuple[float, float],
    watch: Callable[[int, np.ndarray | None], object],
    rough: bool = False,
) -> np.ndarray | None:
    """β after stages whose smoothing width δ falls from the first value to the last.

    `watch(steps, β)` is called between blocks of steps, with β at the end of a stage
    only; if it returns something the stages end there, and so they do where a step raises
    `Stopped`. With `rough`, the sets of the last stage need not settle either. None where the
    system is not positive definite.
    """
    smoothing, last_smoothing = max(smoothings), smoothings[1]
    centre, target = beta.copy(), beta.copy()
    u, side = np.empty(len(beta)), np.empty(len(beta))
    stop: object = None
    while True:
        inverse_weights = np.maximum(smoothing / ranges, weakest)
        taken, settled = 0, False
        while not (settled or stop) and taken < _STEPS_PER_STAGE:
            limit = min(system.steps_per_call, _STEPS_PER_STAGE - taken)
            try:
                b, steps, settled, definite = system.stage(
                    inverse_weights, centre, b, limit, smoothing <= last_smoothing and not rough
                )
            except Stopped:  # in the middle of a step: the point is that of the step before
                stop = True
                break
            taken += steps
            if not definite:
                return None
            stop = watch(steps, None)
        clip_to_box(
            system.linear, system.f, b, inverse_weights, centre, system.lower, system.upper,
            system.epsilon, u, target, side,
        )  # fmt: skip
        stop = stop or watch(0, target)
        system.b, system.smoothing = b, smoothing
        if stop or smoothing <= last_smoothing:
            inside = np.flatnonzero(side)
            if settled:
                # The system's own answer has more correct digits than u.
                target[inside] = system.inside(inside)
            return np.clip(target, system.lower, system.upper)
        centre = target.copy()
        smoothing = max(last_smoothing, smoothing * SMOOTHING_RATIO)
