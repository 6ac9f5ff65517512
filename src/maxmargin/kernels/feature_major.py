"""Samples stored feature by feature, for one kernel row at a time inside compiled code.

A solver that learns from one row which row is next cannot request many rows in one
product. A row is then a sum over the non-zero features of its sample, with one pass over
contiguous numbers per feature. Where all features are 0 or one and the same number
(categories, words that occur), 64 of them are the bits of one word, and a product is the
number of bits that two samples share.
"""

# Numba leaves and LLVM intrinsics have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from maxmargin.compiled import inner, leaf, part_of
from maxmargin.kernels._elementwise import polynomial_part, rbf_inplace, sigmoid_part
from maxmargin.kernels.functions import KernelFunction

if TYPE_CHECKING:
    from maxmargin.kernels.samples import Samples
    from maxmargin.kernels.samples.sparse import SparseSamples

# Columns of a row that are computed together, so that they stay in the first-level cache.
TILE = 1024
# The largest table, in bytes.
_MAX_BYTES = 256 * 2**20
LINEAR, POLYNOMIAL, RBF, SIGMOID = 0, 1, 2, 3
KINDS = {"linear": LINEAR, "poly": POLYNOMIAL, "rbf": RBF, "sigmoid": SIGMOID}


class FeatureMajorSamples:
    """What `kernel_values` takes to compute tiles of kernel rows.

    Attributes
    ----------
    table : array of shape (n_features, n), or of uint64 and shape (n_features / 64, n) with
        one bit per feature
    norms : squared norms of the samples, in the precision of the kernel values
    parameters : product of two set bits, and those of `kernel_parameters`
    """

    def __init__(self, table: np.ndarray, norms: np.ndarray, parameters: tuple):
        self.table, self.norms, self.parameters = table, norms, parameters

    def restrict(self, index: np.ndarray) -> FeatureMajorSamples:
        table = np.take(self.table, index, axis=1)
        return FeatureMajorSamples(table, self.norms[index], self.parameters)


def feature_major(samples: Samples, function: KernelFunction) -> FeatureMajorSamples | None:
    """The samples feature by feature; None where that would take too much memory."""
    of_dtype = samples.dtype.type
    unit = _only_value(samples)
    bytes_each = 1 / 8 if unit is not None else samples.dtype.itemsize
    if samples.n * samples.n_features * bytes_each > _MAX_BYTES:
        return None
    if unit is None:
        table, unit = _densified(samples), 0.0
    else:
        table = _bits(samples)
    parameters = of_dtype(unit**2), *kernel_parameters(function, of_dtype)
    return FeatureMajorSamples(table, samples.norms, parameters)


def kernel_parameters(function: KernelFunction, of_dtype: type) -> tuple:
    """Number of a kernel function, its γ, coef0 and degree, as `to_kernel_values` takes them.

    coef0 is None where the kernel has none: what is for the others is then not compiled.
    """
    coef0 = of_dtype(function.coef0) if function.name in ("poly", "sigmoid") else None
    return KINDS[function.name], of_dtype(function.gamma), coef0, int(function.degree)


def _only_value(samples: Samples) -> float | None:
    """The only value other than 0, if the features have just one."""
    values = samples.data if samples.is_sparse else samples.X
    largest = values.max(initial=0.0)
    if samples.is_sparse:
        only = (values == largest).all()
    else:
        only = ((values == largest) | (values == 0)).all()
    return float(largest) if only and largest > 0 else None


def _densified(samples: Samples) -> np.ndarray:
    if not samples.is_sparse:
        return np.ascontiguousarray(samples.X.T)
    return samples.as_csr().toarray(order="F").T


def _bits(samples: Samples) -> np.ndarray:
    words = np.zeros((-(-samples.n_features // 64), samples.n), np.uint64)
    if samples.is_sparse:
        rows, features = _row_numbers(samples), samples.indices
    else:
        rows, features = np.nonzero(samples.X)
    bits = np.left_shift(np.uint64(1), (features % 64).astype(np.uint64))
    np.bitwise_or.at(words, (features // 64, rows), bits)
    return words


def _row_numbers(samples: SparseSamples) -> np.ndarray:
    return np.repeat(np.arange(samples.n), np.diff(samples.indptr))


@intrinsic
def _count_bits(typing_context, word):
    def generate(context, builder, signature, args):
        return builder.ctpop(args[0])

    return word(word), generate


def _products(table, sample, start, stop, unit, out):
    """out[j] = ⟨sample, sample start + j⟩, in one of two ways by the type of `table`."""


@overload(_products)
def _products_of_type(table, sample, start, stop, unit, out):
    def shared_bits(table, sample, start, stop, unit, out):
        out[:] = 0
        for w in range(len(sample)):
            own = sample[w]
            if own != 0:
                others = table[w, start:stop]
                for j in range(len(out)):
                    out[j] += _count_bits(own & others[j])
        for j in range(len(out)):
            out[j] *= unit

    def sum_over_features(table, sample, start, stop, unit, out):
        out[:] = 0
        chosen, count = np.empty(4, np.int64), 0
        for feature in range(len(sample)):
            if sample[feature] != 0:
                chosen[count] = feature
                count += 1
            if count == 4:
                # Four features per pass: the sums are read and written less often.
                a, b, c, d = chosen[0], chosen[1], chosen[2], chosen[3]
                own_a, own_b, own_c, own_d = sample[a], sample[b], sample[c], sample[d]
                of_a, of_b = table[a, start:stop], table[b, start:stop]
                of_c, of_d = table[c, start:stop], table[d, start:stop]
                for j in range(len(out)):
                    pair = own_a * of_a[j] + own_b * of_b[j]
                    out[j] += pair + (own_c * of_c[j] + own_d * of_d[j])
                count = 0
        for place in range(count):
            own, others = sample[chosen[place]], table[chosen[place], start:stop]
            for j in range(len(out)):
                out[j] += own * others[j]

    return shared_bits if isinstance(table.dtype, types.Integer) else sum_over_features


@inner()
def to_kernel_values(products, row_norms, column_norms, kind, gamma, coef0, degree):
    """Inner products become kernel values, in place; see `kernel_parameters`."""
    if kind == RBF:
        rbf_inplace(products, row_norms, column_norms, gamma)
    if coef0 is not None:  # by itself: code behind an argument of None is pruned
        if kind == POLYNOMIAL:
            polynomial_part(products, gamma, coef0, degree)
        elif kind == SIGMOID:
            sigmoid_part(products, gamma, coef0)


@leaf(fastmath={"contract"})
def kernel_values(table, norms, unit, kind, gamma, coef0, degree, sample, norm, start, out):
    """Kernel values of one sample with the samples from `start` on, until `out` is full.

    Parameters
    ----------
    table, norms, unit, kind, gamma, coef0, degree : of a `FeatureMajorSamples`
    sample, norm : the sample's own column of `table` and its squared norm, an array of one
    """
    stop = start + len(out)
    _products(table, sample, start, stop, unit, out)
    tile = out.reshape((1, len(out)))
    to_kernel_values(tile, norm, norms[start:stop], kind, gamma, coef0, degree)


kernel_values_part = part_of(kernel_values)
