"""Rows of an array that is mapped from a file, which are read a tile at a time."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from maxmargin import constants
from maxmargin.kernels.deferred import differences
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.parallel import run_blocks, split

# Mapped arrays up to this size are copied like any other, and so are subsets: products of rows
# in memory are faster than those of rows that are converted and gathered for each tile.
COPIED_BYTES = 64 * 2**20


def is_mapped(X) -> bool:
    """Whether X is a large array in a mapped file, of which there should be no copy in memory."""
    if not isinstance(X, np.ndarray) or X.nbytes <= COPIED_BYTES:
        return False
    owner: np.ndarray | None = X
    while isinstance(owner, np.ndarray):
        if isinstance(owner, np.memmap):
            return True
        owner = owner.base
    return False


class MappedSamples(DenseSamples):
    """Rows of a mapped array, all or those of an `index`, as `DenseSamples` would have them.

    Type, order and origin are seen to in each tile, so that no copy of the array is made.
    """

    def __init__(self, X: np.ndarray, dtype, origin: np.ndarray | None = None, index=None):
        self._mapped, self._index = X, index
        self.n, self.n_features = X.shape[0] if index is None else len(index), X.shape[1]
        self.dtype, self.origin = np.dtype(dtype), origin

    @cached_property
    def norms(self) -> np.ndarray:  # type: ignore[override]
        found = np.empty(self.n, self.dtype)

        def measure(rows: slice) -> None:
            part = self.rows(rows)
            found[rows] = np.einsum("ij,ij->i", part, part)

        run_blocks(measure, split(self.n, constants.TILE_ROWS))
        return found

    @property
    def X(self) -> np.ndarray:  # type: ignore[override]
        """All rows in memory; for few of them."""
        return self.rows(slice(0, self.n))

    def rows(self, where: slice | np.ndarray) -> np.ndarray:
        """Some rows, in the type of the samples and less their origin."""
        part = self._mapped[where if self._index is None else self._index[where]]
        if self.origin is not None:
            part = np.subtract(part, self.origin, dtype=np.result_type(part.dtype, self.dtype))
        return np.ascontiguousarray(part, dtype=self.dtype)

    def in_memory(self) -> DenseSamples:
        held = object.__new__(DenseSamples)
        held.n, held.n_features, held.dtype, held.origin = (
            self.n, self.n_features, self.dtype, self.origin,
        )  # fmt: skip
        held.X, held.norms, held.largest_norm = self.X, self.norms, self.largest_norm
        return held

    def subset(self, index: np.ndarray | slice, dtype=None) -> DenseSamples:
        """Some samples, in memory if they are few; of another type where one is given."""
        index = np.arange(self.n)[index] if isinstance(index, slice) else index
        numbers = index if self._index is None else self._index[index]
        part = MappedSamples(
            self._mapped, self.dtype if dtype is None else dtype, self.origin, numbers
        )
        if part.dtype == self.dtype:
            part.norms, part.largest_norm = self.norms[index], self.largest_norm
        few = part.n <= constants.TILE_ROWS
        if few or part.n * part.n_features * part.dtype.itemsize <= COPIED_BYTES:
            return part.in_memory()
        return part

    part = subset

    def products(self, left, columns: slice, out: np.ndarray) -> None:
        for here, there in _parts(columns):
            np.matmul(left.X, self.rows(there).T, out=out[:, here])

    def rbf_from_products(self, left, columns: slice, products, gamma: float, largest: float):
        for here, there in _parts(columns):
            values = np.ascontiguousarray(products[:, here])
            norms = self.norms[there]
            differences().dense_rbf(
                values, left.norms, norms, gamma, largest, left.X, self.rows(there)
            )
            products[:, here] = values
        return products


def _parts(columns: slice) -> list[tuple[slice, slice]]:
    """Columns of a tile that are read at once: where they are in the tile, and in the samples."""
    start = columns.start
    inside = split(columns.stop - start, constants.TILE_COLUMNS)
    return [(part, slice(start + part.start, start + part.stop)) for part in inside]
