"""SVRSearch finds what scikit-learn's GridSearchCV over SVR finds."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import SVC, SVR, SVRSearch
from maxmargin.formulations import epsilon_svr
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Interrupt
from maxmargin.problem import Problem
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath
from search_oracle import assert_same_results, same_results

GRID = {"C": [0.1, 1, 10, 300], "gamma": [0.01, 0.3], "epsilon": [0.0, 0.05, 0.5]}


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return scale(X), scale(y)


@pytest.fixture(scope="module")
def duplicates():
    """Every fifth sample twice, with another target."""
    X, y = make_friedman1(150, noise=1.0, random_state=0)
    X, y = np.vstack([X, X[::5]]), np.concatenate([y, y[::5] + 1.0])
    order = np.random.RandomState(1).permutation(len(y))
    return scale(X[order]), scale(y[order])


def compare(grid, data, **options):
    return same_results(SVRSearch, sklearn.svm.SVR(), grid, data, atol=1e-5, **options)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("data", ["diabetes", "duplicates"])
def test_same_results_as_grid_search(data, container, request):
    X, y = request.getfixturevalue(data)
    X, y = X[:250], y[:250]
    found, expected = compare(GRID, (container(X), y), cv=3)
    assert found.best_params_ == expected.best_params_
    assert found.best_score_ == pytest.approx(expected.best_score_, rel=1e-4)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), atol=1e-3)
    assert found.score(X, y) == pytest.approx(expected.score(X, y), rel=1e-4)
    assert found.best_estimator_.fit_report_.status == "converged"


def test_default_tolerance_gives_the_scores_of_fits():
    """Large enough for float32 kernels, working sets, Newton steps and exact residuals."""
    X, y = make_friedman1(1400, noise=0.5, random_state=0)
    X, y = scale(X), scale(y)
    grid = {"C": [0.5, 16, 1024], "gamma": [2**-6, 0.25], "epsilon": [0.05, 0.2]}
    found = SVRSearch(grid, cv=2).fit(X, y)
    expected = GridSearchCV(SVR(), grid, cv=2).fit(X, y)
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found.cv_results_[name], expected.cv_results_[name], atol=1e-3)
    assert found.best_params_ == expected.best_params_


GRIDS = {
    "gamma scale and auto": {"C": [1, 5], "gamma": ["scale", "auto", 0.1]},
    "kernels": {"kernel": ["linear", "rbf", "poly", "sigmoid"], "C": [0.1, 2], "gamma": [0.002]},
    "poly": {"kernel": ["poly"], "degree": [2], "coef0": [0.0, 1.0], "C": [0.1, 1],
             "gamma": [0.05], "epsilon": [0.2, 0.1]},
    "list of grids": [{"kernel": ["linear"], "C": [0.01, 1]}, {"gamma": [0.1], "epsilon": [0, 1]}],
    "epsilon alone": {"epsilon": [0.5, 0.0, 0.1]},
    "nobody outside the tube": {"epsilon": [100.0], "C": [1, 10]},
    "C from large to small": {"C": [100, 0.1, 10], "gamma": [0.1]},
    "numpy values": {"C": np.logspace(-1, 1, 3), "epsilon": np.array([0.1, 0.2])},
}  # fmt: skip


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_every_kind_of_grid(grid, diabetes):
    X, y = diabetes
    compare(grid, (X[:200], y[:200]), cv=3)


def count_support(estimator, X, y):
    return {"vectors": len(estimator.support_), "half": estimator.score(X[::2], y[::2])}


SCORINGS = {
    "name": {"scoring": "neg_mean_squared_error"},
    "list": {"scoring": ["r2", "neg_median_absolute_error"], "refit": "r2"},
    "dict": {"scoring": {"e": make_scorer(mean_absolute_error, greater_is_better=False)},
             "refit": "e"},
    "callable": {"scoring": lambda e, X, y: -mean_absolute_error(y, e.predict(X))},
    "callable that asks for more": {"scoring": count_support, "refit": "half"},
    "no refit": {"refit": False},
    "train scores": {"return_train_score": True},
    "other folds": {"cv": ShuffleSplit(3, test_size=0.3, random_state=0)},
}  # fmt: skip


@pytest.mark.parametrize("options", SCORINGS.values(), ids=SCORINGS.keys())
def test_every_kind_of_scoring(options, diabetes):
    grid = {"C": [0.5, 20], "gamma": [0.01, 0.1]}
    found, expected = compare(grid, diabetes, **({"cv": 3} | options))
    assert found.best_params_ == expected.best_params_
    assert hasattr(found, "predict") == hasattr(expected, "predict")


def test_sample_weights(diabetes):
    X, y = diabetes
    weights = np.random.RandomState(0).randint(0, 3, len(y)).astype(float)
    grid = {"C": [0.1, 10], "gamma": [0.01], "epsilon": [0.1, 0.3]}
    found, _ = compare(grid, diabetes, cv=3, fit_params={"sample_weight": weights})
    plain = SVRSearch(grid, cv=3).fit(X, y)
    assert (found.cv_results_["mean_test_score"] != plain.cv_results_["mean_test_score"]).any()


def test_kernels_of_the_user(diabetes):
    X, y = diabetes
    X, y = X[:200], y[:200]
    grid = {"C": [0.1, 1, 10], "epsilon": [0.1, 0.2]}
    found, _ = compare(grid | {"kernel": ["precomputed"]}, (rbf_kernel(X, gamma=0.03), y), cv=3)
    assert found.__sklearn_tags__().input_tags.pairwise
    compare(grid | {"kernel": [laplacian_kernel]}, (X, y), cv=3)


ALONE = {
    "a solver object": {"solver": [None], "C": [1, 10], "epsilon": [0.1, 0.2]},
    "a step limit": {"max_iter": [100_000], "C": [1, 10]},
    "too little memory": {"cache_size": [0.5], "C": [1, 10], "epsilon": [0.2, 0.1]},
}


@pytest.mark.parametrize("grid", ALONE.values(), ids=ALONE.keys())
def test_candidates_that_cannot_share_are_fitted_one_by_one(grid, diabetes, capsys):
    from maxmargin.solvers import SMO

    if grid.get("solver") == [None]:
        grid = grid | {"solver": [SMO(shrinking=False)]}
    X, y = diabetes
    found = SVRSearch(SVR(tol=1e-6), grid, cv=3, verbose=1).fit(X, y)
    assert "one by one" in capsys.readouterr().out
    assert_same_results(found, GridSearchCV(SVR(tol=1e-6), grid, cv=3).fit(X, y), atol=1e-5)


def test_what_the_shared_way_cannot_solve_is_fitted_alone(diabetes, monkeypatch):
    solve = RegularisationPath.solve

    def give_up(self, problem, C):
        if C > 1:
            raise NeedsFullSolver
        solve(self, problem, C)

    monkeypatch.setattr(RegularisationPath, "solve", give_up)
    compare({"C": [0.1, 1, 10], "epsilon": [0.1, 0.2]}, diabetes, cv=3)


@pytest.mark.parametrize("gamma", [0.01, 0.3, 20.0])
def test_path_is_optimal_at_every_cost_and_epsilon(gamma, duplicates):
    X, y = duplicates
    K = rbf_kernel(X, gamma=gamma)
    kernel = PrecomputedKernelMatrix(K)
    path = RegularisationPath(kernel, np.arange(len(y)), 1e-3, Interrupt())
    for C in (0.1, 1, 8, 8, 100, 1e4):
        for epsilon in (0.0, 0.05, 0.3):
            problem = Problem(kernel, **epsilon_svr(y, np.full(len(y), C), epsilon))
            path.solve(problem, C)
            beta, residual = path.beta, y - K @ path.beta
            assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
            assert (np.abs(beta) <= C).all()
            grow = residual + np.where(beta >= 0, -epsilon, epsilon)
            shrink = residual + np.where(beta > 0, -epsilon, epsilon)
            assert grow[beta < C].max() - shrink[beta > -C].min() <= 1e-3


def test_scores_do_not_depend_on_threads(duplicates):
    one, two = (SVRSearch(GRID, cv=3, n_jobs=n).fit(*duplicates) for n in (1, 2))
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


def test_folds_are_those_of_a_regression(diabetes):
    X, y = diabetes
    numbered, split = (SVRSearch({"C": [1]}, cv=cv).fit(X, y) for cv in (4, KFold(4)))
    assert numbered.best_score_ == split.best_score_
    assert make_pipeline(StandardScaler(), SVRSearch({"C": [1]})).fit(X, y).score(X, y) > 0.4


def test_other_estimators_are_refused_in_a_sentence(diabetes):
    with pytest.raises(TypeError, match=r"SVRSearch tunes maxmargin.SVR, not maxmargin.SVC"):
        SVRSearch(SVC(), {"C": [1]}).fit(*diabetes)


def test_heat_map(diabetes):
    pytest.importorskip("matplotlib").use("agg")
    from maxmargin.plotting import plot_grid

    search = SVRSearch({"C": [1, 10], "gamma": [0.01, 0.1], "epsilon": [0.1, 0.5]}, cv=2)
    found = search.fit(*diabetes)
    drawn = plot_grid(found)
    assert drawn.names == ("gamma", "C")
    assert drawn.scores.max() == found.best_score_
    by_epsilon = plot_grid(found, x="epsilon", y="C")
    assert by_epsilon.scores.shape == (2, 2) and by_epsilon.scores.max() == found.best_score_


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([SVRSearch({"C": [1.0, 10.0], "epsilon": [0.1, 0.2]}, cv=2)])
def test_estimator_checks(estimator, check):
    check(estimator)
