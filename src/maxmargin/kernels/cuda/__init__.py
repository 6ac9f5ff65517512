"""Kernel values on an NVIDIA GPU, by CuPy. Nothing here is imported before a GPU is asked for."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import numpy as np

# Kernel values that take the processor longer than to wake the GPU and move the data (some 0.5 s).
WORTH_A_CARD = 1e8
_CUDA_OF_DLPACK = 2
_RATIO_ATTRIBUTE = 87  # cudaDevAttrSingleToDoublePrecisionPerfRatio
_INSTALL = "install it with `pip install maxmargin[cuda]`, or use device='cpu'."


@cache
def problem_with_cuda() -> str | None:
    """Why device="cuda" cannot be used here, in one sentence; None where it can."""
    try:
        import cupy
    except ImportError:
        return f"device='cuda' needs CuPy, which is not installed: {_INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return f"device='cuda' needs an NVIDIA GPU, and none answers ({error}): use device='cpu'."
    return None if count else "device='cuda' needs an NVIDIA GPU, and there is none here."


def load_cupy() -> ModuleType:
    """CuPy; an error of one sentence where it or the GPU is missing."""
    reason = problem_with_cuda()
    if reason is not None:
        raise RuntimeError(reason)
    import cupy

    return cupy


@cache
def fast_double() -> bool:
    """Whether the card computes in float64 at half the speed of float32 or better."""
    runtime = load_cupy().cuda.runtime
    return runtime.deviceGetAttribute(_RATIO_ATTRIBUTE, runtime.getDevice()) <= 2


def check_fits(n_bytes: int) -> None:
    """One sentence for samples that the free memory of the card does not hold."""
    cp = load_cupy()
    free = cp.cuda.runtime.memGetInfo()[0] + cp.get_default_memory_pool().free_bytes()
    if n_bytes > free:
        raise MemoryError(
            f"The samples take {n_bytes / 1e9:.3g} GB on the GPU, where {free / 1e9:.3g} GB are "
            "free: use device='cpu', or fewer samples."
        )


def is_cupy_array(values) -> bool:
    """Whether this is an array of CuPy, without importing it."""
    return type(values).__module__.partition(".")[0] == "cupy"


def card_array(values):
    """An array of any library on a GPU as an array of CuPy; None for everything else."""
    place = getattr(values, "__dlpack_device__", None)
    if place is None or isinstance(values, np.ndarray) or place()[0] != _CUDA_OF_DLPACK:
        return None
    return values if is_cupy_array(values) else load_cupy().from_dlpack(values)


def use_card(device: str, n_values: float) -> bool:
    """Whether to compute so many kernel values on the GPU.

    With "auto" where there is one and the values are many enough; with "cuda" always.
    """
    if device == "cuda":
        load_cupy()
        return True
    return device == "auto" and n_values >= WORTH_A_CARD and problem_with_cuda() is None


def check_on_card(device: str) -> None:
    """One sentence for samples on a GPU that are to be used elsewhere."""
    if device == "cpu":
        raise ValueError(
            "X is on a GPU, and device='cpu' asks for the processor: use device='cuda', or copy "
            "the data to the host."
        )


def to_card(values: np.ndarray):
    """Numbers as an array of CuPy; words stay on the host, where alone there are any."""
    return load_cupy().asarray(values) if values.dtype.kind in "biuf" else values
