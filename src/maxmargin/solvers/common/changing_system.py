"""Linear systems of samples that come and go, a few from one to the next: one factor for many.

Newton steps of IRWLS at fixed weights differ by the samples between their bounds. Their systems
are blocks of the same matrix: a factor of one block, and a border for each sample that has come or
gone since, solve the others (a Schur complement).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.solvers.common.bordered import Cholesky

# Borders of a factor at most, and new ones of a step from which on a new factor is as cheap, as
# parts of its size; and the size from which on a factor is worth keeping.
_MOST_BORDERS = 0.25
_MOST_NEW = 0.1
_LEAST_SIZE = 200


class ChangingSystem:
    """Solves (K + D) x = right for some of the samples, with a factor that is kept where it serves.

    The factor and its borders together take no more memory than K.
    """

    def __init__(self, K: np.ndarray):
        self._K = K
        self._factor: _BorderedFactor | None = None

    def solver(self, inside: np.ndarray, inverse_weights: np.ndarray) -> Callable:
        """`solve(right)` for the samples `inside`, in ascending order, and D of all samples.

        Raises `LinAlgError` where their block is not positive definite.
        """
        if self._factor is None or not self._factor.serves(inside, inverse_weights):
            self._factor = None  # its memory first
            self._factor = _BorderedFactor(self._K, inside, inverse_weights)
        return self._factor.solver(inside)


class _BorderedFactor:
    """The factor of one block A of K + D, and A⁻¹W for a border W.

    W has a column for each sample that ever was in another set: its kernel values where it is not
    in the block, a unit vector where it is; the multiplier of that keeps its x at zero.
    """

    def __init__(self, K: np.ndarray, index: np.ndarray, inverse_weights: np.ndarray):
        self._K, self._index, self._inverse_weights = K, index, inverse_weights
        n, size = len(K), len(index)
        block = K[np.ix_(index, index)]
        block.flat[:: size + 1] += inverse_weights[index]
        self._cholesky = Cholesky(block)
        self._place, self._border = np.full(n, -1), np.full(n, -1)
        self._place[index] = np.arange(size)
        most = int(min(_MOST_BORDERS * size, (n * n - size * size) / max(size, 1)))
        self._most = most if size >= _LEAST_SIZE else 0
        self._n_borders = 0
        self._columns = np.empty((size, self._most), order="F")  # A⁻¹W
        self._products = np.empty((self._most, self._most))  # WᵀA⁻¹W, less the corner of W

    def serves(self, inside: np.ndarray, inverse_weights: np.ndarray) -> bool:
        """Whether this factor solves for the samples `inside` at less cost than their own."""
        if not np.array_equal(inverse_weights, self._inverse_weights):
            return False
        gone, come = self._changes(inside)
        new = int(np.sum(self._border[gone] < 0)) + int(np.sum(self._border[come] < 0))
        return new <= _MOST_NEW * len(self._index) and self._n_borders + new <= self._most

    def _changes(self, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The samples of the block that are not inside, and those inside that are not in it."""
        stays = np.zeros(len(self._place), bool)
        stays[inside] = True
        return self._index[~stays[self._index]], inside[self._place[inside] < 0]

    def solver(self, inside: np.ndarray) -> Callable:
        gone, come = self._changes(inside)
        if len(gone) + len(come) == 0:
            return self._cholesky.solve
        changed = np.concatenate([gone, come])
        new = changed[self._border[changed] < 0]
        if len(new):
            self._add_borders(new)
        place, n_borders = self._place[inside], self._n_borders
        stay, here = place >= 0, self._border[changed]
        schur = _Schur(self._products[np.ix_(here, here)], len(gone))

        def solve(right: np.ndarray) -> np.ndarray:
            sides = right.reshape(len(right), -1)
            of_block = np.zeros((len(self._index), sides.shape[1]), order="F")
            of_block[place[stay]] = sides[stay]
            columns = self._columns[:, :n_borders]
            sums = (columns.T @ of_block)[here]
            sums[len(gone) :] -= sides[~stay]
            multipliers = np.zeros((n_borders, sides.shape[1]))
            multipliers[here] = schur.solve(sums)
            x = self._cholesky.solve(of_block) - columns @ multipliers
            out = np.empty_like(sides)
            out[stay], out[~stay] = x[place[stay]], multipliers[here[len(gone) :]]
            return out.reshape(right.shape)

        return solve

    def _add_borders(self, new: np.ndarray) -> None:
        inside = self._place[new] >= 0
        outside = np.flatnonzero(~inside)
        W = np.zeros((len(self._index), len(new)), order="F")
        W[self._place[new[inside]], np.flatnonzero(inside)] = 1.0
        W[:, outside] = self._K[new[outside]].take(self._index, axis=1).T
        start, stop = self._n_borders, self._n_borders + len(new)
        self._border[new], self._n_borders = np.arange(start, stop), stop
        self._columns[:, start:stop] = self._cholesky.solve(W)
        products = self._columns[:, :stop].T @ W
        others = np.flatnonzero((self._border >= 0) & (self._place < 0))
        corner = self._K[np.ix_(others, new[outside])]
        corner[others[:, None] == new[outside]] += self._inverse_weights[new[outside]]
        products[np.ix_(self._border[others], outside)] -= corner
        self._products[:stop, start:stop] = products
        self._products[start:stop, :stop] = products.T


class _Schur:
    """Multipliers of a border: first those that hold samples at zero, then samples of their own.

    The matrix is [[P, Q], [Qᵀ, −N]] with P and N positive definite, as K + D is.
    """

    def __init__(self, matrix: np.ndarray, n_held: int):
        self._n_held, self._coupling = n_held, matrix[:n_held, n_held:]
        self._held = _factor(matrix[:n_held, :n_held])
        self._by_coupling = self._held(self._coupling)
        self._others = _factor(self._coupling.T @ self._by_coupling - matrix[n_held:, n_held:])

    def solve(self, sums: np.ndarray) -> np.ndarray:
        held, others = sums[: self._n_held], sums[self._n_held :]
        others = self._others(self._by_coupling.T @ held - others)
        return np.concatenate([self._held(held - self._coupling @ others), others])


def _factor(A: np.ndarray) -> Callable:
    """A⁻¹ times columns, for an A that may have no rows."""
    return Cholesky(np.ascontiguousarray(A)).solve if len(A) else lambda right: right
