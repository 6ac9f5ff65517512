"""From a solution within tol to the exact one, where that is cheap.

Once the samples at their bounds are known, the others follow from a linear
system. Solving it costs little when they are few, and makes the answer
independent of the path of the solver: weights mean repetition, sparse means
dense, to the last digits.
"""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.optimality import Certificate, certify
from maxmargin.problem import Problem
from maxmargin.solvers.common.bordered import BorderedSystem, Cholesky

# Systems that are solved at most, each without the sample whose bound the one before met, and
# solutions of each: the first and its iterative refinements.
_ROUNDS = 20
_REFINEMENTS = 3
# A sum of squared errors that is nothing but rounding.
_WORTH_REFINING = 1e-28


def equalise(K: np.ndarray, residual: np.ndarray, groups: np.ndarray | None = None) -> np.ndarray:
    """The step d with Σd = 0 after which the residuals of the free samples are all equal.

    Solves the bordered system K d + b·1 = residual, Σd = 0. K may be singular
    (repeated samples): a ridge makes it factorable, and refinement takes the
    ridge's trace out of the answer again. With two `groups`, one column each, the
    sums and the equal residuals are those within a group.
    """
    n = len(residual)
    ones = np.ones((n, 1)) if groups is None else groups
    system = BorderedSystem(Cholesky.with_ridge(K).solve, ones)
    means = ones / ones.sum(axis=0)
    step, left, before = np.zeros(n), residual, np.inf
    for _ in range(_REFINEMENTS):
        step += system.solve(left)[0]
        # Where K is singular, terms are huge and Σd = 0 would be lost.
        step -= ones @ (step @ means)
        left = residual - K @ step
        left -= ones @ (left @ means)
        error = float(left @ left)
        if not _WORTH_REFINING < error < before:
            break
        before = error
    return step


def solve_free(
    problem: Problem,
    beta: np.ndarray,
    residual: np.ndarray,
    max_free: int | None = None,
) -> np.ndarray:
    """β after the free samples' linear system is solved, with the true kernel.

    A step that would leave the box, or pass through a kink, ends at the first bound
    that it meets; that sample is then free no longer, and the rest is solved again.
    """
    lower, upper = problem.pieces(beta)
    free = np.flatnonzero((beta > lower) & (beta < upper))
    if not 1 < len(free) <= (max_free or constants.POLISHED_SAMPLES):
        return beta
    K, inside = problem.kernel.block(free, free, dtype=np.float64), np.arange(len(free))
    lower, upper = lower[free], upper[free]
    new, pull, block = beta[free], problem.slopes(beta[free], residual[free]).copy(), K
    for _ in range(_ROUNDS):
        try:
            step = equalise(block, pull[inside], problem.groups(beta[free[inside]]))
        except np.linalg.LinAlgError:  # an indefinite kernel
            break
        bounds = np.where(step > 0, upper[inside], lower[inside])
        ratios = np.full(len(step), np.inf)
        np.divide(bounds - new[inside], step, out=ratios, where=step != 0)
        length = min(1.0, ratios.min())
        target = np.where(ratios <= length, bounds, new[inside] + length * step)
        change, new[inside] = target - new[inside], target
        if length == 1.0:
            break
        pull -= K[:, inside] @ change
        inside = inside[ratios > length]
        if len(inside) < 2:
            break
        block = K[np.ix_(inside, inside)]
    beta = beta.copy()
    beta[free] = new
    return beta


def polish(certificate: Certificate) -> Certificate:
    """The certificate of a better β, or the given one where no better was found."""
    problem = certificate.problem
    beta = solve_free(problem, certificate.beta, certificate.residual)
    if np.array_equal(beta, certificate.beta):
        return certificate
    better = certify(problem, beta, since=certificate)
    return better if better.kkt_violation <= certificate.kkt_violation else certificate
