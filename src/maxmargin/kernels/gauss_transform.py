"""Sums of Gaussians in one to three dimensions, at a cost in proportion to the samples.

Σ_j c_j exp(−γ‖x_i − z_j‖²) for n targets and m sources takes n · m kernel values, or none: within a
box that is small beside 1/√γ, the kernel is a polynomial of its position up to rounding. So the
sources of a box are represented by their moments, Σ c_j T_k(z_j) with Chebyshev polynomials T_k.
The moments of all boxes meet in one small matrix product per dimension, since the Gaussian is a
product over the dimensions, and each target evaluates the polynomial of its box. This is the fast
Gauss transform of Greengard and Strain (1991) with interpolation in place of their expansions.

The error is proven and of the size of rounding. As a function of one coordinate the kernel is
entire, and bounded by exp(γs²(ρ − 1/ρ)²/16) on the Bernstein ellipse ρ of an interval of length s;
so interpolation in p Chebyshev nodes is off by at most 4 exp(γs²(ρ − 1/ρ)²/16) ρ⁻ᵖ/(ρ − 1). There
are two interpolations for each of d dimensions, of values that the others have amplified by the
Lebesgue constant Λ ≤ 1 + (2/π) ln(p + 1) at most: 2d Λ²ᵈ⁻¹ times that in all, relative to Σ|c|.
With γs² = ½, p = 16 and the best ρ these are 2·10⁻¹⁶, 4·10⁻¹⁵ and 4·10⁻¹⁴ for d = 1, 2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain, pairwise

import numpy as np

from maxmargin.compiled import inner, leaf
from maxmargin.parallel import blas_threads, run_blocks, split

MOST_FEATURES = 3
# Chebyshev nodes per dimension of a box, and the square of its side times γ.
_NODES = 16
_SIDE = 0.5
# Moments of all boxes per sample, and in all (128 MB): the memory follows that of the samples. The
# same holds for the matrix of the polynomials of one dimension.
_MOMENTS_PER_SAMPLE = 16
_MOST_MOMENTS = 2**24
# Nanoseconds of one core for a sample, by dimension; for a transform, whatever its size; for a
# kernel value; for a flop of BLAS.
_COST_OF_SAMPLE = (20.0, 40.0, 400.0)
_COST_OF_TRANSFORM = 3e5
_COST_OF_VALUE = 1.0
_COST_OF_FLOP = 0.05
# Part of the time of the kernel values from which on the transform is taken.
_WORTH_IT = 0.5
# Targets that a thread takes at a time, and blocks of sources for the threads.
_TARGETS = 2**14
_BLOCKS = 16

_ANGLES = (2 * np.arange(_NODES) + 1) * (math.pi / (2 * _NODES))
_PLACES = np.cos(_ANGLES)  # of the nodes, in [−1, 1]
# From values at the nodes to coefficients of Chebyshev polynomials.
_TO_COEFFICIENTS = np.cos(np.outer(_ANGLES, np.arange(_NODES))) * (2.0 / _NODES)
_TO_COEFFICIENTS[:, 0] *= 0.5


def gauss_sums(
    gamma: float,
    sources: np.ndarray,
    coefficients: np.ndarray,
    targets: Callable[[slice], np.ndarray],
    n_targets: int,
) -> np.ndarray | None:
    """Σ_j coefficients[j] exp(−γ‖x_i − z_j‖²) for each target x_i; None where values are cheaper.

    Parameters
    ----------
    sources : array of shape (m, d)
    coefficients : array of shape (m, n_tasks)
    targets : some of them, of shape (at most n_targets, d)
    """
    sums = GaussSums.prepare(
        gamma,
        sources,
        lambda task: coefficients[:, task],
        coefficients.shape[1],
        targets,
        n_targets,
    )
    if sums is None:
        return None
    result = np.empty((n_targets, coefficients.shape[1]))

    def evaluate(part: slice) -> None:
        result[part] = sums.at(targets(part))

    run_blocks(evaluate, split(n_targets, _TARGETS))
    return result


def cost_of_sums(
    n_features: int, n_sources: int, n_targets: int, n_tasks: int = 1, flops: float = 0.0
) -> float:
    """Kernel values that take as long as the transform; infinite where all values are as cheap."""
    if not 1 <= n_features <= MOST_FEATURES:
        return np.inf
    cost = _COST_OF_SAMPLE[n_features - 1] * (n_sources + n_targets) + _COST_OF_FLOP * flops
    cost = (cost * n_tasks + _COST_OF_TRANSFORM) / _COST_OF_VALUE
    return cost if cost < _WORTH_IT * n_sources * n_targets else np.inf


def cost_within(
    gamma: float, low: np.ndarray, high: np.ndarray, n_sources: int, n_targets: int
) -> float:
    """The same for samples between two corners, which tell the number of boxes."""
    return _Boxes.around(low, high, gamma).cost(n_sources, n_targets, 1)


def corners(parts: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each feature, NaN where numbers are not finite."""
    found = [extremes_of_columns(np.ascontiguousarray(part, np.float64)) for part in parts]
    return np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)


