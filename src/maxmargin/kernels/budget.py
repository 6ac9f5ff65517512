"""How much memory kernel values may take."""

from __future__ import annotations

import numpy as np
import psutil

# Share of the free memory that kernel values may take where the user named no limit.
_SHARE_OF_FREE_MEMORY = 0.3
# More than this is not taken for rows even if it is free: a kernel value is computed about as fast
# as the operating system provides new memory for it (a9a: 4.5 s with all its rows kept, 2.4 s with
# this).
_ENOUGH_BYTES = 512 * 2**20
_ENOUGH_ROWS = 4096
# So much is taken without looking at what is free.
FREE_BYTES = 64 * 2**20
# Kernel matrices up to this size have rows in float64, larger ones in float32.
_DOUBLE_PRECISION_BYTES = 2 * 2**20


def memory_budget(cache_size: float | str, enough: int | None = None) -> int:
    """Bytes for kernel values: `cache_size` in MB (2²⁰ bytes), or a part of what is free.

    The latter is for "auto", with `enough` as its limit.
    """
    if cache_size != "auto":
        return int(float(cache_size) * 2**20)
    if enough is not None and enough <= FREE_BYTES:
        return enough
    free = int(_SHARE_OF_FREE_MEMORY * psutil.virtual_memory().available)
    return free if enough is None else min(free, enough)


def cache_bytes(cache_size: float | str, n_samples: int) -> int:
    """The memory for the kernel rows of one problem."""
    if 8 * n_samples**2 <= FREE_BYTES:
        return memory_budget(cache_size, FREE_BYTES)
    return memory_budget(cache_size, max(_ENOUGH_BYTES, 4 * n_samples * _ENOUGH_ROWS))


def precision_of_rows(n: int) -> type:
    """The type of the rows of a kernel matrix of n samples."""
    return np.float64 if 8 * n * n <= _DOUBLE_PRECISION_BYTES else np.float32
