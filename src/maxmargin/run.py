"""Everything about one solve that is not part of the problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.monitor import Monitor
from maxmargin.problem import Problem

if TYPE_CHECKING:
    from maxmargin.optimality import Certificate


def _same(certificate: Certificate, tol: float) -> float:
    return tol


@dataclass(frozen=True, eq=False)
class Run:
    """Options of one solve.

    Attributes
    ----------
    tol : the KKT violation at which the problem counts as solved
    cache_bytes : memory that kernel values may take
    start : a β to start from, feasible or nearly so, or None
    start_residual : p − Kβ at the start, where it is known
    start_steps : SMO steps that led to the start
    random_state : seed for solvers that draw random numbers
    provisional : whether the answer will be judged by others: the solver then need not
        certify it in float64 and does not refine it
    refine : whether a small problem is solved beyond tol, to the exact optimum
    lower_tol : certificate within tol, tol → the tol to go on with, which may be the same. A solver
        that does not ask is asked again
    monitor : limits, interrupts and callbacks
    """

    tol: float = 1e-3
    cache_bytes: int = 200 * 2**20
    start: np.ndarray | None = None
    start_residual: np.ndarray | None = None
    start_steps: int = 0
    random_state: int = 0
    provisional: bool = False
    refine: bool = True
    lower_tol: Callable[[Certificate, float], float] = _same
    monitor: Monitor = field(default_factory=Monitor)

    def initial_beta(self, problem: Problem) -> np.ndarray:
        """The start, made feasible; zero, or what is feasible near it, where there is none."""
        return problem.feasible(self.start)
