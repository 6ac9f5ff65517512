"""Base of the estimators: the public `fit` around the one training path."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from maxmargin.estimators.deferred import dask_collections, training
from maxmargin.estimators.documentation import DocumentedMixin
from maxmargin.estimators.fitted import fitted_attributes
from maxmargin.estimators.inputs import is_dask_collection
from maxmargin.estimators.variance import variance
from maxmargin.sklearn_private import (
    CallbackSupportMixin,
    OnceCheckedEstimator,
    callback_state,
    fit_context,
    num_samples,
)


class BaseSVM(DocumentedMixin, CallbackSupportMixin, OnceCheckedEstimator):
    """What all estimators share. An estimator adds its parameters, and

    - `_formulation`: the name that solvers declare to solve,
    - `_cost`: what the bounds of the coefficients are multiplied by, C where there is one,
    - `_validate(X, y, sample_weight)`: the training data,
    - `_formulate(data)`: the problems of a fit, as tasks,
    - `_starts(data, tasks)`: a β to start from for each of them, or None,
    - `_assemble(data, tasks, answers, gamma)`: the fitted attributes.
    """

    _formulation: str
    device: str = "cpu"  # also of models in older pickles

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
        return self._train(X, y, sample_weight)

    def _train(self, X, y, sample_weight) -> Self:
        # Overflows show in the results and are reported there, without a warning as well.
        with np.errstate(over="ignore", invalid="ignore"), self._unchanged_on_error():
            return training().train(self, X, y, sample_weight)

    def _source(self, solver, X, y, sample_weight):
        """The validated samples, as the source of the problems of this fit."""
        if is_dask_collection(X):
            if self.device == "cuda":
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
        """Raise one sentence where the solver cannot train on these data."""

    def _resolve_gamma(self, X, sample_weights) -> float:
        """The number behind gamma="scale" and "auto"."""
        n_features = X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 0
        return training().resolve_gamma(
            self, n_features, lambda: variance(X, sample_weights, self.n_jobs)
        )

    def _fitted(self, data, support: np.ndarray, gamma: float, **parts) -> dict:
        """The fitted attributes of a model with the support vectors `support`, in LIBSVM's layout.

        `parts` are the others that `fitted_attributes` takes.
        """
        X = data.X
        return fitted_attributes(
            support=support.astype(np.int32),
            vectors=self._vectors_of(X, support),
            shape=X.shape if hasattr(X, "shape") else (num_samples(X),),
            X_fit=X if callable(self.kernel) else None,
            sparse=sp.issparse(X) and not callable(self.kernel),
            cost=self._cost,
            gamma=gamma,
            **parts,
        )

    def _vectors_of(self, X, support: np.ndarray):
        if self.kernel == "precomputed" or callable(self.kernel):
            return np.empty((0, 0))
        vectors = X[support]
        return vectors if vectors.dtype.kind == "f" else vectors.astype(np.float64)

    def _iterations(self, n_iter: np.ndarray):
        """`n_iter_`, from the iterations of each problem."""
        return n_iter

    def _finish(self, X, y, sample_weight) -> None:
        """Add further attributes of an estimator."""

    @contextmanager
    def _unchanged_on_error(self):
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            # The callbacks' own state must survive: the decorator around `fit` cleans it up.
            kept = callback_state(self)
            self.__dict__.clear()
            self.__dict__.update(before | kept)
            raise
