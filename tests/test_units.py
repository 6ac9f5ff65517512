"""Answers do not depend on the units of the features, and fits end whatever these are."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC
from maxmargin.estimators import inputs, variance

# Far beyond what any of these fits takes; where it is met, the fit has no end.
GUARD = {"max_iter": 5_000_000}


@pytest.fixture(scope="module")
def separable():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += np.where(y, 0.3, -0.3)
    return X, y


@pytest.fixture(scope="module")
def overlapping():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=200) > 0).astype(int)


@pytest.mark.parametrize(("scale", "C"), [(1, 1.0), (1, 1e4), (1000, 1.0), (1e-4, 1e4)])
def test_unscaled_data_converge(scale, C):
    """Features between 0.001 and 4,000: SMO steps alone take tens of millions of steps."""
    X, y = load_breast_cancer(return_X_y=True)
    model = SVC(kernel="linear", C=C, **GUARD).fit(scale * X, y)
    assert model.fit_report_.status == "converged"
    assert model.fit_report_.n_iter < 500_000


@pytest.mark.parametrize("scale", [1e-6, 2.0**-10, 1e3, 1e6])
def test_the_units_of_the_features_do_not_change_the_model(overlapping, scale):
    X, y = overlapping
    expected = SVC(kernel="linear", C=10.0, tol=1e-6).fit(X, y)
    model = SVC(kernel="linear", C=10.0 / scale**2, tol=1e-6).fit(scale * X, y)
    assert model.fit_report_.status == "converged"
    assert_allclose(
        model.decision_function(scale * X), expected.decision_function(X), atol=1e-4, rtol=1e-4
    )


@pytest.mark.parametrize("solver", ["auto", "smo", "irwls"])
@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_a_hard_margin_is_one_at_any_scale(separable, solver, scale):
    X, y = separable
    model = SVC(kernel="linear", C=np.inf, solver=solver).fit(scale * X, y)
    margins = np.where(y, 1.0, -1.0) * model.decision_function(scale * X)
    assert model.fit_report_.status == "converged"
    assert_allclose(margins.min(), 1.0, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
def test_a_hard_margin_that_does_not_exist_is_told(overlapping, scale):
    X, y = overlapping
    with pytest.warns(ConvergenceWarning, match="samples cannot have it") as caught:
        model = SVC(kernel="linear", C=np.inf, **GUARD).fit(scale * X, y)
    assert len(caught) == 1 and "C=inf asks for a hard margin" in str(caught[0].message)
    assert model.fit_report_.status == "stalled"
    assert model.fit_report_.kkt_violation > 0.1  # where no other bound stands for C


def test_a_fit_that_rounding_keeps_from_its_optimum_ends_with_its_best(overlapping):
    """β must have 16 digits more than float64 numbers have."""
    X, y = overlapping
    with pytest.warns(ConvergenceWarning, match="Scale the features, as with StandardScaler"):
        model = SVC(kernel="linear", **GUARD).fit(1e8 * X, y)
    report = model.fit_report_
    assert report.status == "stalled"
    # β = 0 is no farther from the optimum than Σ C·max(0, 1 − y·0).
    assert report.duality_gap <= len(y) * (1 + 1e-9)


@pytest.mark.parametrize("fewer", [20, 30, 40])
def test_max_iter_binds_second_order_steps(fewer):
    """They are the last 50 iterations of this fit, which is within tol some ten before its end."""
    X, y = load_breast_cancer(return_X_y=True)
    whole = SVC(kernel="linear", C=1e4).fit(X, y)
    assert whole.fit_report_[0].details["second_order"] == ["low-rank IRWLS"]
    max_iter = int(whole.n_iter_[0]) - fewer
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = SVC(kernel="linear", C=1e4, max_iter=max_iter).fit(X, y)
    assert model.n_iter_[0] == max_iter and model.fit_report_.status == "max_iter"
    assert abs(model.dual_coef_.sum()) <= 1e-9 * np.abs(model.dual_coef_).sum()


@pytest.mark.parametrize("seed", range(4))
def test_a_kernel_without_a_positive_diagonal_has_no_factor(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(200, 2)), (rng.random(200) < 0.4).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(kernel="sigmoid", gamma=1e-3, coef0=-1.0, C=1e6, max_iter=30_000).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert abs(model.dual_coef_.sum()) <= 1e-9 * np.abs(model.dual_coef_).sum()


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("kernel", ["sigmoid", "poly"])
@pytest.mark.parametrize("seed", range(4))
def test_irwls_answers_for_indefinite_kernels_are_feasible(kernel, C, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(51, 2)), (rng.random(51) < 0.3).astype(int)
    model = SVC(
        solver="irwls", kernel=kernel, gamma=1.0, coef0=-1.0, C=C, random_state=0, max_iter=100_000
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    alpha = np.where(y[model.support_] == 1, 1.0, -1.0) * model.dual_coef_[0]
    assert abs(model.dual_coef_.sum()) <= 1e-9 * alpha.sum()
    assert alpha.min() >= 0 and alpha.max() <= C


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_gamma_of_large_data_is_taken_by_blocks(dtype, rows, monkeypatch):
    X = (np.random.default_rng(0).normal(size=(rows, 3)) + 100).astype(dtype)
    monkeypatch.setattr(variance, "_ENTRIES_AT_ONCE", 0)
    monkeypatch.setattr(variance, "_ENTRIES_OF_BLOCK", 10)
    assert_allclose(variance.variance(X, None, 2), X.var(dtype=np.float64), rtol=1e-12)


@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 1, 183)], ids=["plain", "weights"])
@pytest.mark.parametrize("form", ["dense", "float32", "blocks", "sparse"])
def test_gamma_of_one_value_everywhere_is_one(form, weights, monkeypatch):
    """The rounding of the mean is no variance: gamma was 1e33."""
    X = np.full((183, 1), 0.12291653)
    if form == "float32":
        X = X.astype(np.float32)
    if form == "blocks":
        monkeypatch.setattr(variance, "_ENTRIES_AT_ONCE", 0)
        monkeypatch.setattr(variance, "_ENTRIES_OF_BLOCK", 10)
    if form == "sparse":
        X = sp.csr_array(X)
        monkeypatch.setattr(variance, "_DENSIFIED_ENTRIES", 0)
    assert variance.variance(X, weights, 1) == 0
    assert SVC(kernel="poly")._resolve_gamma(X, weights) == 1


@pytest.mark.parametrize("weights", [None, np.linspace(0.0, 1, 50)], ids=["plain", "weights"])
def test_variance_of_sparse_data_far_from_zero(weights, monkeypatch):
    monkeypatch.setattr(variance, "_DENSIFIED_ENTRIES", 0)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((50, 4)) < 0.9, 1e6 + rng.normal(size=(50, 4)), 0.0)
    w = np.repeat(np.ones(50) if weights is None else weights, 4)
    mean = np.average(X.ravel(), weights=w)
    expected = np.average((X.ravel() - mean) ** 2, weights=w)
    assert_allclose(variance.variance(sp.csr_array(X), weights, 1), expected, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_found_in_any_block(bad, monkeypatch):
    monkeypatch.setattr(inputs, "_VALUES_AT_ONCE", 10)
    X = np.ones((50, 3))
    assert inputs._finite(X, 2)
    X[33, 1] = bad
    assert not inputs._finite(X, 2)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        SVC().fit(X, np.arange(50) % 2)
