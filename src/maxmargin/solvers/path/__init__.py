"""Solutions of one problem for growing C, on a kernel matrix in memory."""

from maxmargin.solvers.path.continuation import (
    NeedsFullSolver,
    RegularisationPath,
    find_duplicates,
)
from maxmargin.solvers.path.solver import PathSolver, submatrix

__all__ = ["NeedsFullSolver", "PathSolver", "RegularisationPath", "find_duplicates", "submatrix"]
