"""The block method: its second-order parts against naive ones, and optimality at any C."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import LinearConstraint, minimize
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, constants
from maxmargin.formulations import c_svc, epsilon_svr, nu_svr
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.optimality import Certificate, certify, violation_of
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers import Decomposition
from maxmargin.solvers.auto import Auto
from maxmargin.solvers.common import costs
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.low_rank import sampled_factor
from maxmargin.solvers.common.low_rank_passes import (
    low_rank_passes,
    rough_factor_of,
    rough_pass,
)
from maxmargin.solvers.common.newton import newton_change
from maxmargin.solvers.common.precision import Passes
from maxmargin.solvers.common.pricing import PartialPricing
from maxmargin.solvers.common.radix_select import largest
from maxmargin.solvers.common.reweighted_block import unit_of
from maxmargin.solvers.common.shrinking import settled
from maxmargin.solvers.common.violators import pulls
from maxmargin.solvers.decomposition import second_order
from maxmargin.solvers.decomposition.second_order import SecondOrder


def two_gaussians(n, seed=0):
    rng = np.random.default_rng(seed)
    X = np.vstack([rng.normal(size=(n // 2, 2)), 2 * rng.normal(size=(n // 2, 2)) + [2, 0]])
    return X, np.repeat([1.0, -1.0], n // 2)


def active_set(problem, beta, residual, cache_bytes=2**24):
    return ActiveSet(problem, 1e-3, cache_bytes, beta, residual, defaultdict(float))


def problem_of(X, y, C, gamma=0.5, dtype=np.float64):
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", gamma), dtype)
    return Problem(kernel, *c_svc(y, np.full(len(y), C)))


def naive_violation(problem, X, beta, gamma=0.5):
    """The maximal violating pair from plain differences, sharing nothing with the library."""
    squares = ((X[:, np.newaxis] - X[np.newaxis]) ** 2).sum(axis=-1)
    residual = problem.linear - np.exp(-gamma * squares) @ beta
    can_grow, can_shrink = beta < problem.upper, beta > problem.lower
    return residual[can_grow].max() - residual[can_shrink].min()


@pytest.mark.parametrize("C", [1.0, 100.0, 1e4, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_optimal_at_any_C(C, dtype):
    X, y = two_gaussians(800)
    problem = problem_of(X, y, C, dtype=dtype)
    solution = Decomposition(working_set=256).solve(problem, Run())
    assert solution.status == "converged"
    assert naive_violation(problem, X, solution.beta) <= 1e-3 + 1e-9 * C
    assert abs(solution.beta.sum()) <= 1e-9 * np.abs(solution.beta).sum()


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6])
def test_optimal_to_any_tol(tol):
    X, y = two_gaussians(700, seed=1)
    problem = problem_of(X, y, 10.0, dtype=np.float32)
    solution = Decomposition(working_set=128).solve(problem, Run(tol=tol))
    assert solution.status == "converged"
    assert naive_violation(problem, X, solution.beta) <= 1.01 * tol


@pytest.mark.parametrize("working_set", [2, 3, 64, 5000])
@pytest.mark.parametrize("shrinking", [True, False])
def test_every_working_set_gives_the_same_optimum(working_set, shrinking):
    X, y = two_gaussians(300, seed=2)
    problem = problem_of(X, y, 5.0)
    solver = Decomposition(working_set=working_set, shrinking=shrinking)
    solution = solver.solve(problem, Run())
    exact = Decomposition(working_set=5000).solve(problem, Run())
    assert solution.status == "converged"
    assert solution.certificate.objective == pytest.approx(exact.certificate.objective, rel=1e-5)


def test_a_working_set_of_one_is_refused():
    with pytest.raises(ValueError, match="at least 2, got 1"):
        Decomposition(working_set=1)


def test_many_free_samples_are_chosen_by_their_coupling():
    """Two far groups: the free samples that join a violator are those of its own group."""
    rng = np.random.default_rng(0)
    near, far = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 100
    X, y = np.vstack([near, far]), np.tile([1.0, -1.0], 60)
    active = active_set(problem_of(X, y, 1.0), 0.5 * y, np.zeros(120))
    active.residual[0], active.residual[1] = 5.0, -5.0
    working = active.select(16, last=np.arange(2))
    assert {0, 1} <= set(working)
    assert (working < 60).sum() >= 12


def test_samples_nearest_to_moving_again_stay_in_the_working_set():
    """Not those with the largest residual, which are the safest at their bounds."""
    X, y = two_gaussians(200)
    problem = problem_of(X, y, 1.0)
    rank = np.tile(np.arange(100), 2)  # in its class; all are at the bound where they belong
    active = active_set(problem, problem.upper + problem.lower, y * (1.0 + rank))
    working = active.select(40, last=np.flatnonzero(rank >= 20))
    # Ten of each class come since they are the nearest of all, ten stay.
    assert sorted(rank[working]) == sorted(2 * [*range(10), *range(20, 30)])


@pytest.mark.parametrize("kind", ["c_svc", "tube", "two sums"])
def test_samples_far_from_wanting_to_move_are_settled(kind):
    """The pull of a sample beside the rule of shrinking, which is written for each by itself."""
    rng = np.random.default_rng(3)
    X, y = two_gaussians(60)
    problem = problem_of(X, y, 1.0)
    if kind != "c_svc":
        bounds = {"linear": y, "lower": np.full(60, -1.0), "upper": np.ones(60)}
        problem = replace(problem, **bounds, epsilon=0.3 if kind == "tube" else 0.0)
    if kind == "two sums":
        problem = replace(problem, totals=(5.0, -5.0))
    beta = np.clip(2 * rng.normal(size=60), problem.lower, problem.upper)
    beta[::5] = 0.0
    residual, index = rng.normal(size=60), rng.permutation(60)[:40]
    found = pulls(problem, beta, residual, index)
    _, levels = violation_of(problem, beta, residual)
    for margin in (-0.5, 0.0, 0.2, 1.0):
        at_rest = settled(problem, beta, residual, levels, margin)
        assert_array_equal(found < -margin, at_rest[index])


def test_rows_are_kept_of_free_samples_that_move_often():
    X, y = two_gaussians(40)
    problem = problem_of(X, y, 1.0)
    active = active_set(problem, np.zeros(40), problem.linear)
    index = np.array([0, 1, 2, 39])
    # All to their bounds; then the first inwards bit by bit, the others from bound to bound.
    for first, others, kept in [(1.0, 1, []), (-0.1, -1, []), (-0.1, 1, []), (-0.1, -1, [0])]:
        change = np.array([first, others, others, others]) * y[index]
        active.beta[index] += change
        active.update_residual(index, change)
        assert np.flatnonzero(active.cache.holds()).tolist() == kept
        assert_allclose(active.residual, certify(problem, active.beta).residual, atol=1e-12)


def test_rows_are_kept_at_once_where_most_of_what_moves_is_free():
    X, y = two_gaussians(40)
    problem = problem_of(X, y, 1.0)
    active = active_set(problem, np.zeros(40), problem.linear)
    index, change = np.array([0, 1, 39]), np.array([0.5, 1.0, -0.5])
    active.beta[index] += change
    active.update_residual(index, change)
    assert np.flatnonzero(active.cache.holds()).tolist() == [0, 39]


def test_newton_solves_the_problem_of_the_free_samples():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(12, 12))
    K = A @ A.T + 0.1 * np.eye(12)
    residual = rng.normal(size=12)
    beta = rng.uniform(-0.3, 0.3, size=12)
    lower, upper = np.full(12, -0.5), np.full(12, 0.5)
    change = newton_change(K, residual, beta, lower, upper)
    naive = minimize(
        lambda d: 0.5 * d @ K @ d - residual @ d,
        np.zeros(12),
        jac=lambda d: K @ d - residual,
        bounds=list(zip(lower - beta, upper - beta)),
        constraints=[LinearConstraint(np.ones((1, 12)), 0, 0)],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert abs(change.sum()) < 1e-10
    assert (beta + change <= upper + 1e-12).all() and (beta + change >= lower - 1e-12).all()
    objective = 0.5 * change @ K @ change - residual @ change
    assert objective <= naive.fun + 1e-7


def test_newton_declines_a_kernel_that_is_not_positive_definite():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    zeros, ones = np.zeros(2), np.ones(2)
    assert newton_change(K, np.array([1.0, -1.0]), zeros, -ones, ones) is None


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_low_rank_passes_solve_for_the_active_samples(C):
    """From a start whose sum is not zero, as where samples were left out."""
    X, y = two_gaussians(400)
    problem = problem_of(X, y, C)
    beta = 0.1 * problem.upper
    V = sampled_factor(problem.kernel, 400, 1e-10, 400)
    residual = problem.linear - problem.kernel.multiply(np.arange(400), beta, precise=True)
    found, left, again = low_rank_passes(
        problem, 1e-3, V, beta, residual, lambda steps, state: None
    )
    assert again
    assert found.sum() == pytest.approx(beta.sum())
    certificate = certify(replace(problem, totals=(beta.sum(),)), found)
    assert certificate.kkt_violation <= 1e-3
    assert_allclose(left, certificate.residual, atol=1e-8 * C)


def test_the_steps_of_low_rank_passes_hardly_depend_on_C():
    """Not even from a start whose bounds are mostly wrong."""
    X, y = two_gaussians(400)

    def steps_at(C):
        problem = problem_of(X, y, C)
        V = sampled_factor(problem.kernel, 400, 1e-10, 400)
        beta = np.zeros(400)
        ends = [*np.flatnonzero(y > 0)[:50], *np.flatnonzero(y < 0)[-50:]]
        beta[ends] = C * y[ends]
        counts = []
        start = problem.linear - V @ (V.T @ beta)
        low_rank_passes(problem, 1e-3, V, beta, start, lambda steps, state: counts.append(steps))
        return sum(counts)

    assert steps_at(1e6) < 4 * steps_at(100.0)


def test_low_rank_passes_stop_when_asked():
    X, y = two_gaussians(100)
    problem = problem_of(X, y, 1.0)
    V = sampled_factor(problem.kernel, 100, 1e-10, 100)
    asked = []

    def watch(steps, state):
        asked.append(steps)
        return True

    start = np.zeros(100)
    beta, _, _ = low_rank_passes(problem, 1e-3, V, start, problem.linear, watch)
    assert len(asked) <= 2
    assert (beta >= problem.lower).all() and (beta <= problem.upper).all()


def test_newton_steps_that_fail_wait_twice_as_long_each_time(monkeypatch):
    waited = []
    newton = SecondOrder._newton

    def failing(self, active, free, count_steps):
        waited.append(self._since_newton / costs.newton_step(len(free), active.n))
        newton(self, active, free, count_steps)
        return False

    monkeypatch.setattr(second_order, "newton_change", lambda *arguments: None)
    monkeypatch.setattr(SecondOrder, "_newton", failing)
    for step in ("_block", "_low_rank_due", "_rough_due"):
        monkeypatch.setattr(SecondOrder, step, lambda *arguments: False)
    X, y = two_gaussians(1500)
    Decomposition().solve(problem_of(X, y, 1e3), Run())
    assert len(waited) > 3
    assert all(wait > min(2**at, 16) for at, wait in enumerate(waited))


def test_irwls_on_a_block_that_fails_waits_twice_as_long_each_time(monkeypatch):
    waits = []

    def failing(*arguments):
        waits.append(decides._block_wait)

    monkeypatch.setattr(second_order, "solve_block", failing)
    X, y = two_gaussians(400)
    problem = problem_of(X, y, 1e3)
    solution = Decomposition().solve(problem, Run(tol=0.5))
    active = active_set(problem, solution.beta, solution.certificate.residual)
    decides, free = SecondOrder(), active.free()
    monkeypatch.setattr(second_order, "_LEAST_FREE", 2)
    for _ in range(6):
        decides._since_block = np.inf
        assert not decides._block(active, free, lambda steps: None)
        assert not decides._block(active, free, lambda steps: None)  # nothing has happened since
    assert waits == [1, 2, 4, 8, 16, 16]


def test_irwls_on_a_block_takes_the_largest_part_of_those_that_may_move():
    X, y = two_gaussians(400)
    problem = problem_of(X, y, 1e3)
    solution = Decomposition().solve(problem, Run(tol=0.5))
    active = active_set(problem, solution.beta, solution.certificate.residual)
    violation, levels = violation_of(problem, active.beta, active.residual)
    pull = pulls(problem, active.beta, active.residual, np.arange(400))
    for most in (2, 20, 40, 80, 400):
        room = np.zeros(most // 2, np.int64)  # twice as many as are free may take part
        working, part = second_order._may_move(active, room, levels, violation)
        near = [np.count_nonzero(pull >= -each * violation) for each in (1.0, 0.3, 0.1, 0.03, 0.0)]
        assert len(working) == next((count for count in near if count <= most), 0)
        assert set(working) == set(np.flatnonzero(pull >= -part * violation)) or not len(working)


@pytest.mark.parametrize("C", [1e2, 1e4])
@pytest.mark.parametrize("two_sums", [False, True])
def test_a_rough_pass_goes_most_of_the_way(C, two_sums):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (400, 3))
    y = np.sin(4 * X[:, 0]) + 0.3 * rng.normal(size=400)
    costs = np.full(400, C)
    fields = nu_svr(y, costs, 0.4) if two_sums else epsilon_svr(y, costs, 0.1)
    problem = Problem(FeatureKernelMatrix(X, KernelFunction("rbf", 1.0), np.float64), **fields)
    beta = problem.feasible()
    before = certify(problem, beta)
    V = rough_factor_of(problem, 2**26, 400.0)
    assert V.shape[1] < 300
    found, residual = rough_pass(problem, V, beta, before.residual, lambda steps: None)
    after = certify(problem, found)
    assert after.feasible and after.objective < before.objective
    assert after.kkt_violation < 0.3 * before.kkt_violation
    assert_allclose(residual, after.residual, atol=1e-9 * C)


@pytest.mark.parametrize(("C", "gamma"), [(100.0, 0.5), (1e4, 2.0)])
@pytest.mark.parametrize("kind", [SVR, NuSVR])
def test_the_scale_of_targets_does_not_matter(kind, C, gamma):
    """In powers of two: then all numbers are the same but for their exponents."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (1400, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=1400)
    tube = {"epsilon": 0.1} if kind is SVR else {}

    def fitted(unit):
        tubes = {name: unit * value for name, value in tube.items()}
        return kind(C=C * unit, gamma=gamma, tol=1e-3 * unit, **tubes).fit(X, unit * y)

    one, *others = (fitted(unit) for unit in (1.0, 2.0**-10, 2.0**10))
    for other in others:
        assert one.fit_report_[0].details["second_order"]
        assert one.n_iter_ == other.n_iter_
        assert_array_equal(one.dual_coef_ / C, other.dual_coef_ / other.C)


