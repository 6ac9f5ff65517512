"""Kernel rows from samples stored feature by feature, against the plain formulas."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import oracle
from maxmargin.kernels.feature_major import TILE, kernel_values
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix

FUNCTIONS = [
    KernelFunction("linear"),
    KernelFunction("rbf", 0.3),
    KernelFunction("poly", 0.2, 1.3, 2),
    KernelFunction("sigmoid", 0.2, -0.5),
]


def samples(kind, n=90, d=70, seed=0):
    """Bits in more than one word, or numbers; few non-zeros, or many."""
    rng = np.random.default_rng(seed)
    density, numbers = {"few bits": (0.1, 0.5), "many bits": (0.4, 1.0)}.get(kind, (0.1, None))
    X = (rng.random((n, d)) < density).astype(float)
    if kind == "many numbers":
        return rng.normal(size=(n, d))
    return X * (rng.normal(size=(n, d)) if numbers is None else numbers)


def row(kernel, i, start=0, stop=None):
    own = kernel.feature_major()
    out = np.empty((kernel.n if stop is None else stop) - start, kernel.dtype)
    sample, norm = own.table[:, i].copy(), own.norms[i : i + 1]
    kernel_values(own.table, own.norms, *own.parameters, sample, norm, start, out)
    return out


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
@pytest.mark.parametrize("kind", ["few bits", "many bits", "few numbers", "many numbers"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_the_formulas(function, kind, dtype):
    X = samples(kind)
    kernel = FeatureKernelMatrix(X, function, dtype)
    assert (kernel.feature_major().table.dtype == np.uint64) == kind.endswith("bits")
    expected = oracle.kernel_values(
        X, X, function.name, function.gamma, function.coef0, function.degree
    )
    close = {"rtol": 2e-4, "atol": 2e-5} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-12}
    for i in (0, 17, 89):
        assert_allclose(row(kernel, i), expected[i], **close)
    assert_array_equal(row(kernel, 5, 30, 77), row(kernel, 5)[30:77])


def test_containers_give_the_same_bits():
    X = samples("few numbers")
    function = FUNCTIONS[1]
    dense = FeatureKernelMatrix(X, function, np.float32)
    sparse = FeatureKernelMatrix(sp.csr_array(X), function, np.float32)
    assert_array_equal(row(dense, 3), row(sparse, 3))


def test_a_subset_has_its_own_columns():
    kernel = FeatureKernelMatrix(samples("few bits"), FUNCTIONS[1], np.float64)
    kept = np.array([4, 8, 50, 51])
    part = kernel.feature_major().restrict(kept)
    again = kernel.restrict(kept).feature_major()
    assert_array_equal(part.table, again.table)
    assert_array_equal(part.norms, again.norms)


def test_samples_without_any_feature():
    kernel = FeatureKernelMatrix(sp.csr_array((5, 20)), FUNCTIONS[1], np.float32)
    assert_array_equal(row(kernel, 2), np.ones(5))


def test_none_where_there_are_no_features():
    assert PrecomputedKernelMatrix(np.eye(3)).feature_major() is None


def test_rows_of_several_tiles():
    X = samples("few bits", n=2 * TILE + 5)
    kernel = FeatureKernelMatrix(X, FUNCTIONS[1], np.float32)
    expected = kernel.block(np.array([TILE + 1]))
    assert_array_equal(row(kernel, TILE + 1), expected[0])
