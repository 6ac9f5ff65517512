"""Compiled: a primal-dual interior-point method for kernel matrices of low rank.

SMO steps crawl where many samples have few features: what one pair gains, others lose again. Here
each iteration solves one linear system for all samples. With K = VVᵀ it has the size of the rank
(Fine and Scheinberg, 2001), and 10 to 40 iterations suffice, whatever C is. Their directions are
Mehrotra's: a predictor, and a corrector for what the predictor neglects.

β is an offset plus parts that lie between zero and their range. Without a tube there is one part,
and the offset is the lower bound. With one there are two, positive and negative, whose difference
is β: the tube is a cost of both.
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

# Costs in nanoseconds, of which only ratios matter: of an iteration for each sample, each feature
# and each product of features; of an SMO step, and of each sample in it.
_COST_OF_SAMPLE, _COST_OF_FEATURE, _COST_OF_PRODUCT = 30.0, 1.5, 0.04
_COST_OF_STEP, _COST_OF_PLACE = 130.0, 0.6
# A violation from which on SMO steps do not crawl; labels are 2 apart. (benchmarks/small.py)
CLOSE = 0.1
# Features of a kernel row that takes as long as a step.
_FEATURES_OF_STEP = 5

# Divisions follow NumPy's rules, not Python's: a β that rounding puts on its bound makes a number
# infinite, and no factor or step comes of it.
_extremes = part_of(optimality.extremes)
_cholesky = part_of(reweighted_steps.cholesky)
_solve_factored = part_of(reweighted_steps.solve_factored)


def steps_before(n: np.ndarray, n_features: int) -> np.ndarray:
    """SMO steps that problems of n samples may take before this method takes over.

    They take about half of its time; those that are close to the optimum then (`CLOSE`) may take as
    many again. So both together need at most twice the time of the better one, and it is not known
    beforehand which one that is.
    """
    each = _COST_OF_SAMPLE + (_COST_OF_FEATURE + _COST_OF_PRODUCT * n_features) * n_features
    iterations = constants.INTERIOR_POINT_ITERATIONS * np.log2(np.maximum(n / 4, 1))
    time = 0.5 * iterations * each * n
    return np.maximum(time / (_COST_OF_STEP + _COST_OF_PLACE * n), 1.0).astype(np.int64)


def steps_of_row(n_features: int) -> int:
    """SMO steps in the time of a kernel row."""
    return n_features // _FEATURES_OF_STEP


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

    A point has the parts of β, the multipliers of their lower and of their upper bounds.

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
    parts = 2 if epsilon > 0.0 else 1
    point, direction = np.empty((3, parts, n)), np.empty((3, parts, n))
    goals, offset, new = np.empty((2, parts, n)), np.zeros(n), np.empty((2, n))
    residual, weights, by_ones = np.empty(n), np.empty((3, n)), np.empty(n)
    scaled, factor, ranges = np.empty((n, rank)), np.empty((rank, rank)), np.empty((parts, n))
    for i in range(n):
        if parts == 1:
            offset[i], ranges[0, i] = lower[i], upper[i] - lower[i]
        else:
            ranges[0, i], ranges[1, i] = upper[i], -lower[i]
    largest, left = ranges.max(), total - offset.sum()
    level = _start(V, linear, ranges, offset, point, residual)
    _beta_of(point, offset, new[0])
    for iteration in range(min(max_iter, _MOST_ITERATIONS)):
        mu = _complementarity(point, ranges)
        if mu <= _WORTH_ROUNDING * tol * largest and _round(
            V, linear, lower, upper, epsilon, total, residual, level, tol, new[0], new[1]
        ):
            beta[:] = new[0]
            return iteration, True
        _weigh(point, ranges, weights)
        if not _factorise(V, weights[2], scaled, factor):
            return iteration, False
        for i in range(n):
            by_ones[i] = 1.0
        _solve(V, weights[2], factor, by_ones)
        system, fixed = (weights, factor, by_ones), (epsilon, left)
        goals[:] = 0.0
        _direct(V, system, point, ranges, residual, level, fixed, goals, direction)
        step = _step_length(point, ranges, direction)
        _correct(direction, _goal(point, ranges, direction, step, mu), goals)
        change = _direct(V, system, point, ranges, residual, level, fixed, goals, direction)
        step = min(1.0, _PART_OF_WAY * _step_length(point, ranges, direction))
        if not step > _SHORTEST_STEP:
            return iteration, False
        level += step * change
        _move(point, step, direction)
        _beta_of(point, offset, new[0])
        _residual(V, linear, new[0], residual)
    return min(max_iter, _MOST_ITERATIONS), False


@inner(error_model="numpy")
def _correct(direction, goal, goals):
    """The goals of the corrector: less what the predictor's step would add to each product."""
    for k in range(goals.shape[1]):
        for i in range(goals.shape[2]):
            goals[0, k, i] = goal - direction[1, k, i] * direction[0, k, i]
            goals[1, k, i] = goal + direction[2, k, i] * direction[0, k, i]


@inner(error_model="numpy")
def _move(point, step, direction):
    for m in range(3):
        for k in range(point.shape[1]):
            for i in range(point.shape[2]):
                point[m, k, i] += step * direction[m, k, i]


