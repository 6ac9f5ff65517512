"""The boundary of a pipeline, in the units of the data.

The SVM sees standardised features; the picture shows the features themselves, and a DataFrame
gives the axes their names. Dashed lines are the margins, rings the support vectors.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.plotting import BoundaryDisplay


def main():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X = X[["mean radius", "mean texture"]]
    model = make_pipeline(StandardScaler(), SVC(C=10)).fit(X, y)
    return BoundaryDisplay.from_estimator(model, X, y).figure_
