"""The heat map of a search over a grid."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from maxmargin.plotting import _deferred
from maxmargin.plotting._style import pyplot

# Cells of this width and height in points have room for their score, and up to this many are not
# too many.
_TEXT_WIDTH, _TEXT_HEIGHT = 24.0, 9.0
_CELLS_WITH_TEXT = 150
# Characters of a label that is short.
_SHORT = 5
# Below this width in points, a place in a figure has small letters.
_NARROW = 290.0


def plot_grid(search, *, x=None, y=None, score=None, ax=None) -> GridDisplay:
    """Draw the scores of a fitted search; short for `GridDisplay.from_search`."""
    return GridDisplay.from_search(search, x=x, y=y, score=score, ax=ax)


@dataclass(kw_only=True, eq=False, repr=False)
class GridDisplay:
    """Mean scores over two parameters of a grid, the best of them marked.

    Make one with :meth:`from_search` or `plot_grid`.

    Attributes
    ----------
    ax_, figure_ : where it was drawn
    image_ : the heat map
    best_ : the frame of the best cell
    """

    scores: np.ndarray
    names: tuple[str | None, str | None]
    values: list[list]
    score_name: str

    @classmethod
    def from_search(cls, search, *, x=None, y=None, score=None, ax=None) -> GridDisplay:
        """Draw a fitted `SVCSearch`, `SVRSearch` or `GridSearchCV`.

        Parameters
        ----------
        search : fitted search
            Of an SVC or of a pipeline with one; or a pipeline that ends in a search.
        x, y : str, default=None
            Parameters of the two axes; None takes gamma and C where the grid has them,
            else those with most values. Of candidates that differ only in others,
            the best is shown.
        score : str, default=None
            Which score, where there are several.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("GridDisplay")
        results = _results(search)
        means, score_name = _means(results, score)
        columns = {
            name.removeprefix("param_"): column
            for name, column in results.items()
            if name.startswith("param_")
        }
        names = _axes(columns, x, y)
        values = [_distinct(columns[name]) if name else [""] for name in names]
        scores = np.full((len(values[1]), len(values[0])), np.nan)
        for number, mean in enumerate(means):
            chosen = [columns[name][number] if name else "" for name in names]
            if any(value is np.ma.masked for value in chosen):
                continue  # a candidate of another grid, without this parameter
            column, row = (known.index(value) for known, value in zip(values, chosen))
            scores[row, column] = np.fmax(scores[row, column], mean)
        return cls(scores=scores, names=names, values=values, score_name=score_name).plot(ax)

    def plot(self, ax=None) -> GridDisplay:
        """Draw, on `ax` or a new figure."""
        plt = pyplot("GridDisplay")
        rows, columns = self.scores.shape
        if ax is None:
            size = (2.2 + 0.62 * max(columns, 4), 1.4 + 0.42 * max(rows, 3))
            _, ax = plt.subplots(figsize=size, layout="constrained")
        place = _deferred.Place(ax)  # before the colour bar takes a part of it
        self.image_ = ax.imshow(self.scores, origin="lower", aspect="auto", cmap="viridis")
        bar = ax.figure.colorbar(self.image_, ax=ax, label=self.score_name).ax
        if place.width() < _NARROW:
            _deferred.small_letters(ax, bar)
        self.best_ = None
        if not np.isnan(self.scores).all():
            row, column = np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
            self.best_ = ax.add_patch(
                plt.Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, ec="#d62728", lw=2.2)
            )
        for axis, name, values in zip((ax.xaxis, ax.yaxis), self.names, self.values):
            _deferred.label_cells(axis, _labels(values))
            axis.set_label_text((name or "").rpartition("__")[2])
        place.stay_within(ax, bar)
        # Powers stay as they are: some of them say what the others are.
        if _base_of(self.values[0]) is None:
            _deferred.turn_labels(ax.xaxis, columns)
            place.stay_within(ax, bar)
        width, height = _deferred.size_in_points(ax)
        roomy = width / columns >= _TEXT_WIDTH and height / rows >= _TEXT_HEIGHT
        if roomy and self.scores.size <= _CELLS_WITH_TEXT:
            self._write_scores(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _write_scores(self, ax) -> None:
        middle = 0.5 * (np.nanmin(self.scores) + np.nanmax(self.scores))
        for (row, column), score in np.ndenumerate(self.scores):
            if not np.isnan(score):
                ax.text(
                    column, row, f"{score:.3f}", ha="center", va="center", fontsize=7,
                    color="white" if score < middle else "black",
                )  # fmt: skip


def _means(results: dict, score: str | None) -> tuple[np.ndarray, str]:
    """The mean scores to show, and what they are called."""
    known = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
    if score is None:
        if len(known) > 1:
            raise ValueError(f"score must say which of {', '.join(known)} to draw.")
        score = known[0]
    if score not in known:
        raise ValueError(f"score must be one of {', '.join(known)}, not {score!r}.")
    return results[f"mean_test_{score}"], f"mean {score}" if score != "score" else "mean score"


def _axes(columns: dict, x: str | None, y: str | None) -> tuple[str | None, str | None]:
    """The parameters of the axes; None for an axis that the grid has no parameter for."""
    for name in (x, y):
        if name is not None and name not in columns:
            raise ValueError(f"the grid has no parameter {name!r}, only {', '.join(columns)}.")
    if x is not None and x == y:
        raise ValueError(f"x and y must be two parameters, not both {x!r}.")
    by_count = sorted(columns, key=lambda name: -len(_distinct(columns[name])))
    many = [name for name in by_count if len(_distinct(columns[name])) > 1]
    gammas, costs = _called("gamma", many), _called("C", columns)
    if x is None:
        x = next((name for name in (*gammas, *many) if name != y and name not in costs), None)
    if y is None:
        y = next((name for name in (*costs, *many, *by_count) if name != x), None)
    return x, y


def _called(parameter: str, names) -> list[str]:
    """The names that end in a parameter: that of a step of a pipeline has the step's before it."""
    return [name for name in names if name.rpartition("__")[2] == parameter]


def _results(search) -> dict:
    """The results of a search, which may be the last step of a pipeline."""
    while isinstance(search, Pipeline):
        search = search.steps[-1][1]
    if not hasattr(search, "fit"):
        raise TypeError(f"plot_grid draws a fitted search, not {type(search).__name__}.")
    check_is_fitted(search, "cv_results_")
    return search.cv_results_


def _distinct(column) -> list:
    """The values of a parameter: numbers in their order, then others as they come."""
    values: list = []
    for value in column:
        if value is not np.ma.masked and value not in values:
            values.append(value)
    numbers = _numbers(values)
    return sorted(numbers) + [value for value in values if value not in numbers]


def _labels(values: list) -> list[str]:
    """Values as short labels; powers of two and ten as such, since grids are made of them."""
    base, numbers = _base_of(values), _numbers(values)
    known = [float(value) for value in numbers]
    # Two digits, or as many as tell all of them apart.
    digits = next(
        (d for d in range(2, 17) if len({_short(v, d) for v in known}) == len(set(known))), 17
    )
    return [
        _number(float(value), base, digits)
        if value in numbers
        else getattr(value, "__name__", str(value))
        for value in values
    ]


def _numbers(values: list) -> list:
    return [v for v in values if isinstance(v, Real) and not isinstance(v, bool)]


def _base_of(values: list) -> int | None:
    """The number whose powers all numbers among the values are."""
    return next((base for base in (2, 10) if _are_powers(_numbers(values), base)), None)


def _are_powers(numbers: list, base: int) -> bool:
    """Whether all are whole powers of the base, and some too large or small to be written out."""
    if any(float(v) <= 0 for v in numbers):
        return False
    exponents = [np.log(float(v)) / np.log(base) for v in numbers]
    whole = all(abs(e - round(e)) < 1e-9 for e in exponents)
    return whole and base ** max(map(abs, exponents), default=0) > 8


def _number(value: float, base: int | None, digits: int) -> str:
    if base is None:
        return _short(value, digits)
    return f"${base}^{{{round(np.log(value) / np.log(base))}}}$"


def _short(value: float, digits: int) -> str:
    """A number as it is where that is short, else in so many digits; 1e-5 for 0.00001."""
    exact = f"{value:.12g}"
    if len(exact) <= _SHORT and "e" not in exact:
        return exact
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    scientific = f"{float(mantissa):.{digits}g}e{int(exponent)}"
    whole = len(str(int(abs(value))))
    plain = np.format_float_positional(float(f"{value:.{max(digits, whole)}g}"), trim="-")
    return plain if len(plain) <= max(_SHORT, len(scientific)) else scientific
