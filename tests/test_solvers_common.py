"""The promises that every solver keeps, for each solver that is registered."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC
from maxmargin.formulations import c_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Monitor
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers import SOLVERS, make_solver

ALL = sorted(SOLVERS)
EXACT = [name for name in ALL if make_solver(name).exact]
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.0},
}
every_solver = pytest.mark.parametrize("solver", ALL)
exact_solvers = pytest.mark.parametrize("solver", EXACT)
kernels = pytest.mark.parametrize("kernel", KERNELS)
TIGHT = 1e-6


def matrix_of(X, kernel):
    options = dict(KERNELS[kernel])
    return oracle.kernel_values(X, X, options.pop("kernel"), **options)


def same_function(one, other, X, atol=1e-3):
    assert_allclose(one.decision_function(X), other.decision_function(X), atol=atol)


# Optimal, and the same as scikit-learn.


@exact_solvers
@kernels
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("tol", [1e-3, TIGHT])
def test_optimal_to_tol(solver, kernel, C, tol, binary):
    X, y = binary
    K = matrix_of(X, kernel)
    model = SVC(C=C, tol=tol, solver=solver, random_state=0, **KERNELS[kernel]).fit(X, y)
    costs = np.full(len(y), C)
    oracle.check_optimal(model, K, y, costs, tol)
    assert model.fit_report_.status == "converged"
    if kernel != "sigmoid":  # not convex: there may be more than one optimum
        best = oracle.dual_objective(
            K, oracle.signs(model, y), oracle.solve_dual(K, oracle.signs(model, y), costs, 1e-7)
        )
        assert best - 1e-6 <= model.fit_report_.objective <= best + tol * costs.sum()


@exact_solvers
@kernels
def test_equals_sklearn(solver, kernel, binary):
    X, y = binary
    theirs = sklearn.svm.SVC(C=2.0, tol=1e-8, **KERNELS[kernel]).fit(X, y)
    ours = SVC(C=2.0, tol=TIGHT, solver=solver, random_state=0, **KERNELS[kernel]).fit(X, y)
    same_function(ours, theirs, X)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    # The same function may have other coefficients where the kernel matrix is singular.
    if kernel == "rbf":
        assert_array_equal(ours.support_, theirs.support_)
        assert_array_equal(ours.n_support_, theirs.n_support_)
        assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)


@exact_solvers
@pytest.mark.parametrize("shape", ["ovo", "ovr"])
def test_equals_sklearn_with_three_classes(solver, shape, three):
    X, y = three
    options = {"C": 5.0, "gamma": 0.3, "decision_function_shape": shape}
    theirs = sklearn.svm.SVC(tol=1e-8, **options).fit(X, y)
    ours = SVC(tol=TIGHT, solver=solver, random_state=0, **options).fit(X, y)
    same_function(ours, theirs, X)
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.n_support_, theirs.n_support_)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-3)
    assert len(ours.fit_report_) == 3


@every_solver
def test_report_is_honest_and_gap_bounds_the_distance_to_the_optimum(solver, binary):
    """Approximate solvers too say how far from the optimum of the SVM they are."""
    X, y = binary
    model = SVC(gamma=0.4, solver=solver, random_state=0).fit(X, y)
    report = model.fit_report_
    assert report.exact == (solver in EXACT)
    K, labels, costs = matrix_of(X, "rbf"), oracle.signs(model, y), np.ones(len(y))
    alpha = oracle.alphas(model, len(y))
    assert_allclose(report.objective, oracle.dual_objective(K, labels, alpha), rtol=1e-9)
    if report.exact:
        best = oracle.dual_objective(K, labels, oracle.solve_dual(K, labels, costs))
        assert -1e-9 <= report.objective - best <= report.duality_gap + 1e-9
    assert model.score(X, y) > 0.8


# Weights.


@exact_solvers
@pytest.mark.parametrize("gamma", ["scale", 0.4])
def test_weights_mean_repetition(solver, gamma, binary):
    X, y = binary
    weights = np.random.default_rng(1).integers(1, 4, len(y))
    options = {"C": 0.7, "gamma": gamma, "tol": TIGHT, "solver": solver, "random_state": 0}
    weighted = SVC(**options).fit(X, y, weights)
    repeated = SVC(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    same_function(weighted, repeated, X)


@exact_solvers
def test_fractional_weights_are_costs(solver, binary):
    X, y = binary
    weights = np.random.default_rng(2).uniform(0.05, 3, len(y))
    model = SVC(C=2, gamma=0.4, solver=solver, tol=TIGHT, class_weight={1: 3.0}, random_state=0)
    model.fit(X, y, weights)
    costs = 2 * weights * np.where(y == 1, 3.0, 1.0)
    oracle.check_optimal(model, matrix_of(X, "rbf"), y, costs, TIGHT)
    theirs = sklearn.svm.SVC(C=2, gamma=0.4, tol=1e-8, class_weight={1: 3.0}).fit(X, y, weights)
    same_function(model, theirs, X)


@exact_solvers
@pytest.mark.parametrize("gamma", ["scale", 0.4])
def test_zero_weights_mean_removal(solver, gamma, binary):
    X, y = binary
    kept = np.flatnonzero(np.arange(len(y)) % 3 != 0)
    weights = np.zeros(len(y))
    weights[kept] = 1.0
    options = {"gamma": gamma, "tol": TIGHT, "solver": solver, "random_state": 0}
    weighted = SVC(**options).fit(X, y, weights)
    removed = SVC(**options).fit(X[kept], y[kept])
    same_function(weighted, removed, X)
    assert_array_equal(weighted.support_, kept[removed.support_])
    assert_array_equal(weighted.support_vectors_, X[weighted.support_])


@exact_solvers
def test_zero_weights_mean_removal_with_three_classes(solver, three):
    X, y = three
    weights = (np.arange(len(y)) % 4 != 1).astype(float)
    kept = np.flatnonzero(weights)
    options = {"gamma": 0.3, "tol": TIGHT, "solver": solver, "random_state": 0}
    weighted = SVC(**options).fit(X, y, weights)
    removed = SVC(**options).fit(X[kept], y[kept])
    assert_array_equal(weighted.support_, kept[removed.support_])
    same_function(weighted, removed, X)


# Kinds of data.


@exact_solvers
@kernels
def test_float32_is_near_float64(solver, kernel, binary):
    X, y = binary
    options = {"tol": TIGHT, "solver": solver, "random_state": 0} | KERNELS[kernel]
    double = SVC(**options).fit(X, y)
    single = SVC(**options).fit(X.astype(np.float32), y)
    assert single.support_vectors_.dtype == np.float32
    same_function(single, double, X.astype(np.float32))


@exact_solvers
@pytest.mark.parametrize("C", [1.0, 300.0])
def test_float32_kernel_rows_are_certified_in_float64(solver, C):
    """Large problems hold float32 kernel values; the answer is judged in float64 all the same."""
    X, y = make_classification(150, 3, n_redundant=0, n_informative=3, flip_y=0.2, random_state=0)
    labels = np.where(y == 1, 1.0, -1.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float32)
    problem = Problem(kernel, *c_svc(labels, np.full(150, C)))
    solution = make_solver(solver).solve(problem, Run())
    assert solution.status == "converged"
    K = oracle.kernel_values(X, X, gamma=0.5)
    costs = np.full(150, C)
    assert oracle.kkt_violation(K, labels, labels * solution.beta, costs) <= 1e-3


@pytest.mark.parametrize("dtype", ["f2", "g", ">f8", ">i4", "u1", "?"])
def test_numbers_of_any_type(dtype):
    """One-hot data, which is kept as sparse, and dense data."""
    rng = np.random.default_rng(0)
    categories = (rng.random((90, 30)) < 0.1).astype(dtype)
    numbers = rng.integers(0, 9, (90, 3)).astype(dtype)
    for X in (categories, numbers):
        score = X.astype(float) @ rng.normal(size=X.shape[1])
        y = score > np.median(score)
        here, there = (SVC(C=5.0).fit(Z, y) for Z in (X, X.astype(float)))
        assert_allclose(here.decision_function(X), there.decision_function(X.astype(float)))


@exact_solvers
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_whole_numbers(solver, dtype, container, binary):
    X, y = binary
    X = X > 0 if dtype is bool else np.clip(np.round(30 * X) + 90, 0, 127).astype(dtype)
    options = {"C": 3.0, "tol": TIGHT, "solver": solver, "random_state": 0}
    whole = SVC(**options).fit(container(X), y)
    real = SVC(**options).fit(container(X.astype(np.float64)), y)
    assert_allclose(whole._gamma, real._gamma, rtol=1e-12)
    same_function(whole, real, container(X))


@exact_solvers
@kernels
def test_sparse_means_dense(solver, kernel, sparse):
    X, y = sparse
    options = {"C": 3.0, "tol": TIGHT, "solver": solver, "random_state": 0} | KERNELS[kernel]
    dense = SVC(**options).fit(X.toarray(), y)
    of_sparse = SVC(**options).fit(X, y)
    assert_allclose(of_sparse.decision_function(X), dense.decision_function(X.toarray()), atol=1e-3)
    assert sp.issparse(of_sparse.support_vectors_) and sp.issparse(of_sparse.dual_coef_)
    if kernel == "rbf":
        assert_array_equal(of_sparse.support_, dense.support_)


@exact_solvers
@pytest.mark.parametrize("container", ["csr64", "csc", "coo", "matrix", "unsorted", "duplicates"])
def test_every_sparse_container(solver, container, sparse):
    X, y = sparse
    expected = SVC(solver=solver, gamma=0.5, random_state=0).fit(X, y)
    stored = oracle.sparse_containers(X)[container]
    model = SVC(solver=solver, gamma=0.5, random_state=0).fit(stored, y)
    same_function(model, expected, X, atol=1e-9)
    assert_allclose(model.decision_function(stored), expected.decision_function(X), atol=1e-9)


@exact_solvers
@kernels
def test_precomputed_and_callable_mean_computed(solver, kernel, binary):
    X, y = binary
    options = {"C": 2.0, "tol": TIGHT, "solver": solver, "random_state": 0}
    computed = SVC(**options | KERNELS[kernel]).fit(X, y)
    K = matrix_of(X, kernel)
    precomputed = SVC(kernel="precomputed", **options).fit(K, y)
    assert_allclose(precomputed.decision_function(K), computed.decision_function(X), atol=1e-3)

    def function(A, B):
        parameters = dict(KERNELS[kernel])
        return oracle.kernel_values(A, B, parameters.pop("kernel"), **parameters)

    same_function(SVC(kernel=function, **options).fit(X, y), computed, X)
    # Too little memory for the whole matrix: the function is called on blocks of rows.
    memory = 8 * len(y) * (len(y) // 2) / 2**20
    blocks = SVC(kernel=function, cache_size=memory, **options).fit(X, y)
    same_function(blocks, computed, X)


# Same seed, warm start, memory.


@every_solver
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_same_seed_same_bits(solver, n_jobs):
    X, y = make_classification(400, 6, flip_y=0.2, random_state=0)
    runs = [
        SVC(solver=solver, n_jobs=n_jobs, random_state=7).fit(X, y).dual_coef_ for _ in range(2)
    ]
    assert_array_equal(*runs)


@exact_solvers
def test_warm_start_takes_no_more_iterations(solver):
    X, y = make_classification(300, 5, flip_y=0.2, random_state=1)
    model = SVC(C=5.0, solver=solver, warm_start=True, random_state=0).fit(X, y)
    cold, before = model.fit_report_.n_iter, model.decision_function(X)
    model.fit(X, y)
    assert model.fit_report_.n_iter <= cold
    assert_allclose(model.decision_function(X), before, atol=1e-2)
    assert model.fit_report_.kkt_violation <= 1e-3


@exact_solvers
def test_tiny_cache_still_right(solver, binary):
    X, y = binary
    K, costs = matrix_of(X, "rbf"), np.full(len(y), 10.0)
    memory = 3 * 8 * len(y) / 2**20  # three kernel rows
    model = SVC(C=10.0, gamma=0.4, solver=solver, cache_size=memory, random_state=0).fit(X, y)
    oracle.check_optimal(model, K, y, costs, 1e-3)


@exact_solvers
def test_memory_within_cache_size(solver):
    """The whole matrix would take 32 MB; scratch tiles and vectors get 8 MB beside the cache."""
    X, y = make_classification(2000, 4, flip_y=0.1, random_state=0)
    megabytes = 4
    model = SVC(solver=solver, cache_size=megabytes, n_jobs=1, random_state=0)
    model.fit(X[:-1], y[:-1])  # takes the same path, and compiles it
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= (megabytes + 8) * 2**20


# Bad input, limits, and the life of an estimator.


@every_solver
@pytest.mark.parametrize("trouble", ["nan", "inf", "one class", "C", "weights"])
def test_bad_input_changes_nothing(solver, trouble, binary):
    X, y = binary
    model = SVC(solver=solver, gamma=0.4, random_state=0).fit(X, y)
    before, decisions = dict(vars(model)), model.decision_function(X)
    bad, labels, weights = X.copy(), y, None
    if trouble in ("nan", "inf"):
        bad[3, 1] = float(trouble)
    elif trouble == "one class":
        labels = np.zeros_like(y)
    elif trouble == "weights":
        weights = np.where(y == 1, 0.0, 1.0)
    elif trouble == "C":
        model.C = before["C"] = -1.0
    with pytest.raises(ValueError):
        model.fit(bad, labels, weights)
    assert vars(model) == before
    assert_array_equal(model.decision_function(X), decisions)


@exact_solvers
def test_max_iter_leaves_a_usable_model(solver):
    X, y = make_classification(300, 5, flip_y=0.3, random_state=1)
    model = SVC(C=100.0, solver=solver, max_iter=1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    if model.fit_report_.status == "converged":  # one round was enough for a block method
        assert model.fit_report_.kkt_violation <= 1e-3
        return
    assert any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    assert model.fit_report_.status == "max_iter" and model.fit_status_ == 1
    assert model.predict(X).shape == y.shape
    assert model.fit_report_.kkt_violation > 1e-3


@every_solver
def test_a_time_limit_in_the_past_leaves_a_usable_model(solver):
    X, y = make_classification(300, 5, flip_y=0.3, random_state=1)
    model = SVC(C=1.0, solver=solver, time_limit=1e-9, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.fit_report_.status in ("time_limit", "converged")
    assert np.isfinite(model.decision_function(X)).all()


@every_solver
def test_a_callback_may_stop_it(solver):
    """Where it is asked at all: a solver may end before its first report."""
    X, y = make_classification(400, 5, flip_y=0.3, random_state=1)
    labels = np.where(y == 1, 1.0, -1.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float64)
    problem = Problem(kernel, *c_svc(labels, np.full(400, 1.0)), labels=y)
    asked = []

    def stop(line, beta, intercept):
        if make_solver(solver).capabilities.box:
            assert (beta >= problem.lower).all() and (beta <= problem.upper).all()
        assert beta.shape == (400,) and np.isfinite(intercept)
        asked.append(line)
        return True

    solution = make_solver(solver).solve(problem, Run(monitor=Monitor(on_progress=stop)))
    assert solution.status == ("interrupted" if asked else "converged")
    assert np.isfinite(solution.beta).all()


@every_solver
def test_pickles_and_clones(solver, binary):
    X, y = binary
    model = SVC(solver=solver, gamma=0.4, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.fit_report_.to_dict() == model.fit_report_.to_dict()
    fresh = clone(model)
    assert not hasattr(fresh, "support_") and fresh.solver == solver
    assert_array_equal(fresh.fit(X, y).dual_coef_, model.dual_coef_)


@every_solver
def test_a_solver_object_serves_as_its_name(solver, binary):
    X, y = binary
    named = SVC(solver=solver, gamma=0.4, random_state=0).fit(X, y)
    given = clone(SVC(solver=make_solver(solver), gamma=0.4, random_state=0)).fit(X, y)
    assert_array_equal(given.dual_coef_, named.dual_coef_)
    assert type(make_solver(solver)).__name__ in repr(given.solver)
    assert pickle.loads(pickle.dumps(given)).solver.__class__ is given.solver.__class__
