"""All binary problems of a fit solved together: promises of the batch, and of fits that use it."""

import itertools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.parallel import session
from maxmargin.solvers.pairs import CONVERGED, HARD, STEP_LIMIT, Batch, solve_batch, worth_it
from maxmargin.solvers.pairs import batch as batch_module

MEMORY = 2**26


def clouds(sizes, n_features=5, seed=0, spread=0.7):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = rng.normal(size=(len(sizes), n_features))[y]
    return X + spread * rng.normal(size=X.shape), y


def pairs_of(y, C=1.0, tol=1e-3, max_iter=-1):
    """The batch of all pairs of classes; y must be sorted."""
    n_classes = int(y.max()) + 1
    first, second = np.triu_indices(n_classes, 1)
    bounds = np.searchsorted(y, np.arange(n_classes + 1))
    costs = np.full(len(y), float(C))
    problems = np.stack([first, first, second], axis=1)
    return Batch(problems, bounds, y, costs, True, tol, max_iter)


def solve(batch, kernel, threads=1, **options):
    with session(threads):
        return solve_batch(batch, kernel, MEMORY, lambda: False, **options)


def check_optimal(found, batch, K, tol):
    """Every problem within tol by the definition, and its figures those of its α."""
    for number, (positive, g, h) in enumerate(batch.problems):
        groups = (g,) if h < 0 else (g, h)
        index = np.concatenate([np.arange(*batch.bounds[i : i + 2]) for i in groups])
        labels = np.where(batch.codes[index] == positive, 1.0, -1.0)
        beta = found.coefficients[batch.places(number, index)]
        alpha, costs, part = beta * labels, batch.costs[index], K[np.ix_(index, index)]
        assert (alpha >= 0).all() and (alpha <= costs).all() and abs(beta.sum()) < 1e-9
        violation = oracle.kkt_violation(part, labels, alpha, costs)
        assert violation <= tol
        assert_allclose(found.kkt_violation[number], violation, atol=1e-9)
        objective = oracle.dual_objective(part, labels, alpha)
        assert_allclose(found.objective[number], objective, rtol=1e-9)
        primal = oracle.primal_objective(part, labels, alpha, costs, found.intercept[number])
        assert_allclose(found.duality_gap[number], primal + objective, atol=1e-8)
        assert found.n_support[number] == np.count_nonzero(beta)
        assert found.n_bounded[number] == np.count_nonzero(alpha == costs)


@pytest.mark.parametrize("mode", ["all values", "rows"])
@pytest.mark.parametrize("n_features", [3, 60], ids=["by feature", "by products"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("sparse", [False, True])
def test_every_problem_is_optimal(monkeypatch, mode, n_features, kernel, sparse):
    """Groups of few and of many samples, rows computed one by one and by products."""
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: mode == "all values")
    X, y = clouds([20, 3, 90, 45], n_features)
    if sparse:
        X = X * (np.random.default_rng(1).random(X.shape) < 0.2)
    function = KernelFunction(kernel, 1 / n_features, 0.2, 2)
    batch = pairs_of(y, C=2.0)
    samples = sp.csr_array(X) if sparse else X
    found = solve(batch, FeatureKernelMatrix(samples, function, np.float64))
    K = oracle.kernel_values(X, X, kernel, 1 / n_features, 0.2, 2)
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, K, 1e-3 + 1e-9)


@pytest.mark.parametrize("most_copied", [0, 512], ids=["in place", "copied"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "sigmoid"])
def test_steps_on_rows_in_place_and_on_copies(monkeypatch, most_copied, kernel):
    """With samples twice, and an indefinite kernel among them: both end at the same optimum."""
    monkeypatch.setattr(batch_module, "_MOST_COPIED", most_copied)
    X, y = clouds([40, 27, 64], n_features=5)
    X[::7] = X[1::7][: len(X[::7])]
    batch = replace(pairs_of(y, C=3.0), tol=1e-6)
    kernel_of = FeatureKernelMatrix(X, KernelFunction(kernel, 0.2, 0.1), np.float64)
    found = solve(batch, kernel_of)
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, oracle.kernel_values(X, X, kernel, 0.2, 0.1), 1e-6 + 1e-12)


def test_few_free_samples_are_one_linear_system():
    X, y = clouds([5, 6, 4, 12], n_features=30)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.1), np.float64)
    found = solve(pairs_of(y, C=1e3), kernel)
    assert (found.n_iter == 1).all() and (found.status == CONVERGED).all()
    check_optimal(found, pairs_of(y, C=1e3), oracle.kernel_values(X, X, gamma=0.1), 1e-11)


