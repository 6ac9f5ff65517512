"""The certificate: KKT violation, objective and duality gap against the textbook's formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import oracle
from maxmargin.formulations import c_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.optimality import certificate_from, certify, violation_and_levels
from maxmargin.problem import Problem, nearest_feasible
from maxmargin.run import Run
from maxmargin.solvers.common.certified_run import certify_or_estimate
from maxmargin.solvers.common.free_system import equalise, polish


def random_case(seed, n=20, C=2.0):
    """A problem with uneven costs, and a feasible α: some at 0, some at C, some between."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    labels = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    costs = C * rng.uniform(0.2, 2, n)
    kind = rng.integers(0, 3, n)
    alpha = np.where(kind == 0, 0.0, np.where(kind == 1, costs, rng.uniform(0, 1, n) * costs))
    linear, lower, upper = c_svc(labels, costs)
    beta = nearest_feasible(labels * alpha, lower, upper)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float32)
    problem = Problem(kernel, linear, lower, upper)
    return problem, oracle.kernel_values(X, X, gamma=0.5), labels, costs, beta


@pytest.mark.parametrize("chosen", [None, [3, 0, 11]])
def test_residual_of_a_draft_has_the_precision_of_the_rows(chosen):
    problem, K, labels, _, beta = random_case(0)
    support, of = np.flatnonzero(beta), slice(None) if chosen is None else chosen
    product = problem.kernel.multiply(support, beta[support], chosen and np.array(chosen))
    residual = labels[of] - product
    assert_allclose(residual, (labels - K @ beta)[of], atol=1e-5)
    estimate = certify_or_estimate(problem, Run(provisional=True), beta).kkt_violation
    exact = certify(problem, beta).kkt_violation
    assert_allclose(estimate, exact, atol=1e-5)
    assert estimate != exact == certify_or_estimate(problem, Run(), beta).kkt_violation


@given(st.integers(0, 2**20))
def test_certificate_is_what_the_formulas_say(seed):
    problem, K, labels, costs, beta = random_case(seed)
    alpha = labels * beta
    certificate = certify(problem, beta)
    assert_allclose(certificate.residual, labels - K @ beta, atol=1e-12)
    assert_allclose(
        certificate.kkt_violation, oracle.kkt_violation(K, labels, alpha, costs), atol=1e-12
    )
    assert_allclose(certificate.objective, oracle.dual_objective(K, labels, alpha), atol=1e-11)
    primal = oracle.primal_objective(K, labels, alpha, costs, certificate.intercept)
    assert_allclose(certificate.duality_gap, primal + certificate.objective, atol=1e-10)
    assert certificate.beta is beta


@given(st.integers(0, 2**20))
def test_gap_bounds_the_distance_to_the_optimum(seed):
    problem, K, labels, costs, beta = random_case(seed, n=14)
    best = oracle.dual_objective(K, labels, oracle.solve_dual(K, labels, costs))
    certificate = certify(problem, beta)
    true_gap = certificate.objective - best
    assert -1e-9 <= true_gap <= certificate.duality_gap + 1e-9


def test_everything_vanishes_at_the_optimum():
    problem, K, labels, costs, _ = random_case(1)
    alpha = oracle.solve_dual(K, labels, costs)
    certificate = certify(problem, labels * alpha)
    assert certificate.kkt_violation <= 1e-9
    assert -1e-12 <= certificate.duality_gap <= 1e-8
    free = (alpha > 0) & (alpha < costs)
    assert free.any()
    assert_allclose(certificate.residual[free], certificate.intercept, atol=1e-9)


def test_float32_kernel_rows_play_no_part():
    """The certificate of a float32 matrix has float64 digits."""
    problem, K, labels, costs, beta = random_case(5, C=1e4)
    certificate = certify(problem, beta)
    assert_allclose(certificate.residual, labels - K @ beta, rtol=0, atol=1e-13 * costs.sum())


@given(st.integers(0, 2**20), st.integers(0, 6), st.sampled_from([1.0, 1e6]))
def test_a_certificate_may_begin_with_that_of_another_beta(seed, n_moved, size):
    """It is no less exact, and has kernel values of what moved alone; else it is from scratch."""
    problem, K, labels, costs, beta = random_case(seed)
    rng, before = np.random.default_rng(seed), beta.copy()
    moved = rng.choice(problem.n, n_moved, replace=False)
    before[moved] = size * rng.normal(size=n_moved)
    support, n_moved = np.count_nonzero(beta), np.count_nonzero(beta != before)
    first, scratch = certify(problem, before), certify(problem, beta)
    estimate = certificate_from(problem, before, np.zeros(problem.n))
    values = {}
    for since in (first, estimate):
        start = problem.kernel.evaluations
        found = certify(problem, beta, since=since)
        values[since] = problem.kernel.evaluations - start
        assert_allclose(found.residual, labels - K @ beta, rtol=0, atol=1e-13 * costs.sum())
        assert_allclose(found.kkt_violation, scratch.kkt_violation, atol=1e-11)
    few = 2 * n_moved <= support and np.abs(before).sum() <= 2 * np.abs(beta).sum()
    assert values[first] == problem.n * (n_moved if few else support)
    assert values[estimate] == problem.n * support  # nobody issued it


