"""The kernel matrix of a problem whose samples are on the card."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.cuda import check_fits, is_cupy_array, load_cupy
from maxmargin.kernels.cuda.samples import CudaSamples
from maxmargin.kernels.cuda.tiles import tiles_serve
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.interface import KernelMatrix, put
from maxmargin.kernels.tiles import check_finite

# Kernel values of one launch.
BLOCK_VALUES = 2**27
# Kernel values that a card computes while one small product is launched and fetched (some 10 ms).
_VALUES_PER_LAUNCH = 1e9


class CudaKernelMatrix(KernelMatrix):
    """Kernel values on the card, of samples or of a precomputed matrix.

    Solvers on the card use the `on_card…` methods, which take and return arrays of CuPy. The
    others copy to the host, so that a certificate is computed as for any other matrix.

    Parameters
    ----------
    X : samples, dense or CSR, of NumPy or CuPy; or the kernel matrix itself
    function : the kernel function; None where X is the kernel matrix
    """

    def __init__(self, X, function: KernelFunction | None, parent=None, index=None):
        super().__init__(parent)
        self.cp = cp = load_cupy()
        self.function, self.X = function, X
        self.dtype = np.dtype(np.float32 if function is not None else np.float64)
        if parent is not None:
            self.samples, self.values = parent.samples, parent.values
            self.index = parent.index[cp.asarray(index)]
        elif function is None:
            self.samples = None
            check_fits(8 * X.shape[0] ** 2)
            self.values = (X if is_cupy_array(X) else cp.asarray(X)).astype(np.float64)
            self.index = cp.arange(X.shape[0])
        else:
            check_fits(12 * X.nnz if sp.issparse(X) else 8 * X.shape[0] * X.shape[1])
            self.samples, self.values = CudaSamples(X, function), None
            check_finite(function, cp.asnumpy(self.samples.norms(np.float64)))
            self.index = cp.arange(X.shape[0])
        self.n = len(self.index)

    def restrict(self, index, dtype=None):
        return CudaKernelMatrix(self.X, self.function, self, index)

    def positions(self):
        return self.cp.asnumpy(self.index)

    def on_card_block(self, rows, columns, dtype=np.float64, out=None):
        """K[rows][:, columns], in `out` or a new array."""
        self.counter.add(len(rows) * len(columns))
        if self.values is None:
            return self.samples.values(
                self.index[rows], self.samples, self.index[columns], dtype, out
            )
        values = self.values[self.index[rows]][:, self.index[columns]].astype(dtype)
        if out is None:
            return values
        out[...] = values
        return out

    def on_card_matrix(self, index, dtype, out) -> None:
        """K[index][:, index] in `out`."""
        n = len(index)
        if self.values is None and tiles_serve(self.samples):
            self.counter.add(n * n)
            own = self.index[index]
            self.samples.values(own, self.samples, own, dtype, out, symmetric=True)
            return
        for start in range(0, n, step := max(1, BLOCK_VALUES // n)):
            part = slice(start, start + step)
            self.on_card_block(index[part], index, dtype, out=out[part])

    def on_card_product(self, index, coefficients, dtype=np.float64, rows=None):
        """K[rows][:, index] @ coefficients, with kernel values of that precision."""
        of = self.index if rows is None else self.index[rows]
        self.counter.add(len(of) * len(index))
        if self.values is not None:
            return self.values[of][:, self.index[index]] @ coefficients
        return self.samples.expansion(of, self.samples, self.index[index], coefficients, dtype)

    def values_of_product(self, n_index, n_rows):
        return _VALUES_PER_LAUNCH + super().values_of_product(n_index, n_rows)

    def diagonal(self):
        cp = self.cp
        if self.function is None:
            return cp.asnumpy(self.values.diagonal()[self.index])
        return self.function.diagonal(cp.asnumpy(self.samples.norms(np.float64)[self.index]))

    def block(self, rows, columns=None, dtype=None, out=None, slots=None):
        cp = self.cp
        across = cp.arange(self.n) if columns is None else cp.asarray(columns)
        values = self.on_card_block(
            cp.asarray(rows), across, self.dtype if dtype is None else dtype
        )
        return put(cp.asnumpy(values), out, slots)

    def multiply(self, index, coefficients, rows=None, precise=False):
        if len(index) == 0:
            return np.zeros(self.n if rows is None else len(rows))
        cp = self.cp
        dtype = np.float64 if precise else np.float32
        of = None if rows is None else cp.asarray(rows)
        product = self.on_card_product(cp.asarray(index), cp.asarray(coefficients), dtype, of)
        return cp.asnumpy(product)
