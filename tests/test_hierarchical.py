"""HierarchicalSVM: the paper's steps, their certificate, and the executors that run them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import psutil
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_friedman1, make_moons
from sklearn.exceptions import ConvergenceWarning

import oracle
from maxmargin import SVC, SVR, OneClassSVM, optimality
from maxmargin.execution import executors
from maxmargin.execution.mapped import load, store
from maxmargin.formulations import c_svc
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers import SMO, Decomposition, GreedyStagewise, HierarchicalSVM
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.certified_run import start_of
from maxmargin.solvers.hierarchical.solver import class_parts, cross_combination
from maxmargin.solvers.hierarchical.subproblem import beyond_margin, samples_to_readmit


@pytest.fixture(scope="module")
def overlapping():
    return make_classification(500, 6, n_informative=4, flip_y=0.1, random_state=2)


@pytest.fixture(scope="module")
def many():
    return make_classification(
        400, 6, n_informative=5, n_redundant=0, n_classes=4, flip_y=0.05, random_state=1
    )


def problem_of(X, y, C=1.0):
    kernel = FeatureKernelMatrix(X, KernelFunction("rbf", 0.2), np.float64)
    return Problem(kernel, *c_svc(np.where(y == 1, 1.0, -1.0), np.full(len(y), C)))


def fitted(X, y, **options):
    return SVC(gamma=0.2, C=10.0, random_state=3, solver=HierarchicalSVM(**options)).fit(X, y)


# The steps of the paper.


def test_cross_combination_is_equation_3():
    assert cross_combination(3, 3) == [
        [(0, 0), (1, 1), (2, 2)],
        [(0, 1), (1, 2), (2, 0)],
        [(0, 2), (1, 0), (2, 1)],
    ]


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 5), (5, 2), (1, 3)])
def test_each_set_is_combined_once_and_each_combination_has_all_parts(shape):
    groups = cross_combination(*shape)
    assert len(groups) == min(shape)
    cells = [cell for group in groups for cell in group]
    assert sorted(cells) == list(product(range(shape[0]), range(shape[1])))
    for group in groups:
        assert {i for i, _ in group} == set(range(shape[0]))
        assert {j for _, j in group} == set(range(shape[1]))


def test_parts_are_equal_disjoint_and_of_one_class(overlapping):
    X, y = overlapping
    for parts, label in zip(class_parts(problem_of(X, y), 0, 7), (1, 0)):
        sizes = [len(part) for part in parts]
        assert len(parts) == 7 and max(sizes) - min(sizes) <= 1
        assert_array_equal(np.sort(np.concatenate(parts)), np.flatnonzero(y == label))


def test_number_of_subproblems(many, monkeypatch):
    """K² + K + 1 for each of the six pairs, in the graph of one executor."""
    names, executors_made = [], []

    class Recorded(executors.Threads):
        def submit(self, function, *arguments, name, **others):
            names.append(name)
            return super().submit(function, *arguments, name=name, **others)

    def recorded():
        executors_made.append(Recorded(2))
        return executors_made[-1]

    monkeypatch.setattr("maxmargin.solvers.hierarchical.solver.active_executor", recorded)
    model = fitted(*many, partitions=3, certify=False)
    assert len(executors_made) == 1
    counts = {name: names.count(name) for name in set(names)}
    assert counts["maxmargin-step-1"] == 6 * 9 and counts["maxmargin-step-2"] == 6 * 3
    assert counts["maxmargin-union"] == 6 and "maxmargin-readmission" not in counts
    # The first steps of all pairs are in the graph before anything waits for a result.
    assert names.index("maxmargin-certificate") > max(
        at for at, name in enumerate(names) if name == "maxmargin-step-1"
    )
    details = model.fit_report_[0].details
    assert {step: len(sizes) for step, sizes in details["n_samples_by_step"].items()} == {
        "first": 9, "second": 3, "union": 1,
    }  # fmt: skip


def test_one_partition_is_the_base_alone(overlapping):
    X, y = overlapping
    alone = SVC(gamma=0.2, C=10.0, random_state=3, solver="decomposition").fit(X, y)
    assert_array_equal(fitted(X, y, partitions=1, certify=False).dual_coef_, alone.dual_coef_)


# The certificate.


@pytest.mark.parametrize("base", ["auto", "smo", Decomposition(working_set=64)])
@pytest.mark.parametrize("partitions", [2, 5])
def test_certified_is_the_optimum(overlapping, base, partitions):
    X, y = overlapping
    model = fitted(X, y, base=base, partitions=partitions)
    K = oracle.kernel_values(X, X, gamma=0.2)
    oracle.check_optimal(model, K, y, np.full(len(y), 10.0), 1e-3)
    assert model.fit_report_.exact and model.fit_report_[0].details["optimal"]


def test_single_pass_tells_its_global_gap(overlapping):
    X, y = overlapping
    model = fitted(X, y, certify=False)
    report = model.fit_report_
    assert not report.exact and report.status == "converged"
    K, labels = oracle.kernel_values(X, X, gamma=0.2), oracle.signs(model, y)
    alpha = oracle.alphas(model, len(y))
    costs = np.full(len(y), 10.0)
    assert_allclose(report.kkt_violation, oracle.kkt_violation(K, labels, alpha, costs), rtol=1e-6)
    best = fitted(X, y).fit_report_.objective
    assert 0 < report.objective - best <= report.duality_gap
    assert abs(model.score(X, y) - fitted(X, y).score(X, y)) < 0.03


def test_a_readmission_starts_from_the_residual_that_is_known(overlapping, monkeypatch):
    """What the answer and the check have left is p − Kβ of all samples of the next subproblem."""
    runs = []

    class Looking(Decomposition):
        def solve(self, problem, run):
            runs.append((problem, run))
            return super().solve(problem, run)

    model = fitted(*overlapping, base=Looking(), partitions=3, filter_tol=0.5)
    known = [(problem, run) for problem, run in runs if run.start_residual is not None]
    assert len(known) == model.fit_report_[0].details["rounds_of_readmission"] > 0
    for problem, run in known:
        exact = problem.linear - problem.kernel.multiply(
            np.arange(problem.n), run.start, precise=True
        )
        assert_allclose(run.start_residual, exact, atol=1e-9)
    provisional = [run.provisional for _, run in runs]
    assert provisional.count(False) == 1 and not provisional[-1]  # the last alone judges itself


def test_a_known_residual_is_for_its_own_beta_alone(overlapping):
    X, y = overlapping
    problem = problem_of(X, y)
    start = Decomposition().solve(problem, Run()).beta
    exact = problem.linear - problem.kernel.multiply(np.arange(problem.n), start, precise=True)
    known = Run(start=start, start_residual=exact + 1.0)
    assert_array_equal(start_of(problem, known)[1], exact + 1.0)
    # Twice the start leaves the box, so it is moved.
    beta, residual = start_of(problem, replace(known, start=2 * start))
    assert_allclose(
        residual, problem.linear - problem.kernel.multiply(np.arange(500), beta, precise=True)
    )


def test_drafts_are_judged_with_the_samples_set_aside(overlapping):
    X, y = overlapping
    problem = problem_of(X, y)
    active = ActiveSet(problem, 1e-3, 2**24, np.zeros(500), problem.linear, defaultdict(float))
    active.pair_steps(np.arange(500), 1e-2, 10_000)
    beta = active.beta.copy()
    assert active.shrink() and active.n < 500
    right = optimality.certify(problem, beta).residual
    assert_allclose(active.running_residual(beta), right, atol=1e-9)


def test_who_comes_back():
    distance = np.array([-3.0, 0.2, -0.05, -0.2, 0.7, -0.01])
    assert_array_equal(samples_to_readmit(distance, n_support=0), [4, 1])
    assert_array_equal(samples_to_readmit(distance, n_support=4), [4, 1, 5])
    assert_array_equal(samples_to_readmit(distance, n_support=99), [4, 1, 5, 2])


def test_filter_tol_is_for_the_first_steps_alone(overlapping):
    loose, tight = (
        fitted(*overlapping, certify=False, filter_tol=tol).fit_report_[0] for tol in (1.0, 1e-3)
    )
    steps = [report.history[: 16 + 4] for report in (loose, tight)]
    assert max(line.kkt_violation for line in steps[0]) > 0.1
    assert max(line.kkt_violation for line in steps[1]) <= 1e-3
    unions = [report.history[20] for report in (loose, tight)]
    assert max(line.kkt_violation for line in unions) <= 1e-3


def test_warm_start_goes_straight_to_the_union(overlapping):
    X, y = overlapping
    model = SVC(gamma=0.2, C=5.0, solver="hierarchical", warm_start=True, random_state=0)
    model.fit(X, y)
    model.set_params(C=10.0).fit(X, y)
    assert "first" not in model.fit_report_[0].details["n_samples_by_step"]
    K = oracle.kernel_values(X, X, gamma=0.2)
    oracle.check_optimal(model, K, y, np.full(len(y), 10.0), 1e-3)


# Unusual divisions.


@pytest.mark.parametrize("partitions", [3, 50])
@pytest.mark.parametrize("certify", [True, False])
def test_classes_smaller_than_the_number_of_parts(overlapping, partitions, certify):
    X, y = overlapping
    few = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:2]])
    model = fitted(X[few], y[few], partitions=partitions, certify=certify)
    assert model.fit_report_.status == "converged"
    if certify:
        alone = SVC(gamma=0.2, C=10.0).fit(X[few], y[few])
        assert_allclose(
            model.decision_function(X), alone.decision_function(X), atol=5e-3
        )  # fmt: skip


def test_two_samples():
    model = fitted(np.array([[0.0], [1.0]]), [0, 1])
    assert_array_equal(model.predict([[0.0], [1.0]]), [0, 1])


@pytest.mark.parametrize(
    "options, words",
    [
        ({"partitions": 0}, "partitions must be a positive integer, got 0"),
        ({"partitions": 2.5}, "got 2.5"),
        ({"filter_tol": 0.0}, "filter_tol must be positive"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ValueError, match=words):
        HierarchicalSVM(**options)


def test_a_base_that_the_certificate_cannot_build_on(overlapping):
    with pytest.raises(ValueError, match="ends at the optimum"):
        fitted(*overlapping, base="cluster")
    with pytest.raises(ValueError, match="has a box constraint"):
        fitted(*overlapping, base=GreedyStagewise())
    assert fitted(*overlapping, base="cluster", certify=False).score(*overlapping) > 0.8


# Executors.


def test_processes_give_the_bits_of_threads(many):
    for certify in (True, False):
        here = fitted(*many, certify=certify)
        with parallel_config(backend="loky", n_jobs=2):
            there = fitted(*many, certify=certify)
        assert_array_equal(here.dual_coef_, there.dual_coef_)
        assert_array_equal(here.intercept_, there.intercept_)
        assert here.fit_report_.n_iter == there.fit_report_.n_iter
        assert here.fit_report_.kernel_evaluations == there.fit_report_.kernel_evaluations


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_threads_change_no_bit(many, n_jobs):
    one = fitted(*many)
    solver = HierarchicalSVM()
    other = SVC(gamma=0.2, C=10.0, random_state=3, solver=solver, n_jobs=n_jobs).fit(*many)
    assert_array_equal(one.dual_coef_, other.dual_coef_)


def test_a_callable_kernel_goes_to_processes(overlapping):
    X, y = overlapping

    def linear(A, B):
        return A @ B.T

    options = {"kernel": linear, "cache_size": 0.5, "random_state": 0}
    with parallel_config(backend="loky", n_jobs=2):
        model = SVC(solver="hierarchical", **options).fit(X, y)
    alone = SVC(**options).fit(X, y)
    assert_allclose(model.decision_function(X), alone.decision_function(X), atol=5e-3)


def test_stored_values_are_mapped_not_copied(tmp_path):
    value = {"a": np.arange(1000.0), "b": (np.ones((20, 30), np.float32), lambda x: x + 1)}
    again = load(store(value, tmp_path / "shared"))
    assert_array_equal(again["a"], value["a"])
    assert_array_equal(again["b"][0], value["b"][0])
    assert again["b"][1](1) == 2
    assert not again["a"].flags.writeable and not again["a"].flags.owndata


def test_samples_are_not_sent_with_each_task(overlapping, monkeypatch):
    import cloudpickle

    sizes = []
    start = executors.Processes._start

    def measured(self, function, arguments, wide):
        sizes.append(len(cloudpickle.dumps(arguments)))
        return start(self, function, arguments, wide)

    monkeypatch.setattr(executors.Processes, "_start", measured)
    X, y = overlapping
    wide = np.hstack([X, np.zeros((len(X), 400))])
    with parallel_config(backend="loky", n_jobs=2):
        fitted(wide, y)
    assert len(sizes) > 16 and max(sizes) < wide.nbytes / 20


class DiesOnce(Decomposition):
    """Kills its process the first time that it is asked to solve anything."""

    name = "dies once"

    def __init__(self, marker):
        super().__init__()
        self.marker = marker

    def solve(self, problem, run):
        try:
            os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().solve(problem, run)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_process_costs_a_retry(overlapping, tmp_path):
    X, y = overlapping
    expected = fitted(X, y, base=Decomposition())
    with parallel_config(backend="loky", n_jobs=2):
        model = fitted(X, y, base=DiesOnce(str(tmp_path / "died")))
    assert (tmp_path / "died").exists()
    assert_array_equal(model.dual_coef_, expected.dual_coef_)


def test_an_error_in_a_task_comes_out(overlapping):
    def fails(A, B):
        raise ZeroDivisionError

    for config in ({"backend": "threading", "n_jobs": 2}, {"backend": "loky", "n_jobs": 2}):
        with parallel_config(**config), pytest.raises(ZeroDivisionError):
            SVC(solver="hierarchical", kernel=fails, cache_size=0.1).fit(*overlapping)


class Endless(SMO):
    """Takes steps, and then waits for a limit or a wish to stop; marks that it has begun."""

    name = "endless"

    def __init__(self, marker=None, deaf=False):
        super().__init__()
        self.marker, self.deaf = marker, deaf

    def solve(self, problem, run):
        if self.marker is not None:
            Path(self.marker).touch()
        while run.monitor.should_stop(0) is None:
            time.sleep(0.01)
        if self.marker is not None:
            Path(self.marker + "-asked to stop").touch()
        while self.deaf:
            time.sleep(0.01)
        return replace(super().solve(problem, run), status=run.monitor.should_stop(0))


def test_a_time_limit_reaches_the_processes(overlapping):
    X, y = overlapping
    solver = HierarchicalSVM(base=Endless())
    with parallel_config(backend="loky", n_jobs=2), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(solver=solver, time_limit=0.5).fit(X, y)
    assert model.fit_report_.status == "time_limit"
    assert np.isfinite(model.decision_function(X[:10])).all()


def test_progress_tells_each_subproblem(overlapping):
    report = fitted(*overlapping, partitions=3).fit_report_
    rounds = report[0].details["rounds_of_readmission"]
    # Cells, combinations, the union and its certificate; two lines a round; the fit's own last.
    assert len(report.history) == 9 + 3 + 2 + 2 * rounds + 1
    iterations = [line.n_iter for line in report.history]
    assert iterations == sorted(iterations)


def test_a_dask_collection_without_a_client(overlapping):
    import dask.array as da

    X, y = overlapping
    with pytest.raises(ValueError, match=r"start a dask\.distributed Client first"):
        SVC(solver="hierarchical").fit(da.from_array(X, chunks=(100, 6)), y)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_a_second_interrupt_leaves_no_process(tmp_path):
    script = tmp_path / "long.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys

            import numpy as np
            from joblib import parallel_config
            from maxmargin import SVC
            from maxmargin.solvers import HierarchicalSVM
            from test_hierarchical import Endless

            if __name__ == "__main__":
                rng = np.random.default_rng(0)
                X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
                with parallel_config(backend="loky", n_jobs=2):
                    SVC(C=1.0, solver="hierarchical").fit(X, y)
                    print("go", flush=True)
                    endless = Endless(sys.argv[1], deaf=True)
                    SVC(solver=HierarchicalSVM(base=endless)).fit(X, y)
            """
        )
    )
    source = os.pathsep.join([str(Path(executors.__file__).parents[2]), str(Path(__file__).parent)])
    marker = str(tmp_path / "begun")
    process = subprocess.Popen(
        [sys.executable, str(script), marker],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"PYTHONPATH": source},
    )  # fmt: skip
    assert process.stdout is not None and process.stdout.readline() == "go\n"
    workers = psutil.Process(process.pid).children(recursive=True)
    for begun in (marker, marker + "-asked to stop"):  # the first Ctrl-C has been heard
        while not Path(begun).exists():
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
    process.wait()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not [worker for worker in alive if worker.status() != psutil.STATUS_ZOMBIE]


