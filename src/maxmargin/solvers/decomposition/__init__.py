"""The block method: large working sets, SMO steps inside, Newton steps at the end."""

from maxmargin.solvers.decomposition.solver import Decomposition

__all__ = ["Decomposition"]
