"""A Cholesky factor that grows: samples are appended, none is ever removed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin.solvers.sweeps.backend import Array, Backend


class PanelCholesky:
    """L of A = LLᵀ for a matrix that is given a panel of columns at a time.

    Panel k holds L[rows of k, all rows before] transposed, and the inverse of its
    diagonal block. Nearly all of the arithmetic is matrix products with contiguous
    operands, nothing is stored above the diagonal, and no index exceeds 31 bits,
    whatever the size of the matrix.
    """

    def __init__(self, backend: Backend):
        self.backend, self.xp = backend, backend.xp
        self.size = 0
        self._panels: list[tuple[int, Array, Array, Array]] = []

    def append(self, beside: Array, diagonal_block: Array) -> bool:
        """Add rows and columns to A; False, and no change, where A loses definiteness.

        Parameters
        ----------
        beside : A[:size, new], overwritten
        diagonal_block : A[new, new]
        """
        if self.size:
            self._forward(beside)
            diagonal_block = diagonal_block - beside.T @ beside
        made = self.backend.cholesky(diagonal_block)
        if made is None:
            return False
        self._panels.append((self.size, beside, *made))
        self.size += len(diagonal_block)
        return True

    def forward(self, right: Array) -> Array:
        """L⁻¹ right, for a matrix with few or many columns."""
        return self._forward(right.copy())

    def _forward(self, right: Array) -> Array:
        for start, panel, diagonal, inverse in self._panels:
            stop = start + len(diagonal)
            part = right[start:stop]
            if start:
                part = part - panel.T @ right[:start]
            right[start:stop] = inverse @ part
        return right

    def unit_rows(self, places: np.ndarray) -> Array:
        """(L⁻¹E)ᵀ for the columns E of the identity at some places."""
        unit = self.backend.unit_columns(self.size, places)
        return self.xp.ascontiguousarray(self._forward(unit).T)

    def backward(self, right: Array) -> Array:
        """L⁻ᵀ right."""
        right = right.copy()
        for start, panel, diagonal, inverse in reversed(self._panels):
            stop = start + len(diagonal)
            solved = inverse.T @ right[start:stop]
            right[start:stop] = solved
            if start:
                right[:start] -= panel @ solved
        return right


def factorise(
    backend: Backend,
    n: int,
    columns: Callable[[slice, slice], Array],
    factor: PanelCholesky | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> PanelCholesky | None:
    """The factor of an n × n matrix; None where it fails or is stopped.

    Parameters
    ----------
    columns : a function of two slices that returns that block of the matrix as a new array
    factor : the factor of the leading rows, if there is one; it grows
    """
    factor = PanelCholesky(backend) if factor is None else factor
    for start in range(factor.size, n, backend.panel):
        new = slice(start, min(n, start + backend.panel))
        beside = columns(slice(0, start), new)
        if should_stop() or not factor.append(beside, columns(new, new)):
            return None
    return factor
