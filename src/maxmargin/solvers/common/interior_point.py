"""Compiled: a primal-dual interior-point method for kernel matrices of low rank.

SMO steps crawl where many samples have few features: what one pair gains, others lose again. Here
each iteration solves one linear system for all samples. With K = VVᵀ it has the size of the rank
(Fine and Scheinberg, 2001), and 10 to 40 iterations suffice, whatever C is. Their directions are
Mehrotra's: a predictor, and a corrector for what the predictor neglects.

β is the difference of two parts, positive and negative, each between zero and its bound. So the
tube of a regression is a cost of both; of a classifier's sample, one part has no range.
"""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants, optimality
from maxmargin.compiled import inner, leaf, part_of
from maxmargin.problem import Problem
from maxmargin.solvers.common import reweighted_steps

# Iterations at most: a solve that takes more has lost its way to rounding.
_MOST_ITERATIONS = 60
# The shortest step after which another iteration is tried.
_SHORTEST_STEP = 1e-6
# Part of the way to the nearest bound that a step takes.
_PART_OF_WAY = 0.995
# A residual this far from the value that a free sample has, in parts of tol, settles its β.
_SETTLED = 0.25
# Complementarity, in parts of tol times the largest range of a β, from which on β is rounded.
_WORTH_ROUNDING = 0.1

# Divisions follow NumPy's rules, not Python's: a β that rounding puts on its bound makes a number
# infinite, and no factor or step comes of it.
_extremes = part_of(optimality.extremes)
_cholesky = part_of(reweighted_steps.cholesky)
_solve_factored = part_of(reweighted_steps.solve_factored)


def steps_before(V: np.ndarray) -> int:
    """SMO steps that a problem may take before this method takes over."""
    return constants.STEPS_BEFORE_INTERIOR_POINT + V.shape[1] ** 2 // 2


def by_interior_point(
    problem: Problem, X: np.ndarray, tol: float, max_iter: float, beta: np.ndarray
) -> int:
    """Set β to the solution of a problem with K = XXᵀ, where it is found; returns iterations.

    As the sum of β is fixed, the origin of X may be moved to its mean, where products keep their
    digits: that changes the linear term.
    """
    total, V = float(sum(problem.totals)), X - X.mean(axis=0)
    linear = problem.linear - total * (V @ X.mean(axis=0))
    max_iter = int(min(max_iter, _MOST_ITERATIONS))
    return interior_point(
        V, linear, problem.lower, problem.upper, problem.epsilon, total, tol, max_iter, beta
    )[0]


@leaf(error_model="numpy")
def interior_point(V, linear, lower, upper, epsilon, total, tol, max_iter, beta):
    """Minimise ½‖Vᵀβ‖² − pᵀβ + ε‖β‖₁ for lower ≤ β ≤ upper and Σβ = total.

    A point has the two parts of β, the multipliers of their lower and of their upper bounds.

    Parameters
    ----------
    V : array of shape (n, rank)
    tol : the KKT violation of a solution
    max_iter : iterations at most, beside the method's own limit
    beta : set to the solution; left as it is where none is found

    Returns
    -------
    iterations, and whether they led to a solution
    """
    n, rank = V.shape
    point, direction, goals = np.empty((3, 2, n)), np.empty((3, 2, n)), np.empty((2, 2, n))
    residual, weights, by_ones = np.empty(n), np.empty((3, n)), np.empty(n)
    scaled, factor, bounds = np.empty((n, rank)), np.empty((rank, rank)), np.empty((2, n))
    for i in range(n):
        bounds[0, i], bounds[1, i] = upper[i], -lower[i]
    largest = max(bounds[0].max(), bounds[1].max())
    level = _start(V, linear, bounds, point, residual)
    for iteration in range(min(max_iter, _MOST_ITERATIONS)):
        mu = _complementarity(point, bounds)
        if mu <= _WORTH_ROUNDING * tol * largest and _round(
            V, linear, lower, upper, epsilon, total, point, residual, level, tol, goals
        ):
            for i in range(n):
                beta[i] = goals[0, 0, i]
            return iteration, True
        _weigh(point, bounds, weights)
        if not _factorise(V, weights[2], scaled, factor):
            return iteration, False
        for i in range(n):
            by_ones[i] = 1.0
        _solve(V, weights[2], factor, by_ones)
        system, fixed = (weights, factor, by_ones), (epsilon, total)
        goals[:] = 0.0
        _direct(V, system, point, bounds, residual, level, fixed, goals, direction)
        step = _step_length(point, bounds, direction)
        _correct(direction, _goal(point, bounds, direction, step, mu), goals)
        change = _direct(V, system, point, bounds, residual, level, fixed, goals, direction)
        step = min(1.0, _PART_OF_WAY * _step_length(point, bounds, direction))
        if not step > _SHORTEST_STEP:
            return iteration, False
        level += step * change
        _move(point, step, direction)
        _residual(V, linear, point[0, 0] - point[0, 1], residual)
    return min(max_iter, _MOST_ITERATIONS), False


