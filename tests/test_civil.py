"""Long fits are civil: callbacks, progress, limits, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, constants, monitor, optimality
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.functions import KernelFunction
from maxmargin.monitor import Monitor
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers import SMO, Decomposition, Solver
from maxmargin.solvers.common import certified_run
from maxmargin.solvers.common.certified_run import CertifiedRun
from maxmargin.training import boundary

if HAS_CALLBACKS := hasattr(SVC, "set_callbacks"):
    from sklearn.callback import ProgressBar, ScoringMonitor

HERE = Path(__file__).parent
callbacks = pytest.mark.skipif(not HAS_CALLBACKS, reason="scikit-learn has them from 1.9 on.")
# SMO on random labels with this C takes minutes, so that every limit comes first.
ENDLESS = {"C": 1e6, "gamma": 1.0, "tol": 1e-6, "solver": "smo"}


class Watcher:
    """A callback that keeps what it is told, and asks to stop after `patience` steps."""

    def __init__(self, patience=None, error=None):
        self.patience, self.error = patience, error
        self.tasks, self.steps, self.open, self.torn_down = [], [], 0, 0
        self.lines = []

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        self.open += 1

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        self.open -= 1
        self.tasks.append(context.task_name)
        if context.task_name != "iterations":
            return False
        if self.error is not None:
            raise self.error
        self.steps.append(fitted_estimator.score(X, y))
        self.lines.append(context.progress)
        return self.patience is not None and len(self.steps) >= self.patience

    def teardown(self, estimator, context):
        self.torn_down += 1


# Callbacks.


@callbacks
def test_progress_bar(three, capsys):
    X, y = three
    SVC().set_callbacks(ProgressBar()).fit(X, y)
    shown = capsys.readouterr().out
    assert "SVC - fit" in shown and "100%" in shown and "binary problem #2" in shown


@callbacks
def test_scoring_monitor_logs_scores_during_and_after(hard):
    X, y = hard
    monitor = ScoringMonitor(scoring="accuracy")
    model = SVC(**ENDLESS, max_iter=3000).set_callbacks(monitor)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    log = monitor.get_logs().data
    by_task = {row["task_name"]: row["accuracy"] for row in log}
    assert by_task["fit"] == model.score(X, y)
    assert 0 <= by_task["iterations"] <= 1


@callbacks
def test_scoring_monitor_of_a_short_fit(binary):
    X, y = binary
    monitor = ScoringMonitor(scoring="accuracy")
    model = SVC().set_callbacks(monitor)
    weights = np.linspace(0.1, 1, len(y))
    model.fit(X, y, weights)
    assert monitor.get_logs().data[-1]["accuracy"] == model.score(X, y, weights)


@callbacks
def test_callbacks_see_one_task_a_problem_and_every_begin_has_its_end(three):
    X, y = three
    watcher = Watcher()
    SVC().set_callbacks(watcher).fit(X, y)
    assert watcher.tasks.count("binary problem") == 3 and watcher.tasks[-1] == "fit"
    assert watcher.open == 0 and watcher.torn_down == 1


@callbacks
def test_a_callback_may_ask_to_stop(hard):
    X, y = hard
    watcher = Watcher(patience=2)
    model = SVC(**ENDLESS).set_callbacks(watcher)
    with pytest.warns(ConvergenceWarning, match="interrupted before it reached tol"):
        model.fit(X, y)
    assert len(watcher.steps) == 2
    assert model.fit_report_.status == "interrupted"
    assert model.predict(X).shape == y.shape


@callbacks
def test_an_error_in_a_callback_comes_out_and_changes_nothing(hard):
    X, y = hard
    model = SVC(**ENDLESS).set_callbacks(Watcher(error=ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        model.fit(X, y)
    assert not hasattr(model, "support_") and not hasattr(model, "n_features_in_")


@callbacks
def test_progress_bar_reaches_through_meta_estimators(binary, capsys):
    X, y = binary
    search = GridSearchCV(make_pipeline(StandardScaler(), SVC()), {"svc__C": [1, 10]}, cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(X, y)
    assert "SVC" in capsys.readouterr().out


def test_verbose_prints_lines_and_silence_is_silent(hard, capsys):
    X, y = hard
    for verbose in (0, 1):
        with pytest.warns(ConvergenceWarning):
            SVC(**ENDLESS, max_iter=2000, verbose=verbose).fit(X, y)
        shown = capsys.readouterr()
        assert shown.err == ""
        assert ("[maxmargin]" in shown.out) == bool(verbose)
    assert "iterations" in shown.out and "violation" in shown.out


def falling(violation, seconds, tol, limit=None):
    """A monitor's lines at these seconds of a fake clock, with violations to match."""
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monitor, "time", clock)
        patch.setattr(monitor, "working_time", clock.perf_counter)
        watched = Monitor(tol=tol, deadline=limit)
        for at, value in zip(seconds, violation, strict=True):
            now[0] = at
            watched.update(0, value, 0.0, np.zeros(1), 0.0, n_settled=7)
    return watched.history


