"""What every solver has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from maxmargin.monitor import Monitor
from maxmargin.problem import Problem
from maxmargin.solution import Solution


class Solver(ABC):
    """A way to solve a `Problem`.

    A solver is a small object: its options in `__init__`, one public `solve`.

    Attributes
    ----------
    name : the word that `SVC(solver=...)` knows it by
    exact : whether it ends at the optimum of the whole problem, to the problem's tol
    uses_costs : whether C and the weights mean anything to it
    side_by_side : whether `solve` may run in several threads at the same time
    """

    name: str
    exact: bool = True
    uses_costs: bool = True
    side_by_side: bool = False

    @abstractmethod
    def solve(self, problem: Problem, monitor: Monitor) -> Solution:
        """Solve the problem; call `monitor.update` between blocks of at most 0.2 s of work."""

    @contextmanager
    def working_on(self, problems: Iterable[Problem]) -> Iterator[tuple[Solver, Iterable[Problem]]]:
        """A solver for the problems of one fit, and the problems in the order to solve them in.

        For solvers that work on all of them at the same time; others take one after the other.
        """
        yield self, problems

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"
