"""The packages that are loaded when they are first used, one function per reason."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType


@cache
def training() -> ModuleType:
    """The training path, and with it Numba, whose start takes longer than all other imports."""
    return import_module("maxmargin.training")


@cache
def decisions() -> ModuleType:
    """Decision functions, which bring Numba, too: a model can be read and cloned without."""
    return import_module("maxmargin.decisions")


def dask_collections() -> ModuleType:
    """Training and prediction on Dask collections, which need an optional extra."""
    try:
        return import_module("maxmargin.dask_collections")
    except ImportError as error:
        raise ImportError(
            "Dask collections need dask.distributed: pip install maxmargin[distributed]."
        ) from error


def expansions() -> ModuleType:
    """Kernel expansions by a user's function or on a GPU, which bring Numba."""
    return import_module("maxmargin.model")


def sklearn_models() -> ModuleType:
    """Models of scikit-learn, whose own SVM is loaded with them."""
    return import_module("maxmargin.estimators.sklearn_models")
