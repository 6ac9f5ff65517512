"""The picture of a regression shows what the fitted model says."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, NuSVR
from maxmargin.plotting import RegressionDisplay

matplotlib.use("Agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def wave():
    random = np.random.default_rng(0)
    X = random.uniform(-3, 3, (80, 1))
    return X, np.sinc(X[:, 0]) + 0.1 * random.normal(size=80)


def positions(markers):
    return np.asarray(markers.get_offsets())


@pytest.mark.parametrize("kind", [SVR(C=5, gamma=1.0), NuSVR(C=5, gamma=1.0, nu=0.3)])
@pytest.mark.parametrize("scaled", [False, True])
def test_the_curve_is_the_function_and_the_tube_is_around_it(wave, kind, scaled):
    X, y = wave
    model = (make_pipeline(StandardScaler(), kind) if scaled else kind).fit(X, y)
    display = RegressionDisplay.from_estimator(model, X, y, grid_resolution=50)
    across, values = display.curve_.get_data()
    assert_allclose(values, model.predict(np.reshape(across, (-1, 1))))
    assert across.min() == X.min() and across.max() == X.max()
    epsilon = kind.fit_report_[0].quantities["epsilon"]
    [walls] = display.tube_.get_paths()
    heights = walls.vertices[:, 1]
    assert heights.max() == pytest.approx(values.max() + epsilon)
    assert heights.min() == pytest.approx(values.min() - epsilon)
    assert_array_equal(positions(display.points_), np.column_stack([X[:, 0], y]))
    errors = np.abs(y - model.predict(X))
    free = np.isin(y, positions(display.free_)[:, 1])
    bounded = np.isin(y, positions(display.bounded_)[:, 1])
    assert_allclose(errors[free], epsilon, atol=2e-3)  # tol
    assert (errors[bounded] >= epsilon - 2e-3).all()
    assert (free | bounded).sum() == len(kind.support_)


def test_with_more_features_the_function_is_the_diagonal():
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), SVR(C=50.0, epsilon=30.0)).fit(X, y)
    for data in (X, X.to_numpy()):
        model.fit(data, y)
        display = RegressionDisplay.from_estimator(model, data, y)
        places = positions(display.points_)
        assert_allclose(places, np.column_stack([model.predict(data), y]))
        across, values = display.curve_.get_data()
        assert_array_equal(across, values)
        assert display.ax_.get_xlabel() == "prediction"


def test_names_and_axes_of_a_frame(wave):
    X, y = wave
    frame, named = pd.DataFrame({"length": X[:, 0]}), pd.Series(y, name="weight")
    figure, ax = plt.subplots()
    model = SVR().fit(frame, named)
    display = RegressionDisplay.from_estimator(model, frame, named, ax=ax)
    assert display.figure_ is figure
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "weight")


def test_sparse_data_and_models_without_support_vectors(wave):
    X, y = wave
    model = SVR(epsilon=10.0).fit(sp.csr_array(X), y)
    display = RegressionDisplay.from_estimator(model, sp.csr_array(X), y)
    assert display.free_ is None and display.bounded_ is None
    assert len(display.curve_.get_xdata()) == 400


def test_a_tube_in_other_units_is_not_drawn(wave):
    X, y = wave
    model = TransformedTargetRegressor(SVR(), transformer=StandardScaler()).fit(X, y)
    display = RegressionDisplay.from_estimator(model, X, y)
    assert display.tube_ is None
    again = NuSVR.from_sklearn(NuSVR().fit(X, y).to_sklearn())
    assert RegressionDisplay.from_estimator(again, X, y).tube_ is None  # nobody knows its ε


def test_weights_tell_which_support_vectors_are_at_their_bound(wave):
    X, y = wave
    weights = np.linspace(0.2, 3.0, len(y))
    model = SVR(C=5.0, gamma=1.0).fit(X, y, sample_weight=weights)
    display = RegressionDisplay.from_estimator(model, X, y, sample_weight=weights)
    at_bound = np.abs(model.dual_coef_[0]) > (1 - 1e-9) * 5.0 * weights[model.support_]
    assert len(positions(display.bounded_)) == at_bound.sum() > 0


def test_sentences(wave):
    X, y = wave
    model = SVR().fit(X, y)
    with pytest.raises(TypeError, match="draws SVR and NuSVR, not SVC"):
        RegressionDisplay.from_estimator(SVC().fit(X, y > 0), X, y)
    with pytest.raises(ValueError, match="X has 70 samples and the model was fitted to 80"):
        RegressionDisplay.from_estimator(model, X[:70], y[:70])
    with pytest.raises(ValueError, match=r"a target for each sample, not shape \(70,\)"):
        RegressionDisplay.from_estimator(model, X, y[:70])
