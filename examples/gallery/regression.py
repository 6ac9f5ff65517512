"""Regression: the tube of an SVR.

Errors up to ε cost nothing. Samples inside the tube do not count, those on its walls and outside
are the support vectors.
"""

import numpy as np

from maxmargin import SVR
from maxmargin.plotting import RegressionDisplay


def main():
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-4, 4, (160, 1)), axis=0)
    y = np.sinc(X[:, 0]) + 0.1 * rng.normal(size=len(X))
    model = SVR(C=10, gamma=1.0, epsilon=0.15).fit(X, y)
    return RegressionDisplay.from_estimator(model, X, y).figure_
