"""Training on a real Dask cluster: two worker processes on this machine."""

import operator
import os
import signal
import time
from dataclasses import replace

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, Event, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin
from joblib import cpu_count, parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_friedman1
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC, SVR, NuSVR
from maxmargin.dask_collections import fit
from maxmargin.dask_collections.check import CheckRequest, check_partitions
from maxmargin.dask_collections.fit import bundles
from maxmargin.dask_collections.partitions import Partition, Rows, TravellingSamples
from maxmargin.dask_collections.problems import PairOfClasses
from maxmargin.execution.dask import Cluster
from maxmargin.kernels.functions import KernelFunction
from maxmargin.parallel import n_threads
from maxmargin.solvers import Decomposition, HierarchicalSVM
from maxmargin.solvers.hierarchical.subproblem import Support, Task, solve_union

OPTIONS = {"gamma": 0.2, "C": 5.0, "tol": 1e-6, "random_state": 0}


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=":0", silence_logs="CRITICAL",
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        yield client


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(
        300, 5, n_informative=4, n_redundant=0, n_classes=3, flip_y=0.05, random_state=0
    )
    return X, np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def expected(data):
    return SVC(**OPTIONS).fit(*data)


def hierarchical(**options):
    return SVC(solver=HierarchicalSVM(**options), **OPTIONS)


def same_model(model, expected, X):
    assert_array_equal(model.classes_, expected.classes_)
    assert_array_equal(model.support_, expected.support_)
    assert_array_equal(model.n_support_, expected.n_support_)
    assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-3)
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)
    assert model.fit_report_.status == "converged"
    assert model.shape_fit_ == expected.shape_fit_


# Data of the client's, subproblems on the cluster.


@pytest.mark.parametrize("certify", [True, False])
def test_workers_give_the_bits_of_threads(client, data, certify):
    here = hierarchical(certify=certify).fit(*data)
    with parallel_config(backend="dask"):
        there = hierarchical(certify=certify).fit(*data)
    assert_array_equal(here.dual_coef_, there.dual_coef_)
    assert_array_equal(here.intercept_, there.intercept_)
    assert here.fit_report_.kernel_evaluations == there.fit_report_.kernel_evaluations


def test_a_wide_task_has_the_threads_of_idle_workers(client):
    with Cluster(client) as executor:

        def threads(wide):
            return executor.submit(n_threads, name="maxmargin-test", wide=wide).result()

        assert threads(wide=False) == 1
        assert threads(wide=True) == min(2, cpu_count())


def wait_for_the_wide_task():
    Event("busy").set()
    assert Event("wide").wait(timeout=60)


def threads_before_and_after():
    assert Event("busy").wait(timeout=60)
    before, deadline = n_threads(), time.monotonic() + 60
    Event("wide").set()
    while n_threads() == before < cpu_count() and time.monotonic() < deadline:
        time.sleep(0.01)
    return before, n_threads()


def test_a_wide_task_gets_more_threads_when_a_worker_has_finished(client):
    with Cluster(client) as executor:
        other = executor.submit(wait_for_the_wide_task, name="maxmargin-test")
        wide = executor.submit(threads_before_and_after, name="maxmargin-test", wide=True)
        assert wide.result() == (1, min(2, cpu_count())) and other.result() is None


