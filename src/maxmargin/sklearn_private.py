"""The private names of scikit-learn that this library uses, all of them.

Each has a public name here. Where a supported version lacks one, what replaces it is here, too.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "CallbackSupportMixin",
    "Hidden",
    "Interval",
    "StrOptions",
    "check_method_params",
    "fit_context",
    "in_sparse_interface",
    "num_samples",
    "safe_indexing",
    "safe_split",
]

# Loaded when first used, since scikit-learn's model selection takes its time.
_DEFERRED = {
    "BaseSearchCV": ("sklearn.model_selection._search", "BaseSearchCV"),
    "MultimetricScorer": ("sklearn.metrics._scorer", "_MultimetricScorer"),
    "insert_error_scores": ("sklearn.model_selection._validation", "_insert_error_scores"),
    "score_estimator": ("sklearn.model_selection._validation", "_score"),
    "warn_or_raise_about_fit_failures": (
        "sklearn.model_selection._validation",
        "_warn_or_raise_about_fit_failures",
    ),
    "sigmoid_calibration": ("sklearn.calibration", "_sigmoid_calibration"),
}


def __getattr__(name: str) -> Any:
    if name in _DEFERRED:
        home, theirs = _DEFERRED[name]
        return getattr(importlib.import_module(home), theirs)
    raise AttributeError(f"module 'maxmargin.sklearn_private' has no attribute {name!r}")


_Method = TypeVar("_Method", bound=Callable[..., Any])


def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Method], _Method]:
    """The decorator of `fit` that checks parameters, and keeps the type of the method."""
    return _fit_context(prefer_skip_nested_validation=prefer_skip_nested_validation)


class _NoCallbacks:
    """The tree of tasks that callbacks would watch, for versions that have no callbacks."""

    def subcontext(self, **_) -> _NoCallbacks:
        return self

    def call_on_fit_task_begin(self, **_) -> _NoCallbacks:
        return self

    def call_on_fit_task_end(self, **_) -> bool:
        return False

    @contextmanager
    def propagate_callback_context(self, estimator) -> Iterator[None]:
        yield


class _NoCallbackSupport:
    """scikit-learn before 1.9: estimators have no `set_callbacks`, and nothing is called."""

    def _init_callback_context(self, **_) -> _NoCallbacks:
        return _NoCallbacks()


try:
    from sklearn.callback import CallbackSupportMixin
except ImportError:
    CallbackSupportMixin = _NoCallbackSupport

try:
    from sklearn.utils._sparse import _align_api_if_sparse as in_sparse_interface
except ImportError:

    def in_sparse_interface(X):
        """Sparse results as SciPy's matrices, before scikit-learn had a setting for it (1.9)."""
        return sp.csr_matrix(X) if sp.issparse(X) else X