@pytest.mark.parametrize(
    ("p", "unit"),
    [
        (np.tile([1.0, -1.0], 50), 1.0),
        (np.where(np.arange(100) < 3, 1.0, -1.0), 1.0),
        (np.zeros(100), 1.0),
        (np.r_[np.linspace(95.0, 105.0, 101), 1e6], 4.0),
    ],
)
def test_the_unit_of_residuals(p, unit):
    assert unit_of(SimpleNamespace(linear=p)) == pytest.approx(unit, rel=0.05)


def test_a_rough_pass_is_left_where_the_factor_lacks_too_much(monkeypatch):
    monkeypatch.setattr(constants, "ROUGH_RANK", 5)
    X, y = two_gaussians(200)
    problem = problem_of(X, y, 1e4)
    V = rough_factor_of(problem, 2**26, 400.0)
    assert V.shape[1] == 5
    assert rough_pass(problem, V, np.zeros(200), problem.linear, lambda steps: None) is None


def test_a_working_set_does_not_outlive_its_samples(monkeypatch):
    """Samples may be left out for a low-rank step that is then not taken."""
    seen = []
    select = ActiveSet.select

    def watched(self, size, last):
        seen.append((self.n, len(last)))
        return select(self, size, last)

    monkeypatch.setattr(SecondOrder, "_low_rank_due", lambda self, active, may_shrink: True)
    monkeypatch.setattr(
        SecondOrder, "_low_rank", lambda self, active, may_shrink, count_steps: False
    )
    monkeypatch.setattr(ActiveSet, "select", watched)
    X, y = two_gaussians(600)
    problem = problem_of(X + 6 * (y > 0)[:, np.newaxis], y, 1.0)
    assert Decomposition(working_set=16).solve(problem, Run()).status == "converged"
    fewer = [now[1] for before, now in pairwise(seen) if now[0] < before[0]]
    assert fewer and not any(fewer)


