"""Values whose arrays lie in a file, so that processes map them instead of copying them."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np

try:
    from cloudpickle import dumps
except ImportError:  # joblib before 1.6 brought its own copy
    from joblib.externals.cloudpickle import dumps

# Bytes: a line of the processor's cache, and the widest vector register.
_ALIGNMENT = 64


class Mapped:
    """A reference to a value whose arrays are in a file."""

    def __init__(self, path: str, content: bytes, extents: list[tuple[int, int]]):
        self.path, self.content, self.extents = path, content, extents


def store(value, path: Path) -> Mapped:
    """Write the arrays of a value to a file, each of them once."""
    buffers: list[pickle.PickleBuffer] = []
    content = dumps(value, protocol=5, buffer_callback=buffers.append)
    extents, end = [], 0
    with open(path, "wb") as file:
        for buffer in buffers:
            raw = buffer.raw()
            file.write(b"\0" * (-end % _ALIGNMENT))
            end += -end % _ALIGNMENT
            file.write(raw)
            extents.append((end, raw.nbytes))
            end += raw.nbytes
    return Mapped(str(path), content, extents)


_loaded: dict[str, Any] = {}


def load(mapped: Mapped):
    """The stored value, its arrays read-only views of the file; the last ones are remembered."""
    if mapped.path not in _loaded:
        folder = os.path.dirname(mapped.path)
        for path in [p for p in _loaded if os.path.dirname(p) != folder]:
            del _loaded[path]
        whole = np.memmap(mapped.path, np.uint8, "r") if mapped.extents else np.empty(0, np.uint8)
        buffers = [whole[start : start + size] for start, size in mapped.extents]
        _loaded[mapped.path] = pickle.loads(mapped.content, buffers=buffers)
    return _loaded[mapped.path]
