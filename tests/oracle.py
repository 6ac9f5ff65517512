"""Slow and obvious versions of what the package does fast; nothing here imports it.

Everything is dense, in float64, and written as the textbook formula, in α-form
where the package works in β-form: a mistake would have to be made twice.
"""

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose


def kernel_values(A, B, kernel="rbf", gamma=1.0, coef0=0.0, degree=3):
    """k(a, b) for all rows a of A and b of B, from the formulas of scikit-learn's guide."""
    A, B = _dense(A), _dense(B)
    products = np.array([[float(np.sum(a * b)) for b in B] for a in A])
    if kernel == "linear":
        return products
    if kernel == "poly":
        return (gamma * products + coef0) ** degree
    if kernel == "sigmoid":
        return np.tanh(gamma * products + coef0)
    distances = np.array([[float(np.sum((a - b) ** 2)) for b in B] for a in A])
    return np.exp(-gamma * distances)


def _dense(X):
    return (X.toarray() if sp.issparse(X) else np.asarray(X)).astype(np.float64)


def kkt_violation(K, y, alpha, costs):
    """m(α) − M(α) of LIBSVM's paper, for labels ±1 and 0 ≤ α ≤ costs."""
    slope = y * (1 - y * (K @ (y * alpha)))
    up = np.where(y > 0, alpha < costs, alpha > 0)
    low = np.where(y > 0, alpha > 0, alpha < costs)
    if not up.any() or not low.any():
        return 0.0
    return max(0.0, slope[up].max() - slope[low].min())


def dual_objective(K, y, alpha):
    """½αᵀQα − Σα with Q_ij = y_i y_j K_ij, which is minimised."""
    return 0.5 * (y * alpha) @ K @ (y * alpha) - alpha.sum()


def primal_objective(K, y, alpha, costs, intercept):
    """½‖w‖² + Σ C_i max(0, 1 − y_i f(x_i)) of the model with these α and intercept."""
    margins = y * (K @ (y * alpha) + intercept)
    return 0.5 * (y * alpha) @ K @ (y * alpha) + costs @ np.maximum(0, 1 - margins)


def solve_dual(K, y, costs, tol=1e-10, max_steps=200_000):
    """α of the optimum, by the plainest sequential minimal optimisation there is.

    Each step takes the maximal violating pair; nothing is cached or shrunk, and
    the gradient is computed anew every few hundred steps.
    """
    y, costs = np.asarray(y, float), np.asarray(costs, float)
    alpha = np.zeros(len(y))
    for step in range(max_steps):
        if step % 200 == 0:
            slope = y - K @ (y * alpha)
        up = np.where(y > 0, alpha < costs, alpha > 0)
        low = np.where(y > 0, alpha > 0, alpha < costs)
        i = int(np.argmax(np.where(up, slope, -np.inf)))
        j = int(np.argmin(np.where(low, slope, np.inf)))
        if slope[i] - slope[j] <= tol:
            return alpha
        room_i = costs[i] - alpha[i] if y[i] > 0 else alpha[i]
        room_j = alpha[j] if y[j] > 0 else costs[j] - alpha[j]
        curvature = max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
        length = min((slope[i] - slope[j]) / curvature, room_i, room_j)
        alpha[i] = _moved(alpha[i], y[i] * length, room_i == length, costs[i])
        alpha[j] = _moved(alpha[j], -y[j] * length, room_j == length, costs[j])
        slope = slope - length * (K[:, i] - K[:, j])
    raise AssertionError(f"the oracle did not reach {tol} in {max_steps} steps")


def _moved(alpha, change, to_bound, cost):
    if to_bound:
        return cost if change > 0 else 0.0
    return alpha + change


def alphas(model, n_samples):
    """The α of all training samples of a fitted binary classifier: yα without its sign."""
    coefficients = model.dual_coef_
    coefficients = coefficients.toarray() if sp.issparse(coefficients) else coefficients
    # Samples come class by class, and the second class has the positive sign.
    classes = np.repeat([-1.0, 1.0], model.n_support_)
    alpha = np.zeros(n_samples)
    alpha[model.support_] = classes * coefficients[0]
    return alpha


def signs(model, y):
    """Labels ±1 in scikit-learn's sense: +1 is the second class."""
    return np.where(np.asarray(y) == model.classes_[1], 1.0, -1.0)


def check_optimal(model, K, y, costs, tol):
    """Assert that a fitted model is feasible and optimal to tol, and that its report is true."""
    alpha, labels = alphas(model, len(y)), signs(model, y)
    assert (alpha >= 0).all() and (alpha <= costs * (1 + 1e-12)).all()
    assert abs(labels @ alpha) <= 1e-9 * costs.sum()
    violation = kkt_violation(K, labels, alpha, costs)
    assert violation <= tol * (1 + 1e-6) + 1e-9
    report = model.fit_report_
    assert_allclose(report.kkt_violation, violation, atol=1e-9)
    assert_allclose(report.objective, dual_objective(K, labels, alpha), rtol=1e-9)


def sparse_containers(X):
    """The same CSR matrix in every form that a user may have."""
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    backwards = np.concatenate(
        [np.arange(X.indptr[i], X.indptr[i + 1])[::-1] for i in range(X.shape[0])]
    )
    twice = (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr)
    return {
        "csr64": wide,
        "csc": X.tocsc(),
        "coo": X.tocoo(),
        "matrix": sp.csr_matrix(X),
        "unsorted": sp.csr_array((X.data[backwards], X.indices[backwards], X.indptr), X.shape),
        "duplicates": sp.csr_array(twice, X.shape),
    }
