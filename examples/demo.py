"""Train on data that comes with scikit-learn, print the report, draw the boundary."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC


def main() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = make_pipeline(StandardScaler(), SVC(C=10)).fit(X_train, y_train)
    print(model[-1].fit_report_)
    print(f"accuracy on {len(y_test)} held-out samples: {model.score(X_test, y_test):.4f}")


if __name__ == "__main__":
    main()
