"""Train on data that comes with scikit-learn, print the report, draw the boundary."""

import matplotlib

matplotlib.use("Agg")
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.plotting import BoundaryDisplay

PICTURE = "demo.png"


def main() -> None:
    data = load_breast_cancer()
    X, y = data.data, data.target_names[data.target]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    # Two principal components, so that the boundary in the picture is the model itself.
    model = make_pipeline(StandardScaler(), PCA(2), SVC(C=10)).fit(X_train, y_train)
    svc = model[-1]
    print(svc.fit_report_)
    print(f"accuracy on {len(y_test)} held-out samples: {model.score(X_test, y_test):.4f}")

    display = BoundaryDisplay.from_estimator(svc, model[:-1].transform(X_train), y_train)
    display.ax_.set(
        title="Breast cancer: the boundary of an SVC and its support vectors",
        xlabel="first principal component",
        ylabel="second principal component",
    )
    display.figure_.savefig(PICTURE, dpi=150)
    print(f"picture: {PICTURE}")


if __name__ == "__main__":
    main()
