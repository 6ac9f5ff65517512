"""Sums of Gaussians without kernel values, beside sums of all values."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from maxmargin import SVC, SVR, OneClassSVM
from maxmargin.kernels import gauss_transform
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.gauss_transform import cost_within, gauss_sums
from maxmargin.parallel import session
from maxmargin.sparse_format import densified


@pytest.fixture
def always(monkeypatch):
    """The transform wherever it is possible, however few the samples are."""
    monkeypatch.setattr(gauss_transform, "_WORTH_IT", np.inf)
    monkeypatch.setattr(gauss_transform, "_MOMENTS_PER_SAMPLE", np.inf)


def direct(gamma, sources, coefficients, targets):
    """The definition, in extended precision."""
    difference = targets[:, np.newaxis].astype(np.longdouble) - sources
    return np.exp(-gamma * (difference**2).sum(axis=2)) @ coefficients


def clouds(n, d, seed, scale=1.0):
    random = np.random.default_rng(seed)
    centres = random.normal(size=(4, d))
    return scale * (centres[random.integers(4, size=n)] + 0.3 * random.normal(size=(n, d)))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("scale, gamma", [(1.0, 0.5), (1e4, 0.5e-8), (1e-3, 5e5), (1.0, 1e-9)])
def test_sums_agree_with_kernel_values(always, d, scale, gamma):
    sources, targets = clouds(60, d, 0, scale), 7.0 * scale + clouds(90, d, 1, scale)
    sources = np.vstack([sources, 7.0 * scale + sources])  # some of them near, some far
    coefficients = np.random.default_rng(2).normal(size=(120, 2))
    sums = gauss_sums(gamma, sources, coefficients, targets.__getitem__, 90)
    expected = direct(gamma, sources, coefficients, targets)
    assert np.abs(sums - expected).max() <= 1e-13 * np.abs(coefficients).sum(axis=0).max()


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 130])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_samples_of_one_box_side_by_side(always, d, n):
    """Registers that are full or not, and sources without a coefficient between the others."""
    X = np.random.default_rng(n).random((n, d))
    coefficients = np.where(np.arange(n) % 3 == 1, 0.0, 1.0 + np.arange(n))[:, np.newaxis]
    sums = gauss_sums(0.1, X, coefficients, X.__getitem__, n)
    expected = direct(0.1, X, coefficients, X)
    assert np.abs(sums - expected).max() <= 1e-13 * coefficients.sum()


def test_the_corners_of_samples_are_those_of_numpy():
    parts = [clouds(50, 3, seed) for seed in (0, 1)]
    low, high = gauss_transform.corners(parts)
    assert_array_equal(low, np.vstack(parts).min(axis=0))
    assert_array_equal(high, np.vstack(parts).max(axis=0))
    for value in (np.nan, np.inf):
        parts[1][3, 1] = value
        assert np.isnan(gauss_transform.corners(parts)).all()


def test_samples_at_the_ends_of_boxes(always):
    side = math.sqrt(0.5 / 2.0)  # of a box, for γ = 2
    steps = side * np.arange(6)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    coefficients = np.linspace(-1.0, 1.0, len(grid))[:, np.newaxis]
    sums = gauss_sums(2.0, grid, coefficients, grid.__getitem__, len(grid))
    assert_allclose(sums, direct(2.0, grid, coefficients, grid), atol=1e-13)


def test_a_constant_feature_and_one_sample(always):
    X = np.column_stack([np.full(30, 3.0), clouds(30, 1, 0)])
    sums = gauss_sums(1.0, X[:1], np.ones((1, 1)), X.__getitem__, 30)
    assert_allclose(sums, direct(1.0, X[:1], np.ones((1, 1)), X), atol=1e-14)


def bound(side, nodes, d):
    """The bound of the module's description, at the best of some ellipses."""
    rho = np.linspace(1.1, 40.0, 4000)
    one = (4.0 * np.exp(side * (rho - 1 / rho) ** 2 / 16) * rho**-nodes / (rho - 1)).min()
    amplified = 1.0 + 2.0 / math.pi * math.log(nodes + 1)
    return 2 * d * amplified ** (2 * d - 1) * one


def test_the_error_is_that_of_rounding():
    bounds = [bound(gauss_transform._SIDE, gauss_transform._NODES, d) for d in (1, 2, 3)]
    assert bounds[0] < 3e-16 and bounds[1] < 4e-15 and bounds[2] < 5e-14


@pytest.mark.parametrize("gamma", [1e12, np.inf, np.nan])
def test_too_many_boxes_are_none(always, gamma):
    X = clouds(50, 2, 0)
    assert gauss_sums(gamma, X, np.ones((50, 1)), X.__getitem__, 50) is None


@pytest.mark.parametrize("d", [1, 2])
def test_a_long_line_of_boxes_is_none(d):
    X = np.zeros((20_000, d))
    X[:, 0] = np.linspace(0.0, 2000.0, 20_000)
    assert gauss_sums(0.5, X, np.ones((20_000, 1)), X.__getitem__, 20_000) is None


