"""SVCSearch finds what scikit-learn's GridSearchCV finds, whatever the candidates share."""

import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    PredefinedSplit,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, NuSVC, SVCSearch
from maxmargin.formulations import c_svc
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Interrupt
from maxmargin.problem import Problem
from maxmargin.search import kernel_store
from maxmargin.search.kernel_store import KernelStore
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath, find_duplicates
from search_oracle import assert_same_results, closely, same_results

GRID = {"C": [0.1, 1, 10, 1000], "gamma": [0.001, 0.03, 1.0]}


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_features", [5, 90])
def test_matrices_of_a_store(monkeypatch, double, sparse, n_features):
    """Of few features, whose inner products are made anew, and of many, whose are kept."""
    monkeypatch.setattr(kernel_store, "precision_of_rows", lambda n: np.float32)
    X = np.random.default_rng(0).normal(size=(500, n_features))
    if sparse:
        X = sp.csr_array(X * (np.abs(X) > 2))
    store = KernelStore(X, 500, 2, double=double)
    for gamma in (0.01, 0.3):
        K = store.get(KernelFunction("rbf", gamma))
        expected, rtol = rbf_kernel(X, gamma=gamma), 1e-12 if double else 2e-7
        np.testing.assert_allclose(K, expected, rtol, atol=1e-37)  # of subnormal numbers
        store.drop([KernelFunction("rbf", gamma)])
    np.testing.assert_allclose(
        store.get(KernelFunction("linear")), (X @ X.T).toarray() if sparse else X @ X.T,
        rtol=1e-12 if double else 2e-7, atol=1e-12 if double else 1e-6,
    )  # fmt: skip
    assert bool(store._products) == (sparse or n_features == 90)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def noisy():
    """Overlapping classes with every fifth sample twice, half of the copies contradicting."""
    X, y = make_classification(400, 6, flip_y=0.2, random_state=0)
    X = np.vstack([X, X[::5]])
    y = np.concatenate([y, np.where(np.arange(80) % 2, y[::5], 1 - y[::5])])
    order = np.random.RandomState(1).permutation(len(y))
    return X[order], y[order]


def compare(grid, data, *, against=None, **options):
    estimator = against or sklearn.svm.SVC()
    return same_results(SVCSearch, estimator, grid, data, **options)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("data", ["cancer", "iris", "noisy"])
def test_same_results_as_grid_search(data, container, request):
    X, y = request.getfixturevalue(data)
    found, expected = compare(GRID, (container(X), y))
    assert found.best_params_ == expected.best_params_
    assert found.best_index_ == expected.best_index_
    assert found.best_score_ == pytest.approx(expected.best_score_)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-4)
    assert found.score(X, y) == pytest.approx(expected.score(X, y))
    assert found.best_estimator_.fit_report_.status == "converged"


def test_default_tolerance_gives_the_scores_of_fits():
    """Digits are large enough for float32 kernels, working sets and several rounds."""
    X, y = load_digits(return_X_y=True)
    X, y = scale(X)[:1200], y[:1200] % 2
    grid = {"C": [0.5, 4, 32, 1024], "gamma": [2**-9, 2**-6, 0.5]}
    found = SVCSearch(grid, cv=3, scoring="roc_auc").fit(X, y)
    expected = GridSearchCV(sklearn.svm.SVC(), grid, cv=3, scoring="roc_auc").fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], atol=1e-4)
    assert found.best_params_ == expected.best_params_


GRIDS = {
    "gamma scale and auto": {"C": [1, 5], "gamma": ["scale", "auto", 0.1]},
    "kernels": {"kernel": ["linear", "rbf", "poly", "sigmoid"], "C": [0.1, 2], "gamma": [0.002]},
    "poly": {"kernel": ["poly"], "degree": [2, 3], "coef0": [0.0, 1.0], "C": [0.1, 1, 10],
             "gamma": [0.05]},
    "list of grids": [{"kernel": ["linear"], "C": [0.01, 1]}, {"gamma": [0.1], "C": [1, 10]}],
    "class weights": {"class_weight": [None, "balanced", {0: 3, 1: 1}], "C": [0.1, 1, 10]},
    "one candidate": {"C": [3.0]},
    "C from large to small": {"C": [100, 0.1, 10], "gamma": [0.1]},
    "infinite C": {"C": [1.0, np.inf], "gamma": [1.0]},
    "numpy values": {"C": np.logspace(-1, 1, 3), "gamma": np.array([0.1, 0.2])},
}  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_every_kind_of_grid(grid, cancer):
    compare(grid, cancer, cv=3)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_parameters_of_our_svc_alone(multi_class, iris):
    grid = {"multi_class": [multi_class], "C": [0.1, 10], "break_ties": [False, True],
            "decision_function_shape": ["ovr"]}  # fmt: skip
    compare(grid, iris, against=SVC(), scoring=["accuracy", "f1_macro"], refit=False)


