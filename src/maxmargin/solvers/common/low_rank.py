"""A low-rank factor of a kernel matrix, by Cholesky with pivoting in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from maxmargin.kernels.interface import KernelMatrix
from maxmargin.parallel import blas_threads, split
from maxmargin.solvers.common.factors import LandmarkFactor, rows_at_once

# Candidates for the next columns of the factor.
_BLOCK = 128
# A look at so many samples tells the decay; all samples have this many times their rank.
_PROBE_SAMPLES = 256
_GROWTH = 2.5
# First candidates for each column that is expected.
_CANDIDATES_PER_COLUMN = 8
# The part of the candidates for landmarks that may become landmarks: more would tell that other
# samples are not represented by them.
_MOST_OF_CANDIDATES = 0.5
# What a sample that counts as represented may lack, in multiples of the accuracy; the part of all
# samples that need not be represented; candidates for the first of their pivots.
_REPRESENTED = 10.0
_FEW_FAR = 0.1
_FIRST_FAR = 1024


def sampled_factor(
    kernel: KernelMatrix,
    max_rank: int,
    exact: float,
    n_candidates: int,
    expected: float | None = None,
    truncate: bool = False,
) -> np.ndarray | None:
    """V with K = VVᵀ up to `exact` times the largest diagonal entry.

    Where a diagonal entry is negative, as with the constant of a polynomial kernel, it is K plus
    a constant that has none: the sums of β being fixed, this is the same problem. None where
    that takes more than `max_rank` columns, or where no entry is positive. With `truncate`, V has
    `max_rank` columns then, and lacks more than `exact`.

    All pivots of the first round come from one block of samples from all over the data, which
    leaves few for the rounds after it. Time n · rank², memory n · rank. `expected` is the
    result of `expected_rank`, where it is known.
    """
    shift = _shift(kernel)
    rest = kernel.diagonal() + shift
    tol = exact * rest.max()
    if not tol > 0:
        return None
    expected = expected_rank(kernel, exact) if expected is None else expected
    if kernel.n > max_rank and expected > max_rank and not truncate:
        return None
    n_candidates = int(min(n_candidates, max(_BLOCK, _CANDIDATES_PER_COLUMN * expected)))
    step = -(-kernel.n // n_candidates)
    candidates = np.arange(0, kernel.n, step)
    return _complete(
        kernel, np.zeros((kernel.n, 0)), rest, candidates, shift, tol, max_rank, truncate
    )


def _complete(
    kernel, V, rest, candidates, shift: float, tol: float, max_rank: int, truncate: bool = False
) -> np.ndarray | None:
    """V with further columns, until no diagonal entry lacks more than `tol`.

    `rest` is what they lack, and `candidates` are the samples that the first pivots come from.
    """
    while rest.max(initial=0.0) > tol:
        block = _block(kernel, candidates, shift) - V[candidates] @ V[candidates].T
        (pstrf,) = get_lapack_funcs(("pstrf",), (block,))
        factor, order, rank, _ = pstrf(np.asfortranarray(block), lower=1, tol=tol)
        if truncate:
            rank = min(rank, max_rank - V.shape[1])
            if rank == 0:
                return V
        if rank == 0 or V.shape[1] + rank > max_rank:
            return None
        pivots = candidates[order[:rank] - 1]
        triangle = np.tril(factor[:rank, :rank])
        rows = kernel.block(pivots, dtype=np.float64)
        rows += shift
        with blas_threads(2.0 * V.size * rank):
            rows -= V[pivots] @ V.T
        (trsm,) = get_blas_funcs(("trsm",), (rows,))
        new = trsm(1.0, triangle, rows.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        V = np.hstack([V, new])
        rest = np.maximum(rest - np.einsum("ij,ij->i", new, new), 0.0)
        largest = np.argpartition(-rest, min(_BLOCK, kernel.n - 1))[:_BLOCK]
        candidates = largest[rest[largest] > tol]
    return V


def landmark_factor(
    kernel: KernelMatrix, max_rank: int, exact: float, n_candidates: int,
    pause: Callable[[], None] = lambda: None,
) -> LandmarkFactor | None:  # fmt: skip
    """The same for very many samples, without an array of n · rank numbers.

    The landmarks are pivots among some samples from all over the data. A pass over all samples
    finds the few that they do not represent, and these have columns of their own. The entry of
    one that is represented and one that is not lacks the root of that at most. None where the
    rank is too high, or the samples that are not represented are not few. `pause` is called
    between blocks of work, and may raise.
    """
    shift = _shift(kernel)
    diagonal = kernel.diagonal() + shift
    tol = exact * diagonal.max()
    if not tol > 0:
        return None
    candidates = np.arange(0, kernel.n, -(-kernel.n // n_candidates))
    block = _block(kernel, candidates, shift)
    (pstrf,) = get_lapack_funcs(("pstrf",), (block,))
    factor, order, rank, _ = pstrf(np.asfortranarray(block), lower=1, tol=tol)
    if not 0 < rank <= min(max_rank, _MOST_OF_CANDIDATES * len(candidates)):
        return None
    landmarks = candidates[order[:rank] - 1]
    nothing = np.empty(0, np.int64), np.empty((0, 0))
    near = LandmarkFactor(kernel, landmarks, np.tril(factor[:rank, :rank]), shift, *nothing)
    rest = np.empty(kernel.n)
    for part in split(kernel.n, rows_at_once(rank)):
        pause()
        V = near.rows(np.arange(part.start, part.stop))
        rest[part] = diagonal[part] - np.einsum("ij,ij->i", V, V)
    far = np.flatnonzero(rest > _REPRESENTED * tol)
    if len(far) > _FEW_FAR * kernel.n:
        return None
    first = np.argsort(-rest[far], kind="stable")[:_FIRST_FAR]
    V = _complete(kernel.restrict(far), near.rows(far), rest[far], first, shift, tol, max_rank)
    if V is None:
        return None
    return LandmarkFactor(kernel, landmarks, near.triangle, shift, far, V[:, rank:].copy())


def lacking(kernel: KernelMatrix, V: np.ndarray) -> float:
    """The most that a factor lacks of an entry of the diagonal, and so of any entry."""
    return float((kernel.diagonal() + _shift(kernel) - np.einsum("ij,ij->i", V, V)).max())


def expected_rank(kernel: KernelMatrix, exact: float) -> float:
    """The rank that the decay of the pivots among a few samples foretells, as a rough guess."""
    shift = _shift(kernel)
    tol = exact * (kernel.diagonal().max() + shift)
    if not tol > 0:
        return np.inf
    candidates = np.arange(0, kernel.n, -(-kernel.n // _PROBE_SAMPLES))
    block = _block(kernel, candidates, shift)
    (pstrf,) = get_lapack_funcs(("pstrf",), (block,))
    factor, _, rank, _ = pstrf(np.asfortranarray(block), lower=1, tol=tol)
    half = len(candidates) // 2
    if rank <= half:
        return rank
    quarter = half // 2
    pivots = np.log(factor.diagonal()[[quarter, half]] ** 2 / tol)
    decay = (pivots[0] - pivots[1]) / (half - quarter)
    return np.inf if decay <= 0 else _GROWTH * (half + pivots[1] / decay)


def _block(kernel: KernelMatrix, index: np.ndarray, shift: float) -> np.ndarray:
    return kernel.block(index, index, dtype=np.float64) + shift


def _shift(kernel: KernelMatrix) -> float:
    """The constant that leaves no negative entry on the diagonal."""
    return max(0.0, -float(kernel.diagonal().min()))
