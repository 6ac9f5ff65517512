"""Kernel values in tiles small enough for the processor's cache.

A tile is one matrix product, one element-wise pass and one store or sum, and the tiles of a block
are shared out over the session's threads.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs
from typing import TYPE_CHECKING, cast

import numpy as np

from maxmargin import constants
from maxmargin.kernels._rows import subtract_rows
from maxmargin.kernels.buffers import thread_scratch
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.gauss_transform import cost_of_sums, gauss_sums
from maxmargin.kernels.samples import as_samples
from maxmargin.parallel import n_threads, run_blocks, split, stream_blocks

if TYPE_CHECKING:
    from maxmargin.kernels.interface import EvaluationCounter
    from maxmargin.kernels.samples import Samples
    from maxmargin.kernels.samples.dense import DenseSamples
    from maxmargin.kernels.samples.sparse import SparseSamples

# Multiplications that take as long as the rest of the work for a value.
_MULTIPLIES_PER_PASS = 32
# From this many samples on, their sums are worth the layout that saves storing the values.
_WORTH_SUMMING = 256
# Sums that are worth a thread: a panel of float64 samples with AVX-512.
_FEWEST_SUMS = 64
# Rows of tiles of a symmetric matrix, about: enough for many threads, as there is ever less work.
_SYMMETRIC_PARTS = 32
# Part of the samples from which on float64 products are faster than differences of features.
_FEW_FAR = 1 / 16
# Samples that a tile of a symmetric matrix has fewer than others: BLAS mirrors the products of
# samples with themselves, and columns at a distance of 4,096 bytes do not fit the cache.
_OFF_POWERS_OF_TWO = 8


def samples_for(function: KernelFunction, X, dtype) -> Samples:
    """Samples of X for values of this kernel in `dtype`; in float64 if float32 is too inexact."""
    samples = as_samples(X, dtype, movable=function.translation_invariant)
    if samples.dtype == np.float32 and cancels(function, samples):
        far = np.count_nonzero(samples.norms > function.largest_norm(samples.dtype))
        if far > _FEW_FAR * samples.n:
            return samples_for(function, X, np.float64)
    return samples


def cancels(function: KernelFunction, samples: Samples, others: Samples | None = None) -> bool:
    """Whether neighbours among the samples are too far from the origin for inner products.

    Neighbours have about the same norm, so that both must have large ones.
    """
    largest = function.largest_norm(samples.dtype)
    return samples.largest_norm > largest and (others is None or others.largest_norm > largest)


def check_finite(function: KernelFunction, norms: np.ndarray) -> None:
    """Raise a ValueError of one sentence if kernel values of samples with these norms overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(norms).all() and np.isfinite(function.gamma)
        if not function.translation_invariant:
            finite = finite and np.isfinite(function.diagonal(norms)).all()
    if not finite:
        raise ValueError(
            "The dual coefficients or intercepts are not finite: kernel values of the input "
            "overflow. The input data may contain large values and need to be preprocessed."
        )


def kernel_tile(
    function: KernelFunction, left: Samples, right: Samples, columns: slice
) -> np.ndarray:
    """Kernel values of the left samples against `columns` of the right ones.

    The result lies in the calling thread's scratch memory and is gone with its next call.
    """
    scratch = thread_scratch(
        "tile", constants.TILE_ROWS * constants.TILE_COLUMNS * right.dtype.itemsize
    )
    out = scratch.array((left.n, columns.stop - columns.start), right.dtype)
    right.products(left, columns, out)
    if cancels(function, right, left):
        largest = function.largest_norm(right.dtype)
        return right.rbf_from_products(left, columns, out, float(function.gamma), largest)
    return function.from_products(out, left.norms, right.norms[columns])


def fill(function: KernelFunction, left: Samples, right: Samples, out, slots=None) -> None:
    """out[slots[i], j] = the kernel value of left sample i and right sample j."""
    shape = constants.TILE_ROWS, constants.TILE_COLUMNS
    if right.multiplies_per_value <= _MULTIPLIES_PER_PASS:
        shape = constants.STORED_TILE_ROWS, constants.STORED_TILE_COLUMNS

    def fill_tile(tile) -> None:
        (rows, part), columns = tile
        target = rows if slots is None else slots[rows]
        out[target, columns] = kernel_tile(function, part, right, columns)

    columns = split(right.n, _columns_of_tile(left.n, right, shape))
    run_blocks(fill_tile, pairs(_row_tiles(left, shape[0]), columns))


