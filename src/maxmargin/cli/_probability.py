"""``-b 1``: probabilities of classes, and the noise of a regression, as LIBSVM has them."""

from __future__ import annotations

import warnings

from maxmargin.cli import _deferred as deferred
from maxmargin.io.data import Dataset
from maxmargin.io.files import DataError


def check_probability(estimator, folds: int | None) -> None:
    """Say before the training that a model could not have probabilities."""
    from sklearn.base import is_outlier_detector

    if is_outlier_detector(estimator):
        raise DataError("-b: one_class has no probabilities here; predict --scores tells how far.")
    if folds is not None:
        raise DataError("-b: cross-validation counts labels and errors, without probabilities.")
    if getattr(estimator, "multi_class", "ovo") == "ovr":
        raise DataError("-b: probabilities are those of pairs of classes: use --multi-class ovo.")


def add_probability(estimator, dataset: Dataset, seed: int) -> None:
    """Give a fitted model its sigmoids or its noise, from five fits to parts of the data."""
    from sklearn.base import is_regressor

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit to all samples has warned already
        if is_regressor(estimator):
            estimator._noise = deferred.fit_noise(estimator, dataset.X, dataset.labels, seed)
        else:
            estimator._pair_sigmoids = deferred.fit_sigmoids(
                estimator, dataset.X, dataset.labels, seed
            )


def require_probability(estimator, model_name: str) -> None:
    """Raise where a model was trained without probabilities."""
    if not hasattr(estimator, "_noise") and not hasattr(estimator, "_pair_sigmoids"):
        raise DataError(
            f"-b: {model_name} holds no probabilities; train with -b 1, or take --scores."
        )


def noise_lines(sigma: float) -> list[str]:
    """svm-predict's words for the noise of a regression."""
    return [
        "Prob. model for test data: target value = predicted value + z,",
        f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={sigma:g}",
    ]
