"""The decision boundary in the plane of two features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.estimators.unwrap import Unwrapped, unwrap
from maxmargin.plotting._fitted import as_fitted, at_bound, check_samples
from maxmargin.plotting._style import colours, legend, pyplot, support_rings
from maxmargin.sparse_format import densified

# Space around the samples, as part of their range.
_MARGIN = 0.06
# Decision values beyond this get the deepest shade: the margin, ±1, is what matters.
_DEEPEST = 3.0


@dataclass(kw_only=True, eq=False, repr=False)
class BoundaryDisplay:
    """The decision boundary of a classifier or of a `OneClassSVM`, with its support vectors.

    Make one with :meth:`from_estimator`.

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    surface_ : the shading of the decision function (two classes) or of the classes
    points_, free_, bounded_ : the markers of the samples, of the support vectors on the margin
        (0 < α < C), and of those at the bound C; None where there are none. Of a solver
        without bounds all support vectors are in `free_`
    """

    grid: Sequence[np.ndarray]
    values: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    classes: Any
    support: np.ndarray
    bounded: np.ndarray | None
    names: tuple[str, str] = ("", "")
    levels: tuple[float, ...] = (-1.0, 0.0, 1.0)

    @classmethod
    def from_estimator(
        cls, estimator, X, y=None, *, projection=None, sample_weight=None, grid_resolution=200,
        ax=None,
    ) -> BoundaryDisplay:  # fmt: skip
        """Draw the boundary of a fitted model, in the units of X.

        Parameters
        ----------
        estimator : fitted SVC, NuSVC or OneClassSVM
            Or a pipeline, a search or a calibrated model with one inside. The boundary is that of
            the SVM; its values 0 and ±1 are drawn where they lie in the data as given.
        X, y : the data that it was fitted to
            Columns of a DataFrame give the axes their names. A OneClassSVM needs no y.
        projection : fitted transformer onto two dimensions, default=None
            For data with more than two features, such as ``PCA(2).fit(X)``. Samples are shown
            where `transform` puts them, and the boundary is the one of the plane that
            `inverse_transform` lays through the data, so the two need not agree.
        sample_weight : array-like, default=None
            The weights of the fit, which decide which support vectors are at their bound.
        grid_resolution : int, default=200
            Points of the grid on each axis.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("BoundaryDisplay")
        found = unwrap(estimator)
        _check(found.svm, X)
        table = densified(X)
        named = X if hasattr(projection, "feature_names_in_") else table
        points = table if projection is None else np.asarray(projection.transform(named))
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(
                f"BoundaryDisplay draws in two dimensions and X has {points.shape[-1]}; give a "
                "projection such as PCA(2).fit(X)."
            )
        grid, plane = _grid(points, grid_resolution)
        samples = plane if projection is None else projection.inverse_transform(plane)
        samples = as_fitted(estimator, X, samples)
        values, classes, labels = _answers(found, samples, X, y)
        display = cls(
            grid=grid,
            values=values.reshape(grid[0].shape),
            points=points,
            labels=labels,
            classes=classes,
            support=found.svm.support_,
            bounded=at_bound(found.svm, sample_weight),
            names=_names(estimator, X, projection),
            levels=(-1.0, 0.0, 1.0) if hasattr(found.svm, "classes_") else (0.0,),
        )
        return display.plot(ax)

    def plot(self, ax=None) -> BoundaryDisplay:
        """Draw, on `ax` or a new figure."""
        plt = pyplot("BoundaryDisplay")
        own_figure = ax is None
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 5.8), layout="constrained")
        palette = colours(len(self.classes))
        self._shade(ax, palette)
        self.points_ = [
            ax.scatter(
                *self.points[self.labels == k].T, s=14, color=colour, linewidth=0, zorder=3,
                label=name if isinstance(name, str) else f"class {name}",
            )
            for k, (name, colour) in enumerate(zip(self.classes, palette))
        ]  # fmt: skip
        bound = "C" if len(self.levels) > 1 else "1"
        self.free_, self.bounded_ = support_rings(
            ax, self.points[self.support], self.bounded,
            f"on the margin, 0 < α < {bound}", f"at the bound, α = {bound}",
        )  # fmt: skip
        ax.set(
            xlim=self.grid[0][0, [0, -1]], ylim=self.grid[1][[0, -1], 0],
            xlabel=self.names[0], ylabel=self.names[1],
        )  # fmt: skip
        legend(ax, own_figure)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _shade(self, ax, palette) -> None:
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap

        if len(self.classes) > 2:
            self.surface_ = ax.pcolormesh(
                *self.grid, self.values, cmap=ListedColormap(palette), vmin=-0.5,
                vmax=len(palette) - 0.5, alpha=0.25, shading="auto", rasterized=True,
            )  # fmt: skip
            return
        shades = LinearSegmentedColormap.from_list("classes", [palette[0], "white", palette[1]])
        margins = len(self.levels) > 1
        deepest = _DEEPEST if margins else max(float(np.abs(self.values).max()), 1e-300)
        self.surface_ = ax.pcolormesh(
            *self.grid, self.values, cmap=shades, vmin=-deepest, vmax=deepest, alpha=0.35,
            shading="auto", rasterized=True,
        )  # fmt: skip
        ax.contour(
            *self.grid, self.values, levels=list(self.levels), colors="#222222",
            linestyles=["--", "-", "--"] if margins else ["-"],
            linewidths=[0.9, 1.8, 0.9] if margins else [1.8],
        )  # fmt: skip


def _check(svm, X) -> None:
    if callable(svm.kernel) or svm.kernel == "precomputed":
        raise ValueError(f"BoundaryDisplay needs a kernel of features, not kernel={svm.kernel!r}.")
    if not hasattr(svm, "decision_function"):
        raise TypeError(
            f"BoundaryDisplay draws SVC, NuSVC and OneClassSVM, not {type(svm).__name__}."
        )
    check_samples(svm, X, "BoundaryDisplay")


def _answers(found: Unwrapped, samples, X, y) -> tuple[np.ndarray, Any, np.ndarray]:
    """Values on the grid, names of the classes, and the number of each sample's class."""
    svm, features = found.svm, found.features(samples)
    if not hasattr(svm, "classes_"):
        inside = svm.predict(found.features(X)) > 0
        return svm.decision_function(features), ("outliers", "inliers"), inside.astype(int)
    if y is None:
        raise ValueError("BoundaryDisplay needs the labels y of a classifier.")
    classes = svm.classes_
    if len(classes) == 2:
        values = svm.decision_function(features)
    else:
        values = np.searchsorted(classes, svm.predict(features))
    return values, classes, np.searchsorted(classes, np.asarray(y))


def _grid(points: np.ndarray, resolution: int):
    """A grid over the points and a margin around them: (its two coordinates, its points)."""
    low, high = points.min(axis=0), points.max(axis=0)
    margin = _MARGIN * np.where(high > low, high - low, 1.0)
    axes = np.linspace(low - margin, high + margin, resolution).T
    grid = np.meshgrid(*axes)
    return grid, np.column_stack([part.ravel() for part in grid])


def _names(estimator, X, projection) -> tuple[str, str]:
    """Names of the axes; empty where the features have none."""
    if projection is not None:
        named = getattr(projection, "get_feature_names_out", None)
        names = list(named()) if named is not None else []
    else:
        names = list(getattr(X, "columns", getattr(estimator, "feature_names_in_", ())))
    return (str(names[0]), str(names[1])) if len(names) == 2 else ("", "")
