"""Mean and variance of all entries of X, for gamma="scale"."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from maxmargin.parallel import resolve_n_jobs, run_blocks, session, split

# Sparse data with up to this many entries have the same bits of gamma="scale" as dense data.
_DENSIFIED_ENTRIES = 2**16
# Entries whose variance is not worth a thread, and entries that one thread takes at a time.
_ENTRIES_AT_ONCE = 2**22
_ENTRIES_OF_BLOCK = 2**18
# Entries that differ from their mean by less than this part of it count as constant: the rounding
# of the mean would otherwise be their variance, and gamma about 1e32.
_ROUNDING_OF_MEAN = 64 * float(np.finfo(np.float64).eps)


def variance(X, sample_weights: np.ndarray | None, n_jobs) -> float:
    """Variance of all entries of X, each row counted as often as its weight says."""
    if sp.issparse(X) and X.shape[0] * X.shape[1] <= _DENSIFIED_ENTRIES:
        X = X.toarray()
    if sample_weights is None and not sp.issparse(X):
        return _variance_by_blocks(X, n_jobs)
    weights = np.ones(X.shape[0]) if sample_weights is None else sample_weights
    # BLAS has one thread here: others of its own would spin for 0.1 s after a product, on the
    # cores that the fit wants next.
    with session(1):
        total, mean, squares = moments(X, weights)
    return variance_of(mean, squares / total)


def moments(X, weights: np.ndarray) -> tuple[float, float, float]:
    """Σw over all entries, their weighted mean, and Σw(x − mean)²."""
    total = float(weights.sum()) * X.shape[1]
    if not sp.issparse(X):
        # Of many entries a part at a time: X may be mapped from a file, and larger than memory.
        parts = split(len(X), max(1, _ENTRIES_AT_ONCE // X.shape[1]))
        sums = [float((X[rows].T @ weights[rows]).sum()) for rows in parts]
        mean = sum(sums) / total if total else 0.0
        squares = 0.0
        for rows in parts:
            away = np.subtract(X[rows], mean, dtype=np.float64)
            squares += float(np.square(away, out=away).sum(axis=1) @ weights[rows])
        return total, mean, squares
    # The stored entries one by one, and the zeros by their weight.
    by_entry = np.repeat(weights, np.diff(X.indptr))
    mean = float(X.data @ by_entry) / total if total else 0.0
    away = np.subtract(X.data, mean, dtype=np.float64)
    zeros = max(0.0, total - float(by_entry.sum()))
    return total, mean, float(np.square(away, out=away) @ by_entry) + zeros * mean * mean


def variance_of(mean: float, found: float) -> float:
    """The variance that was found, or zero where it is the rounding of the mean."""
    return 0.0 if math.sqrt(found) <= _ROUNDING_OF_MEAN * abs(mean) else found


def _variance_by_blocks(X: np.ndarray, n_jobs) -> float:
    """Variance of all entries; of many by blocks of rows on all threads, without a copy of X."""
    if X.size <= _ENTRIES_AT_ONCE:
        return variance_of(float(X.flat[0]), float(X.var(dtype=np.float64)))
    blocks = split(len(X), max(1, _ENTRIES_OF_BLOCK // X.shape[1]))

    def squares(rows: slice) -> float:
        away = np.subtract(X[rows], mean, dtype=np.float64).ravel()
        return float(away @ away)

    with session(resolve_n_jobs(n_jobs)):
        mean = sum(run_blocks(lambda rows: X[rows].sum(dtype=np.float64), blocks)) / X.size
        return variance_of(mean, sum(run_blocks(squares, blocks)) / X.size)
