"""The part of the pictures that needs matplotlib to be imported at all: it is an extra."""

from __future__ import annotations

from maxmargin.late_names import late_names

_NAMES = ("Place", "label_cells", "size_in_points", "small_letters", "turn_labels")

__getattr__ = late_names(__name__, dict.fromkeys(_NAMES, "maxmargin.plotting._room"))
