"""Modules of compiled or GPU code that few fits need, loaded when first used."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def sparse_samples() -> ModuleType:
    """Sparse samples and their compiled products, with the first sparse data."""
    return import_module("maxmargin.kernels.samples.sparse")


@cache
def differences() -> ModuleType:
    """Compiled distances by differences, with the first data whose products cancel."""
    return import_module("maxmargin.kernels.samples._differences")


@cache
def cuda_matrices() -> ModuleType:
    """Kernel matrices on a GPU."""
    return import_module("maxmargin.kernels.cuda.kernel_matrix")
