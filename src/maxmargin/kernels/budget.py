"""How much memory kernel values may take."""

from __future__ import annotations

import numpy as np
import psutil

from maxmargin import constants


def memory_budget(cache_size: float | str, enough: int | None = None) -> int:
    """Bytes for kernel values: `cache_size` in MB (2²⁰ bytes), or a part of what is free.

    The latter is for "auto", with `enough` as its limit.
    """
    if cache_size != "auto":
        return int(float(cache_size) * 2**20)
    if enough is not None and enough <= constants.FREE_BYTES:
        return enough
    free = int(constants.SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available)
    return free if enough is None else min(free, enough)


def cache_bytes(cache_size: float | str, n_samples: int) -> int:
    """The memory for the kernel rows of one problem."""
    # Second-order steps for all samples take the matrix in float64, and a factor of it.
    systems = 16 * n_samples**2
    if systems <= constants.FREE_BYTES:
        return memory_budget(cache_size, constants.FREE_BYTES)
    enough = max(constants.ENOUGH_BYTES, 4 * n_samples * constants.ENOUGH_ROWS)
    if systems <= constants.BYTES_OF_SYSTEMS:
        enough = max(enough, systems)
    return memory_budget(cache_size, min(enough, constants.MOST_BYTES))


def precision_of_rows(n: int) -> type:
    """The type of the rows of a kernel matrix of n samples."""
    return np.float64 if 8 * n * n <= constants.DOUBLE_PRECISION_BYTES else np.float32
