"""Very many samples with a kernel of low rank: landmarks in place of a factor, and parts first."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, OneClassSVM, constants
from maxmargin.formulations import c_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Monitor
from maxmargin.optimality import violation_of
from maxmargin.problem import Problem
from maxmargin.solvers.common import factors, low_rank_levels
from maxmargin.solvers.common.factors import StoredFactor
from maxmargin.solvers.common.low_rank import landmark_factor
from maxmargin.solvers.common.low_rank_levels import _Levels, solve_levels
from maxmargin.solvers.decomposition import second_order


def two_gaussians(n, seed=0):
    """Overlapping, with a few samples far from all others."""
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(n // 2, 2)), 1.5 * rng.normal(size=(n // 2, 2)) + [2, 0]])
    X[:: n // 8] *= 4.0
    order = rng.permutation(n)
    return X[order], np.repeat([1.0, -1.0], n // 2)[order]


KERNELS = (KernelFunction("rbf", 0.05), KernelFunction("poly", 0.3, 1.0, 3))


@pytest.fixture
def few_are_many(monkeypatch):
    """What is meant for a hundred thousand samples already for some hundred."""
    monkeypatch.setattr(constants, "MANY_SAMPLES", 300)
    monkeypatch.setattr(low_rank_levels, "_LEAST_PART", 50)
    monkeypatch.setattr(second_order, "_LEAST_PATIENCE", 0.0)
    monkeypatch.setattr(constants, "LOW_RANK_PATIENCE", 1e-6)


@pytest.mark.parametrize("function", KERNELS, ids=lambda function: function.name)
def test_landmarks_make_the_kernel_matrix(function):
    X, _ = two_gaussians(600)
    kernel = FeatureKernelMatrix(X, function, np.float32)
    factor = landmark_factor(kernel, 300, 1e-9, 300)
    assert factor is not None and factor.rank < 300
    every = np.arange(600)
    K, V = kernel.block(every, dtype=np.float64), factor.rows(every)
    scale = np.abs(K).max()
    assert_allclose(V @ V.T, K, atol=1e-4 * scale)
    near = np.setdiff1d(every, factor.far)
    for alike in (near, factor.far):
        block = np.ix_(alike, alike)
        assert_allclose((V @ V.T)[block], K[block], atol=2e-8 * scale)
    if function.name == "rbf":
        assert 0 < len(factor.far) < 60


def test_samples_that_are_not_represented_must_be_few():
    X, _ = two_gaussians(600)
    steep = FeatureKernelMatrix(X, KernelFunction("rbf", 50.0), np.float32)
    assert landmark_factor(steep, 300, 1e-9, 300) is None


@pytest.mark.parametrize("index", [None, np.arange(3, 600, 7)], ids=["all", "some"])
def test_products_with_landmarks_are_those_with_their_rows(index):
    X, _ = two_gaussians(600)
    factor = landmark_factor(FeatureKernelMatrix(X, KERNELS[0], np.float32), 300, 1e-9, 300)
    factor = factor if index is None else factor.restrict(index)
    rng, some = np.random.default_rng(0), np.arange(0, factor.n, 3)
    stored = StoredFactor(factor.rows(np.arange(factor.n)))
    x, w = rng.normal(size=factor.n) * (np.arange(factor.n) % 4 > 0), rng.normal(size=factor.rank)
    weights = rng.uniform(size=len(some))
    assert_allclose(factor.sums(x), stored.V.T @ x, atol=1e-8)
    assert_allclose(stored.sums(x), stored.V.T @ x, atol=1e-10)
    for rows in (None, some):
        expected = (stored.V @ w)[slice(None) if rows is None else rows]
        assert_allclose(factor.times(w, rows), expected, atol=1e-8)
        assert_allclose(stored.times(w, rows), expected, atol=1e-10)
    expected = stored.V[some].T @ (weights[:, np.newaxis] * stored.V[some])
    assert_allclose(factor.gram(some, weights), expected, atol=1e-8)
    assert_allclose(stored.gram(some, weights), expected, atol=1e-10)
    again = factor.restrict(some)
    assert_allclose(again.times(w), factor.times(w, some), atol=1e-10)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_parts_lead_to_the_solution(C, monkeypatch):
    monkeypatch.setattr(low_rank_levels, "_LEAST_PART", 50)
    X, y = two_gaussians(1000)
    kernel = FeatureKernelMatrix(X, KERNELS[0], np.float32)
    problem = Problem(kernel, *c_svc(y, np.full(1000, C)))
    V = landmark_factor(kernel, 400, 1e-10, 500)
    found = solve_levels(problem, V, 1e-3, 2**24, np.zeros(1000), y, lambda steps: None)
    assert found is not None
    beta, residual = found
    assert abs(beta.sum()) < 1e-10 * C * 1000
    assert_allclose(residual, y - kernel.block(np.arange(1000), dtype=np.float64) @ beta, atol=1e-7)
    assert violation_of(problem, beta, residual)[0] < 0.1


def problem_with_landmarks(n=1000, C=1.0):
    X, y = two_gaussians(n)
    kernel = FeatureKernelMatrix(X, KERNELS[0], np.float32)
    problem = Problem(kernel, *c_svc(y, np.full(n, C)))
    return problem, landmark_factor(kernel, 400, 1e-10, 500), y


def watch_until(calls):
    """A watcher that ends the work at that call, and the list of steps that it was told of."""
    steps = []

    def watch(taken):
        steps.append(taken)
        return len(steps) >= calls

    return watch, steps


@pytest.mark.parametrize("part_of_all", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_stop_keeps_what_parts_have_found(C, part_of_all, monkeypatch):
    monkeypatch.setattr(low_rank_levels, "_LEAST_PART", 50)
    problem, V, y = problem_with_landmarks(C=C)
    start = np.zeros(1000)
    watch, whole = watch_until(10**9)
    best = solve_levels(problem, V, 1e-3, 2**24, start, y, watch)
    calls = int(part_of_all * len(whole))
    watch, steps = watch_until(calls)
    beta, residual = solve_levels(problem, V, 1e-3, 2**24, start, y, watch)
    assert len(steps) <= calls + 1 and not start.any()
    assert abs(beta.sum()) < 1e-9 * C * 1000
    assert (beta >= problem.lower).all() and (beta <= problem.upper).all()
    exact = y - problem.kernel.block(np.arange(1000), dtype=np.float64) @ beta
    assert_allclose(residual, exact, atol=1e-3)
    assert problem.objective(beta, exact) < 0.2 * part_of_all * problem.objective(*best)


def test_a_stop_before_the_first_step_of_parts_leaves_the_start(monkeypatch):
    monkeypatch.setattr(low_rank_levels, "_LEAST_PART", 50)
    problem, V, y = problem_with_landmarks()
    watch, steps = watch_until(1)
    assert solve_levels(problem, V, 1e-3, 2**24, np.zeros(1000), y, watch) is None
    assert steps == [0]


def test_a_stop_leaves_the_start_where_no_time_is_left_for_another_certificate(monkeypatch):
    monkeypatch.setattr(low_rank_levels, "_LEAST_PART", 50)
    problem, V, y = problem_with_landmarks()
    watch, _ = watch_until(30)
    asked = []

    def affords(beta):
        asked.append(np.count_nonzero(beta))
        return False

    assert solve_levels(problem, V, 1e-3, 2**24, np.zeros(1000), y, watch, affords) is None
    assert asked and min(asked) > 50


@pytest.mark.parametrize("stored", [True, False])
def test_products_of_a_factor_ask_between_their_blocks_whether_to_go_on(stored, monkeypatch):
    _, V, _ = problem_with_landmarks()
    V = StoredFactor(V.rows(np.arange(1000))) if stored else V
    monkeypatch.setattr(factors, "ROWS_AT_ONCE", 100)
    monkeypatch.setattr(factors, "_VALUES_AT_ONCE", 1)
    every, asked = np.arange(1000), []
    patient = V.pausing(lambda: asked.append(1))
    weights = np.linspace(0.0, 1.0, 1000)
    assert_allclose(patient.gram(every, weights), V.gram(every, weights), rtol=1e-12)
    assert len(asked) >= 10
    if not stored:
        for work in (lambda: patient.times(np.ones(V.rank)), lambda: patient.sums(weights)):
            asked.clear()
            work()
            assert len(asked) == 10

    def stop():
        raise factors.Stopped

    with pytest.raises(factors.Stopped):
        V.pausing(stop).gram(every, weights)


def test_rows_of_a_high_rank_are_fewer_at_once():
    assert factors.rows_at_once(100) == factors.ROWS_AT_ONCE
    assert factors.rows_at_once(2000) * 2000**2 < 1.1e9


@pytest.mark.parametrize("limit", ["interrupt", "callback"])
def test_a_fit_that_is_stopped_during_parts_keeps_them(limit, few_are_many, monkeypatch):
    """Ctrl-C, and a callback that wants to stop, arrive between two blocks of a level."""
    X, y = two_gaussians(2000)
    stops, solve = [], _Levels.solve

    def solve_first(self, part, watch):
        found = solve(self, part, watch)
        stops.append(True)
        return found

    monkeypatch.setattr(_Levels, "solve", solve_first)
    observe = Monitor.observe

    def observed(self, n_iter, state):
        if stops and limit == "interrupt":
            self.interrupt.requested = True
        if stops and limit == "callback":
            self.on_progress = lambda line, beta, intercept: True
            return self.update(n_iter, *state())
        return observe(self, n_iter, state)

    monkeypatch.setattr(Monitor, "observe", observed)
    with pytest.warns(ConvergenceWarning):
        report = SVC(gamma=0.1).fit(X, y).fit_report_
    assert report.status == "interrupted" and stops == [True]
    assert "levels" in report[0].details["second_order"]
    monkeypatch.undo()
    best = SVC(gamma=0.1).fit(X, y).fit_report_.objective
    assert report.objective < 0.7 * best


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_fit_by_parts_ends_at_the_same_optimum(kernel, C, few_are_many, monkeypatch):
    X, y = two_gaussians(2000)
    options = {"kernel": kernel, "C": C, "gamma": 0.1, "coef0": 1.0}
    model = SVC(**options).fit(X, y)
    report = model.fit_report_
    assert "levels" in report[0].details["second_order"]
    assert report.status == "converged" and report.kkt_violation <= 1e-3
    again = SVC(**options).fit(X, y)
    assert_array_equal(again.dual_coef_, model.dual_coef_)
    monkeypatch.setattr(constants, "MANY_SAMPLES", 10**9)
    plain = SVC(**options).fit(X, y)
    assert report.objective == pytest.approx(plain.fit_report_.objective, rel=1e-4)


@pytest.mark.parametrize("model", [SVR(C=10.0, epsilon=0.2), OneClassSVM(nu=0.3)], ids=type)
def test_others_of_the_family_by_parts(model, few_are_many):
    X, _ = two_gaussians(2000)
    target = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=2000)
    report = model.set_params(gamma=0.1).fit(X, target).fit_report_
    assert report.status == "converged"


def test_a_fit_by_parts_obeys_max_iter(few_are_many):
    X, y = two_gaussians(2000)
    needed = SVC(gamma=0.1).fit(X, y).n_iter_[0]
    with pytest.warns(ConvergenceWarning):
        model = SVC(gamma=0.1, max_iter=needed - 20).fit(X, y)
    assert model.fit_report_.status == "max_iter" and model.n_iter_[0] < needed
