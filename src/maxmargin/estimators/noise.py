"""The noise of a regression as LIBSVM has it: a Laplace distribution around each prediction."""

from __future__ import annotations

import numpy as np

from maxmargin.estimators.pair_sigmoids import FOLDS
from maxmargin.sklearn_private import safe_split

# Errors of more than this many standard deviations do not count, as in LIBSVM.
_MAX_DEVIATIONS = 5.0


def fit_noise(model, X, y, seed: int | None = None) -> float:
    """The scale σ of the density exp(−|z|/σ)/2σ of the errors z of samples that were left out.

    In five folds. The model is not changed and need not be fitted. LIBSVM's files call σ probA.
    """
    from sklearn.base import clone
    from sklearn.model_selection import KFold

    y = np.asarray(y, dtype=np.float64)
    if len(y) < 2:
        raise ValueError("The noise of a regression needs at least two samples.")
    plain = clone(model).set_params(warm_start=False)
    errors = np.empty(len(y))
    splits = KFold(min(FOLDS, len(y)), shuffle=True, random_state=seed)
    for fit_on, test_on in splits.split(y):
        fitted = plain.fit(*safe_split(plain, X, y, fit_on))
        held_out, truth = safe_split(plain, X, y, test_on, fit_on)
        errors[test_on] = np.abs(truth - fitted.predict(held_out))
    deviation = np.sqrt(2.0) * errors.mean()
    return float(errors[errors <= _MAX_DEVIATIONS * deviation].mean())