@inner(error_model="numpy")
def _correct(direction, goal, goals):
    """The goals of the corrector: less what the predictor's step would add to each product."""
    for k in range(2):
        for i in range(goals.shape[2]):
            goals[0, k, i] = goal - direction[1, k, i] * direction[0, k, i]
            goals[1, k, i] = goal + direction[2, k, i] * direction[0, k, i]


@inner(error_model="numpy")
def _move(point, step, direction):
    for m in range(3):
        for k in range(2):
            for i in range(point.shape[2]):
                point[m, k, i] += step * direction[m, k, i]


@inner(error_model="numpy")
def _residual(V, linear, beta, residual):
    """p − VVᵀβ."""
    product = np.dot(V, np.dot(V.T, beta))
    for i in range(beta.size):
        residual[i] = linear[i] - product[i]


@inner(error_model="numpy")
def _start(V, linear, bounds, point, residual):
    """Both parts in the middle of their range, and multipliers of the size of p: the intercept."""
    n, unit = linear.size, 0.0
    for k in range(2):
        for i in range(n):
            point[0, k, i], point[1, k, i], point[2, k, i] = 0.5 * bounds[k, i], 0.0, 0.0
    _residual(V, linear, point[0, 0] - point[0, 1], residual)
    mean, intercept = linear.sum() / n, residual.sum() / n
    for i in range(n):
        unit += abs(linear[i] - mean) / n
    for i in range(n):
        error = residual[i] - intercept
        for k in range(2):
            if bounds[k, i] > 0.0:
                point[1, k, i] = unit + max(-error, 0.0)
                point[2, k, i] = unit + max(error, 0.0)
            error = -error
    return intercept


@inner(error_model="numpy")
def _complementarity(point, bounds):
    """The mean product of a multiplier and the distance from its bound."""
    total, count = 0.0, 0
    for k in range(2):
        for i in range(bounds.shape[1]):
            if bounds[k, i] > 0.0:
                part = point[0, k, i]
                total += point[1, k, i] * part + point[2, k, i] * (bounds[k, i] - part)
                count += 2
    return total / count


@inner(error_model="numpy")
def _weigh(point, bounds, weights):
    """How far each part of β moves with its residual; then the sums of both parts."""
    for i in range(bounds.shape[1]):
        for k in range(2):
            weights[k, i], part = 0.0, point[0, k, i]
            if bounds[k, i] > 0.0:
                below, above = point[1, k, i] / part, point[2, k, i] / (bounds[k, i] - part)
                weights[k, i] = 1.0 / (below + above)
        weights[2, i] = weights[0, i] + weights[1, i]


@inner(error_model="numpy")
def _factorise(V, weights, scaled, factor):
    """The Cholesky factor of I + VᵀWV; False where rounding leaves it indefinite."""
    n, rank = V.shape
    for i in range(n):
        for k in range(rank):
            scaled[i, k] = weights[i] * V[i, k]
    np.dot(scaled.T, V, factor)
    for k in range(rank):
        factor[k, k] += 1.0
    return _cholesky(factor, rank)


@inner(error_model="numpy")
def _solve(V, weights, factor, right):
    """right = W (I + VVᵀW)⁻¹ right, by the Sherman–Morrison–Woodbury formula."""
    for i in range(right.size):
        right[i] *= weights[i]
    x = np.dot(V.T, right)
    _solve_factored(factor, x.size, x)
    product = np.dot(V, x)
    for i in range(right.size):
        right[i] -= weights[i] * product[i]