def fill_symmetric(function: KernelFunction, samples: Samples, out: np.ndarray) -> None:
    """The same of samples with each other: half of the tiles are computed, the others mirrored."""
    size = max(constants.TILE_ROWS - _OFF_POWERS_OF_TWO, _OFF_POWERS_OF_TWO)
    tiles = split(samples.n, size)

    def fill_tile(tile) -> None:
        rows, columns = tile
        values = kernel_tile(function, samples.part(rows), samples, columns)
        out[rows, columns] = values
        if rows != columns:
            out[columns, rows] = values.T

    run_blocks(fill_tile, [(a, b) for place, a in enumerate(tiles) for b in tiles[place:]])


def fill_streaming(function: KernelFunction, left: Samples, rows_of_X, n: int, out) -> None:
    """The same where the right samples are rows of X, `rows_of_X(slice)`, in the type of `left`.

    They are taken for each tile: all of them could be as large as X.
    """
    parts = _row_tiles(left)

    def fill_columns(columns: slice) -> None:
        right = left.like(rows_of_X(columns))
        for rows, part in parts:
            out[rows, columns] = kernel_tile(function, part, right, slice(0, right.n))

    size = min(constants.TILE_COLUMNS, max(constants.TILE_COLUMNS // 4, -(-n // n_threads())))
    run_blocks(fill_columns, split(n, size))


def sum_values(
    function: KernelFunction,
    left: Samples,
    coefficients,
    right: Samples,
    counter: EvaluationCounter | None = None,
) -> np.ndarray:
    """Σ_i coefficients[i] · k(left sample i, right sample j) for each j, summed in float64.

    `counter` counts the kernel values, where there are any.
    """
    sums = _gauss_sums(function, left, coefficients[:, np.newaxis], right.part, right.n)
    if sums is not None:
        return sums[:, 0]
    if counter is not None:
        counter.add(left.n * right.n)
    result = np.zeros(right.n)
    summable = _summable(function, left) if left.n >= _WORTH_SUMMING else None
    if summable is not None:

        def add(columns: slice) -> None:
            target = result[columns]
            summable.add_rbf_expansion(function.gamma, coefficients, right, columns, target)

        run_blocks(add, split(right.n, constants.TILE_COLUMNS))
        return result
    parts = _row_tiles(left)
    negative = -coefficients

    def add_tiles(columns: slice) -> None:
        target = result[columns]
        for rows, part in parts:
            tile = kernel_tile(function, part, right, columns)
            subtract_rows(target, tile, np.arange(part.n), negative[rows], 0, target.size)

    run_blocks(add_tiles, split(right.n, _columns_of_tile(left.n, right)))
    return result


def sum_linear(left: Samples, coefficients: np.ndarray, right: Samples) -> np.ndarray:
    """The same for the linear kernel, without any kernel values: the weights of the features."""
    weights, result = left.weights(coefficients), np.empty(right.n)

    def fill(columns: slice) -> None:
        result[columns] = right.times(weights, columns)

    values = right.n * right.multiplies_per_value
    parts = n_threads() if values > constants.VALUES_WORTH_THREADS else 1
    run_blocks(fill, split(right.n, max(1, -(-right.n // parts))))
    return result


def expansion(
    function: KernelFunction,
    X,
    basis: Samples,
    coefficients: np.ndarray,
    index=None,
    counter: EvaluationCounter | None = None,
) -> np.ndarray:
    """K(X[index], basis) @ coefficients, a tile at a time, in the precision of the basis.

    Rows of X are taken for each tile: X[index] as a whole could be as large as X. `counter` counts
    the kernel values, where there are any.
    """
    n = X.shape[0] if index is None else len(index)

    def samples_at(rows: slice) -> Samples:
        return basis.like(X[rows] if index is None else X[index[rows]])

    sums = _gauss_sums(function, basis, coefficients, samples_at, n)
    if sums is not None:
        return sums
    if counter is not None:
        counter.add(basis.n * n)
    result = np.zeros((n, coefficients.shape[1]))
    coefficients = coefficients.astype(basis.dtype, copy=False)
    summable = _summable(function, basis) if coefficients.shape[1] == 1 else None

    def evaluate(rows: slice) -> None:
        left = samples_at(rows)
        if summable is not None:
            every, target = slice(0, left.n), result[rows, 0]
            summable.add_rbf_expansion(function.gamma, coefficients[:, 0], left, every, target)
            return
        for columns in split(basis.n, constants.TILE_COLUMNS):
            result[rows] += kernel_tile(function, left, basis, columns) @ coefficients[columns]

    # Sums have the same bits in blocks of any size; of few rows each thread has a part.
    each = constants.TILE_ROWS
    if summable is not None:
        each = min(each, max(_FEWEST_SUMS, -(-n // n_threads())))
    run_blocks(evaluate, split(n, each))
    return result


def symmetric_expansion(
    function: KernelFunction,
    samples: Samples,
    coefficients: np.ndarray,
    counter: EvaluationCounter | None = None,
) -> np.ndarray:
    """K @ coefficients of one vector for the matrix K of samples with each other.

    A value off the diagonal is computed once, and counts for both of its samples. Each row of
    tiles has sums of its own, which are added in order: the bits do not depend on threads.
    """
    n = samples.n
    sums = _gauss_sums(function, samples, coefficients[:, np.newaxis], samples.part, n)
    if sums is not None:
        return sums[:, 0]
    summable = _summable(function, samples)

    def evaluate(rows: slice) -> np.ndarray:
        own = np.zeros(n - rows.start)
        if summable is not None:
            summable.add_symmetric_rbf_expansion(function.gamma, coefficients, rows, own)
            return own
        left, size = samples.part(rows), constants.TILE_COLUMNS
        after = [slice(rows.stop + p.start, rows.stop + p.stop) for p in split(n - rows.stop, size)]
        for columns in [rows, *after]:
            tile = kernel_tile(function, left, samples, columns)
            own[: left.n] += tile @ coefficients[columns]
            if columns is not rows:
                own[columns.start - rows.start : columns.stop - rows.start] += (
                    coefficients[rows] @ tile
                )
        return own

    size = _FEWEST_SUMS * -(-n // (_SYMMETRIC_PARTS * _FEWEST_SUMS))
    parts = split(n, min(size, constants.TILE_ROWS))
    result = np.zeros(n)
    for rows, own in zip(parts, stream_blocks(evaluate, parts), strict=True):
        result[rows.start :] += own
    if counter is not None:
        counter.add(sum((rows.stop - rows.start) * (n - rows.start) for rows in parts))
    return result


def _gauss_sums(
    function: KernelFunction, basis: Samples, coefficients, samples_at: Callable, n: int
) -> np.ndarray | None:
    """The same without kernel values, for Gaussians of few features where that is faster."""
    if function.name != "rbf" or basis.is_sparse:
        return None
    if cost_of_sums(basis.n_features, basis.n, n, coefficients.shape[1]) == np.inf:
        return None
    sources = cast("DenseSamples", basis).X
    return gauss_sums(function.gamma, sources, coefficients, lambda rows: samples_at(rows).X, n)


def _summable(function: KernelFunction, samples: Samples) -> SparseSamples | None:
    """The samples if sums of their kernel values are made without storing the values."""
    if function.name != "rbf" or not samples.is_sparse or cancels(function, samples):
        return None
    return cast("SparseSamples", samples)


def _row_tiles(samples: Samples, size: int | None = None) -> list[tuple[slice, Samples]]:
    """The samples, as many at a time as a tile has rows."""
    size = size or constants.TILE_ROWS
    if samples.n <= size:
        return [(slice(0, samples.n), samples)]
    return [(rows, samples.part(rows)) for rows in split(samples.n, size)]


def _columns_of_tile(n_rows: int, right: Samples, shape: tuple[int, int] | None = None) -> int:
    """Columns of a tile: wider where the rows are few, but at least one tile per thread.

    `shape` are the most rows and columns of a tile where the rows are many.
    """
    most_rows, most_columns = shape or (constants.TILE_ROWS, constants.TILE_COLUMNS)
    work = n_rows * right.n * (1 + right.multiplies_per_value / _MULTIPLIES_PER_PASS)
    if work * right.dtype.itemsize < constants.VALUES_WORTH_THREADS * 4:
        return max(1, right.n)
    wide = most_columns * max(1, most_rows // max(1, n_rows))
    return max(constants.TILE_COLUMNS // 4, min(wide, -(-right.n // n_threads())))
