"""Imbalanced classes.

Of 1,000 samples 60 are positive. Left: every error costs the same, and many of the positive ones
are given up. Right: with class_weight="balanced" an error of either class weighs the same in sum.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_blobs
from sklearn.metrics import recall_score

from maxmargin import SVC
from maxmargin.plotting import BoundaryDisplay


def main():
    X, y = make_blobs([940, 60], 2, centers=[[0, 0], [1.8, 1.8]], random_state=0)
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for ax, weight in zip(axes, ("equal", "balanced")):
        model = SVC(gamma=0.3, class_weight="balanced" if weight == "balanced" else None).fit(X, y)
        BoundaryDisplay.from_estimator(model, X, y, ax=ax)
        found = recall_score(y, model.predict(X))
        ax.set_title(f"{weight} weights: {100 * found:.0f}% of class 1 found")
    return figure
