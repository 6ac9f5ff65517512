"""What the parts of a solve cost, by a model and not by a clock: the same input has the same bits.

All costs are in nanoseconds of one core.
"""

from __future__ import annotations

from maxmargin import constants


def pair_steps(size: int, steps: int) -> float:
    """SMO steps on a working set of that size."""
    return constants.COST_OF_PAIR_STEP * steps * size


def working_set_round(n: int, size: int, steps: int, moved: int) -> float:
    """A round of the block method: gather the block, take the steps, update n residuals."""
    gather = constants.COST_OF_GATHERING * size**2
    return pair_steps(size, steps) + gather + constants.COST_OF_UPDATE * moved * n


def newton_step(n_free: int, n: int) -> float:
    """A Newton step on the free samples of n."""
    factorisation = constants.COST_OF_NEWTON_FLOP * n_free**3 / 3
    values = constants.COST_OF_GATHERING * n_free + constants.COST_OF_UPDATE * n
    return constants.COST_OF_NEWTON_STEP + factorisation + n_free * values


def low_rank_solution(n: int, rank: float) -> float:
    """A factor of n rows, and IRWLS with it."""
    flop = constants.COST_OF_FLOP
    step = constants.COST_OF_LOW_RANK_STEP + constants.COST_OF_FACTOR_ENTRY * n * rank
    return constants.LOW_RANK_STEPS * (step + flop * rank**3) + flop * n * rank**2


def exact_residual(n: int, n_support: int) -> float:
    """p − Kβ of n samples from scratch, whatever the number of features."""
    return constants.COST_OF_GATHERING * n * n_support