def test_the_time_left_follows_from_the_rate_at_which_the_violation_falls():
    """A tenth every ten seconds: 1e-3 is reached after forty."""
    seconds = np.arange(0.0, 41.0, 5.0)
    lines = falling(10.0 ** (1 - seconds / 10), seconds, tol=1e-3)
    assert lines[0].seconds_left == np.inf and lines[0].n_settled == 7
    assert_allclose([line.seconds_left for line in lines[1:]], 40 - seconds[1:], atol=1e-9)


def test_the_time_left_follows_the_second_half_of_the_time_so_far():
    """Ten times slower after ten seconds, with a violation that jumps up in between."""
    lines = falling([1.0, 0.1, 5.0, 0.01], [0.0, 10.0, 15.0, 110.0], tol=1e-3)
    assert lines[2].seconds_left == pytest.approx(30.0)  # 0.1 is what counts at 15 s
    assert lines[3].seconds_left == pytest.approx(95.0)  # as the tenth since then took


def test_there_is_no_rate_while_the_clock_stands_still():
    """As it does while another thread compiles."""
    lines = falling([1.0, 0.5, 0.1, 0.01], [0.0, 0.0, 0.0, 10.0], tol=1e-3)
    assert [line.seconds_left for line in lines] == [np.inf, np.inf, np.inf, pytest.approx(10.0)]


def test_the_time_left_is_no_longer_than_the_limit_allows():
    lines = falling([1.0, 1.0, 0.1, 1e-4], [0.0, 1.0, 2.0, 3.0], tol=1e-3, limit=5.0)
    assert_allclose([line.seconds_left for line in lines], [5.0, 4.0, 2.0, 0.0])
    assert falling([1.0, 1.0], [0.0, 1.0], tol=1e-3)[1].seconds_left == np.inf


@callbacks
def test_callbacks_and_verbose_tell_rows_settled_and_the_time_left(hard, capsys):
    X, y = hard
    watcher = Watcher()
    with pytest.warns(ConvergenceWarning):
        SVC(C=10.0, time_limit=1e6, max_iter=3000, solver="smo", verbose=1).set_callbacks(
            watcher
        ).fit(X, y)
    assert all(line.seconds_left <= 1e6 for line in watcher.lines) and watcher.lines
    assert " s left" in capsys.readouterr().out


def test_the_default_solver_tells_how_many_rows_are_settled():
    X, y = make_classification(4000, 5, class_sep=1.5, random_state=0)
    report = SVC(C=1000.0, gamma=2.0).fit(X, y).fit_report_
    settled = [line.n_settled for line in report.history]
    assert settled[0] == 0 and 2000 < max(settled) < 4000


# Limits.


class SlowPasses(CertifiedRun):
    """Passes of a second that get nowhere."""

    def __init__(self, problem, run, clock):
        super().__init__(problem, run, shrinking=False)
        self.clock = clock

    def _optimise(self, tol, beta, residual, max_rounds=np.inf):
        self.clock.now += 1.0
        beta = np.full(self.problem.n, 0.5) * np.sign(self.problem.linear)
        return beta, self.monitor.update(0, 1.0, 0.0, beta, 0.0)


@pytest.mark.parametrize("limit", [15.0, 25.0, 39.0, 60.0, 200.0])
def test_the_time_limit_is_kept_by_passes_with_long_certificates(monkeypatch, limit):
    """Passes take a second and certificates ten: no pass is begun that could not be certified."""
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr(monitor, "time", clock)
    X, signs = np.random.default_rng(0).normal(size=(50, 2)), np.resize([1.0, -1.0], 50)
    matrix = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float64)
    problem = Problem(matrix, signs, np.minimum(signs, 0), np.maximum(signs, 0))
    watched = Monitor(deadline=limit)
    watched.certificate_seconds = lambda beta: 10.0
    slow = SlowPasses(problem, Run(monitor=watched, refine=False), clock)

    def certify(problem, beta, **options):
        clock.now += 10.0
        return optimality.certify(problem, beta, **options)

    monkeypatch.setattr(certified_run, "certify", certify)
    monkeypatch.setattr(certified_run, "polish", lambda certificate: certificate)
    monkeypatch.setattr(
        certified_run.Passes, "next_problem", lambda self, problem, *others: problem
    )
    assert slow.until_certified() is Status.TIME_LIMIT
    assert clock.now <= max(1.05 * limit, limit + 1.0)


