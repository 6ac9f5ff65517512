"""The greedy stagewise solver: Algorithm 1, and what goes beyond it."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC
from maxmargin.solvers import GreedyStagewise

KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "gamma": 0.3, "coef0": 1.0, "degree": 2},
    "rbf": {"kernel": "rbf", "gamma": 0.4},
}


def algorithm_1(K, signs):
    """The paper's listing, line by line: samples in the order chosen, their β, kernel values."""
    g, unused = -np.ones(len(signs)), np.ones(len(signs), bool)
    order, beta, values = [], np.zeros(len(signs)), 0
    while unused.any() and g[unused].min() < -1e-9:
        h = np.where(unused & (g < 0), -(g**2) / (2 * np.diag(K)), np.inf)
        m = int(np.argmin(h))
        alpha = -g[m] / K[m, m]
        unused[m] = False
        g += alpha * signs[m] * signs * K[m]
        order.append(m)
        beta[m] = alpha * signs[m]
        values += np.count_nonzero(unused)
    return order, beta, values


@pytest.fixture(scope="module")
def noisy():
    X, y = make_classification(300, 5, flip_y=0.15, class_sep=0.7, random_state=4)
    # The first class is the positive one, and comes first in the problem.
    first = np.argsort(y, kind="stable")
    return X[first], y[first], np.where(y[first] == 0, 1.0, -1.0)


def kernel_values(X, kernel):
    options = dict(KERNELS[kernel])
    return oracle.kernel_values(X, X, options.pop("kernel"), **options)


def betas(model, n):
    """β of all samples; with two classes dual_coef_ has the sign of the second."""
    beta = np.zeros(n)
    beta[model.support_] = -model.dual_coef_[0]
    return beta


def fit(X, y, kernel="rbf", *, cache_size="auto", **options):
    model = SVC(solver=GreedyStagewise(**options), cache_size=cache_size, **KERNELS[kernel])
    return model.fit(X, y)


# Algorithm 1.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("panel", [1, 7, None])
@pytest.mark.parametrize("intercept", [False, True])
def test_is_algorithm_1(kernel, panel, intercept, noisy):
    X, y, signs = noisy
    order, beta, _ = algorithm_1(kernel_values(X, kernel) + intercept, signs)
    model = fit(X, y, kernel, panel=panel, intercept=intercept)
    assert_array_equal(model._stages[0].samples, order)
    assert_allclose(betas(model, len(y)), beta, atol=1e-8)
    assert_allclose(-model.intercept_[0], beta.sum() if intercept else 0.0, atol=1e-8)


