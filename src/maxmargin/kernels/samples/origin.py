"""Where the origin of the samples lies best.

A kernel that sees nothing but distances does not mind if all samples move by the same vector.
Products of rows with few non-zeros take a fraction of the time, and standardised categories have
no zeros at all: such a feature has two values, the commoner of which was zero before. From the
commonest values of all features most samples differ in few.
"""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.kernels.samples.dense import dense_rows
from maxmargin.kernels.samples.mapped import is_mapped

# Below this the fixed cost of a sparse row outweighs its few non-zeros.
MIN_SPARSE_FEATURES = 16
# Up to so many values, of not many features, dense products take less time than to look for zeros
# and to make a CSR matrix, which was a seventh to a fourth of the whole fit. (benchmarks/small.py)
_FEW_VALUES = 2048
_FEATURES_OF_FEW = 64
# Rows to count zeros of, to find the commonest values in (an odd number), to take the mean of.
_COUNTED_ROWS = 512
_COMPARED_ROWS = 65
_MEAN_ROWS = 2048
# Part of the features in which two rows agree by chance if the density is just low enough
# everywhere; a bit less, since the rows are few.
_AGREEING = 0.8 * (1 - constants.SPARSE_DENSITY) ** 2


def too_few_to_be_sparse(X) -> bool:
    """Whether the samples are so few that their products are dense ones whatever their zeros."""
    n, n_features = X.shape
    return n_features <= _FEATURES_OF_FEW and n * n_features <= _FEW_VALUES


def sparse_origin(X, movable: bool) -> tuple[bool, np.ndarray | None]:
    """Whether products of X are faster as sparse ones, and from which origin; None is zero.

    Both follow from a look at some of the rows. Of a large array that is mapped from a file there
    is to be no copy, not even of its non-zeros.

    Parameters
    ----------
    movable : bool
        Whether an origin other than zero will do.
    """
    n, n_features = X.shape
    if n == 0 or n_features < MIN_SPARSE_FEATURES or too_few_to_be_sparse(X) or is_mapped(X):
        return False, None
    if _mostly_zero(X):
        return True, None
    commonest = _commonest_values(X) if movable else None
    return commonest is not None, commonest


def _mostly_zero(X, origin: np.ndarray | float = 0.0) -> bool:
    rows = _some_rows(X, _COUNTED_ROWS)
    return bool(np.count_nonzero(rows != origin) <= constants.SPARSE_DENSITY * rows.size)


def _commonest_values(X) -> np.ndarray | None:
    """The commonest value of each feature, if most features of most rows have it."""
    rows = _some_rows(X, _COMPARED_ROWS)
    if np.count_nonzero(rows[1:] == rows[:-1]) <= _AGREEING * rows[1:].size:
        return None
    # What most rows have is the median.
    middle = len(rows) // 2
    commonest = np.partition(rows, middle, axis=0)[middle]
    return commonest if _mostly_zero(X, commonest) else None


def mean_worth_removing(X) -> np.ndarray | None:
    """The mean row where it dwarfs the spread: there ‖a‖² + ‖b‖² − 2⟨a, b⟩ would cancel."""
    rows = _some_rows(X, _MEAN_ROWS)
    if len(rows) == 0:
        return None
    mean = np.add.reduce(rows, axis=0, dtype=np.float64) / len(rows)
    square = np.einsum("ij,ij->", rows, rows, dtype=np.float64, casting="unsafe") / len(rows)
    # Of the mean square the mean has the greater part; false where there is an overflow.
    return mean if 2.0 * (mean @ mean) > square else None


def _some_rows(X, most: int) -> np.ndarray:
    return dense_rows(X[:: max(1, X.shape[0] // most)])