def test_a_look_at_the_drift_leaves_time_for_the_certificate(monkeypatch):
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(monitor, "time", clock)
    watched = Monitor(deadline=25.0)
    watched.certificate_seconds = lambda beta: 10.0
    assert watched.update(0, 1.0, 0.0, np.zeros(1), 0.0) is None
    assert watched.has_time_for_another_certificate()
    clock.now = 6.0
    assert not watched.has_time_for_another_certificate() and watched.should_stop(0) is None
    assert Monitor().has_time_for_another_certificate()


@pytest.mark.parametrize("solver", ["cluster", "hierarchical", "smo", "auto"])
def test_every_solver_is_told_how_long_its_certificate_will_take(solver, monkeypatch):
    """The boundary tells the monitor, whatever the solver: it stops when that time begins."""
    X, y = make_classification(1300, 5, flip_y=0.3, random_state=0)  # more than one working set
    monkeypatch.setattr(boundary, "CertificateCost", lambda problem: lambda beta: 1e9)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = SVC(C=1e4, solver=solver, time_limit=1e6, tol=1e-9, random_state=0).fit(X, y)
    assert model.fit_report_.status == "time_limit"


@pytest.mark.parametrize("late", ["deadline", "interrupt"])
def test_problems_after_the_end_are_not_begun(late):
    """The start is the answer, with its certificate."""

    class Never(Decomposition):
        def solve(self, problem, run):
            raise AssertionError("begun")

    X, signs = np.random.default_rng(0).normal(size=(50, 2)), np.resize([1.0, -1.0], 50)
    matrix = FeatureKernelMatrix(X, KernelFunction("rbf", 0.5), np.float64)
    problem = Problem(matrix, signs, np.minimum(signs, 0), np.maximum(signs, 0))
    watched = Monitor(deadline=-np.inf if late == "deadline" else None)
    if late == "interrupt":
        watched.interrupt = SimpleNamespace(requested=True)
    outcome = boundary.solve_certified(Never(), problem, Run(monitor=watched, start=0.5 * signs))
    expected = Status.TIME_LIMIT if late == "deadline" else Status.INTERRUPTED
    assert (outcome.status, outcome.n_iter) == (expected, 0)
    assert_array_equal(outcome.beta, 0.5 * signs)
    assert outcome.kkt_violation == optimality.certify(problem, outcome.beta).kkt_violation


def test_time_limit(hard):
    X, y = hard
    with pytest.warns(ConvergenceWarning, match="stopped at time_limit=0.3 s"):
        model = SVC(**ENDLESS, time_limit=0.3).fit(X, y)
    report = model.fit_report_
    assert report.status == "time_limit" and report.seconds >= 0.3
    assert report.kkt_violation > 1e-6  # the truth, not what was hoped for
    assert model.fit_status_ == 1
    assert model.predict(X).shape == y.shape


def test_the_time_limit_leaves_time_for_the_certificate():
    """An estimate of its time is taken off the limit, as soon as there is one."""
    watched = Monitor(deadline=time.perf_counter() + 1e6)
    assert watched.update(1, 1.0, 0.0, np.ones(2), 0.0) is None
    watched.certificate_seconds = lambda beta: 2e6 * beta[0]
    assert watched.update(2, 1.0, 0.0, np.zeros(2), 0.0) is None
    assert watched.update(3, 1.0, 0.0, np.ones(2), 0.0) is Status.TIME_LIMIT
    assert watched.should_stop(4) is Status.TIME_LIMIT


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_the_time_of_a_certificate_is_estimated_from_part_of_it(kernel, monkeypatch):
    """In units of kernel values instead of seconds."""
    X = np.random.default_rng(0).normal(size=(8000, 3))
    function = KernelFunction(kernel, 0.5)
    matrix = FeatureKernelMatrix(X, function, np.float32)
    problem = Problem(matrix, np.ones(8000), -np.ones(8000), np.ones(8000))
    clock = SimpleNamespace(perf_counter=lambda: 1e-9 * matrix.evaluations)
    monkeypatch.setattr(certified_run, "time", clock)
    cost = certified_run.CertificateCost(problem)
    assert cost(np.zeros(8000)) == 0.0
    estimate = cost(np.ones(8000))
    measured = matrix.evaluations
    assert measured < 0.4 * 8000**2
    matrix.multiply(np.arange(8000), np.ones(8000), precise=True)
    computed = matrix.evaluations - measured
    assert estimate == pytest.approx(1e-9 * computed, rel=0.05)  # but for diagonal tiles
    cost(np.ones(8000))
    assert matrix.evaluations == measured + computed  # not measured again


