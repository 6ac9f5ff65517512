"""Small problems: kernel values in memory, shared by pairs of classes, solved at once."""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maxmargin import SVC, constants
from maxmargin.kernels import interface
from maxmargin.kernels.class_pairs import ClassPairs
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import BUILT_IN_KERNELS, KernelFunction
from maxmargin.kernels.in_memory import InMemoryKernel, in_memory
from maxmargin.kernels.interface import EvaluationCounter
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Monitor
from maxmargin.optimality import certify
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers import Decomposition
from maxmargin.solvers.decomposition.small import steps_in_memory


def kernel_of(X, name="rbf"):
    return FeatureKernelMatrix(X, KernelFunction(name, 0.5, 1.0, 2), np.float64)


@pytest.fixture
def kernel():
    return kernel_of(np.random.default_rng(0).normal(size=(30, 3)))


def test_held_values_are_those_of_the_matrix(kernel):
    held, again = in_memory(kernel), in_memory(kernel)
    assert kernel.evaluations == held.evaluations == 2 * 900
    expected = kernel.block(np.arange(30), dtype=np.float64)
    assert_allclose(held.as_array(), expected, rtol=1e-14)
    assert not np.shares_memory(held.as_array(), again.as_array())


def test_every_question_has_the_answer_of_the_matrix(kernel):
    part, some = np.array([3, 17, 4, 29, 11]), np.array([2, 0, 4])
    coefficients = np.array([1.0, -2.0, 0.5])
    for held, true in [
        (in_memory(kernel), kernel),
        (in_memory(kernel).restrict(part), kernel.restrict(part)),
    ]:
        assert in_memory(held) is held and held.n == true.n
        assert_array_equal(held.positions(), true.positions())
        assert_allclose(held.diagonal(), true.diagonal())
        for rows in (None, some[:2]):
            for precise in (False, True):
                expected = true.multiply(some, coefficients, rows, precise)
                assert_allclose(held.multiply(some, coefficients, rows, precise), expected)
        for columns in (None, some, np.arange(held.n)):
            expected = true.block(some, columns)
            assert_allclose(held.block(some, columns), expected)
            out = np.zeros((4, expected.shape[1]))
            assert held.block(some, columns, out=out, slots=np.array([3, 0, 1])) is out
            assert_allclose(out[[3, 0, 1]], expected)


def test_users_matrices_are_copied_only_where_they_must_be():
    K = np.eye(30) + 0.1
    assert in_memory(PrecomputedKernelMatrix(K)).as_array() is K
    for other in (np.asfortranarray(np.arange(900.0).reshape(30, 30)), np.eye(30, dtype=int)):
        matrix = PrecomputedKernelMatrix(other)
        assert matrix.as_array() is None
        assert_array_equal(in_memory(matrix).as_array(), other)
    part = PrecomputedKernelMatrix(K).restrict(np.array([4, 2]))
    assert_array_equal(in_memory(part).as_array(), K[np.ix_([4, 2], [4, 2])])


def test_memory_stays_until_the_last_reader_is_gone():
    kernel = kernel_of(np.random.default_rng(0).normal(size=(200, 3)))
    held = in_memory(kernel)
    expected, copy = held.as_array().copy(), held.with_own_counter()
    del held
    other = in_memory(kernel_of(np.zeros((200, 3))))
    assert_array_equal(copy.as_array(), expected)
    assert not np.shares_memory(copy.as_array(), other.as_array())


@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed", lambda A, B: A @ B.T])
@pytest.mark.parametrize(
    ("solver", "n_classes"), [("auto", 2), ("auto", 4), ("smo", 2), ("decomposition", 4)]
)
def test_a_fit_leaves_no_kernel_matrix_to_the_garbage_collector(kernel, solver, n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 6)), np.arange(120) % n_classes
    data = X @ X.T if kernel == "precomputed" else X
    made: list[weakref.ref] = []

    class Counted(EvaluationCounter):
        def __init__(self):
            super().__init__()
            made.append(weakref.ref(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interface, "EvaluationCounter", Counted)
        gc.collect()
        gc.disable()
        try:
            SVC(kernel=kernel, solver=solver).fit(data, y).predict(data)
            alive = [counter for counter in made if counter() is not None]
        finally:
            gc.enable()
    assert made and not alive


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("name", BUILT_IN_KERNELS)
def test_pairs_have_the_values_of_their_classes(name, storage):
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.repeat([0, 1, 2, 3], [7, 1, 12, 5]))
    X = rng.normal(size=(25, 20)) * (rng.random((25, 20)) < 0.2)
    kernel = kernel_of(storage(X), name)
    members = [np.flatnonzero(codes == code) for code in range(4)]
    pairs, seen = ClassPairs(kernel, members), 0
    for first in range(4):
        for second in range(first + 1, 4):
            index = np.concatenate([members[first], members[second]])
            pair = pairs.pair(first, second)
            assert_array_equal(pair.positions(), index)
            assert_allclose(pair.as_array(), kernel_of(X, name).block(index, index), atol=1e-12)
            seen += pair.evaluations
    # Each block of two classes once, and half of that of each class with itself.
    upper = 7 * 18 + 1 * 17 + 12 * 5
    assert seen == kernel.evaluations == upper + (7 * 8 + 1 * 2 + 12 * 13 + 5 * 6) // 2


