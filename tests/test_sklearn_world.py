"""Inside scikit-learn's world: meta-estimators, pickles, forks, data frames, labels, shapes."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.solvers import SMO

# Meta-estimators.


def test_pipeline(three):
    X, y = three
    ours = make_pipeline(StandardScaler(), SVC()).fit(X, y)
    theirs = make_pipeline(StandardScaler(), sklearn.svm.SVC()).fit(X, y)
    assert ours.score(X, y) == theirs.score(X, y)
    weights = np.linspace(0.1, 1, len(y))
    ours.fit(X, y, svc__sample_weight=weights)
    theirs.fit(X, y, svc__sample_weight=weights)
    assert_array_equal(ours.predict(X), theirs.predict(X))


def test_grid_search_in_processes(three):
    X, y = three
    grid = {"C": [0.1, 1, 10], "gamma": [0.1, "scale"], "solver": ["auto", SMO(shrinking=False)]}
    ours = GridSearchCV(SVC(), grid, cv=3, n_jobs=2, error_score="raise").fit(X, y)
    theirs = GridSearchCV(sklearn.svm.SVC(), {k: grid[k] for k in ("C", "gamma")}, cv=3).fit(X, y)
    scores = np.reshape(ours.cv_results_["mean_test_score"], (-1, 2))
    for column in scores.T:
        assert_allclose(column, theirs.cv_results_["mean_test_score"])
    assert ours.best_estimator_.fit_report_.status == "converged"


def test_calibration(three):
    X, y = three
    model = CalibratedClassifierCV(SVC(), ensemble=False, cv=3).fit(X, y)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1)
    theirs = CalibratedClassifierCV(sklearn.svm.SVC(), ensemble=False, cv=3).fit(X, y)
    assert_allclose(probabilities, theirs.predict_proba(X), atol=0.01)


def test_stacking_and_bagging(binary):
    X, y = binary
    stack = StackingClassifier([("svm", SVC()), ("linear", SVC(kernel="linear"))], cv=3, n_jobs=2)
    assert stack.fit(X, y).score(X, y) > 0.8
    bag = BaggingClassifier(SVC(), n_estimators=5, random_state=0).fit(X, y)
    assert bag.score(X, y) > 0.8


def test_one_vs_rest_by_scikit_learn_is_multi_class_ovr(three):
    X, y = three
    theirs = OneVsRestClassifier(SVC(gamma=0.3, tol=1e-6)).fit(X, y)
    ours = SVC(gamma=0.3, tol=1e-6, multi_class="ovr").fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_coef_.shape[0] == len(ours.intercept_) == 3


def test_cross_validation_with_a_precomputed_kernel(binary):
    X, y = binary
    plain = cross_val_score(SVC(kernel="linear"), X, y, cv=3)
    assert_array_equal(cross_val_score(SVC(kernel="precomputed"), X @ X.T, y, cv=3), plain)


# Life of an estimator.


@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed", "warm"])
def test_pickle(kind, binary):
    X, y = binary
    data = {"sparse": sp.csr_array(X), "precomputed": X @ X.T}.get(kind, X)
    kernel = "precomputed" if kind == "precomputed" else "rbf"
    model = SVC(kernel=kernel, warm_start=kind == "warm", solver=SMO()).fit(data, y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.decision_function(data), model.decision_function(data))
    assert again.fit_report_.to_dict() == model.fit_report_.to_dict()
    assert again.solver.selection == "second-order"
    again.fit(data, y)
    if kind == "warm":
        assert again.fit_report_.n_iter <= model.fit_report_.n_iter


def test_clone_keeps_parameters_and_nothing_else(binary):
    X, y = binary
    model = SVC(C=3, solver=SMO("maximal-violating-pair"), multi_class="ovr").fit(X, y)
    fresh = clone(model)
    assert fresh.get_params().keys() == model.get_params().keys()
    assert fresh.C == 3 and fresh.solver.selection == "maximal-violating-pair"
    assert fresh.solver is not model.solver
    assert not hasattr(fresh, "support_")


def test_fit_changes_no_parameter(binary):
    X, y = binary
    model = SVC(gamma="scale", cache_size="auto", class_weight="balanced")
    before = model.get_params()
    model.fit(X, y)
    assert model.get_params() == before


def test_fit_leaves_the_data_alone(binary):
    X, y = binary
    for data in (X.copy(), X.astype(np.float32), sp.csr_array(X), sp.csc_array(X)):
        before = data.copy()
        SVC().fit(data, y).predict(data)
        assert abs(data - before).max() == 0
    frozen = X.copy()
    frozen.flags.writeable = False
    SVC(kernel="linear").fit(frozen, y)


AFTER_A_FORK = """
import os
import numpy as np
from maxmargin import SVC
rng = np.random.default_rng(0)
X, y = rng.normal(size=(1500, 4)), rng.integers(0, 2, 1500)
model = SVC(n_jobs=2, solver="smo").fit(X, y)  # the pool of threads is there now
child = os.fork()
if child == 0:
    again = SVC(n_jobs=2, solver="smo").fit(X, y)
    same = np.array_equal(again.dual_coef_, model.dual_coef_)
    same = same and np.array_equal(model.predict(X), again.predict(X))
    os._exit(0 if same else 1)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no fork on this system")
def test_after_a_fork():
    run = subprocess.run([sys.executable, "-c", AFTER_A_FORK], capture_output=True, text=True)
    assert run.stdout.strip() == "0", run.stderr


# Data frames and labels.


