"""The default: the fastest exact solver for a problem, and the reason for the choice."""

from __future__ import annotations

from maxmargin import constants
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution
from maxmargin.solvers.base import FORMULATIONS, Capabilities, Solver
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.smo import SMO

# Working sets of fewer rows than this do not repay their selection.
_MIN_CACHED_ROWS = 64


class Auto(Solver):
    """Takes the block method wherever the cache holds a working set, else SMO.

    Parameters
    ----------
    shrinking : bool
        Passed on to the solver that is chosen.
    """

    name = "auto"
    capabilities = Capabilities(FORMULATIONS, thread_safe=True)

    def __init__(self, shrinking: bool = True):
        self.shrinking = shrinking

    def choose(self, problem: Problem, run: Run) -> tuple[Solver, str]:
        """The solver for a problem, and why."""
        row_bytes = problem.n * problem.kernel.dtype.itemsize
        rows = run.cache_bytes // row_bytes
        if rows < min(_MIN_CACHED_ROWS, problem.n):
            return (
                SMO(shrinking=self.shrinking),
                f"cache_size holds only {rows} kernel rows of {problem.n} samples, too few for a "
                "working set",
            )
        solver = Decomposition(constants.WORKING_SET, shrinking=self.shrinking)
        if problem.n <= solver.working_set:
            return solver, f"{problem.n} samples fit one working set"
        return solver, f"{problem.n} samples: working sets of {solver.working_set}"

    def solve(self, problem: Problem, run: Run) -> Solution:
        solver, reason = self.choose(problem, run)
        solution = solver.solve(problem, run)
        steps = solution.details.get("second_order")
        if steps:
            kinds = " and ".join(dict.fromkeys(steps))
            reason += f"; {kinds} steps took over"
        solution.solver, solution.reason = solver.name, reason
        return solution