class GaussSums:
    """Sums over sources, ready to be evaluated at targets within known boxes."""

    def __init__(self, boxes: _Boxes, polynomials: list[np.ndarray]):
        self._boxes, self._polynomials = boxes, polynomials

    @classmethod
    def prepare(
        cls, gamma: float, sources: np.ndarray, coefficients: Callable[[int], np.ndarray],
        n_tasks: int, targets: Callable[[slice], np.ndarray], n_targets: int,
    ) -> GaussSums | None:  # fmt: skip
        """The sums of `gauss_sums`, with the coefficients of a task; None where they do not pay."""
        if cost_of_sums(sources.shape[1], len(sources), n_targets, n_tasks) == np.inf:
            return None
        parts = (targets(part) for part in split(n_targets, _TARGETS))
        boxes = _Boxes.around(*corners(chain([sources], parts)), gamma)
        if boxes.cost(len(sources), n_targets, n_tasks) == np.inf:
            return None
        visit, polynomials = boxes.visit(sources), []
        for task in range(n_tasks):
            moments = boxes.new_grid()
            visit(add_moments, np.ascontiguousarray(coefficients(task), np.float64), moments)
            polynomials.append(boxes.meet(moments))
        return cls(boxes, polynomials)

    def at(self, targets: np.ndarray) -> np.ndarray:
        """The sums at some targets, of shape (n, n_tasks)."""
        result = np.empty((len(self._polynomials), len(targets)))
        visit = self._boxes.visit(targets)
        for own, polynomials in zip(result, self._polynomials, strict=True):
            visit(evaluate_polynomials, own, polynomials)
        return result.T


