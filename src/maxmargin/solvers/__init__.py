"""The solvers, and how a name becomes one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxmargin.late_names import late_names
from maxmargin.solvers.base import Capabilities, Solver
from maxmargin.solvers.registry import HOMES, SOLVERS, make_solver

if TYPE_CHECKING:
    from maxmargin.solvers.auto import Auto
    from maxmargin.solvers.cluster import ClusterSVM
    from maxmargin.solvers.decomposition import Decomposition
    from maxmargin.solvers.greedy import GreedyStagewise
    from maxmargin.solvers.hierarchical import HierarchicalSVM
    from maxmargin.solvers.irwls import IRWLS
    from maxmargin.solvers.smo import SMO
    from maxmargin.solvers.sweeps import Sweeps

__all__ = [
    "IRWLS",
    "SMO",
    "SOLVERS",
    "Auto",
    "Capabilities",
    "ClusterSVM",
    "Decomposition",
    "GreedyStagewise",
    "HierarchicalSVM",
    "Solver",
    "Sweeps",
    "make_solver",
]

_PACKAGES = dict(HOMES.values())


__getattr__ = late_names(__name__, _PACKAGES)


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
