"""Coefficients of the support vectors of a model, in the order in which tiles want them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, pairwise

import numpy as np

from maxmargin._decision_leaves import add_class_blocks, add_class_blocks_of_few
from maxmargin.parallel import split

# Support vectors of one tile of kernel values.
_TILE_VECTORS = 1024


class Coefficients:
    """Coefficients of all support vectors, in the order in which tiles want them.

    With `weights` they are float32, and sums of weights and kernel values come with the others:
    the magnitudes, by which errors of the decision values are judged.

    Parameters
    ----------
    dual_coef : array of LIBSVM's layout, one row per other class (pairs) or per task
    n_support : support vectors per class
    n_tasks : number of binary decision functions
    weights : array of shape (n_support_vectors,), or None

    Attributes
    ----------
    terms_of_sum : additions that any decision value takes at most, the intercept's included
    """

    def __init__(
        self,
        dual_coef: np.ndarray,
        n_support: np.ndarray,
        n_tasks: int,
        weights: np.ndarray | None = None,
    ):
        n_classes = len(n_support)
        self.n_vectors, self.n_tasks = dual_coef.shape[1], n_tasks
        # Two classes and one-vs-rest have one row per task.
        self.by_pair = n_tasks > 1 and dual_coef.shape[0] == n_classes - 1
        self.size = dual_coef.size
        self._dual_coef, self.n_support = dual_coef, n_support
        self._ends = ends = np.concatenate([[0], np.cumsum(n_support)])
        self._chunks: list[tuple[slice, tuple]] = []
        rows = dual_coef
        if weights is not None:
            rows = np.vstack([dual_coef, weights]).astype(np.float32)
        if not self.by_pair:
            for chunk in split(self.n_vectors, _TILE_VECTORS):
                self._chunks.append((chunk, (np.ascontiguousarray(rows[:, chunk]),)))
            self.terms_of_sum = min(_TILE_VECTORS, self.n_vectors) + len(self._chunks)
            return
        pieces = [
            (number, start + part.start, start + part.stop)
            for number, (start, stop) in enumerate(pairwise(ends))
            for part in split(stop - start, _TILE_VECTORS) or [slice(0, 0)]
        ]
        most = int(n_support.max())
        self.terms_of_sum = min(_TILE_VECTORS, most) + 2 * -(-most // _TILE_VECTORS)
        while pieces:
            first, taken = pieces[0][1], 1
            while taken < len(pieces) and pieces[taken][2] - first <= _TILE_VECTORS:
                taken += 1
            mine, pieces = pieces[:taken], pieces[taken:]
            blocks = np.concatenate([rows[:, a:b].T.ravel() for _, a, b in mine])
            numbers = np.array([number for number, _, _ in mine])
            begins = np.array([start == ends[number] for number, start, _ in mine])
            bounds = np.array([first, *(stop for _, _, stop in mine)]) - first
            chunk = slice(int(first), int(mine[-1][2]))
            self._chunks.append((chunk, (blocks, numbers, begins, bounds, n_classes)))

    def __iter__(self) -> Iterator[slice]:
        """The support vectors, as many at a time as a tile has."""
        return (chunk for chunk, _ in self._chunks)

    def of_task(self, task: int = 0) -> np.ndarray:
        """The coefficients of all support vectors in one task, zero where they take no part."""
        if not self.by_pair:
            return np.ascontiguousarray(self._dual_coef[task], np.float64)
        pairs = combinations(range(len(self._ends) - 1), 2)
        result, (first, second) = np.zeros(self.n_vectors), next(islice(pairs, task, None))
        for own, row in ((first, second - 1), (second, first)):
            vectors = slice(self._ends[own], self._ends[own + 1])
            result[vectors] = self._dual_coef[row, vectors]
        return result

    def weighted(self, weights: np.ndarray) -> Coefficients:
        """The same in float32, with weights."""
        return Coefficients(self._dual_coef, self.n_support, self.n_tasks, weights)

    def largest(self) -> np.ndarray:
        """The largest magnitude of the coefficients of each support vector."""
        return np.abs(self._dual_coef).max(axis=0)

    def by_class(self, weights: np.ndarray) -> np.ndarray:
        """The sums of weights of the support vectors of each class (pairs), else of all."""
        total = np.concatenate([[0.0], np.cumsum(weights)])
        return np.diff(total[self._ends]) if self.by_pair else total[-1:]

    def clear(self, tile: np.ndarray, magnitudes: np.ndarray | None = None) -> None:
        """Prepare a tile for `add` of all chunks in turn; those of pairs set it themselves."""
        if not self.by_pair:
            tile[:] = 0.0
            if magnitudes is not None:
                magnitudes[:] = 0.0

    def add(
        self, place: int, values: np.ndarray, tile: np.ndarray, magnitudes: np.ndarray | None = None
    ) -> None:
        """tile += coefficients of one chunk @ values of shape (n_vectors, n_samples).

        magnitudes += weights @ values, in a row per class for pairs, else in one row.
        """
        _, parts = self._chunks[place]
        if self.by_pair:
            sums = tile[:0] if magnitudes is None else magnitudes
            add_class_blocks(*parts, np.ascontiguousarray(values), tile, sums)  # type: ignore[call-arg]
            return
        product = parts[0] @ values
        tile += product[: self.n_tasks]
        if magnitudes is not None:
            magnitudes += product[self.n_tasks :]

    def add_few(self, place: int, values: np.ndarray, tile: np.ndarray) -> None:
        """The same for few samples and values of shape (n_samples, n_vectors)."""
        _, parts = self._chunks[place]
        if self.by_pair:
            add_class_blocks_of_few(*parts, values, tile)  # type: ignore[call-arg]
        else:
            tile += parts[0] @ values.T