class _Boxes:
    """A grid of boxes of equal sides around all samples, of three dimensions.

    Where the samples have fewer, the first ones have one box with one node.
    """

    def __init__(self, low: np.ndarray, side: float, shape: tuple[int, ...], gamma: float):
        missing = MOST_FEATURES - len(shape)
        self.low, self.side, self.gamma, self.missing = low, side, gamma, missing
        self.shape = (1,) * missing + shape
        self.nodes = (1,) * missing + (_NODES,) * len(shape)

    @classmethod
    def around(cls, low: np.ndarray, high: np.ndarray, gamma: float) -> _Boxes:
        extent = high - low
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            side = min(float(np.sqrt(np.divide(_SIDE, gamma))), float(extent.max()) or 1.0)
            counts = np.nan_to_num(np.floor(extent / side), nan=np.inf) + 1.0
        return cls(low, side, tuple(np.minimum(counts, _MOST_MOMENTS).astype(int)), gamma)

    def cost(self, n_sources: int, n_targets: int, n_tasks: int) -> float:
        """As `cost_of_sums`; infinite also where the boxes take too much memory."""
        most = min(_MOMENTS_PER_SAMPLE * (n_sources + n_targets), _MOST_MOMENTS)
        lines = self._lines()
        if not max(math.prod(lines) * n_tasks, max(lines) ** 2) <= most:
            return np.inf
        n_features = MOST_FEATURES - self.missing
        return cost_of_sums(n_features, n_sources, n_targets, n_tasks, self.flops)

    def _lines(self) -> list[int]:
        """The polynomials of each dimension, in all its boxes."""
        return [int(count) * nodes for count, nodes in zip(self.shape, self.nodes)]

    @property
    def flops(self) -> float:
        """Operations of `meet`."""
        lines = self._lines()
        return 2.0 * math.prod(lines) * sum(lines[self.missing :])

    def new_grid(self) -> np.ndarray:
        return np.zeros((math.prod(self.shape), *self.nodes))

    def visit(self, samples: np.ndarray) -> Callable:
        """A function that runs a leaf over all samples, box by box, on all threads.

        No two threads are in the same box, and the samples of a box have a fixed order.
        """
        samples = np.ascontiguousarray(samples, np.float64)
        numbers = box_numbers(samples, self.low, self.side, np.array(self.shape[self.missing :]))
        n_boxes = math.prod(self.shape)
        order, starts = sorted_by_box(numbers, n_boxes)
        borders = np.searchsorted(starts, np.linspace(0, len(samples), _BLOCKS + 1))
        borders[0], borders[-1] = 0, n_boxes
        blocks = [both for both in pairwise(borders) if both[0] < both[1]]

        def run(leaf_of_boxes, values: np.ndarray, grid: np.ndarray) -> None:
            def one(boxes: tuple[int, int]) -> None:
                leaf_of_boxes(
                    samples, order, starts, *boxes, values, grid,
                    self.low, self.side, np.array(self.shape),
                )  # fmt: skip

            run_blocks(one, blocks)

        return run

    def meet(self, grid: np.ndarray) -> np.ndarray:
        """From the moments of all boxes to the polynomials of all boxes."""
        boxes, nodes, all_boxes = self.shape, self.nodes, grid.shape[0]
        lines = self._lines()
        values = grid.reshape(*boxes, *nodes).transpose(0, 3, 1, 4, 2, 5).reshape(lines)
        for axis in range(self.missing, MOST_FEATURES):
            kernel = self._kernel_of_polynomials(boxes[axis])
            with blas_threads(2.0 * values.size * lines[axis]):
                values = np.moveaxis(np.tensordot(kernel, values, axes=(1, axis)), 0, axis)
        values = values.reshape([n for pair in zip(boxes, nodes) for n in pair])
        values = values.transpose(0, 2, 4, 1, 3, 5)
        return np.ascontiguousarray(values).reshape(all_boxes, *nodes)

    def _kernel_of_polynomials(self, n_boxes: int) -> np.ndarray:
        """Coefficients of the kernel of one dimension in the polynomials of pairs of boxes.

        Its values between the nodes, interpolated on both sides.
        """
        places = (np.arange(n_boxes)[:, np.newaxis] + 0.5 * (1.0 + _PLACES)).ravel() * self.side
        values = np.exp(-self.gamma * (places[:, np.newaxis] - places) ** 2)
        values = values.reshape(n_boxes, _NODES, n_boxes, _NODES)
        return np.einsum("iajb,ak,bl->ikjl", values, _TO_COEFFICIENTS, _TO_COEFFICIENTS,
                         optimize=True).reshape(len(places), len(places))  # fmt: skip


@leaf()
def extremes_of_columns(samples):
    """Of few columns, for which NumPy takes many times as long."""
    n_features = samples.shape[1]
    low, high = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    total = 0.0
    for i in range(len(samples)):
        for k in range(n_features):
            value = samples[i, k]
            low[k], high[k] = min(low[k], value), max(high[k], value)
            total += value
    if not np.isfinite(total):
        low[:], high[:] = np.nan, np.nan
    return low, high


@leaf()
def box_numbers(samples, low, side, shape):
    """The number of each sample's box."""
    numbers = np.empty(len(samples), np.int64)
    for i in range(len(samples)):
        number = 0
        for k in range(samples.shape[1]):
            at = int((samples[i, k] - low[k]) / side)
            number = number * shape[k] + min(max(at, 0), shape[k] - 1)
        numbers[i] = number
    return numbers


@leaf()
def sorted_by_box(numbers, n_boxes):
    """Samples in the order of their boxes, and where each box begins: a counting sort."""
    starts = np.zeros(n_boxes + 1, np.int64)
    for i in range(len(numbers)):
        starts[numbers[i] + 1] += 1
    for box in range(n_boxes):
        starts[box + 1] += starts[box]
    order, following = np.empty(len(numbers), np.int64), starts[:-1].copy()
    for i in range(len(numbers)):
        order[following[numbers[i]]] = i
        following[numbers[i]] += 1
    return order, starts


@inner(fastmath={"contract"})
def _polynomials(samples, chosen, count, low, side, box, shape, out):
    """Chebyshev polynomials of samples of one box, side by side; 1 in dimensions that they lack.

    How many lanes of `out` have numbers: `count` of the samples, and zeros up to whole registers.
    """
    missing, lanes = 3 - samples.shape[1], (count + 7) // 8 * 8
    for axis in range(2, -1, -1):
        for lane in range(lanes):
            out[axis, 0, lane] = 1.0
        if axis < missing:
            continue
        at = box % shape[axis]
        box //= shape[axis]
        for lane in range(lanes):
            out[axis, 1, lane] = 0.0
        for lane in range(count):
            place = (samples[chosen[lane], axis - missing] - low[axis - missing]) / side
            out[axis, 1, lane] = 2.0 * (place - at) - 1.0
        for k in range(1, 8):
            for lane in range(lanes):
                half, place = out[axis, k, lane], out[axis, 1, lane]
                out[axis, 2 * k, lane] = 2.0 * half * half - 1.0
                out[axis, 2 * k + 1, lane] = 2.0 * half * out[axis, k + 1, lane] - place
    return lanes


