"""The compiled engine of IRWLS: Table 1 of the paper on one dense block of the kernel matrix.

In β-form (β = yα) the system of step 1 reads, for the samples S₁ between their bounds,

    (K + D) β + b·1 = p − (what the samples at a bound and outside the block contribute),

with D the inverse weights 1/a. See `solvers.irwls` for additions to the paper.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import leaf

_FAST = {"nnan", "ninf", "nsz", "contract", "arcp", "reassoc"}
# Columns of a panel of the Cholesky factorisation.
_PANEL = 48
# Relative slope at which a step along the line counts as the exact one, and looks for it at most.
_EXACT_SLOPE = 1e-6
_MAX_EVALUATIONS = 100
# Without a sample between its bounds nothing says how far b should go: the line search does.
INTERCEPT_STEP = 16.0
# The smoothing width δ of a stage as part of the one before, and of the last as part of tol: what
# smoothing adds to the violation is at most δ.
SMOOTHING_RATIO = 0.5
SMOOTHING_PART_OF_TOL = 0.25
# Before the last stage the sets need not settle: a whole step and few changes are enough.
FEW_CHANGES = 0.3
ALMOST_FULL_STEP = 0.9
FULL_STEP_TOL = 1e-3
# Part of Σ|β| by which a sum of β may be off in an answer: ten times the rounding of one.
LARGEST_ERROR_OF_SUM = 1e-13


@leaf(fastmath=_FAST)
def dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@leaf(fastmath=_FAST)
def _add_multiple(target, factor, row):
    for i in range(target.size):
        target[i] += factor * row[i]


@leaf()
def _factorise_panel(A, start, stop, m):
    """Columns start … stop of the Cholesky factor, whose earlier columns are already taken off."""
    for j in range(start, stop):
        row_j = A[j, start:j]
        pivot = A[j, j] - dot(row_j, row_j)
        if not pivot > 0.0:
            return False
        root = np.sqrt(pivot)
        A[j, j] = root
        for i in range(j + 1, m):
            A[i, j] = (A[i, j] - dot(A[i, start:j], row_j)) / root
    return True


@leaf()
def cholesky(A, m):
    """Factorise A[:m, :m] = LLᵀ in its lower triangle; False where it is not positive definite."""
    start = 0
    while start < m:
        stop = min(start + _PANEL, m)
        if not _factorise_panel(A, start, stop, m):
            return False
        if stop < m:
            below = A[stop:m, start:stop].copy()
            product = np.dot(below, below.T)
            for i in range(m - stop):
                _add_multiple(A[stop + i, stop : stop + i + 1], -1.0, product[i, : i + 1])
        start = stop
    return True


@leaf()
def solve_factored(L, m, x):
    """x ← (LLᵀ)⁻¹ x, in place."""
    for i in range(m):
        x[i] = (x[i] - dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(m - 1, -1, -1):
        x[i] /= L[i, i]
        _add_multiple(x[:i], -x[i], L[i, :i])


@leaf(fastmath=_FAST)
def _sum_on_line(t, u, du, c, lower, upper, dead, ddead, widening):
    """Σ c·β + widening·Σ|β| for β = clip(u + t·du), and its derivative in t.

    β is zero where |u + t·du| is within dead + t·ddead, and less by as much elsewhere.
    """
    value = 0.0
    derivative = 0.0
    for i in range(u.size):
        moved = u[i] + t * du[i]
        tube = dead[i] + t * ddead[i]
        moved -= min(max(moved, -tube), tube)
        clipped = min(max(moved, lower[i]), upper[i])
        sign = 1.0 if clipped > 0.0 else -1.0 if clipped < 0.0 else 0.0
        weight = c[i] + widening * sign
        value += weight * clipped
        inside = clipped == moved and (moved != 0.0 or tube == 0.0)
        derivative += weight * (du[i] - sign * ddead[i]) if inside else 0.0
    return value, derivative


@leaf()
def exact_step(u, du, c, lower, upper, slope, curvature, dead, ddead, widening):
    """The t ≥ 0 that minimises the objective on a line (0 where it does not fall).

    The derivative there is slope + t·curvature − Σ c·β − widening·Σ|β| for β = clip(u + t·du):
    continuous, increasing and piecewise linear, so that Newton's method within a bracket finds
    its zero. `dead` is the half-width of each sample's tube, in multiples of its weight; where
    the tube widens along the line, `widening` and `ddead` are the change of ε and of `dead`.
    """
    line = (u, du, c, lower, upper, dead, ddead, widening)
    value, _ = _sum_on_line(0.0, *line)
    first = slope - value
    if not first < 0.0:
        return 0.0
    low, t = 0.0, 1.0
    value, derivative = _sum_on_line(t, *line)
    rise = slope + t * curvature - value
    if abs(rise) <= -_EXACT_SLOPE * first:
        return t
    doublings = 0
    while rise < 0.0 and doublings < 40:
        low = t
        t *= 2.0
        value, derivative = _sum_on_line(t, *line)
        rise = slope + t * curvature - value
        doublings += 1
    high = t
    for _ in range(_MAX_EVALUATIONS):
        if abs(rise) <= -_EXACT_SLOPE * first or high - low <= 1e-13 * high:
            break
        steepness = curvature - derivative
        following = t - rise / steepness if steepness > 0.0 else low
        t = following if low < following < high else 0.5 * (low + high)
        value, derivative = _sum_on_line(t, *line)
        rise = slope + t * curvature - value
        if rise < 0.0:
            low = t
        else:
            high = t
    return t


@leaf()
def clip_to_box(
    linear, f, b, inverse_weights, centre, lower, upper, epsilon, u, target, side
):  # fmt: skip
    """Errors as multiples of the weights, u, and the β they imply (steps 3 and 4).

    That is 0 where the error is within the tube, at a bound, or between: there `side` is the
    sign of β, which tells the side of the tube, or 1 where there is none. Else it is 0.
    """
    for i in range(u.size):
        u[i] = centre[i] + (linear[i] - f[i] - b) / inverse_weights[i]
        dead = epsilon / inverse_weights[i]
        beyond = u[i] - min(max(u[i], -dead), dead)
        target[i] = min(max(beyond, lower[i]), upper[i])
        side[i] = 0.0 if target[i] != beyond else np.sign(beyond)
        if epsilon == 0.0:
            side[i] = 1.0 if target[i] == u[i] else 0.0


@leaf()
def has_settled(t, changes, allowed, again):
    """Whether a stage is over: the sets stay as they are after a whole step.

    Without changes the objective is quadratic, and the step is whole but for rounding;
    where even that has lost its digits, the same sets for the second time are the end.
    """
    if changes == 0:
        return again or abs(t - 1.0) <= FULL_STEP_TOL
    return changes <= allowed and t > ALMOST_FULL_STEP


@leaf()
def _split(K, target, side, gamma, total, inside, direction, image):
    """S₁ (numbers in `inside`); the others go to their bounds or to 0, which moves f by `image`.

    Returns how many are inside, and what their step must sum to.
    """
    m = 0
    rest = total
    image[:] = 0.0
    for i in range(target.size):
        if side[i] != 0.0:
            inside[m] = i
            m += 1
            rest -= gamma[i]
            direction[i] = 0.0
        else:
            rest -= target[i]
            direction[i] = target[i] - gamma[i]
            if direction[i] != 0.0:
                _add_multiple(image, direction[i], K[i])
    return m, rest


@leaf()
def _factorise(K, inverse_weights, inside, L, by_ones):
    """L with LLᵀ = K + D of the samples inside, and (K + D)⁻¹1; False if not definite."""
    m = inside.size
    for j in range(m):
        row = K[inside[j]]
        for k in range(j + 1):
            L[j, k] = row[inside[k]]
        L[j, j] += inverse_weights[inside[j]]
    if not cholesky(L, m):
        return False
    by_ones[:m] = 1.0
    solve_factored(L, m, by_ones[:m])
    return True


@leaf()
def _move_inside(K, errors, L, by_ones, inside, rest, direction, image):
    """Step 1 of Table 1 for the change of β inside, whose sum is `rest`; the change of b."""
    m = inside.size
    x = errors[inside] - image[inside]
    solve_factored(L, m, x)
    move_b = (x.sum() - rest) / by_ones[:m].sum()
    for j in range(m):
        direction[inside[j]] = x[j] - move_b * by_ones[j]
        _add_multiple(image, direction[inside[j]], K[inside[j]])
    return move_b


@leaf()
def _count_changes(target, side, before, side_before):
    changes = 0
    for i in range(target.size):
        if side[i] != side_before[i] or (side[i] == 0.0 and target[i] != before[i]):
            changes += 1
    return changes


@leaf()
def dense_stage(
    K, linear, lower, upper, epsilon, total, inverse_weights, centre, gamma, f, b, max_steps,
    few_changes,
):  # fmt: skip
    """Newton steps at fixed weights until the sets S₁, S₂, S₃ stay as they are.

    Parameters
    ----------
    K : float64 block of the kernel matrix
    linear : p less what samples outside the block contribute (1 − G_in)
    epsilon : half the width of a regression's tube, else 0
    total : what Σβ of the block must be (G_b,in)
    inverse_weights : 1/a of each sample, the diagonal D
    centre : the β that the smoothed hinge is shifted by
    gamma, f, b : the present point, f = K gamma; updated in place (b is returned)
    few_changes : part of S₁ that may change in a whole step and still count as settled

    Returns
    -------
    b, steps, whether the sets have settled, whether K + D is positive definite
    """
    n = linear.size
    u, target, before = np.empty(n), np.empty(n), np.empty(n)
    side, side_before = np.empty(n), np.empty(n)
    direction, image, by_ones = np.empty(n), np.empty(n), np.empty(n)
    inside, factored = np.empty(n, np.int64), np.empty(0, np.int64)
    L, dead, still = np.empty((n, n)), epsilon / inverse_weights, np.zeros(n)
    clip_to_box(linear, f, b, inverse_weights, centre, lower, upper, epsilon, u, target, side)
    for steps in range(1, max_steps + 1):
        m, rest = _split(K, target, side, gamma, total, inside, direction, image)
        again = m > 0 and m == factored.size and (factored == inside[:m]).all()
        if m == 0:
            move_b = -INTERCEPT_STEP if rest > 0.0 else INTERCEPT_STEP
        else:
            if not again:
                factored = inside[:m].copy()
                if not _factorise(K, inverse_weights, factored, L, by_ones):
                    return b, steps, False, False
            errors = linear - f - b + inverse_weights * (centre - gamma) - epsilon * side
            move_b = _move_inside(K, errors, L, by_ones, factored, rest, direction, image)
        pull = image + move_b
        slope = dot(direction, f) + move_b * total
        curvature = dot(direction, image)
        t = exact_step(
            u, -pull / inverse_weights, pull, lower, upper, slope, curvature, dead, still, 0.0
        )
        if t == 0.0:
            return b, steps, True, True  # nothing but rounding is left
        before[:], side_before[:] = target, side
        for i in range(n):
            # A whole step puts a sample on its bound exactly, whatever the rounding.
            at_bound = t == 1.0 and side[i] == 0.0
            gamma[i] = target[i] if at_bound else gamma[i] + t * direction[i]
            f[i] += t * image[i]
        b += t * move_b
        clip_to_box(linear, f, b, inverse_weights, centre, lower, upper, epsilon, u, target, side)
        changes = _count_changes(target, side, before, side_before)
        if has_settled(t, changes, few_changes * m, again):
            return b, steps, True, True
    return b, max_steps, False, True


@leaf()
def solve_chunk(
    K, residual, beta, lower, upper, epsilon, ranges, weakest, b, first_smoothing, last_smoothing,
    max_steps,
):  # fmt: skip
    """Solve the problem of one working set, the samples outside it held where they are.

    Parameters
    ----------
    K, residual, beta : of the working set; residual is p − Kβ over all samples
    epsilon : half the width of a regression's tube, else 0
    ranges : what the smoothing width is divided by: upper − lower, made finite
    weakest : least inverse weight; less would not survive the rounding of K
    first_smoothing, last_smoothing : the smoothing width δ at the start and at the end

    Returns
    -------
    new β, b, steps, decrease of the objective (negative where there is no feasible answer)
    """
    n = beta.size
    f = np.zeros(n)
    for i in range(n):
        if beta[i] != 0.0:
            _add_multiple(f, beta[i], K[i])
    linear = residual + f
    total = beta.sum()
    gamma, centre = beta.copy(), beta.copy()
    inverse_weights, u, side, target = np.empty(n), np.empty(n), np.empty(n), beta.copy()
    smoothing = max(first_smoothing, last_smoothing)
    steps = 0
    while True:
        for i in range(n):
            inverse_weights[i] = max(smoothing / ranges[i], weakest)
        b, taken, _, definite = dense_stage(
            K, linear, lower, upper, epsilon, total, inverse_weights, centre, gamma, f, b,
            max_steps, 0.0 if smoothing <= last_smoothing else FEW_CHANGES,
        )  # fmt: skip
        steps += taken
        if not definite:
            return beta, b, steps, -1.0
        clip_to_box(linear, f, b, inverse_weights, centre, lower, upper, epsilon, u, target, side)
        if smoothing <= last_smoothing:
            break
        centre[:] = target
        smoothing = max(last_smoothing, smoothing * SMOOTHING_RATIO)
    for i in range(n):
        if side[i] != 0.0:  # the system's own answer has more correct digits than u
            target[i] = min(max(gamma[i], lower[i]), upper[i])
    if not balance(target, lower, upper, total, epsilon > 0.0):
        return beta, b, steps, -1.0
    change = target - beta
    curvature = 0.0
    for i in range(n):
        if change[i] != 0.0:
            curvature += change[i] * dot(K[i], change)
    decrease = dot(residual, change) - 0.5 * curvature
    return target, b, steps, decrease - epsilon * (np.abs(target).sum() - np.abs(beta).sum())


@leaf()
def balance(beta, lower, upper, total, kinked):
    """Take the surplus of Σβ from the samples between their bounds, as their slack allows.

    Where zero is a kink, it is a bound, and samples there stay. False where the slack does not
    suffice: the stages did not converge, as with an indefinite kernel, and β is infeasible.
    """
    surplus = beta.sum() - total
    slack = np.zeros(beta.size)
    for i in range(beta.size):
        bottom = 0.0 if kinked and beta[i] >= 0.0 else lower[i]
        top = 0.0 if kinked and beta[i] <= 0.0 else upper[i]
        if bottom < beta[i] < top:
            slack[i] = beta[i] - (bottom if surplus > 0.0 else top)
    available = np.abs(slack).sum()
    if available > 0.0:
        beta -= min(1.0, abs(surplus) / available) * slack
    return abs(beta.sum() - total) <= LARGEST_ERROR_OF_SUM * np.abs(beta).sum()
