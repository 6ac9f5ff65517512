"""What every solver has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution

CLASSIFICATION = frozenset({"c_svc"})
# One sum of β is fixed.
ONE_SUM = frozenset({"c_svc", "epsilon_svr", "one_class"})
# All formulations: ν fixes two sums, and regression has a kink at zero.
FORMULATIONS = frozenset({"c_svc", "nu_svc", "epsilon_svr", "nu_svr", "one_class"})


@dataclass(frozen=True)
class Capabilities:
    """What a solver can do. Errors, the table in the docs and the common tests read it.

    Attributes
    ----------
    formulations : names of the formulations that it solves
    exact : whether it ends at the optimum of the whole problem, to the run's tol
    box : whether it knows the bounds on β, hence C and weights; a solver without them solves a
        problem of its own, and reports how far it is from the optimum of that
    thread_safe : whether `solve` may run in several threads at the same time
    uses_features : whether it reads the samples behind the kernel matrix, not kernel values alone
    """

    formulations: frozenset[str] = CLASSIFICATION
    exact: bool = True
    box: bool = True
    thread_safe: bool = False
    uses_features: bool = False


class Solver(ABC):
    """A way to solve a `Problem`.

    A solver is a small object: its options in `__init__`, one public `solve`.

    Attributes
    ----------
    name : the word that `SVC(solver=...)` knows it by
    capabilities : what it can do; a property where that depends on the options
    """

    name: str
    capabilities: Capabilities = Capabilities()

    @property
    def exact(self) -> bool:
        return self.capabilities.exact

    @abstractmethod
    def solve(self, problem: Problem, run: Run) -> Solution:
        """Solve the problem; call `run.monitor` between blocks of at most 0.2 s of work."""

    @contextmanager
    def prepare_batch(
        self, batch: Iterable[tuple[Problem, Run]]
    ) -> Iterator[tuple[Solver, Iterable[tuple[Problem, Run]]]]:
        """A solver for the problems of one fit, and the problems in the order to solve them in.

        For solvers that work on all of them at the same time; others take one after the other.
        """
        yield self, batch

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({options})"