@inner(fastmath={"contract", "reassoc", "nsz"})
def _add_products(factor, values, lanes, out):
    """out[c] += Σ factor · values[c] for eight polynomials c: their sums stay in registers."""
    s0, s1, s2, s3, s4, s5, s6, s7 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for lane in range(lanes):
        f = factor[lane]
        s0 += f * values[0, lane]
        s1 += f * values[1, lane]
        s2 += f * values[2, lane]
        s3 += f * values[3, lane]
        s4 += f * values[4, lane]
        s5 += f * values[5, lane]
        s6 += f * values[6, lane]
        s7 += f * values[7, lane]
    out[0] += s0
    out[1] += s1
    out[2] += s2
    out[3] += s3
    out[4] += s4
    out[5] += s5
    out[6] += s6
    out[7] += s7


@leaf(fastmath={"contract"})
def add_moments(samples, order, starts, first, last, coefficients, grid, low, side, shape):
    """Add the coefficients of the samples in some boxes to the moments of these."""
    values, factor, chosen = np.zeros((3, 16, 64)), np.zeros(64), np.zeros(64, np.int64)
    for box in range(first, last):
        place = starts[box]
        while place < starts[box + 1]:
            count = 0
            while place < starts[box + 1] and count < 64:
                chosen[count] = order[place]
                count += coefficients[order[place]] != 0.0
                place += 1
            lanes = _polynomials(samples, chosen, count, low, side, box, shape, values)
            for a in range(grid.shape[1]):
                for b in range(grid.shape[2]):
                    for lane in range(count, lanes):
                        factor[lane] = 0.0
                    for lane in range(count):
                        weight = coefficients[chosen[lane]]
                        factor[lane] = weight * values[0, a, lane] * values[1, b, lane]
                    _add_products(factor, values[2, :8], lanes, grid[box, a, b, :8])
                    _add_products(factor, values[2, 8:], lanes, grid[box, a, b, 8:])


@inner(fastmath={"contract"})
def _add_polynomials(weights, u, v, values, lanes, out):
    """out += u · v · Σ_c weights[c] · values[c], lane by lane."""
    w0, w1, w2, w3 = weights[0], weights[1], weights[2], weights[3]
    w4, w5, w6, w7 = weights[4], weights[5], weights[6], weights[7]
    w8, w9, w10, w11 = weights[8], weights[9], weights[10], weights[11]
    w12, w13, w14, w15 = weights[12], weights[13], weights[14], weights[15]
    for lane in range(lanes):
        even = w0 + w2 * values[2, lane] + w4 * values[4, lane] + w6 * values[6, lane]
        odd = w1 * values[1, lane] + w3 * values[3, lane] + w5 * values[5, lane]
        even += w8 * values[8, lane] + w10 * values[10, lane] + w12 * values[12, lane]
        odd += w7 * values[7, lane] + w9 * values[9, lane] + w11 * values[11, lane]
        odd += w13 * values[13, lane] + w15 * values[15, lane]
        out[lane] += (even + w14 * values[14, lane] + odd) * u[lane] * v[lane]


@leaf(fastmath={"contract"})
def evaluate_polynomials(samples, order, starts, first, last, results, grid, low, side, shape):
    """Results of the samples in some boxes, from the polynomials of these."""
    values, total = np.zeros((3, 16, 64)), np.zeros(64)
    for box in range(first, last):
        for place in range(starts[box], starts[box + 1], 64):
            chosen = order[place : min(place + 64, starts[box + 1])]
            lanes = _polynomials(samples, chosen, len(chosen), low, side, box, shape, values)
            for lane in range(lanes):
                total[lane] = 0.0
            for a in range(grid.shape[1]):
                for b in range(grid.shape[2]):
                    _add_polynomials(
                        grid[box, a, b], values[0, a], values[1, b], values[2], lanes, total
                    )
            for lane in range(len(chosen)):
                results[chosen[lane]] = total[lane]
