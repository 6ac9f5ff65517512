"""Pictures of fits: the decision boundary, and the way to the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from maxmargin.plotting._style import COLOURS, pyplot

_MARGIN = 0.06
# A coefficient within this part of its bound is at it, whatever the rounding of a stored product.
_AT_BOUND = 1.0 - 1e-9
# Decision values beyond this get the deepest shade: what matters lies about the margin, ±1.
_DEEPEST = 3.0


class BoundaryDisplay:
    """The decision boundary of an SVC in the plane, with its support vectors.

    Make one with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    surface_ : the shading of the decision function (two classes) or of the classes
    points_, free_, bounded_ : the markers of the samples, of the support vectors on the margin
        (0 < α < C), and of those at the bound C; None where there are none. Of a solver
        without bounds all support vectors are in `free_`
    """

    def __init__(self, *, grid, values, points, labels, classes, support, bounded):
        self.grid = grid
        self.values = values
        self.points = points
        self.labels = labels
        self.classes = classes
        self.support = support
        self.bounded = bounded

    @classmethod
    def from_estimator(
        cls, estimator, X, y, *, projection=None, sample_weight=None, grid_resolution=200, ax=None
    ) -> BoundaryDisplay:
        """Draw the boundary of a fitted SVC.

        Parameters
        ----------
        estimator : fitted SVC
        X, y : the data that it was fitted to
        projection : fitted transformer onto two dimensions, default=None
            For data with more than two features, such as ``PCA(2).fit(X)``. Samples are shown
            where `transform` puts them, and the boundary is the one of the plane that
            `inverse_transform` lays through the data, so the two need not agree.
        sample_weight : array-like, default=None
            The weights of the fit: they tell which support vectors are at their bound.
        grid_resolution : int, default=200
            Points of the grid on each axis.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("BoundaryDisplay")
        check_is_fitted(estimator)
        if callable(estimator.kernel) or estimator.kernel == "precomputed":
            raise ValueError(
                f"BoundaryDisplay needs a kernel of features, not kernel={estimator.kernel!r}."
            )
        X = X.toarray() if sp.issparse(X) else np.asarray(X)
        points = X if projection is None else np.asarray(projection.transform(X))
        if points.shape[1] != 2:
            raise ValueError(
                f"BoundaryDisplay draws in two dimensions and X has {points.shape[1]}; give a "
                "projection such as PCA(2).fit(X)."
            )
        grid, plane = _grid(points, grid_resolution)
        samples = plane if projection is None else projection.inverse_transform(plane)
        binary = len(estimator.classes_) == 2
        if binary:
            values = estimator.decision_function(samples)
        else:
            values = np.searchsorted(estimator.classes_, estimator.predict(samples))
        display = cls(
            grid=grid,
            values=values.reshape(grid[0].shape),
            points=points,
            labels=np.searchsorted(estimator.classes_, np.asarray(y)),
            classes=estimator.classes_,
            support=estimator.support_,
            bounded=_at_bound(estimator, sample_weight),
        )
        return display.plot(ax)

    def plot(self, ax=None) -> BoundaryDisplay:
        """Draw, on `ax` or a new figure."""
        plt = pyplot("BoundaryDisplay")
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap

        if ax is None:
            _, ax = plt.subplots(figsize=(7, 5.8), layout="constrained")
        colours = [COLOURS[k % len(COLOURS)] for k in range(len(self.classes))]
        if len(self.classes) == 2:
            shades = LinearSegmentedColormap.from_list("classes", [colours[0], "white", colours[1]])
            self.surface_ = ax.pcolormesh(
                *self.grid, self.values, cmap=shades, vmin=-_DEEPEST, vmax=_DEEPEST, alpha=0.35,
                shading="auto", rasterized=True,
            )  # fmt: skip
            ax.contour(
                *self.grid, self.values, levels=[-1.0, 0.0, 1.0], colors="#222222",
                linestyles=["--", "-", "--"], linewidths=[0.9, 1.8, 0.9],
            )  # fmt: skip
        else:
            self.surface_ = ax.pcolormesh(
                *self.grid, self.values, cmap=ListedColormap(colours), vmin=-0.5,
                vmax=len(colours) - 0.5, alpha=0.25, shading="auto", rasterized=True,
            )  # fmt: skip
        self.points_ = [
            ax.scatter(
                *self.points[self.labels == k].T, s=14, color=colour, linewidth=0, zorder=3,
                label=f"class {name}",
            )
            for k, (name, colour) in enumerate(zip(self.classes, colours))
        ]  # fmt: skip
        known = self.bounded is not None
        bounded = self.bounded if known else np.zeros(len(self.support), bool)
        free = "on the margin, 0 < α < C" if known else "support vectors"
        self.free_ = self._ring(ax, ~bounded, 46, 1.3, free)
        self.bounded_ = self._ring(ax, bounded, 30, 0.6, "at the bound, α = C")
        ax.set(xlim=self.grid[0][0, [0, -1]], ylim=self.grid[1][[0, -1], 0])
        # Below the axes, where it hides nothing.
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, fontsize=9, frameon=False
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _ring(self, ax, chosen, size, width, label):
        """Rings around some of the support vectors; None where there are none."""
        if not chosen.any():
            return None
        return ax.scatter(
            *self.points[self.support[chosen]].T, s=size, facecolors="none", edgecolors="black",
            linewidths=width, zorder=4, label=f"{label}: {chosen.sum()}",
        )  # fmt: skip