@pytest.mark.parametrize("C", [0.05, 0.5, 3.0, 100.0])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "sigmoid"])
@pytest.mark.parametrize("mode", ["all values", "rows"])
def test_few_samples_whichever_are_free(monkeypatch, C, kernel, mode):
    """Systems that move samples beyond their bounds, singular ones, and no system at all."""
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: mode == "all values")
    X, y = clouds([8, 3, 14, 1], n_features=4)
    X[[1, 9]] = X[[2, 12]]
    batch = pairs_of(y, C)
    batch.costs[::3] *= 0.3
    function = KernelFunction(kernel, 0.3, 0.1)
    found = solve(batch, FeatureKernelMatrix(X, function, np.float64))
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, oracle.kernel_values(X, X, kernel, 0.3, 0.1), 1e-3)


@pytest.mark.parametrize("mode", ["all values", "rows"])
def test_one_group_of_all_samples(monkeypatch, mode):
    """One-vs-rest: the same samples in each problem, whose rows they share."""
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: mode == "all values")
    X, y = clouds([30, 40, 25])
    order = np.random.default_rng(2).permutation(len(y))
    X, y = X[order], y[order]
    problems = np.array([[0, 0, -1], [1, 0, -1], [2, 0, -1]])
    costs = np.random.default_rng(3).uniform(0.5, 3.0, len(y))
    batch = Batch(problems, np.array([0, len(y)]), y, costs, False, 1e-4)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    found = solve(batch, kernel)
    assert found.coefficients.shape == (3, len(y))
    check_optimal(found, batch, oracle.kernel_values(X, X, gamma=0.3), 1e-4 + 1e-9)


@pytest.mark.parametrize("mode", ["all values", "rows"])
def test_steps_of_the_samples_that_may_still_move(monkeypatch, mode):
    """Problems whose steps crawl go on without the samples that stay at a bound."""
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: mode == "all values")
    X, y = clouds([100, 80, 90], n_features=10, spread=1.5)
    batch = pairs_of(y, C=2.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("linear"), np.float64)
    found = solve(batch, kernel)
    assert (found.n_iter > 8 * batch.sizes).any() and (found.status == CONVERGED).all()
    check_optimal(found, batch, X @ X.T, 1e-3)


@pytest.mark.parametrize("sizes", [[9, 12], [7, 9, 11], [30, 31]], ids=str)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_few_samples_are_solved_to_the_exact_optimum(sizes, kernel):
    X, y = clouds(sizes)
    batch = replace(pairs_of(y, C=3.0), refine=True)
    function = KernelFunction(kernel, 0.3)
    found = solve(batch, FeatureKernelMatrix(X, function, np.float64))
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, oracle.kernel_values(X, X, kernel, 0.3), 1e-11)


@pytest.mark.parametrize("n_features", [3, 10, 40])
@pytest.mark.parametrize("n", [24, 60])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_newton_steps_lead_to_the_exact_optimum_of_a_linear_kernel(n, n_features, C):
    X, y = clouds([n // 2, n // 2], n_features, seed=n + n_features)
    kernel = FeatureKernelMatrix(X, KernelFunction("linear"), np.float64)
    batch = replace(pairs_of(y, C), refine=True)
    found = solve(batch, kernel)
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, X @ X.T, 1e-11 * max(1.0, C))
    for most in (1, 2, 50, int(found.n_iter[0]) - 1):
        assert solve(replace(batch, max_iter=most), kernel).n_iter[0] <= most


@pytest.mark.parametrize("away", [0.0, 1e9])
def test_very_few_features_take_rows_where_inner_products_suffice(away):
    X, y = clouds([120, 100], n_features=2, spread=0.2)
    batch = replace(pairs_of(y), narrow=True)
    kernel = FeatureKernelMatrix(
        X + away * (y == 1)[:, None], KernelFunction("rbf", 0.3), np.float64
    )
    found = solve(batch, kernel)
    assert (found.status == CONVERGED).all()
    check_optimal(found, batch, kernel.block(np.arange(220), dtype=np.float64), 1e-3)


def test_values_of_the_user():
    X, y = clouds([12, 15, 9])
    K = oracle.kernel_values(X, X, gamma=0.3)
    batch = pairs_of(y)
    check_optimal(solve(batch, PrecomputedKernelMatrix(K)), batch, K, 1e-3)


@pytest.mark.parametrize("n_features", [3, 60])
def test_bits_do_not_depend_on_threads(n_features):
    X, y = clouds([120] * 6, n_features, spread=1.2)
    batch, found = pairs_of(y, C=5.0), []
    for threads in (1, 2, 4, 4):
        kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.2), np.float64)
        found.append(solve(batch, kernel, threads))
    for other in found[1:]:
        assert_array_equal(other.coefficients, found[0].coefficients)
        assert_array_equal(other.counts, found[0].counts)
        assert_array_equal(other.numbers, found[0].numbers)


