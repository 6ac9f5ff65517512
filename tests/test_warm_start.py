"""Warm start: going on from the last solution, and right whatever has changed since."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC


def overlapping(n=300, seed=1):
    return make_classification(n, 5, flip_y=0.2, class_sep=0.7, random_state=seed)


def quietly(model, X, y, weights=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y, weights)


@pytest.mark.parametrize("kernel", ["rbf", "precomputed", "callable"])
def test_warm_start_goes_on_after_an_interruption(kernel):
    X, y = overlapping()
    K = oracle.kernel_values(X, X, gamma=0.3)
    options = {
        "rbf": {"gamma": 0.3},
        "precomputed": {"kernel": "precomputed"},
        "callable": {"kernel": lambda A, B: K},
    }[kernel]
    data = K if kernel == "precomputed" else X
    cold = SVC(C=10.0, solver="smo", **options).fit(data, y)
    model = SVC(C=10.0, solver="smo", warm_start=True, max_iter=150, **options)
    objectives = [quietly(model, data, y).fit_report_.objective for _ in range(3)]
    assert objectives[0] > objectives[1] > objectives[2]
    model.set_params(max_iter=-1).fit(data, y)
    assert model.fit_report_.n_iter < cold.fit_report_.n_iter
    assert_allclose(model.decision_function(data), cold.decision_function(data), atol=1e-2)
    assert model.fit_report_.kkt_violation <= 1e-3


@pytest.mark.parametrize(("before", "after"), [(1.0, 1.2), (10.0, 8.0), (0.1, 100.0)])
def test_warm_start_after_a_change_of_C(before, after, three):
    X, y = three
    model = SVC(C=before, warm_start=True).fit(X, y)
    model.set_params(C=after).fit(X, y)
    cold = SVC(C=after).fit(X, y)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-2)
    assert model.fit_report_.kkt_violation <= 1e-3
    if abs(np.log(after / before)) < 0.5:
        assert model.fit_report_.n_iter < cold.fit_report_.n_iter


@pytest.mark.parametrize(("before", "after"), [(np.inf, np.inf), (np.inf, 1.0), (1.0, np.inf)])
def test_warm_start_with_an_infinite_C(before, after):
    X = np.random.default_rng(0).normal(size=(40, 2)) + np.repeat([[0.0], [6.0]], 20, axis=0)
    y = np.repeat([0, 1], 20)
    model = SVC(C=before, gamma=0.1, warm_start=True).fit(X, y).set_params(C=after).fit(X, y)
    cold = SVC(C=after, gamma=0.1).fit(X, y)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-2)


def test_warm_start_with_more_rows():
    X, y = overlapping(330)
    model = SVC(C=5.0, gamma=0.3, solver="smo", warm_start=True).fit(X[:300], y[:300])
    objective = model.fit_report_.objective
    quietly(model.set_params(max_iter=0), X, y)  # the old rows count, the new ones are at zero
    assert_allclose(model.fit_report_.objective, objective, rtol=1e-9)
    model.set_params(max_iter=-1).fit(X, y)
    cold = SVC(C=5.0, gamma=0.3, solver="smo").fit(X, y)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("change", ["fewer", "other", "labels", "classes", "sparse", "weights"])
def test_warm_start_on_other_data_is_right_all_the_same(change):
    X, y = overlapping()
    model = SVC(gamma=0.3, warm_start=True).fit(X, y)
    weights = None
    if change == "fewer":
        X, y = X[:200], y[:200]
    elif change == "other":
        X = X[::-1] + 1.0
    elif change == "labels":
        y = np.where(y == 1, "a", "b")
    elif change == "classes":
        y = np.arange(300) % 4
    elif change == "weights":
        weights = np.where(np.arange(300) % 5 == 0, 0.0, 2.0)
    elif change == "sparse":
        X = sp.csr_array(X)
    model.fit(X, y, weights)
    cold = SVC(gamma=0.3).fit(X, y, weights)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-2)
    assert model.fit_report_.kkt_violation <= 1e-3


def test_warm_start_from_pairs_to_one_against_the_rest(three):
    """Three classes are three problems either way, but not the same ones."""
    X, y = three
    model = SVC(warm_start=True).fit(X, y).set_params(multi_class="ovr").fit(X, y)
    cold = SVC(multi_class="ovr").fit(X, y)
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-2)


def test_without_warm_start_the_past_does_not_matter():
    X, y = overlapping()
    model = SVC(C=3.0).fit(X, y)
    first = model.dual_coef_.copy()
    assert_array_equal(model.fit(X, y).dual_coef_, first)
