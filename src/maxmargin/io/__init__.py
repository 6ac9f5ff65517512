"""Data and model files: reading, writing, and other libraries' formats."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin.io.data import Dataset, read_data, write_data
    from maxmargin.io.files import DataError, atomic_write
    from maxmargin.io.libsvm_model import load_libsvm_model, save_libsvm_model
    from maxmargin.io.model_file import load_model, save_model

__all__ = [
    "DataError",
    "Dataset",
    "atomic_write",
    "load_libsvm_model",
    "load_model",
    "read_data",
    "save_libsvm_model",
    "save_model",
    "write_data",
]

# Loaded when first used: the command line's own errors and help should not wait for scikit-learn.
_HOMES = {
    "DataError": "files",
    "Dataset": "data",
    "atomic_write": "files",
    "load_libsvm_model": "libsvm_model",
    "load_model": "model_file",
    "read_data": "data",
    "save_libsvm_model": "libsvm_model",
    "save_model": "model_file",
    "write_data": "data",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"maxmargin.io.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'maxmargin.io' has no attribute {name!r}")
