"""Compiled: problems of a batch, from their first step to the certificate."""

# Numba leaves have no Python types that mypy could follow.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.compiled import inner, leaf
from maxmargin.formulations import LEAST_PART_OF_TOL, STEPS_BELOW_TOL, tol_for_margin
from maxmargin.solvers.pairs.certificates import record, violation_and_levels
from maxmargin.solvers.pairs.copies import (
    begin_copies,
    copies_of,
    room_for_copies,
    steps_on_copies,
)
from maxmargin.solvers.pairs.few import (
    SMALL,
    residual_of_few,
    start_of_few,
    steps_of_few,
    workspace,
)
from maxmargin.solvers.pairs.newton import free_samples, newton_step
from maxmargin.solvers.pairs.rows import exact_residual, gather
from maxmargin.solvers.pairs.starts import fill, make_feasible
from maxmargin.solvers.pairs.steps import (
    LIMIT,
    OPTIMAL,
    TOO_MUCH,
    ZERO,
    least_curvature,
    pair_steps,
    steps_of_active,
)

# What became of a problem. One that is hard is left to another solver; one that takes many steps
# goes on without the samples at rest, by code that few problems need and that is compiled apart.
CONVERGED, STEP_LIMIT, HARD, MANY_STEPS = 0, 1, 2, 3
# Kernel values that the steps of one problem may read, about 0.1 s.
STEP_BUDGET = 50_000_000
# How often the steps begin again from an exact residual.
_MAX_PASSES = 5
# Kernel values that steps read in the time of second-order steps of the block method, which are
# faster where SMO steps crawl.
_READ_BEFORE_HARD = 6_000_000
# Part of tol that counts as the exact optimum, and the steps per sample that may lead there: a
# problem that takes more is left to the solution of a linear system.
_EXACT_PART_OF_TOL = 1e-9
_STEPS_PER_SAMPLE_TO_EXACT = 300
# Steps between two Newton steps on the way there.
_STEPS_BEFORE_NEWTON = 300
# Rounding of a residual, in units in the last place of Σ|β| times the largest kernel value.
_UNITS_OF_RESIDUAL = 8.0
_EPSILON = float(np.finfo(np.float64).eps)

_tol_for_margin = inner()(tol_for_margin)


@leaf()
def solve_problems(
    problems, begin, end, bounds, codes, costs, all_diagonal, by_pair, coefficients,
    memory, on_demand, scratch_start, scratch_stop, shared_at, ready, places, left,
    table, samples, features, norms, unit, kind, gamma, coef0, degree,
    tol, max_steps, budget, turns, close, counts, numbers, nu, refine, running, begun, few,
    shrinking, copied, in_place,
):  # fmt: skip
    """Solve the problems from `begin` to `end`, each to its certificate.

    It ends before that at a problem that takes many steps, whose rows would be lost, and returns
    the number of the next one. Arguments are handed over one by one, since the interpreter takes
    long over tuples of arrays.

    Parameters
    ----------
    problems : array of shape (n_problems, 3), see `Batch`
    bounds : of the groups
    codes, costs, all_diagonal : class, C and float32 diagonal of each sample
    by_pair : whether coefficients are those of pairs
    coefficients : β of all problems, in which they start and end
    memory : kernel values
    on_demand : the steps that a row counts as, where rows are computed when they are wanted; None
        where all values are in memory, and then the code that computes rows is not even compiled
    scratch_start, scratch_stop : the part of the memory for these problems
    shared_at, ready : what is kept within groups, see `fetch`; None where nothing is
    places, left : where the rows of a problem are, and what it has used of the memory and fetched;
        a call that goes on with a problem takes them as another one left them
    table, samples, features, norms, unit, kind, gamma, coef0, degree : what values are computed
        from; features are None where rows are computed one by one
    tol, max_steps, budget : when a problem is solved, steps at most, kernel values that they may
        read
    turns : an array with an entry per problem: steps after which it takes many
    close : the violation from which on it may take so many steps twice
    counts : an array with an entry per problem: status, n_iter, evaluations, n_support, n_bounded
    numbers : the same: objective, duality gap, KKT violation, intercept; with ν also ρ
    nu : ν where the problems are ν-SVCs of pairs, with `costs` as weights; None for C-SVCs
    refine : True where problems are solved to the exact optimum, else None
    running : an empty array of the type that steps on copies compute in
    begun : True where `coefficients` are a start other than zero; None where they are zero, or
        where this call goes on with what another one left
    few : True where some problems have no more than SMALL samples, else None
    shrinking : True where problems that take many steps go on, after the steps in `counts`; None
        where they end as MANY_STEPS
    copied : True where steps are taken on copies of rows: all are in memory, each problem has one
        sum, and none goes on after MANY_STEPS; else None
    in_place : True where steps take rows as they are; else None, as with no more than SMALL samples
    """
    source = table, samples, norms, (unit, kind, gamma, coef0, degree)
    largest = 0
    for p in range(begin, end):
        largest = max(largest, _size(problems[p], bounds))
    work = np.empty((5, largest))
    room = room_for_copies(largest if copied is not None else 0, running)
    work_diagonal, small = np.empty(largest, np.float32), workspace(SMALL)
    for p in range(begin, end):
        n = _size(problems[p], bounds)
        positive, g, h = problems[p]
        h_start, h_stop = (bounds[h], bounds[h + 1]) if h >= 0 else (0, 0)
        limits = tol, max_steps, budget, turns[p], close
        place = (bounds[g], bounds[g + 1], h_start, h_stop, g, h)
        first = place[1] - place[0]
        row_g, row_h = (h - 1, g) if by_pair else (p, p)
        beta, residual, linear, lower, upper = (
            work[0, :n], work[1, :n], work[2, :n], work[3, :n], work[4, :n]
        )  # fmt: skip
        rows = places[0, :n], places[1, :n]
        diagonal = work_diagonal[:n]
        vectors = beta, residual, lower, upper, diagonal
        _formulate(positive, place, codes, costs, all_diagonal, vectors, linear, nu)
        if shrinking is None:
            left[0], left[1] = scratch_start, 0
            _place_rows(place, codes.size, on_demand, rows)
        for t in range(n):
            s, row = (place[0] + t, row_g) if t < first else (h_start + t - first, row_h)
            beta[t] = coefficients[row, s]
        if begun is not None:
            make_feasible(beta, lower, upper)
        total = None if nu is None else 0.5 * nu * (upper.sum() - lower.sum())
        if total is not None and counts[1, p] == 0:
            fill(beta[:first], upper[:first], total)
            fill(beta[first:], lower[first:], -total)
        status, steps, computed = _solve_one(
            place, vectors, linear, rows, memory, on_demand, shared_at, ready, left, scratch_stop,
            source, features, limits, small, total, refine, few, shrinking, counts[1, p],
            counts[2, p], copied, in_place, copies_of(room, n),
        )  # fmt: skip
        for t in range(n):
            s, row = (place[0] + t, row_g) if t < first else (h_start + t - first, row_h)
            coefficients[row, s] = beta[t]
        counts[0, p], counts[1, p], counts[2, p] = status, steps, computed
        record(p, beta, residual, linear, lower, upper, counts, numbers, total)
        if status == MANY_STEPS:
            return p + 1
    return end


