"""The function of a regression, its tube and its support vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor

from maxmargin.estimators.unwrap import unwrap
from maxmargin.plotting._fitted import as_fitted, at_bound, check_samples
from maxmargin.plotting._style import COLOURS, legend, pyplot, support_rings
from maxmargin.sparse_format import densified


@dataclass(kw_only=True, eq=False, repr=False)
class RegressionDisplay:
    """The function of an `SVR` or `NuSVR` between the walls of its tube, with its support vectors.

    Make one with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    curve_ : the function
    tube_ : the band of half-width ε around it; None where ε is not known
    points_, free_, bounded_ : the markers of the samples, of the support vectors on the wall of the
        tube (0 < ``|β|`` < C), and of those outside, at the bound C; None where there are none
    """

    across: np.ndarray
    targets: np.ndarray
    curve: tuple[np.ndarray, np.ndarray]
    epsilon: float | None
    support: np.ndarray
    bounded: np.ndarray | None
    names: tuple[str, str] = ("", "")

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, sample_weight=None, grid_resolution=400, ax=None
    ) -> RegressionDisplay:
        """Draw the function of a fitted model, in the units of X and y.

        With one feature it is drawn over that feature. With more, samples are shown where their
        prediction is: the function is the diagonal, and the tube lies around it in the same way.

        Parameters
        ----------
        estimator : fitted SVR or NuSVR
            Or a pipeline or a search with one inside. Where a wrapper changes the predictions, as
            that of scaled targets does, there is no tube.
        X, y : the data that it was fitted to
            Columns of a DataFrame give the axis its name.
        sample_weight : array-like, default=None
            The weights of the fit, which decide which support vectors are at their bound.
        grid_resolution : int, default=400
            Points of the curve over one feature.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("RegressionDisplay")
        found = unwrap(estimator)
        svm, targets = found.svm, np.asarray(y, dtype=np.float64)
        if not is_regressor(svm):
            raise TypeError(f"RegressionDisplay draws SVR and NuSVR, not {type(svm).__name__}.")
        check_samples(svm, X, "RegressionDisplay")
        if targets.shape != (X.shape[0] if hasattr(X, "shape") else len(X),):
            raise ValueError(f"y must have a target for each sample, not shape {targets.shape}.")
        across, curve, name = _places(estimator, X, grid_resolution)
        display = cls(
            across=across,
            targets=targets,
            curve=curve,
            epsilon=None if found.after else _epsilon(svm),
            support=svm.support_,
            bounded=at_bound(svm, sample_weight),
            names=(name, str(getattr(y, "name", None) or "target")),
        )
        return display.plot(ax)

    def plot(self, ax=None) -> RegressionDisplay:
        """Draw, on `ax` or a new figure."""
        plt = pyplot("RegressionDisplay")
        own_figure = ax is None
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 5), layout="constrained")
        across, values = self.curve
        self.tube_ = None
        if self.epsilon is not None:
            low, high = values - self.epsilon, values + self.epsilon
            self.tube_ = ax.fill_between(
                across, low, high, color=COLOURS[0], alpha=0.15, linewidth=0,
                label=f"tube, ε = {self.epsilon:.3g}",
            )  # fmt: skip
        (self.curve_,) = ax.plot(across, values, color=COLOURS[0], linewidth=1.8, label="function")
        self.points_ = ax.scatter(
            self.across, self.targets, s=14, color=COLOURS[1], linewidth=0, zorder=3,
            label="samples",
        )  # fmt: skip
        points = np.column_stack([self.across, self.targets])[self.support]
        self.free_, self.bounded_ = support_rings(
            ax, points, self.bounded, "on the wall, 0 < |β| < C", "outside, |β| = C"
        )
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        legend(ax, own_figure)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _places(estimator, X, resolution: int) -> tuple[np.ndarray, tuple, str]:
    """Where samples are on the first axis, the curve as two arrays, and the axis's name."""
    shape = getattr(X, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] != 1:
        predicted = np.asarray(estimator.predict(X))
        ends = np.array([predicted.min(), predicted.max()])
        return predicted, (ends, ends), "prediction"
    across = densified(X)[:, 0]
    grid = np.linspace(across.min(), across.max(), resolution)
    table = grid[:, np.newaxis]
    samples = sp.csr_array(table) if sp.issparse(X) else as_fitted(estimator, X, table)
    name = str(X.columns[0]) if hasattr(X, "columns") else "feature"
    return across, (grid, np.asarray(estimator.predict(samples))), name


def _epsilon(svm) -> float | None:
    """ε, which for a NuSVR is in the report of its fit alone."""
    if hasattr(svm, "epsilon"):
        return float(svm.epsilon)
    report = getattr(svm, "fit_report_", None)
    return None if report is None else report[0].quantities.get("epsilon")
