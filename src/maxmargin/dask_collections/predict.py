"""Predictions of Dask collections, which stay lazy."""

from __future__ import annotations

from copy import copy

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp

from maxmargin.dask_collections.collection import blocks_of


def lazily(model, method: str, X):
    """`predict` or `decision_function` of a Dask collection as a lazy dask array.

    Each partition is a task of one thread: other partitions use the other cores.
    """
    shared = dask.delayed(_single_threaded(model), pure=True, traverse=False)
    sizes = X.chunks[0] if isinstance(X, da.Array) else None
    example = getattr(model, method)(_example(model, X))
    parts = []
    for at, block in enumerate(blocks_of(X)):
        shape = (np.nan if sizes is None else sizes[at], *example.shape[1:])
        called = dask.delayed(_call, pure=True)(shared, method, block)
        parts.append(da.from_delayed(called, shape, dtype=example.dtype))
    return da.concatenate(parts, allow_unknown_chunksizes=True)


def _example(model, X):
    if hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty
    row = np.zeros((1, model.n_features_in_))
    return sp.csr_array(row) if model._sparse else row


def _call(model, method: str, block):
    n = block.shape[0]
    if n == 0:
        return getattr(model, method)(_example(model, None))[:0]
    return getattr(model, method)(block)


def _single_threaded(model):
    single = copy(model)
    single.n_jobs = 1
    return single