@pytest.fixture(scope="module")
def categories():
    """One-hot categories in one storage of float32 rows; many samples coincide."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 3, (700, 12))
    X = sp.csr_array((codes[:, :, np.newaxis] == np.arange(3)).reshape(700, 36).astype(float))
    return X, (codes[:, 0] + codes[:, 1] + rng.normal(0, 1, 700) > 2).astype(int)


@pytest.mark.parametrize("unit", [1.0, 0.5])
@pytest.mark.parametrize("container", ["sparse", "dense"])
def test_rows_one_by_one_of_bits_give_the_same_bits(unit, container, categories):
    X, y = categories
    X = unit * X if container == "sparse" else unit * X.toarray()
    from_bits, from_products = fit(X, y), fit(X, y, panel=1)
    assert len(from_bits.support_) > 200
    assert_array_equal(from_bits._stages[0].samples, from_products._stages[0].samples)
    assert_array_equal(from_bits._stages[0].coefficients, from_products._stages[0].coefficients)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_rows_one_by_one_of_numbers_take_the_same_steps(kernel, density):
    rng = np.random.default_rng(5)
    X = rng.normal(0, 0.4, (600, 30)) * (rng.random((600, 30)) < density)
    X[:, 0] = 1.0
    y = (X[:, 1] + X[:, 2] * X[:, 3] + rng.normal(0, 0.1, 600) > 0).astype(int)
    one, panels = fit(X, y, kernel), fit(X, y, kernel, panel=16)
    assert_array_equal(one._stages[0].samples, panels._stages[0].samples)
    assert_allclose(one.dual_coef_, panels.dual_coef_, atol=1e-4)


def test_too_large_to_be_stored_by_feature_takes_the_same_steps(categories, monkeypatch):
    X, y = categories
    one = fit(X, y)
    monkeypatch.setattr("maxmargin.kernels.feature_major._MAX_BYTES", 1000)
    other = fit(X, y)
    assert_array_equal(one._stages[0].samples, other._stages[0].samples)
    evaluations = [m.fit_report_[0].details["training_kernel_evaluations"] for m in (one, other)]
    assert evaluations[0] < evaluations[1]


def test_callable_kernel_takes_the_same_steps(noisy):
    X, y, _ = noisy

    def kernel(A, B):
        return oracle.kernel_values(A, B, gamma=0.4)

    for cache_size in ("auto", 0.05):  # the matrix in memory, and rows by calls of the function
        model = SVC(kernel=kernel, solver="greedy", cache_size=cache_size).fit(X, y)
        assert_array_equal(model._stages[0].samples, fit(X, y)._stages[0].samples)


def test_panels_compute_few_rows_in_vain(categories):
    X, y = categories
    details = fit(X, y, panel=64).fit_report_[0].details
    needed = details["algorithm_kernel_evaluations"]
    assert needed < details["training_kernel_evaluations"] < 2.3 * needed


def test_panels_with_a_cache_of_few_rows_take_the_same_steps(noisy):
    X, y, _ = noisy
    whole = fit(X, y)
    few = fit(X, y, panel=4, cache_size=9 * 8 * len(y) / 2**20)
    assert_array_equal(few._stages[0].samples, whole._stages[0].samples)
    assert_allclose(few.dual_coef_, whole.dual_coef_, atol=1e-8)


def test_only_unused_samples_cost_kernel_values(noisy):
    X, y, signs = noisy
    _, _, needed = algorithm_1(kernel_values(X, "rbf"), signs)
    for panel in (1, None):
        one = fit(X, y, panel=panel).fit_report_[0]
        assert one.details["algorithm_kernel_evaluations"] == needed
        # Used samples are dropped a few at a time.
        assert needed <= one.details["training_kernel_evaluations"] <= 1.03 * needed + 64**2
    many = fit(X, y, panel=32).fit_report_[0]
    assert many.details["algorithm_kernel_evaluations"] == needed
    assert needed < many.details["training_kernel_evaluations"] <= len(y) ** 2
    # The report's own count has those of the certificate as well.
    n_values = one.n_support * len(y)
    assert one.kernel_evaluations == one.details["training_kernel_evaluations"] + n_values


def test_memory_is_a_few_rows_not_the_matrix():
    rng = np.random.default_rng(0)
    X, y = (rng.random((3000, 40)) < 0.1).astype(float), rng.integers(0, 2, 3000)
    SVC(gamma=0.5, solver="greedy").fit(X[:600], y[:600])
    tracemalloc.start()
    model = SVC(gamma=0.5, solver=GreedyStagewise(max_support=600)).fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(model.support_) == 600
    # X itself, in the forms that validation and the kernel keep, takes a few times 1 MB.
    assert peak < 0.25 * 4 * 3000**2


def test_samples_without_norm_are_never_chosen():
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [-1.0, 0.5]])
    model = SVC(kernel="linear", solver="greedy").fit(X, [0, 0, 1, 1])
    assert set(model.support_) <= {1, 3}
    assert_array_equal(model.predict(X[[1, 3]]), [0, 1])


def test_one_against_one():
    X, y = load_iris(return_X_y=True)
    model = SVC(gamma=0.5, solver="greedy").fit(X, y)
    assert len(model.fit_report_) == 3
    assert model.score(X, y) > 0.9
    K = oracle.kernel_values(X, X, gamma=0.5)
    pair = np.flatnonzero(y != 1)
    _, beta, _ = algorithm_1(K[np.ix_(pair, pair)], np.where(y[pair] == 0, 1.0, -1.0))
    decisions = model.set_params(decision_function_shape="ovo").decision_function(X)
    assert_allclose(decisions[:, 1], K[:, pair] @ beta, atol=1e-8)


# What has no meaning is refused or warned about, once.


def test_c_warns_once_a_fit():
    X, y = load_iris(return_X_y=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        other = SVC(C=7.0, solver="greedy").fit(X, y)
    assert [str(w.message) for w in caught] == [
        "GreedyStagewise has no box constraint: C is not used."
    ]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        default = SVC(solver="greedy").fit(X, y)
        SVC(solver="greedy").fit(X, y, np.ones(len(y)))
    assert_array_equal(other.dual_coef_, default.dual_coef_)


def test_weights_raise_one_sentence(noisy):
    X, y, _ = noisy
    message = "no box constraint: sample_weight and class_weight are not supported"
    with pytest.raises(ValueError, match=message):
        SVC(solver="greedy").fit(X, y, np.linspace(1, 2, len(y)))
    with pytest.raises(ValueError, match=message):
        SVC(solver="greedy", class_weight={0: 2.0}).fit(X, y)


@pytest.mark.parametrize(
    "options",
    [{"max_support": 0}, {"panel": 1.5}, {"validation": 1.0}, {"validation": 0.1, "backfit": True}],
)
def test_bad_options(options):
    with pytest.raises(ValueError, match=r"must be|use one of them"):
        GreedyStagewise(**options)


# The report.


def hard_margin_optimum(K, signs):
    """Objective of equation (1) by projected gradient."""
    Q = K * np.outer(signs, signs)
    alpha, step = np.zeros(len(signs)), 1 / np.linalg.eigvalsh(Q)[-1]
    for _ in range(20_000):
        alpha = np.maximum(0.0, alpha - step * (Q @ alpha - 1))
    return 0.5 * alpha @ Q @ alpha - alpha.sum()


@pytest.mark.parametrize("intercept", [False, True])
def test_report_is_that_of_the_hard_margin(intercept):
    X, y = load_iris(return_X_y=True)
    X, signs = X[:100], np.where(y[:100] == 0, 1.0, -1.0)
    model = fit(X, y[:100], intercept=intercept)
    report = model.fit_report_[0]
    assert not report.exact and "approximate" in str(model.fit_report_)
    K, beta = kernel_values(X, "rbf") + intercept, betas(model, 100)
    objective = 0.5 * beta @ K @ beta - signs @ beta
    assert_allclose(report.objective, objective, rtol=1e-9)
    pull = 1 - signs * (K @ beta)
    assert_allclose(report.kkt_violation, max(pull.max(), abs(pull[beta != 0]).max()))
    distance = objective - hard_margin_optimum(K, signs)
    assert 0 < distance <= report.duality_gap < np.inf


def test_coefficients_beyond_c_are_not_at_their_bound(noisy):
    model = SVC(solver="greedy").fit(*noisy[:2])
    size = np.abs(model.dual_coef_)
    assert (size > model.C).any()
    assert model.fit_report_[0].n_bounded == (size == model.C).sum()


def test_gap_is_infinite_where_f_does_not_separate(noisy):
    X, y, _ = noisy
    model = fit(X, y, max_support=5)
    assert model.score(X, y) < 1
    assert model.fit_report_.duality_gap == np.inf


def test_certificate_only_where_it_is_cheap(noisy, monkeypatch):
    X, y, _ = noisy
    certified = fit(X, y).fit_report_[0]
    monkeypatch.setattr("maxmargin.solvers.greedy.solver._CHEAP_CERTIFICATE", 1000)
    report = fit(X, y).fit_report_[0]
    assert np.isnan(report.kkt_violation) and np.isnan(report.duality_gap)
    assert_allclose(report.objective, certified.objective, rtol=1e-9)
    assert report.kernel_evaluations == report.details["training_kernel_evaluations"]


# Early stopping and the path.


@pytest.mark.parametrize("intercept", [False, True])
def test_stages_are_the_smaller_models(intercept, noisy):
    X, y, _ = noisy
    model = fit(X, y, intercept=intercept)
    stages = list(model.staged_decision_function(X[:9]))
    assert len(stages) == len(model.support_) > 64
    for size in (1, 2, 64, 65, len(stages)):
        smaller = fit(X, y, intercept=intercept, max_support=size)
        assert len(smaller.support_) == size
        assert_allclose(stages[size - 1], smaller.decision_function(X[:9]), atol=1e-9)


def test_stages_of_many_classes():
    X, y = load_iris(return_X_y=True)
    model = SVC(gamma=0.5, solver="greedy").fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == max(report.n_support for report in model.fit_report_)
    assert_allclose(stages[-1], model.decision_function(X))
    smaller = SVC(gamma=0.5, solver=GreedyStagewise(max_support=4)).fit(X, y)
    assert_allclose(stages[3], smaller.decision_function(X), atol=1e-9)


def test_stages_of_a_precomputed_kernel(noisy):
    X, y, _ = noisy
    K = kernel_values(X, "rbf")
    model = SVC(kernel="precomputed", solver="greedy").fit(K, y)
    *_, last = model.staged_decision_function(K[:5])
    assert_allclose(last, fit(X, y).decision_function(X[:5]), atol=1e-8)


@pytest.mark.parametrize("solver", ["smo", GreedyStagewise(backfit=True)])
def test_no_stages_where_none_were_kept(solver, noisy):
    X, y, _ = noisy
    assert not hasattr(SVC(solver=solver), "staged_decision_function")
    assert not hasattr(SVC(gamma=0.4, solver=solver).fit(X, y), "staged_decision_function")


def test_validation_takes_the_smallest_model_of_the_lowest_error(noisy):
    X, y, _ = noisy
    model = SVC(gamma=3.0, solver=GreedyStagewise(validation=0.3), random_state=0).fit(X, y)
    details = model.fit_report_[0].details
    assert len(model.support_) < details["steps_before_cut"]
    # Same seed, so the same samples are held out; the model at each size, by its own training.
    errors = []
    for size in range(1, len(model.support_) + 1):
        solver = GreedyStagewise(validation=0.3, max_support=size)
        report = SVC(gamma=3.0, solver=solver, random_state=0).fit(X, y).fit_report_[0]
        errors.append(report.details["validation_error"])
    assert errors[-1] == details["validation_error"] == min(errors)
    assert (np.diff(errors) <= 0).all()
    beta = betas(model, len(y))
    K = oracle.kernel_values(X, X, gamma=3.0)
    signs = np.where(y == 0, 1.0, -1.0)
    objective = 0.5 * beta @ K @ beta - signs @ beta
    assert_allclose(model.fit_report_.objective, objective, rtol=1e-9)


# Backfitting.


def test_backfit_ends_at_the_hard_margin_svm(noisy):
    X, y, signs = noisy
    model = SVC(gamma=3.0, solver=GreedyStagewise(backfit=True)).fit(X, y)
    assert model.fit_report_.kkt_violation <= 2e-3
    best = hard_margin_optimum(oracle.kernel_values(X, X, gamma=3.0), signs)
    assert_allclose(model.fit_report_.objective, best, rtol=1e-4)


def test_backfit_lowers_the_objective_at_the_same_size(noisy):
    X, y, _ = noisy
    plain = fit(X, y, max_support=40).fit_report_
    refitted = fit(X, y, max_support=40, backfit=True).fit_report_
    assert refitted.n_support <= 40
    assert refitted.objective < plain.objective


def test_backfit_says_when_its_matrix_does_not_fit(noisy):
    X, y, _ = noisy
    with pytest.raises(ValueError, match="Set max_support or a larger cache_size"):
        fit(X, y, backfit=True, cache_size=3 * 8 * len(y) / 2**20)


# Limits and warm start.


def test_warm_start_goes_on(noisy):
    X, y, _ = noisy
    whole = fit(X, y)
    model = SVC(gamma=0.4, solver="greedy", max_iter=20, warm_start=True)
    with pytest.warns(ConvergenceWarning, match="max_iter=20"):
        model.fit(X, y)
    assert model.fit_report_.n_iter == 20
    model.set_params(max_iter=-1).fit(X, y)
    assert model.fit_report_.n_iter == len(whole.support_) - 20
    assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-8)