def test_partitions_examine_what_is_within_reach():
    """A provisional answer: rows with β = 0 near the margin; the rest is remembered."""
    X, y = make_classification(300, 5, class_sep=2.0, random_state=0)
    samples = TravellingSamples(KernelFunction("rbf", 0.2), 1e-3, "auto", 0, [PairOfClasses(1, 0)])
    partition = Partition(Rows(X, y, np.ones(300)), offset=1000)
    everything = partition.part(PairOfClasses(1, 0))
    answer = solve_union(samples, [everything], Task(Decomposition(), 0, 1e-3))
    final = check_partitions(
        samples, [partition], CheckRequest(0, False, np.inf), answer, None, None
    )
    exact = np.where(y == 1, 1.0, -1.0) - oracle.kernel_values(X, answer.rows.X, gamma=0.2) @ (
        answer.beta
    )
    outside = ~np.isin(1000 + np.arange(300), answer.samples)
    beyond = np.where(y == 1, 1.0, -1.0) * (exact - answer.intercept)
    (residual,), (extremes,) = final.residual, final.verdict.extremes
    assert_allclose(residual[outside], exact[outside], atol=1e-9)
    assert np.isnan(residual[~outside]).all()
    assert extremes.highest - extremes.lowest <= 1e-3
    assert extremes.evaluations == outside.sum() * len(answer.beta)  # the others are certified
    provisional = check_partitions(
        samples, [partition], CheckRequest(0, True, 0.3), answer, None, final
    )
    looked = outside & (beyond > -0.3)
    assert 0 < looked.sum() < outside.sum()
    (residual,), (extremes,) = provisional.residual, provisional.verdict.extremes
    assert extremes.evaluations == looked.sum() * len(answer.beta)
    assert_allclose(residual[outside], exact[outside], atol=1e-5)
    chosen = provisional.verdict.violators.samples - 1000
    assert (beyond[chosen] > -0.1).all() and outside[chosen].all() and len(chosen)
    assert_allclose(provisional.verdict.violators.residual, exact[chosen], atol=1e-5)


def test_an_examination_believes_the_certificate_of_the_union():
    """Support vectors have their float64 residual from it; partitions evaluate all other rows."""
    X, y = make_classification(300, 5, class_sep=0.7, random_state=0)
    samples = TravellingSamples(KernelFunction("rbf", 0.2), 1e-3, "auto", 0, [PairOfClasses(1, 0)])
    partition = Partition(Rows(X, y, np.ones(300)), 1000)
    answer = solve_union(
        samples, [partition.part(PairOfClasses(1, 0))], Task(Decomposition(), 0, 1e-3)
    )
    assert answer.proven
    request = CheckRequest(0, False, np.inf)
    by_union, anew = (
        check_partitions(samples, [partition], request, replace(answer, proven=proven), None, None)
        for proven in (True, False)
    )
    (ours,), (theirs,) = by_union.verdict.extremes, anew.verdict.extremes
    assert_allclose(
        [ours.highest, ours.lowest, ours.gap], [theirs.highest, theirs.lowest, theirs.gap],
        rtol=1e-9, atol=1e-11,
    )  # fmt: skip
    n_support = len(answer.beta)
    assert ours.evaluations == (300 - n_support) * n_support
    assert theirs.evaluations == 300 * n_support
    # The certificate of another β proves nothing.
    moved = solve_union(samples, [answer], Task(Decomposition(), 0, 1e3, provisional=True))
    assert not moved.proven


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_an_examination_starts_from_the_last_one(n_partitions):
    """A provisional check evaluates changes alone, and says the same as from the beginning."""
    X, y = make_classification(300, 5, class_sep=0.7, random_state=0)
    samples = TravellingSamples(KernelFunction("rbf", 0.2), 1e-3, "auto", 0, [PairOfClasses(1, 0)])
    rows = Rows(X, y, np.ones(300))
    size = 300 // n_partitions
    partitions = [Partition(rows[start : start + size], start) for start in range(0, 300, size)]
    everything = Partition(rows, 0).part(PairOfClasses(1, 0))
    before = solve_union(samples, [everything], Task(Decomposition(), 0, 1e-3))
    # One support vector leaves, another has less weight.
    beta = before.beta.copy()
    beta[0] *= 0.5
    answer = Support(before.samples[:-1], beta[:-1], before.rows[:-1], intercept=0.1)
    first = check_partitions(samples, partitions, CheckRequest(0, True, np.inf), before, None, None)
    request = CheckRequest(0, True, np.inf)
    again = check_partitions(samples, partitions, request, answer, before, first)
    anew = check_partitions(samples, partitions, request, answer, None, None)
    for ours, theirs in zip(again.residual, anew.residual, strict=True):
        assert_allclose(ours, theirs, atol=1e-5)
    assert_array_equal(again.verdict.violators.samples, anew.verdict.violators.samples)
    assert_allclose(again.verdict.violators.residual, anew.verdict.violators.residual, atol=1e-5)
    n_outside = 300 - len(answer.beta)
    assert sum(e.evaluations for e in anew.verdict.extremes) == n_outside * len(answer.beta)
    # The one that left is new among those outside; the others see a change of two.
    expected = len(answer.beta) + (n_outside - 1) * 2
    assert sum(e.evaluations for e in again.verdict.extremes) == expected


