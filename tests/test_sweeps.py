"""The parts of the sweeps solver, each against a plain way to say the same (NumPy backend)."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification

import oracle
from maxmargin import SVC
from maxmargin.formulations import c_svc
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Monitor
from maxmargin.optimality import certify
from maxmargin.problem import Problem, sums_of
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.pairs import CONVERGED, HARD, Batch
from maxmargin.solvers.sweeps import Sweeps, run
from maxmargin.solvers.sweeps import batch as sweeps_batch
from maxmargin.solvers.sweeps.active_set import (
    FreeSystem,
    Matrix,
    newton_change,
)
from maxmargin.solvers.sweeps.combine import step_lengths
from maxmargin.solvers.sweeps.factor import factorise
from maxmargin.solvers.sweeps.numpy_backend import NumpyBackend
from maxmargin.solvers.sweeps.partition import landmarks_of, neighbour_order
from maxmargin.solvers.sweeps.pieces import Kink, State, Variables, groups_of


def kernel_of(n, gamma=0.3, seed=0):
    X, y = make_classification(n, 5, n_redundant=0, flip_y=0.15, random_state=seed)
    return np.exp(-gamma * cdist(X, X, "sqeuclidean")), np.where(y == 1, 1.0, -1.0)


def backend_of(K, panel=512, block_size=256):
    backend = NumpyBackend(PrecomputedKernelMatrix(K), 2**30)
    backend.panel, backend.block_size = panel, block_size
    return backend


def order_of(backend, K, rng):
    landmarks = landmarks_of(len(K), rng)
    return neighbour_order(backend, K[landmarks], landmarks)


def variables_of(K, y, C, seed=0):
    """A feasible point with samples at both bounds and between them."""
    rng = np.random.default_rng(seed)
    alpha = C * rng.choice([0.0, 0.5, 1.0], len(y))
    excess = (alpha * y).sum()
    for t in np.flatnonzero(y == np.sign(excess)):
        taken = min(alpha[t], abs((alpha * y).sum()))
        alpha[t] -= taken if (alpha * y).sum() * excess > 0 else 0.0
    beta = alpha * y
    return Variables(beta, y - K @ beta, np.minimum(0.0, C * y), np.maximum(0.0, C * y))


@pytest.mark.parametrize("n", [1, 2, 7, 40])
@pytest.mark.parametrize("panel", [1, 3, 64])
def test_panels_are_a_cholesky_factor(n, panel):
    K, _ = kernel_of(max(n, 10))
    A, backend = K[:n, :n], backend_of(K, panel)
    factor = factorise(
        backend, n, lambda rows, columns: A[rows, columns] + 0.5 * np.eye(n)[rows, columns]
    )
    right = np.random.default_rng(0).normal(size=(n, 3))
    solved = factor.backward(factor.forward(right))
    assert_allclose(solved, np.linalg.solve(A + 0.5 * np.eye(n), right), atol=1e-10)


def test_factor_grows_by_appending():
    K, _ = kernel_of(30)
    backend = backend_of(K, panel=8)

    def block(rows, columns):
        return (K + 0.1 * np.eye(30))[rows, columns].copy()

    part = factorise(backend, 11, block)
    whole = factorise(backend, 30, block, part)
    right = np.ones((30, 1))
    expected = np.linalg.solve(K + 0.1 * np.eye(30), right)
    assert_allclose(whole.backward(whole.forward(right)), expected, atol=1e-10)


def test_no_factor_of_an_indefinite_matrix():
    A = np.diag([1.0, -1.0, 2.0])
    backend = backend_of(A, panel=2)
    assert factorise(backend, 3, lambda rows, columns: A[rows, columns].copy()) is None


@pytest.mark.parametrize("ridge", [1e-8, 0.1])
@pytest.mark.parametrize("C", [5.0, 20.0])
def test_newton_step_is_the_minimum_under_bounds(C, ridge):
    """The optimality conditions of the step's own problem hold, by their definition."""
    K, y = kernel_of(60)
    at = variables_of(K, y, C)
    backend = backend_of(K, panel=16)
    A = K + ridge * np.eye(60)
    matrix = Matrix(lambda rows, columns: A[np.ix_(rows, columns)], lambda i, c: K[:, i] @ c, ridge)
    system = FreeSystem(backend, matrix, lambda: False)
    change, products, settled = newton_change(
        system, at, np.zeros(60, np.int64), np.arange(60), np.zeros(60, np.int64)
    )
    assert settled
    assert_allclose(products, K @ change, atol=1e-9)
    assert_allclose(change.sum(), 0.0, atol=1e-9)
    beta = at.beta + change
    gradient = at.residual - (K + ridge * np.eye(60)) @ change
    slack = 1e-9 * C
    highest = gradient[beta < at.upper - slack].max()
    lowest = gradient[beta > at.lower + slack].min()
    assert highest - lowest <= 1e-6