def test_no_distance_counts_with_a_gamma_of_zero(always):
    X = clouds(50, 2, 0)
    assert_allclose(gauss_sums(0.0, X, np.ones((50, 1)), X.__getitem__, 50), 50.0)


def test_few_samples_and_many_features_are_left_to_values():
    X = clouds(50, 2, 0)
    assert gauss_sums(1.0, X, np.ones((50, 1)), X.__getitem__, 50) is None
    wide = clouds(5000, 4, 0)
    assert gauss_sums(1.0, wide, np.ones((5000, 1)), wide.__getitem__, 5000) is None
    assert cost_within(1.0, X.min(axis=0), X.max(axis=0), 50, 50) == np.inf
    assert cost_within(1.0, X.min(axis=0), X.max(axis=0), 5000, 5000) < 5000 * 5000


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("precise", [True, False])
def test_products_of_a_matrix_compute_no_values(dtype, precise):
    X = 5.0 + clouds(3000, 2, 0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), dtype)
    index, rows = np.arange(0, 3000, 2), np.arange(500, 2900)
    coefficients = np.random.default_rng(0).normal(size=len(index))
    product = kernel.multiply(index, coefficients, rows, precise=precise)
    assert kernel.evaluations == 0
    assert kernel.values_of_product(len(index), len(rows)) < 0.5 * len(index) * len(rows)
    expected = kernel.block(rows[:100], index, dtype=np.float64) @ coefficients
    assert_allclose(product[:100], expected, atol=1e-11 if precise else 1e-3)


def test_threads_do_not_change_the_bits():
    X, coefficients = clouds(40_000, 2, 0), np.random.default_rng(0).normal(size=(40_000, 1))
    results = []
    for threads in (1, 2, 3):
        with session(threads):
            results.append(gauss_sums(0.5, X, coefficients, X.__getitem__, 40_000))
    assert_array_equal(results[0], results[1])
    assert_array_equal(results[0], results[2])


@pytest.mark.parametrize(
    "n_classes, shape, multi_class",
    [(2, "ovr", "ovo"), (3, "ovo", "ovo"), (3, "ovr", "ovo"), (3, "ovr", "ovr")],
)
def test_predictions(monkeypatch, n_classes, shape, multi_class):
    X = clouds(600, 2, 0)
    y = np.random.default_rng(1).integers(n_classes, size=600)
    model = SVC(gamma=0.5, decision_function_shape=shape, multi_class=multi_class).fit(X, y)
    there = clouds(2500, 2, 3)
    values, labels = model.decision_function(there), model.predict(there)
    calls = []
    prepare = gauss_transform.GaussSums.prepare

    def counted(*arguments):
        calls.append(prepare(*arguments))
        return calls[-1]

    monkeypatch.setattr(gauss_transform, "_WORTH_IT", np.inf)
    monkeypatch.setattr(gauss_transform.GaussSums, "prepare", counted)
    assert_allclose(model.decision_function(there), values, atol=1e-10)
    assert_array_equal(model.predict(there), labels)
    assert calls and None not in calls


def test_regression_and_its_certificate(monkeypatch):
    X = clouds(1500, 2, 0)
    y = np.sin(3.0 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=1500)
    fast = SVR(C=10.0, gamma=2.0, epsilon=0.01).fit(X, y)
    monkeypatch.setattr(gauss_transform, "_WORTH_IT", 0.0)
    slow = SVR(C=10.0, gamma=2.0, epsilon=0.01).fit(X, y)
    assert fast.fit_report_.status == slow.fit_report_.status == "converged"
    assert_allclose(fast.fit_report_.objective, slow.fit_report_.objective, rtol=1e-6)
    beta = np.zeros(1500)
    beta[fast.support_] = fast.dual_coef_[0]
    residual = y - direct(2.0, X, beta, X)
    up = np.where(beta < 10.0, residual - np.where(beta >= 0, 0.01, -0.01), -np.inf)
    down = np.where(beta > -10.0, residual - np.where(beta > 0, 0.01, -0.01), np.inf)
    assert_allclose(fast.fit_report_.kkt_violation, float(up.max() - down.min()), atol=1e-10)


@pytest.mark.parametrize("estimator", [SVC(), SVR(), OneClassSVM(nu=0.1)])
def test_sparse_samples_of_few_features_know_their_corners(estimator):
    """A limit asks what the sums will cost; samples with hardly a zero are multiplied as dense."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
    models = [clone(estimator).set_params(time_limit=600) for _ in range(2)]
    dense, sparse = (model.fit(form, y) for model, form in zip(models, (X, sp.csr_matrix(X))))
    assert sparse.fit_report_.status == "converged"
    assert_allclose(densified(sparse.dual_coef_), dense.dual_coef_, atol=1e-12)