def count_support(estimator, X, y):
    return {"vectors": len(estimator.support_), "first": estimator.n_support_[0],
            "accuracy": np.mean(estimator.predict(X[::2]) == y[::2])}  # fmt: skip


SCORINGS = {
    "name": {"scoring": "f1"},
    "ranking": {"scoring": "roc_auc"},
    "list": {"scoring": ["accuracy", "average_precision"], "refit": "accuracy"},
    "dict": {"scoring": {"a": "accuracy", "f": make_scorer(f1_score)}, "refit": "f"},
    "callable": {"scoring": lambda e, X, y: accuracy_score(y, e.predict(X))},
    "callable that asks for more": {"scoring": count_support, "refit": "accuracy"},
    "callable refit": {"refit": lambda results: 1},
    "no refit": {"refit": False},
}


@pytest.mark.parametrize("options", SCORINGS.values(), ids=SCORINGS.keys())
def test_every_kind_of_scoring(options, cancer):
    grid = {"C": [0.5, 20], "gamma": [0.01, 0.1]}
    found, expected = compare(grid, cancer, cv=3, **options)
    assert found.multimetric_ == expected.multimetric_
    assert found.best_params_ == expected.best_params_
    assert hasattr(found, "predict") == hasattr(expected, "predict")
    assert hasattr(found, "best_score_") == hasattr(expected, "best_score_")


@pytest.mark.parametrize(
    "cv",
    [
        StratifiedKFold(4, shuffle=True, random_state=0),
        ShuffleSplit(3, test_size=0.2, random_state=0),
        RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0),
        PredefinedSplit(np.arange(569) % 3 - 1),
        [(np.arange(300), np.arange(300, 569))],
        [(np.arange(569) < 300, np.arange(569) >= 200)],
        [(np.random.RandomState(0).randint(0, 400, 400), np.arange(400, 569))],
    ],
    ids=["stratified", "shuffled", "repeated", "predefined", "indices", "masks", "bootstrap"],
)
def test_every_kind_of_split(cv, cancer):
    found, expected = compare({"C": [1, 10]}, cancer, cv=cv)
    assert found.n_splits_ == expected.n_splits_


def test_groups_and_sample_weights(cancer):
    X, y = cancer
    random = np.random.RandomState(0)
    groups = random.randint(0, 8, len(y))
    compare({"C": [1, 10]}, cancer, cv=GroupKFold(3), fit_params={"groups": groups})
    weights = random.randint(0, 3, len(y)).astype(float)
    found, _ = compare(
        {"C": [0.1, 10], "gamma": [0.01]}, cancer, cv=3, fit_params={"sample_weight": weights}
    )
    plain = SVCSearch({"C": [0.1, 10], "gamma": [0.01]}, cv=3).fit(X, y)
    assert (found.cv_results_["mean_test_score"] != plain.cv_results_["mean_test_score"]).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_precomputed_kernel(dtype, cancer):
    X, y = cancer
    K = rbf_kernel(X, gamma=0.03).astype(dtype)
    grid = {"kernel": ["precomputed"], "C": [0.1, 1, 10, 100]}
    found, _ = compare(grid, (K, y), cv=3)
    assert found.__sklearn_tags__().input_tags.pairwise
    assert cross_val_score(found, K, y, cv=2).min() > 0.9
    features = SVCSearch(closely({"gamma": [0.03], "C": [0.1, 1, 10, 100]}), cv=3).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], features.cv_results_["mean_test_score"]
    )


