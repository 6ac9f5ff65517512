"""Kernel functions, evaluated on whole blocks of inner products.

Every built-in kernel is a function of the inner product ⟨a, b⟩ and of the
squared norms of a and b. A block of kernel values is therefore one matrix
product (BLAS, or sparse) followed by one element-wise pass, which the compiled
leaves below do in place while the block is still in the processor's cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.kernels._elementwise import polynomial_inplace, rbf_inplace, sigmoid_inplace

BUILT_IN_KERNELS = ("linear", "poly", "rbf", "sigmoid")
# γ‖x‖² up to which RBF values of neighbours follow from inner products in float32 and in float64:
# their relative error, twice this times the rounding unit, is 2⁻¹⁰ and 2⁻³² there.
_LARGEST_PRODUCT = {"f": 2.0**12, "d": 2.0**19}


@dataclass(frozen=True)
class KernelFunction:
    """One of the four built-in kernels with its parameters (scikit-learn's meaning)."""

    name: str
    gamma: float = 1.0
    coef0: float = 0.0
    degree: int = 3

    @property
    def translation_invariant(self) -> bool:
        """Whether k(a + t, b + t) = k(a, b), so that centred data may be used."""
        return self.name == "rbf"

    def largest_norm(self, dtype: np.dtype) -> float:
        """The squared norm up to which inner products in `dtype` are exact enough.

        Beyond it ‖a‖² + ‖b‖² − 2⟨a, b⟩ of two neighbours cancels too many digits.
        """
        if self.name != "rbf" or self.gamma <= 0:
            return np.inf
        return _LARGEST_PRODUCT[dtype.char] / self.gamma

    def from_products(
        self, products: np.ndarray, row_norms: np.ndarray, column_norms: np.ndarray
    ) -> np.ndarray:
        """Turn inner products into kernel values, in place.

        Parameters
        ----------
        products : C-contiguous array of shape (n_rows, n_columns)
            Inner products ⟨a_i, b_j⟩; overwritten.
        row_norms, column_norms : arrays
            Squared norms of the a_i and of the b_j, of the same dtype.
        """
        of_dtype = products.dtype.type
        if self.name == "rbf":
            rbf_inplace(products, row_norms, column_norms, of_dtype(self.gamma))
        elif self.name == "poly":
            polynomial_inplace(products, of_dtype(self.gamma), of_dtype(self.coef0), self.degree)
        elif self.name == "sigmoid":
            sigmoid_inplace(products, of_dtype(self.gamma), of_dtype(self.coef0))
        return products

    def diagonal(self, norms: np.ndarray) -> np.ndarray:
        """Kernel values k(a, a) from the squared norms of the a."""
        if self.name == "rbf":
            return np.ones_like(norms)
        if self.name == "poly":
            return (self.gamma * norms + self.coef0) ** self.degree
        if self.name == "sigmoid":
            return np.tanh(self.gamma * norms + self.coef0)
        return norms.copy()
