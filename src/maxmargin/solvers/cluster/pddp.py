"""Principal direction divisive partitioning (Boley, Data Mining and Knowledge Discovery, 1998).

The cluster of the largest scatter is split in two at its mean, along the direction
in which it varies most, until there are as many clusters as wanted. Each split
costs a few products with the cluster's rows, so sparse rows stay sparse.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, svds

from maxmargin.sparse_format import densified

# Up to this many rows or columns, the smaller Gram matrix is cheaper than Lanczos iterations.
_SMALL = 256
# The direction decides on which side of the mean a row falls; it need not be known better.
_DIRECTION_TOL = 1e-2
_LANCZOS_RESTARTS = 20
# Scatter below this part of the squared norms is rounding: such rows are copies of each other.
_ROUNDING_OF_SCATTER = 1e-12


def pddp(X, n_clusters: int, should_stop: Callable[[], object] = lambda: None) -> np.ndarray:
    """Cluster number of each row of X; fewer clusters where there are fewer distinct rows.

    Parameters
    ----------
    X : dense array or CSR matrix
    n_clusters : number of clusters to stop at
    should_stop : asked between two splits; anything but None ends with the clusters so far
    """
    labels = np.zeros(X.shape[0], np.int64)
    heap: list[tuple[float, int, np.ndarray]] = []
    _push(heap, X, 0, np.arange(X.shape[0]))
    n_found = 1
    while heap and n_found < n_clusters and should_stop() is None:
        _, number, members = heappop(heap)
        above = principal_projection(X[members]) > 0
        if above.all() or not above.any():  # all on one side: rounding is all that is left
            continue
        labels[members[above]] = n_found
        _push(heap, X, number, members[~above])
        _push(heap, X, n_found, members[above])
        n_found += 1
    return labels


def _push(heap, X, number: int, members: np.ndarray) -> None:
    """Queue a cluster by its scatter Σ‖x − mean‖², unless its rows are all the same."""
    rows = X[members]
    squares = float(squared_norms(rows).sum())
    mean = mean_row(rows)
    scatter = squares - len(members) * float(mean @ mean)
    if len(members) > 1 and scatter > _ROUNDING_OF_SCATTER * squares:
        heappush(heap, (-scatter, number, members))


def principal_projection(X) -> np.ndarray:
    """Rows of X, less their mean, projected on the direction of their largest variance.

    Its scale and sign are arbitrary: which side of zero a row is on is what counts.
    """
    n, n_features = X.shape
    mean = mean_row(X)
    if n <= min(n_features, _SMALL):
        gram = densified(X @ X.T)
        gram = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, np.newaxis] + gram.mean()
        return _leading_eigenvector(gram)
    if n_features <= _SMALL:
        covariance = densified(X.T @ X) - n * np.outer(mean, mean)
        direction = _leading_eigenvector(covariance)
    else:
        direction = _leading_direction(X, mean)
    return np.asarray(X @ direction).ravel() - mean @ direction


def _leading_eigenvector(matrix: np.ndarray) -> np.ndarray:
    last = len(matrix) - 1
    vectors = eigh(matrix, subset_by_index=[last, last], check_finite=False)[1]
    # LAPACK may return no eigenvector of a subset where many eigenvalues are equal.
    return vectors[:, 0] if vectors.shape[1] else eigh(matrix, check_finite=False)[1][:, -1]


def _leading_direction(X, mean: np.ndarray) -> np.ndarray:
    """Right singular vector of the centred rows by Lanczos, without centring them in memory."""
    centred = LinearOperator(
        X.shape,
        matvec=lambda v: X @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: X.T @ u.ravel() - mean * u.sum(),
        dtype=np.float64,
    )
    # The row furthest from the mean: never orthogonal to all the rest, and not random.
    furthest = int(np.argmax(squared_norms(X) - 2 * np.asarray(X @ mean).ravel()))
    row = densified(X[furthest : furthest + 1]).ravel() - mean
    start = row if X.shape[1] <= X.shape[0] else centred.matvec(row)
    try:
        _, _, right = svds(
            centred, k=1, v0=start, tol=_DIRECTION_TOL, maxiter=_LANCZOS_RESTARTS,
            return_singular_vectors="vh",
        )  # fmt: skip
    except ArpackNoConvergence:
        return row  # two almost equal directions: either is good, and so is a row between them
    return right[0]


def mean_row(X) -> np.ndarray:
    return np.asarray(X.mean(axis=0), dtype=np.float64).ravel()


def squared_norms(X) -> np.ndarray:
    if sp.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X)
