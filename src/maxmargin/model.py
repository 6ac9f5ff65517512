"""The fitted model as a function: a kernel expansion, evaluated in blocks."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from maxmargin.kernels.cuda.expansion import decisions_on_card as decisions_on_card
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.tiles import expansion, samples_for
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
        # One weight vector per task replaces all support vectors.
        X = X if index is None else X[index]
        both_sparse = sp.issparse(X) and sp.issparse(support_vectors)
        if both_sparse and X.shape[1] > X.nnz + support_vectors.nnz:
            X, support_vectors = _features_of(support_vectors, X)
        return np.asarray(X @ (support_vectors.T @ coefficients))
    basis = samples_for(kernel, support_vectors, dtype)
    return expansion(kernel, X, basis, coefficients, index)


def _features_of(vectors, X):
    """Samples and support vectors without the features that no support vector has.

    Their inner products stay what they are, and a weight vector is no longer as wide as X.
    """
    features, columns = np.unique(vectors.indices, return_inverse=True)
    at = np.searchsorted(features, X.indices)
    known = at < len(features)
    known[known] = features[at[known]] == X.indices[known]
    rows = np.concatenate([[0], np.cumsum(known)])[X.indptr]
    X = sp.csr_array((X.data[known], at[known], rows), shape=(X.shape[0], len(features)))
    vectors = sp.csr_array(
        (vectors.data, columns, vectors.indptr), shape=(vectors.shape[0], len(features))
    )
    return X, vectors


def precomputed_expansion(K: np.ndarray, support: np.ndarray, coefficients: np.ndarray):
    """The same where column s of K holds the kernel values of training sample s."""
    return K[:, support] @ coefficients


def callable_expansion(function, X, X_fit, support: np.ndarray, coefficients: np.ndarray):
    """The same for a user's function, which sees all training samples as in scikit-learn."""
    return precomputed_expansion(call_kernel(function, X, X_fit), support, coefficients)
