"""The solvers by name. A solver is loaded, and its parts compiled, when it is first used."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

from maxmargin.solvers.base import Solver

# One line per solver: its name, its class, the package of its class.
HOMES = {
    "auto": ("Auto", "maxmargin.solvers.auto"),
    "decomposition": ("Decomposition", "maxmargin.solvers.decomposition"),
    "smo": ("SMO", "maxmargin.solvers.smo"),
    "irwls": ("IRWLS", "maxmargin.solvers.irwls"),
    "cluster": ("ClusterSVM", "maxmargin.solvers.cluster"),
    "hierarchical": ("HierarchicalSVM", "maxmargin.solvers.hierarchical"),
    "greedy": ("GreedyStagewise", "maxmargin.solvers.greedy"),
    "sweeps": ("Sweeps", "maxmargin.solvers.sweeps"),
}


class _Solvers(Mapping[str, type[Solver]]):
    """The class of each solver."""

    def __getitem__(self, name: str) -> type[Solver]:
        return _class_at(*HOMES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(HOMES)

    def __len__(self) -> int:
        return len(HOMES)


@cache
def _class_at(class_name: str, package: str) -> type[Solver]:
    return getattr(import_module(package), class_name)


SOLVERS = _Solvers()


def make_solver(solver: str | Solver, *, shrinking: bool = True) -> Solver:
    """The solver of that name, or the solver object itself with its own options."""
    if isinstance(solver, Solver):
        return solver
    if not isinstance(solver, str) or solver not in HOMES:
        raise ValueError(
            f"solver must be one of {sorted(HOMES)} or a solver object, got {solver!r}."
        )
    return SOLVERS[solver](**({"shrinking": shrinking} if _may_shrink(solver) else {}))


@cache
def _may_shrink(solver: str) -> bool:
    return "shrinking" in inspect.signature(SOLVERS[solver]).parameters
