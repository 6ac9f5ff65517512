"""Sweeps of decoupled working sets, then Newton steps: one solver for processors and GPUs."""

from maxmargin.solvers.sweeps.solver import Sweeps

__all__ = ["Sweeps"]
