"""The decision functions of a model, evaluated on the card."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.cuda import load_cupy
from maxmargin.kernels.cuda.samples import CudaSamples
from maxmargin.kernels.functions import KernelFunction

# Rows of X that are on the card at a time, in bytes of float64.
_CHUNK_BYTES = 2**30
# Rows of a tile of kernel values, where several tasks share it.
_TILE_ROWS = 2048


def expansion_on_card(
    function: KernelFunction, X, support_vectors, coefficients: np.ndarray
) -> np.ndarray:
    """Σ_s k(x, x_s) · coefficients[s] in float64 for the rows x of X, a chunk of them at a time.

    Parameters
    ----------
    X, support_vectors : dense arrays or CSR matrices; X may be an array of CuPy
    coefficients : array of shape (n_support_vectors, n_tasks)
    """
    cp = load_cupy()
    result = np.zeros((X.shape[0], coefficients.shape[1]))
    if not coefficients.size:
        return result
    basis = CudaSamples(support_vectors, function)
    weights, columns = cp.asarray(coefficients), cp.arange(basis.n)
    step = max(1, _CHUNK_BYTES // (8 * max(1, X.shape[1])))
    for start in range(0, X.shape[0], step):
        rows = CudaSamples(X[start : start + step], function, like=basis)
        part = result[start : start + step]
        if coefficients.shape[1] == 1:
            part[:, 0] = cp.asnumpy(rows.expansion(slice(None), basis, columns, weights[:, 0]))
        else:
            _fill_by_tiles(rows, basis, weights, part)
    return result


def _fill_by_tiles(rows: CudaSamples, basis: CudaSamples, weights, out: np.ndarray) -> None:
    """The same for many tasks: kernel values are computed once for all of them."""
    cp = rows.cp
    width = min(basis.n, basis.rows_of_tile(_TILE_ROWS))
    step = rows.rows_of_tile(width)
    for start in range(0, rows.n, step):
        index = cp.arange(start, min(rows.n, start + step))
        total = cp.zeros((len(index), weights.shape[1]))
        for first in range(0, basis.n, width):
            columns = cp.arange(first, min(basis.n, first + width))
            values = rows.values(index, basis, columns, np.float64)
            total += values @ weights[first : first + width]
        out[start : start + step] = cp.asnumpy(total)
