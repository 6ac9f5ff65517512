"""Data and model files: reading, writing, and other libraries' formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from maxmargin.late_names import late_names

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
__getattr__ = late_names(
    __name__,
    {
        "DataError": "maxmargin.io.files",
        "Dataset": "maxmargin.io.data",
        "atomic_write": "maxmargin.io.files",
        "load_libsvm_model": "maxmargin.io.libsvm_model",
        "load_model": "maxmargin.io.model_file",
        "read_data": "maxmargin.io.data",
        "save_libsvm_model": "maxmargin.io.libsvm_model",
        "save_model": "maxmargin.io.model_file",
        "write_data": "maxmargin.io.data",
    },
)
