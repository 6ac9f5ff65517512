"""NumPy's files: all arrays of an ``.npz``, or the one of an ``.npy``, and nothing executed."""

from __future__ import annotations

import os
import warnings

import numpy as np

from maxmargin.io.files import DataError, brief, display_name, open_binary


def read_npz(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by name; a DataError of one sentence if it has others."""
    name = display_name(path)
    with open_binary(path) as file:
        found = _load(file, name, "an .npz file")
        if isinstance(found, np.ndarray):
            raise DataError(f"{name}: is a single array (.npy), not an .npz file of named arrays.")
        with found:
            return {key: _member(found, key, name) for key in found.files}


def read_npy(path: str | os.PathLike) -> np.ndarray:
    """The array of an ``.npy`` file."""
    name = display_name(path)
    with open_binary(path) as file:
        found = _load(file, name, "an .npy file")
        if not isinstance(found, np.ndarray):
            raise DataError(f"{name}: is an .npz file of named arrays, not a single array (.npy).")
        return found


def _load(file, name: str, kind: str):
    try:
        with warnings.catch_warnings():  # such as one about headers that Python 2 wrote
            warnings.simplefilter("ignore")
            return np.load(file, allow_pickle=False)
    except Exception as error:  # what a damaged file can raise has no end
        reason = (
            "it asks for too much memory" if isinstance(error, MemoryError) else "or is damaged"
        )
        raise DataError(f"{name}: is not {kind}, {reason}.") from error


def _member(archive, key: str, name: str) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            array = archive[key]
    except Exception as error:
        reason = "it asks for too much memory" if isinstance(error, MemoryError) else brief(error)
        raise DataError(f"{name}: its array {key!r} cannot be read ({reason}).") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{name}: {key!r} in it is not an array.")
    return array
