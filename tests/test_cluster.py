"""ClusterSVM: its parts against their definitions, its answers against the exact ones."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import DBSCAN, KMeans
from sklearn.datasets import load_digits, make_blobs

import oracle
from maxmargin import SVC
from maxmargin.formulations import c_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Monitor
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers import SMO, ClusterSVM
from maxmargin.solvers.cluster import partition as partition_module
from maxmargin.solvers.cluster import reduction as reduction_module
from maxmargin.solvers.cluster import solver as cluster_module
from maxmargin.solvers.cluster.averaged_kernel import AveragedKernelMatrix, averaged_kernel
from maxmargin.solvers.cluster.partition import pseudo_centre, sample_features
from maxmargin.solvers.cluster.pddp import pddp, principal_projection
from maxmargin.solvers.cluster.reduction import Reduction
from maxmargin.solvers.cluster.solver import best_intercept


def exact(**options):
    return ClusterSVM(base="smo", passes=None, **options)


@pytest.fixture(scope="module")
def overlapping():
    """Three classes that overlap: most support vectors are at the bound."""
    return make_blobs(240, centers=[(0, 1.7), (-1, 0), (1, 0)], random_state=0)


def optimal(model, X, y, costs=None, **kernel):
    """The oracle's KKT violation of a binary model."""
    alpha, labels = oracle.alphas(model, len(y)), oracle.signs(model, y)
    costs = np.full(len(y), model.C) if costs is None else costs
    assert (alpha <= costs * (1 + 1e-12)).all()
    K = oracle.kernel_values(X, X, **kernel)
    return oracle.kkt_violation(K, labels, alpha, costs) <= model.tol * (1 + 1e-6) + 1e-9


# Principal direction divisive partitioning.


def test_pddp_splits_the_cluster_of_largest_scatter_at_its_mean():
    X = np.array([[0.0], [1.0], [10.0], [14.0], [11.0]])
    assert_array_equal(pddp(X, 1), [0, 0, 0, 0, 0])
    two = pddp(X, 2)
    assert two[0] == two[1] and two[2] == two[3] == two[4] != two[0]
    three = pddp(X, 3)
    assert three[2] == three[4] != three[3] and three[0] == three[1]


@pytest.mark.parametrize("shape", [(400, 3), (30, 400), (500, 300)])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_principal_projection_is_that_of_a_full_svd(shape, container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) + 3.0
    X[:, 0] += 12 * rng.choice([-1.0, 1.0], shape[0])
    left, _, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    found = principal_projection(container(X))
    cosine = abs(found @ left[:, 0]) / np.linalg.norm(found)
    assert cosine > 0.99
    assert_array_equal((found > 0) == (found[0] > 0), (left[:, 0] > 0) == (left[0, 0] > 0))


def test_pddp_never_spreads_out_sparse_rows(monkeypatch):
    X = sp.random_array(
        (600, 3000), density=0.01, random_state=np.random.default_rng(1), format="csr"
    )
    largest = []
    original = sp.csr_array.toarray

    def watched(self, *args, **kwargs):
        largest.append(self.shape[0] * self.shape[1])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", watched)
    labels = pddp(X, 24)
    assert len(np.unique(labels)) == 24
    assert max(largest) <= 256**2  # Gram matrices of small clusters, and single rows


def test_pddp_of_copies_and_of_more_clusters_than_rows():
    copies = np.full((7, 3), 0.1)
    assert_array_equal(pddp(copies, 4), np.zeros(7))
    mixed = np.repeat([[0.0, 1.0], [2.0, 5.0]], [3, 4], axis=0)
    assert len(np.unique(pddp(mixed, 5))) == 2
    assert len(np.unique(pddp(np.arange(5.0)[:, np.newaxis], 9))) == 5
    assert_array_equal(pddp(np.ones((1, 2)), 3), [0])


def test_pddp_stops_when_asked():
    answers = iter([None, None, "stop"])
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert len(np.unique(pddp(X, 20, lambda: next(answers)))) == 3


