"""Labels from float32 decision values: their bound, and that they are those of float64."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import load_digits, load_iris, make_classification

import oracle
from maxmargin import SVC, NuSVC, coefficients, decisions, single_precision
from maxmargin._decision_leaves import certain_votes
from maxmargin.estimators.decision import decision_functions
from maxmargin.estimators.fitted import set_fitted
from maxmargin.kernels.functions import KernelFunction
from test_decisions import naive_decisions, naive_votes, random_model

UNIT = 2.0**-24


@pytest.fixture(autouse=True)
def always_in_float32_first(monkeypatch):
    monkeypatch.setattr(decisions, "_FEW_PRODUCTS", 0)
    monkeypatch.setattr(decisions, "_WORTH_SINGLE", 0)
    monkeypatch.setattr(decisions, "_WORTH_THREADS", 0)
    monkeypatch.setattr(decisions, "_MOSTLY_CERTAIN", 0.0)


@pytest.fixture
def looks(monkeypatch):
    """(values, errors, offsets, labels, certain) of each tile that was judged."""
    found, judge = [], single_precision._judge

    def watched(tile, errors, offsets, form):
        labels, certain = judge(tile, errors, offsets, form)
        found.append((tile.copy(), errors.copy(), offsets, labels, certain))
        return labels, certain

    monkeypatch.setattr(single_precision, "_judge", watched)
    return found


def labels_in_float64(model, X):
    """What predict says without a look at float32 values."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decisions, "_WORTH_SINGLE", np.inf)
        return model.predict(X)


