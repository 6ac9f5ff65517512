"""Room for the labels of a heat map: as many of them as fit, and axes that leave them space.

Everything is in points or in parts of the figure, so that no resolution changes it. Only what
draws imports this module, since matplotlib is an extra.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator
from matplotlib.transforms import Bbox

# Points between two labels, and between what belongs to some axes and what does not.
_GAP = 3.0
# Parts of the width of a cell: the map where its labels need no room, and the colour bar with the
# gap before it.
_MAP, _GAP_AND_BAR = 0.8, 0.1
_NEARLY_ZERO = 1e-6
# The map keeps this part of what there is, however long the labels are.
_LEAST_PART = 0.3


def size_in_points(ax) -> tuple[float, float]:
    """Width and height of axes."""
    inside = ax.get_window_extent()
    return inside.width * 72 / ax.figure.dpi, inside.height * 72 / ax.figure.dpi


def small_letters(ax, bar) -> None:
    """Small labels of axes and of their colour bar."""
    for axis in (ax.xaxis, ax.yaxis, bar.yaxis):
        axis.set_tick_params(labelsize="x-small")
        axis.label.set_fontsize("x-small")


class CellLocator(Locator):
    """Ticks at the first cell and every so many after it, as far apart as their labels are long.

    It looks at the axes whenever they are drawn: a layout or a window may have changed them.
    """

    axis: Any

    def __init__(self, count: int, length: float) -> None:
        self.count, self.length = count, length

    def __call__(self):
        low, high = sorted(self.axis.get_view_interval())
        at_hand = size_in_points(self.axis.axes)[self.axis.axis_name == "y"]
        cells = (self.length + _GAP) * (high - low) / max(at_hand, 1e-9)
        # A trifle less, lest rounding leave out labels that fit exactly.
        return list(range(0, self.count, max(1, math.ceil(cells - 1e-6))))

    def tick_values(self, vmin, vmax):
        return self()


def _text_of(labels, position, _) -> str:
    at = round(position)
    return labels[at] if 0 <= at < len(labels) else ""


def label_cells(axis, labels: list[str]) -> None:
    """Label the cells of an axis, of its ticks as many as have room."""
    axis.set_major_formatter(FuncFormatter(partial(_text_of, labels)))
    width, height = _longest(axis, len(labels))
    axis.set_major_locator(CellLocator(len(labels), width if axis.axis_name == "x" else height))


def turn_labels(axis, count: int) -> None:
    """Turn the labels of an x axis where side by side some would have to be left out."""
    if len(axis.get_major_locator()()) < count:
        axis.set_tick_params(labelrotation=90)
        width, _ = _longest(axis, count)
        axis.set_major_locator(CellLocator(count, width))


def _longest(axis, count: int) -> tuple[float, float]:
    """The largest width and height of all labels, in points."""
    axis.set_major_locator(FixedLocator(range(count)))
    extents = [label.get_window_extent() for label in axis.get_ticklabels()]
    scale = 72 / axis.axes.figure.dpi
    widths, heights = ([getattr(e, side) * scale for e in extents] for side in ("width", "height"))
    return max(widths, default=0.0), max(heights, default=0.0)


class Place:
    """The part of a figure that belongs to axes: as far as halfway to their neighbours.

    `stay_within` shrinks the axes where their labels leave it. It divides the cell of the user's
    grid instead of moving the axes, so that any later layout of the figure counts on it. Where
    the figure has a layout engine, that makes the room, and axes placed by hand stay there.
    """

    def __init__(self, ax) -> None:
        self.figure, self.cell = ax.figure, ax.get_subplotspec()
        self.box = Bbox.unit() if self.cell is None else _surroundings(self.cell, ax.figure)
        # Parts of the cell that are left free: on the left and right, at the bottom and top. None
        # is zero, by which matplotlib would divide.
        self.free = np.array(
            [[_NEARLY_ZERO, 1.0 - _MAP - _GAP_AND_BAR], [_NEARLY_ZERO, _NEARLY_ZERO]]
        )

    def width(self) -> float:
        """In points."""
        return self.box.width * self.figure.bbox.width * 72 / self.figure.dpi

    def stay_within(self, ax, bar) -> None:
        """Shrink axes and their colour bar until their labels are within this place."""
        if self.cell is None or self.figure.get_layout_engine() is not None:
            return
        self._divide(ax, bar)
        outside = self._outside(ax, bar)
        self.free += np.maximum(outside, 0.0) / self.cell.get_position(self.figure).size[:, None]
        room = np.array([1.0 - _GAP_AND_BAR, 1.0]) * (1.0 - _LEAST_PART)
        self.free *= np.minimum(1.0, room / self.free.sum(axis=1))[:, None]
        self._divide(ax, bar)

    def _divide(self, ax, bar) -> None:
        """Give axes and colour bar their parts of the cell."""
        (left, right), (bottom, top) = self.free
        gap = bar_width = 0.5 * _GAP_AND_BAR
        widths = [left, 1.0 - _GAP_AND_BAR - left - right, gap, bar_width, right]
        heights = [top, 1.0 - top - bottom, bottom]
        grid = self.cell.subgridspec(
            3, 5, wspace=0, hspace=0, width_ratios=widths, height_ratios=heights
        )
        ax.set_subplotspec(grid[1, 1])
        bar.set_subplotspec(grid[1, 3])
        bar.set_box_aspect(None)

    def _outside(self, ax, bar) -> np.ndarray:
        """How far labels are beyond each side, in parts of the figure; negative within it."""
        parts = self.figure.transSubfigure.inverted()
        own, of_bar = (each.get_tightbbox().transformed(parts) for each in (ax, bar))
        gap = _GAP * self.figure.dpi / 72 / self.figure.bbox.size
        # A long name of the score gets no shorter with its bar: heights are those of the map.
        x0, x1 = min(own.x0, of_bar.x0) - gap[0], max(own.x1, of_bar.x1) + gap[0]
        y0, y1 = own.y0 - gap[1], own.y1 + gap[1]
        box = self.box
        return np.array([[box.x0 - x0, x1 - box.x1], [box.y0 - y0, y1 - box.y1]])


def _surroundings(cell, figure) -> Bbox:
    """A cell of a grid and half of the gaps around it, as far as the grid or the figure goes."""
    whole = cell.get_topmost_subplotspec()
    outer = Bbox.unit() if whole is cell else _surroundings(whole, figure)
    bottoms, tops, lefts, rights = cell.get_gridspec().get_grid_positions(figure)
    rows, columns = cell.rowspan, cell.colspan

    def middle(ends, starts, following, edge):
        """The middle of the gap before a row or column, or the edge where there is no gap."""
        inside = 0 < following < len(starts)
        return 0.5 * (ends[following - 1] + starts[following]) if inside else edge

    return Bbox.from_extents(
        middle(rights, lefts, columns.start, outer.x0),
        middle(bottoms, tops, rows.stop, outer.y0),
        middle(rights, lefts, columns.stop, outer.x1),
        middle(bottoms, tops, rows.start, outer.y1),
    )
