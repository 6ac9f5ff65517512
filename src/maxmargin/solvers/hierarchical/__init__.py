"""Hierarchical parallel training (Wen and Lu)."""

from maxmargin.solvers.hierarchical.solver import HierarchicalSVM

__all__ = ["HierarchicalSVM"]
