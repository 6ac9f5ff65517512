"""The pictures show what the fitted model says."""

import sys
import warnings
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCSearch
from maxmargin.plotting import (
    BoundaryDisplay,
    ConvergenceDisplay,
    GridDisplay,
    ScalingDisplay,
    plot_grid,
)
from maxmargin.plotting._style import colours
from maxmargin.plotting.grid import _labels
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
    for name, [(violation, distance)] in display.lines_.items():
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
    line = display.lines_["1: smo"][0][0]
    assert line.get_xdata()[-1] == svc.fit_report_[2].seconds
    with pytest.raises(ValueError, match="problem=3, but '1: smo' has 3 problems, numbered from 0"):
        ConvergenceDisplay.from_estimators([svc], problem=3)


def test_convergence_of_all_problems_has_one_name_a_fit():
    X, y = load_digits(return_X_y=True)
    svc = SVC(solver="smo").fit(X[:400], y[:400])
    display = ConvergenceDisplay.from_estimators(svc)
    assert [len(lines) for lines in display.lines_.values()] == [45]
    labels = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert labels == ["smo, 45 problems", "tol"]
    assert {ax.get_xscale() for ax in display.axes_} == {"log"}


# What the eye needs: room, colours, names.


def test_ten_classes_have_ten_colours():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    display = BoundaryDisplay.from_estimator(
        SVC().fit(X, y), X, y, projection=PCA(2).fit(X), grid_resolution=20
    )
    shown = {tuple(np.ravel(points.get_facecolor())) for points in display.points_}
    assert len(shown) == 10
    assert display.ax_.get_xlabel() == "pca0"


def test_more_classes_than_colours_by_hand():
    assert len(set(colours(25))) == 25


def test_columns_of_a_frame_name_the_axes_without_a_warning(moons):
    X, y = pd.DataFrame(moons[0], columns=["width", "height"]), moons[1]
    model = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display = BoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")


def test_the_legend_stays_inside_axes_of_a_user(moons):
    figure, axes = plt.subplots(1, 2)
    BoundaryDisplay.from_estimator(SVC().fit(*moons), *moons, grid_resolution=20, ax=axes[0])
    figure.canvas.draw()
    legend, inside = axes[0].get_legend().get_window_extent(), axes[0].get_window_extent()
    assert inside.y0 <= legend.y0 and legend.y1 <= inside.y1


# Values of a grid that are no powers of one number, of many lengths, and some that are.
ODD = [0.1, 0.31, 1e-5, 0.0123, 3.3e-4, 12.5, 7e-3, 1234567.0, 100.0, 2.2e-7,
       33333.0, 0.2, 0.3, 0.4, 1e-4, 0.6, 7e5, 80.0, 31.6, 5.5]  # fmt: skip
VALUES = {
    "odd": lambda count: sorted(ODD[:count]),
    "logspace": lambda count: list(np.logspace(-5, 2, count)),
    "powers": lambda count: list(2.0 ** np.arange(-count, 0)),
}


def heat_map(kind, count):
    values, scores = VALUES[kind](count), np.random.default_rng(0).random((count, count))
    return GridDisplay(
        scores=scores, names=("svc__gamma", "svc__C"), values=[values] * 2, score_name="mean score"
    )


def shown_labels(axis):
    """Labels of ticks within view; a colour bar has some beyond its ends, which nobody sees."""
    low, high = sorted(axis.get_view_interval())
    at = np.asarray(axis.get_ticklocs())
    shown = (at >= low - 1e-9) & (at <= high + 1e-9)
    return [label for label, seen in zip(axis.get_ticklabels(), shown) if seen and label.get_text()]


def overlap(one, other):
    return min(one.x1, other.x1) > max(one.x0, other.x0) and (
        min(one.y1, other.y1) > max(one.y0, other.y0)
    )


def assert_labels_have_room(figure, displays):
    figure.canvas.draw()
    drawn = [display.ax_ for display in displays]
    drawn += [display.image_.colorbar.ax for display in displays]
    for axis in (axis for ax in drawn for axis in (ax.xaxis, ax.yaxis)):
        drawn_at = [label.get_window_extent() for label in shown_labels(axis)]
        assert not any(overlap(*two) for two in combinations(drawn_at, 2))
    labels = [text for ax in drawn for axis in (ax.xaxis, ax.yaxis) for text in shown_labels(axis)]
    labels += [ax.xaxis.label for ax in drawn] + [ax.yaxis.label for ax in drawn]
    extents = [label.get_window_extent() for label in labels if label.get_text()]
    assert all(box.x0 >= 0 and box.x1 <= figure.bbox.x1 for box in extents)
    assert all(box.y0 >= 0 and box.y1 <= figure.bbox.y1 for box in extents)
    assert not any(overlap(*two) for two in combinations(extents, 2))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("count", [3, 8, 20])
