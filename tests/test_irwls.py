"""IRWLS: its engine against plain quadratic programming, its chunks, its factor of low rank."""

import numpy as np
import pytest
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC, SVR, OneClassSVM
from maxmargin.formulations import epsilon_svr, nu_svr
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.optimality import certify, violation_and_levels, violation_of
from maxmargin.problem import Problem
from maxmargin.solvers import IRWLS
from maxmargin.solvers.common.factors import StoredFactor
from maxmargin.solvers.common.low_rank import sampled_factor
from maxmargin.solvers.common.reweighted import (
    DenseSystem,
    LowRankSystem,
    _Gram,
    _InnerProducts,
    solve_stages,
)
from maxmargin.solvers.common.reweighted_block import solve_block
from maxmargin.solvers.common.reweighted_steps import (
    balance,
    cholesky,
    dense_stage,
    exact_step,
    solve_chunk,
)
from maxmargin.solvers.irwls.chunks import LARGEST, RANDOM, SMALLEST, select_chunk
from maxmargin.solvers.irwls.solver import SELECTIONS


def two_gaussians(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(n // 2, 2)), 2 * rng.normal(size=(n - n // 2, 2)) + [2, 0]])
    y = np.repeat([-1.0, 1.0], [n // 2, n - n // 2])
    order = rng.permutation(n)
    return X[order], y[order]


def matrix(X, gamma=0.5):
    squares = (X**2).sum(axis=1)
    return np.exp(-gamma * np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0.0))


def bounds(y, C):
    return np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)


def whole_chunk(K, y, C, last_smoothing=1e-4, steps=100):
    lower, upper = bounds(y, C)
    zero = np.zeros(len(y))
    return solve_chunk(
        K, y.copy(), zero, lower, upper, 0.0, upper - lower, 0.0, 0.0, 1.0, last_smoothing, steps
    )


# The engine.


@pytest.mark.parametrize("C", [1e-2, 1.0, 1e2, 1e4, 1e6])
def test_engine_ends_at_the_optimum_whatever_C(C):
    X, y = two_gaussians(200)
    K = matrix(X)
    beta, _, steps, decrease = whole_chunk(K, y, C)
    assert steps < 400
    assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()
    assert (y * beta >= 0).all() and (y * beta <= C).all()
    assert oracle.kkt_violation(K, y, y * beta, np.full(200, C)) <= 1e-3
    assert_allclose(-decrease, oracle.dual_objective(K, y, y * beta), rtol=1e-8)


def test_engine_agrees_with_plain_smo():
    X, y = two_gaussians(80)
    K = matrix(X)
    best = oracle.solve_dual(K, y, np.full(80, 10.0))
    beta, *_ = whole_chunk(K, y, 10.0, last_smoothing=1e-9)
    assert_allclose(y * beta, best, atol=1e-5)


def test_engine_with_repeated_samples():
    X, y = two_gaussians(60)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    K = matrix(X)
    beta, *_ = whole_chunk(K, y, 1e4)
    assert oracle.kkt_violation(K, y, y * beta, np.full(180, 1e4)) <= 1e-3


def test_chunk_counts_the_samples_outside_it():
    """G_in and G_b,in: the others stay where they are, and the chunk becomes optimal to them."""
    X, y = two_gaussians(120)
    K, C = matrix(X), 5.0
    lower, upper = bounds(y, C)
    beta, *_ = whole_chunk(K, y, C, last_smoothing=0.3)
    working = np.arange(0, 120, 2)
    residual = y - K @ beta
    block = np.ix_(working, working)
    new, _, _, decrease = solve_chunk(
        K[block], residual[working], beta[working], lower[working], upper[working], 0.0,
        (upper - lower)[working], 0.0, 0.0, 0.1, 1e-6, 100,
    )  # fmt: skip
    after = beta.copy()
    after[working] = new
    assert_allclose(after.sum(), beta.sum(), atol=1e-12)
    slope = (y - K @ after)[working]
    assert slope[new < upper[working]].max() - slope[new > lower[working]].min() <= 1e-5
    fall = oracle.dual_objective(K, y, y * beta) - oracle.dual_objective(K, y, y * after)
    assert decrease > 0
    assert_allclose(fall, decrease, rtol=1e-6)


def test_stage_lowers_its_objective_with_every_step():
    """The dual function of a stage, one step at a time; Table 1 as printed does not do that."""
    X, y = two_gaussians(150)
    K, C, smoothing = matrix(X), 1e4, 0.1
    lower, upper = bounds(y, C)
    weights = np.full(150, smoothing / C)
    gamma, f, b, centre = np.zeros(150), np.zeros(150), 0.0, np.zeros(150)

    def objective():
        beta = np.clip(centre + (y - f - b) / weights, lower, upper)
        inner = (f - y + b) * beta + 0.5 * weights * (beta - centre) ** 2
        return 0.5 * gamma @ f - inner.sum()

    values, settled = [objective()], False
    while not settled:
        b, _, settled, definite = dense_stage(
            K, y, lower, upper, 0.0, 0.0, weights, centre, gamma, f, b, 1, 0.0
        )
        assert definite
        values.append(objective())
        assert len(values) < 200
    assert (np.diff(values) <= 1e-9 * abs(values[0])).all() and len(values) > 3
    beta = np.clip(centre + (y - f - b) / weights, lower, upper)
    assert_allclose(K @ beta, f, atol=1e-5)  # the stage's own optimum


def test_exact_step_is_the_minimum_on_the_line():
    rng = np.random.default_rng(0)
    lower, upper = np.zeros(40), rng.uniform(0.5, 2, 40)
    u, c = rng.normal(size=40), rng.normal(size=40)
    slope, curvature = c @ np.clip(u, lower, upper) - 3.0, 0.7
    t = exact_step(u, -c, c, lower, upper, slope, curvature, np.zeros(40), np.zeros(40), 0.0)
    derivative = slope + t * curvature - c @ np.clip(u - t * c, lower, upper)
    assert t > 0 and abs(derivative) <= 1e-5
    assert (
        exact_step(u, -c, c, lower, upper, slope + 4.0, curvature, np.zeros(40), np.zeros(40), 0.0)
        == 0.0
    )


@pytest.mark.parametrize("m", [1, 2, 47, 48, 49, 150])
def test_cholesky(m):
    rng = np.random.default_rng(m)
    A = rng.normal(size=(m, m + 5))
    A = A @ A.T
    L = np.full((m + 3, m + 3), np.nan)
    L[:m, :m] = A
    assert cholesky(L, m)
    assert_allclose(np.tril(L[:m, :m]), np.linalg.cholesky(A), rtol=1e-8, atol=1e-8)
    A[m - 1, m - 1] -= 1e6
    L[:m, :m] = A
    assert not cholesky(L, m)


def test_balance_keeps_bounds_and_restores_the_sum():
    lower, upper = np.zeros(4), np.ones(4)
    beta = np.array([0.0, 0.3, 0.9, 1.0])
    balance(beta, lower, upper, 2.0, False)
    assert_allclose(beta.sum(), 2.0)
    assert_array_equal(beta[[0, 3]], [0.0, 1.0])
    balance(beta, lower, upper, 2.3, False)
    assert_allclose(beta.sum(), 2.3)
    assert (beta <= upper).all()


def test_indefinite_kernel_is_left_to_pair_steps():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 5)), rng.integers(0, 2, 80)
    K = np.tanh(0.5 * X @ X.T - 1.0)
    assert np.linalg.eigvalsh(K)[0] < -1.0
    model = SVC(kernel="precomputed", solver="irwls").fit(K, y)
    assert model.fit_report_.kkt_violation <= 1e-3
    assert model.fit_report_[0].details["pair_steps"] > 0


