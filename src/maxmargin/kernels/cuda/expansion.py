"""The decision functions of a model, evaluated on the card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from maxmargin.kernels.cuda import load_cupy
from maxmargin.kernels.cuda.samples import CudaSamples
from maxmargin.kernels.functions import KernelFunction

# Rows of X, or of decision values, that are on the card at a time, in bytes of float64.
_CHUNK_BYTES = 2**30
# Rows of a tile of kernel values, where several tasks share it.
_TILE_ROWS = 2048


def decisions_on_card(
    function: KernelFunction,
    X,
    support_vectors,
    blocks: Iterable[tuple[slice, np.ndarray, np.ndarray]],
    intercept: np.ndarray,
) -> Iterator[np.ndarray]:
    """Decision values in float64, of shape (n_tasks, n_rows) for a chunk of rows at a time.

    Parameters
    ----------
    X, support_vectors : dense arrays or CSR matrices; X may be an array of CuPy
    blocks : support vectors, their coefficients of shape (n_vectors, n), and the n tasks that
        these are for
    intercept : array of shape (n_tasks,)
    """
    cp = load_cupy()
    basis = CudaSamples(support_vectors, function) if support_vectors.shape[0] else None
    on_card = [
        (cp.arange(part.start, part.stop), cp.asarray(np.ascontiguousarray(weights)),
         cp.asarray(tasks))
        for part, weights, tasks in blocks if part.stop > part.start
    ]  # fmt: skip
    step = max(1, _CHUNK_BYTES // (8 * max(1, X.shape[1], len(intercept))))
    for start in range(0, max(1, X.shape[0]), step):
        rows = CudaSamples(X[start : start + step], function, like=basis)
        values = cp.zeros((len(intercept), rows.n))
        for columns, weights, tasks in on_card:
            _add(rows, basis, columns, weights, tasks, values)
        yield cp.asnumpy(values) + intercept[:, None]


def _add(rows: CudaSamples, basis, columns, weights, tasks, values) -> None:
    """Add what some support vectors contribute to some tasks; their kernel values serve all."""
    cp = rows.cp
    if len(tasks) == 1:
        values[int(tasks[0])] += rows.expansion(slice(None), basis, columns, weights[:, 0])
        return
    width = min(len(columns), basis.rows_of_tile(_TILE_ROWS))
    step = rows.rows_of_tile(width)
    for start in range(0, rows.n, step):
        chosen = slice(start, min(rows.n, start + step))
        index = cp.arange(chosen.start, chosen.stop)
        for first in range(0, len(columns), width):
            part = slice(first, first + width)
            tile = rows.values(index, basis, columns[part], np.float64)
            values[tasks, chosen] += (tile @ weights[part]).T