def test_time_limit_is_for_the_fit_as_a_whole(hard):
    X, y = hard
    labels = np.arange(len(y)) % 3
    with pytest.warns(ConvergenceWarning):
        model = SVC(**ENDLESS, time_limit=0.2).fit(X, labels)
    assert [line.status for line in model.fit_report_] == ["time_limit"] * 3
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("max_iter", [0, 1, 37, 1500])
def test_max_iter_is_exact(hard, max_iter):
    X, y = hard
    with pytest.warns(ConvergenceWarning, match=rf"max_iter={max_iter}\)"):
        model = SVC(**ENDLESS, max_iter=max_iter).fit(X, y)
    assert_array_equal(model.n_iter_, [max_iter])
    assert model.fit_report_.status == "max_iter"
    assert np.isfinite(model.decision_function(X)).all()
    assert len(model.support_) <= 2 * max_iter


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["smo", "decomposition"])
def test_history_of_a_long_fit(hard, monkeypatch, solver):
    """Steps never raise the objective; with float64 rows its running value is a good one."""
    monkeypatch.setattr(monitor, "_UPDATE_SECONDS", -1.0)  # a line at each look at the clock
    monkeypatch.setattr(constants, "STEPS_PER_ROUND", 2000)
    X, y = (part[:400] for part in hard)
    model = SVC(**(ENDLESS | {"solver": solver}), max_iter=40_000).fit(X, y)
    lines = model.fit_report_.history
    assert len(lines) >= 3
    assert (np.diff([line.n_iter for line in lines]) >= 0).all()
    objectives = [line.objective for line in lines]
    assert (np.diff(objectives) <= 1e-9 * abs(objectives[-1])).all()


def test_the_history_says_which_objectives_are_estimates(hard):
    X, y = hard
    with pytest.warns(ConvergenceWarning):
        report = SVC(**ENDLESS, max_iter=3000).fit(X, y).fit_report_
    *on_the_way, last = report.history
    assert on_the_way and all(line.estimated for line in on_the_way)
    assert not last.estimated and last.objective == report.objective
    assert not report.to_dict()["problems"][0]["history"][-1]["estimated"]


def test_monitor_gives_the_most_urgent_reason():
    monitor = Monitor(max_iter=5)
    assert monitor.should_stop(4) is None and monitor.iterations_left(4) == 1
    assert monitor.should_stop(5) is Status.MAX_ITER and monitor.iterations_left(9) == 0
    assert Monitor(deadline=0.0).should_stop(0) is Status.TIME_LIMIT
    asked = Monitor(on_progress=lambda line, beta, intercept: True)
    assert asked.update(1, 0.5, -1.0, np.array([0.0, 2.0]), 0.0) is Status.INTERRUPTED
    assert asked.history[0].n_support == 1


@pytest.mark.parametrize("status", Status)
def test_every_status_has_a_sentence(status):
    message = status.message(max_iter=7, time_limit=2.0, tol=1e-3)
    assert message.endswith(".") and "\n" not in message


# Ctrl-C, in a process of its own so that the signal is a real one.

PREAMBLE = """
import json, os, signal, threading, time, warnings
import numpy as np
from maxmargin import SVC
from maxmargin.monitor import Monitor
from maxmargin.solvers import SMO, Decomposition, Solver
from maxmargin.training import watch
signal.signal(signal.SIGINT, signal.default_int_handler)
warnings.simplefilter("always")
rng = np.random.default_rng(0)
X, y = rng.normal(size=(3000, 2)), rng.integers(0, 2, 3000)
"""

ONE = """
from test_civil import ENDLESS, Watcher

class Tell(Watcher):
    def on_fit_task_end(self, estimator, context):
        ends.append(context.task_name)
        if ends.count("iterations") == 3:  # after some steps
            started.set()

def press():
    started.wait()
    pressed.append(len(looks))
    os.kill(os.getpid(), signal.SIGINT)

class Counted(Monitor):
    # Counts how often solvers ask whether to stop.
    def should_stop(self, n_iter):
        looks.append(n_iter)
        return super().should_stop(n_iter)

watch.Monitor = Counted
looks = []

started, pressed, ends = threading.Event(), [], []
SVC(solver="smo").fit(X[:50], y[:50])
thread = threading.Thread(target=press, daemon=True)
thread.start()
model = SVC(**ENDLESS, n_jobs=1).set_callbacks(Tell())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    model.fit(X, labels)
print(json.dumps({
    "looks": len(looks) - pressed[0],
    "statuses": [line.status for line in model.fit_report_],
    "warnings": [str(warning.message) for warning in caught],
    "usable": bool(np.isfinite(model.decision_function(X)).all() and np.isin(
        model.predict(X), labels).all() and len(model.support_) > 0),
    "handler back": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}))
"""

