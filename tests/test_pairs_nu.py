"""ν-SVCs of all pairs of classes, solved together: promises of the batch, and of its fits."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import NuSVC
from maxmargin.formulations import nu_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.optimality import certify
from maxmargin.problem import Problem
from maxmargin.solvers.pairs import CONVERGED, HARD, STEP_LIMIT
from maxmargin.solvers.pairs import batch as batch_module
from test_pairs import clouds, pairs_of, solve


def nu_batch(y, nu=0.3, **options):
    return replace(pairs_of(y, **options), nu=nu)


def check_optimal(found, batch, kernel, tol):
    """Every problem within tol by its certificate, and its figures those of the certificate."""
    for number, (positive, g, h) in enumerate(batch.problems):
        index = np.concatenate([np.arange(*batch.bounds[i : i + 2]) for i in (g, h)])
        signs = np.where(batch.codes[index] == positive, 1.0, -1.0)
        fields = nu_svc(signs, batch.costs[index], batch.nu)
        beta = found.coefficients[batch.places(number, index)]
        proof = certify(Problem(kernel.restrict(index), **fields), beta)
        assert proof.kkt_violation <= tol
        assert_allclose(found.kkt_violation[number], proof.kkt_violation, atol=1e-9)
        assert_allclose(found.objective[number], proof.objective, rtol=1e-9, atol=1e-12)
        assert_allclose(found.duality_gap[number], proof.duality_gap, atol=1e-8)
        assert_allclose(found.intercept[number], proof.intercept, atol=1e-9)
        rho = 0.5 * (proof.levels[1] - proof.levels[0])
        assert_allclose(found.rho[number], rho, atol=1e-9)


@pytest.mark.parametrize("mode", ["all values", "rows"])
@pytest.mark.parametrize("n_features", [3, 60], ids=["by feature", "by products"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_every_problem_is_optimal(monkeypatch, mode, n_features, kernel):
    """Groups of few and of many samples with weights; steps that crawl leave samples out."""
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: mode == "all values")
    X, y = clouds([20, 12, 90, 45], n_features)
    values = FeatureKernelMatrix(X, KernelFunction(kernel, 1 / n_features, 0.2, 2), np.float64)
    for nu in (0.05, 0.2):
        batch = nu_batch(y, nu)
        batch.costs[::3] *= 0.8
        found = solve(batch, values)
        assert (found.status == CONVERGED).all()
        check_optimal(found, batch, values, 1e-3)


def test_steps_of_the_samples_that_may_still_move():
    X, y = clouds([100, 80, 90], n_features=10, spread=1.5)
    batch = nu_batch(y, 0.3, tol=1e-6)
    kernel = FeatureKernelMatrix(X, KernelFunction("linear"), np.float64)
    found = solve(batch, kernel)
    assert (found.n_iter > 8 * batch.sizes).any() and (found.status == CONVERGED).all()
    check_optimal(found, batch, kernel, 1e-6)


@pytest.mark.parametrize("sizes", [[9, 12], [7, 9, 11], [30, 31]], ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_few_samples_are_solved_to_the_exact_optimum(sizes, kernel):
    X, y = clouds(sizes)
    batch = replace(nu_batch(y), refine=True)
    values = FeatureKernelMatrix(X, KernelFunction(kernel, 0.3), np.float64)
    found = solve(batch, values)
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, values, 1e-11)


def test_the_largest_nu_is_feasible_and_threads_do_not_change_bits():
    X, y = clouds([60] * 4, spread=1.2)
    batch = nu_batch(y, 1.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.2), np.float64)
    found = solve(batch, kernel)
    assert (np.abs(found.coefficients) == 1.0).all() and not found.kkt_violation.any()
    batch = nu_batch(y, 0.5)
    one, two = (solve(batch, kernel, threads) for threads in (1, 2))
    assert_array_equal(one.coefficients, two.coefficients)
    assert_array_equal(one.numbers, two.numbers)


def test_limits_leave_a_feasible_beta(monkeypatch):
    X, y = clouds([80, 90], spread=2.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    assert solve(nu_batch(y, max_iter=3), kernel).status == [STEP_LIMIT]
    monkeypatch.setattr(batch_module, "STEP_BUDGET", 170 * 5)
    found = solve(nu_batch(y), kernel)
    assert found.status[0] == HARD and found.n_iter[0] == 5
    beta = found.coefficients[0]
    sums = beta[beta > 0].sum(), beta[beta < 0].sum()
    assert_allclose(sums, (0.15 * 170, -0.15 * 170), rtol=1e-12)


# Fits.


@pytest.fixture(scope="module")
def five():
    X, y = clouds([30, 25, 45, 20, 25], spread=1.0)
    order = np.random.default_rng(5).permutation(len(y))
    return X[order], np.array(["a", "b", "c", "d", "e"])[y[order]]


@pytest.mark.parametrize("classes", ["ab", "abcde"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_fits_agree_with_one_problem_after_the_other(five, classes, kernel):
    X, y = five
    X, y = X[np.isin(y, list(classes))], y[np.isin(y, list(classes))]
    if kernel == "precomputed":
        X = oracle.kernel_values(X, X, gamma=0.2)
    options = {"kernel": kernel, "gamma": 0.2, "tol": 1e-8, "nu": 0.5}
    options["decision_function_shape"] = "ovo"
    together = NuSVC(**options).fit(X, y)
    alone = NuSVC(solver="decomposition", **options).fit(X, y)
    assert "pairs" in together.fit_report_.solver and alone.fit_report_.solver == "decomposition"
    assert together.fit_report_.status == "converged"
    assert_allclose(together.decision_function(X), alone.decision_function(X), atol=1e-4)
    for mine, other in zip(together.fit_report_, alone.fit_report_, strict=True):
        assert (mine.problem, mine.n_samples) == (other.problem, other.n_samples)
        assert set(mine.quantities) == {"nu", "rho", "C"}
        for name, value in mine.quantities.items():
            assert_allclose(value, other.quantities[name], rtol=1e-5)


def test_weights_are_repetitions_and_sparse_is_dense(five):
    X, y = five
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    times, options = weight.astype(int), {"tol": 1e-8, "gamma": 0.2, "nu": 0.3}
    options["decision_function_shape"] = "ovo"
    weighted = NuSVC(**options).fit(X, y, sample_weight=weight)
    repeated = NuSVC(**options).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-5)
    sparse = NuSVC(**options).fit(sp.csr_array(X), y, sample_weight=weight)
    values = sparse.decision_function(sp.csr_array(X))
    assert_allclose(weighted.decision_function(X), values, atol=1e-5)


def test_hard_problems_of_a_fit_are_solved_by_the_block_method(five, monkeypatch):
    X, y = five
    options = {"tol": 1e-6, "nu": 0.3, "decision_function_shape": "ovo"}
    monkeypatch.setattr(batch_module, "STEP_BUDGET", 50 * 150)
    model = NuSVC(**options).fit(X, y)
    assert {problem.solver for problem in model.fit_report_} == {"pairs", "decomposition"}
    assert model.fit_report_.status == "converged"
    alone = NuSVC(solver="decomposition", **options).fit(X, y)
    assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-4)


def test_a_margin_that_is_not_there_is_one_sentence_for_each_pair(five):
    X, y = five
    with pytest.warns(UserWarning, match="no margin between two classes") as caught:
        model = NuSVC(kernel="linear", nu=0.02).fit(X, y)
    assert "pairs" in model.fit_report_.solver and np.isfinite(model.decision_function(X)).all()
    without = [p for p in model.fit_report_ if not p.quantities["rho"] > p.kkt_violation]
    assert len(caught) == len(without) > 0


def test_an_infeasible_nu_is_the_sentence_of_its_pair(five):
    X, y = five
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0.7, .* 0.615385 at most"):
        NuSVC(nu=0.7).fit(X, y)


def test_a_limit_of_steps_leaves_a_usable_model(five):
    X, y = five
    with pytest.warns(ConvergenceWarning):
        model = NuSVC(nu=0.3, max_iter=2).fit(X, y)
    assert model.fit_report_.status == "max_iter" and model.predict(X).shape == y.shape
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NuSVC(nu=0.3).fit(X, y)
