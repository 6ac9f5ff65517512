"""When a limit on ‖β‖₁ is slack: the solution of its two sums would have a tube of negative width.

Steps that keep the two sums are lost then. Their objective rewards a large ‖β‖₁ and is not
convex, so that a large C may take millions of them.
"""

from __future__ import annotations

import numpy as np

from maxmargin.problem import Problem

# The part of the violation by which levels must have crossed. Where the limit is met in the end it
# was at most 0.3, and 0.7 where the limit was just met, within a thousandth.
_PART_OF_VIOLATION = 0.5


class LimitIsSlack(Exception):
    """Raised by second-order steps whose tube has closed; β is where they ended."""

    def __init__(self, beta: np.ndarray):
        super().__init__()
        self.beta = beta


def seems_slack(problem: Problem, violation: float, levels: tuple[float, ...]) -> bool:
    """Whether the levels imply a tube so negative that their violation hardly explains it.

    Call it only after as many steps as there are samples: the few samples of a start may have
    levels that cross.
    """
    return problem.limited and levels[0] + _PART_OF_VIOLATION * violation < levels[1]


def raise_if_closed(problem: Problem, system, beta: np.ndarray | None, smoothing: float) -> None:
    """Raise `LimitIsSlack` where the stages of IRWLS ended without a tube, and within the limit.

    The strong smoothing of first stages may close it for a while: `smoothing` is that of the last.
    """
    if not problem.limited or beta is None or system.smoothing > smoothing:
        return
    if system.epsilon == 0.0 and np.abs(beta).sum() < system.norm_limit:
        raise LimitIsSlack(beta)