def test_data_frames_with_feature_names(binary):
    X, y = binary
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    labels = pd.Series(np.where(y == 1, "yes", "no"), name="answer")
    model = SVC().fit(frame, labels)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"] and model.n_features_in_ == 4
    assert set(model.predict(frame)) == {"yes", "no"}
    expected = SVC().fit(X, y).decision_function(X)
    assert_allclose(model.decision_function(frame), expected, atol=1e-12)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        model.predict(X)


def test_mixed_and_nullable_frames(binary):
    X, y = binary
    frame = pd.DataFrame({"i": np.arange(len(y)), "f": X[:, 0].astype("f4"), "b": X[:, 1] > 0})
    frame["n"] = pd.array(X[:, 2], dtype="Float64")
    expected = SVC().fit(frame.to_numpy(dtype=float), y)
    found = SVC().fit(frame, y)
    assert_allclose(
        found.decision_function(frame), expected.decision_function(frame.to_numpy(dtype=float)),
        atol=1e-6,
    )  # fmt: skip


@pytest.mark.parametrize(
    "names",
    [("no", "yes"), (False, True), (-1, 1), (10.0, 2.0), ("long name", "x")],
)
def test_any_label_type(names, binary):
    X, y = binary
    labels = np.array([names[0], names[1]])[y]
    ours, theirs = SVC().fit(X, labels), sklearn.svm.SVC().fit(X, labels)
    assert_array_equal(ours.classes_, theirs.classes_)
    assert ours.predict(X).dtype == theirs.predict(X).dtype
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-2)


def test_object_labels_and_lists(binary):
    X, y = binary
    labels = np.where(y == 1, "b", "a").astype(object)
    model = SVC().fit(X.tolist(), labels.tolist())
    assert_array_equal(model.predict(X), SVC().fit(X, labels).predict(X))


# Shapes and signs of the attributes.

ATTRIBUTES = ["support_", "support_vectors_", "n_support_", "dual_coef_", "intercept_", "classes_",
              "class_weight_", "fit_status_", "shape_fit_", "n_features_in_", "n_iter_",
              "_gamma"]  # fmt: skip


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_attributes_are_scikit_learns(n_classes, kernel, container):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X, y = container(X[:150] / 16), y[:150]
    options = {"kernel": kernel, "C": 0.5, "tol": 1e-6, "class_weight": "balanced"}
    ours, theirs = SVC(**options).fit(X, y), sklearn.svm.SVC(**options).fit(X, y)
    names = [*ATTRIBUTES, "coef_"] if kernel == "linear" else ATTRIBUTES
    for name in names:
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert sp.issparse(mine) == sp.issparse(other), name
        if sp.issparse(mine):
            mine, other = mine.toarray(), other.toarray()
        assert np.shape(mine) == np.shape(other), name
        assert np.asarray(mine).dtype.kind == np.asarray(other).dtype.kind, name
        if name != "n_iter_":  # another algorithm, another count
            assert_allclose(np.asarray(mine, float), np.asarray(other, float), atol=2e-4)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("shape", ["ovo", "ovr"])
@pytest.mark.parametrize("break_ties", [False, True])
def test_many_classes_vote_as_in_scikit_learn(shape, break_ties):
    if shape == "ovo" and break_ties:
        pytest.skip("scikit-learn refuses the two together, and so do we")
    X, y = load_digits(return_X_y=True)
    options = {
        "decision_function_shape": shape,
        "break_ties": break_ties,
        "gamma": 0.001,
        "tol": 1e-6,
    }
    ours = SVC(**options).fit(X[:500], y[:500])
    theirs = sklearn.svm.SVC(**options).fit(X[:500], y[:500])
    assert_array_equal(ours.predict(X[500:900]), theirs.predict(X[500:900]))
    decisions = ours.decision_function(X[500:900])
    assert decisions.shape == (400, 45 if shape == "ovo" else 10)
    assert_allclose(decisions, theirs.decision_function(X[500:900]), atol=1e-4)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_linear_coefficients_are_the_decision_function(multi_class, three):
    X, y = three
    model = SVC(kernel="linear", multi_class=multi_class, decision_function_shape="ovr").fit(X, y)
    if multi_class == "ovo":
        model.set_params(decision_function_shape="ovo")
    values = X @ model.coef_.T + model.intercept_
    assert_allclose(values, model.decision_function(X), atol=1e-10)
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 1.0


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.2])
def test_gamma_means_the_same(gamma, sparse):
    X, y = sparse
    for data in (X, X.toarray()):
        ours, theirs = SVC(gamma=gamma).fit(data, y), sklearn.svm.SVC(gamma=gamma).fit(data, y)
        assert_allclose(ours._gamma, theirs._gamma, rtol=1e-12)


def test_scale_of_constant_data_is_one():
    X = np.ones((6, 2))
    assert SVC().fit(X, [0, 1] * 3)._gamma == 1.0


def test_predicting_one_row_and_no_training_row_in_common(binary):
    X, y = binary
    model = SVC().fit(X, y)
    assert_allclose(
        np.concatenate([model.decision_function(row[np.newaxis]) for row in X]),
        model.decision_function(X), atol=1e-12,
    )  # fmt: skip


def test_every_parameter_of_scikit_learn_is_here():
    theirs, ours = sklearn.svm.SVC().get_params(), SVC().get_params()
    assert set(theirs) <= set(ours)
    different = {name for name in theirs if theirs[name] != ours[name]}
    # Before 1.9 the default of `probability` is False there, which is what "deprecated" does.
    assert different - {"probability"} <= {"cache_size", "verbose"}
    assert theirs["probability"] in (False, "deprecated")
