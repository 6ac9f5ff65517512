"""The pictures show what the fitted model says."""

import sys

import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA

from maxmargin import SVC, SVCSearch
from maxmargin.plotting import (
    BoundaryDisplay,
    ConvergenceDisplay,
    GridDisplay,
    ScalingDisplay,
    plot_grid,
)
from maxmargin.solvers import SMO

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def moons():
    return make_moons(120, noise=0.25, random_state=0)


def positions(markers):
    return {tuple(point) for point in np.asarray(markers.get_offsets())}


def test_boundary_is_that_of_the_decision_function(moons):
    svc = SVC(C=2.0).fit(*moons)
    display = BoundaryDisplay.from_estimator(svc, *moons, grid_resolution=20)
    at = np.column_stack([part.ravel() for part in display.grid])
    np.testing.assert_array_equal(display.values.ravel(), svc.decision_function(at))
    assert (at.min(axis=0) < moons[0].min(axis=0)).all()
    assert (at.max(axis=0) > moons[0].max(axis=0)).all()


def test_free_and_bounded_support_vectors_are_told_apart(moons):
    X, y = moons
    svc = SVC(C=2.0).fit(X, y)
    display = BoundaryDisplay.from_estimator(svc, X, y, grid_resolution=20)
    alpha = np.abs(svc.dual_coef_[0])
    assert 0 < (alpha == 2.0).sum() < len(alpha)
    assert positions(display.bounded_) == {tuple(p) for p in X[svc.support_[alpha == 2.0]]}
    assert positions(display.free_) == {tuple(p) for p in X[svc.support_[alpha < 2.0]]}
    assert display.bounded.sum() == svc.fit_report_[0].n_bounded


def test_bounds_follow_class_and_sample_weights(moons):
    X, y = moons
    weights = np.random.RandomState(0).uniform(0.5, 1.5, len(y))
    svc = SVC(C=2.0, class_weight={0: 3.0}).fit(X, y, sample_weight=weights)
    display = BoundaryDisplay.from_estimator(svc, X, y, sample_weight=weights, grid_resolution=20)
    assert 0 < display.bounded.sum() < len(svc.support_)
    assert display.bounded.sum() == svc.fit_report_[0].n_bounded


def test_without_free_support_vectors_no_ring_is_drawn():
    X, y = np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1]
    display = BoundaryDisplay.from_estimator(SVC(C=0.1).fit(X, y), X, y, grid_resolution=20)
    assert display.free_ is None
    assert len(positions(display.bounded_)) == 2


@pytest.mark.filterwarnings("ignore:GreedyStagewise has no box constraint")
def test_a_solver_without_bounds_has_support_vectors_of_one_kind(moons):
    X, y = moons
    svc = SVC(C=1e-3, solver="greedy").fit(X, y)
    display = BoundaryDisplay.from_estimator(svc, X, y, grid_resolution=20)
    assert display.bounded_ is None
    assert positions(display.free_) == {tuple(p) for p in X[svc.support_]}
    assert "α" not in display.free_.get_label()


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_many_classes_through_a_projection(container):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    svc = SVC().fit(container(X), names)
    plane = PCA(2).fit(X)
    display = BoundaryDisplay.from_estimator(
        svc, container(X), names, projection=plane, grid_resolution=20
    )
    at = np.column_stack([part.ravel() for part in display.grid])
    predicted = svc.predict(plane.inverse_transform(at))
    np.testing.assert_array_equal(svc.classes_[display.values.ravel()], predicted)
    assert positions(display.points_[1]) == {tuple(p) for p in plane.transform(X[y == 1])}


def test_draws_on_given_axes(moons):
    _, ax = plt.subplots()
    display = BoundaryDisplay.from_estimator(SVC().fit(*moons), *moons, grid_resolution=20, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_more_than_two_features_need_a_projection():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="X has 4; give a projection"):
        BoundaryDisplay.from_estimator(SVC().fit(X, y), X, y)


def test_precomputed_kernels_have_no_plane_to_draw():
    X, y = np.array([[0.0, 0.0], [1.0, 1.0]]), [0, 1]
    with pytest.raises(ValueError, match="kernel='precomputed'"):
        BoundaryDisplay.from_estimator(SVC(kernel="precomputed").fit(X @ X.T, y), X @ X.T, y)


def test_convergence_ends_at_the_certificate(moons):
    fits = {
        "second order": SVC(solver=SMO()).fit(*moons),
        "first order": SVC(solver=SMO(selection="maximal-violating-pair"), tol=1e-4).fit(*moons),
    }
    display = ConvergenceDisplay.from_estimators(fits)
    assert list(display.lines_) == list(fits)
    assert display.tol == 1e-4
    for name, (violation, distance) in display.lines_.items():
        report = fits[name].fit_report_[0]
        assert len(violation.get_xdata()) == len(report.history) + 1
        assert violation.get_xdata()[-1] == report.seconds
        assert violation.get_ydata()[-1] == report.kkt_violation
        assert distance.get_ydata()[-1] == pytest.approx(report.duality_gap, rel=1e-6, abs=1e-9)