def error_of_pairs(errors, offsets):
    if len(errors) == 1:
        return errors + offsets[:, np.newaxis]
    first, second = np.triu_indices(len(errors), 1)
    return errors[first].astype(float) + errors[second] + offsets[:, np.newaxis]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_no_value_is_further_off_than_the_bound(monkeypatch, looks, sparse, seed):
    """Of random models: many and few features, short and long vectors, coefficients of any size."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.choice([1, 3, 20, 300]))
    n_support = rng.integers(0, 40, rng.integers(2, 6))
    n_support[0] += 1
    monkeypatch.setattr(coefficients, "_TILE_VECTORS", int(rng.choice([7, 1024])))
    model, dual_coef, vectors = random_model(n_support, n_features=n_features, seed=seed)
    vectors *= np.exp(rng.normal(scale=rng.choice([0.0, 1.0]), size=(len(vectors), 1)))
    dual_coef *= np.exp(rng.normal(scale=3, size=dual_coef.shape[1]))
    gamma = float(np.exp(rng.normal())) / max(1.0, np.einsum("ij,ij->i", vectors, vectors).mean())
    X = rng.normal(size=(60, n_features)) * np.exp(rng.normal(size=(60, 1)))
    X[:20] = vectors[rng.integers(0, len(vectors), 20)] + 1e-3 * X[:20]  # neighbours
    set_fitted(
        model, classes=model.classes_, n_support=n_support.astype(np.int32), dual_coef=dual_coef,
        intercept=model._intercept_, gamma=gamma, support=model.support_,
        vectors=sp.csr_array(vectors) if sparse else vectors, sparse=sparse, shape=vectors.shape,
    )  # fmt: skip
    if sparse and len(n_support) == 2:
        return  # sums of one task over sparse vectors have a path of their own
    exact = naive_decisions(
        oracle.kernel_values(X, vectors, gamma=gamma), dual_coef, n_support, model._intercept_
    )
    given = sp.csr_array(X) if sparse else X
    assert_array_equal(model.predict(given), 10 * naive_votes(exact, len(n_support)))
    values, errors, offsets, labels, certain = looks[0]
    assert values.dtype == np.float32
    bound = error_of_pairs(errors, offsets)
    known = np.isfinite(bound).all(axis=0)
    assert known.any()
    assert (np.abs(values - exact.T) <= bound)[:, known].all()
    assert not certain[~known].any()
    assert_array_equal(10 * labels[certain], model.predict(given)[certain])


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_the_bound_is_small_enough_to_be_of_use(looks, multi_class):
    X, y = load_digits(return_X_y=True)
    model = SVC(multi_class=multi_class).fit(X, y)
    assert_array_equal(model.predict(X), labels_in_float64(model, X))
    assert all(tile.dtype == np.float32 for tile, *_ in looks[:4])
    assert np.concatenate([certain for *_, certain in looks[:4]]).mean() > 0.99


@pytest.mark.parametrize("make", [SVC, lambda **o: SVC(multi_class="ovr", **o), NuSVC])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_labels_of_fits(make, n_classes, scale):
    X, y = make_classification(
        700, 12, n_informative=6, n_classes=n_classes, random_state=n_classes
    )
    options = {"nu": 0.1} if make is NuSVC else {"C": 1e4}
    model = make(gamma=0.05, **options).fit(scale * X[:300] + 100.0, y[:300])
    shifted = scale * X + 100.0
    assert_array_equal(model.predict(shifted), labels_in_float64(model, shifted))
    for dtype in (np.float32, np.int64):
        assert_array_equal(
            model.predict(shifted.astype(dtype)), labels_in_float64(model, shifted.astype(dtype))
        )


def on_the_boundary(n, n_features, seed=0):
    """A model of mirror images, and samples as far from either of a pair."""
    rng = np.random.default_rng(seed)
    half = np.abs(rng.normal(size=(9, n_features)))
    vectors = np.vstack([half, half * ([-1.0] + [1.0] * (n_features - 1))])
    coefficient = rng.random(9)
    model = SVC()
    set_fitted(
        model, classes=np.arange(2), n_support=np.array([9, 9], np.int32),
        dual_coef=np.concatenate([coefficient, -coefficient])[np.newaxis],
        intercept=np.zeros(1), gamma=0.2, support=np.arange(18), vectors=vectors, sparse=False,
        shape=vectors.shape,
    )  # fmt: skip
    X = rng.normal(size=(n, n_features))
    X[:, 0] = rng.choice([0.0, 1e-17, -1e-17, 1e-9, -1e-9, 1.0], n)
    return model, X


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rows_on_the_boundary_have_the_sign_of_the_decision_function(looks, n_jobs):
    """Values that are nothing but rounding: whatever order the sums of a tile have, it counts."""
    model, X = on_the_boundary(1500, 7)
    model.n_jobs = n_jobs
    found = model.predict(X)
    assert_array_equal(found, np.where(model.decision_function(X) < 0, 0, 1))
    clear = np.abs(X[:, 0]) > 1e-12
    closer = [certain for tile, *_, certain in looks if tile.dtype == np.float64]
    assert not np.concatenate(closer).all()
    assert np.count_nonzero(~np.concatenate(closer)) == np.count_nonzero(~clear)
    assert_array_equal(found[clear], np.where(X[clear, 0] > 0, 0, 1))


def test_doubtful_rows_are_few_and_alone(looks):
    model, X = on_the_boundary(1500, 7)
    X[:, 0] = 0.5
    X[[3, 700, 701]] *= 1e-7
    model.set_params(n_jobs=1).predict(X)
    assert [tile.shape[1] for tile, *_ in looks] == [512, 512, 476, 3]
    assert looks[-1][0].dtype == np.float64 and looks[-1][-1].all()


@pytest.mark.parametrize(
    ("of_vectors", "of_coefficients", "gamma"),
    [(1e25, 1.0, 1e-52), (1e-25, 1.0, 1e48), (1.0, 1e200, 0.3), (1.0, 1e-60, 0.3),
     (1e3, 1.0, 10.0), (0.0, 1.0, 1.0), (1.0, 1.0, 1e-30), (1e15, 1.0, 1e-30)],
)  # fmt: skip
def test_numbers_that_float32_has_not(of_vectors, of_coefficients, gamma):
    model, dual_coef, vectors = random_model([9, 8, 7], n_features=6)
    set_fitted(
        model, classes=np.arange(3), n_support=np.array([9, 8, 7], np.int32),
        dual_coef=dual_coef * of_coefficients, intercept=model._intercept_ * of_coefficients,
        gamma=gamma, support=model.support_, vectors=vectors * of_vectors, sparse=False,
        shape=vectors.shape,
    )  # fmt: skip
    X = np.random.default_rng(2).normal(size=(90, 6)) * of_vectors
    assert_array_equal(model.predict(X), labels_in_float64(model, X))


def test_a_model_whose_labels_stay_in_doubt_goes_back_to_float64(monkeypatch, looks):
    monkeypatch.setattr(decisions, "_MOSTLY_CERTAIN", 0.75)
    model, _, vectors = random_model([40, 30, 30], n_jobs=1)
    model._intercept_ = np.zeros(3)
    model._dual_coef_ = np.where(np.arange(100) % 2, 1.0, -1.0) * 1e9 * np.ones((2, 1))
    model.support_vectors_ = np.repeat(vectors[:50], 2, axis=0)
    X = np.random.default_rng(0).normal(size=(1200, 5))
    for _ in range(2):
        assert_array_equal(model.predict(X), labels_in_float64(model, X))
    assert len(looks) == 1 and decision_functions(model)._in_doubt > 300


def test_rows_one_by_one_are_in_float32_once_the_model_has_been_read_often(monkeypatch, looks):
    """And one row in doubt among many certain ones changes that for itself alone."""
    model, X = on_the_boundary(200, 7)
    X[:, 0] = 0.5
    X[::10] *= 1e-7
    monkeypatch.setattr(decisions, "_MOSTLY_CERTAIN", 0.75)
    products = decision_functions(model)._terms.products
    monkeypatch.setattr(decisions, "_WORTH_SINGLE", 3 * products)
    labels = [model.predict(row)[0] for row in X[:, np.newaxis]]
    assert [tile.dtype for tile, *_ in looks] == [np.float32] * 198
    assert not all(certain.all() for *_, certain in looks)
    assert_array_equal(labels, labels_in_float64(model, X))


@pytest.mark.parametrize(
    ("n_jobs", "tiles"), [(1, [400]), (2, [200, 200]), (8, [128, 128, 128, 16])]
)
def test_every_thread_has_a_tile(looks, n_jobs, tiles):
    model, X = on_the_boundary(400, 7)
    X[:, 0] = 0.5
    assert_array_equal(model.set_params(n_jobs=n_jobs).predict(X), labels_in_float64(model, X))
    assert sorted(tile.shape[1] for tile, *_ in looks) == sorted(tiles)


@pytest.mark.parametrize("seed", range(20))
def test_certain_winners_win_whatever_the_errors(seed):
    """Values of three or four classes near zero, with all signs that the errors leave open."""
    rng = np.random.default_rng(seed)
    n_classes = int(rng.integers(2, 5))
    n_tasks = n_classes * (n_classes - 1) // 2
    values = rng.normal(size=(n_tasks, 40)).astype(np.float32)
    errors = (0.4 * rng.random((n_classes, 40))).astype(np.float32)
    offsets = (0.1 * rng.random(n_tasks)).astype(np.float32)
    labels, certain = certain_votes(values, n_classes, errors, offsets)
    bound, one_way = error_of_pairs(errors, offsets), [naive_votes(values.T, n_classes)]
    for signs in np.ndindex(*(2,) * n_tasks):
        moved = values + (2 * np.array(signs)[:, np.newaxis] - 1) * bound
        one_way.append(naive_votes(moved.T, n_classes))
    same = (np.array(one_way) == one_way[0]).all(axis=0)
    assert_array_equal(labels[certain], one_way[0][certain])
    assert not certain[~same].any()
    all_signs = (np.abs(values) > bound).all(axis=0)
    assert certain[all_signs].all() and certain.any()


def test_the_exponential_of_the_bound():
    exponents = -np.linspace(0.0, 87.0, 1_000_001).astype(np.float32)
    products = np.zeros((1, len(exponents)), np.float32)
    values = KernelFunction("rbf", 1.0).from_products(
        products, np.zeros(1, np.float32), -exponents
    )[0]
    exact = np.exp(exponents.astype(np.float64))
    assert (np.abs(values - exact) <= 4 * UNIT * exact)[exponents > -87].all()


def test_ties_of_equal_samples():
    """Rows of iris that are in the set twice, and classes in which some pairs are all ties."""
    X, y = load_iris(return_X_y=True)
    X = np.round(np.tile(X, (8, 1)))
    for C in (0.01, 1.0, 1e6):
        model = SVC(C=C).fit(X, np.tile(y, 8))
        assert_array_equal(model.predict(X), labels_in_float64(model, X))
