"""Small problems of a fit with many classes, a thread block of the GPU for each.

A working set that holds all samples of a problem is the whole problem: SMO steps within it end
at its optimum, without any sweep. After a turn of steps the residual follows from scratch, in
float64, from kernel values that were computed in float64. It proves the answer, or the next
turn begins from it. Problems that are too large, or need too many steps, are left to others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from maxmargin.compiled import leaf
from maxmargin.solvers.pairs import CONVERGED, HARD, Batch, BatchOutcome
from maxmargin.solvers.pairs.certificates import record
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.pieces import Array, Variables

# Samples of a problem at most, those of the largest working set.
_MOST_SAMPLES = 2048
# Part of the free memory for the kernel matrix, and for the blocks of a chunk of problems.
_SHARE_OF_MATRIX = 0.5
_SHARE_OF_BLOCKS = 0.2
# Numbers of a chunk at most, and padding of its problems: they are alike in size.
_CHUNK_VALUES = 2**28
_PADDING = 32
# Steps of a launch: enough for most problems, and less than 0.2 s. Launches after which a problem
# counts as hard.
_STEPS_PER_SAMPLE = 8
_MOST_STEPS = 50_000
_TURNS = 8
# Part of the tolerance to which steps go: their residual and the exact one differ by rounding.
_MARGIN = 0.9


def are_small_pairs(batch: Batch) -> bool:
    """Whether the problems are C-SVCs of pairs of classes, and half of them fit a working set."""
    special = batch.refine or batch.max_iter >= 0 or batch.nu is not None
    small = np.count_nonzero(batch.sizes <= _MOST_SAMPLES)
    return batch.by_pair and not special and bool(2 * small >= len(batch.sizes))


def solve_pairs(
    batch: Batch, backend: Backend, should_stop: Callable[[], bool], start: np.ndarray | None
) -> BatchOutcome | None:
    """Solve the small pairs of classes of a fit; None where the kernel matrix is too large.

    The others are left as hard ones.

    Parameters
    ----------
    backend : of the kernel matrix of all samples, in the order of the batch
    start : coefficients to begin with, feasible, in the layout of `Batch.shape`; or None
    """
    sizes = batch.sizes
    small = np.flatnonzero(sizes <= _MOST_SAMPLES)
    free = backend.free_bytes()
    if 8 * batch.n**2 > _SHARE_OF_MATRIX * free:
        return None
    coefficients = np.zeros(batch.shape) if start is None else start
    found = BatchOutcome(coefficients, len(sizes))
    found.status[:] = HARD
    # The residual that follows from these values is the certificate.
    backend.dtype = np.dtype(np.float64)
    K = backend.matrix(backend.asarray(np.arange(batch.n)))
    found.evaluations[0] = batch.n**2
    for chunk, m in _chunks(sizes, small, _SHARE_OF_BLOCKS * free / 8):
        if should_stop():
            found.stopped[chunk] = True
            continue
        begin = time.perf_counter()
        _Chunk(batch, backend, K, chunk, m, found).solve(should_stop)
        found.seconds[chunk] = (time.perf_counter() - begin) / len(chunk)
    return found


def _chunks(sizes: np.ndarray, small: np.ndarray, most: float) -> Iterator[tuple[np.ndarray, int]]:
    """Problems of about the same size, and that size; their kernel values fit the memory."""
    order = small[np.argsort(-sizes[small], kind="stable")]
    while len(order):
        m = -(-int(sizes[order[0]]) // _PADDING) * _PADDING
        count = max(1, int(min(_CHUNK_VALUES, most) // m**2))
        yield order[:count], m
        order = order[count:]


class _Chunk:
    """Problems of a launch, in rows of m samples; `index` is −1 behind the last of each."""

    def __init__(self, batch: Batch, backend: Backend, K: Array, chunk, m: int, found):
        self.backend, self.found, self.chunk, self.tol = backend, found, chunk, batch.tol
        first, second = batch.problems[chunk, 1][:, None], batch.problems[chunk, 2][:, None]
        bounds, place = batch.bounds, np.arange(m)
        n_first = bounds[first + 1] - bounds[first]
        n_both = n_first + bounds[second + 1] - bounds[second]
        of_first = place < n_first
        sample = np.where(of_first, bounds[first] + place, bounds[second] + place - n_first)
        self.index = np.where(place < n_both, sample, -1)
        used = self.index >= 0
        # A sample of one class has its coefficient in the row of the other, see `Batch.shape`.
        self.places = np.where(of_first, second - 1, first), sample
        self.places = tuple(part[used] for part in self.places)
        self.used = used
        cost = np.where(used, batch.costs[np.where(used, sample, 0)], 0.0)
        self.p = np.where(used, np.where(of_first, 1.0, -1.0), 0.0)
        self.lower, self.upper = np.where(of_first, 0.0, -cost), np.where(of_first, cost, 0.0)
        self.beta = np.zeros(used.shape)
        self.beta[used] = found.coefficients[self.places]
        self.blocks = backend.own_blocks(K, backend.asarray(self.index))

    def solve(self, should_stop: Callable[[], bool]) -> None:
        """Turns of steps for the problems that are not at their optimum."""
        m = self.index.shape[1]
        active, residual = np.arange(len(self.chunk)), self._residual(np.arange(len(self.chunk)))
        most = min(_MOST_STEPS, _STEPS_PER_SAMPLE * m)
        for turn in range(_TURNS + 1):
            active = active[self._judge(active, residual) > self.tol]
            stopped = len(active) > 0 and should_stop()
            if not len(active) or turn == _TURNS or stopped:
                self.found.stopped[self.chunk[active]] = stopped
                break
            self._turn(active, residual, most)
            residual[active] = self._residual(active)
        self.found.coefficients[self.places] = self.beta[self.used]

    def _turn(self, active: np.ndarray, residual: np.ndarray, most: int) -> None:
        backend, (count, m) = self.backend, (len(active), self.index.shape[1])
        flat = (self.beta, residual, self.lower, self.upper)
        at = Variables(*(backend.asarray(part[active].ravel()) for part in flat))
        own = np.arange(count * m).reshape(count, m)
        index = backend.asarray(np.where(self.used[active], own, -1))
        change, taken = backend.steps(
            self._blocks_of(active), at, index, 0.0, _MARGIN * self.tol, most
        )
        beta = self.beta[active] + backend.to_host(change)
        self.beta[active] = np.clip(beta, self.lower[active], self.upper[active])
        self.found.n_iter[self.chunk[active]] += backend.to_host(taken)

    def _blocks_of(self, active: np.ndarray) -> Array:
        whole = len(active) == len(self.chunk)
        return self.blocks if whole else self.blocks[self.backend.asarray(active)]

    def _residual(self, active: np.ndarray) -> np.ndarray:
        """p − Kβ of these problems, from scratch."""
        backend = self.backend
        beta = backend.asarray(self.beta[active][:, :, None])
        products = backend.xp.matmul(self._blocks_of(active), beta)
        return self.p[active] - backend.to_host(products)[:, :, 0]

    def _judge(self, active: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Enter the certificates of these problems; returns their violations."""
        found, which = self.found, self.chunk[active]
        violations = _record_all(
            which, self.beta[active], residual[active], self.p[active], self.lower[active],
            self.upper[active], found.counts, found.numbers,
        )  # fmt: skip
        found.status[which] = np.where(violations <= self.tol, CONVERGED, HARD)
        return violations


@leaf()
def _record_all(which, beta, residual, p, lower, upper, counts, numbers):
    """`record` for a problem in each row; padding has bounds of zero, and takes no part."""
    violations = np.empty(which.size)
    for c in range(which.size):
        violations[c] = record(
            which[c], beta[c], residual[c], p[c], lower[c], upper[c], counts, numbers, None
        )
    return violations
