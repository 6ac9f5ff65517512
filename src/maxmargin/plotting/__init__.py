"""Pictures of fits and searches, in the manner of scikit-learn's Display classes.

matplotlib is needed only when something is drawn: ``pip install maxmargin[plot]``.
"""

from maxmargin.plotting.boundary import BoundaryDisplay
from maxmargin.plotting.convergence import ConvergenceDisplay
from maxmargin.plotting.grid import GridDisplay, plot_grid
from maxmargin.plotting.regression import RegressionDisplay
from maxmargin.plotting.scaling import ScalingDisplay

__all__ = [
    "BoundaryDisplay",
    "ConvergenceDisplay",
    "GridDisplay",
    "RegressionDisplay",
    "ScalingDisplay",
    "plot_grid",
]
