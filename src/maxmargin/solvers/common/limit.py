"""When a limit on ‖β‖₁ is slack: the solution of its two sums would have a tube of negative width.

Steps that keep the two sums are lost then. Their objective rewards a large ‖β‖₁ and is not
convex, so that a large C may take millions of them.
"""

from __future__ import annotations

import numpy as np

from maxmargin.problem import Problem


class LimitIsSlack(Exception):
    """Raised by second-order steps whose tube has closed; β is where they ended."""

    def __init__(self, beta: np.ndarray):
        super().__init__()
        self.beta = beta


def seems_slack(problem: Problem, violation: float, levels: tuple[float, ...]) -> bool:
    """Whether the tube that the levels imply is negative by more than their violation.

    Where the limit is met in the end, the one is hardly a quarter of the other at any time.
    """
    return problem.limited and levels[0] + violation < levels[1]


def raise_if_closed(problem: Problem, system, beta: np.ndarray | None, smoothing: float) -> None:
    """Raise `LimitIsSlack` where the stages of IRWLS ended without a tube, and within the limit.

    The strong smoothing of first stages may close it for a while: `smoothing` is that of the last.
    """
    if not problem.limited or beta is None or system.smoothing > smoothing:
        return
    if system.epsilon == 0.0 and np.abs(beta).sum() < system.norm_limit:
        raise LimitIsSlack(beta)
