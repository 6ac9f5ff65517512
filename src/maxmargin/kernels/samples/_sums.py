"""Sums of RBF values over sparse rows, from products to sums in vector registers.

A panel of samples (see `_products`) meets one sparse row after the other. Its products with the
row become kernel values where they are, in registers, and these are added to the sums with their
coefficient: no product and no value is written to memory. That takes half of the time of passes
over a tile in the first-level cache.

exp(−γ‖a − b‖²) is 2^t with t = 2γ log₂e (⟨a, b⟩ − ½‖a‖² − ½‖b‖²), and 2^t = 2^k · (1 + r q(r)) with
the nearest whole number k and |r| ≤ ½, where q interpolates at Chebyshev's nodes, to 0.2 units in
the last place. The whole error of the exponential is below 2 units in both precisions.
"""

# LLVM intrinsics have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

from functools import cache

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from maxmargin.compiled import leaf
from maxmargin.kernels.samples._products import (
    VECTOR_BYTES,
    add_products,
    clear_panel,
    everywhere,
    fill_panel,
    store_vector,
    vector_at,
)

# Samples that a panel meets before their sums go on in float64.
_SAMPLES_AT_ONCE = 16
# 2γ log₂e is this times γ.
_TWICE_LOG2_E = 2.8853900817779268
# Adding and subtracting 1.5·2^(mantissa bits) rounds to the nearest whole number, and leaves that
# number in the low bits of the sum, from where it is shifted into the exponent of the result.
_MAGIC = {32: 12582912.0, 64: 6755399441055744.0}
_MANTISSA_BITS = {32: 23, 64: 52}
# Below this t the result could be subnormal: it is taken for this t, as it has no weight.
_SMALLEST = {4: -125.0, 8: -1021.0}
_COEFFICIENTS_32 = (
    0.6931471880262288, 0.24022650760568126, 0.05550357114219078, 0.009618082557277852,
    0.0013390863364671234, 0.0001545316294512069,
)  # fmt: skip
_COEFFICIENTS_64 = (
    0.6931471805599453, 0.24022650695910097, 0.0555041086648216, 0.009618129107606888,
    0.0013333558146416936, 0.0001540353044173605, 1.525273382983612e-05, 1.321544258792169e-06,
    1.0178062445845774e-07, 7.072585949269223e-09, 4.4549605981865186e-10,
)  # fmt: skip
_COEFFICIENTS = {32: _COEFFICIENTS_32, 64: _COEFFICIENTS_64}


@cache
def panel_width(dtype) -> int:
    """Number of samples in one panel: as many as have their sums in registers.

    Samples side by side have nothing to do with each other: their number changes no bit. Compiled
    code has it as a constant, so it follows from the features that Numba compiles for, by which
    Numba's cache tells code for one processor from code for another.
    """
    features = cpu_target.target_context.codegen().magic_tuple()[2]
    registers_of_64_bytes = "+avx512f" in features
    return (8 if registers_of_64_bytes else 4) * VECTOR_BYTES // np.dtype(dtype).itemsize


def exponent_scale(gamma: float, dtype) -> tuple:
    """2γ log₂e, and the least ⟨a, b⟩ − ½‖a‖² − ½‖b‖² whose kernel value is not subnormal."""
    dtype = np.dtype(dtype)
    scale = _TWICE_LOG2_E * gamma
    least = _SMALLEST[dtype.itemsize] / scale if scale > 0.0 else -np.inf
    return dtype.type(scale), dtype.type(max(least, float(np.finfo(dtype).min)))


def _multiply_add(builder, vector):
    """a · b + c of vectors, rounded once where the processor can."""
    kind = f"v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    of_three = ir.FunctionType(vector, [vector] * 3)
    return cgutils.get_or_insert_function(builder.module, of_three, f"llvm.fmuladd.{kind}")


