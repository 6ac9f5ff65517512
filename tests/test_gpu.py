"""On an NVIDIA GPU: every operation against its NumPy twin, and whole fits against the oracle.

Run by `make test-gpu`; elsewhere these tests are skipped and say why.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification

import oracle
from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.kernels.cuda import problem_with_cuda
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.solvers.sweeps.numpy_backend import NumpyBackend
from maxmargin.solvers.sweeps.pieces import Kink, Variables

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(problem_with_cuda() is not None, reason=str(problem_with_cuda())),
]
KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 3},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.02, "coef0": 0.1},
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
precisions = pytest.mark.parametrize(("dtype", "atol"), [(np.float64, 1e-12), (np.float32, 2e-4)])


def functions_of(kernel):
    options = dict(KERNELS[kernel])
    return KernelFunction(options.pop("kernel"), **options)


def samples(n, d=5, seed=0):
    X, y = make_classification(
        n, max(d, 2), n_informative=2, n_redundant=0, flip_y=0.15, random_state=seed
    )
    return X[:, :d] / 2, np.where(y == 1, 1.0, -1.0)


def matrices(X, kernel="rbf"):
    from maxmargin.kernels.cuda.kernel_matrix import CudaKernelMatrix

    function = functions_of(kernel)
    return CudaKernelMatrix(X, function), FeatureKernelMatrix(X, function, np.float64)


# Kernel values.


@every_kernel
@precisions
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (33, 5), (700, 33), (300, 96), (300, 97)])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_blocks_and_products(kernel, dtype, atol, n, d, container):
    X = np.random.default_rng(n).normal(size=(n, d)) / np.sqrt(d)
    ours, _ = matrices(container(X), kernel)
    rows, columns = np.arange(0, n, 2), np.arange(n)[::-1]
    expected = oracle.kernel_values(X, X, **KERNELS[kernel])
    block = ours.block(rows, columns, dtype)
    assert block.dtype == dtype
    assert_allclose(block, expected[np.ix_(rows, columns)], atol=atol)
    assert_allclose(ours.diagonal(), expected.diagonal(), atol=1e-12)
    coefficients = np.random.default_rng(1).normal(size=n)
    product = ours.multiply(columns, coefficients, precise=dtype == np.float64)
    assert_allclose(product, expected[:, columns] @ coefficients, atol=100 * atol)
    part = ours.multiply(columns, coefficients, rows=rows, precise=True)
    assert_allclose(part, expected[np.ix_(rows, columns)] @ coefficients, atol=1e-10)
    subset = ours.restrict(columns[:1]).restrict(np.array([0]))
    assert_allclose(subset.block(np.array([0]), dtype=np.float64), expected[-1:, -1:], atol=1e-12)


@every_kernel
@precisions
@pytest.mark.parametrize("n", [1, 63, 64, 129, 500])
@pytest.mark.parametrize("with_tiles", [True, False])
def test_whole_matrix_of_samples(kernel, dtype, atol, n, with_tiles, monkeypatch):
    """Where it is computed by tiles, half of it is copied, and every value is written once."""
    import cupy as cp

    from maxmargin.kernels.cuda import tiles

    monkeypatch.setattr(tiles, "_MOST_FEATURES", 96 if with_tiles else 0)
    X = np.random.default_rng(n).normal(size=(n, 7)) / np.sqrt(7)
    ours, _ = matrices(X, kernel)
    index = np.random.default_rng(0).permutation(n)
    out = cp.full((n, n), cp.nan, dtype)
    ours.on_card_matrix(cp.asarray(index), dtype, out)
    expected = oracle.kernel_values(X, X, **KERNELS[kernel])[np.ix_(index, index)]
    assert_allclose(out.get(), expected, atol=atol)
    assert_array_equal(out.get(), out.get().T)


def test_nothing_to_multiply():
    ours, _ = matrices(samples(10)[0])
    empty = np.zeros(0, np.int64)
    assert_array_equal(ours.multiply(empty, np.zeros(0)), np.zeros(10))
    assert ours.block(empty).shape == (0, 10)


def test_values_far_from_the_origin_keep_their_digits():
    X = samples(50)[0] + 1e4
    ours, _ = matrices(X)
    expected = oracle.kernel_values(X, X, **KERNELS["rbf"])
    assert_allclose(ours.block(np.arange(50)), expected, atol=1e-4)


# The operations of the solver.


SMOOTH = Kink()


def twins(n, dtype, block_size=64, kink=SMOOTH):
    """The same operations and the same point on the processor and on the card."""
    import cupy as cp

    from maxmargin.solvers.sweeps.cupy_backend import CupyBackend

    X, y = samples(n)
    ours, theirs = matrices(X)
    card, host = CupyBackend(ours), NumpyBackend(theirs, 2**30)
    card.block_size = host.block_size = block_size
    K = oracle.kernel_values(X, X, **KERNELS["rbf"])
    rng, C = np.random.default_rng(0), 2.0
    beta = C * y * rng.choice([0.0, 0.3, 1.0], n)
    lower, upper = np.minimum(0.0, C * y), np.maximum(0.0, C * y)
    if kink != SMOOTH:
        lower, upper = np.full(n, -C), np.full(n, C)
    at = Variables(beta, y - K @ beta, lower, upper)
    arrays = (at.beta, at.residual, at.lower, at.upper)
    there = Variables(*(cp.asarray(array.copy()) for array in arrays))
    return card, host, cp.asarray(K.astype(dtype)), K, there, at


@precisions
@pytest.mark.parametrize(("n", "limit"), [(3, 4), (63, 1), (64, 4), (65, 2), (500, 3), (500, 20)])
@pytest.mark.parametrize("kink", [SMOOTH, Kink(epsilon=0.2), Kink(by_sign=True)], ids=str)
def test_a_sweep_operation_by_operation(n, limit, kink, dtype, atol):
    import cupy as cp

    card, host, K_card, K, there, at = twins(n, dtype, kink=kink)
    card.max_blocks = host.max_blocks = limit
    mine, theirs = card.state(there, kink), host.state(at, kink)
    assert_allclose(mine.violations, theirs.violations, atol=1e-12)
    assert_allclose(mine.levels, theirs.levels, atol=1e-12)
    assert mine.n_free == theirs.n_free
    only = theirs.worst if kink.by_sign else None
    whole, there_whole = at, there
    at, there = host.pieces(at, kink, theirs, only), card.pieces(there, kink, theirs, only)
    for name in ("beta", "residual", "lower", "upper"):
        assert_array_equal(getattr(there, name).get(), getattr(at, name))
    order = np.random.default_rng(1).permutation(n)
    options = (0.05 * theirs.violation, 0.1 * theirs.violation, 0.3)
    index, n_above = host.working_sets(at, order, *options)
    index_card, n_above_card = card.working_sets(there, cp.asarray(order), *options)
    assert_array_equal(index_card.get(), index)
    assert n_above_card == n_above
    steps = (0.1, 1e-3)
    change = host.pair_steps(K, at, index, *steps)
    if dtype == np.float64:
        assert_allclose(card.pair_steps(K_card, there, index_card, *steps).get(), change, atol=1e-9)
    moved = cp.asarray(change)
    products = host.block_products(K, index, change)
    products_card = card.block_products(K_card, index_card, moved)
    assert_allclose(products_card.get(), products, atol=10 * atol)
    both = host.couplings(at, index, change, products)
    assert_allclose(
        card.couplings(there, index_card, moved, products_card), both, atol=100 * atol, rtol=1e-5
    )
    lengths = np.linspace(0, 1, len(index))
    at = Variables(whole.beta, whole.residual, at.lower, at.upper)
    there = Variables(there_whole.beta, there_whole.residual, there.lower, there.upper)
    host.move(at, index, change, products, lengths)
    card.move(there, index_card, moved, products_card, lengths)
    assert_allclose(there.beta.get(), at.beta, atol=1e-12)
    assert_allclose(there.residual.get(), at.residual, atol=10 * atol)


@precisions
@pytest.mark.parametrize("m", [224, 256, 288, 2048])
def test_pair_steps_end_at_their_tolerance(m, dtype, atol):
    """Whatever the size of the working set, which may not be a whole number of warps."""
    card, _, K_card, K, there, at = twins(200, dtype, block_size=m)
    import cupy as cp

    index = np.full((1, m), -1)
    index[0, :200] = np.arange(200)
    index = cp.asarray(index)
    blocks = card.own_blocks(K_card, index)
    change, taken = card.steps(blocks, there, index, 0.0, 1e-2, 5000)
    change = change.get()[0, :200]
    assert 0 < int(taken[0]) < 5000
    beta = at.beta + change
    assert_allclose(change.sum(), 0.0, atol=1e-9)
    assert (beta >= at.lower).all() and (beta <= at.upper).all()
    residual = at.residual - K @ change
    violation = residual[beta < at.upper].max() - residual[beta > at.lower].min()
    assert violation <= 1e-2 + atol


@precisions
@pytest.mark.parametrize("n", [1, 2, 300])
def test_matrix_operations(n, dtype, atol):
    import cupy as cp

    card, host, K_card, K, _, _ = twins(max(n, 3), dtype)
    index = np.arange(0, n)
    coefficients = np.random.default_rng(0).normal(size=n)
    product = card.matrix_product(K_card, cp.asarray(index), cp.asarray(coefficients))
    assert_allclose(product.get(), K[:, index] @ coefficients, atol=10 * atol)
    part = card.submatrix(K_card, index[::-1], index)
    assert part.dtype == np.float64
    assert_allclose(part.get(), K[np.ix_(index[::-1], index)], atol=atol)
    landmarks, places = np.arange(min(n, 3)), np.arange(min(n, 3))[::-1].copy()
    keys = card.nearest(K_card[: len(landmarks)].copy(), landmarks, places).get()
    expected = host.nearest(K.astype(dtype)[: len(landmarks)], landmarks, places)
    assert_allclose(keys, expected, atol=1e-4)
    A = K[:n, :n] + np.eye(n)
    L, inverse = card.cholesky(cp.asarray(A))
    assert_allclose(L.get(), np.linalg.cholesky(A), atol=1e-12)
    assert_allclose(inverse.get() @ L.get(), np.eye(n), atol=1e-10)
    assert card.cholesky(cp.asarray(A - 3 * np.eye(n))) is None
    right = np.ones((n, 2))
    solved = card.solve_definite(cp.asarray(A), index, right)
    assert_allclose(solved, np.linalg.solve(A, right), atol=1e-10)


@precisions
def test_matrix_of_chosen_samples_and_exchange_of_some(dtype, atol, monkeypatch):
    import cupy as cp

    from maxmargin.kernels.cuda import kernel_matrix
    from maxmargin.solvers.sweeps import cupy_backend

    monkeypatch.setattr(cupy_backend, "BLOCK_VALUES", 100)
    monkeypatch.setattr(kernel_matrix, "BLOCK_VALUES", 100)
    card, _, _, K, _, _ = twins(60, dtype)
    card.dtype = np.dtype(dtype)
    index = np.random.default_rng(0).permutation(60)[:40]
    matrix = card.matrix(cp.asarray(index))
    assert matrix.dtype == dtype
    assert_allclose(matrix.get(), K[np.ix_(index, index)], atol=1e-6)
    others, places = np.setdiff1d(np.arange(60), index)[:7], np.array([0, 3, 8, 9, 20, 38, 39])
    index[places] = others
    card.replace(matrix, cp.asarray(index), cp.asarray(places))
    assert_allclose(matrix.get(), K[np.ix_(index, index)], atol=1e-6)
    block = card.block(cp.asarray(others), cp.asarray(index))
    assert_allclose(block.get(), K[np.ix_(others, index)], atol=1e-6)


# Whole fits.


@every_kernel
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_optimal_to_tol(kernel, C, tol):
    X, y = samples(120)
    model = SVC(C=C, tol=tol, device="cuda", **KERNELS[kernel]).fit(X, y)
    K = oracle.kernel_values(X, X, **KERNELS[kernel])
    oracle.check_optimal(model, K, y, np.full(len(y), C), tol)
    report = model.fit_report_
    assert (report.status, report.solver) == ("converged", "sweeps")
    assert "GPU" in report.problems[0].reason
    on_host = SVC(C=C, tol=tol, **KERNELS[kernel]).fit(X, y)
    assert_allclose(model.decision_function(X), on_host.decision_function(X), atol=20 * tol)


@pytest.mark.parametrize("C", [1.0, 1e4])
def test_thousands_of_samples(C):
    X, y = samples(3000)
    model = SVC(C=C, gamma=0.5, device="cuda").fit(X, y)
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    oracle.check_optimal(model, K, y, np.full(len(y), C), 1e-3)


def test_more_samples_than_the_memory_holds():
    X, y = samples(3000)
    model = SVC(C=10.0, gamma=0.5, device="cuda", cache_size=24).fit(X, y)
    details = model.fit_report_.problems[0].details
    assert details["samples_in_memory"] < 3000 and details["matrices"] > 1
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    oracle.check_optimal(model, K, y, np.full(len(y), 10.0), 1e-3)


def test_passes_with_more_and_more_samples(monkeypatch):
    from maxmargin.solvers.sweeps import run

    monkeypatch.setattr(run, "_LEAST_PART", 100)
    monkeypatch.setattr(run, "_FEW", 1.0)
    X, y = samples(3000)
    model = SVC(C=10.0, gamma=0.5, device="cuda", cache_size=24).fit(X, y)
    assert model.fit_report_.problems[0].details["matrices"] >= 3
    K = np.exp(-0.5 * cdist(X, X, "sqeuclidean"))
    oracle.check_optimal(model, K, y, np.full(len(y), 10.0), 1e-3)


def test_columns_side_by_side_in_memory():
    """Samples whose columns are contiguous, as other libraries hand them over."""
    import cupy as cp

    X, y = samples(200)
    by_columns = cp.asarray(np.asfortranarray(X))
    one = SVC(device="cuda", tol=1e-6).fit(by_columns, y)
    assert_allclose(
        one.decision_function(X), SVC(tol=1e-6).fit(X, y).decision_function(X), atol=1e-4
    )


def test_weights(binary):
    X, y = binary
    weights = np.random.default_rng(2).uniform(0.0, 3.0, len(y))
    options = {"C": 2.0, "gamma": 0.4, "tol": 1e-6, "class_weight": {1: 3.0}}
    card = SVC(device="cuda", **options).fit(X, y, weights)
    host = SVC(**options).fit(X, y, weights)
    assert_allclose(card.decision_function(X), host.decision_function(X), atol=1e-4)


KINDS = [
    (SVR, {"C": 10.0, "epsilon": 0.1}),
    (SVR, {"C": 1e3, "epsilon": 0.01}),
    (NuSVR, {"C": 10.0, "nu": 0.4}),
    (NuSVC, {"nu": 0.4}),
    (OneClassSVM, {"nu": 0.1}),
]


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("n", [120, 2500])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_other_kinds(kind, options, n, weighted):
    """Optimal by the certificate of the processor, and the same model as there."""
    import cupy as cp

    X, labels = samples(n)
    y = labels if kind is NuSVC else X[:, 0] ** 2 + 0.3 * X[:, 1]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, n) if weighted else None
    options = {"gamma": 0.3, "tol": 1e-4, **options}
    card = kind(device="cuda", **options).fit(X, y, weights)
    host = kind(**options).fit(X, y, weights)
    assert (card.fit_report_.status, card.fit_report_.solver) == ("converged", "sweeps")
    assert_allclose(card.fit_report_.objective, host.fit_report_.objective, rtol=1e-4)
    method = "predict" if kind in (SVR, NuSVR) else "decision_function"
    values, expected = getattr(card, method)(X), getattr(host, method)(X)
    assert_allclose(values, expected, atol=2e-2 * np.abs(expected).max())
    on_card = getattr(card, method)(cp.asarray(X))
    assert isinstance(on_card, cp.ndarray)
    assert_array_equal(on_card.get(), values)


def test_kinds_train_on_arrays_of_the_card():
    import cupy as cp

    X, y = samples(200)
    one, other = (SVR(device="cuda", random_state=0) for _ in range(2))
    one.fit(cp.asarray(X), cp.asarray(y)), other.fit(X, y)
    assert_array_equal(one.predict(X), other.predict(X))
    with pytest.raises(ValueError, match="device='cpu'"):
        OneClassSVM().fit(cp.asarray(X))


@pytest.mark.parametrize("form", ["ovo", "ovr"])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_predictions_of_many_classes(form, multi_class, monkeypatch):
    """By blocks of classes and by chunks of rows, as on the processor."""
    from maxmargin.kernels.cuda import expansion

    if (multi_class, form) == ("ovr", "ovo"):
        pytest.skip("a model of one against the rest has no pairs")
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(12), 15)
    X = rng.normal(size=(12, 6))[y] + 0.8 * rng.normal(size=(180, 6))
    model = SVC(multi_class=multi_class, decision_function_shape=form, tol=1e-5).fit(X, y)
    values, labels = model.decision_function(X), model.predict(X)
    monkeypatch.setattr(expansion, "_CHUNK_BYTES", 8 * 66 * 50)
    model.set_params(device="cuda")
    assert_allclose(model.decision_function(X), values, atol=1e-9)
    assert_array_equal(model.predict(X), labels)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("shape", ["ovo", "ovr"])
def test_many_classes(multi_class, shape, three):
    X, y = three
    if (multi_class, shape) == ("ovr", "ovo"):
        pytest.skip("a model of one against the rest has no pairs")
    options = {"tol": 1e-6, "multi_class": multi_class, "decision_function_shape": shape}
    card, host = SVC(device="cuda", **options).fit(X, y), SVC(**options).fit(X, y)
    assert_allclose(card.decision_function(X), host.decision_function(X), atol=1e-3)
    assert_array_equal(card.predict(X), host.predict(X))


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_small_pairs_of_classes_are_one_job(container):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(10), 60)
    X = container(1.2 * rng.normal(size=(10, 6))[y] + rng.normal(size=(600, 6)))
    weights = rng.uniform(0.5, 2.0, 600)
    options = {"C": 10.0, "tol": 1e-5, "gamma": 0.2}
    card = SVC(device="cuda", **options).fit(X, y, weights)
    host = SVC(**options).fit(X, y, weights)
    report = card.fit_report_
    assert (report.status, report.solver) == ("converged", "sweeps")
    assert "together on the GPU" in report.problems[0].reason
    assert report.kkt_violation <= 1e-5
    values, expected = card.decision_function(X), host.decision_function(X)
    assert_allclose(values, expected, atol=1e-3)
    assert_array_equal(card.predict(X), host.predict(X))
    card.set_params(warm_start=True).fit(X, y, weights)
    assert_array_equal(card.n_iter_, 0)
    with pytest.warns(match="time_limit"):
        SVC(device="cuda", time_limit=1e-9).fit(X, y)


def test_hard_pairs_of_classes_are_solved_one_by_one(monkeypatch):
    from maxmargin.solvers.sweeps import batch

    monkeypatch.setattr(batch, "_MOST_STEPS", 5)
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 100)
    X = rng.normal(size=(3, 4))[y] + rng.normal(size=(300, 4))
    card, host = SVC(device="cuda", tol=1e-5).fit(X, y), SVC(tol=1e-5).fit(X, y)
    assert card.fit_report_.status == "converged"
    assert_allclose(card.decision_function(X), host.decision_function(X), atol=1e-3)


@every_kernel
def test_sparse_samples(kernel, sparse):
    X, y = sparse
    options = {"tol": 1e-6} | KERNELS[kernel]
    card, host = SVC(device="cuda", **options).fit(X, y), SVC(**options).fit(X, y)
    assert sp.issparse(card.support_vectors_)
    assert_allclose(card.decision_function(X), host.decision_function(X), atol=1e-3)


def test_precomputed(binary):
    X, y = binary
    K = oracle.kernel_values(X, X, gamma=0.4)
    card = SVC(kernel="precomputed", device="cuda", tol=1e-6).fit(K, y)
    host = SVC(gamma=0.4, tol=1e-6).fit(X, y)
    assert_allclose(card.decision_function(K), host.decision_function(X), atol=1e-4)


def test_arrays_on_the_card_stay_there(binary):
    import cupy as cp

    X, y = binary
    on_card = cp.asarray(X)
    model = SVC(device="cuda", tol=1e-6).fit(on_card, cp.asarray(y))
    host = SVC(tol=1e-6).fit(X, y)
    values, labels = model.decision_function(on_card), model.predict(on_card)
    assert isinstance(values, cp.ndarray) and isinstance(labels, cp.ndarray)
    assert_allclose(values.get(), host.decision_function(X), atol=1e-4)
    assert_array_equal(labels.get(), host.predict(X))
    assert isinstance(model.decision_function(X), np.ndarray)
    with pytest.raises(ValueError, match="device='cpu'"):
        SVC().fit(on_card, y)
    with pytest.raises(ValueError, match="device='cpu'"):
        host.predict(on_card)


def test_tensors_on_the_card(binary):
    torch = pytest.importorskip("torch")
    X, y = binary
    model = SVC(device="cuda", tol=1e-6).fit(torch.asarray(X, device="cuda"), y)
    assert_allclose(
        model.decision_function(X), SVC(tol=1e-6).fit(X, y).decision_function(X), atol=1e-4
    )


def test_names_of_classes_stay_on_the_host(three):
    import cupy as cp

    X, y = three
    model = SVC(device="cuda").fit(cp.asarray(X), y)
    assert_array_equal(model.predict(cp.asarray(X)), SVC().fit(X, y).predict(X))


def test_same_bits():
    X, y = samples(2000)
    one, other = (SVC(C=100.0, device="cuda", random_state=1).fit(X, y) for _ in range(2))
    assert_array_equal(one.dual_coef_, other.dual_coef_)
    assert_array_equal(one.decision_function(X), other.decision_function(X))


def test_predictions_in_chunks(monkeypatch):
    from maxmargin.kernels.cuda import expansion

    X, y = samples(300)
    model = SVC(device="cuda").fit(X, y)
    expected = model.decision_function(X)
    monkeypatch.setattr(expansion, "_CHUNK_BYTES", 8 * X.shape[1] * 7)
    assert_array_equal(model.decision_function(X), expected)


def test_warm_start_and_limits():
    X, y = samples(2000)
    model = SVC(C=100.0, device="cuda", max_iter=2)
    with pytest.warns(match="max_iter"):
        model.fit(X, y)
    assert model.fit_report_.n_iter == 2
    cold = SVC(C=100.0, device="cuda").fit(X, y).fit_report_
    warm = SVC(C=100.0, device="cuda", warm_start=True).fit(X, y).fit(X, y).fit_report_
    assert warm.status == "converged" and warm.n_iter <= 1 < cold.n_iter


def test_memory_is_given_back():
    import cupy as cp

    X, y = samples(2000)
    SVC(device="cuda").fit(X, y)
    pool = cp.get_default_memory_pool()
    used = pool.used_bytes()
    SVC(device="cuda").fit(X, y)
    assert pool.used_bytes() <= used + 2**20


def test_bad_input_changes_nothing():
    import cupy as cp

    X, y = samples(50)
    model = SVC(device="cuda").fit(X, y)
    before = model.decision_function(X)
    X_bad = cp.asarray(X)
    X_bad[3, 1] = cp.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X_bad, y)
    assert_array_equal(model.decision_function(X), before)
