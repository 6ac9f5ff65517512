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
    infeasibility : the larger of |Σβ| and the excess over a bound, relative to C
    objective : ½βᵀKβ − yᵀβ
    n_support, n_free : coefficients that are not 0, those of them that are not at ±C
    """

    kkt_violation: float
    infeasibility: float
    objective: float
    n_support: int
    n_free: int


def judge(
    X, y: np.ndarray, support: np.ndarray, coefficients: np.ndarray, *,
    C: float, kernel: str, gamma: float,
) -> Verdict:  # fmt: skip
    """Judge the answer β (β = yα, given by its non-zero entries) to the problem of X, y and C."""
    beta = np.zeros(len(y))
    beta[support] = coefficients
    lower, upper = np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)
    outside = max(float((lower - beta).max()), float((beta - upper).max()), 0.0)
    infeasibility = max(abs(float(beta.sum())), outside) / C
    # A coefficient that misses its bound by rounding alone is at its bound.
    beta = np.where(np.abs(beta - upper) <= 1e-12 * C, upper, beta)
    beta = np.where(np.abs(beta - lower) <= 1e-12 * C, lower, beta)
    # −∇ of the objective; at the optimum it is the intercept wherever β is between its bounds.
    slope = y - kernel_product(X, beta, kernel=kernel, gamma=gamma)
    can_grow, can_shrink = beta < upper, beta > lower
    violation = 0.0
    if can_grow.any() and can_shrink.any():
        violation = max(0.0, float(slope[can_grow].max() - slope[can_shrink].min()))
    return Verdict(
        kkt_violation=violation,
        infeasibility=infeasibility,
        objective=-0.5 * float(beta @ (y + slope)),
        n_support=int(np.count_nonzero(beta)),
        n_free=int(np.count_nonzero(can_grow & can_shrink)),
    )


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
