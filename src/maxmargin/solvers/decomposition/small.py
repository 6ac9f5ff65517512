"""Small problems, whose kernel matrix is in memory in float64: SMO steps, and nothing to keep.

There are many of them where there are many classes. What the rounds of larger problems
keep for each other would take longer than the steps.
"""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers.common.certified_run import start_of
from maxmargin.solvers.common.limit import seems_slack
from maxmargin.solvers.common.pair_steps import diagonal_for_gains, steps_on_block
from maxmargin.solvers.common.shrinking import settled


def steps_in_memory(
    problem: Problem, run: Run, K: np.ndarray, tol: float, max_steps: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """SMO steps until the violation is within tol or max_steps are taken: β, residual, steps.

    Most end within the first turn, over all samples. Those that crawl go on with
    the samples that may still move, and again with all where these are optimal too
    soon; after each turn the residual of all is computed anew.
    """
    beta, residual = (array.copy() for array in start_of(problem, run))
    diagonal, lower, upper = diagonal_for_gains(K.diagonal()), problem.lower, problem.upper
    limit = min(max(constants.STEPS_PER_SAMPLE * problem.n, constants.STEPS_PER_TURN), max_steps)
    kind = problem.epsilon, problem.by_sign
    taken = steps = steps_on_block(K, diagonal, beta, residual, lower, upper, tol, limit, *kind)
    while limit <= taken < max_steps:
        residual = problem.linear - K @ beta
        violation, levels = violation_of(problem, beta, residual)
        if violation <= tol or seems_slack(problem, violation, levels):
            break
        at_rest = settled(problem, beta, residual, levels, violation)
        index = np.flatnonzero(~at_rest) if steps == limit else np.arange(problem.n)
        block, part, of_part = K[index].take(index, axis=1), beta[index], residual[index]
        steps = steps_on_block(
            block, diagonal[index], part, of_part, lower[index], upper[index],
            tol, min(limit, max_steps - taken), *kind,
        )  # fmt: skip
        beta[index], residual[index] = part, of_part
        taken += steps
    return beta, residual, taken
