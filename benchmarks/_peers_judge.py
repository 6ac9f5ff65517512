"""The judge of `peers.py`: how far an answer is from the optimum, in float64.

Plain NumPy, written apart from the library: nothing that a contestant computes
or believes enters but its dual coefficients.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

# 2048 × 1024 kernel values in float64 are 16 MB a thread.
_ROWS, _COLUMNS = 2048, 1024
# A float32 block of this shape (2 MB) stays in the cache between GEMM and exp.
_FLOOR_ROWS, _FLOOR_COLUMNS = 512, 1024
_FLOOR_FEATURES = 1000


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth.

    Attributes
    ----------
    kkt_violation : the maximal violating pair, LIBSVM's stopping quantity
    infeasibility : the larger of what a sum of β is off and the excess over a bound, relative to
        the bounds
    objective : ½βᵀKβ − pᵀβ + ε‖β‖₁
    n_support, n_free : coefficients that are not 0, those of them that are not at a bound
    """

    kkt_violation: float
    infeasibility: float
    objective: float
    n_support: int
    n_free: int


def judge(
    X, y: np.ndarray, support: np.ndarray, coefficients: np.ndarray, *,
    C: float, kernel: str, gamma: float, kind: str = "SVC", epsilon: float = 0.0, nu: float = 0.0,
) -> Verdict:  # fmt: skip
    """Judge the answer β, given by its non-zero entries, to the problem of X, y and C.

    β is yα of a classification, α − α* of a regression, and α of a one-class SVM.
    """
    beta = np.zeros(len(y))
    beta[support] = coefficients
    if kind == "NuSVC":
        # Divided by ρ, as all libraries give it; the sum of one class says what ρ was.
        beta *= 0.5 * nu * len(y) / np.maximum(beta, 0.0).sum()
    linear, lower, upper = _dual(kind, y, C)
    bound = float(upper.max())
    outside = max(float((lower - beta).max()), float((beta - upper).max()), 0.0)
    infeasibility = max(_off_sums(kind, beta, nu * bound * len(y)), outside) / bound
    # A coefficient that misses its bound by rounding alone is at its bound.
    beta = np.where(np.abs(beta - upper) <= 1e-12 * bound, upper, beta)
    beta = np.where(np.abs(beta - lower) <= 1e-12 * bound, lower, beta)
    # −∇ of the objective; at the optimum it is the intercept wherever β is between its bounds.
    slope = linear - kernel_product(X, beta, kernel=kernel, gamma=gamma)
    two_sums = kind == "NuSVC" or (kind == "NuSVR" and _meets_limit(beta, nu * C * len(y)))
    free = (beta < upper) & (beta > lower)
    if epsilon > 0 or two_sums:
        free &= beta != 0
    objective = -0.5 * float(beta @ (linear + slope)) + epsilon * float(np.abs(beta).sum())
    return Verdict(
        kkt_violation=_violation(kind, beta, slope, lower, upper, epsilon, two_sums),
        infeasibility=infeasibility,
        objective=objective,
        n_support=int(np.count_nonzero(beta)),
        n_free=int(np.count_nonzero(free)),
    )


