"""The tube of a regression and the region of a one-class SVM, drawn with their support vectors."""

import matplotlib

matplotlib.use("Agg")
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import SVR, OneClassSVM
from maxmargin.plotting import BoundaryDisplay, RegressionDisplay

TUBE, REGION = "tube.png", "one-class.png"


def main() -> None:
    random = np.random.default_rng(0)
    X = np.sort(random.uniform(-3, 3, (150, 1)), axis=0)
    y = np.sinc(X[:, 0]) + 0.12 * random.normal(size=150)
    model = SVR(C=10, gamma=1.0, epsilon=0.15).fit(X, y)
    print(model.fit_report_)
    display = RegressionDisplay.from_estimator(model, X, y)
    display.ax_.set(title="Samples inside the tube of an SVR do not count")
    display.figure_.savefig(TUBE, dpi=100)

    X = make_moons(300, noise=0.1, random_state=0)[0]
    detector = OneClassSVM(nu=0.1, gamma=2.0).fit(X)
    print(detector.fit_report_)
    display = BoundaryDisplay.from_estimator(detector, X)
    display.ax_.set(title="The region that holds nine tenths of the samples, or more")
    display.figure_.savefig(REGION, dpi=100)
    print(f"pictures: {TUBE}, {REGION}")


if __name__ == "__main__":
    main()