def _power_of_two(builder, x, scale, vector, bits: int):
    """2^(x · scale) of a vector."""
    multiply_add = _multiply_add(builder, vector)
    lanes = vector.count
    integers = ir.VectorType(ir.IntType(bits), lanes)

    def all_of(value):
        return ir.Constant(vector, [ir.Constant(vector.element, value)] * lanes)

    shifted = builder.call(multiply_add, [x, scale, all_of(_MAGIC[bits])])
    # Not a multiplication and a difference: the product is not to be rounded.
    whole = builder.fsub(shifted, all_of(_MAGIC[bits]))
    rest = builder.call(multiply_add, [x, scale, builder.fneg(whole)])
    highest, *others = reversed(_COEFFICIENTS[bits])
    power = all_of(highest)
    for coefficient in (*others, 1.0):
        power = builder.call(multiply_add, [power, rest, all_of(coefficient)])
    shift = ir.Constant(integers, [ir.Constant(integers.element, _MANTISSA_BITS[bits])] * lanes)
    exponent = builder.shl(builder.bitcast(shifted, integers), shift)
    return builder.bitcast(builder.add(builder.bitcast(power, integers), exponent), vector)


def _sum_of(builder, values, vector, bits: int):
    """The sum of the numbers of a vector, halves first."""
    element = vector.element
    of_vector = ir.FunctionType(element, [element, vector])
    name = f"llvm.vector.reduce.fadd.v{vector.count}f{bits}"
    add_up = cgutils.get_or_insert_function(builder.module, of_vector, name)
    return builder.call(add_up, [ir.Constant(element, -0.0), values], fastmath=("reassoc",))


@intrinsic
def _add_row_of_values(
    typing_context, data, indices, start, stop, places, panel, halves, half, scale, least,
    coefficient, sums, weights,
):  # fmt: skip
    """sums[l] += coefficient · k(sparse row, panel sample l), as data[start:stop] is the row.

    `half` and `halves` are −½ times the squared norms of the row and of the panel. Returns
    Σ weights[l] · k(sparse row, panel sample l), or zero where there are no weights.
    """

    def generate(context, builder, signature, args):
        arrays = [
            context.make_array(signature.args[at])(context, builder, args[at])
            for at in (0, 1, 4, 5, 6, 11, 12)
        ]
        values, columns, _, panel_data, halves_data, sums_data, _ = (a.data for a in arrays)
        element, bits = context.get_data_type(data.dtype), data.dtype.bitwidth
        lanes = panel_width(str(data.dtype))
        vector = ir.VectorType(element, lanes)
        zero, origin, size = ir.Constant(vector, None), ir.Constant(ir.IntType(64), 0), bits // 8
        half_norm, scale, lowest, factor = (
            everywhere(builder, args[at], vector) for at in (7, 8, 9, 10)
        )
        halves_there = vector_at(builder, halves_data, origin, vector, size)
        total = cgutils.alloca_once_value(builder, builder.fadd(halves_there, half_norm))
        add_products(
            builder, values, columns, arrays[2], args[2], args[3], panel_data, total, vector, size
        )  # fmt: skip
        x = builder.load(total)
        # The constant comes first, so that what is no number stays none.
        x = builder.select(builder.fcmp_ordered("<", zero, x), zero, x)
        x = builder.select(builder.fcmp_ordered(">", lowest, x), lowest, x)
        power = _power_of_two(builder, x, scale, vector, bits)
        multiply_add = _multiply_add(builder, vector)
        before = vector_at(builder, sums_data, origin, vector, size)
        after = builder.call(multiply_add, [power, factor, before])
        store_vector(builder, after, sums_data, origin, vector, size)
        weights_there = arrays[6]
        found = cgutils.alloca_once_value(builder, ir.Constant(element, 0.0))
        nothing = ir.Constant(weights_there.nitems.type, 0)
        with builder.if_then(builder.icmp_signed("!=", weights_there.nitems, nothing)):
            weight = vector_at(builder, weights_there.data, origin, vector, size)
            builder.store(_sum_of(builder, builder.fmul(power, weight), vector, bits), found)
        return builder.load(found)

    index, number = types.int64, data.dtype
    return number(
        data, indices, index, index, places, panel, halves, number, number, number, number, sums,
        weights,
    ), generate  # fmt: skip


