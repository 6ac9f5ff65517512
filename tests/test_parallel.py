"""Threads: as many as the context allows, BLAS held and given back."""

import os
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from joblib import Parallel, delayed, parallel_config
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_limits

from maxmargin import SVC
from maxmargin.parallel import (
    _blas,
    always_one_thread,
    blas_threads,
    n_threads,
    resolve_n_jobs,
    run_beside,
    run_blocks,
    session,
    split,
    stream_concurrently,
)


@pytest.fixture(autouse=True)
def two_blas_threads(monkeypatch):
    """A known state to come back to, whatever the machine and its environment."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with threadpool_limits(limits=2, user_api="blas"):
        yield


def blas():
    return {library["num_threads"] for library in _blas().info()}


def test_a_session_holds_blas_to_one_thread_and_gives_it_back():
    assert blas() == {2} and n_threads() == 1
    with session(4):
        assert blas() == {1} and n_threads() == 4
    assert blas() == {2} and n_threads() == 1


def test_sessions_nest():
    with session(4):
        with session(2):
            assert blas() == {1} and n_threads() == 2
        assert blas() == {1} and n_threads() == 4
    assert blas() == {2}


def test_a_session_whose_threads_change():
    answers = iter([1, 3, 2])
    with session(lambda: next(answers)):
        assert not always_one_thread()
        assert [n_threads(), n_threads()] == [1, 3]
        with session(1):
            assert always_one_thread() and n_threads() == 1
        assert n_threads() == 2
    assert always_one_thread()


def test_an_error_restores_too():
    with pytest.raises(RuntimeError), session(3):
        raise RuntimeError
    assert blas() == {2} and n_threads() == 1


def test_overlapping_sessions_of_threads_restore_with_the_last():
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = {}

    def first():
        with session(2):
            first_in.set()
            second_in.wait(30)
        first_out.set()

    def second():
        first_in.wait(30)
        with session(3):
            second_in.set()
            first_out.wait(30)
            seen["threads"], seen["blas"] = n_threads(), blas()

    threads = [threading.Thread(target=job) for job in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == {"threads": 3, "blas": {1}}
    assert blas() == {2}


def test_blas_gets_all_threads_for_a_factorisation():
    with session(2):
        with blas_threads(1e12):
            assert blas() == {2}
        assert blas() == {1}
    with session(1), blas_threads(1e12):
        assert blas() == {1}


def test_a_fit_and_a_prediction_leave_blas_as_it_was(binary):
    X, y = binary
    model = SVC(n_jobs=2).fit(X, y)
    assert blas() == {2}
    model.predict(X)
    assert blas() == {2}
    with pytest.raises(ValueError):
        SVC(cache_size=1e-5, solver="smo").fit(X, y)
    assert blas() == {2}


def test_blocks_keep_their_order_and_run_on_threads():
    names, together = [], threading.Barrier(3)

    def work(block):
        if block < 3:
            together.wait(timeout=60)  # so that each of three threads has one of these
        names.append((threading.current_thread().name, n_threads()))
        return 10 * block

    with session(3):
        assert run_blocks(work, range(20)) == [10 * block for block in range(20)]
        assert n_threads() == 3
    assert len({name for name, _ in names}) == 3
    assert threading.current_thread().name in dict(names)  # the calling thread is one of them
    assert {threads for _, threads in names} == {1}  # a block has no threads of its own
    names.clear()
    run_blocks(lambda block: work(block + 3), range(3))  # outside a session: here and now
    assert names == [(threading.current_thread().name, 1)] * 3


def test_blocks_do_not_wait_for_threads_that_are_busy_elsewhere():
    release = threading.Event()

    def other():
        try:
            return run_blocks(lambda k: k, range(9))
        finally:
            release.set()

    with session(2):  # the only other thread waits for the blocks to be done
        assert run_beside(lambda: release.wait(timeout=60), other)


def test_threads_may_become_fewer_while_blocks_are_handed_out():
    numbers = iter([2, 1])  # a second question would get another answer
    with session(lambda: next(numbers)):
        assert run_blocks(lambda k: k, range(5)) == list(range(5))


def test_after_an_error_no_more_blocks_are_begun():
    begun = []

    def work(block):
        begun.append(block)
        raise ZeroDivisionError

    with session(3), pytest.raises(ZeroDivisionError):
        run_blocks(work, range(100))
    assert len(begun) <= 3


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_work_beside_other_work(threads):
    done = []

    def other():
        done.extend(run_blocks(lambda k: k, range(9)))

    with session(threads):
        assert run_beside(lambda: threading.current_thread(), other) is not None
        assert done == list(range(9))
        with pytest.raises(ZeroDivisionError):
            run_beside(lambda: 1 / 0, other)
        with pytest.raises(ZeroDivisionError):
            run_beside(other, lambda: 1 / 0)


def test_an_error_in_a_block_comes_out():
    def fail(block):
        raise ZeroDivisionError

    with session(2), pytest.raises(ZeroDivisionError):
        run_blocks(fail, range(4))


@pytest.mark.parametrize("n, size", [(0, 3), (1, 3), (3, 3), (10, 3)])
def test_split_covers_everything_once(n, size):
    parts = split(n, size)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))
    assert all(0 < part.stop - part.start <= size for part in parts)


# How many threads.


def test_explicit_n_jobs():
    assert resolve_n_jobs(1) == 1
    assert resolve_n_jobs(3) == 3
    assert resolve_n_jobs(-1) == joblib.cpu_count()
    assert resolve_n_jobs(-1000) == 1


def test_none_takes_all_cores():
    assert resolve_n_jobs(None) == joblib.cpu_count()


@pytest.mark.parametrize(("value", "expected"), [("1", 1), ("many", joblib.cpu_count())])
def test_none_respects_the_environment_of_the_process(value, expected):
    program = "from maxmargin.parallel import resolve_n_jobs; print(resolve_n_jobs(None))"
    environment = os.environ | {"OMP_NUM_THREADS": value}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    output = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert int(output.stdout) == expected


def test_none_ignores_what_was_set_for_children(monkeypatch):
    """Dask writes OMP_NUM_THREADS=1 into the environment of the process that starts a cluster."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert resolve_n_jobs(None) == joblib.cpu_count()
    with session(1):
        assert resolve_n_jobs(None) == joblib.cpu_count()
    with threadpool_limits(limits=1, user_api="blas"):
        assert resolve_n_jobs(None) == 1