def test_a_hard_margin_has_no_upper_bound():
    X, y = two_gaussians(60)
    X[y > 0] += 10
    hard = SVC(C=np.inf, gamma=0.1, solver="irwls").fit(X, y)
    assert hard.fit_report_.kkt_violation <= 1e-3
    assert hard.score(X, y) == 1.0


# Low rank.


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_low_rank_means_dense(C, weighted):
    X, y = two_gaussians(150)
    V = X @ np.random.default_rng(0).normal(size=(2, 5)) + np.sin(X[:, :1] * np.arange(1, 6))
    K = V @ V.T
    lower, upper = bounds(y, C)
    if weighted:
        scale = np.random.default_rng(1).uniform(0.1, 3, 150)
        lower, upper = scale * lower, scale * upper
    zero = np.zeros(150)
    answers = [
        solve_stages(
            system(M, y, lower, upper, zero), upper - lower, 0.0, zero, 0.0, (1.0, 1e-5),
            lambda steps, beta: None,
        )
        for system, M in ((DenseSystem, K), (LowRankSystem, V))
    ]  # fmt: skip
    for beta in answers:
        assert abs(beta.sum()) <= 1e-6 * np.abs(beta).sum()
    assert_allclose(V.T @ answers[0], V.T @ answers[1], atol=2e-3)


