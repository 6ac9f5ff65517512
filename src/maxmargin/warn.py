"""Warnings that name the user's line, however many calls lie between it and the warning."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import sklearn

_LIBRARIES = (str(Path(__file__).parent), str(Path(sklearn.__file__).parent))


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the first line on the stack that is neither this library's nor scikit-learn's."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