def test_problems_that_need_too_much_are_left_to_others(monkeypatch):
    """Beyond the budget, or without memory for their rows; with a feasible β to go on from."""
    X, y = clouds([80, 90], spread=2.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    batch = pairs_of(y, C=1e4)
    monkeypatch.setattr(batch_module, "_wants_all_values", lambda *_: False)
    monkeypatch.setattr(batch_module, "STEP_BUDGET", 170 * 20)
    found = solve(batch, kernel)
    assert found.status[0] == HARD and found.n_iter[0] == 20
    assert abs(found.coefficients[0].sum()) < 1e-9 and found.coefficients.any()
    monkeypatch.setattr(batch_module, "STEP_BUDGET", 10**9)
    with session(1):
        found = solve_batch(batch, kernel, 8 * 170 * 30, lambda: False)
    assert found.status[0] == HARD


def test_a_step_limit_and_a_stop():
    X, y = clouds([40, 50, 60])
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    found = solve(pairs_of(y, max_iter=3), kernel)
    assert (found.status == STEP_LIMIT).all() and (found.n_iter == 3).all()
    with session(1):
        found = solve_batch(pairs_of(y), kernel, MEMORY, lambda: True)
    assert found.stopped.all() and not found.coefficients.any()
    assert_array_equal(found.kkt_violation, 2.0)


def test_a_start_is_made_feasible_and_used():
    X, y = clouds([40, 50, 60])
    batch = pairs_of(y)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    cold = solve(batch, kernel)
    again = solve(batch, kernel, coefficients=cold.coefficients.copy())
    assert not again.n_iter.any()
    assert_array_equal(again.coefficients, cold.coefficients)
    wild = solve(batch, kernel, coefficients=3.0 * cold.coefficients + 0.1)
    check_optimal(wild, batch, oracle.kernel_values(X, X, gamma=0.3), 1e-3)


def test_a_start_of_the_wrong_shape_or_kernel_is_refused():
    X, y = clouds([40, 50, 60])
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float64)
    with pytest.raises(ValueError, match=r"shape \(1, 150\).*shape \(2, 150\)"):
        solve(pairs_of(y), kernel, coefficients=np.zeros((1, 150)))
    with pytest.raises(ValueError, match="149 samples, the problems 150"):
        solve(pairs_of(y), kernel.restrict(np.arange(149)))


def test_large_problems_are_not_for_it():
    large, larger = (pairs_of(clouds([n, 50, 60], 1)[1]) for n in (10_000, 40_000))
    assert worth_it(large, 2**40) and not worth_it(replace(large, wide=True), 2**40)
    assert not worth_it(larger, 2**40)
    assert worth_it(pairs_of(clouds([100, 50, 60])[1]), MEMORY)
    assert not worth_it(pairs_of(clouds([100, 50, 60])[1]), 2**12)


# Fits.


@pytest.fixture(scope="module")
def six():
    X, y = clouds([30, 12, 45, 20, 9, 25], spread=1.0)
    order = np.random.default_rng(5).permutation(len(y))
    return X[order], np.array(["a", "b", "c", "d", "e", "f"])[y[order]]


def one_by_one(**options):
    """The same model by the solver that takes one problem after the other."""
    return SVC(solver="decomposition", **options)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid", "precomputed", "callable"])
def test_fits_agree_with_one_problem_after_the_other(six, multi_class, kernel):
    X, y = six
    if kernel == "precomputed":
        X = oracle.kernel_values(X, X, gamma=0.2)
    if kernel == "callable":
        kernel = lambda A, B: oracle.kernel_values(A, B, gamma=0.2)  # noqa: E731
    options = {"kernel": kernel, "gamma": 0.2, "multi_class": multi_class, "tol": 1e-8}
    together, alone = SVC(**options).fit(X, y), one_by_one(**options).fit(X, y)
    assert "pairs" in together.fit_report_.solver and alone.fit_report_.solver == "decomposition"
    assert together.fit_report_.status == "converged"
    if kernel != "sigmoid":  # it is not positive definite, and may have several optima
        assert_allclose(together.decision_function(X), alone.decision_function(X), atol=1e-5)
    for mine, other in zip(together.fit_report_, alone.fit_report_, strict=True):
        assert (mine.problem, mine.n_samples) == (other.problem, other.n_samples)


