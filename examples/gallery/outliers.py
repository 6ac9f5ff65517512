"""Outliers: what does not belong to the rest.

A OneClassSVM without labels. ν bounds the part of the training samples that it leaves outside.
"""

import numpy as np
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import OneClassSVM
from maxmargin.plotting import BoundaryDisplay


def main():
    rng = np.random.default_rng(0)
    X = np.vstack([make_moons(400, noise=0.07, random_state=0)[0], rng.uniform(-2, 3, (20, 2))])
    model = make_pipeline(StandardScaler(), OneClassSVM(nu=0.06, gamma=1.0)).fit(X)
    return BoundaryDisplay.from_estimator(model, X).figure_
