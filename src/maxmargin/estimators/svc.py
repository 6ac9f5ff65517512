"""Support vector classification."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators.classification import BaseSVClassifier
from maxmargin.estimators.decision import decision_functions
from maxmargin.estimators.deferred import dask_collections
from maxmargin.estimators.inputs import is_dask_collection, validate_features
from maxmargin.estimators.multiclass import coefficients_by_task
from maxmargin.estimators.probability import ProbabilityMixin
from maxmargin.kernels.cuda import card_array, check_on_card, to_card, use_card
from maxmargin.parallel import resolve_n_jobs, session
from maxmargin.sparse_format import check_format, combined_rows


def _has_stages(estimator) -> bool:
    if None in getattr(estimator, "_stages", [None]):
        raise AttributeError(
            "staged_decision_function is not available: the model is not fitted, or its solver "
            "keeps no models on the way."
        )
    return True


class SVC(ProbabilityMixin, ClassifierMixin, BaseSVClassifier):
    """C-support vector classification, trained fast and to a proven optimum.

    Takes every parameter of :class:`sklearn.svm.SVC` with the same meaning, has
    the same fitted attributes, and adds a choice of solvers, a report with a
    certificate of optimality, limits, callbacks and warm starts.

    Parameters
    ----------
    C : float, default=1.0
        Regularisation: the price of a margin violation. ``inf`` is a hard margin.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel function. A callable gets two sets of samples and returns their
        kernel matrix.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Coefficient of "rbf", "poly" and "sigmoid": 1 / (n_features · X.var()),
        1 / n_features, or the number itself. With sample weights the variance is the
        weighted one, so that a weight of 2 is the same as the sample twice here too.
    coef0 : float, default=0.0
        Constant of "poly" and "sigmoid".
    shrinking : bool, default=True
        Whether solvers set samples aside that seem settled.
    probability : bool, default="deprecated"
        Deprecated in scikit-learn; use ``CalibratedClassifierCV(SVC(), ensemble=False)``,
        which is what this option does.
    tol : float, default=1e-3
        The KKT violation at which training stops.
    cache_size : float or "auto", default="auto"
        Memory for kernel values in MB; "auto" takes a share of the free memory.
    class_weight : dict or "balanced", default=None
        Factors on C by class.
    verbose : int, default=0
        Whether to print a line a second during long fits.
    max_iter : int, default=-1
        Limit on the solver's iterations, -1 for none.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the output of `decision_function` with more than two classes.
    break_ties : bool, default=False
        Whether `predict` breaks ties by the decision function.
    random_state : int, RandomState instance or None, default=None
        Seed for solvers that draw random numbers.
    solver : str or solver object, default="auto"
        How to train: "auto", the name of a solver, or an object such as
        ``maxmargin.solvers.SMO(selection="maximal-violating-pair")``.
    multi_class : {"ovo", "ovr"}, default="ovo"
        How more than two classes are trained: every pair, or each against the rest.
    n_jobs : int or None, default=None
        Cores to use; None means all that joblib's context gives, BLAS included.
    warm_start : bool, default=False
        Whether `fit` starts from the last solution: after an interruption, with
        another C, or with more rows below the old ones.
    time_limit : float or None, default=None
        Limit on the time of a fit in seconds, the time of its last certificate included, which
        is measured on the way.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where to train and predict: on the processor, on an NVIDIA GPU (which needs
        ``pip install maxmargin[cuda]``), or on the GPU where there is one and the data are
        large enough to repay it. Arrays that are on a GPU train and predict there, and
        predictions for them are arrays of CuPy.

    Attributes
    ----------
    fit_report_ : FitReport
        What was solved, by which solver and why, in how long, how close to the optimum.
    support_, support_vectors_, n_support_, dual_coef_, coef_, intercept_, classes_, \
