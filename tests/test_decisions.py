"""Decision values of pairs from blocks of classes, and what is kept between two calls."""

import pickle
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils.multiclass import _ovr_decision_function

import oracle
from maxmargin import SVC, coefficients, decisions
from maxmargin.decisions import in_form
from maxmargin.estimators.decision import decision_functions
from maxmargin.estimators.fitted import set_fitted
from maxmargin.estimators.multiclass import coefficients_by_task

KERNELS = ["rbf", "linear", "poly", "sigmoid"]


def random_model(n_support, kernel="rbf", n_features=5, sparse=False, seed=0, **options):
    """A fitted SVC with random support vectors and coefficients, some of them zero."""
    rng = np.random.default_rng(seed)
    n_classes, total = len(n_support), int(np.sum(n_support))
    vectors = rng.normal(size=(total, n_features)) * (rng.random((total, n_features)) < 0.6)
    dual_coef = rng.normal(size=(n_classes - 1, total)) * (rng.random((1, total)) < 0.8)
    model = SVC(kernel=kernel, coef0=0.3, degree=2, **options)
    set_fitted(
        model, classes=np.arange(n_classes) * 10, n_support=np.array(n_support, np.int32),
        dual_coef=dual_coef, intercept=rng.normal(size=n_classes * (n_classes - 1) // 2),
        gamma=0.4, support=np.arange(total, dtype=np.int32),
        vectors=sp.csr_array(vectors) if sparse else vectors, sparse=sparse,
        shape=(total, n_features),
    )  # fmt: skip
    return model, dual_coef, vectors


def naive_decisions(K, dual_coef, n_support, intercept):
    """One pair after the other, one support vector after the other, as LIBSVM's layout says."""
    ends = np.concatenate([[0], np.cumsum(n_support)])
    columns = []
    for task, (i, j) in enumerate(combinations(range(len(n_support)), 2)):
        value = np.full(len(K), intercept[task])
        for s in range(ends[i], ends[i + 1]):
            value += dual_coef[j - 1, s] * K[:, s]
        for s in range(ends[j], ends[j + 1]):
            value += dual_coef[i, s] * K[:, s]
        columns.append(value)
    return np.array(columns).T


def naive_votes(values, n_classes):
    wins = np.zeros((len(values), n_classes), int)
    for task, (i, j) in enumerate(combinations(range(n_classes), 2)):
        wins[np.arange(len(values)), np.where(values[:, task] > 0, i, j)] += 1
    return wins.argmax(axis=1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n", [1, 3, 700])
@pytest.mark.parametrize("n_support", [[4, 3], [3, 1, 5], [2, 0, 7, 1, 3], [1, 3] * 7])
def test_values_of_pairs(monkeypatch, kernel, sparse, n, n_support):
    """By tiles that end within classes, and with a class that has no support vectors."""
    monkeypatch.setattr(coefficients, "_TILE_VECTORS", 4)
    monkeypatch.setattr(decisions, "_FEW_PRODUCTS", 2000)
    model, dual_coef, vectors = random_model(n_support, kernel, sparse=sparse)
    X = np.random.default_rng(1).normal(size=(n, 5))
    expected = naive_decisions(
        oracle.kernel_values(X, vectors, kernel, gamma=0.4, coef0=0.3, degree=2),
        dual_coef, n_support, model._intercept_,
    )  # fmt: skip
    given = sp.csr_array(X) if sparse else X
    if len(n_support) == 2:
        assert_allclose(model.decision_function(given), -expected[:, 0], atol=1e-11)
        return
    model.decision_function_shape = "ovo"
    assert_allclose(model.decision_function(given), expected, atol=1e-11)
    model.decision_function_shape = "ovr"
    as_sklearn = _ovr_decision_function(expected < 0, -expected, len(n_support))
    assert_allclose(model.decision_function(given), as_sklearn, atol=1e-11)
    assert_array_equal(model.predict(given), 10 * naive_votes(expected, len(n_support)))


@pytest.mark.parametrize("kernel", ["precomputed", "callable"])
@pytest.mark.parametrize("n", [1, 9])
def test_values_of_the_users_kernels(kernel, n):
    n_support = [2, 0, 3, 1]
    model, dual_coef, vectors = random_model(n_support)
    X = np.random.default_rng(1).normal(size=(n, 5))
    K = oracle.kernel_values(X, vectors, gamma=0.4)
    expected = naive_decisions(K, dual_coef, n_support, model._intercept_)
    model.set_params(decision_function_shape="ovo")
    if kernel == "precomputed":
        model.kernel, model.n_features_in_ = "precomputed", len(vectors)
        model.shape_fit_ = (len(vectors), len(vectors))
        assert_allclose(model.decision_function(K), expected)
    else:
        model.kernel, model._X_fit = (lambda A, B: oracle.kernel_values(A, B, gamma=0.4)), vectors
        assert_allclose(model.decision_function(X), expected)


def test_ties_are_broken_as_in_libsvm():
    """Of equal counts the first class, and a value of zero is a win of the second."""
    values = np.array([[1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [0.0, 0.0, 0.0]])
    assert_array_equal(in_form(values.T.copy(), "votes", 3), naive_votes(values, 3))
    assert_array_equal(in_form(values.T.copy(), "votes", 3), [0, 0, 2])


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_support", [[4, 3], [2, 0, 7, 1, 3]])
def test_weights_of_the_features(sparse, n_support):
    model, dual_coef, vectors = random_model(n_support, "linear", sparse=sparse)
    identity = naive_decisions(vectors.T, dual_coef, n_support, np.zeros(len(model._intercept_)))
    sign = -1 if len(n_support) == 2 else 1
    coef = model.coef_
    assert sp.issparse(coef) == sparse
    assert_allclose(coef.toarray() if sparse else coef, sign * identity.T, atol=1e-12)


def test_coefficients_by_task():
    dual_coef = np.random.default_rng(0).normal(size=(3, 9))
    n_support = np.array([2, 0, 4, 3])
    expected = naive_decisions(np.eye(9), dual_coef, n_support, np.zeros(6)).T
    assert_array_equal(coefficients_by_task(dual_coef, n_support).toarray(), expected)
    assert_array_equal(coefficients_by_task(sp.csr_array(dual_coef), n_support).toarray(), expected)


def test_wide_sparse_models_have_no_table_of_features_and_pairs():
    """2·10⁹ features, 6 pairs: neither weights nor panels may grow with the width."""
    rng, width = np.random.default_rng(0), 2_000_000_000
    columns = np.sort(rng.choice(width, 8, replace=False))
    _, dual_coef, vectors = random_model([2, 2], "linear", n_features=8)
    wide = sp.csr_array((vectors.ravel(), np.tile(columns, 4), np.arange(5) * 8), (4, width))
    model = SVC(kernel="linear")
    set_fitted(
        model, classes=np.arange(2), n_support=np.array([2, 2]), dual_coef=dual_coef,
        intercept=np.array([0.5]), gamma=1.0, support=np.arange(4), vectors=wide, sparse=True,
        shape=(4, width),
    )  # fmt: skip
    X = wide[[2, 0]]
    other = sp.csr_array(([3.0], [5], [0, 1, 1]), (2, width))
    expected = -vectors[[2, 0]] @ vectors.T @ dual_coef[0] - 0.5
    assert_allclose(model.decision_function(sp.csr_array(X + other)), expected)


@pytest.mark.parametrize("name", ["_dual_coef_", "_intercept_", "support_vectors_", "_gamma"])
def test_another_value_of_an_attribute_counts_at_once(name):
    model, *_ = random_model([3, 2, 4])
    X = np.random.default_rng(1).normal(size=(4, 5))
    before = model.decision_function(X)
    kept = decision_functions(model)
    assert decision_functions(model) is kept
    setattr(model, name, getattr(model, name) * 1.5)
    changed = model.decision_function(X)
    assert np.abs(changed - before).max() > 1e-3
    assert_array_equal(changed, pickle.loads(pickle.dumps(model)).decision_function(X))


def test_predictions_leave_nothing_in_the_model():
    model, *_ = random_model([30, 20, 40])
    before, size = set(vars(model)), len(pickle.dumps(model))
    model.predict(np.ones((2, 5)))
    assert set(vars(model)) == before and len(pickle.dumps(model)) == size


def test_rows_one_by_one_are_the_rows_together(monkeypatch):
    monkeypatch.setattr(decisions, "_WORTH_THREADS", 200_000)
    model, *_ = random_model([30, 20, 40, 10])
    X = np.random.default_rng(1).normal(size=(2000, 5))
    together = model.decision_function(X)
    alone = np.vstack([model.decision_function(X[[row]]) for row in range(0, 2000, 97)])
    assert_allclose(alone, together[::97], atol=1e-12)
    for threads in (1, 2, 3):
        assert_array_equal(model.set_params(n_jobs=threads).decision_function(X), together)


@pytest.mark.parametrize(("rows", "threads"), [(300, 1), (3000, 2)])
def test_small_predictions_take_one_thread(monkeypatch, rows, threads):
    model, *_ = random_model([30, 20, 40, 10])
    model.set_params(n_jobs=2).predict(np.ones((2, 5)))
    products = decision_functions(model)._terms.products
    monkeypatch.setattr(decisions, "_WORTH_THREADS", 1000 * products)
    monkeypatch.setattr(decisions, "_FEW_PRODUCTS", 100 * products)
    given = []
    session = decisions.session
    monkeypatch.setattr(decisions, "session", lambda n: (given.append(n), session(n))[1])
    model.predict(np.random.default_rng(0).normal(size=(rows, 5)))
    assert given[-1] == threads
