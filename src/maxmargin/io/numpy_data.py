"""Data in NumPy's files: tables, and sparse matrices as `scipy.sparse.save_npz` writes them."""

from __future__ import annotations

import os
import warnings
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from maxmargin.io.files import DataError, brief, display_name
from maxmargin.io.npz import read_npy, read_npz
from maxmargin.io.schema import shown
from maxmargin.sparse_format import checked_csr

# The index arrays of each of SciPy's formats, as save_npz names them.
_INDEX_PARTS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
# Empty rows that a sparse matrix may have: a small file can claim any number of them.
_MAX_EMPTY_ROWS = 10**8


def read(path: str | os.PathLike, suffix: str) -> tuple[Any, np.ndarray | None]:
    """X and, where the file has them, the labels y.

    An ``.npz`` file has arrays X and y, or a matrix of `scipy.sparse.save_npz` with y beside
    it; an ``.npy`` file is X.
    """
    name = display_name(path)
    arrays = {"X": read_npy(path)} if suffix == ".npy" else read_npz(path)
    y = arrays.get("y")
    if "X" in arrays:
        X = arrays["X"]
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise DataError(f"{name}: X must be a table of numbers, not {X.dtype}, {X.shape}.")
        _check_labels(y, X.shape[0], name)
        X = _plain(X)
    elif "data" in arrays and "shape" in arrays:
        X = _sparse(arrays, y, name)
    else:
        raise DataError(f"{name}: has no array X, only {', '.join(arrays) or 'none'}.")
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise DataError(f"{name}: X holds values that are missing or infinite.")
    return X, None if y is None else y.astype(y.dtype.newbyteorder("="))


def write(file: IO[bytes], X, y: np.ndarray | None) -> None:
    """Write an ``.npz`` file; for sparse data one that `scipy.sparse.load_npz` reads too."""
    if sp.issparse(X):
        parts = {part: getattr(X, part) for part in ("data", "indices", "indptr")}
        parts |= {"shape": np.array(X.shape), "format": np.array(b"csr")}
    else:
        parts = {"X": X}
    np.savez(file, **(parts if y is None else parts | {"y": y}))  # type: ignore[arg-type]


def _check_labels(y: np.ndarray | None, n_rows: int, name: str) -> None:
    if y is None:
        return
    if y.shape != (n_rows,):
        raise DataError(f"{name}: X has {n_rows} rows, but y has shape {y.shape}.")
    if y.dtype.kind not in "biufU":
        raise DataError(f"{name}: y must hold numbers or text, not {y.dtype}.")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError(f"{name}: y holds values that are missing or infinite.")


def _sparse(arrays: dict[str, np.ndarray], y: np.ndarray | None, name: str) -> sp.csr_array:
    kind = _format(arrays.get("format"), name)
    shape = _shape(arrays["shape"], name)
    _check_labels(y, shape[0], name)
    for part in _INDEX_PARTS[kind]:
        if part not in arrays:
            raise DataError(f"{name}: a sparse matrix of the format {kind!r} has {part!r} as well.")
        if arrays[part].ndim != 1 or arrays[part].dtype.kind not in "iu":
            found = f"{arrays[part].dtype}, {arrays[part].shape}"
            raise DataError(f"{name}: {part} must be a list of whole numbers, not {found}.")
    values = arrays["data"]
    if values.dtype.kind not in "biuf":
        raise DataError(f"{name}: data must hold numbers, not {values.dtype}.")
    # In some formats a matrix takes no memory for empty rows, and here all rows take some.
    if shape[0] > values.size + arrays[_INDEX_PARTS[kind][-1]].size + _MAX_EMPTY_ROWS:
        raise DataError(f"{name}: {shape[0]} rows are too many for {values.size} values.")
    index = tuple(arrays[part] for part in _INDEX_PARTS[kind])
    parts = (_plain(values), index) if kind == "coo" else (_plain(values), *index)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            X = checked_csr(getattr(sp, f"{kind}_array")(parts, shape=shape))
            if not X.has_canonical_format:
                X.sum_duplicates()
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        raise DataError(f"{name}: {brief(error)}.") from error
    return X


def _format(text: np.ndarray | None, name: str) -> str:
    """The format that save_npz names; files that name none are CSR."""
    if text is None:
        return "csr"
    kind = text.item() if text.size == 1 else None
    kind = kind.decode("latin-1") if isinstance(kind, bytes) else kind
    if kind not in _INDEX_PARTS:
        known = ", ".join(_INDEX_PARTS)
        raise DataError(f"{name}: the format of its matrix must be one of {known}, not "
                        f"{shown(kind)}.")  # fmt: skip
    return kind


def _shape(shape: np.ndarray, name: str) -> tuple[int, int]:
    sizes = shape.tolist() if shape.shape == (2,) and shape.dtype.kind in "iu" else [-1]
    if min(sizes) < 0:
        found = f"{shape.dtype}, {shown(str(shape.tolist()))}"
        raise DataError(f"{name}: shape must be two whole numbers from 0, not {found}.")
    return sizes[0], sizes[1]


def _plain(values: np.ndarray) -> np.ndarray:
    """In this machine's byte order, and of at most 64 bits."""
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        with np.errstate(over="ignore"):
            return values.astype(np.float64)
    return values.astype(values.dtype.newbyteorder("="), copy=False)
