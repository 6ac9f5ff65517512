"""`probability=True`, which scikit-learn has deprecated, in one module that is easy to remove."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import deprecated
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from maxmargin.warn import warn_user

_PROBABILITY_GONE = (
    "was deprecated in version 1.9 of scikit-learn and will be removed in 1.11 as the "
    "`probability=True` option for SVC is."
)


def _has_probability(estimator) -> bool:
    if hasattr(estimator, "_pair_sigmoids"):
        return True
    if estimator.probability == "deprecated" or not estimator.probability:
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class ProbabilityMixin:
    """Probabilities of an SVC, by `CalibratedClassifierCV` after the fit.

    Or by a sigmoid for each pair of classes, where a file or scikit-learn's model has them.
    """

    probability: object
    random_state: object
    classes_: np.ndarray
    _decisions: Callable

    def _finish(self, X, y, sample_weight):
        self.__dict__.pop("_pair_sigmoids", None)  # those of the last model
        if self.probability == "deprecated":
            return
        warn_user(
            "The `probability` parameter was deprecated in 1.9 of scikit-learn and will be "
            "removed in version 1.11. Use `CalibratedClassifierCV(SVC(), ensemble=False)` "
            "instead of `SVC(probability=True)`",
            FutureWarning,
        )
        if self.probability:
            self._calibrated = self._calibrate(X, y, sample_weight)

    def _calibrate(self, X, y, sample_weight):
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.model_selection import StratifiedKFold

        folds = min(5, np.bincount(np.unique(y, return_inverse=True)[1]).min())
        plain = clone(self).set_params(probability="deprecated", warm_start=False)
        if folds >= 2:
            splits = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        else:  # a class of one sample cannot be held out
            splits = [(np.arange(len(y)), np.arange(len(y)))]
        calibrated = CalibratedClassifierCV(plain, ensemble=False, cv=splits)
        return calibrated.fit(X, y, sample_weight=sample_weight)

    @available_if(_has_probability)
    def predict_proba(self, X):
        """Probabilities of the classes, by Platt's method in cross-validation."""
        check_is_fitted(self)
        if hasattr(self, "_pair_sigmoids"):
            values = self._decisions(X, "tasks")
            return self._pair_sigmoids.probabilities(values, len(self.classes_))
        if not hasattr(self, "_calibrated"):
            raise NotFittedError(
                "predict_proba is not available when fitted with probability=False"
            )
        return self._calibrated.predict_proba(X)

    @available_if(_has_probability)
    def predict_log_proba(self, X):
        """Logarithms of the probabilities of the classes."""
        return np.log(self.predict_proba(X))

    @deprecated(f"Attribute `probA_` {_PROBABILITY_GONE}")  # type: ignore[prop-decorator]
    @property
    def probA_(self):
        """Slopes of Platt's sigmoids, where `probability=True`."""
        return self._sigmoids("a_", "slopes")

    @deprecated(f"Attribute `probB_` {_PROBABILITY_GONE}")  # type: ignore[prop-decorator]
    @property
    def probB_(self):
        """Offsets of Platt's sigmoids, where `probability=True`."""
        return self._sigmoids("b_", "offsets")

    def _sigmoids(self, name: str, of_pairs: str) -> np.ndarray:
        if hasattr(self, "_pair_sigmoids"):
            return getattr(self._pair_sigmoids, of_pairs)
        if not hasattr(self, "_calibrated"):
            return np.empty(0)
        calibrators = self._calibrated.calibrated_classifiers_[0].calibrators
        return np.array([getattr(calibrator, name) for calibrator in calibrators])