def test_stages_stop_when_asked():
    X, y = two_gaussians(150)
    lower, upper = bounds(y, 1e4)
    seen = []

    def watch(steps, beta):
        seen.append(steps)
        return len(seen) >= 3

    system = LowRankSystem(
        np.linalg.cholesky(matrix(X) + 1e-9 * np.eye(150)), y, lower, upper, 0 * y
    )
    beta = solve_stages(system, upper - lower, 0.0, 0 * y, 0.0, (1.0, 1e-5), watch)
    assert sum(seen) == 3
    assert (beta >= lower).all() and (beta <= upper).all()


def test_a_truncated_factor_has_as_many_columns_as_it_may():
    X, _ = two_gaussians(300)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float64)
    K = matrix(X)
    whole = sampled_factor(kernel, 300, 1e-10, 300)
    assert_array_equal(sampled_factor(kernel, 300, 1e-10, 300, truncate=True), whole)
    lacks = []
    for rank in (20, 40, 80):
        V = sampled_factor(kernel, rank, 1e-10, 300, truncate=True)
        assert V.shape == (300, rank)
        rest = K - V @ V.T
        assert np.linalg.eigvalsh(rest).min() > -1e-8  # what it lacks is positive semidefinite
        lacks.append(rest.diagonal().max())
    assert lacks[0] > lacks[1] > lacks[2]


def test_sum_of_products_is_kept_up_to_date():
    rng = np.random.default_rng(0)
    V, weights = rng.normal(size=(50, 4)), rng.uniform(1, 2, 50)
    gram = _Gram(StoredFactor(V))
    inside = np.arange(30)
    for change in (0, 1, 2, 3, 20):
        inside = np.arange(change, 30 + change)
        scale = 10.0**change
        expected = V[inside].T @ (V[inside] * scale * weights[inside, np.newaxis])
        assert_allclose(gram.of(inside, scale * weights), expected)
    other = rng.uniform(1, 2, 50)
    expected = V[inside].T @ (V[inside] * other[inside, np.newaxis])
    assert_allclose(gram.of(inside, other), expected)


def test_inner_products_are_kept_from_set_to_set():
    V = np.random.default_rng(0).normal(size=(50, 4))
    kept = _InnerProducts()
    sets = [np.arange(20), np.arange(5, 25), np.array([0, 7, 9, 49]), np.arange(0), np.arange(30)]
    for inside in sets:
        values = kept.of(inside, V[inside])
        assert_allclose(values, V[inside] @ V[inside].T)
        values[:] = np.nan  # its own array: a factorisation overwrites it