def test_intercept_without_free_samples_is_the_middle():
    lower, upper = np.array([0.0, -1.0]), np.array([1.0, 0.0])
    violation, (intercept,) = violation_and_levels(
        np.array([1.0, -1.0]), np.array([3.0, 1.0]), lower, upper
    )
    # The first can only shrink, the second only grow: 1 ≤ b ≤ 3 satisfies both.
    assert violation == 0.0 and intercept == 2.0
    violation, _ = violation_and_levels(np.zeros(2), np.array([3.0, 1.0]), lower, upper)
    assert violation == 2.0


@given(st.integers(0, 2**20))
def test_nearest_feasible_is_feasible(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    labels = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    _, lower, upper = c_svc(labels, rng.uniform(0.1, 5, n))
    beta = nearest_feasible(rng.normal(0, 4, n), lower, upper)
    assert (beta >= lower).all() and (beta <= upper).all()
    assert abs(beta.sum()) <= 1e-12 * n * upper.max()
    again = nearest_feasible(beta, lower, upper)
    assert_allclose(again, beta, atol=1e-11)


def test_restricted_problem_is_that_of_the_subset():
    problem, K, labels, _, beta = random_case(2)
    index = np.array([4, 1, 13, 8])
    part = problem.restrict(index)
    assert part.n == 4
    assert_allclose(part.linear, labels[index])
    certificate = certify(part, beta[index])
    assert_allclose(
        certificate.residual, labels[index] - K[np.ix_(index, index)] @ beta[index], atol=1e-12
    )


@pytest.mark.parametrize("rank", [30, 4])
def test_equalising_step_keeps_the_sum_and_evens_the_residuals(rank):
    """Also where the kernel matrix is singular: there Σd = 0 once was lost to cancellation."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(30, rank))
    K = factor @ factor.T
    residual = 0.3 + K @ rng.normal(size=30)
    step = equalise(K, residual)
    assert abs(step.sum()) <= 1e-10
    left = residual - K @ step
    assert np.ptp(left) <= 1e-6 * np.ptp(residual)


def test_polish_never_makes_it_worse():
    problem, K, labels, costs, beta = random_case(3)
    rough = certify(problem, labels * oracle.solve_dual(K, labels, costs, tol=1e-2))
    better = polish(rough)
    assert better.kkt_violation <= rough.kkt_violation
    assert (better.beta >= problem.lower).all() and (better.beta <= problem.upper).all()
    assert abs(better.beta.sum()) <= 1e-10
    far = certify(problem, beta)
    assert polish(far).kkt_violation <= far.kkt_violation


def test_polish_leaves_an_indefinite_kernel_alone():
    K = np.array([[0.0, 1.0], [1.0, 0.0]])
    linear, lower, upper = c_svc(np.array([1.0, -1.0]), np.ones(2))
    problem = Problem(PrecomputedKernelMatrix(-K - 3 * np.eye(2)), linear, lower, upper)
    rough = certify(problem, np.array([0.5, -0.5]))
    assert polish(rough) is rough


@given(st.integers(0, 2**32 - 1))
def test_violation_and_intercept_are_what_the_masks_say(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 30)
    lower, upper = -rng.integers(0, 2, n).astype(float), rng.integers(0, 2, n).astype(float)
    beta = rng.choice([lower, upper, 0.5 * (lower + upper)], axis=0)
    beta, residual = rng.permutation(beta), rng.normal(size=n)
    beta = np.clip(beta, lower, upper)
    can_grow, can_shrink = beta < upper, beta > lower
    violation, (intercept,) = violation_and_levels(beta, residual, lower, upper)
    if not can_grow.any() or not can_shrink.any():
        # The level is then bounded on one side alone, if at all.
        bound = residual[can_grow].max() if can_grow.any() else 0.0
        bound = residual[can_shrink].min() if can_shrink.any() else bound
        assert (violation, intercept) == (0.0, bound)
        return
    highest, lowest = residual[can_grow].max(), residual[can_shrink].min()
    assert violation == max(0.0, highest - lowest)
    free = can_grow & can_shrink
    expected = residual[free].mean() if free.any() else 0.5 * (highest + lowest)
    assert intercept == pytest.approx(expected, abs=1e-12)


def test_an_overflow_has_no_intercept():
    residual = np.array([1.0, np.nan])
    _, (intercept,) = violation_and_levels(np.zeros(2), residual, -np.ones(2), np.ones(2))
    assert np.isnan(intercept)
