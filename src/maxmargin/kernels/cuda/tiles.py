"""Kernel values of dense samples with few features, made and used within one launch."""

from __future__ import annotations

from functools import cache

import numpy as np

from maxmargin.kernels.cuda import fast_double, load_cupy
from maxmargin.kernels.cuda.modules import KINDS, compiled

# As in tiles.cu.
_TILE_ROWS, _TILE_COLUMNS, _THREADS = 128, 64, 256
# Samples of a tile are in shared memory whole. With more features large matrix products are as
# fast: on an H200, 178 against 122 billion values a second with 54 features, 98 against 103 with
# 100.
_MOST_FEATURES = 96
# The first compute capability that has the instructions.
_CAPABILITY = 90
# Columns that a thread block sums up.
_SEGMENT = 4096


@cache
def _card_has_them() -> bool:
    return fast_double() and int(load_cupy().cuda.Device().compute_capability) >= _CAPABILITY


def tiles_serve(*samples) -> bool:
    """Whether the kernel values of these samples are computed by tiles."""
    return _card_has_them() and all(
        not part.sparse and 0 < part.n_features <= _MOST_FEATURES for part in samples
    )


def tile_sums(left, rows, right, columns, coefficients):
    """Σ_j k(row i, column j) · coefficients[j] in float64."""
    cp = left.cp
    segments = max(1, -(-len(columns) // _SEGMENT))
    sums = cp.empty((segments, len(rows)))
    _launch(
        f"tile_sums<{KINDS[left.function.name]}>", (-(-len(rows) // _TILE_ROWS), segments),
        left, rows, right, columns, np.int64(_SEGMENT),
        (cp.ascontiguousarray(coefficients, dtype=np.float64), sums),
    )  # fmt: skip
    return cp.ones(segments) @ sums


def tile_values(left, rows, right, columns, out, symmetric: bool = False) -> None:
    """Kernel values into `out`; `symmetric` where rows and columns are the same samples."""
    ctype = "float" if out.dtype == np.float32 else "double"
    _launch(
        f"tile_values<{KINDS[left.function.name]}, {ctype}>",
        (-(-len(columns) // _TILE_COLUMNS), -(-len(rows) // _TILE_ROWS)),
        left, rows, right, columns, np.int32(symmetric), (out,),
    )  # fmt: skip


def _launch(name: str, grid, left, rows, right, columns, option, results: tuple) -> None:
    """Launch a function of tiles.cu; `option` is the argument before the number of features."""
    if min(grid) == 0:
        return
    depth = -(-left.n_features // 8) * 8
    stride = -(-depth // 16) * 16 + 4
    function = compiled(("kernels.cu", "tiles.cu"), (name,), load_cupy().cuda.Device().id)(name)
    shared = 8 * stride * (_TILE_ROWS + _TILE_COLUMNS)
    function.max_dynamic_shared_size_bytes = shared
    kernel = left.function
    function(grid, (_THREADS,), (
        left.dense, left.norms(np.float64), rows, np.int64(len(rows)),
        right.dense, right.norms(np.float64), columns, np.int64(len(columns)), option,
        np.int32(left.n_features), np.int32(depth), np.int32(stride), np.float64(kernel.gamma),
        np.float64(kernel.coef0), np.int32(kernel.degree), *results,
    ), shared_mem=shared)  # fmt: skip
