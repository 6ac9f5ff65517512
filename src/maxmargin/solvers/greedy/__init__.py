"""Greedy stagewise SVM (Bo, Wang and Jiao)."""

from maxmargin.solvers.greedy.solver import GreedyStagewise

__all__ = ["GreedyStagewise"]