def test_pseudo_centre_is_the_row_nearest_to_the_mean():
    X = np.random.default_rng(3).normal(size=(40, 5))
    nearest = np.argmin(np.linalg.norm(X - X.mean(axis=0), axis=1))
    assert pseudo_centre(X) == pseudo_centre(sp.csr_array(X)) == nearest
    assert pseudo_centre(np.array([[0], [100], [120]], np.int8)) == 1


def test_landmarks_keep_the_distances_of_the_kernel():
    X = np.random.default_rng(0).normal(size=(80, 3))
    K = oracle.kernel_values(X, X, gamma=0.3)
    Z = sample_features(PrecomputedKernelMatrix(K))
    assert_allclose(Z @ Z.T, K, atol=1e-6)
    assert sample_features(PrecomputedKernelMatrix(-K)).shape[0] == 80


# The averaged kernel matrix (equation 2.8).


@pytest.fixture(params=["whole", "on demand"])
def averaged(request):
    """Groups {4, 1}, {0}, {2, 3, 5} of seven samples with uneven weights, and the mean map."""
    X = np.random.default_rng(2).normal(size=(7, 3))
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.4), np.float32)
    members, starts = np.array([4, 1, 0, 2, 3, 5]), np.array([0, 2, 3])
    weights = np.array([0.25, 0.75, 1.0, 0.2, 0.5, 0.3])
    W = np.zeros((3, 7))
    W[[0, 0, 1, 2, 2, 2], members] = weights
    K = W @ oracle.kernel_values(X, X, gamma=0.4) @ W.T
    n_bytes = 10**6 if request.param == "whole" else 0
    matrix = averaged_kernel(kernel, members, starts, weights, n_bytes)
    assert isinstance(matrix, AveragedKernelMatrix) == (n_bytes == 0)
    return matrix, K


def test_averaged_matrix_is_the_mean_of_rows_and_columns(averaged):
    matrix, K = averaged
    rows = np.full((4, 3), np.nan)
    matrix.block(np.array([2, 0]), out=rows, slots=np.array([3, 1]))
    assert_allclose(rows[[3, 1]], K[[2, 0]], atol=1e-12)
    assert_allclose(matrix.diagonal(), np.diag(K), atol=1e-12)
    some = np.array([2, 1])
    assert_allclose(matrix.block(some, some), K[np.ix_(some, some)], atol=1e-12)
    index, coefficients = np.array([0, 2]), np.array([0.5, -2.0])
    for precise in (False, True):
        product = K[:, index] @ coefficients
        assert_allclose(matrix.multiply(index, coefficients, precise=precise), product)
        few = matrix.multiply(index, coefficients, some, precise)
        assert_allclose(few, product[some])
    part = matrix.restrict(index[::-1])
    expected = K[np.ix_([2, 0], [2, 0])] @ coefficients
    assert_allclose(part.multiply(np.arange(2), coefficients, precise=True), expected)
    assert matrix.evaluations > 0


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_means_of_a_linear_kernel_are_means_of_rows(container):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 20)) * (rng.random((9, 20)) < 0.3)
    chosen = np.array([8, 1, 2, 3, 5, 7, 0])
    kernel = FeatureKernelMatrix(container(X), KernelFunction("linear"), np.float32)
    members, starts = np.array([4, 1, 0, 2, 3, 5]), np.array([0, 2, 3])
    weights = np.array([0.25, 0.75, 1.0, 0.2, 0.5, 0.3])
    W = np.zeros((3, 7))
    W[[0, 0, 1, 2, 2, 2], members] = weights
    matrix = averaged_kernel(kernel.restrict(chosen), members, starts, weights, 0)
    means = W @ X[chosen]
    assert_allclose(matrix.block(np.arange(3)), means @ means.T, atol=1e-14)
    assert kernel.evaluations == matrix.evaluations > 0


# The exact optimum with passes=None.


@pytest.mark.parametrize("boundary_clusters", [False, True])
@pytest.mark.parametrize("clusters", ["sqrt", 1, 10**6])
@pytest.mark.parametrize("C", [0.05, 5.0, 1e4])
def test_exact_optimum(overlapping, boundary_clusters, clusters, C):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    solver = exact(clusters=clusters, boundary_clusters=boundary_clusters)
    model = SVC(C=C, kernel="linear", solver=solver, random_state=0).fit(X, y)
    report = model.fit_report_
    assert optimal(model, X, y, kernel="linear")
    assert report.exact and report.status == "converged" and report.kkt_violation <= 1e-3
    assert report[0].details["optimal"]
    n_train = report[0].details["n_train"]
    assert (np.diff(n_train) > 0).all() and n_train[-1] <= len(y)