@pytest.mark.parametrize("size", [(3.0, 2.25), (3.0, 3.0), (6.4, 4.8), None])
def test_labels_of_a_heat_map_have_room(kind, count, size):
    ax = None if size is None else plt.subplots(figsize=size)[1]
    display = heat_map(kind, count).plot(ax)
    assert_labels_have_room(display.figure_, [display])
    enough = min(count, 4)
    assert all(len(shown_labels(a)) >= enough for a in (display.ax_.xaxis, display.ax_.yaxis))
    if size is None:
        assert len(shown_labels(display.ax_.xaxis)) == count


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("count", [3, 8, 20])
@pytest.mark.parametrize("layout", [None, "constrained", "tight", "nested", "subfigures"])
def test_labels_of_four_heat_maps_have_room(kind, count, layout):
    if layout == "nested":
        figure = plt.figure(figsize=(6, 5))
        halves = figure.add_gridspec(1, 2)
        axes = [
            figure.add_subplot(half.subgridspec(2, 1)[row]) for half in halves for row in (0, 1)
        ]
    elif layout == "subfigures":
        figure = plt.figure(figsize=(6, 5))
        axes = [part.subplots() for part in figure.subfigures(2, 2).flat]
    else:
        figure, axes = plt.subplots(2, 2, figsize=(6, 5), layout=layout)
        axes = list(axes.flat)
    displays = [heat_map(kind, count).plot(ax) for ax in axes]
    assert_labels_have_room(figure, displays)
    areas = [display.ax_.get_window_extent() for display in displays]
    assert min(area.width for area in areas) > 120 and min(area.height for area in areas) > 100


def test_labels_of_a_heat_map_follow_the_size_of_the_figure():
    figure, ax = plt.subplots(figsize=(6.4, 4.8), layout="constrained")
    display = heat_map("powers", 20).plot(ax)
    figure.canvas.draw()
    before = len(shown_labels(ax.xaxis))
    figure.set_size_inches(3.0, 3.0)
    assert_labels_have_room(figure, [display])
    assert 3 < len(shown_labels(ax.xaxis)) < before


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("later", ["tight_layout", "tight", "constrained"])
def test_a_later_layout_may_move_heat_maps(kind, later):
    figure, axes = plt.subplots(2, 2, figsize=(6, 5))
    displays = [heat_map(kind, 8).plot(ax) for ax in axes.flat]
    figure.tight_layout() if later == "tight_layout" else figure.set_layout_engine(later)
    assert_labels_have_room(figure, displays)


def test_axes_placed_by_hand_stay_there():
    figure = plt.figure(figsize=(6, 5))
    ax = figure.add_axes((0.5, 0.3, 0.4, 0.4))
    display = heat_map("odd", 8).plot(ax)
    assert_labels_have_room(figure, [display])
    assert ax.get_position().bounds[:2] == (0.5, 0.3)


@pytest.mark.parametrize(
    "values, labels",
    [
        ([0.1, 0.31, 1e-5], ["0.1", "0.31", "1e-5"]),
        ([0.125, 12.5, 31.62277], ["0.125", "12.5", "32"]),
        ([0.0123, 3.3e-4, 123.4, 1234567.0], ["0.012", "3.3e-4", "123.4", "1.2e6"]),
        ([0.12341, 0.12342, 1.0], ["0.12341", "0.12342", "1"]),
        ([0, -1e-7, np.inf], ["0", "-1e-7", "inf"]),
        ([0.001, 1000, "scale"], ["$10^{-3}$", "$10^{3}$", "scale"]),
        ([0.25, 2**10], ["$2^{-2}$", "$2^{10}$"]),
        ([1, 2, 4], ["1", "2", "4"]),
    ],
)
def test_labels_are_short(values, labels):
    assert _labels(values) == labels


def test_ticks_of_a_scaling_plot_are_the_numbers_of_samples():
    display = ScalingDisplay(n_samples=[500, 700, 900], seconds={"a": [1.0, 1.5, 2.1]}).plot()
    display.figure_.canvas.draw()
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["900", "700", "500"]
    low, high = display.ax_.get_ylim()
    written = [t.get_text() for t in display.ax_.get_yticklabels()]
    inside = [float(text) for text in written if low <= float(text) <= high]
    assert inside == [1.0, 2.0]


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
