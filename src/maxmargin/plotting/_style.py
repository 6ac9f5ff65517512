"""What all pictures have in common."""

from __future__ import annotations

# One colour a class: blue and orange for two, then further ones that colour-blind eyes tell apart.
COLOURS = ("#2f6db3", "#d9822b", "#3a9c6b", "#b3476b", "#7a5bb5", "#8c7a3d", "#4aa8b8", "#777777")


def pyplot(caller: str):
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib; install it with `pip install maxmargin[plot]`."
        ) from error
    return plt