@leaf()
def add_rbf_expansion(
    data, indices, indptr, norms, coefficients, scale, least,
    target_data, target_indices, target_indptr, target_norms, start, stop, places, panel, out,
):  # fmt: skip
    """out[t − start] += Σ_j coefficients[j] · k(target t, sample j) for start ≤ t < stop.

    A panel of targets meets one sample after the other. Sums over a few samples have the
    precision of the values, sums of those are in float64.

    Parameters
    ----------
    scale, least : of `exponent_scale`
    places, panel : scratch arrays of zeros as those of `_products.sparse_block`
    """
    n, lanes = indptr.size - 1, panel.shape[1]
    minus_half = panel.dtype.type(-0.5)
    halves = np.zeros(lanes, panel.dtype)
    few, no_weights = np.empty(lanes, panel.dtype), np.empty(0, panel.dtype)
    total = np.empty(lanes)
    for first in range(start, stop, lanes):
        count = min(lanes, stop - first)
        fill_panel(target_data, target_indices, target_indptr, first, count, places, panel)
        for lane in range(count):
            halves[lane] = minus_half * target_norms[first + lane]
        total[:] = 0
        for begin in range(0, n, _SAMPLES_AT_ONCE):
            few[:] = 0
            for j in range(begin, min(begin + _SAMPLES_AT_ONCE, n)):
                _add_row_of_values(
                    data, indices, indptr[j], indptr[j + 1], places, panel, halves,
                    minus_half * norms[j], scale, least, coefficients[j], few, no_weights,
                )  # fmt: skip
            for lane in range(lanes):
                total[lane] += few[lane]
        clear_panel(target_indices, target_indptr, first, count, places, panel)
        for lane in range(count):
            out[first - start + lane] += total[lane]


@leaf()
def add_symmetric_rbf_expansion(
    data, indices, indptr, norms, coefficients, scale, least, start, stop, places, panel, out
):  # fmt: skip
    """The part of Σ_j coefficients[j] · k(sample t, sample j) of a tile row of a symmetric matrix.

    That is the values of the samples from `start` to `stop` with themselves and with all that
    follow, each of which counts for both of its samples: out[t − start] has the sums for t ≥ start.
    The arguments are those of `add_rbf_expansion`.
    """
    n, lanes = indptr.size - 1, panel.shape[1]
    minus_half = panel.dtype.type(-0.5)
    halves, weights = np.zeros(lanes, panel.dtype), np.zeros(lanes, panel.dtype)
    few, no_weights = np.empty(lanes, panel.dtype), np.empty(0, panel.dtype)
    total = np.empty(lanes)
    for first in range(start, stop, lanes):
        count = min(lanes, stop - first)
        fill_panel(data, indices, indptr, first, count, places, panel)
        weights[:] = 0
        for lane in range(count):
            halves[lane] = minus_half * norms[first + lane]
            weights[lane] = coefficients[first + lane]
        total[:] = 0
        for begin in range(first, n, _SAMPLES_AT_ONCE):
            few[:] = 0
            for j in range(begin, min(begin + _SAMPLES_AT_ONCE, n)):
                out[j - start] += _add_row_of_values(
                    data, indices, indptr[j], indptr[j + 1], places, panel, halves,
                    minus_half * norms[j], scale, least, coefficients[j], few,
                    no_weights if j < first + count else weights,
                )  # fmt: skip
            for lane in range(lanes):
                total[lane] += few[lane]
        clear_panel(indices, indptr, first, count, places, panel)
        for lane in range(count):
            out[first - start + lane] += total[lane]