class_weight_, n_iter_, fit_status_, shape_fit_, n_features_in_, feature_names_in_
        As in :class:`sklearn.svm.SVC`. With ``multi_class="ovr"``, `dual_coef_`,
        `coef_` and `intercept_` have one row a class.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from maxmargin import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    >>> clf[-1].fit_report_.status
    'converged'
    """

    _parameter_constraints: dict = {
        "C": [Interval(Real, 0.0, None, closed="right")],
        "kernel": [
            StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}),
            callable,
        ],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "shrinking": ["boolean"],
        "probability": ["boolean", Hidden(StrOptions({"deprecated"}))],
        "tol": [Interval(Real, 0.0, None, closed="neither")],
        "cache_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "verbose": ["verbose"],
        "max_iter": [Interval(Integral, -1, None, closed="left")],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": ["random_state"],
        "solver": "no_validation",
        "multi_class": [StrOptions({"ovo", "ovr"})],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "warm_start": ["boolean"],
        "time_limit": [Interval(Real, 0, None, closed="neither"), None],
        "device": [StrOptions({"cpu", "cuda", "auto"})],
    }

    def __init__(
        self,
        *,
        C=1.0,
        kernel="rbf",
        degree=3,
        gamma="scale",
        coef0=0.0,
        shrinking=True,
        probability="deprecated",
        tol=1e-3,
        cache_size="auto",
        class_weight=None,
        verbose=0,
        max_iter=-1,
        decision_function_shape="ovr",
        break_ties=False,
        random_state=None,
        solver="auto",
        multi_class="ovo",
        n_jobs=None,
        warm_start=False,
        time_limit=None,
        device="cpu",
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.solver = solver
        self.multi_class = multi_class
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.time_limit = time_limit
        self.device = device

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    @classmethod
    def from_sklearn(cls, fitted):
        """A fitted model with the parameters and solution of a fitted `sklearn.svm.SVC`."""
        from maxmargin.estimators.sklearn_models import from_sklearn

        return from_sklearn(fitted, cls)

    def to_sklearn(self):
        """A fitted `sklearn.svm.SVC` with this model's parameters and solution."""
        from maxmargin.estimators.sklearn_models import to_sklearn

        return to_sklearn(self)

    def predict(self, X):
        """Class labels of the samples in X.

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
        check_is_fitted(self)
        if is_dask_collection(X):
            return self._lazily("predict", X)
        if card_array(X) is not None:
            return self._on_card(self.predict, X)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        n_classes = len(self.classes_)
        if n_classes > 2 and (self.break_ties or self.multi_class == "ovr"):
            return self.classes_.take(np.argmax(self.decision_function(X), axis=1))
        if n_classes == 2:
            return self.classes_.take(np.where(self._decisions(X, "tasks")[:, 0] > 0, 0, 1))
        return self.classes_.take(self._decisions(X, "votes"))

    def decision_function(self, X):
        """Decision values of the samples in X.

        Returns
        -------
        values : ndarray of shape (n_samples,), (n_samples, n_classes) or \
                (n_samples, n_classes * (n_classes - 1) / 2)
            One value for two classes, positive for the second; else by
            `decision_function_shape`. A dask array where X is a Dask collection.
        """
        if is_dask_collection(X):
            return self._lazily("decision_function", X)
        if card_array(X) is not None:
            return self._on_card(self.decision_function, X)
        check_is_fitted(self)
        form = self._form()
        values = self._decisions(X, form)
        return -values[:, 0] if len(self.classes_) == 2 else values

    @available_if(_has_stages)
    def staged_decision_function(self, X):
        """Decision values with 1, 2, 3, … support vectors.

        Only of a solver that chooses support vectors one by one and does not touch
        their coefficients again, such as ``GreedyStagewise(backfit=False)``.

        Yields
        ------
        values : as of `decision_function`
            With several binary problems each has as many support vectors as the
            stage says, or all that it needs.
        """
        from maxmargin.decisions import in_form
        from maxmargin.estimators.staged import staged_decisions

        X, form, n_classes = self._validate_for_predict(X), self._form(), len(self.classes_)
        for decisions in staged_decisions(self, X):
            values = in_form(np.ascontiguousarray(decisions.T), form, n_classes)
            yield -values[:, 0] if n_classes == 2 else values

    def _lazily(self, method: str, X):
        check_is_fitted(self)
        return dask_collections().lazily(self, method, X)

    def _on_card(self, method, X):
        """The answer to samples on a GPU, there too unless it is made of words."""
        check_on_card(self.device)
        X = card_array(X)
        values = method(X.get())
        return to_card(values)

    def _form(self) -> str:
        """The form of decision values that the parameters ask for."""
        if len(self.classes_) == 2:
            return "tasks"
        if self.multi_class == "ovr":
            if self.decision_function_shape == "ovo":
                raise ValueError(
                    "decision_function_shape='ovo' needs a model of pairs: fit with "
                    "multi_class='ovo', not 'ovr'."
                )
            return "tasks"
        return "classes" if self.decision_function_shape == "ovr" else "tasks"

    def _decisions(self, X, form: str) -> np.ndarray:
        """Values of all binary decision functions, in LIBSVM's sign and in that form."""
        X = self._validate_for_predict(X)
        if not callable(self.kernel) and use_card(
            self.device, float(X.shape[0]) * len(self.support_)
        ):
            from maxmargin.decisions import in_form

            coefficients = coefficients_by_task(self._dual_coef_, self._n_support).T.toarray()
            values = self._expansion(X, slice(None), coefficients) + self._intercept_
            return in_form(np.ascontiguousarray(values.T), form, len(self.classes_))
        return decision_functions(self).evaluate(X, form, resolve_n_jobs(self.n_jobs))

    def _expansion(self, X, chosen, coefficients: np.ndarray) -> np.ndarray:
        """Kernel values with the support vectors `chosen`, times coefficients."""
        from maxmargin import model
        from maxmargin.kernels.functions import KernelFunction

        support = self.support_[chosen]
        with session(resolve_n_jobs(self.n_jobs)):
            if self.kernel == "precomputed":
                return model.precomputed_expansion(X, support, coefficients)
            if callable(self.kernel):
                return model.callable_expansion(self.kernel, X, self._X_fit, support, coefficients)
            kernel = KernelFunction(self.kernel, self._gamma, self.coef0, self.degree)
            vectors = self.support_vectors_[chosen]
            return model.kernel_expansion(kernel, X, vectors, coefficients, device=self.device)

    def _validate_for_predict(self, X):
        check_is_fitted(self)
        if self.support_.size != self._n_support.sum():
            raise ValueError(f"The internal representation of {type(self).__name__} was altered")
        if callable(self.kernel):
            if sp.issparse(X):
                check_format(X)
            return X
        X = validate_features(self, X, reset=False)
        if sp.issparse(X) and not self._sparse:
            raise ValueError(
                f"cannot use sparse input in {type(self).__name__!r} trained on dense data"
            )
        if self._sparse and not sp.issparse(X):
            X = sp.csr_array(X)
        if self.kernel == "precomputed" and X.shape[1] != self.shape_fit_[0]:
            raise ValueError(
                f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                "the number of samples at training time"
            )
        return X

    @property
    def n_support_(self):
        """Number of support vectors of each class."""
        if not hasattr(self, "_n_support"):
            raise AttributeError("n_support_ is not available before fit.")
        return self._n_support

    @property
    def fit_status_(self):
        """0 if training converged, else 1."""
        if not hasattr(self, "fit_report_"):
            raise AttributeError("fit_status_ is not available before fit.")
        return int(self.fit_report_.status != "converged")

    @property
    def coef_(self):
        """Weights of the features, where the kernel is linear."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        if not hasattr(self, "_n_support"):
            raise AttributeError("coef_ is not available before fit.")
        sign = -1.0 if len(self.classes_) == 2 else 1.0
        coefficients = sign * coefficients_by_task(self._dual_coef_, self._n_support)
        if self._sparse:
            coef = combined_rows(coefficients, self.support_vectors_)
            coef.data.flags.writeable = False
        else:
            coef = coefficients @ self.support_vectors_
            coef.flags.writeable = False
        return coef
