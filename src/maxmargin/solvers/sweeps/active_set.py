"""A Newton step under bounds: a primal-dual active set method on a Cholesky factor that grows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from maxmargin.problem import nearest_feasible
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.factor import PanelCholesky, factorise
from maxmargin.solvers.sweeps.pieces import Array, Variables

# Exchanges of all samples on the wrong side that may pass without fewer of them; after that one
# sample at a time is exchanged, which cannot cycle (Júdice and Pires, 1994).
_TRIALS = 4
_ROUNDS = 24
# Part of the samples of a factor that may be at a bound, or missing, before it is made anew.
_STALE = 0.2
# Part of the samples that may be on the wrong side: more would mean too long a step.
_WRONG = 0.6


@dataclass
class Matrix:
    """A kernel matrix in memory, as the active set method needs it.

    Attributes
    ----------
    block : a function of two arrays of samples that returns that block of K + ridge · I, in
        float64 on the device
    product : a function of samples and coefficients that returns K[:, samples] @ coefficients
    ridge : the proximal term
    """

    block: Callable[[np.ndarray, np.ndarray], Array]
    product: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ridge: float


class FreeSystem:
    """The linear system of the free samples, by the factor of a set of samples that holds them.

    With the samples H of the factor at their bounds, stationarity (K + μI)Δ + Ab + λ = r gives
    LᵀΔ = u − Wb − Yᵀλ with u = L⁻¹r, W = L⁻¹A and Y = (L⁻¹E_H)ᵀ. A has a column per sum of β,
    with ones at its samples, and E_H has the columns of the identity at H. The conditions
    Δ_H = bound − β_H and AᵀΔ = given are then a system in λ and b whose matrix is the Gram
    matrix of [Yᵀ W]: one triangular solution per sample that leaves the free ones, where a new
    factor would take a cube.

    Vectors and sets are on the host, matrices on the device.
    """

    def __init__(self, backend: Backend, matrix: Matrix, should_stop: Callable[[], bool]):
        self.backend, self.xp, self.matrix = backend, backend.xp, matrix
        self._should_stop = should_stop
        self.members = np.zeros(0, np.int64)
        self._factor: PanelCholesky | None = None
        self._forget()

    def _forget(self) -> None:
        """Drop what was derived from the factor."""
        self._fixed = np.zeros(0, np.int64)  # places in the factor, in the order of Y
        self._Y = self.xp.zeros((0, len(self.members)))
        self._gram = self.xp.zeros((0, 0))
        self._groups = np.zeros(0, np.int64)
        self._W: Array = None

    def cover(self, free: np.ndarray, n: int) -> bool:
        """Let the factor cover the free samples, and maybe others; False where that fails."""
        size = len(self.members)
        inside = np.zeros(n, bool)
        inside[self.members] = True
        missing = free[~inside[free]]
        extra = size - (len(free) - len(missing))
        if self._factor is None or max(len(missing), extra) > _STALE * size:
            self._factor, self.members, missing = None, self.members[:0], free
        if not len(missing) and self._factor is not None:
            return True
        members = np.concatenate([self.members, missing])

        def block(rows: slice, columns: slice) -> Array:
            return self.matrix.block(members[rows], members[columns])

        self._factor = factorise(self.backend, len(members), block, self._factor, self._should_stop)
        self.members = members if self._factor is not None else members[:0]
        self._forget()
        return self._factor is not None

    def solve(
        self, right: np.ndarray, fixed: np.ndarray, goal: np.ndarray, groups: np.ndarray,
        totals: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
        """Δ of the members and the multiplier b of each sum, or None.

        Parameters
        ----------
        right : r of the members
        fixed, goal : places of members that are at a bound, and their Δ
        groups : the number of the sum that each member belongs to
        totals : the sums of Δ
        """
        assert self._factor is not None
        backend = self.backend
        u = self._factor.forward(backend.asarray(right[:, None]))
        W = self._sums(groups, len(totals))
        rows = self._rows(fixed)
        # A sum whose members are all at a bound has no multiplier.
        used = np.bincount(np.delete(groups, fixed), minlength=len(totals)) > 0
        across, along = backend.to_host(W.T @ W), backend.to_host(W.T @ u)[:, 0] - totals
        multipliers = np.zeros((len(self._fixed), 1 + len(totals)))
        if len(fixed):
            by_u, by_w = backend.to_host(self._Y @ u)[rows], backend.to_host(self._Y @ W)[rows]
            solved = self.backend.solve_definite(
                self._gram, rows, np.concatenate([by_u - goal[:, None], by_w], axis=1)
            )
            if solved is None:
                return None
            across = across - by_w.T @ solved[:, 1:]
            along = along - by_w.T @ solved[:, 0]
            multipliers[rows] = solved
        intercepts = np.zeros(len(totals))
        part = across[np.ix_(used, used)]
        if not used.any() or not (np.linalg.eigvalsh(part) > 0.0).all():  # to rounding
            return None
        intercepts[used] = np.linalg.solve(part, along[used])
        left = u - W @ backend.asarray(intercepts[:, None])
        if len(fixed):
            pulls = multipliers[:, :1] - multipliers[:, 1:] @ intercepts[:, None]
            left = left - self._Y.T @ backend.asarray(pulls)
        change = backend.to_host(self._factor.backward(left))[:, 0].copy()
        change[fixed] = goal
        return change, intercepts

    def _sums(self, groups: np.ndarray, count: int) -> Array:
        """W = L⁻¹A."""
        known = self._W is not None and self._W.shape[1] == count
        if not known or not np.array_equal(groups, self._groups):
            assert self._factor is not None
            columns = (groups[:, None] == np.arange(count)).astype(np.float64)
            self._W = self._factor.forward(self.backend.asarray(columns))
            self._groups = groups
        return self._W

    def _rows(self, fixed: np.ndarray) -> np.ndarray:
        """Rows of Yᵀ of these places; new ones are computed."""
        m = len(self.members)
        row = np.full(m, -1)
        row[self._fixed] = np.arange(len(self._fixed))
        new = fixed[row[fixed] < 0]
        if len(new):
            assert self._factor is not None
            fresh, xp = self._factor.unit_rows(new), self.xp
            across = self._Y @ fresh.T
            self._gram = xp.concatenate([
                xp.concatenate([self._gram, across], axis=1),
                xp.concatenate([across.T, fresh @ fresh.T], axis=1),
            ])  # fmt: skip
            self._Y = xp.concatenate([self._Y, fresh])
            row[new] = len(self._fixed) + np.arange(len(new))
            self._fixed = np.concatenate([self._fixed, new])
        return row[fixed]


def newton_change(
    system: FreeSystem,
    at: Variables,
    groups: np.ndarray,
    samples: np.ndarray,
    side: np.ndarray,
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """The change Δ of some samples that minimises ½Δᵀ(K + μI)Δ − residualᵀΔ, and KΔ of all.

    Subject to lower ≤ β + Δ ≤ upper and ΣΔ = 0 in every group. With some samples held at a
    bound, the others follow from a linear system; then samples whose multiplier pulls inwards
    become free, and samples that Δ puts beyond a bound are held there, until
    neither happens (block principal pivoting).

    Parameters
    ----------
    at : β, bounds and residual of all samples, on the host
    groups : the number of the sum that each of them belongs to
    samples : the samples that may change
    side : which of them begin at a bound: 1 at the upper, −1 at the lower, 0 for the others

    The third value says whether the sets came to rest, so that Δ is the minimum. Returns
    None where the systems cannot be solved or the objective would not decrease.
    """
    part, groups = at.take(samples), groups[samples]
    place = np.zeros(len(at.beta), np.int64)
    place[samples] = np.arange(len(samples))
    change = products = np.zeros(len(samples))
    settled, fewest, trials = False, len(samples) + 1, _TRIALS
    for _ in range(_ROUNDS):
        free = side == 0
        if should_stop() or not free.any() or not system.cover(samples[free], len(at.beta)):
            return None
        solved = _change_with_held(system, part, groups, samples, side, place[system.members])
        if solved is None:
            return None
        change, intercepts = solved
        products = system.matrix.product(samples, change)
        # The remaining residual of a held sample is its multiplier.
        rest = part.residual - products[samples] - system.matrix.ridge * change
        rest -= intercepts[groups]
        target = part.beta + change
        above, below = free & (target > part.upper), free & (target < part.lower)
        inwards = rest * side < 0
        wrong = above | below | inwards
        count = int(np.count_nonzero(wrong))
        if count == 0:
            settled = True
            break
        if count > _WRONG * len(samples):
            return None
        if count < fewest:
            fewest, trials = count, _TRIALS
        elif trials:
            trials -= 1
        else:
            last = np.arange(len(samples)) == np.flatnonzero(wrong)[-1]
            above, below, inwards = above & last, below & last, inwards & last
        side = np.where(inwards, 0, np.where(above, 1, np.where(below, -1, side)))
    found = _decreasing(system, part, groups, samples, change, products)
    return None if found is None else (*found, settled)


def _change_with_held(
    system: FreeSystem, part: Variables, groups: np.ndarray, samples: np.ndarray, side: np.ndarray,
    inside: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:  # fmt: skip
    """Δ of the samples with some held at their bounds, and the multipliers; None without them.

    `inside` are the samples that the factor has, as places among `samples`.
    """
    goal = np.where(side > 0, part.upper, part.lower) - part.beta
    outside = side != 0
    outside[inside] = False
    change = np.where(outside, goal, 0.0)
    right = part.residual
    if change.any():
        products = system.matrix.product(samples[change != 0], change[change != 0])
        right = right - products[samples]
    fixed = np.flatnonzero(side[inside])
    totals = -np.bincount(groups, change, minlength=int(groups.max()) + 1)
    solved = system.solve(right[inside], fixed, goal[inside][fixed], groups[inside], totals)
    if solved is None:
        return None
    change[inside], intercepts = solved
    return change, intercepts


def _decreasing(
    system: FreeSystem,
    part: Variables,
    groups: np.ndarray,
    samples: np.ndarray,
    change: np.ndarray,
    products: np.ndarray,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The change made feasible, and as far along it as the objective decreases."""
    feasible = np.zeros(len(change))
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        beta, lower, upper = part.beta[own], part.lower[own], part.upper[own]
        target = nearest_feasible(beta + change[own], lower, upper, (float(beta.sum()),))
        feasible[own] = target - beta
    if (feasible != change).any():
        products = system.matrix.product(samples, feasible)
    slope, curvature = float(part.residual @ feasible), float(feasible @ products[samples])
    if not slope > 0:
        return None
    if curvature > slope:
        length = slope / curvature
        return feasible * length, products * length
    return feasible, products