@inner(error_model="numpy")
def _direct(V, system, point, bounds, residual, level, fixed, goals, direction):
    """The Newton direction towards the goals of all products; returns that of the intercept.

    A part moves by its weight times what pulls at it, less the change of Kβ and intercept.
    """
    (weights, factor, by_ones), (epsilon, total) = system, fixed
    n = residual.size
    change, pulled, surplus = np.empty(n), np.empty(n), -total
    for i in range(n):
        sign, pulled[i] = 1.0, 0.0
        for k in range(2):
            if bounds[k, i] > 0.0:
                part = point[0, k, i]
                pull = goals[0, k, i] / part - goals[1, k, i] / (bounds[k, i] - part)
                direction[0, k, i] = sign * (residual[i] - level) - epsilon + pull
                pulled[i] += sign * weights[k, i] * direction[0, k, i]
                surplus += sign * part
            sign = -1.0
        change[i] = pulled[i] / weights[2, i]
    _solve(V, weights[2], factor, change)
    shift = (change.sum() + surplus) / by_ones.sum()
    for i in range(n):
        change[i] -= shift * by_ones[i]
        carried = (pulled[i] - change[i]) / weights[2, i]  # the change of Kβ and intercept
        for k in range(2):
            if bounds[k, i] > 0.0:
                part, below, above = point[0, k, i], point[1, k, i], point[2, k, i]
                moved = weights[k, i] * (direction[0, k, i] - carried)
                direction[0, k, i] = moved
                direction[1, k, i] = (goals[0, k, i] - below * moved) / part - below
                direction[2, k, i] = (goals[1, k, i] + above * moved) / (
                    bounds[k, i] - part
                ) - above
            else:
                direction[0, k, i], direction[1, k, i], direction[2, k, i] = 0.0, 0.0, 0.0
            carried = -carried
    return shift


@inner(error_model="numpy")
def _step_length(point, bounds, direction):
    """The longest step, up to 1, that leaves β within its bounds and no multiplier negative."""
    step = 1.0
    for k in range(2):
        for i in range(bounds.shape[1]):
            part, change = point[0, k, i], direction[0, k, i]
            distance = bounds[k, i] - part if change > 0.0 else part
            if step * abs(change) > distance:
                step = distance / abs(change)
            for m in range(1, 3):
                if -step * direction[m, k, i] > point[m, k, i]:
                    step = -point[m, k, i] / direction[m, k, i]
    return step


@inner(error_model="numpy")
def _goal(point, bounds, direction, step, mu):
    """The complementarity to aim at: the less, the closer the predictor comes to none."""
    total, count = 0.0, 0
    for k in range(2):
        for i in range(bounds.shape[1]):
            if bounds[k, i] > 0.0:
                part = point[0, k, i] + step * direction[0, k, i]
                total += (point[1, k, i] + step * direction[1, k, i]) * part
                total += (point[2, k, i] + step * direction[2, k, i]) * (bounds[k, i] - part)
                count += 2
    return mu * (total / (count * mu)) ** 3


@inner(error_model="numpy")
def _round(V, linear, lower, upper, epsilon, total, point, residual, level, tol, out):
    """Put β on bounds and zeros where the residual says so; whether it is a solution then."""
    new, after = out[0, 0], out[0, 1]
    surplus, most, freest, near = -total, 0.0, -1, _SETTLED * tol
    for i in range(new.size):
        error, value = residual[i] - level, point[0, 0, i] - point[0, 1, i]
        if error > epsilon + near:
            value = upper[i]
        elif error < -epsilon - near:
            value = lower[i]
        elif abs(error) < epsilon - near:
            value = 0.0
        new[i] = value
        surplus += value
        slack = min(value - lower[i], upper[i] - value)
        if epsilon > 0.0:
            slack = min(slack, abs(value))
        if slack > most:
            most, freest = slack, i
    if abs(surplus) > 0.5 * most:
        return False
    if freest >= 0:
        new[freest] -= surplus
    _residual(V, linear, new, after)
    highest, lowest = _extremes(new, after, lower, upper, epsilon, False)[:2]
    return highest - lowest <= tol