def test_pairs_that_are_large_or_too_much_for_the_memory_are_left_to_rows():
    assert ClassPairs.worth_it([256, 256, 3], 2**24)
    assert not ClassPairs.worth_it([257, 256, 3], 2**24)
    assert not ClassPairs.worth_it([256, 256, 3], 2**20)


def crawling(n=120):
    """A linear kernel and a large C: many more steps than samples."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 4))
    signs = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    kernel = in_memory(kernel_of(X, "linear"))
    kernel.copied_from = None  # values alone, without features for the interior-point method
    return Problem(kernel, signs, np.minimum(100 * signs, 0), np.maximum(100 * signs, 0))


def test_steps_in_memory_go_on_with_fewer_samples_until_all_are_optimal():
    problem = crawling()
    beta, residual, steps = steps_in_memory(problem, Run(), problem.kernel.as_array(), 1e-4, 10**6)
    assert steps > 2 * constants.STEPS_PER_SAMPLE * problem.n
    certificate = certify(problem, beta)
    assert certificate.kkt_violation <= 1e-4
    assert abs(beta.sum()) < 1e-9
    assert_allclose(residual, certificate.residual, atol=1e-8)


@given(limit=st.integers(0, 3000))
def test_steps_in_memory_keep_to_their_limit(limit):
    problem = crawling()
    beta, _, steps = steps_in_memory(problem, Run(), problem.kernel.as_array(), 1e-4, limit)
    assert steps <= limit
    assert (beta >= problem.lower).all() and (beta <= problem.upper).all()
    assert abs(beta.sum()) < 1e-9


@pytest.mark.parametrize("max_iter", [5, 2000])
def test_what_is_not_solved_at_once_goes_on_from_there(max_iter):
    problem = crawling()
    solution = Decomposition().solve(problem, Run(monitor=Monitor(max_iter=max_iter)))
    assert solution.status == "max_iter" and solution.n_iter == max_iter
    solution = Decomposition().solve(problem, Run())
    assert solution.status == "converged"
    assert certify(problem, solution.beta).kkt_violation <= Run().tol


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("sizes", [(9, 1, 20, 14), (150, 200, 30, 180)])
def test_many_classes_are_solved_like_each_pair_alone(sizes, multi_class, kernel):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = rng.normal(size=(len(y), 5)) + 1.5 * np.eye(5)[y]
    weight = rng.uniform(0.5, 2, len(y))
    options = {"kernel": kernel, "tol": 1e-7, "gamma": 0.1, "coef0": 0.5, "C": 3.0}
    model = SVC(multi_class=multi_class, **options).fit(X, y, sample_weight=weight)
    assert model.fit_report_.status == "converged"
    shared = {(i, j) for i in range(4) for j in range(i + 1, 4)}
    for line, (i, j) in zip(model.fit_report_, sorted(shared)):
        inside = (y == i) | (y == j) if multi_class == "ovo" else np.ones(len(y), bool)
        one = int(line.problem.split()[0])
        alone = SVC(**options).fit(X[inside], y[inside] == one, sample_weight=weight[inside])
        assert_allclose(line.objective, alone.fit_report_.objective, rtol=1e-6)


def test_a_small_part_of_a_larger_fit_is_not_refined_but_a_small_fit_is():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), np.repeat([0, 1, 2], 30)
    assert SVC().fit(X, y).fit_report_.kkt_violation > 1e-9
    assert SVC().fit(X[::2], y[::2]).fit_report_.kkt_violation < 1e-9


@pytest.mark.parametrize(("size", "cache_size"), [(150, 1.0), (200, 2.0)])
def test_values_are_held_only_within_the_cache_size(monkeypatch, size, cache_size):
    made = []
    make = InMemoryKernel.__init__
    spied = lambda self, n, *others: (made.append(n), make(self, n, *others))[1]  # noqa: E731
    monkeypatch.setattr(InMemoryKernel, "__init__", spied)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3 * size, 3)), np.repeat([0, 1, 2], size)
    enough = SVC(cache_size=50, solver="decomposition").fit(X, y)
    assert made
    made.clear()
    little = SVC(cache_size=cache_size, solver="decomposition").fit(X, y)
    assert max(made, default=0) ** 2 * 8 <= cache_size * 2**20
    assert_allclose(little.decision_function(X), enough.decision_function(X), atol=5e-3)


def test_a_held_part_of_a_held_matrix_is_of_its_own(kernel):
    held = in_memory(kernel)
    part = held.restrict(np.arange(4))
    assert isinstance(part, InMemoryKernel)
    assert not np.shares_memory(part.as_array(), held.as_array())