def test_second_order_steps_take_over_at_large_C():
    X, y = two_gaussians(1500)
    report = SVC(C=1e5, gamma=0.5).fit(X, y).fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-3
    assert report[0].details["second_order"]
    assert "took over" in report.reason


def test_same_bits_for_the_same_threads():
    X, y = two_gaussians(1500, seed=4)
    first, second = (SVC(C=1e4, gamma=0.5, n_jobs=2).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.dual_coef_, second.dual_coef_)
    assert first.n_iter_ == second.n_iter_


@pytest.mark.parametrize("slots", [5, 40, 64, 500])
@pytest.mark.parametrize("cheap", [False, True])
def test_working_sets_larger_than_the_cache(slots, cheap):
    """Rows that find no place are computed for the moment; the residual is right all the time."""
    X, y = two_gaussians(500, seed=3)
    problem = problem_of(X, y, 10.0)
    problem.kernel.cheap = cheap
    active = active_set(problem, np.zeros(500), problem.linear, slots * 500 * 8)
    working = np.empty(0, np.int64)
    for _ in range(12):
        working = active.select(64, working)
        active.pair_steps(working, 1e-3, 500)
        product = problem.kernel.multiply(np.arange(500), active.beta, precise=True)
        assert_allclose(
            active.residual, problem.linear - product,
            atol=1e-9,
        )  # fmt: skip
    assert active.cache.capacity == slots


