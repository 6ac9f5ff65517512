"""Sequential minimal optimisation with second-order selection (Fan, Chen and Lin)."""

from maxmargin.solvers.smo.solver import SMO

__all__ = ["SMO"]