def test_sampled_factor_is_exact_or_none():
    X, _ = two_gaussians(700)
    for kernel in (
        FeatureKernelMatrix(X, KernelFunction("rbf", 0.3), np.float32),
        PrecomputedKernelMatrix(matrix(X, 0.3)),
    ):
        V = sampled_factor(kernel, 500, 1e-10, 300)
        assert_allclose(V @ V.T, matrix(X, 0.3), atol=1e-8)
    assert sampled_factor(kernel, 20, 1e-10, 300) is None
    steep = FeatureKernelMatrix(X, KernelFunction("rbf", 100.0), np.float64)
    assert sampled_factor(steep, 500, 1e-10, 300) is None


@pytest.mark.parametrize("C", [1.0, 1e4, 1e6])
def test_all_samples_at_once_by_low_rank(C):
    X, y = two_gaussians(1200)
    model = SVC(C=C, gamma=0.1, solver="irwls").fit(X, y)
    details = model.fit_report_[0].details
    assert details["rank"] < 240 and details["chunk_size"] == 1200
    alpha = oracle.alphas(model, 1200)
    assert oracle.kkt_violation(matrix(X, 0.1), y, alpha, np.full(1200, C)) <= 1e-3
    warm = SVC(C=C, gamma=0.1, solver="irwls", warm_start=True).fit(X, y)
    assert warm.fit(X, y).fit_report_.n_iter == 0


def test_a_limit_in_the_middle_leaves_a_feasible_model_that_is_no_worse_than_zero():
    X, y = two_gaussians(1200)
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=1e4, gamma=0.1, solver="irwls", max_iter=6).fit(X, y)
    assert model.fit_report_.status == "max_iter"
    alpha = oracle.alphas(model, 1200)
    assert (alpha <= 1e4).all() and abs(y @ alpha) <= 1e-6 * max(1.0, alpha.sum())
    assert model.fit_report_.objective <= 0.0
    assert len(model.fit_report_[0].history) >= 1


# Chunks.


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("chunk_size", [2, 20, 300, "all"])
def test_every_chunk_size_and_selection_ends_at_the_optimum(chunk_size, selection):
    X, y = two_gaussians(400)
    model = SVC(C=10.0, gamma=0.5, tol=1e-4, solver=IRWLS(chunk_size, selection), random_state=0)
    model.fit(X, y)
    theirs = sklearn.svm.SVC(C=10.0, gamma=0.5, tol=1e-6).fit(X, y)
    assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=5e-3)
    assert model.fit_report_.kkt_violation <= 1e-4
    chunks = model.fit_report_[0].details["chunks"]
    assert chunks == 1 if chunk_size == "all" else chunks > 1


def test_chunks_grow_with_the_free_samples():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(900, 8)), rng.integers(0, 2, 900)
    model = SVC(C=1e3, gamma=1.0, solver="irwls").fit(X, y)  # all samples are free
    assert model.fit_report_[0].details["chunk_size"] > 512
    assert model.fit_report_.kkt_violation <= 1e-3


def test_another_seed_draws_other_chunks():
    X, y = two_gaussians(300)
    runs = [
        SVC(C=10.0, solver=IRWLS(20), random_state=seed).fit(X, y).fit_report_[0].n_iter
        for seed in (0, 0, 1)
    ]
    assert runs[0] == runs[1] != runs[2]


@pytest.fixture
def state():
    """200 samples half-way: some at each bound, some between, errors of either sign."""
    rng = np.random.default_rng(0)
    positive = rng.random(200) < 0.5
    y = np.where(positive, 1.0, -1.0)
    lower, upper = bounds(y, 1.0)
    alpha = rng.choice([0.0, 0.4, 1.0], 200, p=[0.5, 0.2, 0.3])
    return y * alpha, rng.normal(size=200), lower, upper, positive


def choose(state, size, selection, tolerance=1e-3):
    beta, residual, lower, upper, positive = state
    _, (b,) = violation_and_levels(beta, residual, lower, upper)
    high = np.argmax(np.where(beta < upper, residual, -np.inf))
    low = np.argmin(np.where(beta > lower, residual, np.inf))
    uniforms = np.random.default_rng(1).random(size)
    chosen = select_chunk(
        beta, residual, lower, upper, 0.0, positive, b, tolerance, size, selection, uniforms,
    )  # fmt: skip
    errors = residual - b
    grows, shrinks = beta < upper, beta > lower
    violates = (grows & (errors > tolerance)) | (shrinks & (errors < -tolerance))
    return chosen, errors, violates, grows & shrinks, (high, low)


