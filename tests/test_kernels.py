"""Kernel values: every block, row, product and expansion against the plain formulas."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from maxmargin import SVC, constants
from maxmargin.kernels import tiles as tiling
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import (
    _products,
    _sums,
    as_samples,
    origin,
    sparse,
    to_csr_if_sparse,
)
from maxmargin.kernels.samples.dense import DenseSamples
from maxmargin.kernels.samples.sparse import SparseSamples
from maxmargin.kernels.user_values import CallableKernelMatrix, PrecomputedKernelMatrix
from maxmargin.model import callable_expansion, kernel_expansion, precomputed_expansion
from maxmargin.parallel import session

FUNCTIONS = [
    KernelFunction("linear"),
    KernelFunction("rbf", 0.3),
    KernelFunction("rbf", 40.0),
    KernelFunction("sigmoid", 0.2, -0.5),
    *[KernelFunction("poly", 0.7, 1.3, degree) for degree in (0, 1, 2, 3, 4, 7)],
]
functions = pytest.mark.parametrize(
    "function", FUNCTIONS, ids=lambda f: f"{f.name}-{f.gamma}-{f.degree}"
)
precisions = pytest.mark.parametrize("dtype", [np.float32, np.float64])
storages = pytest.mark.parametrize("storage", ["dense", "sparse"])


def naive(A, B, function):
    return oracle.kernel_values(
        A, B, function.name, function.gamma, function.coef0, function.degree
    )


@pytest.fixture(autouse=True, scope="module")
def few_samples_may_be_sparse():
    """So that small data take the way of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origin, "_FEW_VALUES", 0)
        yield


def tolerance(dtype):
    return {"rtol": 2e-4, "atol": 2e-5} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-12}


def data(storage, n=37, d=20, seed=0):
    """Samples that are kept as they come: few non-zeros for sparse products, many for dense."""
    rng = np.random.default_rng(seed)
    if storage == "dense":
        return rng.normal(size=(n, d))
    return sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.15))


# The matrix that solvers see.