def test_step_lengths_minimise_over_the_unit_box():
    rng = np.random.default_rng(2)
    A = rng.normal(size=(6, 4))
    coupling, gain = A.T @ A, rng.normal(size=4)
    theta = step_lengths(coupling, gain)
    assert (theta >= 0).all() and (theta <= 1).all()
    slope = gain - coupling @ theta
    assert (slope[theta < 1] <= 1e-2).all() and (slope[theta > 0] >= -1e-2).all()


@pytest.mark.parametrize("n", [1, 5, 300])
def test_order_has_every_sample_once(n):
    K, _ = kernel_of(max(n, 10))
    order = order_of(backend_of(K), K[:n, :n], np.random.default_rng(0))
    assert_array_equal(np.sort(order), np.arange(n))


def test_neighbours_are_near_each_other():
    """Consecutive samples are closer than random ones, by far."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (1280, 1)) * 10.0 + rng.normal(size=(1280, 1))
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    order = order_of(backend_of(K), K, rng)
    steps = np.abs(np.diff(X[order, 0]))
    assert np.median(steps) < 2 < np.median(np.abs(np.diff(X[:, 0])))


@pytest.mark.parametrize("shift", [0.0, 0.7])
@pytest.mark.parametrize("limit", [1, 3, 64])
def test_working_sets_hold_the_violators_once_and_both_directions(limit, shift):
    K, y = kernel_of(200)
    at, backend = variables_of(K, y, 2.0), backend_of(K, block_size=32)
    backend.max_blocks = limit
    state = backend.state(at, Kink())
    at = backend.pieces(at, Kink(), state, None)
    order = np.random.default_rng(0).permutation(200)
    threshold = 0.1 * state.violation
    index, n_above = backend.working_sets(at, order, threshold, 0.0, shift)
    members = index[index >= 0]
    assert len(np.unique(members)) == len(members) <= limit * 30
    pull = at.residual
    violation = np.maximum(
        np.where(at.beta < at.upper, pull, 0), np.where(at.beta > at.lower, -pull, 0)
    )
    expected = np.flatnonzero(violation > threshold)
    assert n_above == len(expected)
    if limit == 64:
        assert_array_equal(np.sort(members), expected)
    else:
        assert set(members) <= set(expected)
    counts = [(pull[row[row >= 0]] > 0).mean() for row in index]
    assert np.ptp(counts) < 0.2


def test_state_is_the_maximal_violating_pair():
    K, y = kernel_of(50)
    at = variables_of(K, y, 2.0)
    state = backend_of(K).state(at, Kink())
    alpha = at.beta * y
    assert_allclose(state.violation, oracle.kkt_violation(K, y, alpha, np.full(50, 2.0)))
    assert state.n_free == np.count_nonzero((alpha > 0) & (alpha < 2.0))


def test_state_without_a_pair():
    nobody = State.of([-np.inf, 1.0, 0.0, 0, *[0.0] * 4], by_sign=False)
    assert (nobody.violation, nobody.intercept) == (0.0, 1.0)


def kinked_variables(K, targets, C, seed=0):
    """A point with samples at zero, at both bounds and between, and its p − Kβ."""
    rng = np.random.default_rng(seed)
    beta = C * rng.choice([-1.0, -0.4, 0.0, 0.0, 0.4, 1.0], len(targets))
    return Variables(beta, targets - K @ beta, np.full(len(K), -C), np.full(len(K), C))


KINKS = [Kink(), Kink(epsilon=0.3), Kink(by_sign=True)]
every_kink = pytest.mark.parametrize("kink", KINKS, ids=["none", "tube", "by sign"])


@every_kink
def test_state_is_that_of_the_certificate(kink):
    K, y = kernel_of(50)
    at = kinked_variables(K, 2 * y, 1.0)
    totals = sums_of(at.beta, kink.by_sign)
    problem = Problem(PrecomputedKernelMatrix(K), 2 * y, at.lower, at.upper, kink.epsilon, totals)
    state, certificate = backend_of(K).state(at, kink), certify(problem, at.beta)
    assert_allclose(state.violation, certificate.kkt_violation)
    assert len(state.levels) == len(totals)


@every_kink
def test_pieces_are_where_the_objective_is_smooth(kink):
    """Along the pull of each sample the objective falls at that rate, by its definition."""
    K, y = kernel_of(40)
    at = kinked_variables(K, 2 * y, 1.0)
    backend = backend_of(K)
    state = backend.state(at, kink)
    piece = backend.pieces(at, kink, state, None)
    assert (piece.lower <= at.beta).all() and (at.beta <= piece.upper).all()

    def lagrangian(beta):
        value = 0.5 * beta @ K @ beta - 2 * y @ beta + kink.epsilon * np.abs(beta).sum()
        positive, negative = np.maximum(beta, 0).sum(), np.minimum(beta, 0).sum()
        return value + state.levels[0] * positive + state.levels[-1] * negative

    for t in range(40):
        step = 1e-6 * (1 if piece.upper[t] > at.beta[t] else -1)
        near = at.beta.copy()
        near[t] += step
        slope = (lagrangian(near) - lagrangian(at.beta)) / step
        assert_allclose(slope, -piece.residual[t], atol=1e-4)
    if kink.by_sign:
        held = backend.pieces(at, kink, state, 0)
        still = at.beta < 0
        assert_array_equal(held.lower[still], at.beta[still])
        assert_array_equal(held.upper[still], at.beta[still])


@every_kink
def test_sweep_never_increases_the_objective_and_keeps_residual_and_sums(kink):
    K, y = kernel_of(300, gamma=1.0)
    at, backend = kinked_variables(K, 2 * y, 3.0), backend_of(K, block_size=32)
    sums = sums_of(at.beta, kink.by_sign)

    def objective():
        value = 0.5 * at.beta @ K @ at.beta - 2 * y @ at.beta
        return value + kink.epsilon * np.abs(at.beta).sum()

    rng = np.random.default_rng(0)
    for number in range(10):
        before, state = objective(), backend.state(at, kink)
        order = order_of(backend, K, rng)
        only = number % 2 if kink.by_sign else None
        piece = backend.pieces(at, kink, state, only)
        index, _ = backend.working_sets(piece, order, 0.0, 0.0, rng.random())
        change = backend.pair_steps(K, piece, index, 0.1, 1e-4)
        products = backend.block_products(K, index, change)
        both = backend.couplings(piece, index, change, products)
        moved = Variables(at.beta, at.residual, piece.lower, piece.upper)
        backend.move(moved, index, change, products, step_lengths(both[:, :-1].copy(), both[:, -1]))
        assert objective() <= before + 1e-9
        assert_allclose(at.residual, 2 * y - K @ at.beta, atol=1e-9)
        assert (at.beta >= at.lower).all() and (at.beta <= at.upper).all()
        assert_allclose(sums_of(at.beta, kink.by_sign), sums, atol=1e-9)


@pytest.mark.parametrize("ridge", [1e-8, 0.1])
def test_newton_step_with_two_sums_is_the_minimum_under_bounds(ridge):
    K, y = kernel_of(60)
    kink, backend = Kink(by_sign=True), backend_of(K, panel=16)
    at = kinked_variables(K, y, 5.0)
    piece = backend.pieces(at, kink, backend.state(at, kink), None)
    A = K + ridge * np.eye(60)
    matrix = Matrix(lambda rows, columns: A[np.ix_(rows, columns)], lambda i, c: K[:, i] @ c, ridge)
    system, groups = FreeSystem(backend, matrix, lambda: False), groups_of(piece, kink)
    found = newton_change(system, piece, groups, np.arange(60), np.zeros(60, np.int64))
    change, products, settled = found
    assert settled
    assert_allclose(products, K @ change, atol=1e-9)
    beta, gradient = at.beta + change, piece.residual - A @ change
    for group in range(2):
        own = groups == group
        assert_allclose(change[own].sum(), 0.0, atol=1e-9)
        highest = gradient[own & (beta < piece.upper - 1e-8)].max()
        lowest = gradient[own & (beta > piece.lower + 1e-8)].min()
        assert highest - lowest <= 1e-6


@pytest.mark.parametrize("C", [0.5, 100.0])
def test_more_samples_than_fit_the_memory(C):
    """Parts of the samples are optimised in turn; the certificate is that of all of them."""
    K, y = kernel_of(900, gamma=0.5)
    problem = Problem(PrecomputedKernelMatrix(K), *c_svc(y, np.full(900, C)))
    solution = Sweeps().solve(problem, Run(cache_bytes=5 * 2**20))
    assert solution.details["samples_in_memory"] < 900 < 900 * solution.details["matrices"]
    assert oracle.kkt_violation(K, y, solution.beta * y, np.full(900, C)) <= 1e-3


@pytest.mark.parametrize("memory", [2**30, 5 * 2**20])
def test_passes_with_more_and_more_samples(memory, monkeypatch):
    """A part of the samples is optimised first; other samples come into the same matrix later."""
    monkeypatch.setattr(run, "_LEAST_PART", 50)
    monkeypatch.setattr(run, "_FEW", 1.0)
    K, y = kernel_of(900, gamma=0.5)
    problem = Problem(PrecomputedKernelMatrix(K), *c_svc(y, np.full(900, 10.0)))
    solution = Sweeps().solve(problem, Run(cache_bytes=memory))
    assert solution.details["matrices"] >= 3
    assert oracle.kkt_violation(K, y, solution.beta * y, np.full(900, 10.0)) <= 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_an_indefinite_kernel_comes_to_an_end_in_parts(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(900, 4)), np.where(rng.random(900) < 0.5, 1.0, -1.0)
    problem = Problem(
        PrecomputedKernelMatrix(np.tanh(0.8 * X @ X.T - 1.0)), *c_svc(y, np.full(900, 10.0))
    )
    solution = Sweeps().solve(problem, Run(cache_bytes=5 * 2**20))
    assert solution.status in (Status.CONVERGED, Status.STALLED)


def test_matrix_of_chosen_samples_and_exchange_of_some():
    K, _ = kernel_of(60)
    backend = backend_of(K)
    index = np.random.default_rng(0).permutation(60)[:40]
    matrix = backend.matrix(index)
    assert_array_equal(matrix, K[np.ix_(index, index)])
    others, places = np.setdiff1d(np.arange(60), index)[:7], np.array([0, 3, 8, 9, 20, 38, 39])
    index[places] = others
    backend.replace(matrix, index, places)
    assert_array_equal(matrix, K[np.ix_(index, index)])
    assert_array_equal(backend.block(others, index), K[np.ix_(others, index)])


def test_history_tells_the_objective_while_a_pass_goes_on():
    K, y = kernel_of(300, gamma=0.5)
    problem = Problem(PrecomputedKernelMatrix(K), *c_svc(y, np.full(300, 10.0)))
    seen = []

    class Watching(Monitor):
        def update(self, n_iter, violation, objective, beta, intercept):
            seen.append((objective, beta))

    Sweeps().solve(problem, Run(monitor=Watching()))
    objective, beta = seen[0]
    assert beta.any()
    assert_allclose(objective, 0.5 * beta @ K @ beta - y @ beta, rtol=1e-6)


def test_newton_steps_take_over(monkeypatch):
    monkeypatch.setattr(NumpyBackend, "block_size", 64)
    K, y = kernel_of(400, gamma=0.05)
    problem = Problem(PrecomputedKernelMatrix(K), *c_svc(y, np.full(400, 1e3)))
    solution = Sweeps().solve(problem, Run())
    assert solution.details["newton_steps"] > 0
    assert oracle.kkt_violation(K, y, solution.beta * y, np.full(400, 1e3)) <= 1e-3


# Where to compute.


def test_unknown_device():
    with pytest.raises(ValueError, match="device"):
        SVC(device="tpu").fit([[0.0], [1.0]], [0, 1])


def test_unknown_device_of_the_solver():
    with pytest.raises(ValueError, match="must be 'cpu' or 'cuda', got 'gpu'"):
        Sweeps(device="gpu")


def test_a_gpu_is_asked_for_in_vain(monkeypatch, binary):
    from maxmargin.kernels import cuda

    monkeypatch.setattr(cuda, "problem_with_cuda", lambda: "device='cuda' needs CuPy.")
    X, y = binary
    model = SVC(device="cuda")
    with pytest.raises(RuntimeError, match="needs CuPy"):
        model.fit(X, y)
    assert not hasattr(model, "support_")
    trained = SVC().fit(X, y).set_params(device="cuda")
    with pytest.raises(RuntimeError, match="needs CuPy"):
        trained.predict(X)


def test_samples_that_do_not_fit_a_card_are_told_of_before(monkeypatch):
    from types import SimpleNamespace

    from maxmargin.kernels import cuda

    card = SimpleNamespace(
        cuda=SimpleNamespace(runtime=SimpleNamespace(memGetInfo=lambda: (10**9, 2 * 10**9))),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 5 * 10**8),
    )
    monkeypatch.setattr(cuda, "load_cupy", lambda: card)
    cuda.check_fits(1_500_000_000)
    with pytest.raises(MemoryError, match=r"take 1.6 GB on the GPU, where 1.5 GB are free"):
        cuda.check_fits(1_600_000_000)


def test_auto_is_the_processor_where_the_data_are_few(binary):
    X, y = binary
    one, other = SVC(device="auto").fit(X, y), SVC().fit(X, y)
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize(
    ("options", "words"),
    [({"solver": "smo"}, "not with 'smo'"), ({"kernel": lambda A, B: A @ B.T}, "not a function")],
)
def test_what_a_gpu_does_not_do(options, words, binary):
    X, y = binary
    with pytest.raises(ValueError, match=words):
        SVC(device="cuda", **options).fit(X, y)


def test_no_gpu_for_dask_collections(binary):
    da = pytest.importorskip("dask.array")
    X, y = binary
    with pytest.raises(ValueError, match="Dask"):
        SVC(device="cuda").fit(da.from_array(X), da.from_array(y))


def test_sparse_and_dense_agree(sparse):
    X, y = sparse
    dense = SVC(solver="sweeps", tol=1e-6).fit(X.toarray(), y)
    csr = SVC(solver="sweeps", tol=1e-6).fit(sp.csr_array(X), y)
    assert_allclose(csr.decision_function(X), dense.decision_function(X.toarray()), atol=1e-4)


# Small pairs of classes together.


def batch_of(n_classes, per_class, C=5.0, tol=1e-4, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(n_classes), per_class)
    X = 1.5 * rng.normal(size=(n_classes, 4))[codes] + rng.normal(size=(len(codes), 4))
    first, second = np.triu_indices(n_classes, 1)
    bounds = np.concatenate([[0], np.cumsum(np.broadcast_to(per_class, n_classes))])
    costs = C * rng.uniform(0.5, 2.0, len(codes))
    problems = np.stack([first, first, second], axis=1)
    K = np.exp(-0.3 * cdist(X, X, "sqeuclidean"))
    return Batch(problems, bounds, codes, costs, True, tol=tol), K


@pytest.mark.parametrize("per_class", [1, 7, 40, [3, 90, 1, 60]])
@pytest.mark.parametrize("chunk", [2**28, 1])
def test_small_pairs_are_solved_to_tol(per_class, chunk, monkeypatch):
    """Each problem by its own definition, from the layout of the batch."""
    monkeypatch.setattr(sweeps_batch, "_CHUNK_VALUES", chunk)
    batch, K = batch_of(4, per_class)
    found = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: False, None)
    assert (found.status == CONVERGED).all()
    for number, (first, _, second) in enumerate(batch.problems):
        own = np.flatnonzero(np.isin(batch.codes, [first, second]))
        y = np.where(batch.codes[own] == first, 1.0, -1.0)
        beta = found.coefficients[batch.places(number, own)]
        own_K, costs = K[np.ix_(own, own)], batch.costs[own]
        violation = oracle.kkt_violation(own_K, y, beta * y, costs)
        assert violation <= batch.tol
        assert_allclose(found.kkt_violation[number], violation, atol=1e-9)
        assert_allclose(found.objective[number], 0.5 * beta @ own_K @ beta - y @ beta, atol=1e-9)
        assert found.n_support[number] == np.count_nonzero(beta)
        assert found.n_iter[number] > 0


def test_small_pairs_begin_where_they_are_told_and_stop_when_asked():
    batch, K = batch_of(3, 50)
    found = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: False, None)
    again = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: False, found.coefficients.copy())
    assert_array_equal(again.n_iter, 0)
    assert_array_equal(again.coefficients, found.coefficients)
    none = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: True, None)
    assert none.stopped.all() and not none.coefficients.any()


def test_pairs_that_are_large_or_slow_are_left_as_hard(monkeypatch):
    batch, K = batch_of(3, [50, 50, 5])
    monkeypatch.setattr(sweeps_batch, "_MOST_SAMPLES", 60)
    found = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: False, None)
    assert_array_equal(found.status, [HARD, CONVERGED, CONVERGED])
    monkeypatch.setattr(sweeps_batch, "_MOST_STEPS", 1)
    slow = sweeps_batch.solve_pairs(batch, backend_of(K), lambda: False, None)
    assert slow.status[1] == HARD and slow.kkt_violation[1] > batch.tol
    small = backend_of(K)
    small._memory = 100
    assert sweeps_batch.solve_pairs(batch, small, lambda: False, None) is None