def _grid(points: np.ndarray, resolution: int):
    """A grid over the points and a margin around them: (its two coordinates, its points)."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * np.where(high > low, high - low, 1.0)
    axes = np.linspace(low - margin, high + margin, resolution).T
    grid = np.meshgrid(*axes)
    return grid, np.column_stack([part.ravel() for part in grid])


def _at_bound(estimator, sample_weight) -> np.ndarray | None:
    """Which support vectors have a coefficient at its bound, in any of the binary problems.

    None where the solver knows no bounds.
    """
    from maxmargin.solvers import make_solver

    if not make_solver(estimator.solver).capabilities.box:
        return None
    coefficients = estimator.dual_coef_
    if sp.issparse(coefficients):
        coefficients = coefficients.toarray()
    classes = np.repeat(np.arange(len(estimator.classes_)), estimator.n_support_)
    bounds = estimator.C * estimator.class_weight_[classes]
    if sample_weight is not None:
        bounds = bounds * np.asarray(sample_weight)[estimator.support_]
    return (np.abs(coefficients) >= _AT_BOUND * bounds).any(axis=0)


class ConvergenceDisplay:
    """How fits approached the optimum: KKT violation and objective over time.

    The objective is shown as its distance to the lower bound that the fit proved
    in the end (the last objective less its duality gap), so that fits of
    different problems can share a picture.

    Attributes
    ----------
    axes_, figure_ : where it was drawn
    lines_ : the lines of each fit, by its name: (violation, objective)
    """

    def __init__(self, *, reports: Mapping, tol: float):
        self.reports = dict(reports)
        self.tol = tol

    @classmethod
    def from_estimators(
        cls, estimators: Mapping | Sequence, *, problem: int = 0, axes=None
    ) -> ConvergenceDisplay:
        """Draw the histories of fitted SVCs.

        Parameters
        ----------
        estimators : {name: fitted SVC}, or a list of fitted SVCs, named by their solvers
        problem : int, default=0
            Which of the binary problems, where there are more than two classes.
        axes : two matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("ConvergenceDisplay")
        if not isinstance(estimators, Mapping):
            estimators = {
                f"{k}: {estimator.fit_report_[problem].solver}": estimator
                for k, estimator in enumerate(estimators, start=1)
            }
        for estimator in estimators.values():
            check_is_fitted(estimator)
        reports = {name: fitted.fit_report_[problem] for name, fitted in estimators.items()}
        tol = min(fitted.fit_report_.tol for fitted in estimators.values())
        return cls(reports=reports, tol=tol).plot(axes)

    def plot(self, axes=None) -> ConvergenceDisplay:
        """Draw, on two `axes` or a new figure."""
        plt = pyplot("ConvergenceDisplay")
        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
        self.lines_ = {}
        for k, (name, report) in enumerate(self.reports.items()):
            seconds, violation, distance = _curves(report)
            style = {"color": COLOURS[k % len(COLOURS)], "marker": "o", "markersize": 3}
            self.lines_[name] = (
                axes[0].plot(seconds, violation, label=name, **style)[0],
                axes[1].plot(seconds, distance, label=name, **style)[0],
            )
        axes[0].axhline(self.tol, color="0.4", linestyle="--", linewidth=0.9, label="tol")
        axes[0].set(ylabel="KKT violation", xlabel="seconds", yscale="log")
        axes[1].set(ylabel="objective − proven lower bound", xlabel="seconds", yscale="log")
        for ax in axes:
            ax.grid(linewidth=0.3)
        axes[0].legend(fontsize=8)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


def _curves(report) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, KKT violation and distance to the bound of one fit, its certificate at the end."""
    lines = [(line.seconds, line.kkt_violation, line.objective) for line in report.history]
    lines.append((report.seconds, report.kkt_violation, report.objective))
    seconds, violation, objective = np.array(lines).T
    distance = (objective - report.objective) + report.duality_gap
    # What rounding makes zero or negative has no place on a logarithmic axis.
    return seconds, _positive(violation), _positive(distance)


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