def test_auto_says_why():
    X, y = two_gaussians(3000)
    solver, reason = Auto().choose(problem_of(X, y, 1.0), Run(cache_bytes=30 * 3000 * 8))
    assert solver.name == "smo" and "30 kernel rows" in reason
    solver, reason = Auto().choose(problem_of(X, y, 1.0), Run())
    assert solver.name == "decomposition" and "3000 samples" in reason
    assert "fit one working set" in Auto().choose(problem_of(X[:100], y[:100], 1.0), Run())[1]


@given(
    values=hnp.arrays(
        np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6) | st.sampled_from([0.0, 1.0])
    ),
    seed=st.integers(0, 99),
    count=st.integers(1, 70),
)
@settings(max_examples=200)
def test_the_largest_values_are_found(values, seed, count):
    allowed = np.random.RandomState(seed).uniform(size=len(values)) < 0.7
    chosen = largest(values, allowed, count)
    assert len(chosen) == min(count, allowed.sum())
    assert allowed[chosen].all() and (np.diff(chosen) > 0).all()
    left = np.setdiff1d(np.flatnonzero(allowed), chosen)
    if len(left) and len(chosen):
        least = values[chosen].min()
        assert values[left].max() <= least + 2.0**-12 * abs(least) + 1e-44


def test_what_is_not_a_number_is_not_among_the_largest():
    values = np.array([np.nan, 1.0, np.inf, 2.0])
    assert_array_equal(largest(values, np.ones(4, bool), 2), [2, 3])
    assert len(largest(values, np.array([True, False, False, False]), 2)) == 0


