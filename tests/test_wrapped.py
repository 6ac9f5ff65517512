"""Helpers find the SVM inside pipelines, searches and calibrated models."""

import matplotlib
import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, make_moons
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from maxmargin import SVC, SVR, NuSVC, SVCSearch
from maxmargin.estimators.unwrap import fit_report, unwrap
from maxmargin.html_report import html_report
from maxmargin.io import load_model, save_libsvm_model, save_model
from maxmargin.plotting import BoundaryDisplay, ConvergenceDisplay, ScalingDisplay, plot_grid

matplotlib.use("Agg")
import matplotlib.pyplot as plt

WRAPPERS = {
    "pipeline": lambda svm: make_pipeline(StandardScaler(), svm),
    "two steps": lambda svm: make_pipeline(MinMaxScaler(), "passthrough", StandardScaler(), svm),
    "search": lambda svm: GridSearchCV(svm, {"C": [2.0]}, cv=2),
    "search of a pipeline": lambda svm: GridSearchCV(
        make_pipeline(StandardScaler(), svm), {"svc__C": [2.0]}, cv=2
    ),
    "pipeline of a search": lambda svm: make_pipeline(
        StandardScaler(), GridSearchCV(svm, {"C": [2.0]}, cv=2)
    ),
    "our search": lambda svm: SVCSearch({"C": [2.0]}, cv=2),
    "calibrated": lambda svm: CalibratedClassifierCV(
        make_pipeline(StandardScaler(), svm), ensemble=False, cv=2
    ),
    "threshold": lambda svm: FixedThresholdClassifier(
        make_pipeline(StandardScaler(), svm), response_method="decision_function"
    ),
}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    """Features of very different scales: a picture in the units of the scaler would differ."""
    X, y = make_moons(90, noise=0.25, random_state=0)
    return X * [1.0, 1000.0] + [0.0, 5000.0], y


@pytest.fixture(params=WRAPPERS)
def model(request, data):
    return WRAPPERS[request.param](SVC(C=2.0)).fit(*data)


def test_the_boundary_is_in_the_units_of_the_data(model, data):
    X, y = data
    display = BoundaryDisplay.from_estimator(model, X, y, grid_resolution=15)
    np.testing.assert_array_equal(display.points, X)
    found = unwrap(model)
    at = np.column_stack([part.ravel() for part in display.grid])
    expected = found.svm.decision_function(found.features(at))
    np.testing.assert_array_equal(display.values.ravel(), expected)
    if hasattr(model, "decision_function") and not found.after:
        np.testing.assert_allclose(expected, model.decision_function(at))
    rings = {tuple(point) for point in display.free_.get_offsets()}
    assert rings <= {tuple(point) for point in X[found.svm.support_]}


def test_reports_are_those_of_the_svm_inside(model, data):
    report = fit_report(model)
    assert report is unwrap(model).svm.fit_report_
    [lines] = ConvergenceDisplay.from_estimators({"one": model}).lines_.values()
    assert lines[0][0].get_xdata()[-1] == report[0].seconds
    page = html_report(model, *data)
    right = int(np.sum(model.predict(data[0]) == data[1]))
    assert f"{right} of {len(data[1])} right" in page
    assert report._headline() in page
    assert ("StandardScaler" in page) == bool(unwrap(model).before)


def test_a_search_is_saved_as_its_best_model(data, tmp_path):
    search = GridSearchCV(SVC(), {"C": [2.0]}, cv=2).fit(*data)
    for name, save in (("m.npz", save_model), ("m.model", save_libsvm_model)):
        save(search, tmp_path / name)
        loaded = load_model(tmp_path / name, n_features=2)
        np.testing.assert_array_equal(loaded.predict(data[0]), search.predict(data[0]))
    assert load_model(tmp_path / "m.npz").C == 2.0


