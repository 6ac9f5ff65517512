"""Iteratively re-weighted least squares with chunking (Pérez-Cruz et al.)."""

from maxmargin.solvers.irwls.solver import IRWLS

__all__ = ["IRWLS"]
