"""Labels without compiled code: those of compiled code, or none."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification

from maxmargin import SVC
from maxmargin.estimators import first_labels as module
from maxmargin.estimators.first_labels import first_labels
from maxmargin.io import save_model


@pytest.fixture
def no_compiler(monkeypatch):
    """As if nothing had loaded it."""
    monkeypatch.setattr(module, "_compiler_is_loaded", lambda: False)


def fitted(n_classes, kernel="rbf", sparse=False, **options):
    X, y = make_classification(
        150, 6, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=n_classes
    )
    X = sp.csr_array(X * (np.abs(X) > 0.5)) if sparse else X
    return SVC(kernel=kernel, **options).fit(X, y), X


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_labels_are_those_of_compiled_code(request, n_classes, kernel, sparse, multi_class):
    model, X = fitted(n_classes, kernel, sparse, multi_class=multi_class)
    form = "largest" if multi_class == "ovr" and n_classes > 2 else "votes"
    X = X if kernel == "rbf" else X * 1.7
    expected = model._decisions(X, form)
    request.getfixturevalue("no_compiler")
    found = first_labels(model, X, form)
    assert_array_equal(found, expected)
    assert_array_equal(model.predict(X), model.classes_[expected])


def test_errors_of_decision_values_are_within_their_bound():
    """Against decision values in extended precision, of samples near and far from the origin."""
    for shift in (0.0, 30.0):
        X, y = make_classification(120, 4, random_state=3)
        model = SVC(C=100).fit(X + shift, y)
        vectors = model.support_vectors_.astype(np.longdouble)
        differences = (X + shift).astype(np.longdouble)[:, None] - vectors
        K = np.exp(-np.longdouble(model._gamma) * (differences**2).sum(axis=2))
        exact = (K @ model._dual_coef_.astype(np.longdouble).T) + model._intercept_
        values, errors = module._decisions(
            model, X + shift, model.support_vectors_, sp.csr_array(model._dual_coef_)
        )
        assert (np.abs(values - exact) <= errors / 2).all()
        assert errors.max() < 1e-6


def test_no_labels_where_rounding_could_decide(no_compiler):
    X = np.array([[-1.0], [1.0]])
    model = SVC(kernel="linear").fit(X, [0, 1])
    assert_array_equal(first_labels(model, X, "votes"), [0, 1])
    assert first_labels(model, np.array([[1.0], [0.0]]), "votes") is None
    assert_array_equal(model.predict(np.array([[1.0], [0.0]])), [1, 1])  # 0 is not positive
    three = SVC(kernel="linear", multi_class="ovr").fit([[-1.0], [0.0], [1.0]], [0, 1, 2])
    twins = three._intercept_ * 0.0
    equal = module._certain_labels(twins[None, :], twins[None, :] + 1e-9, "largest", 3)
    assert equal is None
    # Samples so long that nothing is known of their kernel values, and numbers beyond float64.
    far = SVC(gamma=1.0).fit(X, [0, 1])
    for length in (1e8, 1e200):
        assert first_labels(far, length * X, "votes") is None
        assert_array_equal(far.predict(length * X), far.predict(length * X))


def test_only_small_models_of_two_kernels_in_a_process_without_the_compiler(monkeypatch):
    model, X = fitted(2)
    assert first_labels(model, X, "votes") is None  # the compiler is there
    monkeypatch.setattr(module, "_compiler_is_loaded", lambda: False)
    assert first_labels(model, X, "votes") is not None
    assert first_labels(fitted(2, "poly")[0], X, "votes") is None
    monkeypatch.setattr(module, "_MOST_PRODUCTS", 1000)
    assert first_labels(model, X, "votes") is None


def test_a_process_that_only_predicts_loads_no_compiler(tmp_path):
    model, X = fitted(3)
    save_model(model, tmp_path / "model.npz")
    np.save(tmp_path / "X.npy", X)
    code = "import sys, numpy as np; from maxmargin.io import load_model\n"
    code += "model = load_model('model.npz'); labels = model.predict(np.load('X.npy'))\n"
    code += "print('numba' in sys.modules, *labels)"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", *map(str, model.predict(X))]