def single_precision_problem(C=10.0):
    return problem_of(*two_gaussians(300), C, dtype=np.float32)


def test_a_residual_that_drifted_is_made_exact():
    problem = single_precision_problem()
    beta = 0.5 * (problem.lower + problem.upper)
    exact = certify(problem, beta).residual
    active = active_set(problem, beta, exact + 0.01)
    assert not active.correct(0.02)
    assert_allclose(active.residual, exact + 0.01)
    active.beta[:2] += 0.1, -0.1
    assert np.flatnonzero(active.change()).tolist() == [0, 1]
    assert active.correct(0.005)
    assert not active.change().any()
    assert_allclose(active.residual, certify(problem, active.beta).residual, atol=1e-12)


def test_samples_set_aside_keep_their_beta():
    problem = single_precision_problem()
    beta, residual = problem.upper.copy(), np.full(problem.n, 5.0)
    beta[:20], residual[:20] = 5.0, 0.0
    active = active_set(problem, beta, residual)
    assert active.shrink() and active.n == 20
    active.beta[0] = 0.25
    expected = beta.copy()
    expected[0] = 0.25
    assert_array_equal(active.beta_of_all(), expected)


def certificate_of(problem, beta, violation, gap=None):
    gap = violation if gap is None else gap
    return Certificate(problem, beta, beta, violation, 0.0, -1.0, gap, (0.0,))


