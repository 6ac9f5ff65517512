"""Bad input gets one clear sentence, and leaves the estimator as it was."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from maxmargin import SVC
from maxmargin.estimators import inputs as _validation
from maxmargin.solvers import SMO, SOLVERS

X = np.random.default_rng(0).normal(size=(12, 3))
y = np.array([0, 1] * 6)
W = np.ones(12)


def spoilt(value, container=np.asarray):
    bad = X.copy()
    bad[4, 2] = value
    return container(bad)


def cases():
    """name → (parameters, X, y, weights, what the message must say)."""
    one_class_left = np.where(y == 1, 0.0, 1.0)
    three = np.arange(12) % 3
    return {
        "nan": ({}, spoilt(np.nan), y, None, "contains NaN"),
        "inf": ({}, spoilt(np.inf), y, None, "contains infinity"),
        "sparse nan": ({}, spoilt(np.nan, sp.csr_array), y, None, "contains NaN"),
        "nan in y": ({}, X, np.where(y == 1, np.nan, 0.0), None, "y contains NaN"),
        "one class": ({}, X, np.zeros(12), None, "classes has to be greater than one; got 1"),
        "regression target": ({}, X, np.linspace(0, 1, 12), None, "Unknown label type"),
        "lengths": ({}, X, y[:-1], None, "inconsistent numbers of samples"),
        "empty": ({}, X[:0], y[:0], None, "0 sample"),
        "words": ({}, np.full((12, 2), "a"), y, None, "numeric"),
        "C zero": ({"C": 0.0}, X, y, None, "The 'C' parameter"),
        "C negative": ({"C": -1.0}, X, y, None, "The 'C' parameter"),
        "gamma negative": ({"gamma": -1.0}, X, y, None, "The 'gamma' parameter"),
        "gamma unknown": ({"gamma": "large"}, X, y, None, "'scale'"),
        "tol zero": ({"tol": 0.0}, X, y, None, "The 'tol' parameter"),
        "degree negative": ({"kernel": "poly", "degree": -1}, X, y, None, "The 'degree' parameter"),
        "time limit": ({"time_limit": 0}, X, y, None, "The 'time_limit' parameter"),
        "max_iter": ({"max_iter": -2}, X, y, None, "The 'max_iter' parameter"),
        "multi_class": ({"multi_class": "all"}, X, y, None, "'ovo', 'ovr'|'ovr', 'ovo'"),
        "weights all negative": ({}, X, y, -W, "all samples have zero or negative weights"),
        "weights all zero": ({}, X, y, 0 * W, "all samples have zero or negative weights"),
        "weights nan": ({}, X, y, W * np.nan, "sample_weight contains NaN"),
        "weights shape": ({}, X, y, W[:-1], "it must have shape"),
        "weights matrix": ({}, X, y, np.ones((12, 2)), "it must have shape"),
        "a class of two without weight": (
            {}, X, y, one_class_left, "positive weights belong to the same class",
        ),
        "a class of three without weight": (
            {}, X, three, (three != 1).astype(float), "All samples of class .*1.* have zero",
        ),
        "class weight zero": (
            {"class_weight": {0: 0.0, 1: 1.0}}, X, y, None, "belong to the same class",
        ),
        "class weight of no class": (
            {"class_weight": {7: 2.0}}, X, y, None, "not in class_weight|not have a class_weight",
        ),
        "class weight nan": (
            {"class_weight": {0: 1.0, 1: np.nan}}, X, y, None,
            "class_weight must hold finite numbers, but that of class 1 is nan",
        ),
        "class weight infinite": (
            {"class_weight": {0: np.inf}}, X, y, None, "that of class 0 is inf",
        ),
        "class weight text": (
            {"class_weight": {0: "much"}}, X, y, None, "that of class 0 is 'much'",
        ),
        "n_jobs": ({"n_jobs": 0}, X, y, None, "The 'n_jobs' parameter"),
        "not square": ({"kernel": "precomputed"}, X, y, None, "must be a square matrix"),
        "sparse precomputed": (
            {"kernel": "precomputed"}, sp.eye_array(12, format="csr"), y, None,
            "Sparse precomputed kernels are not supported",
        ),
        "precomputed nan": (
            {"kernel": "precomputed"}, np.full((12, 12), np.nan), y, None, "contains NaN",
        ),
        "kernel": ({"kernel": "laplace"}, X, y, None, "'rbf'"),
        "callable kernel": (
            {"kernel": lambda A, B: np.ones(3)}, X, y, None, "kernel function returned an array",
        ),
        "solver": ({"solver": "libsvm"}, X, y, None, "solver must be one of .*'smo'"),
        "solver number": ({"solver": 3}, X, y, None, "solver must be one of .*got 3"),
        "solver list": ({"solver": ["smo"]}, X, y, None, "solver must be one of"),
        "solver class": ({"solver": SMO}, X, y, None, "solver must be one of"),
        "cache": (
            {"cache_size": 1e-4, "solver": "smo"}, X, y, None,
            "cache_size is too small: two kernel rows of 12 samples take",
        ),
        "cache zero": ({"cache_size": 0}, X, y, None, "The 'cache_size' parameter"),
        "exhaustive": (
            {"solver": SMO("exhaustive"), "cache_size": 0.0005}, X, y, None,
            "selection='exhaustive' needs the whole kernel matrix",
        ),
        "too large": ({"kernel": "linear"}, 1e200 * X, y, None, "large values"),
        "too large rbf": ({}, 1e200 * X, y, None, "large values"),
        "too large sparse": ({}, sp.csr_array(1e200 * X), y, None, "large values"),
        "too large poly": (
            {"kernel": "poly", "gamma": 1.0, "degree": 9}, 1e60 * X, y, None, "large values",
        ),
        "too large for float64": (
            {}, np.longdouble("1e3000") * X.astype(np.longdouble), y, None, "contains infinity",
        ),
    }  # fmt: skip


def plain(model):
    """The state of an estimator, comparable with ==."""
    return {name: id(value) for name, value in vars(model).items()}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", cases())
@pytest.mark.parametrize("fitted", [False, True])
def test_bad_fit(case, fitted):
    parameters, bad_X, bad_y, weights, sentence = cases()[case]
    model = SVC()
    if fitted:
        model.fit(X, y)
        decisions = model.decision_function(X)
    model.set_params(**parameters)
    before = plain(model)
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        model.fit(bad_X, bad_y, weights)
    assert plain(model) == before
    assert len(str(caught.value).splitlines()[0]) < 300  # a sentence, not a page
    if fitted:
        model.set_params(kernel="rbf", cache_size="auto", n_jobs=None)
        assert_array_equal(model.decision_function(X), decisions)


def test_message_lists_every_solver():
    with pytest.raises(ValueError) as caught:
        SVC(solver="newton").fit(X, y)
    for name in SOLVERS:
        assert repr(name) in str(caught.value)


def test_message_lists_every_kernel():
    with pytest.raises(ValueError) as caught:
        SVC(kernel="laplace").fit(X, y)
    for name in ("linear", "poly", "rbf", "sigmoid", "precomputed"):
        assert repr(name) in str(caught.value)


def test_some_negative_weights_are_named_and_left_out():
    """scikit-learn takes such samples out; here a warning says so."""
    weights = W.copy()
    weights[[2, 5]] = -1.0
    with pytest.warns(UserWarning, match="2 of 12 sample weights are negative"):
        model = SVC(gamma=0.5).fit(X, y, weights)
    kept = np.setdiff1d(np.arange(12), [2, 5])
    expected = SVC(gamma=0.5).fit(X[kept], y[kept])
    assert_array_equal(model.decision_function(X), expected.decision_function(X))
    assert not set(model.support_) & {2, 5}


# At prediction.


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_bad_predict(method):
    model = SVC().fit(X, y)
    call = getattr(model, method)
    with pytest.raises(ValueError, match="X has 2 features, but SVC is expecting 3 features"):
        call(X[:, :2])
    with pytest.raises(ValueError, match="contains NaN"):
        call(spoilt(np.nan))
    with pytest.raises(ValueError, match="sparse input in 'SVC' trained on dense data"):
        call(sp.csr_array(X))
    with pytest.raises(ValueError, match="not fitted yet"):
        getattr(SVC(), method)(X)


def test_prediction_without_a_thread():
    model = SVC().fit(X, y).set_params(n_jobs=0)
    with pytest.raises(ValueError, match="n_jobs must be at least 1"):
        model.predict(X)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_numbers_that_overflow_warn_nobody(kernel, container):
    """Neither in training nor at prediction, and not on threads of the pool."""
    model = SVC(kernel=kernel).fit(container(X), y)
    model.decision_function(container(1e200 * X))
    many = np.tile(X, (100, 1))
    with pytest.raises(ValueError, match="large values"):
        SVC(kernel=kernel, n_jobs=2).fit(container(1e200 * many), np.tile(y, 100))


def test_precomputed_predict_needs_a_column_for_each_training_sample():
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    with pytest.raises(ValueError, match="11"):
        model.predict((X @ X.T)[:, :11])


def test_pairwise_shape_needs_a_model_of_pairs():
    model = SVC(multi_class="ovr", decision_function_shape="ovo").fit(X, np.arange(12) % 3)
    with pytest.raises(ValueError, match="fit with multi_class='ovo'"):
        model.decision_function(X)
    with pytest.raises(ValueError, match="break_ties must be False"):
        SVC(break_ties=True, decision_function_shape="ovo").fit(X, y).predict(X)


def test_attributes_before_fit():
    for name in ("n_support_", "fit_status_", "support_", "fit_report_"):
        assert not hasattr(SVC(), name)
    with pytest.raises(AttributeError, match="linear kernel"):
        _ = SVC().fit(X, y).coef_


def sums_overflow():
    huge = X.copy()
    huge[:, 0] = 1e308  # finite, and their sum is not
    return huge


@pytest.mark.parametrize(
    "make", [lambda: X, lambda: X.astype(np.float32), lambda: np.asfortranarray(X), sums_overflow]
)
@pytest.mark.parametrize("labels", [y, y.astype(np.uint8), y == 1, y.astype(float)])
def test_checks_that_are_left_out_would_have_passed(make, labels, monkeypatch):
    data = make()
    short = _validation.validate_features(SVC(), data, labels)
    monkeypatch.setattr(_validation, "_is_plain_and_finite", lambda *_: False)
    full = _validation.validate_features(SVC(), data, labels)
    for ours, theirs in zip(short, full, strict=True):
        assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype


def test_an_array_after_a_data_frame_forgets_the_names():
    frame = pd.DataFrame(X, columns=list("abc"))
    model = SVC().fit(frame, y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    assert not hasattr(model.fit(X, y), "feature_names_in_")
    with pytest.raises(ValueError, match="3 features as input"):
        model.predict(X[:, :2])