def test_callable_kernel(cancer):
    X, y = cancer
    compare({"kernel": [laplacian_kernel], "C": [0.1, 10]}, (X[:200], y[:200]), cv=3)


def test_integers_float32_and_frames(iris):
    pandas = pytest.importorskip("pandas")
    X, y = iris
    grid = {"C": [1, 100], "gamma": [0.1]}
    expected = SVCSearch(grid).fit(X, y)
    for other in (X.astype(np.float32), pandas.DataFrame(X, columns=list("abcd"))):
        found = SVCSearch(grid).fit(other, y)
        assert found.n_features_in_ == 4
        np.testing.assert_allclose(
            found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
        )
    assert list(found.feature_names_in_) == list("abcd")
    whole = np.round(4 * X).astype(int)
    compare(grid, (whole, y))


ALONE = {
    "another solver": {"solver": ["greedy"], "gamma": [0.1, 1.0]},
    "solver objects": {"solver": [None], "C": [1, 10]},
    "a step limit": {"max_iter": [100_000], "C": [1, 10]},
    "a time limit": {"time_limit": [60.0], "C": [10, 1]},
}


@pytest.mark.parametrize("grid", ALONE.values(), ids=ALONE.keys())
def test_candidates_that_cannot_share_are_fitted_one_by_one(grid, cancer, capsys):
    from maxmargin.solvers import SMO

    if grid.get("solver") == [None]:
        grid = grid | {"solver": [SMO(shrinking=False)]}
    X, y = cancer
    found = SVCSearch(grid, cv=3, verbose=1).fit(X, y)
    assert "one by one" in capsys.readouterr().out
    expected = GridSearchCV(SVC(), grid, cv=3).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"]
    )


def test_too_little_memory_for_a_whole_matrix(cancer, capsys):
    grid = {"cache_size": [0.5], "C": [0.1, 10, 1], "gamma": [0.01, 0.1]}
    found, _ = compare(grid, cancer, cv=3, verbose=1)
    assert "cache_size allows 0 MB" in capsys.readouterr().out
    assert found.best_estimator_.cache_size == 0.5


def test_what_the_shared_way_cannot_solve_is_fitted_alone(cancer, monkeypatch):
    def give_up(self, problem, C):
        raise NeedsFullSolver

    monkeypatch.setattr(RegularisationPath, "solve", give_up)
    compare({"C": [0.1, 10]}, cancer, cv=3)


def test_large_costs_have_exact_residuals(monkeypatch):
    """At C = 1e4 and noise, rounding of float32 kernel values would be more than tol."""
    corrected = []
    correct = RegularisationPath._correct

    def watched(self, problem):
        corrected.append(problem.upper.max())
        correct(self, problem)

    monkeypatch.setattr(RegularisationPath, "_correct", watched)
    random = np.random.RandomState(0)
    X, y = random.randn(700, 2), random.randint(0, 2, 700)
    grid = {"C": [1, 1e4], "gamma": [0.05]}
    found = SVCSearch(grid, cv=2, scoring=_margins, refit=False).fit(X, y)
    expected = GridSearchCV(SVC(), grid, cv=2, scoring=_margins, refit=False).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=2e-3
    )
    assert set(corrected) == {1e4}


def test_what_the_certificate_refuses_is_fitted_alone(monkeypatch):
    """Stored kernel values that are off by more than rounding mislead the path, not the scores."""
    compute = KernelStore._compute

    def spoiled(self, kernel):
        K = compute(self, kernel).copy()
        K[::3] *= 1.01
        K[:, ::3] *= 1.01
        return K

    monkeypatch.setattr(KernelStore, "_compute", spoiled)
    random = np.random.RandomState(0)
    X, y = random.randn(600, 2), random.randint(0, 2, 600)  # as many as are stored in float32
    grid = {"C": [1, 10], "gamma": [0.5]}
    seen = []

    def scoring(estimator, X, y):
        seen.append(type(estimator))
        return _margins(estimator, X, y)

    found = SVCSearch(grid, cv=2, scoring=scoring, refit=False).fit(X, y)
    assert set(seen) == {SVC}
    expected = GridSearchCV(SVC(), grid, cv=2, scoring=_margins, refit=False).fit(X, y)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=2e-3
    )