def test_passes_go_on_in_single_precision_while_they_help():
    problem = single_precision_problem(C=1e6)
    beta = 0.5 * problem.upper
    passes = Passes(problem, None, 1e-3)
    assert passes.next_problem(problem, certificate_of(problem, beta, 1.0), False) is problem
    # Far from the last, but good; then far, and hardly better.
    assert passes.next_problem(problem, certificate_of(problem, -beta, 0.4), False) is problem
    doubled = passes.next_problem(problem, certificate_of(problem, beta, 0.35), False)
    assert doubled is not None and doubled.kernel.dtype == np.float64


def test_rows_that_failed_are_replaced_however_good_the_pass():
    problem = single_precision_problem()
    passes, certificate = (
        Passes(problem, None, 1e-3),
        certificate_of(problem, 0 * problem.upper, 0.1),
    )
    doubled = passes.next_problem(problem, certificate, False, rows_failed=True)
    assert doubled is not None and doubled.kernel.dtype == np.float64


def test_small_changes_do_not_ask_for_double_precision():
    problem = single_precision_problem(C=1e6)
    beta = 0.5 * problem.upper
    passes = Passes(problem, None, 1e-3)
    passes.next_problem(problem, certificate_of(problem, beta, 1.0), False)
    near = certificate_of(problem, beta + 1e-3, 0.85)
    assert passes.next_problem(problem, near, False) is problem
    worse = passes.next_problem(problem, certificate_of(problem, beta, 0.9), False)  # stuck
    assert worse is not None and worse.kernel.dtype == np.float64


def test_passes_go_on_while_the_gap_falls():
    """The violation of many free samples does not fall from pass to pass."""
    problem = problem_of(*two_gaussians(300), 10.0, dtype=np.float64)
    passes, beta = Passes(problem, None, 1e-3), 0 * problem.upper
    for violation, gap in ((1.0, 100.0), (0.95, 80.0), (1.1, 40.0), (0.99, 30.0)):
        certificate = certificate_of(problem, beta, violation, gap)
        assert passes.next_problem(problem, certificate, False) is problem
    assert passes.next_problem(problem, certificate_of(problem, beta, 0.99, 29.0), False) is None


def test_a_pass_that_left_samples_out_in_error_is_followed_by_one_with_all():
    problem = single_precision_problem()
    passes, beta = Passes(problem, None, 1e-3), 0 * problem.upper
    assert passes.may_shrink()
    expected = [
        (1.0, True, True),  # the first certificate has none to be compared with
        (0.8, True, False),
        (0.7, False, True),  # nobody was left out
        (0.3, True, True),
        (0.2, True, False),
        (0.01, True, False),  # close to tol
    ]
    for violation, shrank, may_shrink in expected:
        passes.next_problem(problem, certificate_of(problem, beta, violation), shrank)
        assert passes.may_shrink() == may_shrink


def test_a_residual_that_is_never_exact_does_not_keep_a_fit_from_its_end(monkeypatch):
    """Where rounding alone is more than tol, each look finds another drift."""
    X, y = two_gaussians(4500)  # enough rounds for a look at what may be left out
    shrunk = []
    correct, shrink = ActiveSet.correct, ActiveSet.shrink
    monkeypatch.setattr(ActiveSet, "correct", lambda self, margin: correct(self, margin) or True)
    monkeypatch.setattr(ActiveSet, "shrink", lambda self: shrunk.append(shrink(self)))
    solution = Decomposition().solve(problem_of(X, y, 1.0, dtype=np.float32), Run())
    assert any(shrunk) and solution.status == Status.CONVERGED


@pytest.fixture
def few_are_many(monkeypatch):
    """Rounds of parts, which are for a hundred thousand samples, already for some hundred."""
    monkeypatch.setattr(constants, "MANY_SAMPLES", 300)
    monkeypatch.setattr(constants, "MAX_RANK", 10)


