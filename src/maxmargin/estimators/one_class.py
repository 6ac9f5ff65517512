"""Detection of outliers: the one-class SVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin

from maxmargin.estimators.documentation import with_parameters_of
from maxmargin.estimators.inputs import RegressionData, is_dask_collection, validate_regression_data
from maxmargin.estimators.parameters import COMMON, NU
from maxmargin.estimators.single import SingleProblemModel
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.tasks import OneClass
from maxmargin.kernels.cuda import card_array
from maxmargin.sklearn_private import fit_context


@with_parameters_of(SVC)
class OneClassSVM(OutlierMixin, SingleProblemModel):
    """Outlier detection by the support of a distribution, trained to a proven optimum.

    Takes every parameter of :class:`sklearn.svm.OneClassSVM` with the same meaning and
    has the same fitted attributes.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the part of training samples that count as outliers, and lower
        bound on the part of support vectors; in (0, 1].
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, random_state, \
solver, n_jobs, warm_start, time_limit, device
        As of :class:`SVC`.

    Attributes
    ----------
    fit_report_ : FitReport
        What was solved, by which solver and why, in how long, how close to the optimum.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, n_iter_, \
fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in :class:`sklearn.svm.OneClassSVM`.
    offset_ : float
        What `score_samples` is reduced by in `decision_function`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = OneClassSVM(nu=0.1).fit(X)
    >>> detector.predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _formulation = "one_class"
    _parameter_constraints: dict = {**COMMON, **NU}

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float | str = "auto",
        verbose: int = 0,
        max_iter: int = -1,
        random_state: Any = None,
        solver: Any = "auto",
        n_jobs: int | None = None,
        warm_start: bool = False,
        time_limit: float | None = None,
        device: str = "cpu",
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.nu = nu
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.verbose = verbose
        self.max_iter = max_iter
        self.random_state = random_state
        self.solver = solver
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.time_limit = time_limit
        self.device = device

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Find the region that holds most of the samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` their kernel matrix.
        y : Ignored
            Not used, present for API consistency by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. A weight of 2 is the same as the sample twice.

        Returns
        -------
        self : object
            The fitted estimator. If anything is wrong with the input, an error is
            raised and the estimator stays as it was.
        """
        return self._train(X, None, sample_weight)

    def _validate(self, X, y, sample_weight) -> RegressionData:
        return validate_regression_data(self, X, "no_validation", sample_weight)

    def _formulate(self, data: RegressionData) -> list:
        return [OneClass(np.flatnonzero(data.costs > 0), self.nu)]

    @property
    def offset_(self):
        """What `score_samples` is reduced by in `decision_function`: ρ of the paper."""
        if not hasattr(self, "_intercept_"):
            raise AttributeError("offset_ is not available before fit.")
        return -self._intercept_

    def decision_function(self, X: Any) -> Any:
        """Signed distance to the boundary: positive for inliers, negative for outliers.

        Returns
        -------
        values : ndarray of shape (n_samples,)
            A dask array where X is a Dask collection.
        """
        if is_dask_collection(X):
            return self._lazily("decision_function", X)
        if card_array(X) is not None:
            return self._on_card(self.decision_function, X)
        return self._decisions(X, "tasks")[:, 0]

    def score_samples(self, X: Any) -> Any:
        """Decision values without the offset.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
        """
        return self.decision_function(X) + float(self.offset_[0])

    def predict(self, X: Any) -> Any:
        """+1 for inliers, −1 for outliers.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        if is_dask_collection(X):
            return self._lazily("predict", X)
        if card_array(X) is not None:
            return self._on_card(self.predict, X)
        return np.where(self._decisions(X, "tasks")[:, 0] > 0, 1, -1).astype(np.intp)
