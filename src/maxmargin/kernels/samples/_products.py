"""Inner products of sparse rows with a panel of dense ones, in vector registers.

A panel of `lanes` samples is laid out feature by feature, so that one non-zero
of a sparse row meets all the samples of the panel in a fused multiply-add. The
loop costs time in proportion to the non-zeros only, and reads a panel that
stays in the first-level cache. On data such as one-hot categories it is several
times faster than a dense matrix product. Written with two small LLVM
intrinsics, since no loop in Python's syntax keeps its sums in registers.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from maxmargin.compiled import leaf

# A panel row holds two 64-byte vectors: two independent sums hide the latency of the additions.
# More need fewer instructions per value, but waste more where a panel is not full.
VECTOR_BYTES = 64
_VECTORS_PER_PANEL_ROW = 2
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)


def panel_width(dtype) -> int:
    """Number of samples in one panel for values of this type."""
    return _VECTORS_PER_PANEL_ROW * VECTOR_BYTES // np.dtype(dtype).itemsize


def vector_at(builder, data, offset, vector, element_bytes):
    """The numbers from data[offset] on."""
    pointer = builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())
    loaded = builder.load(pointer)
    loaded.align = element_bytes
    return loaded


def store_vector(builder, value, data, offset, vector, element_bytes):
    """Put them there."""
    pointer = builder.bitcast(builder.gep(data, [offset]), vector.as_pointer())
    builder.store(value, pointer).align = element_bytes


def add_products(builder, values, columns, places, start, stop, panel, total, vector, size):
    """*total += Σ_k values[k] · panel[place of columns[k], :] for start ≤ k < stop.

    `places` is an array of a place for each column, or one of no places where each has its own.
    `total` holds one vector, which is as long as a row of the panel; its numbers have `size` bytes.
    """

    def add(place_of):
        with cgutils.for_range_slice(builder, start, stop, ir.Constant(_INT64, 1)) as (k, _):
            column = builder.zext(builder.load(builder.gep(columns, [k])), _INT64)
            offset = builder.mul(place_of(column), ir.Constant(_INT64, vector.count))
            row = vector_at(builder, panel, offset, vector, size)
            value = everywhere(builder, builder.load(builder.gep(values, [k])), vector)
            product = builder.fmul(value, row, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

    def found(column):
        return builder.zext(builder.load(builder.gep(places.data, [column])), _INT64)

    has_places = builder.icmp_signed("!=", places.nitems, ir.Constant(places.nitems.type, 0))
    with builder.if_else(has_places) as (then, otherwise):
        with then:
            add(found)
        with otherwise:
            add(lambda column: column)


def everywhere(builder, value, vector):
    """A vector of equal numbers."""
    undefined = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(undefined, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(
        single, undefined, ir.Constant(ir.VectorType(_INT32, vector.count), None)
    )


@intrinsic
def _sparse_row_times_panel(
    typing_context, data, indices, start, stop, places, panel, tile, tile_row
):
    """tile[tile_row, :] = Σ_k data[k] · panel[place of indices[k], :] for start ≤ k < stop."""

    def generate(context, builder, signature, args):
        arrays = [
            context.make_array(signature.args[at])(context, builder, args[at])
            for at in (0, 1, 4, 5, 6)
        ]
        values, columns, _, panel_data, tile_data = (array.data for array in arrays)
        size = data.dtype.bitwidth // 8
        lanes = _VECTORS_PER_PANEL_ROW * VECTOR_BYTES // size
        vector = ir.VectorType(context.get_data_type(data.dtype), lanes)
        total = cgutils.alloca_once_value(builder, ir.Constant(vector, None))
        add_products(
            builder, values, columns, arrays[2], args[2], args[3], panel_data, total, vector, size
        )  # fmt: skip
        offset = builder.mul(args[7], ir.Constant(_INT64, lanes))
        store_vector(builder, builder.load(total), tile_data, offset, vector, size)
        return context.get_dummy_value()

    index = types.int64
    return types.void(data, indices, index, index, places, panel, tile, index), generate


@intrinsic
def _store_transposed(typing_context, tile, out, first_row, first_column):
    """out[first_row + l, first_column + r] = tile[r, l] for a whole tile.

    A transposition is log₂ N rounds of interleaving vector i with vector i + N/2.
    """

    def generate(context, builder, signature, args):
        tile_data = context.make_array(signature.args[0])(context, builder, args[0]).data
        target = context.make_array(signature.args[1])(context, builder, args[1])
        stride = builder.extract_value(target.shape, 1)
        element = context.get_data_type(tile.dtype)
        element_bytes = tile.dtype.bitwidth // 8
        size = VECTOR_BYTES // element_bytes
        vector = ir.VectorType(element, size)
        mask_type = ir.VectorType(_INT32, size)

        def interleave(a, b, first):
            order = [first + k // 2 + (k % 2) * size for k in range(size)]
            mask = ir.Constant(mask_type, [ir.Constant(_INT32, k) for k in order])
            return builder.shuffle_vector(a, b, mask)

        lanes = _VECTORS_PER_PANEL_ROW * size
        for part in range(_VECTORS_PER_PANEL_ROW):
            rows = [
                vector_at(
                    builder,
                    tile_data,
                    ir.Constant(_INT64, r * lanes + part * size),
                    vector,
                    element_bytes,
                )
                for r in range(size)
            ]
            for _ in range(size.bit_length() - 1):
                rows = [
                    interleave(rows[k // 2], rows[k // 2 + size // 2], (k % 2) * (size // 2))
                    for k in range(size)
                ]
            for lane, row in enumerate(rows):
                line = builder.add(args[2], ir.Constant(_INT64, part * size + lane))
                offset = builder.add(builder.mul(line, stride), args[3])
                store_vector(builder, row, target.data, offset, vector, element_bytes)
        return context.get_dummy_value()

    return types.void(tile, out, types.int64, types.int64), generate


@leaf()
def sparse_products(data, indices, indptr, start, stop, places, panel, first_row, n_rows, out):
    """out[first_row + l, j − start] = ⟨sample j, panel sample l⟩ for the rows start ≤ j < stop.

    Parameters
    ----------
    data, indices, indptr : the CSR matrix of the samples j
    panel : C-contiguous array of shape (n_features, panel_width)
        The samples l, feature by feature; lanes beyond `n_rows` are padding.
    out : C-contiguous array of shape (≥ first_row + n_rows, stop − start)
    """
    lanes = panel.shape[1]
    size = lanes // 2
    tile = np.empty((size, lanes), panel.dtype)
    j = start
    while j < stop:
        count = min(size, stop - j)
        for r in range(count):
            _sparse_row_times_panel(
                data, indices, indptr[j + r], indptr[j + r + 1], places, panel, tile, r
            )
        if count == size and n_rows == lanes:
            _store_transposed(tile, out, first_row, j - start)
        else:
            for lane in range(n_rows):
                for r in range(count):
                    out[first_row + lane, j - start + r] = tile[r, lane]
        j += count


@leaf()
def fill_panel(data, indices, indptr, first, count, places, panel):
    """Add `count` sparse rows from row `first` on to a panel of zeros, feature by feature.

    Where there are places, only features of these rows get one, from 1 on in the order in which
    they occur. All others stay at place 0, whose zeros are in the first-level cache.
    """
    last = 0
    for lane in range(count):
        for k in range(indptr[first + lane], indptr[first + lane + 1]):
            place = indices[k]
            if places.size > 0:
                if places[indices[k]] == 0:
                    last += 1
                    places[indices[k]] = last
                place = places[indices[k]]
            panel[place, lane] += data[k]


@leaf()
def clear_panel(indices, indptr, first, count, places, panel):
    """Undo `fill_panel`, touching only what it wrote."""
    for lane in range(count):
        for k in range(indptr[first + lane], indptr[first + lane + 1]):
            panel[places[indices[k]] if places.size > 0 else indices[k], lane] = 0
    if places.size > 0:
        for k in range(indptr[first], indptr[first + count]):
            places[indices[k]] = 0


@leaf()
def most_entries(indptr, start, stop, lanes):
    """Entries of the largest panel of so many rows each."""
    most = 0
    for first in range(start, stop, lanes):
        most = max(most, indptr[min(first + lanes, stop)] - indptr[first])
    return most


@leaf()
def sparse_block(
    left_data, left_indices, left_indptr, data, indices, indptr, start, stop, places, panel, out
):  # fmt: skip
    """out[i, j − start] = ⟨left sample i, sample j⟩ for start ≤ j < stop, a panel at a time.

    `places` and `panel` are scratch arrays of zeros, left as they were: a place for each feature,
    or none; and rows of panel_width numbers, one for each place.
    """
    n_left = left_indptr.size - 1
    lanes = panel.shape[1]
    first = 0
    while first < n_left:
        count = min(lanes, n_left - first)
        fill_panel(left_data, left_indices, left_indptr, first, count, places, panel)
        sparse_products(data, indices, indptr, start, stop, places, panel, first, count, out)
        clear_panel(left_indices, left_indptr, first, count, places, panel)
        first += count


@leaf()
def ends_of_rows(indptr, rows):
    """The indptr of the rows `rows` of a CSR matrix, in that order."""
    new_indptr = np.zeros(rows.size + 1, indptr.dtype)
    for i in range(rows.size):
        new_indptr[i + 1] = new_indptr[i] + indptr[rows[i] + 1] - indptr[rows[i]]
    return new_indptr


@leaf()
def take_rows(data, indices, indptr, rows, first, new_indptr, new_data, new_indices):
    """Put entries of the rows `rows`, the new ones from row `first` on, where `new_indptr` says."""
    at = new_indptr[first]
    for i in range(rows.size):
        for k in range(indptr[rows[i]], indptr[rows[i] + 1]):
            new_data[at] = data[k]
            new_indices[at] = indices[k]
            at += 1


@leaf()
def squared_norms(data, indptr):
    """Squared norms of the rows of a CSR matrix, summed in float64."""
    norms = np.empty(indptr.size - 1)
    for i in range(norms.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * np.float64(data[k])
        norms[i] = total
    return norms


@leaf()
def add_sparse_rows(data, indices, indptr, coefficients, out):
    """out += Σ coefficients[i] · row i of a CSR matrix."""
    for i in range(indptr.size - 1):
        for k in range(indptr[i], indptr[i + 1]):
            out[indices[k]] += coefficients[i] * np.float64(data[k])


@leaf()
def sparse_times(data, indices, indptr, weights, start, stop):
    """⟨row i, weights⟩ for rows of a CSR matrix, summed in float64."""
    out = np.empty(stop - start)
    for i in range(start, stop):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[k]) * weights[indices[k]]
        out[i - start] = total
    return out


@leaf()
def count_nonzeros(X, origin, counts):
    """counts[i] = number of features in which row i differs from the origin."""
    for i in range(X.shape[0]):
        count = 0
        for j in range(X.shape[1]):
            count += X[i, j] != origin[j]
        counts[i] = count


@leaf()
def take_nonzeros(X, origin, data, indices):
    """The non-zeros of X less the origin row by row, and their columns; as many as `data` takes.

    Every number is written, and the next one over it if it is zero: which are is hard to predict.
    """
    at, n_taken = np.uint64(0), np.uint64(data.size)
    for i in range(X.shape[0]):
        row = X[i]
        for j in range(row.size):
            if at == n_taken:
                break
            value, middle = row[j], origin[j]
            data[at] = np.float64(value) - np.float64(middle)
            indices[at] = j
            at += np.uint64(value != middle)
