"""A low-rank factor of a kernel matrix, by Cholesky with pivoting in blocks."""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_lapack_funcs, solve_triangular

from maxmargin.kernels.matrix import KernelMatrix
from maxmargin.parallel import blas_threads

_BLOCK = 128
# Relative size of the diagonal's rest at which the factor counts as exact.
_EXACT = 1e-13
# Pivots of one round may be this much smaller than its largest: a smaller one would divide what
# rounding left of its column, and is better orthogonalised anew.
_COMPARABLE = 1e-2
# The factor is given up when its first columns leave more than this part of the trace: the
# spectrum of such a kernel does not decay.
_PROBE_RANK = 384
_PROBE_REST = 0.02
# A look at so many samples tells the decay; all samples have this many times their rank.
_PROBE_SAMPLES = 256
_GROWTH = 2.5


def low_rank_factor(kernel: KernelMatrix, max_rank: int) -> np.ndarray | None:
    """V with K = VVᵀ to rounding, or None where that takes more than `max_rank` columns.

    Each round takes the samples with the largest rest of the diagonal as pivots
    and orthogonalises their columns against those before, all by matrix products.
    Time n · rank², memory n · rank.
    """
    rest = kernel.diagonal()
    whole = rest.sum()
    largest = rest.max()
    V = np.zeros((kernel.n, 0))
    while rest.max() > _EXACT * largest:
        if V.shape[1] > max_rank:
            return None
        probed = V.shape[1] >= _PROBE_RANK and kernel.n > max_rank
        if probed and rest.sum() > _PROBE_REST * whole:
            return None
        pivots = np.argpartition(-rest, min(_BLOCK, kernel.n - 1))[:_BLOCK]
        columns = kernel.columns(pivots)
        with blas_threads(2.0 * V.size * len(pivots)):
            columns -= V @ V[pivots].T
        new = _orthogonalised(columns, pivots, max(_EXACT * largest, _COMPARABLE * rest.max()))
        if new is None:
            return None
        V = np.hstack([V, new])
        rest = np.maximum(rest - np.einsum("ij,ij->i", new, new), 0.0)
    return V


def sampled_factor(
    kernel: KernelMatrix, max_rank: int, exact: float, n_candidates: int
) -> np.ndarray | None:
    """V with K = VVᵀ up to `exact` times the largest diagonal entry, or None as above.

    All pivots of the first round come from one block of samples spread over the data,
    which leaves few for the rounds after it: on two-dimensional data this takes a
    fifth of the time of `low_rank_factor`, for an accuracy that refinement must make
    up for.
    """
    rest = kernel.diagonal()
    tol = exact * rest.max()
    if _expected_rank(kernel, tol) > max_rank:
        return None
    V = np.zeros((kernel.n, 0))
    step = -(-kernel.n // n_candidates)
    candidates = np.arange(0, kernel.n, step)
    while rest.max() > tol:
        block = kernel.block(candidates) - V[candidates] @ V[candidates].T
        (pstrf,) = get_lapack_funcs(("pstrf",), (block,))
        factor, order, rank, _ = pstrf(np.asfortranarray(block), lower=1, tol=tol)
        if rank == 0 or V.shape[1] + rank > max_rank:
            return None
        pivots = candidates[order[:rank] - 1]
        triangle = np.tril(factor[:rank, :rank])
        columns = kernel.columns(pivots)
        with blas_threads(2.0 * V.size * rank):
            columns -= V @ V[pivots].T
        new = solve_triangular(triangle, columns.T, lower=True, check_finite=False).T
        V = np.hstack([V, new])
        rest = np.maximum(rest - np.einsum("ij,ij->i", new, new), 0.0)
        largest = np.argpartition(-rest, min(_BLOCK, kernel.n - 1))[:_BLOCK]
        candidates = largest[rest[largest] > tol]
    return V


def _expected_rank(kernel: KernelMatrix, tol: float) -> float:
    """The rank that the decay of the pivots among a few samples foretells, as a rough guess."""
    candidates = np.arange(0, kernel.n, -(-kernel.n // _PROBE_SAMPLES))
    block = kernel.block(candidates)
    (pstrf,) = get_lapack_funcs(("pstrf",), (block,))
    factor, _, rank, _ = pstrf(np.asfortranarray(block), lower=1, tol=tol)
    half = len(candidates) // 2
    if rank <= half:
        return rank
    quarter = half // 2
    pivots = np.log(factor.diagonal()[[quarter, half]] ** 2 / tol)
    decay = (pivots[0] - pivots[1]) / (half - quarter)
    return np.inf if decay <= 0 else _GROWTH * (half + pivots[1] / decay)


def _orthogonalised(columns: np.ndarray, pivots: np.ndarray, tol: float) -> np.ndarray | None:
    """Columns of the factor from those of the rest of K; dependent pivots are left out."""
    (pstrf,) = get_lapack_funcs(("pstrf",), (columns,))
    factor, order, rank, _ = pstrf(np.asfortranarray(columns[pivots]), lower=1, tol=tol)
    if rank == 0:
        return None
    chosen = order[:rank] - 1
    triangle = np.tril(factor[:rank, :rank])
    return solve_triangular(triangle, columns[:, chosen].T, lower=True, check_finite=False).T