@pytest.mark.parametrize("selection", [RANDOM, LARGEST, SMALLEST])
def test_one_sample_per_class_and_violated_condition(state, selection):
    chosen, _, violates, free, pair = choose(state, 12, selection)
    beta, *_, positive = state
    assert len(chosen) == len(set(chosen)) == 12
    assert_array_equal(chosen, np.sort(chosen))
    assert set(pair) <= set(chosen)
    assert (violates | free)[chosen].all()
    inner = beta[chosen]
    for of_class in (True, False):
        at = np.where(free[chosen], "between", np.where(inner == 0, "at 0", "at C"))
        kinds = set(at[(positive[chosen] == of_class) & violates[chosen]])
        assert kinds == {"between", "at 0", "at C"}


def test_selection_by_the_size_of_the_error(state):
    largest, errors, *_ = choose(state, 60, LARGEST)
    smallest, *_ = choose(state, 60, SMALLEST)
    drawn, *_ = choose(state, 60, RANDOM)
    means = [np.abs(errors[chosen]).mean() for chosen in (smallest, drawn, largest)]
    assert means[0] < 0.6 * means[1] and means[1] < 0.8 * means[2]


def test_few_candidates_are_completed_by_the_least_errors(state):
    beta, residual, lower, upper, positive = state
    # Nothing violates but a handful: bounded samples get errors that hold them there.
    outward = np.where(beta == lower, -1.0, np.where(beta == upper, 1.0, 0.0))
    residual = np.abs(residual) * outward
    chosen, errors, violates, free, _ = choose(
        (beta, residual, lower, upper, positive), 100, RANDOM
    )
    candidates = np.flatnonzero(violates | free)
    assert len(candidates) < 100 and set(candidates) <= set(chosen)
    others = np.setdiff1d(chosen, candidates)
    left = np.setdiff1d(np.arange(200), chosen)
    assert np.abs(errors[others]).max() <= np.abs(errors[left]).min()


# Bad options.


@pytest.mark.parametrize("chunk_size", [1, 0, 2.5, "some", None])
def test_bad_chunk_size(chunk_size):
    with pytest.raises(ValueError, match="chunk_size must be a whole number from 2, 'auto' or"):
        IRWLS(chunk_size)


def test_bad_selection():
    with pytest.raises(ValueError, match=r"selection must be one of .*'random'.*got 'worst'"):
        IRWLS(selection="worst")


def test_all_samples_at_once_need_memory():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 8)), rng.integers(0, 2, 400)
    with pytest.raises(ValueError, match="chunk_size='all' needs about 7 MB for 400 samples"):
        SVC(solver=IRWLS("all"), cache_size=2).fit(X, y)


# Regression: errors within the tube cost nothing.


@pytest.mark.parametrize("C, epsilon", [(0.1, 0.3), (10.0, 0.05), (1e4, 0.1), (1e4, 0.0)])
def test_engine_ends_at_the_optimum_of_a_regression(C, epsilon):
    X, _ = two_gaussians(150)
    y = np.sin(3 * X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=150)
    K, bound = matrix(X), np.full(150, C)
    beta, _, _, decrease = solve_chunk(
        K, y.copy(), np.zeros(150), -bound, bound, epsilon, 2 * bound, 0.0, 0.0, 1.0, 1e-4, 100
    )
    assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()
    assert (np.abs(beta) <= C).all()
    residual = y - K @ beta
    grow = residual - np.where(beta >= 0, epsilon, -epsilon)
    shrink = residual - np.where(beta > 0, epsilon, -epsilon)
    assert grow[beta < C].max() - shrink[beta > -C].min() <= 1e-3
    objective = 0.5 * beta @ K @ beta - y @ beta + epsilon * np.abs(beta).sum()
    assert_allclose(-decrease, objective, rtol=1e-8)