class DiesOnce(Decomposition):
    """Kills its worker after a few subproblems, once."""

    name = "dies once"

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def solve(self, problem, run):
        for at in range(5):
            try:
                os.close(os.open(f"{self.folder}/{at}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            if at == 4:
                os.kill(os.getpid(), signal.SIGKILL)
            break
        return super().solve(problem, run)


@pytest.mark.parametrize("collection", [False, True])
def test_a_worker_killed_in_mid_fit_costs_a_retry(client, data, tmp_path, collection):
    X, y = data
    expected = hierarchical(base=Decomposition())
    model = hierarchical(base=DiesOnce(tmp_path))
    if collection:
        X, y = da.from_array(X, chunks=(60, 5)), da.from_array(y, chunks=60)
        expected.fit(X, y)
        model.fit(X, y)
    else:
        expected.fit(X, y)
        with parallel_config(backend="dask"):
            model.fit(X, y)
    assert (tmp_path / "4").exists()
    assert_array_equal(model.dual_coef_, expected.dual_coef_)
    assert_array_equal(model.support_, expected.support_)
    client.wait_for_workers(2)


# Data on the workers.


def test_dask_arrays(client, data, expected):
    X, y = data
    # Columns are divided too, and y otherwise than X.
    model = hierarchical().fit(da.from_array(X, chunks=(70, 3)), da.from_array(y, chunks=100))
    same_model(model, expected, X)
    assert model.fit_report_.exact and model.n_features_in_ == 5
    names = [problem.problem for problem in model.fit_report_]
    assert names == ["a vs b", "a vs c", "b vs c"]
    for found, right in zip(model.fit_report_, expected.fit_report_):
        assert_allclose(found.objective, right.objective, rtol=1e-6)
        assert found.n_support == right.n_support and found.n_bounded == right.n_bounded
        assert found.kkt_violation <= 1e-6 and 0 <= found.duality_gap < 1e-3


def test_one_against_rest(client, data):
    X, y = data
    expected = SVC(multi_class="ovr", **OPTIONS).fit(X, y)
    model = hierarchical().set_params(multi_class="ovr").fit(da.from_array(X, chunks=(90, 5)), y)
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)


def test_bits_do_not_follow_the_number_of_workers(client, data):
    X, y = da.from_array(data[0], chunks=(70, 5)), da.from_array(data[1], chunks=70)
    two = hierarchical().fit(X, y)
    alone = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0")
    with alone, Client(alone) as other, other.as_current():
        one = hierarchical().fit(X, y)
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert_array_equal(one.support_, two.support_)


def test_dataframes_and_lazy_predictions(client, data, expected):
    X, y = data
    frame = pd.DataFrame(X, columns=list("vwxyz")).assign(label=y)
    partitions = dd.from_pandas(frame, npartitions=3)
    features = partitions.drop(columns="label")
    model = hierarchical().fit(features, partitions["label"])
    same_model(model, SVC(**OPTIONS).fit(frame.drop(columns="label"), y), frame[list("vwxyz")])
    assert list(model.feature_names_in_) == list("vwxyz")
    for method in ("predict", "decision_function"):
        lazy = getattr(model, method)(features)
        assert isinstance(lazy, da.Array)
        right = getattr(expected, method)(X)
        if method == "predict":
            assert_array_equal(lazy.compute(), right)
        else:
            assert_allclose(lazy.compute(), right, atol=1e-4)


def test_predictions_are_computed_when_asked_and_not_here(client, expected, data):
    here = os.getpid()

    def elsewhere(block):
        if len(block):  # Dask tries functions on nothing to learn their type
            assert os.getpid() != here
        return block

    X = da.from_array(data[0], chunks=(80, 2)).map_blocks(elsewhere, meta=np.empty((0, 0)))
    lazy = expected.decision_function(X)
    assert isinstance(lazy, da.Array) and lazy.shape == (300, 3)
    assert_array_equal(lazy.compute(), expected.decision_function(data[0]))
    assert_array_equal(expected.predict(X).compute(), expected.predict(data[0]))


def test_rows_stay_on_their_workers(client):
    """The client never makes a row, and what workers exchange is much less than the data."""
    here = os.getpid()

    def made(block_info=None):
        (start, stop), _ = block_info[None]["array-location"]
        assert os.getpid() != here
        rng = np.random.default_rng(start)
        X = rng.normal(size=(stop - start, 20))
        X[:, 0] += np.where(np.arange(start, stop) % 2, 4.0, -4.0)
        return X

    def labels(block_info=None):
        ((start, stop),) = block_info[None]["array-location"]
        return np.arange(start, stop) % 2

    def sent(dask_worker):
        return dask_worker.transfer_outgoing_bytes_total

    n = 40_000
    X = da.map_blocks(made, chunks=((n // 8,) * 8, (20,)), dtype=float, meta=np.empty((0, 0)))
    y = da.map_blocks(labels, chunks=((n // 8,) * 8,), dtype=int, meta=np.empty(0, int))
    before = sum(client.run(sent).values())
    model = SVC(kernel="linear", solver="hierarchical", random_state=0).fit(X, y)
    travelled = sum(client.run(sent).values()) - before
    assert model.fit_report_.status == "converged" and model.fit_report_[0].n_samples == n
    # Where a worker is busy, Dask may hand partitions to the other one, each of them once: that
    # is the data. The answers of subproblems, which are ours, are much less.
    assert travelled < 1.3 * n * 20 * 8
    assert model.predict(X[:1000]).compute().shape == (1000,)


def test_sparse_partitions(client):
    X = sp.random_array((200, 30), density=0.1, random_state=np.random.default_rng(0), format="csr")
    y = (X @ np.random.default_rng(1).normal(size=30) > 0).astype(int)
    expected = SVC(**OPTIONS).fit(X, y)
    dense = da.from_array(X.toarray(), chunks=(60, 30))
    partitions = dense.map_blocks(sp.csr_array, meta=sp.csr_array((0, 0)))
    model = hierarchical().fit(partitions, y)
    assert sp.issparse(model.support_vectors_) and sp.issparse(model.dual_coef_)
    assert_array_equal(model.support_, expected.support_)
    assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-4)


def test_weights_and_gamma_scale(client, data):
    X, y = data
    X = X + 5.0
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    options = OPTIONS | {"gamma": "scale", "class_weight": "balanced"}
    expected = SVC(**options).fit(X, y, weights)
    model = SVC(solver="hierarchical", **options)
    model.fit(da.from_array(X, chunks=(77, 5)), y, da.from_array(weights, chunks=77))
    assert_allclose(model._gamma, expected._gamma, rtol=1e-12)
    same_model(model, expected, X)
    assert_allclose(model.class_weight_, expected.class_weight_)


def test_sorted_and_empty_partitions(client, data):
    """Partitions of one class, of no rows, and of rows that take no part in a pair."""
    X, y = data
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    sizes = (50, 0, 50, 50, 1, 49, 50, 0, 50)
    expected = SVC(**OPTIONS).fit(X, y)
    model = hierarchical().fit(da.from_array(X, chunks=(sizes, (5,))), y)
    same_model(model, expected, X)
    rough = hierarchical(certify=False).fit(da.from_array(X, chunks=(sizes, (5,))), y)
    assert not rough.fit_report_.exact and rough.score(X, y) > 0.8 * expected.score(X, y)


def test_single_pass_tells_its_global_violation(client, data):
    X, y = data
    model = hierarchical(certify=False, partitions=2).fit(da.from_array(X, chunks=(50, 5)), y)
    report = model.fit_report_[0]
    assert not report.exact and report.details["rounds_of_readmission"] == 0
    assert len(report.details["n_samples_by_step"]["second"]) == 2
    # The same by the definition, for the pair a, b: scikit-learn's row 0 against the others.
    pair = np.isin(y, ["a", "b"])
    signs = np.where(y[pair] == "a", 1.0, -1.0)
    alpha = np.zeros(len(y))
    of_pair = np.isin(y[model.support_], ["a", "b"])
    alpha[model.support_[of_pair]] = np.abs(model.dual_coef_[0, of_pair])
    alpha = alpha[pair]
    K = np.exp(-0.2 * ((X[pair][:, None] - X[pair][None]) ** 2).sum(axis=2))
    residual = signs - K @ (signs * alpha)
    grows = np.where(signs > 0, alpha < 5.0, alpha > 0)
    shrinks = np.where(signs > 0, alpha > 0, alpha < 5.0)
    violation = residual[grows].max() - residual[shrinks].min()
    assert_allclose(report.kkt_violation, violation, rtol=1e-6)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"solver": "auto"}, "needs solver='hierarchical', got solver='auto'"),
        ({"kernel": "precomputed"}, "support vectors can travel, got 'precomputed'"),
        ({"kernel": lambda A, B: A @ B.T}, "support vectors can travel"),
        ({"warm_start": True}, "warm_start=True is not supported"),
        ({"probability": True}, "probability=True is not supported"),
    ],
)
def test_what_does_not_go_with_collections(client, data, options, words):
    X, y = data
    model = SVC(**{"solver": "hierarchical"} | options)
    with pytest.raises(ValueError, match=words):
        model.fit(da.from_array(X, chunks=(100, 5)), y)
    assert not hasattr(model, "support_")


@pytest.mark.parametrize("trouble", ["nan", "one class", "partitions", "weights"])
def test_bad_collections(client, data, trouble):
    X, y = (values.copy() for values in data)
    weights = None
    words = {
        "nan": "contains NaN", "one class": "greater than one", "partitions": "divided alike",
        "weights": r"All samples of class .*'a'.* have zero",
    }[trouble]  # fmt: skip
    if trouble == "nan":
        X[250, 1] = np.nan
    elif trouble == "one class":
        y[:] = "a"
    elif trouble == "weights":
        weights = np.where(y == "a", 0.0, 1.0)
    labels = da.from_array(y[:200] if trouble == "partitions" else y, chunks=100)
    with pytest.raises(ValueError, match=words):
        SVC(solver="hierarchical").fit(da.from_array(X, chunks=(100, 5)), labels, weights)


# Regression on the workers.


@pytest.fixture(scope="module")
def curve():
    X, y = make_friedman1(300, noise=0.5, random_state=0)
    return X, 10.0 * y


REGRESSION = {"C": 20.0, "epsilon": 8.0, "tol": 1e-6, "random_state": 0}


@pytest.mark.parametrize("sparse", [False, True])
def test_regression_on_dask_arrays(client, curve, sparse):
    X, y = curve
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    X = np.where(X > 0.3, X, 0.0) if sparse else X
    expected = SVR(**REGRESSION).fit(X, y, weights)
    chunks = da.from_array(X, chunks=(70, 10))
    chunks = chunks.map_blocks(sp.csr_array, meta=sp.csr_array((0, 0))) if sparse else chunks
    model = SVR(solver="hierarchical", **REGRESSION).fit(
        chunks, da.from_array(y, chunks=100), da.from_array(weights, chunks=70)
    )
    assert model.fit_report_.status == "converged" and model.fit_report_.exact
    assert model.fit_report_[0].problem == "regression"
    assert_allclose(model.fit_report_.objective, expected.fit_report_.objective, rtol=1e-6)
    assert_array_equal(model.support_, expected.support_)
    assert sp.issparse(model.dual_coef_) == sparse
    samples = sp.csr_array(X) if sparse else X
    assert_allclose(model.predict(samples), expected.predict(X), atol=1e-3)
    if not sparse:
        assert_allclose(model.dual_coef_, expected.dual_coef_, atol=1e-3)
        lazy = model.predict(chunks)
        assert isinstance(lazy, da.Array)
        assert_allclose(lazy.compute(), model.predict(X))


def test_a_single_pass_of_a_regression_tells_its_global_violation(client, curve):
    X, y = curve
    solver = HierarchicalSVM(certify=False, partitions=2)
    model = SVR(solver=solver, **REGRESSION).fit(da.from_array(X, chunks=(60, 10)), y)
    report, beta = model.fit_report_[0], np.zeros(len(y))
    beta[model.support_] = model.dual_coef_[0]
    residual = y - oracle.kernel_values(X, X, gamma=model._gamma) @ beta
    grow = residual - np.where(beta >= 0, 8.0, -8.0)
    shrink = residual - np.where(beta > 0, 8.0, -8.0)
    violation = grow[beta < 20.0].max() - shrink[beta > -20.0].min()
    assert not report.exact and violation > 1e-3
    assert_allclose(report.kkt_violation, violation, rtol=1e-6)


def test_bad_regressions(client, curve):
    X, y = curve
    chunks = da.from_array(X, chunks=(100, 10))
    model = SVR(solver="hierarchical")
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        model.fit(chunks, y, np.zeros(len(y)))
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(chunks, np.where(np.arange(len(y)) == 7, np.nan, y))
    with pytest.raises(ValueError, match="on which NuSVR does not train"):
        NuSVR().fit(chunks, y)
    assert not hasattr(model, "support_")


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e7])
def test_a_hard_margin_is_one_at_any_scale_of_the_features(client, scale):
    X, y = make_classification(
        120, 3, n_informative=2, n_redundant=0, n_clusters_per_class=1, class_sep=3.0,
        flip_y=0.0, random_state=4,
    )  # fmt: skip
    X = scale * X
    weights = np.ones(120)
    weights[::10] = 0.0
    options = {"kernel": "linear", "C": np.inf}
    here = SVC(**options).fit(X, y, weights)
    assert here.fit_report_.status == "converged"
    model = SVC(solver="hierarchical", random_state=0, **options)
    model.fit(*(da.from_array(A, chunks=40) for A in (X, y)), da.from_array(weights, chunks=40))
    assert model.fit_report_.status == "converged"
    margins = (np.where(y == 1, 1, -1) * model.decision_function(X))[weights > 0]
    assert margins.min() >= 1 - 2e-3
    assert_allclose(model.coef_, here.coef_, rtol=1e-2, atol=1e-2 * abs(here.coef_).max())


