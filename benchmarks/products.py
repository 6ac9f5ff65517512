"""Where dense and sparse products of rows meet: nanoseconds a kernel value, by density.

    python benchmarks/products.py

RBF values of 512 against 1,024 samples on one thread, in tiles as the library computes
them: stored as rows, and summed up at once. `SPARSE_DENSITY` in constants.py is
below the densities at which the columns cross.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.kernels.samples.sparse import SparseSamples
from maxmargin.kernels.tiles import kernel_tile
from maxmargin.parallel import session

_ROWS, _COLUMNS = 512, 1024
_TURNS = 7
_RBF = KernelFunction("rbf", 0.01)


def nanoseconds(function: Callable[[], object]) -> float:
    """Best of several turns, divided by the number of values; the first turn is not counted."""
    function()
    best = np.inf
    for _ in range(_TURNS):
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best / (_ROWS * _COLUMNS) * 1e9


def measure(n_features: int, density: float, dtype) -> list[float]:
    """Rows of dense and of sparse samples, sums of dense and of sparse samples."""
    random = np.random.default_rng(0)
    shape = (_ROWS + _COLUMNS, n_features)
    X = random.uniform(size=shape) * (random.uniform(size=shape) < density)
    dense, sparse = DenseSamples(X, dtype), SparseSamples(sp.csr_array(X), dtype)
    columns = slice(_ROWS, _ROWS + _COLUMNS)
    few = np.arange(_ROWS)
    left_dense, left_sparse = dense.subset(few), sparse.subset(few)
    coefficients, sums = random.normal(size=_ROWS).astype(dtype), np.zeros(_COLUMNS)
    return [
        nanoseconds(lambda: kernel_tile(_RBF, left_dense, dense, columns)),
        nanoseconds(lambda: kernel_tile(_RBF, left_sparse, sparse, columns)),
        nanoseconds(lambda: coefficients @ kernel_tile(_RBF, left_dense, dense, columns)),
        nanoseconds(
            lambda: left_sparse.add_rbf_expansion(_RBF.gamma, coefficients, sparse, columns, sums)
        ),
    ]


def main() -> None:
    print("                              rows            sums")
    print("type     features density  dense sparse    dense sparse")
    with session(1):
        for dtype in (np.float32, np.float64):
            for n_features in (20, 54, 200, 784):
                for density in (0.1, 0.2, 0.3, 0.4, 0.5, 0.8):
                    a, b, c, d = measure(n_features, density, dtype)
                    print(
                        f"{np.dtype(dtype).name:8} {n_features:8} {density:7.1f} "
                        f"{a:6.2f} {b:6.2f}   {c:6.2f} {d:6.2f}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
