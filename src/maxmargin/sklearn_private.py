"""The private names of scikit-learn that this library uses, all of them.

Each has a public name here. Where a supported version lacks one, what replaces it is here, too.

What scikit-learn looks for in our classes under a private name stands in those classes:
`_parameter_constraints` (the estimators and searches), and for links to the documentation
`_doc_link_module`, `_doc_link_template` and `_doc_link_url_param_generator`
(`estimators/documentation.py`). Searches have a `fit` of their own and no `_run_search`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.metaestimators import _safe_split as safe_split
from sklearn.utils.validation import _check_method_params as check_method_params
from sklearn.utils.validation import _num_samples as num_samples

__all__ = [
    "CallbackSupportMixin",
    "Hidden",
    "Interval",
    "OnceCheckedEstimator",
    "StrOptions",
    "best_index",
    "callback_context",
    "callback_state",
    "check_method_params",
    "check_parameters",
    "check_refit_metric",
    "fit_context",
    "fitted_part",
    "has_callbacks",
    "in_sparse_interface",
    "num_samples",
    "parameter_names",
    "routed_parameters",
    "safe_indexing",
    "safe_split",
    "scorers_by_name",
    "scorers_of",
    "set_fitted_parts",
    "table_of_results",
]

# Loaded when first used, since scikit-learn's model selection takes its time.
_DEFERRED = {
    "BaseSearchCV": ("sklearn.model_selection._search", "BaseSearchCV"),
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


# Classes and parameter values that passed scikit-learn's checks, which take as long as a small
# fit; the types of such values, and the most entries.
_passed: set[tuple] = set()
_PLAIN = (type(None), bool, int, float, str)
_MOST_PASSED = 1024


class OnceCheckedEstimator(BaseEstimator):
    """An estimator that checks the same values of its parameters once."""

    _parameter_constraints: dict

    def _validate_params(self):
        values = [getattr(self, name) for name in self._parameter_constraints]
        types = [type(value) for value in values]
        key = (type(self), *types, *values) if all(kind in _PLAIN for kind in types) else None
        if key is not None and key in _passed:
            return
        super()._validate_params()
        if key is not None and len(_passed) < _MOST_PASSED:
            _passed.add(key)

    @classmethod
    @cache
    def _get_param_names(cls):
        """scikit-learn reads the signature anew for each fit."""
        return super()._get_param_names()


def check_parameters(estimator: BaseEstimator) -> None:
    """Raise scikit-learn's sentence about a parameter that the estimator cannot have."""
    estimator._validate_params()


def parameter_names(kind: type[BaseEstimator] | BaseEstimator) -> list[str]:
    """The names of the parameters of a class of estimators."""
    return kind._get_param_names()


# Of a search, a `BaseSearchCV`.


def scorers_of(search: Any) -> tuple[Any, str]:
    """Its scorers, as one that is called, and the metric by which the best candidate is chosen."""
    return search._get_scorers()


def scorers_by_name(scorers: Any) -> dict | None:
    """The scorers inside one that stands for many; None where it is a single one."""
    many = importlib.import_module("sklearn.metrics._scorer")._MultimetricScorer
    return scorers._scorers if isinstance(scorers, many) else None


def routed_parameters(search: Any, params: dict) -> Any:
    """Which parameters of its `fit` go to the estimator, the splitter and the scorer."""
    return search._get_routed_params_for_fit(params)


def table_of_results(search: Any, candidates: list[dict], n_splits: int, results: list) -> dict:
    """`cv_results_`, from the results of all candidates on all splits."""
    return search._format_results(candidates, n_splits, results)


def check_refit_metric(search: Any, scores: dict) -> None:
    """Raise unless `refit` names one of the scores of a candidate, or is False."""
    search._check_refit_for_multimetric(scores)


def best_index(search: Any, refit_metric: str, results: dict) -> int:
    """The number of the best candidate, by the metric or as `refit` chooses."""
    return search._select_best_index(search.refit, refit_metric, results)


# Of the fitted SVMs of scikit-learn: what its decisions read, by our names for it.
_PARTS_OF_SVM = {
    "n_support": "_n_support",
    "dual_coef": "_dual_coef_",
    "intercept": "_intercept_",
    "gamma": "_gamma",
    "sparse": "_sparse",
    "X_fit": "_BaseLibSVM__Xfit",
    "n_iter": "_num_iter",
    "slopes": "_probA",
    "offsets": "_probB",
    "has_probability": "_effective_probability",
}


def fitted_part(svm: Any, part: str) -> Any:
    """A part of a fitted SVM."""
    return getattr(svm, _PARTS_OF_SVM[part])


def set_fitted_parts(svm: Any, **parts: Any) -> None:
    """Give an SVM parts of a solution."""
    vars(svm).update({_PARTS_OF_SVM[part]: value for part, value in parts.items()})


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


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks watch an estimator."""
    return bool(getattr(estimator, "_skl_callbacks", []))


def callback_context(estimator: Any, max_subtasks: int) -> Any:
    """The root of the tree of tasks of a fit, which callbacks watch."""
    return estimator._init_callback_context(max_subtasks=max_subtasks)


def callback_state(estimator: Any) -> dict:
    """The attributes that callbacks keep on an estimator during a fit, and clean up after it."""
    return {k: v for k, v in vars(estimator).items() if k.startswith(("_skl_", "_callback_"))}


try:
    from sklearn.utils._sparse import _align_api_if_sparse as in_sparse_interface
except ImportError:

    def in_sparse_interface(X):
        """Sparse results as SciPy's matrices, before scikit-learn had a setting for it (1.9)."""
        return sp.csr_matrix(X) if sp.issparse(X) else X
