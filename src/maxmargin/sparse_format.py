"""The format of SciPy's sparse matrices, checked before compiled code follows their indices.

SciPy looks at a matrix when it is made, and then not at the values of its indices; what a
user or a damaged file puts there later leads compiled code out of its arrays.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

_NAMES = {"csr": ("row", "column"), "csc": ("column", "row"), "bsr": ("block row", "block column")}


def checked_csr(X):
    """A sparse matrix of any format as a valid CSR matrix; a sentence where it is not valid.

    The CSR matrix is a new object; where X is a CSR matrix, it shares the arrays of X.
    What X believes about its indices (sorted, no duplicates) is not taken over.

    Raises
    ------
    ValueError
        One sentence that says which index is wrong.
    """
    check_format(X)
    container = sp.csr_matrix if isinstance(X, sp.spmatrix) else sp.csr_array
    X = X.tocsr()
    return container((X.data, X.indices, X.indptr), shape=X.shape)


def check_format(X, name: str = "X") -> None:
    """Raise a ValueError of one sentence about `name` unless all indices of X are inside of it."""
    if X.ndim != 2:
        raise ValueError(f"{name} must have 2 dimensions, not {X.ndim}.")
    # SciPy checks the one that is not here, "dok", when it converts it.
    checks = {"coo": _check_coordinates, "dia": _check_diagonals, "lil": _check_lists}
    checks |= dict.fromkeys(_NAMES, _check_compressed)
    try:
        checks.get(X.format, lambda X: None)(X)
    except ValueError as error:
        size = f"{X.format.upper()}, {X.shape[0]} × {X.shape[1]}"
        raise ValueError(f"{name} is not a valid sparse matrix ({size}): {error}.") from None


def densified(values) -> np.ndarray:
    """The same numbers as a dense array, which is not a copy where they are one already."""
    return values.toarray() if sp.issparse(values) else np.asarray(values)


def combined_rows(coefficients, X) -> sp.csr_array:
    """coefficients @ X for a CSR matrix X, in memory that follows the features that occur in it.

    SciPy's product takes memory for all features, however few of them are not zero.
    """
    features, columns = np.unique(X.indices, return_inverse=True)
    narrow = sp.csr_array((X.data, columns, X.indptr), shape=(X.shape[0], len(features)))
    product = sp.csr_array(coefficients @ narrow)
    product.eliminate_zeros()
    product.sort_indices()
    parts = (product.data, features[product.indices], product.indptr)
    return sp.csr_array(parts, shape=(coefficients.shape[0], X.shape[1]))


def _check_compressed(X) -> None:
    """CSR, CSC, and CSR of blocks."""
    major, minor = X.shape[::-1] if X.format == "csc" else X.shape
    dimensions = 1
    if X.format == "bsr":
        dimensions = 3
        if X.data.ndim == 3 and 0 not in X.data.shape[1:]:
            height, width = X.data.shape[1:]
            if major % height or minor % width:
                raise ValueError(f"blocks of {height} × {width} do not divide it")
            major, minor = major // height, minor // width
    names = _NAMES[X.format]
    pointers, indices = X.indptr, X.indices
    for name, array in (("indptr", pointers), ("indices", indices)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ValueError(f"{name} must be a list of integers, not {_described(array)}")
    if X.data.ndim != dimensions or len(X.data) != len(indices):
        raise ValueError(f"it has {len(indices)} indices, but data of shape {X.data.shape}")
    if len(pointers) != major + 1:
        raise ValueError(f"indptr must have {major + 1} numbers, not {len(pointers)}")
    falls = pointers[1:] < pointers[:-1]
    if pointers[0] != 0 or pointers[-1] > len(indices) or falls.any():
        at = int(np.argmax(falls)) if falls.any() else 0 if pointers[0] != 0 else major - 1
        raise ValueError(
            f"indptr must rise from 0 to at most {len(indices)}, and {names[0]} {at} goes from "
            f"{pointers[at]} to {pointers[at + 1] if major else pointers[at]}",
        )
    indices = indices[: int(pointers[-1])]
    outside = _first_outside(indices, minor)
    if outside is not None:
        at = int(np.searchsorted(pointers, outside, side="right")) - 1
        raise ValueError(
            f"{names[1]} index {indices[outside]} in {names[0]} {at} is not in 0 … {minor - 1}"
        )


def _check_coordinates(X) -> None:
    for name, indices, size in zip(("row", "column"), X.coords, X.shape, strict=True):
        if indices.shape != X.data.shape or indices.ndim != 1 or indices.dtype.kind not in "iu":
            raise ValueError(f"it has {len(X.data)} values, but {name}s of {_described(indices)}")
        outside = _first_outside(indices, size)
        if outside is not None:
            raise ValueError(f"{name} index {indices[outside]} is not in 0 … {size - 1}")


def _check_diagonals(X) -> None:
    if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1] or X.offsets.dtype.kind not in "iu":
        raise ValueError(
            f"it has diagonals of shape {X.data.shape}, but {_described(X.offsets)} as offsets"
        )


def _check_lists(X) -> None:
    n_rows, n_columns = X.shape
    if X.rows.shape != (n_rows,) or X.data.shape != (n_rows,):
        raise ValueError(f"it has {len(X.rows)} lists of columns for {n_rows} rows")
    for at, (columns, values) in enumerate(zip(X.rows, X.data, strict=True)):
        if len(columns) != len(values):
            raise ValueError(f"row {at} has {len(columns)} columns, but {len(values)} values")
        if any(not 0 <= column < n_columns for column in columns):
            raise ValueError(f"a column index in row {at} is not in 0 … {n_columns - 1}")


def _first_outside(indices: np.ndarray, size: int) -> int | None:
    """Position of the first index that is not in range(size)."""
    if not len(indices):
        return None
    if indices.dtype.kind == "i":  # as unsigned numbers, negative ones are the largest
        indices = indices.view(indices.dtype.str.replace("i", "u"))
    if indices.max() < size:
        return None
    return int(np.argmax(indices >= size))


def _described(array: np.ndarray) -> str:
    return f"{array.dtype} of shape {array.shape}"
