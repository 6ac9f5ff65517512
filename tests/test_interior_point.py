"""The interior-point method beside SMO steps, and where fits take it."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_classification
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, OneClassSVM, constants
from maxmargin.optimality import infeasibility_of, violation_and_levels
from maxmargin.solvers.common.interior_point import interior_point
from maxmargin.solvers.pairs import batch


def solved(X, p, lower, upper, epsilon=0.0, total=0.0, tol=1e-4):
    beta = np.full(len(p), np.nan)
    iterations, found = interior_point(X, p, lower, upper, epsilon, total, tol, 100, beta)
    assert found and 0 < iterations < 60
    residual = p - X @ (X.T @ beta)
    violation = violation_and_levels(beta, residual, lower, upper, epsilon)[0]
    assert violation <= tol * (1 + 1e-6)
    assert infeasibility_of(beta, lower, upper, (total,)) <= 1e-12
    return beta


def dual_objective(X, p, beta, epsilon=0.0):
    return 0.5 * np.sum((X.T @ beta) ** 2) - p @ beta + epsilon * np.abs(beta).sum()


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0, 1e4])
@pytest.mark.parametrize(("n", "n_features"), [(2, 1), (30, 1), (80, 5), (300, 40)])
def test_classification(n, n_features, C):
    rng = np.random.default_rng(n)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, n_features)) + 0.3 * y[:, None]
    weights = rng.uniform(0.5, 2.0, n)
    lower, upper = np.where(y > 0, 0.0, -C * weights), np.where(y > 0, C * weights, 0.0)
    solved(X, y, lower, upper)


@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_regression(C, epsilon):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 4))
    p = X @ [1.0, -2.0, 0.0, 0.5] + 0.3 * rng.normal(size=120)
    bound = np.full(120, C)
    beta = solved(X, p, -bound, bound, epsilon, tol=1e-6)
    expected = SVR(kernel="linear", C=C, epsilon=epsilon, tol=1e-6, solver="smo").fit(X, p)
    objective = expected.fit_report_.objective
    assert dual_objective(X, p, beta, epsilon) == pytest.approx(objective, rel=1e-5)


def test_a_sum_other_than_zero():
    X = np.random.default_rng(0).normal(size=(50, 3)) + 2.0
    beta = solved(X, np.zeros(50), np.zeros(50), np.ones(50), total=5.0)
    assert beta.sum() == pytest.approx(5.0)


def test_samples_that_repeat_and_features_that_do_not_vary():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(20, 3)), 4, axis=0)
    X[:, 1] = 0.0
    y = np.where(rng.random(80) < 0.5, 1.0, -1.0)
    solved(X, y, np.where(y > 0, 0.0, -10.0), np.where(y > 0, 10.0, 0.0))


def test_no_solution_leaves_beta_alone():
    X = np.full((4, 1), np.nan)
    y = np.array([1.0, -1.0, 1.0, -1.0])
    beta = np.full(4, 7.0)
    _, found = interior_point(X, y, np.minimum(y, 0), np.maximum(y, 0), 0.0, 0.0, 1e-3, 50, beta)
    assert not found and (beta == 7.0).all()


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e12])
def test_a_tolerance_below_rounding_is_no_error(C):
    """Slacks and multipliers become zero on the way."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), C * np.where(rng.random(60) < 0.5, 1.0, -1.0)
    beta = np.zeros(60)
    lower, upper = np.minimum(y, 0), np.maximum(y, 0)
    _, found = interior_point(X, np.sign(y), lower, upper, 0.0, 0.0, 1e-30, 100, beta)
    assert not found and not beta.any()


def test_a_limit_of_iterations_ends_it():
    X = np.random.default_rng(0).normal(size=(50, 3))
    y = np.where(X[:, 1] > 0.3, 1.0, -1.0)
    beta = np.zeros(50)
    found = interior_point(X, y, np.minimum(y, 0), np.maximum(y, 0), 0.0, 0.0, 1e-3, 2, beta)
    assert found == (2, False)


@pytest.fixture
def at_once(monkeypatch):
    """No SMO steps before it, and a record of the problems that it was called for."""
    called = []
    monkeypatch.setattr(constants, "INTERIOR_POINT_ITERATIONS", 0)
    monkeypatch.setattr(constants, "REFINED_SAMPLES", 0)

    def recorded(problems, number, *others):
        called.append(number)
        solve(problems, number, *others)

    solve = batch.solve_linear
    monkeypatch.setattr(batch, "solve_linear", recorded)
    return called


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("memory", ["all values", "rows on demand"])
def test_fits_of_several_classes(at_once, monkeypatch, memory, multi_class, dtype):
    if memory == "rows on demand":
        monkeypatch.setattr(constants, "DOUBLE_PRECISION_BYTES", 0)
        monkeypatch.setattr(batch, "_FEW_SAMPLES", 0)
    X, y = load_iris(return_X_y=True)
    X = (X - X.mean(axis=0)).astype(dtype)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    settings = {"kernel": "linear", "C": 10.0, "multi_class": multi_class, "tol": 1e-5}
    model = SVC(**settings).fit(X, y, weights)
    expected = SVC(solver="smo", **settings).fit(X, y, weights)
    assert len(at_once) >= 2
    assert {report.solver for report in model.fit_report_} == {"pairs"}
    assert model.fit_report_.status == "converged"
    for ours, theirs in zip(model.fit_report_, expected.fit_report_, strict=True):
        assert ours.objective == pytest.approx(theirs.objective, rel=1e-6)
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-3)


def test_data_far_from_the_origin(at_once):
    X, y = make_classification(300, 6, flip_y=0.1, random_state=0)
    settings = {"kernel": "linear", "tol": 1e-4}
    model = SVC(**settings).fit(X + 1000.0, y)
    expected = SVC(**settings).fit(X, y)
    assert len(at_once) == 2
    assert model.fit_report_.status == "converged"
    assert_allclose(model.decision_function(X + 1000.0), expected.decision_function(X), atol=1e-3)


def test_max_iter_counts_its_iterations(at_once):
    X, y = make_classification(300, 6, flip_y=0.1, random_state=0)
    with pytest.warns(UserWarning, match="max_iter=10"):
        model = SVC(kernel="linear", max_iter=10).fit(X, y)
    assert at_once and model.n_iter_[0] == 10
    assert model.fit_report_.status == "max_iter"


@pytest.mark.parametrize("estimator", [SVR(kernel="linear", C=100.0), OneClassSVM(kernel="linear")])
def test_other_kinds_take_it_from_the_block_method(monkeypatch, estimator):
    monkeypatch.setattr(constants, "INTERIOR_POINT_ITERATIONS", 0)
    rng = np.random.default_rng(0)
    X = StandardScaler().fit_transform(rng.normal(size=(300, 5))) + 1.0
    y = X @ np.arange(5.0) + rng.normal(size=300)
    model = estimator.fit(X, y)
    report = model.fit_report_
    assert report.status == "converged" and 10 < report.n_iter < 100
    expected = type(model)(**model.get_params()).set_params(solver="smo").fit(X, y)
    assert report.objective == pytest.approx(expected.fit_report_.objective, rel=1e-5)


def test_sparse_samples_of_few_features(at_once):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8)) * (rng.random((300, 8)) < 0.2)
    y = (X[:, 0] + 0.3 * rng.normal(size=300) > 0).astype(int)
    dense, sparse = (SVC(kernel="linear", C=10.0).fit(A, y) for A in (X, sp.csr_array(X)))
    assert len(at_once) == 2
    assert_allclose(dense.dual_coef_, sparse.dual_coef_.toarray())
