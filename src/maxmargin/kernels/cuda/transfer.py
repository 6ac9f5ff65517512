"""Large arrays from the host to the card."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.cuda import load_cupy

# Arrays up to this size are copied in one go. Others pass through two buffers of page-locked
# memory, from which the card reads several times as fast, while the processor fills the other.
_PLAIN_BYTES = 2**24
_BUFFER_BYTES = 2**23
_TO_DEVICE = 1  # cudaMemcpyHostToDevice


def upload(values: np.ndarray):
    """The same array on the card; `values` is contiguous."""
    cp = load_cupy()
    if values.nbytes <= _PLAIN_BYTES:
        return cp.asarray(values)
    out = cp.empty(values.shape, values.dtype)
    source, stream = values.reshape(-1).view(np.uint8), cp.cuda.Stream(non_blocking=True)
    memory = [cp.cuda.alloc_pinned_memory(_BUFFER_BYTES) for _ in range(2)]
    buffers = [np.frombuffer(part, np.uint8, _BUFFER_BYTES) for part in memory]
    copied = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
    # Work that was given the same memory before must be done with it.
    cp.cuda.get_current_stream().synchronize()
    for number, start in enumerate(range(0, len(source), _BUFFER_BYTES)):
        turn, part = number % 2, source[start : start + _BUFFER_BYTES]
        copied[turn].synchronize()
        np.copyto(buffers[turn][: len(part)], part)
        cp.cuda.runtime.memcpyAsync(
            out.data.ptr + start, buffers[turn].ctypes.data, len(part), _TO_DEVICE, stream.ptr
        )
        copied[turn].record(stream)
    stream.synchronize()
    return out