@functions
@storages
@precisions
@pytest.mark.parametrize("tiles", [(256, 1024), (7, 16)])
def test_feature_matrix(function, storage, dtype, tiles, monkeypatch):
    monkeypatch.setattr(constants, "TILE_ROWS", tiles[0])
    monkeypatch.setattr(constants, "TILE_COLUMNS", tiles[1])
    monkeypatch.setattr(tiling, "_WORTH_SUMMING", tiles[0] // 32)
    X = data(storage)
    K = FeatureKernelMatrix(X, function, dtype)
    assert isinstance(K._samples, SparseSamples if storage == "sparse" else DenseSamples)
    expected = naive(X, X, function)
    check_matrix(K, expected, tolerance(dtype))
    chosen = np.array([30, 2, 17, 5, 5, 11, 36, 0])
    part = K.restrict(chosen)
    check_matrix(part, expected[np.ix_(chosen, chosen)], tolerance(dtype))
    of_part = np.array([6, 1, 0])
    check_matrix(
        part.restrict(of_part),
        expected[np.ix_(chosen[of_part], chosen[of_part])],
        tolerance(dtype),
    )


def check_matrix(K, expected, loose):
    n = len(expected)
    rng = np.random.default_rng(1)
    index = rng.permutation(n)[: max(2, n // 2)]
    tight = {"rtol": 1e-11, "atol": 1e-12}
    assert K.n == n
    diagonal = K.diagonal()
    assert diagonal.dtype == np.float64
    assert_allclose(diagonal, np.diagonal(expected), **tight)
    check_blocks(K, expected, index, rng, loose, tight)
    # Products that certificates rely on are always float64.
    coefficients, some = rng.normal(size=len(index)), rng.permutation(n)[: max(1, n // 3)]
    scale = np.abs(expected[:, index]).max() * np.abs(coefficients).sum()
    for rows in (None, some, np.empty(0, int)):
        exact = (expected if rows is None else expected[rows])[:, index] @ coefficients
        product = K.multiply(index, coefficients, rows, precise=True)
        assert product.dtype == np.float64
        assert_allclose(product, exact, atol=1e-13 * max(1.0, scale))
        product = K.multiply(index, coefficients, rows)
        assert product.dtype == np.float64
        assert_allclose(product, exact, atol=1e-11 + loose["rtol"] * scale)
        for precise in (False, True):
            empty = K.multiply(np.empty(0, int), np.empty(0), rows, precise=precise)
            assert_array_equal(empty, np.zeros(len(exact)))


def check_blocks(K, expected, index, rng, loose, tight):
    n = len(expected)
    for columns in (None, rng.permutation(n)[: max(1, n // 3)], index):
        values = expected[index] if columns is None else expected[np.ix_(index, columns)]
        block = K.block(index, columns)
        assert block.dtype == K.dtype
        assert_allclose(block, values, **loose)
        block = K.block(index, columns, dtype=np.float64)
        assert block.dtype == np.float64
        assert_allclose(block, values, **tight)
        for dtype in (None, np.float64):
            slots = rng.permutation(len(index) + 3)[: len(index)]
            out = np.full((len(index) + 3, values.shape[1]), 7.5, dtype or K.dtype)
            assert K.block(index, columns, dtype, out, slots) is out
            assert_allclose(out[slots], values, **(tight if dtype else loose))
            assert (out[np.setdiff1d(np.arange(len(out)), slots)] == 7.5).all()
            out = np.full((len(index) + 3, values.shape[1]), 7.5, dtype or K.dtype)
            K.block(index, columns, dtype, out[: len(index)])
            assert_allclose(out[: len(index)], values, **(tight if dtype else loose))
            assert (out[len(index) :] == 7.5).all()


def test_precomputed_matrix():
    X = data("dense")
    for dtype in (np.float64, np.float32, np.float16, int):
        K = (10 * oracle.kernel_values(X, X, gamma=0.1)).astype(dtype)
        check_matrix(PrecomputedKernelMatrix(K), K.astype(float), {"rtol": 1e-6})
        chosen = np.array([3, 30, 4, 9, 21])
        part = PrecomputedKernelMatrix(K).restrict(chosen)
        check_matrix(part, K.astype(float)[np.ix_(chosen, chosen)], {"rtol": 1e-6})


def test_precomputed_matrix_need_not_be_copied():
    K = np.eye(5)
    assert PrecomputedKernelMatrix(K).K is K


@pytest.mark.parametrize("kind", ["dense", "sparse", "list"])
def test_callable_matrix(kind, monkeypatch):
    monkeypatch.setattr(constants, "TILE_ROWS", 7)
    X = data("dense" if kind == "list" else kind)
    samples = list(X) if kind == "list" else X
    sizes = []

    def function(A, B):
        sizes.append(A.shape[0] if hasattr(A, "shape") else len(A))
        A, B = (np.array(part) if kind == "list" else part for part in (A, B))
        return oracle.kernel_values(A, B, gamma=0.2)

    K = CallableKernelMatrix(samples, function)
    expected = oracle.kernel_values(X, X, gamma=0.2)
    chosen = np.array([3, 30, 4, 9, 21])
    K.block(chosen)
    assert max(sizes) <= 7  # never all samples at a time
    check_matrix(K, expected, {"rtol": 1e-11})
    check_matrix(K.restrict(chosen), expected[np.ix_(chosen, chosen)], {"rtol": 1e-11})


def test_callable_of_the_wrong_shape_gets_a_sentence():
    with pytest.raises(ValueError, match=r"returned an array of shape \(3,\)"):
        CallableKernelMatrix(np.ones((4, 2)), lambda A, B: np.ones(3)).diagonal()


def test_evaluations_are_counted_for_subsets_too():
    K = FeatureKernelMatrix(data("dense"), KernelFunction("rbf", 1.0), np.float32)
    K.block(np.arange(4))
    assert K.evaluations == 4 * 37
    K.multiply(np.arange(3), np.ones(3), precise=True)
    part = K.restrict(np.arange(10))
    part.block(np.arange(5), np.arange(5), np.float64)
    assert part.evaluations == K.evaluations == 4 * 37 + 3 * 37 + 25


@storages
@pytest.mark.parametrize("kernel", ["rbf", "poly", "sigmoid"])
def test_values_of_two_samples_of_a_product_count_for_both(monkeypatch, storage, kernel):
    """Whichever tiles they are in: the sum over all values, with the same bits on all threads."""
    monkeypatch.setattr(tiling, "_SYMMETRIC_PARTS", 2)
    monkeypatch.setattr(constants, "TILE_COLUMNS", 50)
    X, rng = data(storage, 260), np.random.default_rng(3)
    K = FeatureKernelMatrix(X, KernelFunction(kernel, 0.3, 0.1, 3), np.float32)
    values = oracle.kernel_values(X, X, kernel, 0.3, 0.1, 3)
    for n_index in (1, 63, 64, 65, 200, 260):
        index, coefficients = rng.permutation(260)[:n_index], rng.normal(size=n_index)
        order, products = np.argsort(index), []
        for threads in (1, 3):
            with session(threads):
                products.append(K.multiply(index[order], coefficients[order], precise=True))
        assert_array_equal(*products)
        allowed = 1e-13 * np.abs(values[:, index]) @ np.abs(coefficients) + 1e-15
        assert (np.abs(products[0] - values[:, index] @ coefficients) <= allowed).all()
        unsorted = K.multiply(index, coefficients, precise=True)
        assert (np.abs(unsorted - products[0]) <= allowed).all()


@storages
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
@pytest.mark.parametrize("n", [37, 1500])
def test_linear_product_needs_no_kernel_values(storage, dtype, n):
    """Through the weight vector, as exact as a sum over float64 kernel values."""
    X = (20 * data(storage, n)).astype(dtype)
    K = FeatureKernelMatrix(X, KernelFunction("linear"), np.float32)
    rng = np.random.default_rng(2)
    for part in (K, K.restrict(rng.permutation(n)[: n // 2])):
        index = rng.permutation(part.n)[: part.n // 3]
        coefficients = rng.normal(size=len(index)) * 10.0 ** rng.integers(-3, 4, len(index))
        before = part.evaluations
        product = part.multiply(index, coefficients, precise=True)
        assert part.evaluations == before
        values = part.block(index, dtype=np.float64).T
        scale = np.abs(values) @ np.abs(coefficients)
        assert_allclose(product, values @ coefficients, rtol=0, atol=1e-13 * scale.max())


@storages
def test_threads_do_not_change_the_bits(storage, monkeypatch):
    monkeypatch.setattr(constants, "TILE_ROWS", 5)
    monkeypatch.setattr(constants, "TILE_COLUMNS", 16)
    X = data(storage)
    for function in (KernelFunction("rbf", 0.3), KernelFunction("linear")):
        results = []
        for threads in (1, 3):
            with session(threads):
                K = FeatureKernelMatrix(X, function, np.float32)
                product = K.multiply(np.arange(30), np.linspace(-1, 1, 30), precise=True)
                results.append((K.block(np.arange(37)), product))
        assert_array_equal(results[0][0], results[1][0])
        assert_array_equal(results[0][1], results[1][1])


def test_overflow_gets_a_sentence():
    with pytest.raises(ValueError, match="large values"):
        FeatureKernelMatrix(1e200 * np.eye(3), KernelFunction("linear"), np.float64)


# The exponential that is written out.


@pytest.mark.parametrize(("dtype", "units"), [(np.float32, 4), (np.float64, 4)])
def test_exponential_in_units_of_the_last_place(dtype, units):
    exponents = -np.concatenate([np.linspace(0, 1, 2001), np.geomspace(1e-9, 80, 4001)])
    exact = np.exp(exponents.astype(dtype).astype(np.float64))
    # With norms of zero the kernel value is exp(2γ⟨a, b⟩), so the exponent is given exactly.
    values = (exponents.astype(dtype) / 2)[np.newaxis]
    zeros = np.zeros(len(exponents), dtype)
    KernelFunction("rbf", 1.0).from_products(values, zeros[:1], zeros)
    errors = np.abs(values[0].astype(np.float64) - exact) / np.spacing(exact.astype(dtype))
    assert errors.max() <= units


@precisions
def test_hyperbolic_tangent_in_units_of_the_last_place(dtype):
    rng = np.random.default_rng(0)
    scales = [rng.normal(scale=scale, size=5000) for scale in (1e-30, 1e-3, 0.5, 1.0, 30.0, 1e30)]
    x = np.concatenate([*scales, [0.0, 0.5, -0.5, np.inf, -np.inf]]).astype(dtype)
    kernel, zeros = KernelFunction("sigmoid", 1.0), np.zeros(len(x), dtype)
    values = kernel.from_products(x[np.newaxis].copy(), zeros[:1], zeros)[0]
    exact = np.tanh(x.astype(np.longdouble))
    assert (np.abs(values - exact) <= 6 * np.spacing(np.abs(exact).astype(dtype))).all()
    assert (np.abs(values) <= 1).all()
    undefined = np.full((1, 3), np.nan, dtype)
    assert np.isnan(kernel.from_products(undefined, zeros[:1], zeros[:3])).all()


@precisions
def test_rbf_stays_between_zero_and_one(dtype):
    far = np.array([[0.0], [1e-30], [1.0], [30.0], [1e6], [3e15]])
    K = FeatureKernelMatrix(far, KernelFunction("rbf", 5.0), dtype)
    rows = K.block(np.arange(6))
    assert ((rows >= 0) & (rows <= 1)).all()
    assert_allclose(np.diagonal(rows)[:4], 1.0, rtol=1e-5)
    assert rows[0, 4] == 0.0


@precisions
def test_rbf_far_from_the_origin_keeps_its_digits(dtype):
    """‖a‖² + ‖b‖² − 2⟨a, b⟩ cancels there, so the samples are centred first."""
    near = np.random.default_rng(0).normal(size=(20, 3))
    function = KernelFunction("rbf", 0.5)
    rows = FeatureKernelMatrix(near + 1e5, function, dtype).block(np.arange(20))
    assert_allclose(rows, naive(near + 1e5, near + 1e5, function), atol=1e-5)
    values = kernel_expansion(function, near + 1e5, near[:7] + 1e5, np.ones((7, 1)))
    assert_allclose(values[:, 0], naive(near, near[:7], function).sum(axis=1), atol=1e-8)


# Samples: storage follows the density, and both kinds agree.


def test_storage_follows_density_not_container():
    mostly_zero, full = data("sparse"), data("dense")
    assert isinstance(as_samples(mostly_zero, np.float64), SparseSamples)
    assert isinstance(as_samples(mostly_zero.toarray(), np.float64), SparseSamples)
    assert isinstance(as_samples(full, np.float64), DenseSamples)
    assert isinstance(as_samples(sp.csr_array(full), np.float64), DenseSamples)


def test_dense_data_of_the_right_type_is_not_copied():
    X = data("dense").astype(np.float32)
    assert as_samples(X, np.float32).X is X


@st.composite
def sparse_pairs(draw):
    """Two CSR matrices with as many columns; empty rows and empty matrices of columns occur."""
    n_left, n_right = draw(st.integers(1, 70)), draw(st.integers(1, 70))
    d = draw(st.integers(1, 33))
    density = draw(st.sampled_from([0.0, 0.05, 0.3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    left, right = (
        sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < density))
        for n in (n_left, n_right)
    )
    start = draw(st.integers(0, n_right - 1))
    return left, right, slice(start, draw(st.integers(start + 1, n_right)))


# Features and bytes of a panel beyond which samples are in groups, and features have places.
widths = st.sampled_from([(0, 2**21), (0, 0), (2**15, 0), (2**15, 2**21)])


@given(sparse_pairs(), st.sampled_from([np.float32, np.float64]), widths)
def test_sparse_products(pair, dtype, wide):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_WIDE_FEATURES", wide[0])
        patch.setattr(sparse, "_PANEL_BYTES", wide[1])
        patch.setattr(sparse, "_GROUP_ROWS", 1)
        check_sparse_products(*pair, dtype)


def check_sparse_products(left, right, columns, dtype):
    left, right = SparseSamples(left, dtype), SparseSamples(right, dtype)
    # A margin around the result shows whether vector stores write beyond it.
    out = np.full((left.n + 2, columns.stop - columns.start), 9.0, dtype)
    right.products(left, columns, out[1:-1])
    expected = to_dense(left) @ to_dense(right)[columns].T
    assert_allclose(out[1:-1], expected, atol=1e-4 if dtype == np.float32 else 1e-12)
    assert (out[[0, -1]] == 9.0).all()
    assert_allclose(left.norms, (to_dense(left) ** 2).sum(axis=1), rtol=1e-5)


@given(sparse_pairs(), st.sampled_from([np.float32, np.float64]), st.floats(0.01, 3), widths)
def test_sums_of_rbf_values_that_are_not_stored(pair, dtype, gamma, wide):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "_WIDE_FEATURES", wide[0])
        patch.setattr(sparse, "_PANEL_BYTES", wide[1])
        patch.setattr(sparse, "_GROUP_ROWS", 1)
        patch.setattr(sparse, "_REDUCED_ROWS", 16)
        check_sums(*pair, dtype, gamma)


def check_sums(basis, targets, rows, dtype, gamma):
    coefficients = np.random.default_rng(0).normal(size=basis.shape[0])
    expected = naive(targets, basis, KernelFunction("rbf", gamma))[rows] @ coefficients
    # A margin around the result shows whether the padding of a panel is added as well.
    out = np.full(len(expected) + 2, 9.0)
    stored = SparseSamples(basis, dtype)
    for _ in range(2):  # the second time with the panel that the first has left
        stored.add_rbf_expansion(
            gamma, coefficients, SparseSamples(targets, dtype), rows, out[1:-1]
        )
    assert_allclose(out[1:-1] - 9.0, 2 * expected, atol=1e-4 if dtype == np.float32 else 1e-12)
    assert_array_equal(out[[0, -1]], 9.0)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "g", ">f8", ">i4", "i1", "u8", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_input_to_csr_if_sparse_is_kept_as_sparse(dtype, order):
    X = (10 * data("sparse", n=5000, d=16).toarray()).astype(dtype)
    X[7] = 0
    if X.dtype.kind == "f":
        X[-1, -1] = np.nan  # not a zero: others will complain of it
    for threads in (1, 2):
        with session(threads):
            compact = to_csr_if_sparse(np.asarray(X, order=order))
        assert compact.dtype == (np.float32 if dtype == "f4" else np.float64)
        assert compact.has_canonical_format
        assert_array_equal(compact.toarray(), X)
        assert compact.nnz == np.count_nonzero(X)
    for unchanged in (data("dense"), X[:, :15], compact):
        assert to_csr_if_sparse(unchanged) is unchanged


def to_dense(stored):
    shape = (stored.n, stored.n_features)
    return sp.csr_array((stored.data, stored.indices, stored.indptr), shape).toarray()


@precisions
def test_sparse_products_at_every_padding(dtype):
    """All counts of rows around the width of a panel, and of columns around that of a tile."""
    lanes = _products.panel_width(dtype)
    X = data("sparse", n=2 * lanes + 3, d=19)
    stored = SparseSamples(X, dtype)
    expected = (X @ X.T).toarray()
    for n_rows in (1, lanes // 2, lanes - 1, lanes, lanes + 1, 2 * lanes, 2 * lanes + 1):
        left = stored.subset(np.arange(n_rows))
        for n_columns in (1, lanes // 2 - 1, lanes // 2, lanes // 2 + 1, lanes, 2 * lanes + 3):
            out = np.full((n_rows, n_columns), np.nan, dtype)
            stored.products(left, slice(0, n_columns), out)
            assert_allclose(out, expected[:n_rows, :n_columns], atol=1e-5)


@precisions
def test_sums_of_rbf_values_at_every_padding(dtype):
    """All counts of targets around the width of a panel, and of samples summed at once."""
    lanes = _sums.panel_width(dtype)
    X = data("sparse", n=2 * lanes + 3, d=19)
    stored, values = SparseSamples(X, dtype), naive(X, X, KernelFunction("rbf", 0.2))
    coefficients = np.random.default_rng(0).normal(size=X.shape[0])
    for n in (1, 15, 16, 17, 33):
        basis = stored.subset(np.arange(n))
        expected = values[:, :n] @ coefficients[:n]
        for n_targets in (0, 1, lanes - 1, lanes, lanes + 1, 2 * lanes + 3):
            sums = np.zeros(n_targets)
            basis.add_rbf_expansion(0.2, coefficients[:n], stored, slice(0, n_targets), sums)
            atol = 1e-5 if dtype == np.float32 else 1e-13
            assert_allclose(sums, expected[:n_targets], atol=atol)


@precisions
@pytest.mark.parametrize("gamma", [0.0, 1e-30, 0.3, 1e6])
def test_values_in_sums_have_all_digits_from_one_down_to_nothing(dtype, gamma):
    """The error of a value is the rounding of its exponent x, |x| units, and two more."""
    exponents = np.concatenate([[0.0, 1e-12], np.linspace(0.01, 900.0, 4000)])
    lengths = np.sqrt(exponents / gamma) if gamma else exponents
    samples = SparseSamples(sp.csr_array(lengths[:, np.newaxis]), dtype)
    origin = SparseSamples(sp.csr_array((1, 1)), dtype)
    sums = np.zeros(samples.n)
    origin.add_rbf_expansion(gamma, np.ones(1), samples, slice(0, samples.n), sums)
    exact = -dtype(gamma).astype(np.float64) * samples.data.astype(np.float64) ** 2
    expected, x = np.exp(np.append([0.0], exact)), np.append([0.0], exact)
    limits = np.finfo(dtype)
    error = np.abs(sums - expected) - 4 * limits.tiny
    assert (error <= (2 + 3 * np.abs(x)) * limits.eps * expected).all()
    assert sums.max() <= 1.0


@pytest.mark.parametrize("threads", [1, 2])
def test_subsets_of_sparse_samples_are_copied_in_parts(threads, monkeypatch):
    monkeypatch.setattr(sparse, "_TAKEN_ROWS", 10)
    X = data("sparse", n=37)
    for index in ([], [5], np.arange(36, -1, -1), np.repeat(np.arange(37), 2)):
        with session(threads):
            part = SparseSamples(X, np.float64).subset(np.array(index, np.int64))
        assert_array_equal(to_dense(part), X.toarray()[np.array(index, np.int64)])


@pytest.mark.parametrize("features", [[], [1, 3, 5, 7, 8]])
def test_panel_is_cleared_between_two_uses(features):
    """Features that have places are put there in their order, behind the place of all others."""
    places = np.zeros(9 if features else 0, np.int32)
    panel = np.zeros((6, _products.panel_width(np.float64)))
    X = sp.csr_array(np.array([[1.0, 0, 2, 0, 0], [0, 0, 3, 0, 4]]))
    indices, indptr = X.indices, X.indptr.astype(np.int64)
    if features:
        indices = np.array(features, np.int32)[indices]
    _products.fill_panel(X.data, indices, indptr, 0, 2, places, panel)
    expected = X.toarray().T[[1, 0, 2, 4]] if features else X.toarray().T
    assert_array_equal(panel[: len(expected), :2], expected)
    _products.clear_panel(indices, indptr, 0, 2, places, panel)
    assert not panel.any()
    assert not places.any()


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from(FUNCTIONS), st.integers(0, 2**16))
def test_kernel_matrices_are_symmetric_and_right(n, d, function, seed):
    X = np.random.default_rng(seed).normal(size=(n, d))
    every = np.arange(n)
    block = FeatureKernelMatrix(X, function, np.float32).block(every, every, np.float64)
    assert_allclose(block, block.T, rtol=1e-12, atol=1e-12)
    assert_allclose(block, naive(X, X, function), rtol=1e-9, atol=1e-11)


# The model.


@functions
@storages
@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_expansion(function, storage, stored):
    """Samples and support vectors, each of either kind."""
    X, basis = data(storage, n=300), data(stored, n=23, seed=4)
    coefficients = np.random.default_rng(3).normal(size=(23, 2))
    values = kernel_expansion(function, X, basis, coefficients)
    assert_allclose(values, naive(X, basis, function) @ coefficients, rtol=1e-9, atol=1e-10)


def test_expansion_without_support_vectors_is_zero():
    values = kernel_expansion(
        KernelFunction("rbf"), np.ones((3, 2)), np.empty((0, 2)), np.empty((0, 1))
    )
    assert_array_equal(values, np.zeros((3, 1)))


def test_expansion_of_precomputed_and_callable_kernels():
    X, X_fit = data("dense", n=9), data("dense", n=12, seed=2)
    support, coefficients = np.array([1, 5, 11]), np.array([[1.0], [-2.0], [0.5]])
    K = oracle.kernel_values(X, X_fit, gamma=0.1)
    assert_allclose(precomputed_expansion(K, support, coefficients), K[:, support] @ coefficients)
    values = callable_expansion(
        lambda A, B: sp.csr_array(oracle.kernel_values(A, B, gamma=0.1)),
        X, X_fit, support, coefficients,
    )  # fmt: skip
    assert_allclose(values, K[:, support] @ coefficients)


# Neighbours far from the origin: their distances do not come from their norms.


def distant(storage, scale, n=60, d=24, seed=0):
    """Clusters at ± `scale` in each feature, with repeated samples and near-duplicates."""
    rng = np.random.default_rng(seed)
    centres = scale * rng.choice([-1.0, 1.0], size=(4, d))
    if storage == "sparse":
        centres *= rng.random((4, d)) < 0.25
    X = centres[np.arange(n) % 4]
    X = X + rng.normal(size=X.shape) * (X != 0)
    X[n // 2 :] = X[: n - n // 2]
    X[n // 2 : n // 2 + 8] += 1e-3 * (X[:8] != 0)
    X[-1] = 0.0
    return sp.csr_array(X) if storage == "sparse" else X


@storages
@precisions
@pytest.mark.parametrize("scale", [30.0, 3e3, 1e6, 1e9])
def test_rbf_of_neighbours_far_from_the_origin(storage, dtype, scale):
    X = distant(storage, scale)
    dense = X.toarray() if storage == "sparse" else X
    function = KernelFunction("rbf", 0.3)
    expected = np.exp(-0.3 * ((dense[:, None] - dense[None]) ** 2).sum(axis=2))
    # Centred samples are rounded like the samples themselves.
    exact = 1e-9 + 100 * np.finfo(float).eps * scale
    rough = 2e-3 if dtype == np.float32 else exact
    K = FeatureKernelMatrix(X, function, dtype)
    rows = K.block(np.arange(K.n))
    assert_allclose(rows, expected, atol=rough)
    index, c = np.arange(0, K.n, 2), np.linspace(-2, 2, 30)
    for part, values in [(K, expected), (K.restrict(index), expected[np.ix_(index, index)])]:
        some = np.arange(part.n)[: len(c)]
        block = part.block(some, some, np.float64)
        assert_allclose(block, values[np.ix_(some, some)], atol=exact)
        product = part.multiply(some, c, precise=True)
        assert_allclose(product, values[:, some] @ c, atol=60 * exact)
        assert_allclose(part.multiply(some, c), values[:, some] @ c, atol=60 * rough)
    values = kernel_expansion(function, X, X[index], c[:, np.newaxis])[:, 0]
    assert_allclose(values, expected[:, index] @ c, atol=60 * exact)
    if 0.3 * scale**2 > 1e7:
        repeated = np.arange(K.n // 2 + 8, K.n - 1)
        assert (rows[repeated, repeated - K.n // 2] == 1.0).all()
        block = K.block(np.arange(K.n), dtype=np.float64)
        assert (block[repeated, repeated - K.n // 2] == 1.0).all()
        assert K.feature_major() is None


def test_certificate_of_duplicates_far_from_the_origin():
    """Before, values of duplicates were off by more than tol, in the certificate too."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 10))
    y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1.0, -1.0)
    X += 1e6 * rng.choice([-1.0, 1.0], size=(2, 10))[np.arange(600) % 2]
    X[300:] = X[:300]
    model = SVC(gamma=0.05, C=10).fit(X, y)
    K = np.exp(-0.05 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    alpha = np.zeros(600)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    violation = oracle.kkt_violation(K, y, alpha, np.full(600, 10.0))
    assert model.fit_report_.status == "converged" and violation <= 1e-3 + 1e-6
    assert_allclose(model.fit_report_.kkt_violation, violation, atol=1e-6)


def test_one_sample_far_from_all_others_costs_the_others_no_digits():
    X = np.random.default_rng(0).normal(size=(50, 3))
    X[7] = 1e8
    expected = naive(X, X, KernelFunction("rbf", 0.5))
    for dtype in (np.float32, np.float64):
        K = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), dtype)
        rows = K.block(np.arange(50))
        assert_allclose(rows, expected, atol=1e-6 if dtype == np.float32 else 1e-13)


def test_distances_do_not_depend_on_the_order_of_features_in_sparse_rows():
    X = distant("sparse", 1e7)
    shuffled = X.copy()
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        shuffled.data[part], shuffled.indices[part] = X.data[part][::-1], X.indices[part][::-1]
    function, every = KernelFunction("rbf", 0.3), np.arange(X.shape[0])
    block = FeatureKernelMatrix(shuffled, function, np.float64).block(every)
    assert_array_equal(block, FeatureKernelMatrix(X, function, np.float64).block(every))


# Wide data: nothing grows with the number of features that do not occur.


def wide(width, n=300, nonzeros=40, seed=0):
    """Sparse rows, half of their features among a thousand, and the same rows without the gaps."""
    rng = np.random.default_rng(seed)
    few = np.sort(rng.choice(width, 1000, replace=False))
    columns = [
        np.unique(np.concatenate([rng.choice(few, nonzeros // 2), rng.integers(0, width, 20)]))
        for _ in range(n)
    ]
    indptr = np.cumsum([0, *map(len, columns)])
    X = sp.csr_array((rng.normal(size=indptr[-1]), np.concatenate(columns), indptr), (n, width))
    _, numbers = np.unique(X.indices, return_inverse=True)
    return X, sp.csr_array((X.data, numbers, X.indptr))


@pytest.mark.parametrize("function", [*FUNCTIONS[:2], FUNCTIONS[4]], ids=lambda f: f.name)
def test_expansion_of_wide_data(function):
    X, narrow = wide(2**30, n=60)
    coefficients = np.random.default_rng(3).normal(size=(9, 2))
    values = kernel_expansion(function, X, X[:9], coefficients)
    assert_allclose(values, naive(narrow, narrow[:9], function) @ coefficients, atol=1e-10)


def test_a_wide_linear_model_has_sparse_weights():
    X, _ = wide(100_000, n=60)
    model = SVC(kernel="linear", decision_function_shape="ovo").fit(X, np.arange(60) % 3)
    assert model.coef_.nnz < 60 * 41 * 3
    values = (X @ model.coef_.T).toarray() + model.intercept_
    assert_allclose(values, model.decision_function(X))


@precisions
@pytest.mark.parametrize("width", [40_000, 150_000, 2**30])
@pytest.mark.parametrize("function", [*FUNCTIONS[:2], *FUNCTIONS[3:5]], ids=lambda f: f.name)
def test_wide_data(function, width, dtype):
    X, narrow = wide(width, n=90)
    expected = naive(narrow, narrow, function)
    K = FeatureKernelMatrix(X, function, dtype)
    check_matrix(K, expected, tolerance(dtype))
    chosen = np.arange(0, 90, 3)
    check_matrix(K.restrict(chosen), expected[np.ix_(chosen, chosen)], tolerance(dtype))


@pytest.mark.parametrize("wide_features", [0, 2**17])
def test_wide_and_narrow_data_have_the_same_bits(monkeypatch, wide_features):
    X, narrow = wide(50_000)
    monkeypatch.setattr(sparse, "_WIDE_FEATURES", wide_features)
    index, c = np.arange(0, 300, 2), np.linspace(-1, 1, 150)
    results = []
    for data_of in (X, narrow):
        K = FeatureKernelMatrix(data_of, KernelFunction("rbf", 0.01), np.float32)
        product = K.multiply(index, c, precise=True)
        results.append((K.block(np.arange(300)), product, K.block(index, index, np.float64)))
    for first, second in zip(*results):
        assert_array_equal(first, second)


def test_memory_follows_the_features_that_occur():
    X, _ = wide(2_000_000, n=400)
    y = np.arange(400) % 2
    tracemalloc.start()
    try:
        model = SVC(gamma=0.01, n_jobs=2, cache_size=10).fit(X, y)
        model.decision_function(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert model.fit_report_.status == "converged"
    assert peak < 60 * 2**20  # with panels of all features 256 MB for each thread


@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_the_linear_kernel_need_no_kernel_values(container, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 30)) * (rng.random((700, 30)) < 0.3)
    kernel = FeatureKernelMatrix(container(X), KernelFunction("linear"), dtype)
    index, rows = rng.choice(700, 90, replace=False), rng.choice(700, 250, replace=False)
    factors = rng.normal(size=90)
    expected, before = X @ (X[index].T @ factors), kernel.counter.n
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    for matrix, numbers in ((kernel, np.arange(700)), (kernel.restrict(rows), rows)):
        inside = np.flatnonzero(np.isin(index, numbers))
        places = np.array([np.flatnonzero(numbers == k)[0] for k in index[inside]])
        wanted = X[numbers] @ (X[index[inside]].T @ factors[inside])
        np.testing.assert_allclose(matrix.multiply(places, factors[inside]), wanted, atol=tolerance)
    np.testing.assert_allclose(
        kernel.multiply(index, factors, rows), expected[rows], atol=tolerance
    )
    precise = kernel.multiply(index, factors, rows, precise=True)
    np.testing.assert_allclose(precise, expected[rows], atol=1e-11)
    assert kernel.counter.n == before
