"""Which samples are optimised together: an order in which neighbours are near each other."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf
from maxmargin.solvers.sweeps.backend import Array, Backend

# Samples for each landmark, and the most landmarks.
_SAMPLES_PER_LANDMARK = 64
_MAX_LANDMARKS = 256


def landmarks_of(n: int, rng: np.random.Generator) -> np.ndarray:
    """Some of n samples, at random."""
    count = int(np.clip(n // _SAMPLES_PER_LANDMARK, 1, _MAX_LANDMARKS))
    return np.sort(rng.choice(n, count, replace=False))


def neighbour_order(backend: Backend, rows: Array, landmarks: np.ndarray) -> Array:
    """The samples in an order that keeps neighbours in feature space together.

    Every sample belongs to the nearest landmark, and the landmarks form a chain in which each
    is followed by the nearest that is not yet in it. The distance is that of the feature
    space, k(x, x) + k(l, l) − 2k(x, l), so every kernel has such an order.

    Parameters
    ----------
    rows : kernel values of the landmarks with all samples, a landmark per row
    """
    among = backend.to_host(rows[:, backend.asarray(landmarks)])
    places = _chain(among.diagonal()[:, None] - 2.0 * among)
    return backend.xp.argsort(backend.nearest(rows, landmarks, places))


@leaf()
def _chain(distances):
    """Places in a chain of nearest neighbours; k(l, l) − 2k(·, l) orders the candidates l."""
    count = len(distances)
    place = np.empty(count, np.int64)
    used = np.zeros(count, np.bool_)
    current = 0
    for position in range(count):
        place[current] = position
        used[current] = True
        following, best = -1, np.inf
        for other in range(count):
            if not used[other] and (following < 0 or distances[other, current] < best):
                following, best = other, distances[other, current]
        current = following
    return place
