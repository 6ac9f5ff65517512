"""The textbook problems of the five support vector machines; nothing here imports the package.

Each has its primal objective, evaluated for a model that is given by its public attributes, and
its dual in the α of the papers (with α* beside it for regression), solved by a general method.
A dual solution whose objective is that of a primal one is optimal, whoever found it.
"""

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize


def coefficients(model, n_samples):
    """β of all training samples, positive for the second class of two."""
    beta = np.zeros(n_samples)
    stored = model.dual_coef_
    beta[model.support_] = (stored.toarray() if sp.issparse(stored) else stored)[0]
    return beta


def svr_primal(K, targets, beta, intercept, costs, epsilon):
    """½‖w‖² + Σ C max(0, |error| − ε)."""
    errors = np.abs(targets - K @ beta - intercept)
    return 0.5 * beta @ K @ beta + costs @ np.maximum(errors - epsilon, 0)


def nu_svr_primal(K, targets, beta, intercept, costs, nu, epsilon):
    """The same with ε a variable, whose price is νΣC."""
    return svr_primal(K, targets, beta, intercept, costs, epsilon) + nu * costs.sum() * epsilon


def one_class_primal(K, beta, rho, weights, nu):
    """½‖w‖² + Σ w max(0, ρ − f) − νρΣw."""
    slack = np.maximum(rho - K @ beta, 0)
    return 0.5 * beta @ K @ beta + weights @ slack - nu * weights.sum() * rho


def nu_svc_primal(K, y, beta, intercept, rho, weights, nu):
    """½‖w‖² + Σ w max(0, ρ − y f) − νρΣw."""
    slack = np.maximum(rho - y * (K @ beta + intercept), 0)
    return 0.5 * beta @ K @ beta + weights @ slack - nu * weights.sum() * rho


def svr_dual(K, targets, costs, epsilon):
    """The least ½βᵀKβ + εΣ(α + α*) − yᵀβ with β = α − α*, Σβ = 0."""
    return _regression(K, targets, costs, epsilon, [])


def nu_svr_dual(K, targets, costs, nu):
    """The same without ε, and with Σ(α + α*) ≤ νΣC."""
    limit = {"type": "ineq", "fun": lambda a: nu * costs.sum() - a.sum(),
             "jac": lambda a: -np.ones(len(a))}  # fmt: skip
    return _regression(K, targets, costs, 0.0, [limit])


def _regression(K, targets, costs, epsilon, constraints):
    n = len(targets)
    sides = np.repeat([1.0, -1.0], n)

    def value(a):
        beta = a[:n] - a[n:]
        return 0.5 * beta @ K @ beta + epsilon * a.sum() - targets @ beta

    def gradient(a):
        slope = K @ (a[:n] - a[n:]) - targets
        return np.concatenate([slope, -slope]) + epsilon

    balanced = {"type": "eq", "fun": lambda a: sides @ a, "jac": lambda a: sides}
    return _least(value, gradient, np.zeros(2 * n), np.tile(costs, 2), [balanced, *constraints])


def one_class_dual(K, weights, nu):
    """The least ½αᵀKα with 0 ≤ α ≤ w, Σα = νΣw."""
    total = nu * weights.sum()
    fixed = {"type": "eq", "fun": lambda a: a.sum() - total, "jac": lambda a: np.ones(len(a))}
    return _least(lambda a: 0.5 * a @ K @ a, lambda a: K @ a, nu * weights, weights, [fixed])


def nu_svc_dual(K, y, weights, nu):
    """The least ½αᵀQα with 0 ≤ α ≤ w, yᵀα = 0, Σα = νΣw."""
    Q, total = np.outer(y, y) * K, nu * weights.sum()
    constraints = [
        {"type": "eq", "fun": lambda a: a.sum() - total, "jac": lambda a: np.ones(len(a))},
        {"type": "eq", "fun": lambda a: y @ a, "jac": lambda a: y},
    ]
    start = (
        0.5
        * total
        * np.where(y > 0, weights / weights[y > 0].sum(), weights / weights[y < 0].sum())
    )
    return _least(lambda a: 0.5 * a @ Q @ a, lambda a: Q @ a, start, weights, constraints)


def _least(value, gradient, start, upper, constraints):
    found = minimize(
        value, start, jac=gradient, bounds=[(0.0, each) for each in upper],
        constraints=constraints, method="SLSQP", options={"maxiter": 2000, "ftol": 1e-14},
    )  # fmt: skip
    assert found.success, found.message
    return found.fun