@pytest.mark.parametrize("scale", [1e-4, 1.0])
def test_a_hard_margin_that_no_plane_has_is_told(client, scale):
    X = scale * np.random.default_rng(0).normal(size=(80, 2))
    y = np.arange(80) % 2
    model = SVC(kernel="linear", C=np.inf, solver="hierarchical", random_state=0)
    with pytest.warns(ConvergenceWarning, match="C=inf asks for a hard margin"):
        model.fit(da.from_array(X, chunks=40), da.from_array(y, chunks=40))
    assert model.fit_report_.status != "converged"
    beta = np.zeros(80)
    beta[model.support_] = model.dual_coef_[0]
    signs = np.where(y == 1, 1.0, -1.0)
    residual = signs - X @ (X.T @ beta)
    # Bounds without an end: no other one stands for C.
    can_grow, can_shrink = (signs > 0) | (beta < 0), (signs < 0) | (beta > 0)
    violation = residual[can_grow].max() - residual[can_shrink].min()
    assert violation > 0.1
    assert_allclose(model.fit_report_.kkt_violation, violation, rtol=1e-6)


class Counter(SchedulerPlugin):
    """Counts the tasks of a fit by their step."""

    name = "maxmargin-counter"

    def __init__(self):
        self.steps = {}

    def transition(self, key, start, finish, *args, **kwargs):
        if start == "processing" and finish == "memory" and str(key).startswith("maxmargin-"):
            step = str(key).split("-")[1]
            self.steps[step] = self.steps.get(step, 0) + 1


