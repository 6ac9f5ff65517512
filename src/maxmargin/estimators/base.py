"""Base of the estimators: the public `fit` around the one training path."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from maxmargin.estimators.deferred import dask_collections, training
from maxmargin.estimators.documentation import DocumentedMixin
from maxmargin.estimators.inputs import is_dask_collection
from maxmargin.parallel import resolve_n_jobs, run_blocks, session, split
from maxmargin.sklearn_private import CallbackSupportMixin, fit_context

# Of sparse data up to this size gamma="scale" has the same bits as of the same dense data.
_DENSIFIED_ENTRIES = 2**16
# Values of parameters that passed scikit-learn's checks, which take as long as a small fit; an
# estimator's class and its values, which are of these types.
_passed: set[tuple] = set()
_PLAIN = (type(None), bool, int, float, str)
_MOST_PASSED = 1024
# Entries whose variance is not worth a thread, and those that one thread takes at a time.
_ENTRIES_AT_ONCE = 2**22
_ENTRIES_OF_BLOCK = 2**16


class BaseSVM(DocumentedMixin, CallbackSupportMixin, BaseEstimator):
    """What all estimators share. An estimator adds its parameters, and

    - `_formulation`: the name that solvers declare to solve,
    - `_cost`: what the bounds of the coefficients are multiplied by, C where there is one,
    - `_validate(X, y, sample_weight)`: the training data,
    - `_formulate(data)`: the problems of a fit, as tasks,
    - `_starts(data, tasks)`: a β to start from for each of them, or None,
    - `_assemble(data, tasks, answers, gamma)`: the fitted attributes.
    """

    _formulation: str

    @property
    def _cost(self) -> float:
        return 1.0

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model to training data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` their kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels of any type.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights that multiply C for each sample. A weight of 2 is the same as
            the sample twice, a weight of 0 the same as without it.

        Returns
        -------
        self : object
            The fitted estimator. If anything is wrong with the input, an error is
            raised and the estimator stays as it was.
        """
        # What overflows is found in the results and gets a sentence, not a warning as well.
        with np.errstate(over="ignore", invalid="ignore"), self._unchanged_on_error():
            return training().train(self, X, y, sample_weight)

    def _validate_params(self):
        """scikit-learn's checks, once for the same values."""
        values = [getattr(self, name) for name in self._parameter_constraints]
        types = [type(value) for value in values]
        key = (type(self), *types, *values) if all(kind in _PLAIN for kind in types) else None
        if key is not None and key in _passed:
            return
        super()._validate_params()
        if key is not None and len(_passed) < _MOST_PASSED:
            _passed.add(key)

    def _source(self, solver, X, y, sample_weight):
        """The validated samples, and the way to solve the problems of this fit on them."""
        if is_dask_collection(X):
            if getattr(self, "device", "cpu") == "cuda":
                raise ValueError(
                    "device='cuda' does not go with Dask collections, which train on the workers' "
                    "processors; use device='cpu'."
                )
            return dask_collections().source(self, solver, X, y, sample_weight)
        data = self._validate(X, y, sample_weight)
        self._check_solver(solver, data)
        tasks = self._formulate(data)
        gamma = self._resolve_gamma(data.X, data.sample_weights)
        return training().LocalSource(self, data, tasks, gamma)

    def _layout(self, data) -> tuple | None:
        """How the problems of a fit share its samples, where they can be solved together."""
        return None

    def _check_solver(self, solver, data) -> None:
        """One sentence for what a solver does not go with."""

    def _resolve_gamma(self, X, sample_weights) -> float:
        """The number behind gamma="scale" and "auto"."""
        n_features = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 0
        return training().resolve_gamma(
            self, n_features, lambda: _variance(X, sample_weights, self.n_jobs)
        )

    def _vectors_of(self, X, support: np.ndarray):
        if self.kernel == "precomputed" or callable(self.kernel):
            return np.empty((0, 0))
        vectors = X[support]
        return vectors if vectors.dtype.kind == "f" else vectors.astype(np.float64)

    def _is_sparse(self, X) -> bool:
        return sp.issparse(X) and not callable(self.kernel)

    def _iterations(self, n_iter: np.ndarray):
        """`n_iter_`, from the iterations of each problem."""
        return n_iter

    def _finish(self, X, y, sample_weight) -> None:
        """For what an estimator adds to its attributes."""

    @classmethod
    @cache
    def _get_param_names(cls):
        """The names of the parameters; scikit-learn reads the signature anew for each fit."""
        return super()._get_param_names()

    @contextmanager
    def _unchanged_on_error(self):
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # The callbacks' own state must survive: the decorator around `fit` cleans it up.
            kept = {k: v for k, v in vars(self).items() if k.startswith(("_skl_", "_callback_"))}
            self.__dict__.clear()
            self.__dict__.update(before | kept)
            raise


def _variance(X, sample_weights: np.ndarray | None, n_jobs) -> float:
    """Variance of all entries of X, each row counted as often as its weight says."""
    if sp.issparse(X) and X.shape[0] * X.shape[1] <= _DENSIFIED_ENTRIES:
        X = X.toarray()
    if sample_weights is None and not sp.issparse(X):
        return _variance_by_blocks(X, n_jobs)
    weights = np.ones(X.shape[0]) if sample_weights is None else sample_weights
    total = weights.sum() * X.shape[1]
    if not sp.issparse(X):
        mean = float((X.T @ weights).sum()) / total
        return float((np.square(np.subtract(X, mean, dtype=np.float64)).T @ weights).sum()) / total
    # Of the stored entries alone, and in float64: squares of small integers would overflow.
    by_entry = np.repeat(weights, np.diff(X.indptr))
    mean = float(X.data @ by_entry) / total
    square = np.square(X.data, dtype=np.float64) @ by_entry
    return float(square) / total - mean**2


def _variance_by_blocks(X: np.ndarray, n_jobs) -> float:
    """Variance of all entries; of many by blocks of rows on all threads, without a copy of X."""
    if X.size <= _ENTRIES_AT_ONCE:
        return float(X.var(dtype=np.float64))
    blocks = split(len(X), max(1, _ENTRIES_OF_BLOCK // X.shape[1]))

    def squares(rows: slice) -> float:
        away = np.subtract(X[rows], mean, dtype=np.float64).ravel()
        return float(away @ away)

    with session(resolve_n_jobs(n_jobs)):
        mean = sum(run_blocks(lambda rows: X[rows].sum(dtype=np.float64), blocks)) / X.size
        return sum(run_blocks(squares, blocks)) / X.size
