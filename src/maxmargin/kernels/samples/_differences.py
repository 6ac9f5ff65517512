"""RBF values of neighbours far from the origin, from the differences of their features.

‖a‖² + ‖b‖² − 2⟨a, b⟩ carries the rounding of the norms, which γ turns into an error of the
exponent. Where that is no longer small, the exponents of neighbours are computed again as
−γ Σ (a_k − b_k)²: exactly zero for equal samples. All other values are zero to rounding anyway.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.compiled import leaf
from maxmargin.kernels._elementwise import rbf_inplace

# Beyond this exponent a kernel value is less than the rounding of one.
_NEGLIGIBLE = 40.0


@leaf()
def _find_neighbours(products, norm, column_norms, gamma, largest, terms, columns):
    """Write the columns whose exponent may be above −_NEGLIGIBLE, and return their number.

    Parameters
    ----------
    largest : squared norm up to which the products are exact enough; neighbours of a sample
        within it are not sought
    terms : of the sums that norms and products are
    """
    count = 0
    if norm <= largest:
        return count
    # Bound on the error of ‖a‖² + ‖b‖² − 2⟨a, b⟩ relative to ‖a‖² + ‖b‖².
    rounding = 2.0 * (terms + 4) * np.finfo(products.dtype).eps
    for j in range(products.size):
        norms = np.float64(norm) + np.float64(column_norms[j])
        squared_distance = norms - 2.0 * np.float64(products[j])
        if gamma * (squared_distance - rounding * norms) < _NEGLIGIBLE:
            columns[count] = j
            count += 1
    return count


@leaf()
def dense_rbf(products, row_norms, column_norms, gamma, largest, left, right):
    """RBF values of the rows of `left` and `right` in place of their inner products."""
    terms = left.shape[1]
    columns = np.empty(products.shape[1], np.int64)
    for i in range(products.shape[0]):
        row = products[i]
        count = _find_neighbours(row, row_norms[i], column_norms, gamma, largest, terms, columns)
        rbf_inplace(products[i : i + 1], row_norms[i : i + 1], column_norms, row.dtype.type(gamma))
        for j in columns[:count]:
            total = 0.0
            for k in range(left.shape[1]):
                difference = np.float64(left[i, k]) - np.float64(right[j, k])
                total += difference * difference
            row[j] = math.exp(-gamma * total)


@leaf()
def sparse_rbf(
    products, row_norms, column_norms, gamma, largest, terms, left, right, start
):  # fmt: skip
    """The same for rows of CSR matrices (data, sorted indices, indptr), right ones from `start`."""
    left_data, left_indices, left_indptr = left
    data, indices, indptr = right
    columns = np.empty(products.shape[1], np.int64)
    for i in range(products.shape[0]):
        row = products[i]
        count = _find_neighbours(row, row_norms[i], column_norms, gamma, largest, terms, columns)
        rbf_inplace(products[i : i + 1], row_norms[i : i + 1], column_norms, row.dtype.type(gamma))
        first, end = left_indptr[i], left_indptr[i + 1]
        own_data, own_indices = left_data[first:end], left_indices[first:end]
        for j in columns[:count]:
            first, end = indptr[start + j], indptr[start + j + 1]
            total = _squared_distance(own_data, own_indices, data[first:end], indices[first:end])
            row[j] = math.exp(-gamma * total)


@leaf()
def _squared_distance(a, a_indices, b, b_indices):
    """Σ (a_k − b_k)² of two sparse rows, feature after feature."""
    total = 0.0
    s = t = 0
    while s < a.size or t < b.size:
        if t == b.size or (s < a.size and a_indices[s] < b_indices[t]):
            difference = np.float64(a[s])
            s += 1
        elif s == a.size or b_indices[t] < a_indices[s]:
            difference = np.float64(b[t])
            t += 1
        else:
            difference = np.float64(a[s]) - np.float64(b[t])
            s += 1
            t += 1
        total += difference * difference
    return total
