"""The compiled leaves of the GPU: CUDA C of this folder, by CuPy, which keeps it on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files

from maxmargin.kernels.cuda import load_cupy

# Numbers of the kernel functions, as in kernels.cu.
KINDS = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3}
_SOURCES = ("kernels.cu", "pair_steps.cu", "sweeps.cu")
# The compiled functions that have types, for each of these.
_TYPES = {"f": "float", "d": "double", "ff": "float, float", "dd": "double, double",
          "df": "double, float"}  # fmt: skip
_LEAVES = {
    "kernel_values": ("ff", "dd", "df"),
    **dict.fromkeys(
        ("segment_sums", "gather_blocks", "pair_steps", "block_products", "matrix_product",
         "submatrix", "nearest", "replace"), ("f", "d"),
    ),
}  # fmt: skip
_EXPRESSIONS = tuple(f"{name}<{_TYPES[kind]}>" for name, kinds in _LEAVES.items() for kind in kinds)


@cache
def compiled(sources: tuple[str, ...], expressions: tuple[str, ...], device: int) -> Callable:
    """Name → function, for these files and instances of their templates."""
    home = files("maxmargin.kernels.cuda")
    module = load_cupy().RawModule(
        code="".join(home.joinpath(name).read_text("utf-8") for name in sources),
        options=("-std=c++17",), name_expressions=expressions,
    )  # fmt: skip
    return cache(module.get_function)


def launch(name: str, dtype: str | None, blocks, threads, arguments: tuple) -> None:
    """Launch a leaf of `_SOURCES`, for types like "f" or "df" where it has any.

    `blocks` and `threads` are numbers or tuples of them.
    """
    grid = blocks if isinstance(blocks, tuple) else (blocks,)
    shape = threads if isinstance(threads, tuple) else (threads,)
    if min(grid) > 0:
        typed = name if dtype is None else f"{name}<{_TYPES[dtype]}>"
        device = load_cupy().cuda.Device().id
        compiled(_SOURCES, _EXPRESSIONS, device)(typed)(grid, shape, arguments)