def test_joblibs_processes_serve_others_afterwards():
    X, y = make_moons(200, noise=0.2, random_state=0)
    with parallel_config(backend="loky", n_jobs=2):
        SVC(solver=HierarchicalSVM(partitions=2)).fit(X, y)
        assert Parallel()(delayed(abs)(k) for k in (-1, 2)) == [1, 2]


# Regression: parts of all samples, as there are no classes.


@pytest.fixture(scope="module")
def curve():
    X, y = make_friedman1(400, noise=0.5, random_state=0)
    return X, 100.0 * y


@pytest.mark.parametrize("base", ["auto", "smo", "irwls"])
@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_a_regression_in_parts_is_the_optimum(curve, base, partitions):
    X, y = curve
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {"C": 50.0, "epsilon": 60.0, "gamma": 0.5, "tol": 1e-2}
    solver = HierarchicalSVM(base=base, partitions=partitions)
    model = SVR(**options, solver=solver, random_state=0).fit(X, y, weights)
    whole = SVR(**options).fit(X, y, weights)
    report = model.fit_report_
    assert report.status == "converged" and report.kkt_violation <= 1e-2
    assert_allclose(report.objective, whole.fit_report_.objective, rtol=1e-6)
    assert_allclose(model.predict(X), whole.predict(X), atol=0.5)
    steps = report.problems[0].details["n_samples_by_step"]
    assert len(steps.get("first", [1])) == partitions