@pytest.mark.parametrize("C", [1.0, 1e4])
@pytest.mark.parametrize("two_sums", [False, True])
def test_a_block_is_solved_with_one_sum_and_with_two(C, two_sums):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=300)
    K = matrix(X)
    fields = nu_svr(y, np.full(300, C), 0.4) if two_sums else epsilon_svr(y, np.full(300, C), 0.2)
    problem = Problem(PrecomputedKernelMatrix(K), **fields)
    beta = problem.feasible()
    violation, levels = violation_of(problem, beta, y - K @ beta)
    new = solve_block(
        problem, K, np.arange(300), beta, y - K @ beta, levels, violation, (1.0, 1e-4),
        lambda steps, state: None,
    )  # fmt: skip
    certificate = certify(problem, new)
    assert certificate.feasible and certificate.kkt_violation <= 1e-3
    if two_sums:
        assert certificate.levels[0] > certificate.levels[1]


def test_strong_smoothing_may_close_the_tube_for_a_while():
    """Its systems leave the limit on Σ|β| slack; steps that only narrowed the tube took twice."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 2))
    y = np.sin(4 * X[:, 0]) + 0.05 * rng.normal(size=200)
    K = matrix(X, 4.0)
    problem = Problem(PrecomputedKernelMatrix(K), **nu_svr(y, np.full(200, 1e4), 0.4))
    beta = problem.feasible()
    violation, levels = violation_of(problem, beta, y - K @ beta)
    taken = {}
    for first in (1.0, 200.0):
        steps: list[int] = []
        new = solve_block(
            problem, K, np.arange(200), beta, y - K @ beta, levels, violation, (first, 1e-4),
            lambda count, state, steps=steps: steps.append(count),
        )  # fmt: skip
        certificate = certify(problem, new)
        assert certificate.feasible and certificate.kkt_violation <= 1e-3
        assert certificate.levels[0] > certificate.levels[1]
        taken[first] = sum(steps)
    assert taken[200.0] < taken[1.0]


def test_balance_does_not_pass_through_a_kink():
    lower, upper = -np.ones(4), np.ones(4)
    beta = np.array([0.0, 0.4, -0.2, 1.0])
    assert balance(beta, lower, upper, 1.0, True)
    assert_array_equal(beta[[0, 3]], [0.0, 1.0])
    assert 0 < beta[1] < 0.4 and -1 < beta[2] < -0.2


@pytest.mark.parametrize(
    "options",
    [
        {"chunk_size": 20},
        {"chunk_size": 20, "selection": "largest"},
        {"chunk_size": 300},
        {"chunk_size": "all"},
        {},
    ],
    ids=str,
)
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_regression_in_chunks_of_any_size(options, C):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (700, 3))
    y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=700)
    model = SVR(C=C, gamma=1.0, epsilon=0.05, solver=IRWLS(**options)).fit(X, y)
    expected = SVR(C=C, gamma=1.0, epsilon=0.05).fit(X, y)
    assert model.fit_report_.status == "converged"
    assert model.fit_report_.kkt_violation <= 1e-3
    assert_allclose(model.fit_report_.objective, expected.fit_report_.objective, rtol=1e-4)
    assert_allclose(model.predict(X), expected.predict(X), atol=5e-3)


def test_regression_and_one_class_by_a_low_rank():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1500, 2))
    y = np.sin(4 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    model = SVR(C=1e4, gamma=0.5, epsilon=0.05, solver="irwls").fit(X, y)
    assert model.fit_report_.status == "converged"
    assert model.fit_report_.problems[0].details["rank"] < 300
    one = OneClassSVM(gamma=0.5, nu=0.2, solver="irwls").fit(X)
    assert one.fit_report_.status == "converged"
    assert_allclose(
        one.fit_report_.objective, OneClassSVM(gamma=0.5, nu=0.2).fit(X).fit_report_.objective,
        rtol=1e-4,
    )  # fmt: skip