def _dual(kind: str, y: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The linear term and the bounds of β."""
    one, nothing = np.ones(len(y)), np.zeros(len(y))
    if kind in ("SVR", "NuSVR"):
        return y, -C * one, C * one
    if kind == "OneClassSVM":
        return nothing, nothing, one
    bound = C if kind == "SVC" else 1.0
    lower, upper = np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0)
    return (y if kind == "SVC" else nothing), lower, upper


def _off_sums(kind: str, beta: np.ndarray, limit: float) -> float:
    """How far β is off the sums of its problem; `limit` is ν times the sum of all bounds."""
    if kind == "OneClassSVM":
        return abs(float(beta.sum()) - limit)
    off = abs(float(beta.sum()))
    # The rounding of a long sum is no infeasibility.
    excess = float(np.abs(beta).sum()) - limit * (1 + 1e-9) if kind == "NuSVR" else 0.0
    return max(off, excess)


def _meets_limit(beta: np.ndarray, limit: float) -> bool:
    return float(np.abs(beta).sum()) >= limit * (1 - 1e-9)


def _violation(kind, beta, slope, lower, upper, epsilon: float, two_sums: bool) -> float:
    """The maximal violating pair, LIBSVM's stopping quantity; with two sums, that of either.

    Where Σ|β| of a ν-SVR is at its limit, positive and negative β have a level each, whose
    difference is the width of the tube: it must not be negative.
    """
    grow = slope - np.where(beta >= 0, epsilon, -epsilon)
    shrink = slope - np.where(beta > 0, epsilon, -epsilon)
    can_grow, can_shrink = beta < upper, beta > lower
    if not two_sums:
        return _pair(grow[can_grow], shrink[can_shrink])
    positive = upper > 0 if kind == "NuSVC" else beta > 0
    negative = lower < 0 if kind == "NuSVC" else beta < 0
    above = _pair(grow[can_grow & ~negative], shrink[can_shrink & positive])
    below = _pair(grow[can_grow & negative], shrink[can_shrink & ~positive])
    worst = max(above, below)
    if kind == "NuSVR":
        free = (beta > lower) & (beta < upper)
        levels = [slope[free & side] for side in (positive, negative)]
        if all(len(level) for level in levels):
            worst = max(worst, float(levels[1].mean() - levels[0].mean()))
    return worst


def _pair(growing: np.ndarray, shrinking: np.ndarray) -> float:
    if not len(growing) or not len(shrinking):
        return 0.0
    return max(0.0, float(growing.max() - shrinking.min()))


def kernel_product(X, beta: np.ndarray, *, kernel: str, gamma: float) -> np.ndarray:
    """Kβ in float64, block by block, so that memory stays small whatever n is."""
    if sp.issparse(X):
        X = sp.csr_matrix(X, dtype=np.float64)
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    else:
        X = np.asarray(X, dtype=np.float64)
        if kernel == "rbf":
            # Distances do not change, but large common offsets would cost their digits.
            X = X - X.mean(axis=0)
        squares = np.einsum("ij,ij->i", X, X)
    support = np.flatnonzero(beta)

    def rows(start: int) -> np.ndarray:
        here = slice(start, start + _ROWS)
        total = np.zeros(len(squares[here]))
        for first in range(0, len(support), _COLUMNS):
            there = support[first : first + _COLUMNS]
            values = X[here] @ X[there].T
            values = values.toarray() if sp.issparse(values) else values
            if kernel == "rbf":
                values *= -2.0
                values += squares[here, None]
                values += squares[there]
                np.maximum(values, 0.0, out=values)
                values *= -gamma
                np.exp(values, out=values)
            elif kernel != "linear":
                raise ValueError(f"the judge knows no kernel {kernel!r}.")
            total += values @ beta[there]
        return total

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(pool.map(rows, range(0, len(squares), _ROWS)))
    return np.concatenate(parts)


def floor(X, n_support: int, *, kernel: str, gamma: float) -> float | None:
    """Seconds of one GEMM + exp pass over n_support × n kernel values, on all cores.

    In float32 and in cache-sized blocks, nothing kept. −γ‖x − z‖² is one product
    of rows with two more columns, (√(2γ) x, −γ‖x‖², 1)·(√(2γ) z, 1, −γ‖z‖²), so
    nothing but GEMM and exp is timed: the best of three passes, of more if they
    are short. None where dense rows would be no measure.
    """
    if X.shape[1] > _FLOOR_FEATURES:
        return None
    dense = X.toarray() if sp.issparse(X) else X
    dense = dense.astype(np.float32)
    left, right = dense[:n_support], dense
    if kernel == "rbf":
        norms = -np.float32(gamma) * np.einsum("ij,ij->i", dense, dense)[:, None]
        scaled, one = np.float32(np.sqrt(2 * gamma)) * dense, np.ones_like(norms)
        left = np.hstack([scaled, norms, one])[:n_support]
        right = np.hstack([scaled, one, norms])
    left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)

    def panel(start: int) -> None:
        here = left[start : start + _FLOOR_ROWS]
        block = np.empty((len(here), _FLOOR_COLUMNS), dtype=np.float32)
        for first in range(0, len(right), _FLOOR_COLUMNS):
            there = right[first : first + _FLOOR_COLUMNS]
            values = block if len(there) == _FLOOR_COLUMNS else block[:, : len(there)].copy()
            np.matmul(here, there.T, out=values)
            if kernel == "rbf":
                np.exp(values, out=values)

    times: list[float] = []
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        while len(times) < 3 or (sum(times) < 0.5 and len(times) < 20):
            start = time.perf_counter()
            list(pool.map(panel, range(0, len(left), _FLOOR_ROWS)))
            times.append(time.perf_counter() - start)
    return min(times)
