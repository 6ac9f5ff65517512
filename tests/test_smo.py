"""Sequential minimal optimisation: its selections, shrinking, indefinite kernels, its cache."""

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

import oracle
from maxmargin import SVC
from maxmargin.formulations import c_svc
from maxmargin.kernels import row_cache as cache
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Monitor
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers import SMO
from maxmargin.solvers.common import pair_steps
from maxmargin.solvers.common.pair_steps import likely_next, penalties_of
from maxmargin.solvers.common.shrinking import worth_shrinking_to
from maxmargin.solvers.smo.solver import SELECTIONS

selections = pytest.mark.parametrize("selection", SELECTIONS)


def overlapping(n=200, seed=0):
    X, y = make_classification(
        n, 4, n_informative=3, n_redundant=0, flip_y=0.2, class_sep=0.7, random_state=seed
    )
    return X, np.where(y == 1, 1.0, -1.0)


def problem_of(X, labels, C=1.0, gamma=0.5, dtype=np.float64):
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", gamma), dtype)
    return Problem(kernel, *c_svc(labels, np.full(len(labels), C)))


@selections
@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("C", [0.3, 30.0])
def test_every_selection_reaches_the_optimum(selection, shrinking, C):
    X, labels = overlapping()
    solution = SMO(selection, shrinking).solve(problem_of(X, labels, C), Run())
    K, costs = oracle.kernel_values(X, X, gamma=0.5), np.full(200, C)
    alpha = labels * solution.beta
    assert solution.status == "converged"
    assert (alpha >= 0).all() and (alpha <= C).all() and abs(solution.beta.sum()) < 1e-9
    assert oracle.kkt_violation(K, labels, alpha, costs) <= 1e-3
    best = oracle.dual_objective(K, labels, oracle.solve_dual(K, labels, costs, 1e-6))
    assert_allclose(oracle.dual_objective(K, labels, alpha), best, atol=1e-3)


def test_selections_differ_in_the_steps_that_they_need():
    """Second-order needs fewer steps than the violating pair, exhaustive fewer still."""
    X, labels = overlapping(300)
    steps = {}
    for selection in SELECTIONS:
        # No steps beyond tol: the limit on refinement keeps the counts those of the paper.
        solution = SMO(selection, False).solve(problem_of(X, labels, 100.0), Run())
        steps[selection] = solution.n_iter
    assert steps["second-order"] < steps["maximal-violating-pair"]
    assert steps["exhaustive"] < steps["maximal-violating-pair"]


def test_unknown_selection_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"\['exhaustive', 'maximal-violating-pair', 'second-"):
        SMO(selection="third-order")


def test_shrinking_sets_samples_aside_and_brings_them_back():
    X, labels = overlapping(3000)
    problem = problem_of(X, labels, 1.0, dtype=np.float32)
    sizes = []
    original = cache.RowCache.restrict

    def restrict(self, kept, kernel):
        sizes.append(len(kept))
        original(self, kept, kernel)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache.RowCache, "restrict", restrict)
        shrunk = SMO(shrinking=True).solve(problem, Run())
        assert sizes and sizes[0] < 0.7 * 3000
        sizes.clear()
        plain = SMO(shrinking=False).solve(problem, Run())
        assert not sizes
    for solution in (shrunk, plain):
        assert solution.status == "converged"
        assert solution.certificate.kkt_violation <= 1e-3
    assert_allclose(shrunk.certificate.objective, plain.certificate.objective, rtol=1e-4)


def test_shrinking_never_drops_a_sample_that_can_move():
    """Only samples at a bound, pulled outwards beyond all possible partners, are shrunk."""
    X, labels = overlapping()
    problem = problem_of(X, labels)
    alpha = oracle.solve_dual(oracle.kernel_values(X, X, gamma=0.5), labels, np.ones(200), 1e-8)
    beta = labels * alpha
    residual = labels - oracle.kernel_values(X, X, gamma=0.5) @ beta
    kept = worth_shrinking_to(problem, beta, residual, 1e-3)
    free = np.flatnonzero((alpha > 0) & (alpha < 1))
    assert set(free) <= set(kept) and len(kept) < 0.7 * 200


@selections
@pytest.mark.parametrize("gamma, coef0", [(0.5, -1.0), (2.0, 0.5)])
def test_indefinite_kernels_end_at_a_kkt_point(selection, gamma, coef0, binary):
    X, y = binary
    K = oracle.kernel_values(X, X, "sigmoid", gamma, coef0)
    assert np.linalg.eigvalsh(K).min() < -0.1
    model = SVC(kernel="sigmoid", gamma=gamma, coef0=coef0, solver=SMO(selection)).fit(X, y)
    labels, alpha = oracle.signs(model, y), oracle.alphas(model, len(y))
    assert oracle.kkt_violation(K, labels, alpha, np.ones(len(y))) <= 1e-3
    assert model.fit_report_.status == "converged"
    assert oracle.dual_objective(K, labels, alpha) < 0


def test_exhaustive_says_how_much_memory_it_needs():
    X, labels = overlapping(400)
    problem, run = problem_of(X, labels), Run(cache_bytes=2**20)
    with pytest.raises(ValueError, match=r"needs the whole kernel matrix, 1 MB for 400 samples"):
        SMO("exhaustive").solve(problem, run)


