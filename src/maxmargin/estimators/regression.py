"""Support vector regression."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from maxmargin.estimators.documentation import with_parameters_of
from maxmargin.estimators.inputs import RegressionData, is_dask_collection, validate_regression_data
from maxmargin.estimators.parameters import COMMON, COST, NU
from maxmargin.estimators.single import SingleProblemModel
from maxmargin.estimators.svc import SVC
from maxmargin.estimators.tasks import EpsilonRegression, NuRegression
from maxmargin.kernels.cuda import card_array
from maxmargin.sklearn_private import Interval


class BaseSVRegressor(SingleProblemModel):
    """What the two regressions share: targets, and a prediction that is the decision value."""

    C: float

    @property
    def _cost(self) -> float:
        return self.C

    def _validate(self, X, y, sample_weight) -> RegressionData:
        return validate_regression_data(self, X, y, sample_weight)

    def _finish(self, X, y, sample_weight) -> None:
        self.__dict__.pop("_noise", None)  # that of the last model, from a file

    def predict(self, X: Any) -> Any:
        """Predicted values of the samples in X.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or \
                (n_samples, n_samples_train)
            Samples; for ``kernel="precomputed"`` their kernel values with the
            training samples.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            A dask array, not yet computed, where X is a Dask collection.
        """
        if is_dask_collection(X):
            return self._lazily("predict", X)
        if card_array(X) is not None:
            return self._on_card(self.predict, X)
        return self._decisions(X, "tasks")[:, 0]


@with_parameters_of(SVC)
class SVR(RegressorMixin, BaseSVRegressor):
    """Epsilon-support vector regression, trained fast and to a proven optimum.

    Takes every parameter of :class:`sklearn.svm.SVR` with the same meaning and has the
    same fitted attributes.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation: the price of an error beyond epsilon.
    epsilon : float, default=0.1
        Errors up to this size cost nothing.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, random_state, \
solver, n_jobs, warm_start, time_limit, device
        As of :class:`SVC`.

    Attributes
    ----------
    fit_report_ : FitReport
        What was solved, by which solver and why, in how long, how close to the optimum.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, n_iter_, \
fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in :class:`sklearn.svm.SVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import SVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), SVR(C=100, epsilon=10)).fit(X, y)
    >>> model[-1].fit_report_.status
    'converged'
    """

    _formulation = "epsilon_svr"
    _parameter_constraints: dict = {
        **COMMON,
        **COST,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        epsilon: float = 0.1,
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
        self.C = C
        self.epsilon = epsilon
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

    def _formulate(self, data: RegressionData) -> list:
        return [EpsilonRegression(np.flatnonzero(data.costs > 0), self.epsilon)]


@with_parameters_of(SVC)
class NuSVR(RegressorMixin, BaseSVRegressor):
    """Nu-support vector regression: the width of the tube follows from nu.

    Takes every parameter of :class:`sklearn.svm.NuSVR` with the same meaning and has the
    same fitted attributes. The epsilon that it finds is in the report.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the part of samples outside the tube, and lower bound on the
        part of support vectors; in (0, 1].
    C : float, default=1.0
        Regularisation: the price of an error outside the tube.
    kernel, degree, gamma, coef0, shrinking, tol, cache_size, verbose, max_iter, random_state, \
solver, n_jobs, warm_start, time_limit, device
        As of :class:`SVC`.

    Attributes
    ----------
    fit_report_ : FitReport
        What was solved, by which solver and why, in how long, how close to the optimum.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, n_iter_, \
fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in :class:`sklearn.svm.NuSVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import NuSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), NuSVR(C=100, nu=0.3)).fit(X, y)
    >>> model[-1].fit_report_.status
    'converged'
    """

    _formulation = "nu_svr"
    _parameter_constraints: dict = {**COMMON, **COST, **NU}

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
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
        self.nu = nu
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
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

    def _formulate(self, data: RegressionData) -> list:
        index = np.flatnonzero(data.costs > 0)
        return [NuRegression(index, self.nu, self.nu * float(data.costs[index].sum()))]
