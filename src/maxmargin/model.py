"""The fitted model as a function: a kernel expansion, evaluated in blocks."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.feature_matrix import expansion
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import as_samples
from maxmargin.kernels.user_values import call_kernel


def kernel_expansion(
    kernel, X, support_vectors, coefficients: np.ndarray, dtype=np.float64, index=None
) -> np.ndarray:
    """Σ_s k(x, x_s) · coefficients[s] for the rows x of X, by tiles of kernel values.

    Parameters
    ----------
    kernel : KernelFunction
    X, support_vectors : dense arrays or CSR matrices
    coefficients : array of shape (n_support_vectors, n_tasks)
    dtype : precision of the kernel values
    index : which rows of X; None for all
    """
    if coefficients.shape[0] == 0:
        return np.zeros((X.shape[0] if index is None else len(index), coefficients.shape[1]))
    assert isinstance(kernel, KernelFunction)
    if kernel.name == "linear":
        # One weight vector a task: the support vectors need not be met one by one.
        X = X if index is None else X[index]
        return np.asarray(X @ (support_vectors.T @ coefficients))
    basis = as_samples(support_vectors, dtype, centre=kernel.translation_invariant)
    return expansion(kernel, X, basis, coefficients, index)


def precomputed_expansion(K: np.ndarray, support: np.ndarray, coefficients: np.ndarray):
    """The same where column s of K holds the kernel values of training sample s."""
    return K[:, support] @ coefficients


def callable_expansion(function, X, X_fit, support: np.ndarray, coefficients: np.ndarray):
    """The same for a user's function, which sees all training samples as in scikit-learn."""
    return precomputed_expansion(call_kernel(function, X, X_fit), support, coefficients)