@pytest.mark.parametrize("boundary_clusters", [False, True])
@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("kind", ["dense", "sparse", "precomputed", "callable"])
def test_every_kind_of_data(overlapping, boundary_clusters, multi_class, kind, monkeypatch):
    X, y = overlapping
    options = {"C": 3.0, "multi_class": multi_class, "tol": 1e-5, "random_state": 0}
    plain = SVC(gamma=0.5, solver="smo", **options).fit(X, y)

    def function(A, B):
        return np.exp(-0.5 * ((A[:, np.newaxis] - B[np.newaxis]) ** 2).sum(axis=2))

    kernels = {"precomputed": "precomputed", "callable": function}
    data = {"sparse": sp.csr_array(X), "precomputed": function(X, X)}.get(kind, X)
    solver = exact(boundary_clusters=boundary_clusters)
    means = []
    original = reduction_module.averaged_kernel
    monkeypatch.setattr(
        reduction_module, "averaged_kernel", lambda *a: means.append(1) or original(*a)
    )
    kernel = kernels.get(kind, "rbf")
    memory = 8 * len(y) * 100 / 2**20  # too little for the whole matrix
    size = memory if kind == "callable" else "auto"
    model = SVC(gamma=0.5, kernel=kernel, solver=solver, cache_size=size, **options).fit(data, y)
    assert_allclose(model.decision_function(data), plain.decision_function(X), atol=1e-3)
    assert model.fit_report_.exact
    assert bool(means) == boundary_clusters


@pytest.mark.parametrize("boundary_clusters", [False, True])
def test_weights(overlapping, boundary_clusters):
    X, y = overlapping[0], (overlapping[1] == 0).astype(int)
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    solver = exact(boundary_clusters=boundary_clusters)
    options = {"C": 0.3, "gamma": 0.5, "solver": solver, "random_state": 0}
    model = SVC(class_weight={0: 2.0}, **options).fit(X, y, sample_weight=weights)
    costs = 0.3 * weights * np.where(y == 0, 2.0, 1.0)
    kept = weights > 0
    assert optimal(model, X, y, costs=costs, gamma=0.5)
    repeated = SVC(class_weight={0: 2.0}, **options)
    repeated.fit(
        np.repeat(X[kept], weights[kept].astype(int), axis=0), np.repeat(y, weights.astype(int))
    )
    assert_allclose(model.decision_function(X), repeated.decision_function(X), atol=2e-3)


def test_boundary_clusters_make_problems_smaller_than_the_number_of_support_vectors():
    X, y = make_blobs(900, centers=[(0, 0), (1, 1)], random_state=0)
    options = {"C": 100.0, "kernel": "linear", "random_state": 0}
    without = SVC(solver=exact(), **options).fit(X, y).fit_report_[0]
    model = SVC(solver=exact(boundary_clusters=True), **options).fit(X, y)
    assert optimal(model, X, y, kernel="linear")
    report = model.fit_report_[0]
    assert max(report.details["n_train"]) < 0.8 * report.n_support
    assert max(without.details["n_train"]) >= without.n_support


@pytest.mark.parametrize("clustering", ["kmeans", KMeans(n_init=1), DBSCAN(eps=0.3)])
def test_other_clusterings(overlapping, clustering):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    model = SVC(gamma=0.5, solver=exact(clustering=clustering), random_state=0).fit(X, y)
    assert optimal(model, X, y, gamma=0.5)
    if isinstance(clustering, KMeans):
        assert model.fit_report_[0].details["clusters"] == 9 + 13


# Degenerate clusters.


