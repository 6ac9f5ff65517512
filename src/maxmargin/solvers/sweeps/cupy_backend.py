"""The operations of the solver on an NVIDIA GPU, by CuPy and the kernels of `kernels/cuda`."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.kernels.cuda import fast_double, load_cupy
from maxmargin.kernels.cuda.kernel_matrix import BLOCK_VALUES, CudaKernelMatrix
from maxmargin.kernels.cuda.modules import launch
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.common import (
    DOUBLE_BYTES,
    SCATTER,
    SNAP,
    STEPS_PER_SAMPLE,
    n_sets,
    solve_definite,
)
from maxmargin.solvers.sweeps.numpy_backend import NumpyBackend
from maxmargin.solvers.sweeps.pieces import State, Variables

# Part of the free memory of the card that a solve may take. It is counted in such parts of all
# memory, so that the same fit takes the same samples into memory and has the same bits.
_SHARE = 0.8
_STEPS_OF_MEMORY = 32
_THREADS = 256
# With more samples than this, working sets are larger.
_MANY = 40000
# Samples of a working set that one thread has; OWN in pair_steps.cu.
_SAMPLES_PER_THREAD = 4
# Rows of a working set's block that a thread block copies; GATHERED in pair_steps.cu.
_GATHERED = 8
# Rows and columns of a tile of samples that are exchanged, as in `replace` of sweeps.cu.
_TILE = 32
# Columns of a product that one thread has; COLUMNS in sweeps.cu.
_COLUMNS = 4
# Systems up to this size are solved by the processor: to start a launch takes longer.
_SMALL = 256
# Newton steps of so few samples are done by the processor altogether.
_HOST_NEWTON = 256
# Thread blocks for a product with a matrix in memory.
_PARTS = 2048
# Blocks of the first stage of a reduction.
_REDUCING = 128


class CupyBackend(Backend):
    """CuPy arrays; kernel values and products are those of samples on the card."""

    name = "GPU"
    panel = 2048

    def __init__(self, kernel: CudaKernelMatrix, memory: int | None = None):
        self.xp = self.cp = load_cupy()
        self.kernel, self._memory = kernel, memory
        device = self.cp.cuda.Device()
        self.block_size = 2048 if kernel.n > _MANY else 1024
        self.max_blocks = device.attributes["MultiProcessorCount"]
        double = fast_double() and 8 * kernel.n**2 <= DOUBLE_BYTES
        self.dtype = np.dtype(np.float64 if double else np.float32)
        self.precise = fast_double()
        self._host = NumpyBackend(kernel, 0)
        self._buffer: Any = None  # memory of kernel matrices, used again for the next one

    def asarray(self, values):
        return self.cp.asarray(values)

    def to_host(self, values):
        return self.cp.asnumpy(values)

    def free_bytes(self):
        pool = self.cp.get_default_memory_pool()
        free, total = self.cp.cuda.runtime.memGetInfo()
        step = total // _STEPS_OF_MEMORY
        free = _SHARE * ((free + pool.free_bytes()) // step * step)
        return int(free if self._memory is None else min(free, self._memory - pool.used_bytes()))

    def block(self, rows, columns):
        return self.kernel.on_card_block(rows, columns, self.dtype)

    def matrix(self, index):
        n, size = len(index), len(index) ** 2
        if self._buffer is None or len(self._buffer) < size:
            self._buffer = None  # before the next one is taken
            self._buffer = self.cp.empty(size, self.dtype)
        K = self._buffer[:size].reshape(n, n)
        self.kernel.on_card_matrix(index, self.dtype, K)
        return K

    def replace(self, K, index, places):
        n = len(K)
        for start in range(0, len(places), step := max(1, BLOCK_VALUES // n)):
            part = places[start : start + step]
            values = self.block(index[part], index)
            launch(
                "replace", K.dtype.char, (-(-n // _TILE), -(-len(part) // _TILE)), (_TILE, 8),
                (K, np.int64(n), part, np.int32(len(part)), values),
            )  # fmt: skip

    def product(self, index, coefficients, precise=True):
        dtype = np.float64 if precise or fast_double() else np.float32
        return self.kernel.on_card_product(index, coefficients, dtype)

    def submatrix(self, K, rows, columns, ridge=0.0):
        cp = self.cp
        out = cp.empty((len(rows), len(columns)))
        launch(
            "submatrix", K.dtype.char, (len(rows), -(-len(columns) // _THREADS)), _THREADS,
            (K, np.int64(K.shape[1]), cp.asarray(rows), cp.asarray(columns),
             np.int64(len(columns)), np.float64(ridge), out),
        )  # fmt: skip
        return out

    def unit_columns(self, n, places):
        out = self.cp.zeros((n, len(places)))
        launch(
            "unit_columns", None, -(-len(places) // _THREADS), _THREADS,
            (self.cp.asarray(places), np.int64(len(places)), out),
        )  # fmt: skip
        return out

    def nearest(self, rows, landmarks, places):
        cp, n = self.cp, rows.shape[1]
        keys = cp.empty(n)
        launch(
            "nearest", rows.dtype.char, -(-n // _THREADS), _THREADS,
            (rows, np.int64(n), cp.asarray(landmarks), cp.asarray(places),
             np.int32(len(landmarks)), keys),
        )  # fmt: skip
        return keys

    def state(self, at, kink):
        cp, n = self.cp, len(at.beta)
        partial = cp.empty((2, 4, _REDUCING))
        launch(
            "extremes", None, _REDUCING, _THREADS,
            (at.beta, at.residual, at.lower, at.upper, np.int64(n), np.float64(kink.epsilon),
             np.int32(kink.by_sign), partial),
        )  # fmt: skip
        found = [
            (side[0].max(), side[1].min(), side[2].sum(), side[3].sum())
            for side in cp.asnumpy(partial)
        ]
        return State.of(found, kink.by_sign)

    def pieces(self, at, kink, state, only):
        n = len(at.beta)
        pull, lower, upper = self.cp.empty((3, n))
        launch(
            "pieces", None, -(-n // _THREADS), _THREADS,
            (at.beta, at.residual, at.lower, at.upper, np.int64(n), np.float64(kink.epsilon),
             np.int32(kink.by_sign), np.float64(state.levels[0]), np.float64(state.levels[-1]),
             np.int32(-1 if only is None else only), pull, lower, upper),
        )  # fmt: skip
        return Variables(at.beta, pull, lower, upper)

    def working_sets(self, at, order, threshold, bonus, shift):
        cp, n = self.cp, len(at.beta)
        most = self.max_blocks * (self.block_size - 2)
        score, flags = cp.empty(n), cp.empty((2, n), np.int32)

        def marked(threshold: float, scatter: float):
            launch(
                "mark", None, -(-n // _THREADS), _THREADS,
                (at.beta, at.residual, at.lower, at.upper, order, np.int64(n),
                 np.float64(threshold), np.float64(bonus), np.float64(scatter), score, flags),
            )  # fmt: skip
            # One long sum: CuPy has a slower way along an axis.
            ends = cp.cumsum(flags.ravel(), dtype=np.int64)
            growing, both = cp.asnumpy(ends[n - 1 :: n]).tolist()
            return ends, growing, both - growing

        ends, growing, shrinking = marked(threshold, 0.0)
        n_above = growing + shrinking
        if n_above > most:
            marked(threshold, SCATTER)
            worst = float(cp.partition(score, n - most)[n - most])
            # The worst of them is to be above the threshold, too.
            ends, growing, shrinking = marked(np.nextafter(worst, -np.inf), SCATTER)
        count = n_sets(growing + shrinking, self.block_size)
        index = cp.full((count, self.block_size), -1, dtype=np.int64)
        launch(
            "deal", None, -(-n // _THREADS), _THREADS,
            (order, flags, ends, np.int64(n), np.int64(growing), np.int64(shrinking),
             np.int64(count), np.int64(self.block_size), np.float64(shift), index),
        )  # fmt: skip
        return index, n_above

    def own_blocks(self, K, index):
        count, m = index.shape
        blocks = self.cp.empty((count, m, m), K.dtype)
        launch(
            "gather_blocks", K.dtype.char, (-(-m // _GATHERED), count), _THREADS,
            (K, np.int64(len(K)), index, np.int32(m), blocks),
        )  # fmt: skip
        return blocks

    def steps(self, blocks, at, index, relative, tolerance, max_steps):
        cp, (count, m) = self.cp, index.shape
        change, taken = cp.empty((count, m)), cp.empty(count, np.int32)
        # Warps are whole: their threads exchange values.
        threads = 32 * -(-m // (32 * _SAMPLES_PER_THREAD))
        launch(
            "pair_steps", blocks.dtype.char, count, threads,
            (blocks, index, at.beta, at.residual, at.lower, at.upper, np.int32(m),
             np.float32(relative), np.float32(tolerance), np.int32(max_steps), change, taken),
        )  # fmt: skip
        return change, taken

    def pair_steps(self, K, at, index, relative, tolerance):
        most = STEPS_PER_SAMPLE * index.shape[1]
        return self.steps(self.own_blocks(K, index), at, index, relative, tolerance, most)[0]

    def block_products(self, K, index, change):
        cp, n, (count, m) = self.cp, len(K), index.shape
        samples, moves = cp.empty((count, m), np.int64), cp.empty((count, m))
        counts = cp.empty(count, np.int32)
        launch(
            "moved_samples", None, count, 32,
            (index, change, np.int32(m), samples, moves, counts),
        )  # fmt: skip
        products = cp.empty((count, n))
        launch(
            "block_products", K.dtype.char, (-(-n // (_THREADS * _COLUMNS)), count), _THREADS,
            (K, np.int64(n), samples, moves, counts, np.int32(m), products),
        )  # fmt: skip
        return products

    def couplings(self, at, index, change, products):
        count, m = index.shape
        out = self.cp.empty((count, count + 1))
        launch(
            "couplings", None, (count + 1, count), 32,
            (at.residual, index, change, products, np.int64(products.shape[1]), np.int32(m), out),
        )  # fmt: skip
        return self.cp.asnumpy(out)

    def move(self, at, index, change, products, lengths):
        n, (count, m) = len(at.beta), index.shape
        lengths = self.cp.asarray(lengths)
        launch(
            "move_beta", None, count, _THREADS,
            (at.beta, at.lower, at.upper, index, change, lengths, np.int32(m), np.float64(SNAP)),
        )  # fmt: skip
        launch(
            "move_residual", None, -(-n // _THREADS), _THREADS,
            (at.residual, products, lengths, np.int32(count), np.int64(n)),
        )  # fmt: skip

    def cholesky(self, A):
        from cupyx.scipy.linalg import solve_triangular

        try:
            L = self.cp.linalg.cholesky(A)
        except np.linalg.LinAlgError:
            return None
        inverse = solve_triangular(L, self.unit_columns(len(A), np.arange(len(A))), lower=True)
        # Not a number, or infinite, where A is not definite: every entry ends in the last row.
        return (L, inverse) if np.isfinite(self.cp.asnumpy(inverse[-1])).all() else None

    def solve_definite(self, A, rows, right):
        from cupyx.scipy.linalg import solve_triangular

        part = self.submatrix(A, rows, rows)
        if len(rows) <= _SMALL:
            return solve_definite(self.cp.asnumpy(part), right)
        try:
            L = self.cp.linalg.cholesky(part)
        except np.linalg.LinAlgError:
            return None
        solved = solve_triangular(L, self.cp.asarray(right), lower=True)
        solved = self.cp.asnumpy(solve_triangular(L, solved, lower=True, trans=1))
        return solved if np.isfinite(solved).all() else None

    def matrix_product(self, K, index, coefficients):
        cp, n = self.cp, len(K)
        parts = max(1, min(len(index) // 64, _PARTS * _THREADS // n))
        sums = cp.empty((parts, n))
        launch(
            "matrix_product", K.dtype.char, (-(-n // _THREADS), parts), _THREADS,
            (K, np.int64(n), index, coefficients, np.int64(len(index)), sums),
        )  # fmt: skip
        return cp.ones(parts) @ sums if parts > 1 else sums[0]

    def algebra(self, size):
        return self if size > _HOST_NEWTON else self._host

    # Costs in microseconds, as measured on an H200.
    def sweep_cost(self, values):
        return 500.0 + 0.5 * STEPS_PER_SAMPLE * self.block_size + 3e-7 * values

    def newton_cost(self, size):
        return 8e3 + 3.0 * size + 1e-8 * size**3

    def release(self):
        self._buffer = None