def patches(n, seed=0):
    """Overlapping classes with many free and many bounded support vectors."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    side = np.sin(9 * X[:, 0]) + np.sin(7 * X[:, 1]) + 0.5 * rng.normal(size=n)
    return X, np.where(side > 0.8, 1.0, -1.0)


@pytest.mark.parametrize("C", [1.0, 50.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounds_of_parts_end_at_the_same_optimum(C, dtype, few_are_many, monkeypatch):
    X, y = patches(1500)
    problem = problem_of(X, y, C, gamma=20.0, dtype=dtype)
    solver = Decomposition(64)
    solution = solver.solve(problem, Run(tol=1e-3))
    assert solution.status == Status.CONVERGED
    assert naive_violation(problem, X, solution.beta, gamma=20.0) <= 1.01e-3
    assert abs(solution.beta.sum()) < 1e-9 * C
    again = solver.solve(problem, Run(tol=1e-3))
    assert_array_equal(again.beta, solution.beta)
    monkeypatch.setattr(constants, "MANY_SAMPLES", 10**9)
    plain = solver.solve(problem, Run(tol=1e-3))
    objectives = [each.certificate.objective for each in (solution, plain)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-4)


def test_a_part_has_the_free_samples_and_the_worst_violators():
    X, y = patches(400)
    problem = problem_of(X, y, 10.0, gamma=20.0)
    beta = np.zeros(400)
    beta[[3, 50]] = np.where(y[[3, 50]] > 0, 1.0, -1.0)
    residual = problem.linear - np.linspace(-0.5, 0.5, 400) * y
    active = active_set(problem, beta, residual)
    chosen = active.select_part(40, residual)
    assert {3, 50} <= set(chosen) and 38 <= len(chosen) == len(set(chosen)) <= 40
    worst = np.argmax(np.where(beta < problem.upper, residual, -np.inf))
    assert worst in chosen


def solve_part(pricing, size):
    """One part, solved; how many of its samples moved."""
    chosen = pricing.select(size)
    part = pricing.active.part(chosen)
    part.pair_steps(np.arange(part.n), 1e-3, 10_000)
    return pricing.take_over(part, chosen)


def test_what_a_part_has_become_is_carried_over_to_all():
    X, y = patches(400)
    problem = problem_of(X, y, 10.0, gamma=20.0)
    active = active_set(problem, np.zeros(400), problem.linear)
    active.fetch(np.arange(20))
    pricing = PartialPricing(active)
    assert solve_part(pricing, 100) == np.count_nonzero(active.beta) > 0
    assert "cache" not in vars(active)  # two caches would be twice the memory
    pricing.refresh()
    assert_allclose(active.residual, problem.residual_of(active.beta), atol=1e-9)


def test_samples_that_wait_hear_of_the_moves_of_several_parts_at_once():
    X, y = patches(800)
    problem = problem_of(X, y, 10.0, gamma=20.0)
    active = active_set(problem, np.zeros(800), problem.linear)
    pricing, waiting = PartialPricing(active), []
    for _ in range(4):
        solve_part(pricing, 100)
        exact = problem.residual_of(active.beta)
        violation = pricing.violation_of_some(100)
        known = np.isclose(active.residual, exact, atol=1e-9)
        waiting.append(np.count_nonzero(~known))
        if violation is not None:
            can_grow, can_shrink = active.beta < problem.upper, active.beta > problem.lower
            highest, lowest = exact[known & can_grow].max(), exact[known & can_shrink].min()
            assert violation == pytest.approx(highest - lowest)
    assert max(waiting) > 200
    pricing.refresh()
    assert_allclose(active.residual, problem.residual_of(active.beta), atol=1e-9)


@pytest.mark.parametrize("model", [SVR(C=20.0), NuSVR(nu=0.3), NuSVC(nu=0.2), OneClassSVM(nu=0.3)])
def test_rounds_of_parts_solve_every_formulation(model, few_are_many):
    X, y = patches(900)
    y = np.sin(9 * X[:, 0]) if "SVR" in type(model).__name__ else y
    model.set_params(gamma=20.0, solver=Decomposition(64)).fit(X, y)
    assert model.fit_report_.status == "converged"


def test_rounds_of_parts_stop_when_they_must(few_are_many):
    X, y = patches(1500)
    with pytest.warns(ConvergenceWarning):
        model = SVC(C=50.0, gamma=20.0, max_iter=700, solver=Decomposition(64)).fit(X, y)
    assert model.fit_report_.status == "max_iter"
    assert model.fit_report_.n_iter <= 700


def test_one_block_solves_a_nu_regression_of_large_c_to_the_end():
    """All samples are in its systems, and the residual is right before and after it."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (1500, 4))
    y = np.sin(4 * X[:, 0]) * np.cos(3 * X[:, 1]) + 0.2 * rng.standard_normal(1500)
    model = NuSVR(C=1e4, gamma=1.0).fit(X, y / y.std())
    report = model.fit_report_
    assert report.problems[0].details["second_order"] == ["block IRWLS"]
    assert report.status == "converged" and report.kkt_violation < 1e-5
