"""Compiled element-wise passes that turn inner products into kernel values.

The exponential is written out because the compiler then vectorises the whole pass,
which a call to the C library's `exp` prevents: exp(x) = 2^k · (1 + r + r² q(r)) with
|r| ≤ ln 2 / 2, where q interpolates at Chebyshev's nodes, to 0.2 units in the last
place. The whole error is below 2 units in both precisions.
"""

from __future__ import annotations

import numpy as np
from numba import types
from numba.extending import overload

from maxmargin.compiled import leaf, part_of

# log₂ e, and ln 2 in two parts: k times the first is exact, so that x − k·ln 2 loses no digits.
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.693145751953125
_LN2_LOW = 1.42860682030941723212e-6
# Adding and subtracting 1.5·2^(mantissa bits) rounds to the nearest whole number, and leaves that
# number in the low bits of the sum, from where it is shifted into the exponent of the result.
_MAGIC_32 = 12582912.0
_MAGIC_64 = 6755399441055744.0
# Below this the result would be subnormal: flush it to zero, as the kernel value has no weight.
_SMALLEST_32 = -87.0
_SMALLEST_64 = -708.0


@leaf(fastmath={"contract", "nsz", "arcp"})
def _rbf32(products, row_norms, column_norms, gamma):
    one = np.float32(1.0)
    magic = np.float32(_MAGIC_32)
    two = np.float32(2.0)
    log2_e = np.float32(_LOG2_E)
    ln2_high = np.float32(_LN2_HIGH)
    ln2_low = np.float32(_LN2_LOW)
    smallest = np.float32(_SMALLEST_32)
    c2 = np.float32(0.5)
    c3 = np.float32(1.6666576666119928e-1)
    c4 = np.float32(4.166655421298415e-2)
    c5 = np.float32(8.363232883682618e-3)
    c6 = np.float32(1.3926250831497611e-3)
    n_rows, n_columns = products.shape
    for i in range(n_rows):
        row = products[i]
        a = row_norms[i]
        for j in range(n_columns):
            x = gamma * (two * row[j] - a - column_norms[j])
            x = min(x, np.float32(0.0))
            kept = x > smallest
            x = max(x, smallest)
            shifted = x * log2_e + magic
            k = shifted - magic
            r = x - k * ln2_high - k * ln2_low
            p = c6
            p = p * r + c5
            p = p * r + c4
            p = p * r + c3
            p = p * r + c2
            p = p * r * r + r + one
            bits = np.int32(np.float32(shifted).view(np.int32) + np.int32(127))
            scale = np.int32(bits << np.int32(23)).view(np.float32)
            row[j] = p * scale if kept else np.float32(0.0)


@leaf(fastmath={"contract", "nsz", "arcp"})
def _rbf64(products, row_norms, column_norms, gamma):
    n_rows, n_columns = products.shape
    for i in range(n_rows):
        row = products[i]
        a = row_norms[i]
        for j in range(n_columns):
            x = gamma * (2.0 * row[j] - a - column_norms[j])
            x = min(x, 0.0)
            kept = x > _SMALLEST_64
            x = max(x, _SMALLEST_64)
            shifted = x * _LOG2_E + _MAGIC_64
            k = shifted - _MAGIC_64
            r = x - k * _LN2_HIGH - k * _LN2_LOW
            p = 2.5100472505694996e-08
            p = p * r + 2.7620201591031547e-07
            p = p * r + 2.7557268276905696e-06
            p = p * r + 2.4801521057868204e-05
            p = p * r + 1.9841269863171557e-04
            p = p * r + 1.3888888917367081e-03
            p = p * r + 8.333333333330039e-03
            p = p * r + 4.1666666666623824e-02
            p = p * r + 0.16666666666666669
            p = p * r + 0.5
            p = p * r * r + r + 1.0
            bits = np.float64(shifted).view(np.int64) + np.int64(1023)
            scale = np.int64(bits << np.int64(52)).view(np.float64)
            row[j] = p * scale if kept else 0.0


_rbf32_part, _rbf64_part = part_of(_rbf32), part_of(_rbf64)


def rbf_inplace(products, row_norms, column_norms, gamma):
    """exp(−γ(‖a‖² + ‖b‖² − 2⟨a, b⟩)), never above 1 in spite of rounding."""
    pass_over = _rbf32 if products.dtype == np.float32 else _rbf64
    pass_over(products, row_norms, column_norms, gamma)


@overload(rbf_inplace)
def _rbf_in_compiled_code(products, row_norms, column_norms, gamma):
    pass_over = _rbf32_part if products.dtype == types.float32 else _rbf64_part

    def call(products, row_norms, column_norms, gamma):
        pass_over(products, row_norms, column_norms, gamma)

    return call


@leaf(error_model="numpy")
def polynomial_inplace(products, gamma, coef0, degree):
    """(γ⟨a, b⟩ + coef0)^degree for a whole degree, by repeated squaring."""
    one = products.dtype.type(1)
    n_rows, n_columns = products.shape
    for i in range(n_rows):
        row = products[i]
        for j in range(n_columns):
            row[j] = gamma * row[j] + coef0
        if degree == 3:
            for j in range(n_columns):
                row[j] = row[j] * row[j] * row[j]
        elif degree == 2:
            for j in range(n_columns):
                row[j] = row[j] * row[j]
        elif degree != 1:
            for j in range(n_columns):
                base = row[j]
                result = one
                exponent = degree
                while exponent > 0:
                    if exponent & 1:
                        result = result * base
                    base = base * base
                    exponent >>= 1
                row[j] = result


@leaf(error_model="numpy")
def sigmoid_inplace(products, gamma, coef0):
    """tanh(γ⟨a, b⟩ + coef0), written out for the sake of vectors like the exponential.

    tanh z = ±(1 − u) / (1 + u) with u = exp(−2|z|). Where |z| < ½ that would lose digits; there
    Lambert's continued fraction, broken off at 13, is exact to half a unit in the last place.
    """
    kind = products.dtype.type
    one, quarter, half = kind(1.0), kind(0.25), kind(0.5)
    n_rows, n_columns = products.shape
    powers, zeros = np.empty((1, n_columns), products.dtype), np.zeros(n_columns, products.dtype)
    for i in range(n_rows):
        row = products[i]
        for j in range(n_columns):
            row[j] = kind(gamma * row[j] + coef0)
            powers[0, j] = -kind(2.0) * abs(row[j])
        rbf_inplace(powers, zeros, zeros, half)
        for j in range(n_columns):
            z, u = row[j], powers[0, j]
            s = z * z
            top = ((s + kind(378.0)) * s + kind(17325.0)) * s + kind(135135.0)
            below = ((kind(28.0) * s + kind(3150.0)) * s + kind(62370.0)) * s + kind(135135.0)
            far = (one - u) / (one + u)
            far = far if z > 0 else -far if z < 0 else z
            row[j] = z * top / below if s < quarter else far


polynomial_part, sigmoid_part = part_of(polynomial_inplace), part_of(sigmoid_inplace)