def test_kernels_that_overflow_fail_as_fits_do(iris):
    X, y = iris
    grid = {"kernel": ["poly"], "degree": [9], "C": [1.0], "coef0": [1e40]}
    with pytest.raises(ValueError, match="not finite"):
        SVCSearch(grid, cv=2).fit(X, y)


def _margins(estimator, X, y):
    return float(np.abs(estimator.decision_function(X)).mean())


def test_scores_do_not_depend_on_threads(noisy):
    X, y = noisy
    one, two = (SVCSearch(GRID, n_jobs=n, scoring=_margins).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


# The path from one C to the next.


class Path:
    """A path over the C of one C-SVC."""

    def __init__(self, X, y, gamma):
        distinct, which = np.unique(X, axis=0, return_inverse=True)
        which = which.ravel()  # a column with NumPy 2.0
        self.K = rbf_kernel(distinct, gamma=gamma)[which][:, which]  # duplicates to the bit
        self.signs = np.where(y == 1, 1.0, -1.0)
        self.kernel = PrecomputedKernelMatrix(np.ascontiguousarray(self.K))
        self.path = RegularisationPath(self.kernel, find_duplicates(self.K), 1e-3, Interrupt())

    def solve(self, C):
        linear, lower, upper = c_svc(self.signs, np.full(len(self.signs), float(C)))
        self.problem = Problem(self.kernel, linear, lower, upper)
        self.path.solve(self.problem, C)
        return self.path.beta


def test_duplicates_are_samples_with_the_same_kernel_values(noisy):
    X, _ = noisy
    K = rbf_kernel(X)
    K = 0.5 * (K + K.T)
    groups = np.unique(X, axis=0, return_inverse=True)[1].ravel()
    duplicates = find_duplicates(np.round(K, 6))
    assert np.array_equal(duplicates[:, None] == duplicates, groups[:, None] == groups)
    assert len(np.unique(find_duplicates(rbf_kernel(X[:50] + np.arange(50)[:, None])))) == 50


@pytest.mark.parametrize("gamma", [0.01, 0.3, 20.0])
def test_path_is_optimal_at_every_cost(gamma, noisy):
    path = Path(*noisy, gamma)
    for C in (0.1, 0.3, 1, 8, 8, 100, 1e4):
        beta = path.solve(C)
        residual, problem = path.signs - path.K @ beta, path.problem
        np.testing.assert_allclose(residual, path.path.residual, atol=1e-6)
        assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
        assert (beta >= problem.lower).all() and (beta <= problem.upper).all()
        highest = residual[beta < problem.upper].max()
        assert highest - residual[beta > problem.lower].min() <= 1e-3


def test_a_solution_that_no_cost_changes_costs_nothing(noisy):
    """Contradicting duplicates stay at their bounds for ever, and must not spoil it."""
    path = Path(*noisy, 20.0)
    beta = path.solve(100.0)
    assert np.abs(beta).max() == 100.0
    steps, product = path.path.steps, path.K @ beta
    beta = path.solve(1000.0)
    assert path.path.steps == steps and np.abs(beta).max() == 1000.0
    np.testing.assert_allclose(path.K @ beta, product, atol=1e-8)


# A good citizen.


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SVCSearch({"C": [1.0, 10.0], "gamma": ["scale"]}, cv=2)])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_clone_pickle_and_parameters(iris):
    X, y = iris
    search = SVCSearch({"C": [1, 10]}, cv=3, scoring="accuracy", n_jobs=1)
    copy = clone(search).set_params(cv=4)
    assert search.cv == 3 and copy.get_params()["cv"] == 4
    search.fit(X, y)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))
    assert again.best_params_ == search.best_params_
    assert "SVCSearch" in repr(search) and search._repr_html_()


def test_inside_pipelines_and_other_searches(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), SVCSearch({"C": [1, 10]}, cv=2))
    assert cross_val_score(pipeline, X, y, cv=3).min() > 0.9
    outer = GridSearchCV(SVCSearch({"C": [1, 10]}), {"cv": [2, 3]}, cv=2).fit(X[:200], y[:200])
    assert outer.best_estimator_.best_params_["C"] in (1, 10)


