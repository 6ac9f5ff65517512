"""Standardised categories are multiplied as sparse: the origin moves where the kernel allows it."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as SklearnSVC

import oracle
from maxmargin import SVC
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples import are_dense, as_samples
from maxmargin.kernels.samples import origin as origins
from maxmargin.kernels.samples.origin import sparse_origin


@pytest.fixture(autouse=True, scope="module")
def few_samples_may_be_sparse():
    """So that small data take the way of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(origins, "_FEW_VALUES", 0)
        yield


def standardised_categories(n=300, d=40, share=0.15, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    raw = (rng.random((n, d)) < share).astype(float)
    y = raw @ rng.normal(size=d) + 0.3 * rng.normal(size=n) > 0
    return StandardScaler().fit_transform(raw).astype(dtype), y


@pytest.mark.parametrize("n", [2, 40, 300])
def test_categories_are_sparse_from_their_commonest_values(n):
    X, _ = standardised_categories()
    sparse, origin = sparse_origin(X[:n], movable=True)
    assert sparse
    assert np.count_nonzero(X[:n] - origin) <= 0.4 * n * 40
    assert not are_dense(X[:n], movable=True)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_few_samples_are_dense_in_either_container(monkeypatch, storage):
    monkeypatch.setattr(origins, "_FEW_VALUES", 600)
    X = storage((np.random.default_rng(0).random((31, 20)) < 0.1).astype(float))
    assert as_samples(X, np.float64, movable=True).is_sparse
    assert not as_samples(X[:30], np.float64, movable=True).is_sparse
    assert as_samples(storage(np.eye(2, 100)), np.float64).is_sparse
    kernel = FeatureKernelMatrix(X[:30], KernelFunction("rbf", 0.1), np.float64)
    assert kernel.row_source() is not None
    expected = oracle.kernel_values(kernel.X, kernel.X, "rbf", gamma=0.1)
    assert_allclose(kernel.block(np.arange(30)), expected, rtol=1e-12)


def test_other_data_stay_dense():
    rng = np.random.default_rng(0)
    continuous = rng.normal(size=(300, 40))
    categories, _ = standardised_categories()
    assert are_dense(continuous, movable=True)
    assert are_dense(np.hstack([continuous, categories]), movable=True)
    assert are_dense(categories, movable=False)
    assert are_dense(categories[:, :10], movable=True)  # too few features to be worth it
    assert are_dense(categories[:0], movable=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("given", [np.float32, np.float64, ">f8"])
def test_values_are_those_of_the_formula(dtype, given):
    X, _ = standardised_categories(dtype=given)
    function = KernelFunction("rbf", 0.02)
    kernel = FeatureKernelMatrix(X, function, dtype)
    assert kernel._samples.is_sparse
    expected = oracle.kernel_values(X, X, "rbf", gamma=0.02)
    index = np.array([3, 0, 299, 17])
    loose = 1e-12 if dtype == np.float64 else 3e-6
    assert_allclose(kernel.block(index), expected[index], rtol=0, atol=loose)
    assert_allclose(kernel.block(index, dtype=np.float64), expected[index], rtol=0, atol=1e-12)
    coefficients = np.array([1.0, -2.0, 0.5, 3.0])
    sums = kernel.multiply(index, coefficients, precise=True)
    assert_allclose(sums, coefficients @ expected[index], rtol=0, atol=1e-11)
    part = kernel.restrict(index)
    assert_allclose(part.block(np.arange(4)), expected[np.ix_(index, index)], rtol=0, atol=loose)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_other_rows_move_along(container):
    """The rows of a prediction need have nothing to do with those of the model."""
    X, _ = standardised_categories()
    others = np.random.default_rng(1).normal(size=(20, 40))
    samples = as_samples(X, np.float64, movable=True)
    moved = samples.like(container(others))
    distances = samples.norms[:, None] + moved.norms - 2 * products(samples, moved)
    expected = ((X[:, None, :] - others) ** 2).sum(axis=2)
    assert_allclose(distances, expected, rtol=1e-11)


def products(left, right):
    out = np.empty((left.n, right.n))
    right.products(left, slice(0, right.n), out)
    return out


def test_containers_give_the_same_bits():
    X, y = standardised_categories()
    dense, sparse = SVC().fit(X, y), SVC().fit(sp.csr_array(X), y)
    assert_array_equal(dense.dual_coef_, sparse.dual_coef_.toarray())
    assert_array_equal(dense.decision_function(X), sparse.decision_function(sp.csr_array(X)))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_fit_and_predictions_are_those_of_scikit_learn(n_classes):
    X, y = standardised_categories(n=400)
    if n_classes > 2:
        y = np.arange(len(y)) % 2 + 2 * y
    ours, theirs = SVC(tol=1e-6).fit(X, y), SklearnSVC(tol=1e-6).fit(X, y)
    assert ours.fit_report_.status == "converged"
    assert_array_equal(ours.predict(X), theirs.predict(X))
    for rows in (X[:1], X[:4], X[:50], X):
        expected = theirs.decision_function(rows)
        assert_allclose(ours.decision_function(rows), expected, atol=1e-4)
    assert_array_equal(ours.support_vectors_, X[ours.support_])
