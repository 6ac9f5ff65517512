"""Labels without compiled code, for small models in a process that has none of it yet.

A process that reads a model and labels a few samples would wait longer for Numba than for all the
rest. NumPy's decision values differ from compiled ones in the last digits, so its labels count
only where no rounding could change them.
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.multiclass import coefficients_by_task

# Multiplications and kernel values up to which NumPy takes less time than the start of Numba.
_MOST_PRODUCTS = 50_000_000
_MOST_VALUES = 2_000_000
_UNIT = 2.0**-53
# How far the two computations may differ follows as in `single_precision`: by less than a quarter
# of the bound with this factor.
_MARGIN = 16.0
_LARGEST_PART = 2.0**-10


def first_labels(model, X, form: str) -> np.ndarray | None:
    """Class numbers of validated samples; None where compiled code should find them.

    Parameters
    ----------
    form : "votes" of pairs of classes, or "largest" of one class against the rest
    """
    if _compiler_is_loaded() or model.kernel not in ("rbf", "linear") or not model.support_.size:
        return None
    vectors, coefficients = model.support_vectors_, model._dual_coef_
    n_values = X.shape[0] * vectors.shape[0]
    width = X.nnz / max(1, X.shape[0]) if sp.issparse(X) else X.shape[1]
    n_products = n_values * (width + len(model._intercept_))
    if max(n_values / _MOST_VALUES, n_products / _MOST_PRODUCTS) > 1.0:
        return None
    by_task = coefficients_by_task(coefficients, model._n_support)
    with np.errstate(over="ignore", invalid="ignore"):
        values, errors = _decisions(model, X, vectors, by_task)
        return _certain_labels(values, errors, form, len(model.classes_))


def _compiler_is_loaded() -> bool:
    return "numba" in sys.modules


def _decisions(model, X, vectors, by_task) -> tuple[np.ndarray, np.ndarray]:
    """Decision values of shape (n_samples, n_tasks), and how far from compiled ones they may be."""
    X, vectors = X.astype(np.float64), vectors.astype(np.float64)
    products = X @ vectors.T
    values = products.toarray() if sp.issparse(products) else products
    norms, own_norms = _squared_norms(vectors), _squared_norms(X)
    longest = np.sqrt(own_norms) + np.sqrt(norms.max())
    roundings = _MARGIN * _UNIT * (X.shape[1] + vectors.shape[0] + 8)
    sizes = abs(by_task)
    if model.kernel == "rbf":
        np.exp(-model._gamma * np.maximum(own_norms[:, None] + norms - 2.0 * values, 0.0), values)
        part = roundings * (1.0 + model._gamma * longest**2)
        part[~(part <= _LARGEST_PART)] = np.inf
        errors = part[:, None] * sizes.sum(axis=1)
    else:
        errors = roundings * np.sqrt(own_norms)[:, None] * (sizes @ np.sqrt(norms))
    intercept = np.asarray(model._intercept_)
    return (by_task @ values.T).T + intercept, errors + _MARGIN * _UNIT * np.abs(intercept)


def _squared_norms(X) -> np.ndarray:
    squares = X.multiply(X) if sp.issparse(X) else X * X
    return np.asarray(squares.sum(axis=1)).reshape(-1)


def _certain_labels(
    values: np.ndarray, errors: np.ndarray, form: str, n_classes: int
) -> np.ndarray | None:
    """The labels, where all of them are certain."""
    if form == "largest" and values.shape[1] > 1:
        best = values.argmax(axis=1)
        lead = np.take_along_axis(values, best[:, None], axis=1) - values
        np.put_along_axis(lead, best[:, None], np.inf, axis=1)
        return best if (lead > 2.0 * errors.max(axis=1, keepdims=True)).all() else None
    if not (np.abs(values) > errors).all():
        return None
    first, second = np.triu_indices(n_classes, 1)
    wins = np.zeros((n_classes, len(values)), np.int64)
    np.add.at(wins, first, (values > 0).T)
    np.add.at(wins, second, (values <= 0).T)
    return wins.argmax(axis=0)
