"""Colours, markers and legends that all pictures share."""

from __future__ import annotations

import numpy as np

# One colour per class: blue and orange for two, then colours that colour-blind readers can tell
# apart.
COLOURS = (
    "#2f6db3", "#d9822b", "#3a9c6b", "#b3476b", "#7a5bb5",
    "#8c7a3d", "#4aa8b8", "#777777", "#e3b505", "#4f2d1f",
)  # fmt: skip

# From this many entries on, a legend inside axes of the user has narrow columns.
_MANY_ENTRIES = 6


def pyplot(caller: str):
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib; install it with `pip install maxmargin[plot]`."
        ) from error
    return plt


def colours(count: int) -> list:
    """This many colours, all different."""
    if count <= len(COLOURS):
        return list(COLOURS[:count])
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [to_hex(colormaps["turbo"](k / (count - 1))) for k in range(count)]


def support_rings(ax, points, bounded, free_label: str, bounded_label: str) -> tuple:
    """Rings around free and around bounded support vectors; None where there are none.

    `points` are those of the support vectors. Where `bounded` is None, bounds are not known and
    all count as free.
    """
    if bounded is None:
        bounded, free_label = np.zeros(len(points), bool), "support vectors"

    def ring(chosen, size, width, label):
        if not chosen.any():
            return None
        return ax.scatter(
            *points[chosen].T, s=size, facecolors="none", edgecolors="black", linewidths=width,
            zorder=4, label=f"{label}: {chosen.sum()}",
        )  # fmt: skip

    return ring(~bounded, 46, 1.3, free_label), ring(bounded, 30, 0.6, bounded_label)


def legend(ax, own_figure: bool) -> None:
    """A legend below the axes of our own figure, or inside axes that the user gave."""
    if own_figure:
        count = len(ax.get_legend_handles_labels()[0])
        columns = 2 if count <= 4 else 3 if count <= 12 else 5
        ax.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=columns, fontsize=9,
            frameon=False,
        )  # fmt: skip
    else:
        many = len(ax.get_legend_handles_labels()[0]) > _MANY_ENTRIES
        narrow = {
            "ncols": 2, "fontsize": 5.5, "labelspacing": 0.2, "columnspacing": 0.8,
            "handletextpad": 0.2, "borderpad": 0.3,
        }  # fmt: skip
        ax.legend(loc="best", framealpha=0.8, **(narrow if many else {"fontsize": 7}))


def thin_ticks(axis) -> None:
    """Ticks of a logarithmic axis that spans little at 1, 2 and 5, written out."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
