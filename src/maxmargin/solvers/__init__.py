"""The solvers, and how a name becomes one."""

from __future__ import annotations

import inspect
from functools import cache

from maxmargin.solvers.auto import Auto
from maxmargin.solvers.base import Solver
from maxmargin.solvers.cluster.solver import ClusterSVM
from maxmargin.solvers.decomposition.solver import Decomposition
from maxmargin.solvers.greedy.solver import GreedyStagewise
from maxmargin.solvers.hierarchical.solver import HierarchicalSVM
from maxmargin.solvers.irwls.solver import IRWLS
from maxmargin.solvers.smo.solver import SMO

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Auto,
        Decomposition,
        SMO,
        IRWLS,
        ClusterSVM,
        HierarchicalSVM,
        GreedyStagewise,
    )
}

__all__ = [
    "IRWLS",
    "SMO",
    "SOLVERS",
    "Auto",
    "ClusterSVM",
    "Decomposition",
    "GreedyStagewise",
    "HierarchicalSVM",
    "Solver",
    "make_solver",
]


def make_solver(solver: str | Solver, *, shrinking: bool = True) -> Solver:
    """The solver of that name, or the object itself, whose own options then count."""
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise ValueError(
            f"solver must be one of {sorted(SOLVERS)} or a solver object, got {solver!r}."
        )
    return SOLVERS[solver](**({"shrinking": shrinking} if _may_shrink(solver) else {}))


@cache
def _may_shrink(solver: str) -> bool:
    return "shrinking" in inspect.signature(SOLVERS[solver]).parameters