def test_weights_are_repetitions(six):
    X, y = six
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    weighted = SVC(tol=1e-9, gamma=0.2).fit(X, y, sample_weight=weight)
    times = weight.astype(int)
    repeated = SVC(tol=1e-9, gamma=0.2).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    weighted.decision_function_shape = repeated.decision_function_shape = "ovo"
    assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-6)


def test_sparse_is_dense(six):
    X, y = six
    X = X * (np.random.default_rng(1).random(X.shape) < 0.3)
    dense, sparse = (SVC(tol=1e-9, gamma=0.2).fit(A, y) for A in (X, sp.csr_array(X)))
    values = sparse.decision_function(sp.csr_array(X))
    assert_allclose(dense.decision_function(X), values, atol=1e-6)


def test_warm_start_goes_on(six):
    X, y = six
    model = SVC(warm_start=True, C=2.0).fit(X, y)
    n_iter = model.n_iter_.sum()
    assert not model.fit(X, y).n_iter_.any()
    assert model.set_params(C=2.1).fit(X, y).n_iter_.sum() < n_iter


@pytest.mark.parametrize("limit", [{"time_limit": 1e-9}, {"max_iter": 2}])
def test_limits_leave_a_usable_model(six, limit):
    X, y = six
    with pytest.warns(ConvergenceWarning):
        model = SVC(**limit).fit(X, y)
    assert model.fit_report_.status == next(iter(limit))
    assert model.predict(X).shape == y.shape
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SVC().fit(X, y)


def test_hard_problems_of_a_fit_are_solved_by_the_block_method(six, monkeypatch):
    X, y = six
    monkeypatch.setattr(batch_module, "STEP_BUDGET", 40 * 80)
    model = SVC(C=50.0, gamma=0.3, tol=1e-6).fit(X, y)
    report = model.fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-6
    solvers = {problem.solver for problem in report}
    assert solvers == {"pairs", "decomposition"}
    assert report.solver in ("pairs | decomposition", "decomposition | pairs")
    hard = next(problem for problem in report if problem.solver == "decomposition")
    assert hard.n_iter >= hard.details["pair_steps"] > 0
    assert_allclose(report.n_iter, model.n_iter_.sum())
    alone = one_by_one(C=50.0, gamma=0.3, tol=1e-6).fit(X, y)
    assert_allclose(report.objective, alone.fit_report_.objective, rtol=1e-6)


def test_callbacks_and_verbose_hear_of_one_problem_after_the_other(six, capsys):
    X, y = six
    assert SVC(verbose=1).fit(X, y).fit_report_.solver != "pairs"


def test_many_classes_have_small_reports():
    """1,225 pairs of 6 samples: no object per pair in the model, the report or the pickle."""
    X, y = clouds([3] * 50, 8)
    model = SVC().fit(X, y)
    report = model.fit_report_
    assert len(report) == 1225 == len(report.problems) and report.status == "converged"
    assert len(pickle.dumps(report)) < 100 * 1225
    assert len(pickle.dumps(model)) < 3 * 8 * model.dual_coef_.size + 100 * 1225 + 20_000
    names = [problem.problem for problem in report]
    assert names == [f"{i} vs {j}" for i, j in itertools.combinations(range(50), 2)]
    assert report[-1] == report[1224] and report.problems[2:4] == [report[2], report[3]]
    with pytest.raises(IndexError):
        report[1225]
    assert report.n_iter == sum(problem.n_iter for problem in report)
    assert report.kkt_violation == max(problem.kkt_violation for problem in report)
    assert pickle.loads(pickle.dumps(report)).to_dict() == report.to_dict()
    assert "1213 more" in str(report)


@pytest.mark.parametrize(
    "sizes", [[50], [5000], [90] * 55, [600] * 7, [30, 4000, 40, 50], [1200, 20, 20, 20, 700]]
)
def test_calls_have_about_the_same_work(sizes):
    sizes = np.array(sizes)
    calls, most = batch_module._calls(sizes), batch_module._VALUES_PER_CALL
    assert [number for call in calls for number in range(call.start, call.stop)] == [
        *range(len(sizes))
    ]
    work = [(sizes[call] ** 2).sum() for call in calls]
    assert max(work) <= most + max(sizes) ** 2
    if len(set(sizes)) == 1:
        assert max(work) - min(work) <= max(sizes) ** 2
