"""From a solution within tol to the exact one, where that is cheap.

Once the samples at their bounds are known, the others follow from a linear
system. Solving it costs little when they are few, and makes the answer
independent of the path of the solver: weights mean repetition, sparse means
dense, to the last digits.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from maxmargin.optimality import Certificate, certificate_from, certify
from maxmargin.problem import Problem

_MAX_FREE = 400
_ROUNDS = 20
_RIDGE = 1e-13


def equalise(K: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """The step d with Σd = 0 after which the residuals of the free samples are all equal.

    Solves the bordered system K d + b·1 = residual, Σd = 0. K may be singular
    (repeated samples): a ridge makes it factorable, and refinement takes the
    ridge's trace out of the answer again.
    """
    n = len(residual)
    ridge = _RIDGE * max(1.0, float(np.trace(K)))
    factor = cho_factor(K + ridge * np.eye(n), lower=True, check_finite=False)
    ones = np.ones(n)
    by_ones = cho_solve(factor, ones, check_finite=False)
    step = np.zeros(n)
    left = residual
    for _ in range(3):
        by_left = cho_solve(factor, left, check_finite=False)
        intercept = by_left.sum() / by_ones.sum()
        step = step + by_left - intercept * by_ones
        step -= step.mean()  # where K is singular the terms are huge, and Σd = 0 would be lost
        left = residual - K @ step
        left = left - left.mean()
    return step


def solve_free(
    problem: Problem, beta: np.ndarray, residual: np.ndarray, max_free: int = _MAX_FREE
) -> tuple[np.ndarray, np.ndarray]:
    """β and residual after the free samples' linear system is solved, with the true kernel.

    A step that would leave the box ends at the first bound that it meets; that
    sample is then free no longer, and the rest is solved again.
    """
    beta, residual = beta.copy(), residual.copy()
    for _ in range(_ROUNDS):
        free = np.flatnonzero((beta > problem.lower) & (beta < problem.upper))
        if not 1 < len(free) <= max_free:
            break
        try:
            step = equalise(problem.kernel.block(free), residual[free])
        except np.linalg.LinAlgError:  # an indefinite kernel
            break
        bound = np.where(step > 0, problem.upper[free], problem.lower[free])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(step != 0, (bound - beta[free]) / step, np.inf)
        length = min(1.0, ratios.min())
        target = np.where(ratios <= length, bound, beta[free] + length * step)
        residual -= problem.kernel.product(free, target - beta[free])
        beta[free] = target
        if length == 1.0:
            break
    return beta, residual


def polish(problem: Problem, certificate: Certificate) -> Certificate:
    """The certificate of a better β, or the given one where no better was found."""
    beta, residual = solve_free(problem, certificate.beta, certificate.residual)
    if np.array_equal(beta, certificate.beta):
        return certificate
    believed = certificate_from(problem, beta, residual)
    if believed.kkt_violation > max(certificate.kkt_violation, 0.1 * problem.tol):
        return certificate
    better = certify(problem, beta)
    return better if better.kkt_violation <= certificate.kkt_violation else certificate