@pytest.mark.skipif(
    not hasattr(SVCSearch, "set_callbacks"), reason="scikit-learn has callbacks from 1.9 on."
)
def test_callbacks_of_scikit_learn_see_every_fit(iris):
    class Counter:
        ended = 0

        def setup(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            self.ended += context.task_name == "candidate-split-evaluation"

        def teardown(self, estimator, context):
            pass

    counter = Counter()
    SVCSearch({"C": [1, 10]}, cv=3).set_callbacks(counter).fit(*iris)
    assert counter.ended == 6


def test_progress_is_told(iris, capsys):
    search = SVCSearch({"C": [1, 10]}, cv=3, verbose=1)
    told = []
    search._report = lambda done, total: told.append((done, total))
    search.fit(*iris)
    assert told == [(done, 6) for done in range(1, 7)]
    assert "6 of 6 fits" in capsys.readouterr().out


def test_a_fold_without_all_classes_scores_nan(iris):
    X, y = iris
    splits = [(np.arange(50), np.arange(50, 150)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
    with pytest.warns(FitFailedWarning, match="2 fits failed out of a total of 4"):
        found = SVCSearch({"C": [1, 10]}, cv=splits).fit(X, y)
    assert np.isnan(found.cv_results_["split0_test_score"]).all()
    assert np.isfinite(found.cv_results_["split1_test_score"]).all()
    with pytest.raises(ValueError, match="has to be greater than one"):
        SVCSearch({"C": [1]}, cv=splits[:1]).fit(X, y)


BAD = {
    "no such parameter": ({"c": [1]}, {}, "Invalid parameter 'c'"),
    "a cost of zero": ({"C": [1, 0]}, {}, "The 'C' parameter of SVC must be a float in"),
    "an unknown kernel": ({"kernel": ["cubic"]}, {}, "The 'kernel' parameter of SVC must be"),
    "an unknown solver": ({"solver": ["fast"]}, {}, "fast"),
    "no values": ({"C": []}, {}, "need to be a non-empty sequence"),
    "no list": ({"C": 3}, {}, "needs to be a list or"),
    "an unknown score": ({"C": [1]}, {"scoring": "best"}, "The 'scoring' parameter of SVCSearch"),
    "one fold": (
        {"C": [1]},
        {"cv": 1},
        "The 'cv' parameter of SVCSearch must be an int in the range",
    ),
    "which score": ({"C": [1]}, {"scoring": ["f1", "accuracy"]}, "refit must be set to a scorer"),
}


@pytest.mark.parametrize("grid, options, sentence", BAD.values(), ids=BAD.keys())
def test_bad_input_is_told_in_a_sentence(grid, options, sentence, iris):
    with pytest.raises((ValueError, TypeError), match=sentence):
        SVCSearch(grid, **options).fit(*iris)


def test_bad_data_is_told_in_a_sentence(iris):
    X, y = iris
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        SVCSearch({"C": [1]}).fit(broken, y)
    with pytest.raises(ValueError, match="requires y"):
        SVCSearch({"C": [1]}).fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        SVCSearch({"C": [1]}).fit(X, y[:-1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'weight'"):
        SVCSearch({"C": [1]}).fit(X, y, weight=np.ones(len(y)))


def test_scores_that_need_probabilities_are_nan_with_a_warning(iris):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = SVCSearch({"C": [1]}, scoring="neg_log_loss", refit=False, cv=2).fit(*iris)
    assert np.isnan(found.cv_results_["mean_test_score"]).all()
    assert any("Scoring failed" in str(one.message) for one in caught)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
def test_ctrl_c_ends_the_search(noisy):
    X, y = noisy
    # A shell that starts the tests in the background has Python ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    search = SVCSearch({"C": [1, 10, 100, 1000], "gamma": [0.1, 0.2, 0.3]}, n_jobs=2)
    # How many of the other fits are done by then depends on the machine; their scores do not count.
    search._report = lambda done, total: (
        os.kill(os.getpid(), signal.SIGINT) if done == 1 else None
    )  # fmt: skip
    try:
        with pytest.raises(KeyboardInterrupt):
            search.fit(X, y)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(search, "cv_results_")
    assert threading.active_count() < 20


# As GridSearchCV is called.


def test_an_estimator_may_come_first(cancer):
    """`GridSearchCV(SVC(…), grid)` becomes `SVCSearch(SVC(…), grid)` by its name alone."""
    X, y = cancer
    estimator = SVC(kernel="poly", degree=2, tol=1e-6, class_weight="balanced")
    grid = {"C": [0.1, 1], "coef0": [0.0, 1.0]}
    found = SVCSearch(estimator, grid, cv=3, return_train_score=True).fit(X, y)
    expected = GridSearchCV(estimator, grid, cv=3, return_train_score=True).fit(X, y)
    assert_same_results(found, expected)
    assert found.best_estimator_.degree == 2
    assert found.get_params()["estimator__degree"] == 2
    assert not hasattr(estimator, "support_")
    assert set(GridSearchCV(estimator, grid).get_params()) <= set(found.get_params())
    precomputed = SVCSearch(SVC(kernel="precomputed"), {"C": [1, 10]}, cv=2)
    assert precomputed.__sklearn_tags__().input_tags.pairwise
    assert precomputed.fit(rbf_kernel(X, gamma=0.03), y).best_score_ > 0.9


@pytest.mark.parametrize(
    "estimator, sentence",
    [
        (sklearn.svm.SVC(), "not sklearn.SVC: from maxmargin import SVC"),
        (make_pipeline(SVC()), "not sklearn.Pipeline: put the SVCSearch into the pipeline"),
        (NuSVC(), "not maxmargin.NuSVC: GridSearchCV tunes everything else"),
        (None, "not builtins.NoneType"),
    ],
)
def test_other_estimators_are_refused_in_a_sentence(estimator, sentence, iris):
    with pytest.raises(TypeError, match=f"SVCSearch tunes maxmargin.SVC, {sentence}"):
        SVCSearch(estimator, {"C": [1]}).fit(*iris)


@pytest.mark.parametrize("data", ["cancer", "iris"])
def test_train_scores(data, request):
    found, _ = compare(
        {"C": [0.1, 10], "gamma": [0.01, 1.0]}, request.getfixturevalue(data),
        cv=3, return_train_score=True, scoring=["accuracy", "f1_macro"], refit=False,
    )  # fmt: skip
    assert found.cv_results_["mean_train_accuracy"].max() > 0.95


def test_error_score(iris):
    X, y = iris
    splits = [(np.arange(50), np.arange(50, 150)), (np.arange(0, 150, 2), np.arange(1, 150, 2))]
    with pytest.warns(FitFailedWarning):
        found = SVCSearch({"C": [1]}, cv=splits, error_score=-1, return_train_score=True).fit(X, y)
    assert found.cv_results_["split0_test_score"] == found.cv_results_["split0_train_score"] == -1
    with pytest.raises(ValueError, match="greater than one"):
        SVCSearch({"C": [1]}, cv=splits, error_score="raise").fit(X, y)


def test_metadata_routing(cancer):
    """Weights go where the estimator and the scorer ask for them, and nowhere else."""
    X, y = cancer
    weights = np.random.RandomState(0).randint(1, 4, len(y)).astype(float)
    grid = {"C": [0.1, 10], "gamma": [0.01], "tol": [1e-6]}
    with sklearn.config_context(enable_metadata_routing=True):
        scorer = make_scorer(accuracy_score).set_score_request(sample_weight=False)
        estimator = SVC().set_fit_request(sample_weight=True)
        found, expected = (
            search(estimator, grid, cv=3, scoring=scorer).fit(X, y, sample_weight=weights)
            for search in (SVCSearch, GridSearchCV)
        )
        assert_same_results(found, expected)
        with pytest.raises(TypeError, match="sample_weight"):
            SVCSearch(SVC().set_fit_request(sample_weight=False), grid, scoring=scorer).fit(
                X, y, sample_weight=weights
            )
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), found)
        predicted = pipeline.fit(X, y, sample_weight=weights).predict(X)
        assert (predicted == y).mean() > 0.9
    both = SVCSearch(grid, cv=3).fit(X, y, sample_weight=weights)
    assert_same_results(both, GridSearchCV(SVC(), grid, cv=3).fit(X, y, sample_weight=weights))
    if hasattr(SVC, "set_callbacks"):  # from scikit-learn 1.9 on weights go into scores unasked
        assert (found.cv_results_["mean_test_score"] != both.cv_results_["mean_test_score"]).any()