def test_none_follows_a_parallel_config():
    with parallel_config(backend="threading", n_jobs=2):
        assert resolve_n_jobs(None) == 2


def test_none_is_one_inside_a_thread_of_joblib():
    inside = Parallel(n_jobs=2, backend="threading")(
        delayed(resolve_n_jobs)(None) for _ in range(2)
    )
    assert inside == [1, 1]


def test_none_never_oversubscribes_inside_a_process_of_joblib():
    inside = Parallel(n_jobs=2, backend="loky")(delayed(resolve_n_jobs)(None) for _ in range(2))
    assert sum(inside) <= max(2, joblib.cpu_count())


def test_fits_in_threads_at_the_same_time(binary):
    X, y = binary

    def coefficients(C):
        return SVC(C=C).fit(X, y).dual_coef_

    costs = [0.1, 1.0, 10.0, 100.0]
    together = Parallel(n_jobs=2, backend="threading")(delayed(coefficients)(C) for C in costs)
    for C, found in zip(costs, together):
        assert_array_equal(found, coefficients(C))
    assert blas() == {2}


def test_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 5)), rng.integers(0, 2, 1500)
    one, two = (SVC(n_jobs=n_jobs, random_state=0).fit(X, y) for n_jobs in (1, 2))
    assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("size", [50, 200, 300])  # in one thread; side by side in both precisions
def test_problems_side_by_side_mean_one_after_the_other(multi_class, size):
    y = np.repeat(np.arange(3), size)
    X = np.random.default_rng(0).normal(size=(3 * size, 4)) + y[:, np.newaxis]
    alone = SVC(multi_class=multi_class, n_jobs=1).fit(X, y)
    together = SVC(multi_class=multi_class, n_jobs=2).fit(X, y)
    assert_array_equal(together.support_, alone.support_)
    assert_array_equal(together.dual_coef_, alone.dual_coef_)
    for one, other in zip(together.fit_report_, alone.fit_report_):
        assert one.problem == other.problem
        assert one.kernel_evaluations == other.kernel_evaluations
    assert alone.fit_report_.kernel_evaluations > 0


def test_items_are_made_by_the_calling_thread_alone_while_others_work():
    threads = []

    def items():
        for k in range(4):
            threads.append(n_threads())
            yield k

    with session(2):
        assert list(stream_concurrently(lambda k: k, items())) == [0, 1, 2, 3]
        assert n_threads() == 2
    assert threads == [2, 1, 1, 1]


def test_items_are_drawn_shortly_before_their_turn():
    drawn, done = [], []

    def items():
        for k in range(20):
            drawn.append(k)
            yield k

    with session(2):
        for k in stream_concurrently(lambda k: k, items()):
            done.append(k)
            assert len(drawn) <= len(done) + 3
    assert done == list(range(20))


FORK = """
import os, threading
import numpy as np
from maxmargin import SVC, parallel

rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
expected = SVC(C=10.0, n_jobs=2).fit(X, y)

def forked():
    child = os.fork()
    if child == 0:
        same = np.array_equal(SVC(C=10.0, n_jobs=2).fit(X, y).dual_coef_, expected.dual_coef_)
        limits = {library["num_threads"] for library in parallel._blas().info()}
        os._exit(0 if same and limits == before else 1)
    return os.waitpid(child, 0)[1]

before = {library["num_threads"] for library in parallel._blas().info()}
# While another thread has begun a session.
inside, done = threading.Event(), threading.Event()

def holds():
    with parallel.session(2):
        inside.set()
        done.wait()

thread = threading.Thread(target=holds)
thread.start()
inside.wait()
print(forked())
done.set()
thread.join()

# While another thread fits.
stop = threading.Event()

def fits():
    while not stop.is_set():
        SVC(C=10.0, n_jobs=2).fit(X, y)

thread = threading.Thread(target=fits)
thread.start()
print([forked() for _ in range(12)])
stop.set()
thread.join()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_while_another_thread_fits():
    """The locks and sessions of threads that the child does not have must not bind it."""
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=600)
    assert run.stdout.split("\n")[:2] == ["0", str([0] * 12)], run.stderr[-2000:]