@inner()
def _formulate(positive, place, codes, costs, all_diagonal, vectors, linear, nu):
    """p, bounds and diagonal of one problem."""
    _, _, lower, upper, diagonal = vectors
    first = place[1] - place[0]
    for t in range(linear.size):
        s = place[0] + t if t < first else place[2] + t - first
        label = 1.0 if codes[s] == positive else -1.0
        linear[t], diagonal[t] = label if nu is None else 0.0, all_diagonal[s]
        lower[t], upper[t] = (0.0, costs[s]) if label > 0 else (-costs[s], 0.0)


@inner()
def _place_rows(place, n_samples, on_demand, rows):
    """Where the kernel rows of a problem are."""
    first = place[1] - place[0]
    for t in range(rows[0].size):
        s = place[0] + t if t < first else place[2] + t - first
        rows[0][t] = s * n_samples + place[0] if on_demand is None else -1
        rows[1][t] = s * n_samples + place[2] if on_demand is None else -1


@inner()
def _size(problem, bounds):
    g, h = problem[1], problem[2]
    return bounds[g + 1] - bounds[g] + (bounds[h + 1] - bounds[h] if h >= 0 else 0)


@inner()
def _solve_one(
    place, vectors, linear, rows, memory, on_demand, shared_at, ready, left, stop, source, features,
    limits, small, total, refine, few, shrinking, steps, computed,
    copied, in_place, copies,
):  # fmt: skip
    """Steps and exact residuals in turn until the certificate agrees: status, steps, values.

    The last of the `limits` are the steps after which samples at rest are left out, and the
    violation from which on that may be twice as many.
    """
    beta, residual, lower, upper, diagonal = vectors
    tol, max_steps, budget, turn, close = limits
    least_tol = LEAST_PART_OF_TOL * tol
    n, first, by_group = beta.size, place[1] - place[0], None if total is None else True
    free, fetched = left
    passes, worst, all_moved, exact, given, last_step = 0, np.inf, True, False, tol, np.inf
    if few is not None and n <= SMALL:
        free, values = gather(
            place, residual, rows, memory, on_demand, shared_at, ready, free, stop, source,
            features, small[0],
        )  # fmt: skip
        if values < 0:
            return HARD, ZERO, ZERO
        computed += values
    elif copied is not None:
        begin_copies(copies, place, rows, memory)
    reason = LIMIT if steps > 0 else OPTIMAL
    if few is not None and n <= SMALL and steps == 0 and total is None:
        steps += start_of_few(small, beta, linear, lower, upper, max_steps)
    while True:
        if few is not None and n <= SMALL:
            residual_of_few(small[0], beta, linear, residual)
        else:
            complete, free, fetched, values = exact_residual(
                place, beta, residual, linear, rows, memory, on_demand, shared_at, ready, free,
                stop, source, features, fetched,
            )  # fmt: skip
            computed += values
            if not complete:
                return HARD, steps, computed
        violation, levels = violation_and_levels(beta, residual, lower, upper, total)
        if refine is not None and violation <= tol and not exact:
            exact, worst = True, np.inf
            tol = max(_EXACT_PART_OF_TOL * tol, _rounding_of_residual(beta, diagonal))
            budget = min(budget, (steps + _STEPS_PER_SAMPLE_TO_EXACT * n) * n)
        if total is not None and violation <= tol:
            lower_tol = _lowered(tol, violation, levels, least_tol)
            if lower_tol < tol:
                if tol == given:
                    last_step = steps + STEPS_BELOW_TOL * max(steps, n)
                tol, worst = lower_tol, np.inf
        if violation <= tol or (violation <= given and steps > last_step):
            return CONVERGED, steps, computed
        if steps >= max_steps:
            return STEP_LIMIT, steps, computed
        if reason == OPTIMAL and all_moved:  # but for what the steps' residual lacks
            passes += 1
            if not violation < worst or passes > _MAX_PASSES:
                return HARD, steps, computed
            worst = violation
        allowed = min(budget // n, _steps_before_hard(n)) - steps
        if reason == TOO_MUCH or allowed <= 0:
            return HARD, steps, computed
        most = min(max_steps - steps, allowed, turn)
        if last_step < np.inf:
            most = min(most, max(n, np.int64(last_step) - steps + 1))
        if refine is not None and (exact or reason == LIMIT):
            between = free_samples(beta, lower, upper)
            if newton_step(between, vectors, rows, memory, first, by_group):
                violation, levels = violation_and_levels(beta, residual, lower, upper, total)
                steps, most = steps + 1, most - 1
            most = min(most, _STEPS_BEFORE_NEWTON)
        elif (
            shrinking is None
            and reason == LIMIT
            and n > SMALL
            and (violation > close or steps > turn)
        ):
            left[0], left[1] = free, fetched
            return MANY_STEPS, steps, computed
        target = constants.TARGET * tol
        if few is not None and n <= SMALL:
            least = least_curvature(diagonal)
            reason, taken = steps_of_few(
                small[0],
                small[1],
                beta,
                residual,
                lower,
                upper,
                least,
                target,
                most,
                first,
                by_group,
            )
            steps += taken
            continue
        reason, taken, all_moved, free, fetched, values = _turn(
            place, vectors, levels, violation, rows, memory, on_demand, shared_at, ready, free,
            stop, source, features, fetched, target, most, shrinking, reason, by_group, copied,
            in_place, copies,
        )  # fmt: skip
        computed += values
        steps += taken


@inner()
def _lowered(tol, violation, levels, least_tol):
    """The tol of a ν-SVC, lowered until its margin is certain or the violation exceeds it."""
    while violation <= tol:
        lower_tol = _tol_for_margin(0.5 * (levels[1] - levels[0]), violation, tol, least_tol)
        if lower_tol == tol:
            break
        tol = lower_tol
    return tol


@inner()
def _turn(
    place, vectors, levels, violation, rows, memory, on_demand, shared_at, ready, free, stop,
    source, features, fetched, target, most, shrinking, reason, by_group, copied,
    in_place, copies,
):  # fmt: skip
    """Steps of the samples not at rest, where those of all reached their limit; else of all.

    Returns
    -------
    why they ended, steps, whether all samples took part, first free place, rows that the problem
    has, values computed
    """
    computed = ZERO
    if copied is not None:
        near, taken = steps_on_copies(
            copies, place, vectors[:4], rows, memory, levels[0], target, most
        )
        return OPTIMAL if near else LIMIT, taken, True, free, fetched, computed
    if shrinking is not None and reason == LIMIT:
        why, taken, free, fetched, computed = steps_of_active(
            place, vectors, levels, violation, rows, memory, on_demand, shared_at, ready, free,
            stop, source, features, fetched, target, most, by_group,
        )  # fmt: skip
        if taken > 0:
            return why, taken, False, free, fetched, computed
    why, taken = LIMIT, ZERO
    if in_place is not None:
        why, taken, free, fetched, values = pair_steps(
            place, vectors, rows, memory, on_demand, shared_at, ready, free, stop, source, features,
            fetched, target, most, by_group,
        )  # fmt: skip
        computed += values
    return why, taken, True, free, fetched, computed


@inner()
def _steps_before_hard(n):
    """Steps after which a problem is left to the block method."""
    return max(
        constants.STEPS_PER_SAMPLE * n, min(constants.STEPS_PER_ROUND, _READ_BEFORE_HARD // n)
    )


@inner()
def _rounding_of_residual(beta, diagonal):
    """What rounding leaves of a residual that would be zero."""
    largest, total = np.float32(0.0), 0.0
    for t in range(beta.size):
        largest = max(largest, abs(diagonal[t]))
        total += abs(beta[t])
    return _UNITS_OF_RESIDUAL * _EPSILON * total * np.float64(largest)
