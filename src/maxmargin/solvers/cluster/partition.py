"""Partitions of the samples of each class, computed once for all binary problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from maxmargin.kernels.interface import KernelMatrix, KernelOrigin
from maxmargin.parallel import run_blocks
from maxmargin.problem import Problem
from maxmargin.solvers.cluster.pddp import mean_row, pddp, squared_norms

# Samples whose kernel values place the others, where there are no features.
_LANDMARKS = 100
# For data and a way to cluster: by class, its samples, their cluster numbers and the centres.
Known = dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]]
_known: WeakKeyDictionary[KernelOrigin, dict[tuple, Known]] = WeakKeyDictionary()


def partition(
    problem: Problem, signs: np.ndarray, features, clustering, clusters: str | int, seed: int,
    should_stop: Callable[[], object],
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Cluster number of each sample, and the pseudo-centre of each cluster.

    A cluster has samples of one class only. One-vs-rest puts many classes on one side, and
    both schemes use each class in several problems, so the clusters of a class are kept for
    as long as the data that these problems share (section 3.1).
    """
    labels = signs if problem.labels is None else problem.labels
    positions = problem.kernel.positions()
    shared = _known_of(problem.kernel.origin, (repr(clustering), clusters))
    # A copy: problems in other threads may have other samples of the same class.
    known = dict(shared)
    members = {code: np.flatnonzero(labels == code) for code in np.unique(labels)}

    def find(code) -> None:
        X = features[members[code]]
        n_clusters = round(X.shape[0] ** 0.5) if clusters == "sqrt" else int(clusters)
        found = _cluster(X, min(n_clusters, X.shape[0]), clustering, seed, should_stop)
        parts = np.split(np.argsort(found, kind="stable"), np.cumsum(np.bincount(found))[:-1])
        centre = np.array([part[pseudo_centre(X[part])] for part in parts])
        known[code] = (positions[members[code]], found, centre)

    new = [
        code for code, index in members.items()
        if code not in known or not np.array_equal(known[code][0], positions[index])
    ]  # fmt: skip
    if clustering == "pddp":
        run_blocks(find, new)
    else:  # other clusterers start their own threads
        for code in new:
            find(code)
    shared.update(known)
    labels = np.empty(problem.n, np.int64)
    centres: list[np.ndarray] = []
    n_found = 0
    for code, index in members.items():
        _, found, centre = known[code]
        labels[index] = n_found + found
        centres.append(index[centre])
        n_found += len(centre)
    return labels, np.concatenate(centres)


def _known_of(origin: KernelOrigin, clustering: tuple) -> Known:
    return _known.setdefault(origin, {}).setdefault(clustering, {})


def _cluster(X, n_clusters: int, clustering, seed: int, should_stop) -> np.ndarray:
    """Cluster number of each row of X, counted from 0."""
    if n_clusters == 1 and isinstance(clustering, str):
        return np.zeros(X.shape[0], np.int64)
    X = X.astype(np.float64, copy=False)
    if clustering == "pddp":
        return pddp(X, n_clusters, should_stop)
    if clustering == "kmeans":
        from sklearn.cluster import MiniBatchKMeans

        clusterer = MiniBatchKMeans(n_clusters, random_state=seed, n_init=1)
    else:
        clusterer = clone(clustering)
        if "n_clusters" in clusterer.get_params():
            clusterer.set_params(n_clusters=n_clusters)
    with warnings.catch_warnings():
        # Fewer distinct samples than clusters: fewer clusters are all that is needed then.
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = np.asarray(clusterer.fit_predict(X))
    # Some clusterers call samples noise (−1): each of them is a cluster of its own.
    noise = np.flatnonzero(labels < 0)
    labels[noise] = labels.max() + 1 + np.arange(len(noise))
    return np.unique(labels, return_inverse=True)[1]


def pseudo_centre(X) -> int:
    """The row of X that is nearest to the mean of all (equation 2.15)."""
    X = X.astype(np.float64, copy=False)
    mean = mean_row(X)
    return int(np.argmin(squared_norms(X) - 2 * np.asarray(X @ mean).ravel()))


def sample_features(kernel: KernelMatrix):
    """Rows to cluster: the samples themselves, or coordinates in the kernel's feature space.

    Where only kernel values are known, the samples are projected on the span of a
    few of them (Nyström's method), in which distances are those of the kernel.
    """
    X = kernel.features()
    if X is not None:
        return X
    landmarks = np.unique(np.linspace(0, kernel.n - 1, _LANDMARKS).astype(np.int64))
    values = kernel.block(landmarks)
    eigenvalues, vectors = np.linalg.eigh(kernel.block(landmarks, landmarks, dtype=np.float64))
    kept = eigenvalues > 1e-10 * np.abs(eigenvalues).max()
    if not kept.any():  # nothing positive about this kernel: one cluster per class
        return np.zeros((kernel.n, 1))
    return values.T @ (vectors[:, kept] / np.sqrt(eigenvalues[kept]))
