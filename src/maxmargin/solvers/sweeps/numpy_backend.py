"""The operations of the solver on the processor, with the kernel matrix of the problem."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs

from maxmargin.kernels.interface import KernelMatrix
from maxmargin.optimality import extremes
from maxmargin.parallel import blas_threads, run_blocks
from maxmargin.solvers.sweeps._pair_steps import pair_steps
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.common import (
    DOUBLE_BYTES,
    SNAP,
    STEPS_PER_SAMPLE,
    n_sets,
    scatter,
    solve_definite,
)
from maxmargin.solvers.sweeps.pieces import State, pieces

# Rows of a matrix that are computed at a time.
_ROWS = 512


class NumpyBackend(Backend):
    """NumPy arrays; kernel values and products are those of the problem's kernel."""

    xp = np
    name = "processor"
    block_size = 1024
    max_blocks = 16
    panel = 512

    def __init__(self, kernel: KernelMatrix, memory: int):
        self.kernel, self._memory = kernel, memory
        double = 8 * kernel.n**2 <= min(DOUBLE_BYTES, memory / 2)
        self.dtype = np.dtype(np.float64) if double else kernel.dtype
        self.precise = kernel.dtype == np.float64

    def asarray(self, values):
        return np.array(values)

    def to_host(self, values):
        return np.asarray(values)

    def free_bytes(self):
        return self._memory

    def block(self, rows, columns):
        return self.kernel.block(rows, columns, dtype=self.dtype)

    def matrix(self, index):
        whole = len(index) == self.kernel.n and (np.diff(index) == 1).all()
        kernel = self.kernel if whole else self.kernel.restrict(index)
        K = np.empty((kernel.n, kernel.n), self.dtype)
        for start in range(0, kernel.n, _ROWS):
            rows = np.arange(start, min(kernel.n, start + _ROWS))
            kernel.block(rows, dtype=self.dtype, out=K, slots=rows)
        return K

    def replace(self, K, index, places):
        for start in range(0, len(places), _ROWS):
            part = places[start : start + _ROWS]
            values = self.block(index[part], index)
            K[part] = values
            K[:, part] = values.T

    def product(self, index, coefficients, precise=True):
        return self.kernel.multiply(index, coefficients, precise=precise)

    def submatrix(self, K, rows, columns, ridge=0.0):
        part = K[np.ix_(rows, columns)].astype(np.float64)
        return part + ridge * (rows[:, None] == columns) if ridge else part

    def unit_columns(self, n, places):
        columns = np.zeros((n, len(places)))
        columns[places, np.arange(len(places))] = 1.0
        return columns

    def nearest(self, rows, landmarks, places):
        own = rows[np.arange(len(rows)), landmarks]
        away = own[:, None] - 2 * rows
        nearest = np.argmin(away, axis=0)
        least = away[nearest, np.arange(rows.shape[1])]
        return places[nearest] + 0.5 + 0.5 * least / (1.0 + np.abs(least))

    def state(self, at, kink):
        found = extremes(at.beta, at.residual, at.lower, at.upper, kink.epsilon, kink.by_sign)
        return State.of(found, kink.by_sign)

    def pieces(self, at, kink, state, only):
        return pieces(at, kink, state, only)

    def working_sets(self, at, order, threshold, bonus, shift):
        can_grow, can_shrink = at.beta < at.upper, at.beta > at.lower
        pull = at.residual
        grows = pull >= 0.0
        score = np.where(np.where(grows, can_grow, can_shrink), np.abs(pull), -np.abs(pull))
        score[can_grow & can_shrink] += bonus
        most = self.max_blocks * (self.block_size - 2)
        chosen = score > threshold
        n_above = int(np.count_nonzero(chosen))
        if n_above > most:
            score = score * scatter(np.arange(len(score)))
            chosen = np.zeros(len(score), bool)
            chosen[np.argpartition(-score, most)[:most]] = True
        growing, shrinking = order[(chosen & grows)[order]], order[(chosen & ~grows)[order]]
        count = n_sets(len(growing) + len(shrinking), self.block_size)
        index = np.full((count, self.block_size), -1)
        first = 0
        for members in (growing, shrinking):
            m = len(members)
            block = np.arange(m) * count // max(1, m)
            slot = first + np.arange(m) - (block * m + count - 1) // count
            index[block, slot] = np.roll(members, -int(shift * m / count))
            first += -(-m // count)
        return index, n_above

    def own_blocks(self, K, index):
        blocks = np.zeros((*index.shape, index.shape[1]), K.dtype)
        for b, row in enumerate(index):
            own = np.flatnonzero(row >= 0)
            blocks[b][np.ix_(own, own)] = K[np.ix_(row[own], row[own])]
        return blocks

    def steps(self, blocks, at, index, relative, tolerance, max_steps):
        return self._steps(lambda b, own: blocks[b][np.ix_(own, own)], at, index,
                           (relative, tolerance, max_steps))  # fmt: skip

    def pair_steps(self, K, at, index, relative, tolerance):
        def block(b: int, own: np.ndarray) -> np.ndarray:
            return K[np.ix_(index[b, own], index[b, own])]

        limits = relative, tolerance, STEPS_PER_SAMPLE * index.shape[1]
        return self._steps(block, at, index, limits)[0]

    def _steps(self, block, at, index, limits: tuple):
        """`block` is a function of a set and places in it that returns their kernel values."""
        change, taken = np.zeros(index.shape), np.zeros(len(index), np.int32)

        def optimise(b: int) -> None:
            own = np.flatnonzero(index[b] >= 0)
            members = index[b, own]
            old, beta = at.beta[members], at.beta[members].copy()
            taken[b] = pair_steps(
                block(b, own).astype(np.float64), at.residual[members], beta,
                at.lower[members], at.upper[members], *limits,
            )  # fmt: skip
            change[b, own] = beta - old

        run_blocks(optimise, range(len(index)))
        return change, taken

    def block_products(self, K, index, change):
        products = np.zeros((len(index), len(K)))

        def multiply(b: int) -> None:
            moved = np.flatnonzero(change[b])
            products[b] = change[b, moved].astype(K.dtype) @ K[index[b, moved]]

        run_blocks(multiply, range(len(index)))
        return products

    def couplings(self, at, index, change, products):
        between = np.stack([
            products[:, members] @ moves
            for members, moves in zip(index, change, strict=True)
        ], axis=1)  # fmt: skip
        gain = np.sum(at.residual[index] * change, axis=1)
        return np.column_stack([between, gain])

    def move(self, at, index, change, products, lengths):
        members, whole = index[index >= 0], np.broadcast_to(lengths[:, None], index.shape)
        moved = at.beta[members] + (whole * change)[index >= 0]
        lower, upper = at.lower[members], at.upper[members]
        near = SNAP * (np.abs(at.beta[members]) + np.abs(change[index >= 0]))
        moved = np.where(moved <= lower + near, lower, moved)
        at.beta[members] = np.where(moved >= upper - near, upper, moved)
        at.residual -= lengths @ products

    def cholesky(self, A):
        potrf, trtri = get_lapack_funcs(("potrf", "trtri"), (A,))
        with blas_threads(len(A) ** 3 / 3):
            L, info = potrf(A, lower=True, clean=True)
            if info or not np.isfinite(L).all():
                return None
            return L, trtri(L, lower=True)[0]

    def matrix_product(self, K, index, coefficients):
        total = np.zeros(len(K))
        for start in range(0, len(index), _ROWS):
            part = slice(start, start + _ROWS)
            total += coefficients[part] @ K[index[part]]
        return total

    def solve_definite(self, A, rows, right):
        return solve_definite(A[np.ix_(rows, rows)], right)

    # In floating-point operations. A product is bound by reading the values.
    def sweep_cost(self, values):
        return 1e7 + 40.0 * values

    def newton_cost(self, size):
        return 1e7 + 6.0 * size**3