def test_convergence_of_one_problem_of_many():
    X, y = load_iris(return_X_y=True)
    svc = SVC(solver="smo").fit(X, y)
    display = ConvergenceDisplay.from_estimators([svc, svc], problem=2)
    assert len(display.lines_) == 2
    line = display.lines_["1: smo"][0]
    assert line.get_xdata()[-1] == svc.fit_report_[2].seconds


@pytest.mark.parametrize(
    "draw",
    [
        lambda svc, X, y: BoundaryDisplay.from_estimator(svc, X, y),
        lambda svc, X, y: ConvergenceDisplay.from_estimators([svc]),
    ],
)
def test_missing_matplotlib_names_the_extra(moons, draw, monkeypatch):
    svc = SVC().fit(*moons)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"needs matplotlib.*maxmargin\[plot\]"):
        draw(svc, *moons)


# The heat map of a search.


@pytest.fixture(scope="module")
def search():
    X, y = make_moons(90, noise=0.25, random_state=0)
    grid = {"C": [16.0, 0.5, 2.0], "gamma": [0.1, "scale"], "class_weight": [None, "balanced"]}
    return SVCSearch(grid, cv=3, scoring=["accuracy", "f1"], refit="f1").fit(X, y)


def test_heat_map_shows_the_best_over_what_it_leaves_out(search):
    display = plot_grid(search, score="f1")
    assert isinstance(display, GridDisplay)
    assert display.names == ("gamma", "C")
    assert display.values == [[0.1, "scale"], [0.5, 2.0, 16.0]]
    results = search.cv_results_
    expected = np.full((3, 2), -np.inf)
    for one, mean in zip(results["params"], results["mean_test_f1"]):
        cell = ([0.5, 2.0, 16.0].index(one["C"]), [0.1, "scale"].index(one["gamma"]))
        expected[cell] = max(expected[cell], mean)
    np.testing.assert_allclose(display.image_.get_array(), expected)
    column, row = (int(corner + 0.5) for corner in display.best_.get_xy())
    assert display.scores[row, column] == pytest.approx(search.best_score_)
    labels = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert labels == ["$2^{-1}$", "$2^{1}$", "$2^{4}$"]
    assert len(display.ax_.texts) == 6


def test_heat_map_of_other_axes_and_one_parameter(search, moons):
    display = plot_grid(search, x="class_weight", y="gamma", score="accuracy")
    assert display.names == ("class_weight", "gamma") and display.scores.shape == (2, 2)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["None", "balanced"]
    one = SVCSearch({"C": [1.0, 2.0, 3.0]}, cv=3, refit=False).fit(*moons)
    display = plot_grid(one)
    assert display.names[1] == "C" and display.scores.shape == (3, 1)
    _, ax = plt.subplots()
    assert display.plot(ax).ax_ is ax


def test_heat_map_of_grids_with_different_parameters(moons):
    grids = [{"kernel": ["linear"], "C": [1.0, 2.0]}, {"C": [1.0, 2.0], "gamma": [0.5, 1.0]}]
    display = plot_grid(SVCSearch(grids, cv=3).fit(*moons), x="gamma", y="C")
    assert display.scores.shape == (2, 2) and not np.isnan(display.scores).any()


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({}, "score must say which of accuracy, f1 to draw"),
        ({"score": "auc"}, "score must be one of accuracy, f1, not 'auc'"),
        ({"score": "f1", "x": "degree"}, "the grid has no parameter 'degree', only"),
        ({"score": "f1", "x": "C", "y": "C"}, "x and y must be two parameters, not both 'C'"),
    ],
)
def test_heat_map_bad_input(search, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        plot_grid(search, **options)


# Time against n.


def test_exponents_of_known_times():
    n = np.array([1000, 2000, 4000, 8000])
    seconds = {"a": 1e-6 * n**1.5, "b": [0.1, 0.4, np.nan, np.nan]}
    display = ScalingDisplay(n_samples=n, seconds=seconds).plot()
    assert display.exponents_["a"] == pytest.approx(1.5)
    assert display.exponents_["b"] is None
    assert "n^{1.50}" in display.lines_["a"].get_label()
    np.testing.assert_allclose(display.lines_["a"].get_ydata(), seconds["a"])
    assert display.ax_.get_xscale() == display.ax_.get_yscale() == "log"


def test_times_of_fits(moons):
    X, y = moons
    display = ScalingDisplay.from_estimators([SVC(), SVC(solver="smo")], X, y, random_state=0)
    assert list(display.n_samples) == [7, 15, 30, 60, 120]
    assert list(display.seconds) == ["1: auto", "2: smo"]
    assert all(0 < t < 60 for times in display.seconds.values() for t in times)
    assert display.exponents_["1: auto"] is not None
    display = ScalingDisplay.from_estimators({"one": SVC()}, sp.csr_array(X), y, sizes=[60, 120],
                                             repeat=2, limit=0.0, random_state=0)  # fmt: skip
    assert np.isnan(display.seconds["one"][1]) and display.seconds["one"][0] > 0
    with pytest.raises(ValueError, match="sizes must lie between 2 and the 120 samples of X"):
        ScalingDisplay.from_estimators([SVC()], X, y, sizes=[60, 240])
