"""Probabilities by calibration.

A decision value is no probability. CalibratedClassifierCV learns one from values that were
predicted for held-out samples; the closer to the diagonal, the more it can be believed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from maxmargin import SVC


def main():
    X, y = make_classification(4000, 20, n_informative=6, class_sep=0.7, flip_y=0.1, random_state=0)
    X, X_test, y, y_test = train_test_split(X, y, random_state=0)
    plain = SVC().fit(X, y)
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y)
    guess = 1 / (1 + np.exp(-plain.decision_function(X_test)))
    figure, ax = plt.subplots(figsize=(5.6, 5), layout="constrained")
    CalibrationDisplay.from_predictions(
        y_test, guess, n_bins=10, name="1 / (1 + exp(−decision value))", ax=ax
    )
    CalibrationDisplay.from_predictions(
        y_test, calibrated.predict_proba(X_test)[:, 1], n_bins=10, name="calibrated", ax=ax
    )
    return figure