@pytest.mark.parametrize("n_rows", [2, 3, 9, 40])
@pytest.mark.parametrize("selection", ["second-order", "maximal-violating-pair"])
def test_small_cache_is_right_and_never_exceeded(n_rows, selection, monkeypatch):
    X, labels = overlapping()
    taken = []
    original = cache.RowCache._lay_out

    def lay_out(self, kernel, owner):
        original(self, kernel, owner)
        taken.append(self._memory.nbytes)

    monkeypatch.setattr(cache.RowCache, "_lay_out", lay_out)
    n_bytes = n_rows * 200 * 8
    solution = SMO(selection).solve(problem_of(X, labels, 3.0), Run(cache_bytes=n_bytes))
    assert taken and max(taken) <= n_bytes
    K = oracle.kernel_values(X, X, gamma=0.5)
    assert oracle.kkt_violation(K, labels, labels * solution.beta, np.full(200, 3.0)) <= 1e-3


def test_duplicates_and_contradictions():
    """Equal samples make pairs without curvature, also with opposite labels."""
    X = np.repeat([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], 4, axis=0)
    y = np.array([0, 0, 1, 1] * 3)
    model = SVC(gamma=1.0, solver="smo").fit(X, y)
    K = oracle.kernel_values(X, X)
    violation = oracle.kkt_violation(
        K, oracle.signs(model, y), oracle.alphas(model, 12), np.ones(12)
    )
    assert violation <= 1e-3


def test_two_samples():
    """The answer can be written down: α = 2 / ‖a − b‖² for a linear kernel and a large C."""
    model = SVC(kernel="linear", C=10, solver="smo").fit([[0.0], [2.0]], [0, 1])
    assert_allclose(model.dual_coef_, [[-0.5, 0.5]])
    assert_allclose(model.decision_function([[0.0], [1.0], [2.0]]), [-1, 0, 1], atol=1e-12)


def test_hard_margin_is_infinite_C(binary):
    X = np.array([[0.0, 0], [1, 0], [3, 0], [4, 1]])
    model = SVC(kernel="linear", C=np.inf, solver="smo").fit(X, [0, 0, 1, 1])
    assert_allclose(model.decision_function(X)[1:3], [-1, 1], atol=1e-6)


def test_start_is_made_feasible_first():
    X, labels = overlapping(60)
    start = np.full(60, 5.0)  # beyond the bounds, and its sum is not zero
    problem, run = problem_of(X, labels), Run(start=start)
    first = run.initial_beta(problem)
    assert (first >= problem.lower).all() and (first <= problem.upper).all()
    assert abs(first.sum()) < 1e-12
    solution = SMO().solve(problem, run)
    cold = SMO().solve(problem_of(X, labels), Run())
    assert_allclose(solution.beta, cold.beta, atol=1e-3)


def test_start_at_the_optimum_takes_no_steps():
    X, labels = overlapping()
    first = SMO().solve(problem_of(X, labels), Run())
    second = SMO().solve(problem_of(X, labels), Run(start=first.beta))
    assert second.n_iter == 0
    assert_allclose(second.beta, first.beta, atol=1e-9)


def test_likely_next_takes_the_worst_violators_of_both_sides():
    labels = np.array([1.0, 1, 1, -1, -1, -1])
    lower, upper = c_svc(labels, np.ones(6))[1:]
    residual = np.array([0.5, 2.0, 1.0, -3.0, -1.0, -2.0])
    (grow,), (shrink,) = penalties_of(np.zeros(6), lower, upper, 0.0, False, 1e-3)
    assert_array_equal(grow, np.where(labels > 0, 0, -np.inf))
    assert_array_equal(shrink, np.where(labels > 0, np.inf, 0))
    slot_of = np.full(6, -1)
    assert sorted(likely_next(residual, grow, shrink, slot_of, 4, 4)) == [1, 2, 3, 4, 5]
    assert sorted(likely_next(residual, grow, shrink, slot_of, 4, 2)) == [1, 3, 4]
    slot_of[[1, 3]] = 0
    assert sorted(likely_next(residual, grow, shrink, slot_of, 4, 2)) == [2, 4, 5]
    assert list(likely_next(residual, grow, shrink, slot_of, 4, 1)) == [4]


def test_a_tol_out_of_reach_is_reported_as_stalled():
    """float64 has an end: what cannot be reached is not called converged."""
    X, labels = overlapping(120)
    K = 1e9 * oracle.kernel_values(X, X, gamma=0.5)
    kernel = PrecomputedKernelMatrix(K.astype(np.float32))
    problem = Problem(kernel, *c_svc(labels, np.full(120, 1e6)))
    solution = SMO().solve(problem, Run(tol=1e-15, monitor=Monitor(max_iter=10**6)))
    assert solution.status == "stalled"
    assert solution.certificate.kkt_violation > 1e-15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_stay_within_bounds_where_values_overflowed(dtype):
    """What is not a number equals nothing: the search for its place must still end at one."""
    of_place, of_sum = pair_steps.first_place, pair_steps.first_sum
    first_place = njit(lambda values, wanted: of_place(values, wanted))
    first_sum = njit(lambda residual, penalty, wanted: of_sum(residual, penalty, wanted))
    assert first_place(np.full(5, np.nan, np.float32), np.float32(1.0)) == 0
    nothing = np.full(5, np.nan, dtype)
    assert first_sum(nothing, np.zeros(5, np.float32), 1.0) == 0
    values = np.array([3, 7, 7, 2, 7], dtype)
    assert first_sum(values, np.zeros(5, np.float32), 7.0) == 1