@pytest.mark.parametrize(
    "kind, parts",
    [
        ("pipeline", "this Pipeline also has StandardScaler:"),
        ("search of a pipeline", "this GridSearchCV also has StandardScaler:"),
        ("calibrated", "also has StandardScaler and CalibratedClassifierCV:"),
    ],
)
def test_a_file_that_would_lose_the_scaler_is_not_written(kind, parts, data, tmp_path):
    model = WRAPPERS[kind](SVC(C=2.0)).fit(*data)
    for name in ("m.npz", "m.model"):
        with pytest.raises(TypeError, match=f"holds an SVM alone.*{parts}.*joblib.dump"):
            save_model(model, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_other_wrappers(data):
    scaler = StandardScaler().fit(data[0])
    svm = NuSVC(nu=0.5).fit(scaler.transform(data[0]), data[1])
    assert unwrap(FrozenEstimator(svm)).svm is svm
    model = make_pipeline(FrozenEstimator(scaler), svm)
    assert BoundaryDisplay.from_estimator(model, *data, grid_resolution=9).bounded_ is None
    X, y = load_diabetes(return_X_y=True)
    scaled = TransformedTargetRegressor(
        make_pipeline(StandardScaler(), SVR()), transformer=StandardScaler()
    ).fit(X, y)
    assert unwrap(scaled).after == (scaled,)
    assert f"{scaled.score(X, y):.5g}" in html_report(scaled, X, y)


def test_one_of_one_and_selected_features(data):
    X, y = data[0], data[1] == data[1][0]
    of_two = OneVsRestClassifier(make_pipeline(StandardScaler(), SVC())).fit(X, y)
    assert unwrap(of_two).svm is of_two.estimators_[0][-1] and unwrap(of_two).after == (of_two,)
    selected = RFE(SVC(kernel="linear"), n_features_to_select=1).fit(X, y)
    svm = unwrap(selected)
    assert svm.features(X).shape == (len(X), 1)
    assert (svm.svm.predict(svm.features(X)) == selected.predict(X)).all()


def test_sentences_for_what_has_no_svm_to_show(data):
    X, y = data
    cases = [
        (LogisticRegression().fit(X, y), TypeError, "LogisticRegression holds no SVM of maxmargin"),
        (make_pipeline(StandardScaler(), SVC()), NotFittedError, "SVC instance is not fitted yet"),
        (GridSearchCV(SVC(), {"C": [1.0]}), NotFittedError, "GridSearchCV instance is not fitted"),
        (GridSearchCV(SVC(), {"C": [1.0]}, refit=False, cv=2).fit(X, y), ValueError, "refit=True"),
        (CalibratedClassifierCV(SVC(), cv=2).fit(X, y), ValueError, "holds 2 SVMs.*ensemble=False"),
        (OneVsRestClassifier(SVC()).fit(X, y + (X[:, 0] > 1)), ValueError, "holds 3 fitted models"),
        (BaggingClassifier(SVC(), 3).fit(X, y), ValueError, "holds 3 fitted models; choose one"),
        (VotingClassifier([("a", SVC()), ("b", SVC(C=2))]).fit(X, y), ValueError, "2 fitted mod"),
        (BaggingClassifier(LogisticRegression()).fit(X, y), TypeError, "holds no SVM of maxmargin"),
    ]
    for model, kind, sentence in cases:
        with pytest.raises(kind, match=sentence):
            unwrap(model)


def test_boundary_sentences(data):
    X, y = data
    svm = SVC().fit(X, y)
    with pytest.raises(ValueError, match="X has 50 samples and the model was fitted to 90"):
        BoundaryDisplay.from_estimator(svm, X[:50], y[:50])
    with pytest.raises(ValueError, match="needs the labels y of a classifier"):
        BoundaryDisplay.from_estimator(svm, X)
    with pytest.raises(TypeError, match="draws SVC, NuSVC and OneClassSVM, not SVR"):
        BoundaryDisplay.from_estimator(SVR().fit(X, y), X, y)
    with pytest.raises(ValueError, match="no fit_report_: it was read from a file"):
        fit_report(SVC.from_sklearn(svm.to_sklearn()))


def test_grid_and_scaling_of_pipelines(data):
    X, y = data
    grid = {"svc__C": [1.0, 2.0], "svc__gamma": [0.1, 0.2, 0.3]}
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), grid, cv=2).fit(X, y)
    display = plot_grid(search)
    assert display.names == ("svc__gamma", "svc__C") and display.ax_.get_xlabel() == "gamma"
    inner = make_pipeline(StandardScaler(), GridSearchCV(SVC(), {"C": [1.0, 2.0]}, cv=2))
    assert plot_grid(inner.fit(X, y)).scores.shape == (2, 1)
    pipelines = [make_pipeline(StandardScaler(), SVC(solver="smo")), LogisticRegression()]
    shown = ScalingDisplay.from_estimators(pipelines, X, y, sizes=[40, 90])
    assert list(shown.seconds) == ["1: smo", "2: LogisticRegression"]