def test_a_regression_has_the_same_bits_on_processes(curve):
    X, y = curve
    solver = HierarchicalSVM(partitions=3)
    threads = SVR(C=20, epsilon=80, solver=solver, random_state=0).fit(X, y)
    with parallel_config(backend="loky", n_jobs=2):
        processes = SVR(C=20, epsilon=80, solver=solver, random_state=0).fit(X, y)
    assert_array_equal(threads.dual_coef_, processes.dual_coef_)
    assert_array_equal(threads.intercept_, processes.intercept_)


def test_a_single_pass_of_a_regression_tells_its_global_gap(curve):
    X, y = curve
    options = {"C": 50.0, "epsilon": 100.0, "gamma": 0.5, "random_state": 0}
    model = SVR(**options, solver=HierarchicalSVM(certify=False)).fit(X, y)
    best = SVR(**options).fit(X, y).fit_report_.objective
    report = model.fit_report_
    assert report.kkt_violation > 1e-3
    assert -1e-9 <= report.objective - best <= report.duality_gap


def test_how_far_samples_are_out_of_their_tube():
    residual = np.array([0.5, 1.2, -0.7, 0.0])
    bound = np.ones(4)
    assert_allclose(beyond_margin(residual, 0.1, -bound, bound, 0.3), [0.1, 0.8, 0.5, -0.2])
    signs = np.array([1.0, -1.0, -1.0, 1.0])
    lower, upper = np.minimum(signs, 0), np.maximum(signs, 0)
    assert_allclose(beyond_margin(residual, 0.1, lower, upper), [0.4, -1.1, 0.8, -0.1])


def test_a_problem_that_parts_cannot_share_is_one_sentence(curve):
    with pytest.raises(ValueError, match="solver 'hierarchical' does not solve"):
        OneClassSVM(solver="hierarchical").fit(curve[0])


@pytest.mark.parametrize("max_iter", [300, 500])
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_max_iter_is_the_limit_of_each_problem(max_iter, partitions):
    """A problem that meets it ends alone, and all its subproblems together keep it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 4)), np.arange(600) % 3
    X[y == 2] += 20  # the classes 0 and 1 are hard to tell apart, and class 2 is not
    solver = HierarchicalSVM(base="smo", partitions=partitions)
    with pytest.warns(ConvergenceWarning, match=rf"max_iter={max_iter}\)"):
        model = SVC(C=100, solver=solver, max_iter=max_iter, random_state=0).fit(X, y)
    hard, *easy = model.fit_report_
    assert hard.status == "max_iter" and [line.status for line in easy] == ["converged"] * 2
    assert (model.n_iter_ <= max_iter).all() and model.n_iter_[0] > 0.8 * max_iter
    assert np.isfinite(model.decision_function(X)).all()