@pytest.mark.parametrize("passes", [0, 1, None])
@pytest.mark.parametrize("boundary_clusters", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
@pytest.mark.parametrize("case", ["copies", "lonely", "constant", "pair", "contradiction"])
def test_degenerate_classes(case, kernel, passes, boundary_clusters):
    rng = np.random.default_rng(0)
    X, y = {
        "copies": (np.repeat(rng.normal(size=(6, 2)), 9, axis=0), np.repeat([0, 1, 0, 1, 1, 0], 9)),
        "lonely": (rng.normal(size=(40, 2)), np.arange(40) // 39),
        "constant": (
            np.repeat([[1.0, 1.0], [2.0, 0.0]], [12, 5], axis=0),
            np.repeat([0, 1], [12, 5]),
        ),
        "pair": (np.array([[0.0], [1.0]]), np.array([0, 1])),
        "contradiction": (np.ones((10, 2)), np.arange(10) % 2),
    }[case]
    solver = ClusterSVM("smo", passes=passes, boundary_clusters=boundary_clusters)
    K = oracle.kernel_values(X, X, gamma=0.7)
    data = K if kernel == "precomputed" else X
    model = SVC(C=2.0, gamma=0.7, kernel=kernel, solver=solver, random_state=0).fit(data, y)
    assert np.isfinite(model.decision_function(data)).all()
    alpha, labels = oracle.alphas(model, len(y)), oracle.signs(model, y)
    assert (alpha <= 2.0 + 1e-12).all() and abs(labels @ alpha) < 1e-9
    if passes is None:
        assert optimal(model, X, y, gamma=0.7)
    if case in ("constant", "pair"):
        assert_array_equal(model.predict(data), y)


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("boundary_clusters", [False, True])
def test_a_class_of_one_sample_among_many(overlapping, multi_class, boundary_clusters):
    X = np.vstack([overlapping[0], [[0.2, 0.4]], np.repeat([[3.0, 3.0]], 5, axis=0)])
    y = np.concatenate([overlapping[1], [3], np.full(5, 4)])
    options = {"C": 2.0, "gamma": 0.5, "multi_class": multi_class, "random_state": 0}
    solver = exact(boundary_clusters=boundary_clusters, clusters=50)
    model = SVC(solver=solver, tol=1e-5, **options).fit(X, y)
    plain = SVC(solver="smo", tol=1e-5, **options).fit(X, y)
    assert model.fit_report_.exact
    assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-3)


# Few passes: an approximation that says so.


@pytest.mark.parametrize("boundary_clusters", [False, True])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_passes_lead_from_the_representatives_to_the_optimum(overlapping, boundary_clusters, C):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    K = oracle.kernel_values(X, X, kernel="linear")
    gaps = []
    for passes in (0, 1, None):
        solver = ClusterSVM("smo", passes=passes, boundary_clusters=boundary_clusters)
        model = SVC(C=C, kernel="linear", solver=solver, random_state=0).fit(X, y)
        report = model.fit_report_[0]
        alpha, labels = oracle.alphas(model, len(y)), oracle.signs(model, y)
        assert (alpha <= C * (1 + 1e-12)).all() and abs(labels @ alpha) < 1e-9 * C * len(y)
        costs = np.full(len(y), C)
        primal = oracle.primal_objective(K, labels, alpha, costs, model.intercept_[0])
        gaps.append(primal + oracle.dual_objective(K, labels, alpha))
        assert report.exact == (passes is None) and report.status == "converged"
        if passes is not None:
            assert report.details["passes"] <= passes
    assert gaps[0] > gaps[1] >= gaps[2] - 1e-6 * C
    assert gaps[2] <= 1e-3 * C * len(y)


@pytest.mark.parametrize("weighted", [False, True])
def test_algorithm_1_by_hand(weighted, monkeypatch):
    """Pass 0 has the pseudo-centres; pass 1 those of the rest and all members within the margin."""
    monkeypatch.setattr(cluster_module, "_GOOD_GAP", np.inf)  # the passes, and nothing after them
    X, y = make_blobs(120, centers=[(-1.2, 0), (1.2, 0)], random_state=1)
    signs = np.where(y == 0, 1.0, -1.0)
    labels = np.where(y == 0, pddp(X[y == 0], 8)[np.cumsum(y == 0) - 1],
                      8 + pddp(X[y == 1], 8)[np.cumsum(y == 1) - 1])  # fmt: skip
    groups = [np.flatnonzero(labels == number) for number in range(16)]
    centres = np.array([group[pseudo_centre(X[group])] for group in groups])
    K = oracle.kernel_values(X, X, kernel="linear")
    C = 0.05
    costs = C * np.array([len(group) if weighted else 1 for group in groups])
    alpha = oracle.solve_dual(K[np.ix_(centres, centres)], signs[centres], costs, 1e-8)
    function = K[:, centres] @ (signs[centres] * alpha)
    free = (alpha > 1e-9) & (alpha < costs - 1e-9)
    intercept = (signs[centres] - function[centres])[free].mean()
    margins = signs * (function + intercept)
    within = margins <= 1
    within[centres[alpha > 0]] = True
    outside = [group[~within[group]] for group in groups if not within[group].all()]
    used = np.concatenate(
        [np.flatnonzero(within), [part[pseudo_centre(X[part])] for part in outside]]
    )
    solver = ClusterSVM("smo", clusters=8, weighted=weighted)
    model = SVC(C=C, kernel="linear", solver=solver, tol=1e-6, random_state=0).fit(X, y)
    details = model.fit_report_[0].details
    assert 16 < len(used) < 120 and details["n_train"] == [16, len(used)]
    assert sum(details["n_train_by_class"][1].values()) == details["n_train"][1]
    expected = oracle.solve_dual(K[np.ix_(used, used)], signs[used], np.full(len(used), C), 1e-8)
    weights = X[used].T @ (signs[used] * expected)
    assert_allclose(abs(model.coef_[0]), abs(weights), rtol=1e-4)


@pytest.mark.parametrize("bounds", ["own", "mean", "sum"])
def test_weight_of_a_representative(bounds):
    """Clusters {0, 1, 2} and {3, 4}, sample 5 alone, samples 6 and 7 averaged; uneven weights."""
    costs = np.array([1.0, 2.0, 6.0, 4.0, 2.0, 7.0, 1.0, 3.0])
    signs = np.array([1.0, 1.0, 1.0, -1.0, -1.0, 1.0, -1.0, -1.0])
    whole = Problem(PrecomputedKernelMatrix(np.diag(np.arange(1.0, 9.0))), *c_svc(signs, costs))
    cluster = np.array([0, 0, 0, 1, 1, -1, 2, 2])
    averaged = np.arange(8) >= 6
    reduction = Reduction.of(whole, cluster, averaged, np.array([1, 3, 6]), bounds)
    problem, _ = reduction.problem(whole, Run(), np.zeros(8))
    capacity = {"own": (2.0, 4.0), "mean": (3.0, 3.0), "sum": (9.0, 6.0)}[bounds]
    assert_allclose(problem.upper, [7.0, capacity[0], 0.0, 0.0])
    assert_allclose(problem.lower, [0.0, 0.0, -capacity[1], -4.0])  # a mean: always the sum
    assert_array_equal(reduction.first[:3], [5, 1, 3])
    # K of the mean: weights ¼ and ¾ on the diagonal's 7 and 8.
    assert_allclose(problem.kernel.diagonal(), [6.0, 2.0, 4.0, 7 / 16 + 8 * 9 / 16])
    # At their bounds, the members of a mean all have α = C (Proposition 2.1).
    beta = np.array([7.0, capacity[0], -capacity[1], -4.0])
    spread = reduction.distribute(beta)
    assert_allclose(spread[[5, 6, 7]], [7.0, -1.0, -3.0])
    assert (np.abs(spread) <= costs).all() and abs(spread.sum() - beta.sum()) < 1e-12
    assert_allclose(reduction.expansion(beta)[:5], [0, capacity[0], 0, -capacity[1], 0])
    # Pseudo-centres at a bound and means that are not contradict what they stand for.
    assert_array_equal(np.flatnonzero(reduction.contradicted(beta)), [0, 1, 2, 3, 4])
    loose = reduction.contradicted(np.array([7.0, 0.5, 0.0, -3.9]))
    assert_array_equal(np.flatnonzero(loose), [6, 7])


def test_passes_start_where_the_last_one_ended(overlapping):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    starts = []

    class Recorder(SMO):
        def solve(self, problem, run):
            solution = super().solve(problem, run)
            starts.append((run.start, np.abs(solution.beta).sum()))
            return solution

    solver = ClusterSVM(Recorder(), passes=None, weighted=False)  # no β is above its next bound
    SVC(solver=solver, random_state=0).fit(X, y)
    assert len(starts) > 1 and starts[0][0] is None
    for (_, before), (start, _) in pairwise(starts):
        assert_allclose(np.abs(start).sum(), before)


@pytest.mark.parametrize("options", [{}, {"weighted": False}, {"boundary_clusters": True}])
@pytest.mark.parametrize("seed", range(3))
def test_one_pass_ends_near_the_optimum(options, seed):
    """Where the gap is large, clusters that the last training contradicts are trained again."""
    X, y = make_blobs(600, centers=[(0, 1.7), (-1, 0), (1, 0)], random_state=seed)
    common = {"C": 1e4, "kernel": "linear", "multi_class": "ovr", "random_state": 0}
    model = SVC(solver=ClusterSVM("smo", **options), **common).fit(X, y)
    for report in model.fit_report_:
        assert report.duality_gap <= 0.1 * abs(report.objective)
        assert report.details["passes"] <= 1
    best = SVC(**common).fit(X, y)
    assert abs(model.score(X, y) - best.score(X, y)) <= 0.01


def test_best_intercept_minimises_the_hinge_loss():
    rng = np.random.default_rng(4)
    signs, costs = rng.choice([-1.0, 1.0], 30), rng.uniform(0.5, 2.0, 30)
    residual = rng.normal(size=30)
    problem = Problem(PrecomputedKernelMatrix(np.eye(30)), *c_svc(signs, costs))

    def loss(b):  # y·d(x) = 1 − y·(residual − b)
        return costs @ np.maximum(0, signs * (residual - b))

    best = loss(best_intercept(problem, residual))
    assert best <= min(loss(b) for b in np.linspace(-3, 3, 2001)) + 1e-12


def test_one_clustering_for_all_binary_problems(monkeypatch):
    """Section 3.1: each class is clustered once, however many problems it takes part in."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    calls = []
    original = partition_module.pddp
    monkeypatch.setattr(partition_module, "pddp", lambda *a: calls.append(1) or original(*a))
    for multi_class in ("ovr", "ovo"):
        calls.clear()
        solver = ClusterSVM("smo")
        model = SVC(solver=solver, multi_class=multi_class, random_state=0).fit(X, y)
        assert len(calls) == 10
        assert model.score(X, y) > 0.97
    details = model.fit_report_[0].details
    assert set(details["n_train_by_class"][0]) == {0, 1}
    model.fit(X + 1.0, y)  # other data in the same solver object: clustered again
    assert len(calls) == 20


# Limits, watching, options.


def test_max_iter_and_history_count_all_passes(overlapping):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    sizes = []

    def on_progress(line, beta, intercept):
        sizes.append(len(beta))
        return False

    signs = np.where(y == 1, 1.0, -1.0)
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float64)
    problem = Problem(kernel, *c_svc(signs, np.full(len(y), 5.0)))
    full = exact().solve(problem, Run(monitor=Monitor(on_progress=on_progress)))
    assert set(sizes) == {len(y)}
    limited = exact().solve(problem, Run(monitor=Monitor(max_iter=full.n_iter // 2)))
    assert limited.status == "max_iter" and limited.n_iter <= full.n_iter // 2 + 1
    assert abs(limited.beta.sum()) < 1e-9
    assert ((limited.beta >= problem.lower) & (limited.beta <= problem.upper)).all()


def test_warm_start_begins_with_the_last_support_vectors(overlapping):
    X, y = overlapping[0], (overlapping[1] == 1).astype(int)
    model = SVC(gamma=0.5, solver=exact(), warm_start=True, random_state=0).fit(X, y)
    passes, n_iter = model.fit_report_[0].details["passes"], model.fit_report_.n_iter
    model.fit(X, y)
    assert passes > 0 and model.fit_report_[0].details["passes"] == 0
    assert model.fit_report_.n_iter <= n_iter and optimal(model, X, y, gamma=0.5)


@pytest.mark.parametrize(
    "options",
    [{"clustering": "pdp"}, {"clusters": 0}, {"clusters": "log"}, {"passes": -1}, {"passes": 1.5}],
)
def test_wrong_options_are_named(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        ClusterSVM(**options)