def counted(client, model, X, y):
    """Fit, and count the tasks of it by step."""
    counter, scheduler = Counter(), client.cluster.scheduler
    scheduler.add_plugin(counter)
    try:
        return model.fit(X, y), counter.steps
    finally:
        scheduler.remove_plugin(Counter.name)


def test_one_task_examines_all_small_partitions_of_a_worker(client, data):
    X, y = data
    rows, labels = da.from_array(X, chunks=(10, 5)), da.from_array(y, chunks=10)
    model, steps = counted(client, hierarchical(), rows, labels)
    rounds = [line.details["rounds_of_readmission"] for line in model.fit_report_]
    # Thirty partitions on two workers, one of which may have taken work from the other.
    checks = sum(rounds) + len(rounds)
    assert steps["certificate"] <= 2 * checks and steps["verdict"] <= 2 * checks
    # One for each check; of the first two steps one a worker, and one for each subproblem.
    others = len(rounds) * (2 + HierarchicalSVM().partitions)
    assert steps["summary"] <= checks + others


def test_small_problems_are_bundled():
    sizes = [260, 240, 230, 100, 90, 70]
    assert bundles(sizes, threads=2) == [0, 1, 2, 3, 3, 3]
    # Problems of equal sizes: two bundles for each thread.
    assert np.bincount(bundles([10] * 45, threads=4)).max() == 5
    assert bundles([10] * 45, threads=40) == list(range(45))
    assert bundles([7], threads=2) == [0]