TWO = """
class Deaf(Solver):
    name = "deaf"
    def solve(self, problem, run):
        os.kill(os.getpid(), signal.SIGINT)
        while not run.monitor.interrupt.requested:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        while True:
            time.sleep(0.01)

model = SVC(solver=Deaf())
try:
    model.fit(X, y)
    ended = "returned"
except KeyboardInterrupt:
    ended = "KeyboardInterrupt"
print(json.dumps({
    "ended": ended,
    "fitted": hasattr(model, "support_"),
    "handler back": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}))
"""


def in_a_process(code):
    run = subprocess.run(
        [sys.executable, "-c", PREAMBLE + code], cwd=HERE, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@callbacks
@pytest.mark.parametrize(("labels", "n_problems"), [("y", 1), ("np.arange(3000) % 3", 3)])
def test_control_c_stops_and_leaves_a_usable_model(labels, n_problems):
    answer = in_a_process(f"labels = {labels}\n" + ONE)
    assert answer["statuses"] == ["interrupted"] * n_problems
    # The look that was under way when the signal came, and at most two of each problem after it:
    # solvers look at least each 0.2 s, and the first look ends the solve.
    assert answer["looks"] <= 2 * n_problems + 1
    assert any("was interrupted before it reached tol" in text for text in answer["warnings"])
    assert answer["usable"] and answer["handler back"]


NESTED = """
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_civil import ENDLESS

class Press(Solver):
    name = "press"
    def solve(self, problem, run):
        fits.append(problem.n)
        os.kill(os.getpid(), signal.SIGINT)
        while not run.monitor.interrupt.requested:
            time.sleep(0.001)
        return SMO().solve(problem, run)

class Meta(BaseEstimator):
    def __init__(self, inner):
        self.inner = inner
    def fit(self, X, y):
        for _ in range(3):
            self.inner.fit(X, y)
        return self

fits, model = [], SVC(**{**ENDLESS, "solver": Press()})
try:
    HOW
    ended = "returned"
except KeyboardInterrupt:
    ended = "KeyboardInterrupt"
print(json.dumps({
    "ended": ended,
    "fits": len(fits),
    "fitted": hasattr(model, "support_"),
    "handler back": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
}))
"""


@pytest.mark.parametrize(
    "how",
    [
        "GridSearchCV(model, {'C': [1e5, 1e6]}, cv=2).fit(X, y)",
        "make_pipeline(StandardScaler(), model).fit(X, y)",
        "cross_val_score(model, X, y, cv=2)",
        "Meta(model).fit(X, y)",
    ],
)
def test_control_c_inside_another_estimator_stops_the_whole(how):
    answer = in_a_process(NESTED.replace("HOW", how))
    assert answer == {
        "ended": "KeyboardInterrupt", "fits": 1, "fitted": False, "handler back": True
    }  # fmt: skip


def test_control_c_in_a_loop_of_the_user_s_own_keeps_the_model():
    answer = in_a_process(NESTED.replace("HOW", "(lambda: model.fit(X, y))()"))
    assert answer == {"ended": "returned", "fits": 1, "fitted": True, "handler back": True}


def test_second_control_c_breaks_off_at_once():
    answer = in_a_process(TWO)
    assert answer == {"ended": "KeyboardInterrupt", "fitted": False, "handler back": True}


def test_somebody_elses_handler_of_control_c_is_left_alone(binary):
    X, y = binary
    heard = []

    class Press(Solver):
        name = "press"

        def solve(self, problem, run):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)
            assert not run.monitor.interrupt.requested
            return SMO().solve(problem, run)

    def mine(number, frame):
        heard.append(number)

    before = signal.signal(signal.SIGINT, mine)
    try:
        model = SVC(solver=Press()).fit(X, y)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT] and model.fit_report_.status == "converged"


@pytest.mark.parametrize(
    "params, weights",
    [({"max_iter": 1}, None), ({"probability": True}, None), ({}, np.r_[-1.0, np.ones(99)])],
)
def test_a_warning_names_the_line_that_called_fit(params, weights):
    X = np.random.default_rng(0).normal(size=(100, 3))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SVC(**params).fit(X, X[:, 0] > X[:, 1], weights)
    assert [w.filename for w in caught] == [__file__]
