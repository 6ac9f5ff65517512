"""Support vector classification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import ClassifierMixin

from maxmargin.estimators.classification import BaseSVClassifier
from maxmargin.estimators.parameters import CLASSIFICATION, COST
from maxmargin.estimators.probability import ProbabilityMixin


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
        Whether solvers leave samples out that seem to stay at a bound.
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
        Whether to print one line per second during long fits.
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
        other parameters, or with more rows below the old ones.
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
        `coef_` and `intercept_` have one row per class.

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

    _formulation = "c_svc"
    _parameter_constraints: dict = {**COST, **CLASSIFICATION}

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: str | Callable[..., Any] = "rbf",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool | str = "deprecated",
        tol: float = 1e-3,
        cache_size: float | str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        verbose: int = 0,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: Any = "auto",
        multi_class: str = "ovo",
        n_jobs: int | None = None,
        warm_start: bool = False,
        time_limit: float | None = None,
        device: str = "cpu",
    ) -> None:
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

    @property
    def _cost(self) -> float:
        return self.C
