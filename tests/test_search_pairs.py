"""Searches over many classes: all pairs of a fold together, on one matrix for all folds."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import PredefinedSplit, ShuffleSplit, StratifiedKFold
from sklearn.preprocessing import scale

from maxmargin import SVC, SVCSearch
from maxmargin.monitor import Interrupt
from maxmargin.search import chains, class_pairs
from maxmargin.search.class_pairs import ClassOrder, PairsOfFolds
from maxmargin.search.folds import CVData, Fold
from maxmargin.solvers.pairs import HARD
from maxmargin.solvers.path import NeedsFullSolver, RegularisationPath
from search_oracle import same_results

GROWING = np.array([0.1, 1.0, 1.0, 30.0, 1e3, 1e4])
TOL = 1e-3


@pytest.fixture(scope="module")
def four():
    """Four overlapping classes with every seventh sample twice, some copies contradicting."""
    X, y = make_classification(
        300, 5, n_informative=4, n_redundant=0, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    X, y = np.vstack([X, X[::7]]), np.concatenate([y, np.roll(y[::7], 1)])
    order = np.random.RandomState(1).permutation(len(y))
    return scale(X[order]), np.array(["ash", "birch", "cedar", "elm"])[y[order]]


@pytest.fixture
def followed(monkeypatch):
    """The folds whose pairs were solved together."""
    seen = []
    begin = PairsOfFolds.__init__

    def watched(self, folds, *arguments):
        seen.extend(folds)
        begin(self, folds, *arguments)

    monkeypatch.setattr(PairsOfFolds, "__init__", watched)
    return seen


def compare(grid, data, **options):
    return same_results(SVCSearch, sklearn.svm.SVC(), grid, data, **options)


def one_fold(data, weights=None):
    """A fold, its samples in the order of classes, and their kernel matrix."""
    X, y = data
    splits = list(StratifiedKFold(3).split(X, y))
    fit_params = {} if weights is None else {"sample_weight": weights}
    fold = Fold(CVData(X, y, splits, fit_params, {}), 0, SVC()).prepare(SVC())
    samples = ClassOrder([fold], len(y))
    ordered = X if samples.order is None else X[samples.order]
    return fold, samples, rbf_kernel(ordered, gamma=0.3)


def solved(fold, samples, K, growing, tol, interrupt=None):
    """The solutions of one fold."""
    pairs = PairsOfFolds([fold], samples, K, growing, tol)
    for part in pairs.parts:
        pairs.solve(part, interrupt or Interrupt())
    return pairs.of_fold[0]


@pytest.mark.parametrize("tol", [TOL, 1e-6], ids=["single", "double"])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_pair_is_optimal_at_every_cost(weighted, tol, four):
    random = np.random.RandomState(0)
    weights = random.choice([0.0, 0.5, 1.0, 3.0], len(four[1])) if weighted else None
    fold, samples, K = one_fold(four, weights)
    pairs = solved(fold, samples, K, GROWING, tol)
    hard = {(at, pair) for pair, first in pairs.hard() for at in range(first, len(GROWING))}
    assert len(hard) < 6
    for at, C in enumerate(GROWING):
        for pair, task in enumerate(fold.tasks):
            if (at, pair) in hard:
                continue
            place = samples.place[fold.train[task.index]]
            beta, bound = pairs.beta_of(at, pair), C * fold.data.costs[task.index]
            lower, upper = np.where(task.signs > 0, 0, -bound), np.where(task.signs > 0, bound, 0)
            assert (beta >= lower).all() and (beta <= upper).all()
            assert abs(beta.sum()) <= 1e-9 * np.abs(beta).sum()
            residual = task.signs - K[np.ix_(place, place)] @ beta
            highest, lowest = residual[beta < upper].max(), residual[beta > lower].min()
            assert highest - lowest <= tol
            assert lowest - tol <= pairs.intercepts[at, pair] <= highest + tol
            earlier = pairs.solved_at[at, pair]
            np.testing.assert_array_equal(beta, pairs.beta_of(earlier, pair))
    taking_part = samples.place[fold.train[fold.data.codes >= 0]]
    others = np.setdiff1d(np.arange(len(K)), taking_part)
    assert len(others) and not pairs.beta[:, :, others].any()


def test_decision_values_are_the_sums_over_support_vectors(four):
    fold, samples, K = one_fold(four)
    pairs = solved(fold, samples, K, GROWING[:4], TOL)
    assert (pairs.solved_at[2] != 2).all()  # the same C once more
    places = samples.place[fold.test]
    found = pairs.decisions(places)
    for at in range(4):
        for pair, (beta, intercept) in enumerate(pairs.answers(at)):
            train = samples.place[fold.train[fold.tasks[pair].index]]
            expected = K[np.ix_(places, train)] @ beta + intercept
            np.testing.assert_allclose(found[at, pair], expected, atol=1e-9)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_same_results_as_grid_search(container, followed):
    X, y = load_digits(return_X_y=True)
    data = container(X[:500] / 16), y[:500]
    compare({"C": [0.5, 8, 128], "gamma": [0.01, 0.1, 1.0]}, data, cv=3, return_train_score=True)
    assert len(followed) == 9


@pytest.mark.parametrize(
    "grid",
    [
        {"C": [1, 10, 100], "class_weight": ["balanced", {"ash": 4, "elm": 0.2}]},
        {"C": [0.1, 10], "decision_function_shape": ["ovo", "ovr"], "break_ties": [False]},
        [{"kernel": ["poly"], "degree": [2, 3]}, {"kernel": ["linear"], "C": [0.1, 1]}],
        {"kernel": [rbf_kernel], "C": [1, 10]},
    ],
    ids=["class_weight", "shapes", "kernels", "callable"],
)
def test_every_kind_of_grid(grid, four, followed):
    compare(grid, four, cv=3)
    assert followed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_precomputed_kernel(dtype, four, followed):
    X, y = four
    K = rbf_kernel(X, gamma=0.2).astype(dtype)
    compare({"kernel": ["precomputed"], "C": [1, 10]}, (K, y), cv=3)
    np.testing.assert_array_equal(K, rbf_kernel(X, gamma=0.2).astype(dtype))
    assert followed


def test_weights_of_samples(four, followed):
    weights = np.random.RandomState(0).choice([0.0, 1.0, 2.0], len(four[1]))
    grid = {"C": [1, 10], "gamma": [0.2]}
    compare(grid, four, cv=3, fit_params={"sample_weight": weights})
    assert followed


def test_folds_that_lack_a_class(followed):
    """The fold that holds out all of one class trains with the three others."""
    X, y = make_classification(
        240, 5, n_informative=4, n_redundant=0, n_classes=4, n_clusters_per_class=1, random_state=0
    )
    fold = np.where(y == 2, 0, np.arange(240) % 3)
    compare({"C": [1, 10], "gamma": [0.2]}, (X, y), cv=PredefinedSplit(fold))
    assert sorted(len(fold.data.classes) for fold in followed) == [3, 4, 4]


def test_training_samples_that_are_few_or_repeated_go_one_by_one(four, followed):
    n = len(four[1])
    repeated = [(np.tile(np.arange(0, n, 2), 2), np.arange(1, n, 2))]
    for cv in (ShuffleSplit(2, train_size=0.3, random_state=0), repeated):
        compare({"C": [1, 10], "gamma": [0.2]}, four, cv=cv)
    assert not followed


def test_too_little_memory_for_double_precision(four, followed, monkeypatch):
    n = len(four[1])
    monkeypatch.setattr(chains, "memory_budget", lambda cache_size: 8 * n * n * 2)
    compare({"C": [1, 10], "gamma": [0.2]}, four, cv=3, n_jobs=1)
    assert followed
    followed.clear()
    monkeypatch.setattr(chains, "memory_budget", lambda cache_size: 8 * n * n * 2 - 1)
    compare({"C": [1, 10], "gamma": [0.2]}, four, cv=3, n_jobs=1)
    assert not followed


@pytest.mark.parametrize("path_gives_up", [False, True])
def test_hard_pairs_go_on_by_other_solvers(path_gives_up, four, monkeypatch):
    follow, begun = class_pairs.follow_pairs, []

    def gives_up(*arguments):
        follow(*arguments)
        status, solved_at, _ = arguments[-1]
        status[:, 1:, ::2] = HARD
        solved_at[:, 1:, ::2] = np.arange(1, status.shape[1])[:, None]

    def begin(self, problem, C, beta):
        begun.append(C)
        if path_gives_up:
            raise NeedsFullSolver
        start(self, problem, C, beta)

    start = RegularisationPath.begin
    monkeypatch.setattr(class_pairs, "follow_pairs", gives_up)
    monkeypatch.setattr(RegularisationPath, "begin", begin)
    compare({"C": [0.1, 1, 10, 100], "gamma": [0.2]}, four, cv=3)
    assert begun and set(begun) == {1.0}


def test_a_scorer_may_ask_for_the_model(four):
    def scoring(model, X, y):
        fit = SVC(C=model.C, gamma=model.gamma, tol=1e-6).fit(*trained[len(y)])
        np.testing.assert_array_equal(model.support_, fit.support_)
        np.testing.assert_allclose(model.dual_coef_, fit.dual_coef_, atol=1e-3)
        np.testing.assert_allclose(model.intercept_, fit.intercept_, atol=1e-3)
        other = X[:5] + 0.1
        np.testing.assert_allclose(
            model.decision_function(other), fit.decision_function(other), atol=1e-3
        )
        return 1.0

    X, y = four
    splits = list(StratifiedKFold(2).split(X, y))[:1]
    trained = {len(test): (X[train], y[train]) for train, test in splits}
    grid = {"C": [1, 10], "gamma": [0.2], "tol": [1e-6]}
    SVCSearch(grid, cv=splits, scoring=scoring, error_score="raise", refit=False).fit(X, y)


def test_scores_do_not_depend_on_threads(four):
    def margins(model, X, y):
        return float(np.abs(model.decision_function(X)).mean())

    grid = {"C": [1, 10, 100], "gamma": [0.05, 0.2]}
    one, two = (SVCSearch(grid, n_jobs=n, scoring=margins).fit(*four) for n in (1, 2))
    np.testing.assert_array_equal(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"]
    )


def test_an_interrupt_ends_it(four):
    fold, samples, K = one_fold(four)
    interrupt = Interrupt()
    interrupt.requested = True
    with pytest.raises(KeyboardInterrupt):
        solved(fold, samples, K, GROWING, TOL, interrupt)


def test_a_hard_margin_is_left_to_the_other_way(four, followed):
    X, first = np.unique(four[0], axis=0, return_index=True)
    y = four[1][first]
    compare({"C": [1.0, 1e30], "gamma": [2.0]}, (X, y), cv=2)
    assert not followed


def test_decision_values_of_very_many_classes_are_not_held_at_once():
    """One float64 matrix and its copies fit the memory, the values of 780 pairs do not."""
    random = np.random.RandomState(0)
    y = np.repeat(np.arange(40), 6)
    X = random.randn(40, 8)[y] + 0.7 * random.randn(len(y), 8)
    seen = []

    def accuracy(estimator, X, y):
        seen.append(type(estimator))
        return estimator.score(X, y)

    found = []
    for megabytes in (2, 100):
        search = SVCSearch(
            SVC(cache_size=megabytes), {"C": [1, 10]}, cv=3, scoring=accuracy, refit=False, n_jobs=2
        ).fit(X, y)
        found.append(search.cv_results_["mean_test_score"])
    assert seen[:6] == [SVC] * 6
    assert SVC not in seen[6:]
    np.testing.assert_array_equal(*found)