@inner(error_model="numpy")
def _beta_of(point, offset, beta):
    """The offset plus the first part, less the second where there is one."""
    for i in range(beta.size):
        beta[i] = offset[i] + point[0, 0, i]
    if point.shape[1] == 2:
        for i in range(beta.size):
            beta[i] -= point[0, 1, i]


@inner(error_model="numpy")
def _residual(V, linear, beta, residual):
    """p − VVᵀβ."""
    product = np.dot(V, np.dot(V.T, beta))
    for i in range(beta.size):
        residual[i] = linear[i] - product[i]


@inner(error_model="numpy")
def _start(V, linear, ranges, offset, point, residual):
    """Parts in the middle of their range, and multipliers of the size of p: the intercept."""
    n, unit, beta = linear.size, 0.0, np.empty(linear.size)
    for k in range(point.shape[1]):
        for i in range(n):
            point[0, k, i], point[1, k, i], point[2, k, i] = 0.5 * ranges[k, i], 0.0, 0.0
    _beta_of(point, offset, beta)
    _residual(V, linear, beta, residual)
    mean, intercept = linear.sum() / n, residual.sum() / n
    for i in range(n):
        unit += abs(linear[i] - mean) / n
    for i in range(n):
        error = residual[i] - intercept
        for k in range(point.shape[1]):
            if ranges[k, i] > 0.0:
                point[1, k, i] = unit + max(-error, 0.0)
                point[2, k, i] = unit + max(error, 0.0)
            error = -error
    return intercept


@inner(error_model="numpy")
def _complementarity(point, ranges):
    """The mean product of a multiplier and the distance from its bound."""
    total, count = 0.0, 0
    for k in range(ranges.shape[0]):
        for i in range(ranges.shape[1]):
            if ranges[k, i] > 0.0:
                part = point[0, k, i]
                total += point[1, k, i] * part + point[2, k, i] * (ranges[k, i] - part)
                count += 2
    return total / count


@inner(error_model="numpy")
def _weigh(point, ranges, weights):
    """How far each part of β moves with its residual; then the sum of the parts."""
    for i in range(ranges.shape[1]):
        weights[2, i] = 0.0
        for k in range(ranges.shape[0]):
            weights[k, i], part = 0.0, point[0, k, i]
            if ranges[k, i] > 0.0:
                below, above = point[1, k, i] / part, point[2, k, i] / (ranges[k, i] - part)
                weights[k, i] = 1.0 / (below + above)
            weights[2, i] += weights[k, i]


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
def _direct(V, system, point, ranges, residual, level, fixed, goals, direction):
    """The Newton direction towards the goals of all products; returns that of the intercept.

    A part moves by its weight times what pulls at it, less the change of Kβ and intercept.
    """
    (weights, factor, by_ones), (epsilon, total) = system, fixed
    n = residual.size
    change, pulled, surplus = np.empty(n), np.empty(n), -total
    for i in range(n):
        sign, pulled[i] = 1.0, 0.0
        for k in range(ranges.shape[0]):
            if ranges[k, i] > 0.0:
                part = point[0, k, i]
                pull = goals[0, k, i] / part - goals[1, k, i] / (ranges[k, i] - part)
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
        for k in range(ranges.shape[0]):
            if ranges[k, i] > 0.0:
                part, below, above = point[0, k, i], point[1, k, i], point[2, k, i]
                moved = weights[k, i] * (direction[0, k, i] - carried)
                direction[0, k, i] = moved
                direction[1, k, i] = (goals[0, k, i] - below * moved) / part - below
                direction[2, k, i] = (goals[1, k, i] + above * moved) / (
                    ranges[k, i] - part
                ) - above
            else:
                direction[0, k, i], direction[1, k, i], direction[2, k, i] = 0.0, 0.0, 0.0
            carried = -carried
    return shift


@inner(error_model="numpy")
def _step_length(point, ranges, direction):
    """The longest step, up to 1, that leaves β within its bounds and no multiplier negative."""
    step = 1.0
    for k in range(ranges.shape[0]):
        for i in range(ranges.shape[1]):
            part, change = point[0, k, i], direction[0, k, i]
            distance = ranges[k, i] - part if change > 0.0 else part
            if step * abs(change) > distance:
                step = distance / abs(change)
            for m in range(1, 3):
                if -step * direction[m, k, i] > point[m, k, i]:
                    step = -point[m, k, i] / direction[m, k, i]
    return step


@inner(error_model="numpy")
def _goal(point, ranges, direction, step, mu):
    """The complementarity to aim at: the less, the closer the predictor comes to none."""
    total, count = 0.0, 0
    for k in range(ranges.shape[0]):
        for i in range(ranges.shape[1]):
            if ranges[k, i] > 0.0:
                part = point[0, k, i] + step * direction[0, k, i]
                total += (point[1, k, i] + step * direction[1, k, i]) * part
                total += (point[2, k, i] + step * direction[2, k, i]) * (ranges[k, i] - part)
                count += 2
    return mu * (total / (count * mu)) ** 3


@inner(error_model="numpy")
def _round(V, linear, lower, upper, epsilon, total, residual, level, tol, new, after):
    """Put β on bounds and zeros where the residual says so; whether it is a solution then.

    `new` is β before and after it, `after` its residual.
    """
    surplus, most, freest, near = -total, 0.0, -1, _SETTLED * tol
    for i in range(new.size):
        error, value = residual[i] - level, new[i]
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