def test_bundled_problems_share_their_tasks_and_keep_their_bits(client, monkeypatch):
    X = np.random.default_rng(0).normal(size=(330, 4))
    y = np.repeat([0, 1, 2, 3], [200, 60, 40, 30])
    X[:, 0] += y
    order = np.random.default_rng(1).permutation(330)
    rows, labels = (da.from_array(values[order], chunks=110) for values in (X, y))
    model, steps = counted(client, hierarchical(), rows, labels)
    same_model(model, SVC(**OPTIONS).fit(X[order], y[order]), X)
    # Six pairs in four bundles, three partitions.
    assert steps["union"] == 4 and steps["step"] == 12
    monkeypatch.setattr(fit, "bundles", lambda sizes, threads: list(range(len(sizes))))
    alone, steps = counted(client, hierarchical(), rows, labels)
    assert steps["union"] == 6 and steps["step"] == 18
    assert_array_equal(model.dual_coef_, alone.dual_coef_)
    assert_array_equal(model.intercept_, alone.intercept_)


def test_tasks_of_a_bundle_become_one_at_flush(client):
    """Calls of two members: each step is one task, whichever member submitted first."""
    with Cluster(client) as executor:

        def submit(member, *arguments, name):
            return executor.submit(
                operator.add, *arguments, name=f"maxmargin-{name}", bundle=(0, member)
            )

        first = submit(0, 1, 2, name="sum")
        doubled = submit(0, first, first, name="double")
        other = submit(1, 10, 20, name="sum")
        twice = submit(1, 100, 200, name="sum")  # a second one of the same member: beside it
        assert not first.done() and first.together is other.together
        assert twice.together is not first.together
        executor.flush()
        assert [piece.result() for piece in (first, doubled, other, twice)] == [3, 6, 30, 300]
