"""Judges a fitted model by the textbook; nothing here imports the package.

Everything is computed from the public fitted attributes and the training data, one pair
of samples at a time, in the widest floating-point type that there is.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

WIDE = np.longdouble
EPS = float(np.finfo(np.float64).eps)
# Roundings of one kernel value, and of a sum over it, that a float64 certificate may lose.
ROUNDINGS = 32


def kernel_and_rounding(X, params: dict, weights) -> tuple[np.ndarray, np.ndarray]:
    """K, and how much of it float64 may lose in units of its own rounding."""
    kernel = params["kernel"]
    if callable(kernel):
        K = np.asarray(kernel(X, X), WIDE)
        return K, np.abs(K)
    if kernel == "precomputed":
        K = np.asarray(X, WIDE)
        return K, np.abs(K)
    X = (X.toarray() if sp.issparse(X) else X).astype(WIDE)
    products, sizes = X @ X.T, np.abs(X) @ np.abs(X).T
    if kernel == "linear":
        return products, sizes
    gamma = _gamma(X, params["gamma"], weights)
    if kernel == "rbf":
        distances = np.array([((X - x) ** 2).sum(axis=1) for x in X])
        K = np.exp(-gamma * distances)
        # The distance may be computed from the norms around any centre within the data.
        centred = X - X.mean(axis=0)
        norms = (centred**2).sum(axis=1)
        return K, K * (1 + gamma * (norms[:, np.newaxis] + norms + 2 * sizes * 0))
    inner = gamma * products + params["coef0"]
    lost = gamma * sizes + abs(params["coef0"])
    if kernel == "sigmoid":
        K = np.tanh(inner)
        return K, np.abs(K) + (1 - K**2) * lost
    degree = params["degree"]
    K = inner**degree
    if degree == 0:
        return K, np.abs(K)
    return K, (degree + 1) * np.maximum(np.abs(inner), lost) ** (degree - 1) * lost


def _gamma(X, gamma, weights):
    if gamma == "auto":
        return WIDE(1) / X.shape[1]
    if gamma != "scale":
        return WIDE(gamma)
    weights = np.ones(len(X)) if weights is None or np.ptp(weights) == 0 else weights
    weights = weights.astype(WIDE)[:, np.newaxis]
    total = weights.sum() * X.shape[1]
    mean = (weights * X).sum() / total
    variance = (weights * (X - mean) ** 2).sum() / total
    return 1 / (X.shape[1] * variance) if variance > 0 else WIDE(1)


def binary_problems(model, y, multi_class: str):
    """(samples, labels ±1, β, intercept) of each binary problem of a fitted model.

    Labels are those of the class that a positive decision speaks for.
    """
    classes, support = model.classes_, model.support_
    coefficients = model.dual_coef_
    coefficients = coefficients.toarray() if sp.issparse(coefficients) else coefficients
    intercepts = np.atleast_1d(model.intercept_)
    n = len(y)
    if len(classes) == 2:
        beta = np.zeros(n)
        beta[support] = coefficients[0]
        yield np.arange(n), np.where(y == classes[1], 1.0, -1.0), beta, intercepts[0]
        return
    if multi_class == "ovr":
        for k, label in enumerate(classes):
            beta = np.zeros(n)
            beta[support] = coefficients[k]
            yield np.arange(n), np.where(y == label, 1.0, -1.0), beta, intercepts[k]
        return
    for k, (i, j) in enumerate(combinations(range(len(classes)), 2)):
        beta = np.zeros(n)
        of_i, of_j = y[support] == classes[i], y[support] == classes[j]
        beta[support[of_i]] = coefficients[j - 1][of_i]
        beta[support[of_j]] = coefficients[i][of_j]
        both = np.flatnonzero((y == classes[i]) | (y == classes[j]))
        yield both, np.where(y[both] == classes[i], 1.0, -1.0), beta[both], intercepts[k]


def costs_of(params: dict, y, weights) -> np.ndarray:
    """C of each sample, all weights included."""
    costs = np.full(len(y), params["C"])
    if params["class_weight"] == "balanced":
        labels, counts = np.unique(y, return_counts=True)
        share = dict(zip(labels, len(y) / (len(labels) * counts)))
        costs = costs * np.array([share[label] for label in y])
    if weights is not None:
        with np.errstate(invalid="ignore"):
            costs = np.where(weights > 0, costs * weights, 0.0)
    return costs


def complaints(
    model, X, y, weights, params: dict, *, box: bool, exact: bool, solves_all: bool = False
) -> list[str]:
    """What is wrong with a fitted model; an empty list where nothing is.

    Parameters
    ----------
    box : whether β must lie within the bounds that C sets, and sum to zero
    exact : whether the solver promises the optimum where it says "converged"
    solves_all : whether it promises to converge wherever rounding allows it
    """
    K, rounding = kernel_and_rounding(X, params, weights)
    costs, found = costs_of(params, y, weights), []
    reports = list(model.fit_report_)
    problems = list(binary_problems(model, y, params["multi_class"]))
    if len(reports) != len(problems):
        return [f"{len(reports)} reports for {len(problems)} problems"]
    for report, (index, labels, beta, intercept) in zip(reports, problems):
        part = np.ix_(index, index)
        found += [
            f"{report.problem}: {sentence}"
            for sentence in _binary(
                K[part], rounding[part], labels, beta, float(intercept), costs[index], report,
                params["tol"], box, exact, solves_all,
            )
        ]  # fmt: skip
    return found


def _extremes(residual, labels, alpha, costs):
    """The highest residual of those that may grow in β, the lowest of those that may shrink."""
    takes_part = costs > 0
    up = takes_part & np.where(labels > 0, alpha < costs, alpha > 0)
    low = takes_part & np.where(labels > 0, alpha > 0, alpha < costs)
    return (residual[up].max(), residual[low].min()) if up.any() and low.any() else None


def _float64_can_prove(K, rounding, labels, costs, tol) -> bool:
    """Whether the optimum has a residual that float64 arithmetic can tell from noise.

    A sample at its bound C leaves C·K_ii of rounding. Where that is too much, the optimum can
    be proven only if no sample needs its bound: if small coefficients give all a margin of 1, and
    no direction of negative curvature leads away from there.
    """
    if ROUNDINGS * EPS * float((costs * rounding.diagonal()).max()) < 0.01 * tol:
        return True
    n, scale = len(labels), float(np.abs(K).max())
    values = (K / scale).astype(np.float64)
    centred = values - values.mean(axis=0) - values.mean(axis=1)[:, np.newaxis] + values.mean()
    if np.linalg.eigvalsh(centred).min() < -1e-9:
        return False
    margins = labels[:, np.newaxis] * np.hstack([values, -values, np.ones((n, 1))])
    bounds = [(0, cost) for cost in np.tile(costs * scale, 2)] + [(None, None)]
    prices = np.append(np.ones(2 * n), 0.0)
    found = linprog(prices, -margins, -np.ones(n), bounds=bounds)
    if found.status != 0:
        return False
    size = (found.x[:n] + found.x[n : 2 * n]) / scale
    return ROUNDINGS * EPS * float((rounding @ size).max()) < 0.01 * tol


def _binary(K, rounding, labels, beta, intercept, costs, report, tol, box, exact, solves_all):
    if not (np.isfinite(beta).all() and np.isfinite(intercept)):
        yield "coefficients or intercept are not finite"
        return
    alpha = labels * beta
    lost = ROUNDINGS * EPS * float((rounding @ np.abs(beta)).max(initial=0.0)) + 16 * EPS
    if box:
        if alpha.min() < 0:
            yield f"α = {alpha.min():.3g} is negative"
        if (alpha > costs * (1 + 8 * EPS)).any():
            yield f"α exceeds C by {(alpha - costs).max():.3g}"
        if abs(beta.sum()) > 1e-9 * np.abs(beta).sum():
            yield f"Σβ = {beta.sum():.3g} where Σ|β| = {np.abs(beta).sum():.3g}"
    if not box:
        return
    residual = labels - K @ beta
    # The weights of a cost may be multiplied in any order.
    worst = [_extremes(residual, labels, alpha, costs * (1 - r * EPS)) for r in (0, 8)]
    if worst[1] is None:
        yield "no sample can move: β cannot be feasible"
        return
    highest, lowest = worst[1]
    violation = float(max(0.0, highest - lowest))
    if report.status == "converged" and exact and not violation <= tol + lost:
        yield f"converged at violation {violation:.4g}, tol {tol:g}, rounding {lost:.1g}"
    promised = report.status == "stalled" and solves_all and lost < 0.01 * tol
    if promised and _float64_can_prove(K, rounding, labels, costs, tol):
        yield f"stalled at {violation:.4g}, though rounding is but {lost:.1g}"
    between = [float(max(0.0, pair[0] - pair[1])) for pair in worst if pair is not None]
    if not any(abs(report.kkt_violation - v) <= lost + 1e-9 * v for v in between):
        yield f"reported violation {report.kkt_violation:.6g}, it is {violation:.6g} ± {lost:.1g}"
    ends = [float(end) for pair in worst if pair is not None for end in pair]
    converged = report.status == "converged" and exact
    if converged and not min(ends) - lost <= intercept <= max(ends) + lost:
        yield f"intercept {intercept:.6g} outside [{min(ends):.6g}, {max(ends):.6g}]"
    objective = float(-0.5 * (beta @ (labels + residual)))
    size = lost * np.abs(beta).sum() + 1e-9 * abs(objective) + 1e-300
    if not abs(report.objective - objective) <= size:
        yield f"reported objective {report.objective:.10g}, it is {objective:.10g}"
