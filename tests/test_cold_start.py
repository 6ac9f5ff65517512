"""The compiler: what it takes is told apart, done once for a machine, and shared by processes."""

import json
import os
import subprocess
import sys
import time

import pytest
from numba import njit
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from maxmargin import SVC, clock, compiled
from maxmargin.clock import compile_seconds, working_time

FIT = """
import json, sys
from numba.core import event
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from maxmargin import SVC
X, y = load_breast_cancer(return_X_y=True)
X, y = scale(X)[:426], y[:426]
with event.install_recorder("numba:compile") as compiled:
    model = SVC(C=10).fit(X, y)
report = model.fit_report_
print(json.dumps({
    "compiled": sum(one.is_start for _, one in compiled.buffer),
    "compile_seconds": report.compile_seconds, "seconds": report.seconds,
    "problem": report[0].seconds, "coefficients": model.dual_coef_.tobytes().hex(),
}))
"""


def processes(folder, count=1):
    """What fits say in so many processes at the same time, with their compiled code in a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    running = [
        subprocess.Popen([sys.executable, "-c", FIT], env=environment, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    answers = [json.loads(process.communicate()[0]) for process in running]
    assert [process.returncode for process in running] == [0] * count
    return answers


@pytest.mark.slow
def test_compiled_once_and_shared_between_processes(tmp_path):
    first, second = processes(tmp_path, 2)  # both find nothing, and take turns
    [third] = processes(tmp_path)
    assert third["compiled"] == 0 < first["compiled"] + second["compiled"] <= 60
    assert first["coefficients"] == second["coefficients"] == third["coefficients"]
    for answer in (first, second, third):
        assert 0 < answer["compile_seconds"] < answer["seconds"]
        assert answer["problem"] < answer["seconds"] - answer["compile_seconds"] + 1e-3
    assert first["compile_seconds"] > third["compile_seconds"]


SMALL_FIT = """
import json, sys
import numpy as np
from numba.core import event
from maxmargin import SVC
X = np.random.default_rng(0).normal(size=(int(sys.argv[1]), 3))
with event.install_recorder("numba:compile") as compiled:
    SVC().fit(X, X[:, 0] > 0)
print(json.dumps([one.data["dispatcher"].py_func.__name__ for _, one in compiled.buffer]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, 300])
def test_a_small_fit_compiles_only_what_it_takes(n, tmp_path):
    """Neither steps for a few samples, nor those of hard problems, nor other kernels.

    Kernel rows on demand are for the larger of the two alone, steps on copies for the other.
    """
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SMALL_FIT, str(n)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    compiled = set(json.loads(done.stdout))
    assert "solve_problems" in compiled
    assert ("fetch" in compiled) == ("pair_steps" in compiled) == (n == 300)
    assert ("steps_on_copies" in compiled) == (n == 60)
    assert not compiled & {"steps_of_few", "steps_of_active", "make_feasible"}
    assert not compiled & {"polynomial_inplace", "sigmoid_inplace"}


def test_parts_are_compiled_into_what_calls_them():
    """A part has no machine code, a leaf has; both compute the same."""
    leaf = compiled.leaf(cache=False)(lambda x: 2.0 * x + 1.0)
    part = compiled.part_of(leaf)
    through = njit(lambda x: part(x))
    assert through(3.0) == leaf(3.0) == 7.0
    [made] = part.overloads.values()
    assert not made.library._codegen._engine.is_symbol_defined(made.fndesc.llvm_func_name)
    # What is linked in may call parts itself, and may raise.
    inner = compiled.inner()(lambda x: part(x) if x > 0.0 else 1.0 / x)
    outer = njit(lambda x: inner(x) + part(x))
    assert outer(3.0) == 14.0
    with pytest.raises(ZeroDivisionError):
        outer(0.0)


def test_processes_take_turns(monkeypatch, tmp_path):
    monkeypatch.setattr(clock.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(clock, "_LONGEST_WAIT", 0.05)
    mine, others = clock.Turn(), clock.Turn()
    mine.wait()
    start = time.perf_counter()
    others.wait()  # in vain
    assert time.perf_counter() - start >= 0.05 and others._file is None
    mine.over()
    others.wait()
    assert others._file is not None
    others.over()
    others.over()
    mine.wait()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "another"))
    apart = clock.Turn()
    apart.wait()  # another cache: nothing of what the first compiles could be used
    assert apart._file is not None
    apart.over()
    mine.over()
    monkeypatch.setattr(clock.tempfile, "gettempdir", lambda: str(tmp_path / "nowhere"))
    nobody = clock.Turn()
    nobody.wait()  # without a place for a lock there is nothing to wait for
    assert nobody._file is None


def test_the_clock_stands_still_while_the_compiler_is_at_work(monkeypatch):
    compiler = clock._Compiler()
    monkeypatch.setattr(clock, "_compiler", compiler)
    compiler.ends()  # of something that began before anybody listened
    assert compile_seconds() == 0.0
    begun = working_time()
    compiler.begins()
    compiler.begins()
    time.sleep(0.02)
    compiler.ends()
    still = working_time()
    assert all(abs(working_time() - still) < 1e-9 for _ in range(1000))  # to rounding
    compiler.ends()
    assert compile_seconds() >= 0.02
    assert still - begun < 0.02 <= compile_seconds()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here.")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_no_part_in_the_compiling_of_its_parent(monkeypatch, tmp_path):
    monkeypatch.setattr(clock.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(clock, "_LONGEST_WAIT", 0.05)
    compiler = clock._Compiler()
    monkeypatch.setattr(clock, "_compiler", compiler)
    compiler.begins()
    child = os.fork()
    if child == 0:
        still = compiler.seconds()
        time.sleep(0.01)
        fine = compiler.seconds() == still and compiler._turn._file is None
        time.sleep(0.2)
        os._exit(0 if fine else 1)
    compiler.ends()
    turn = clock.Turn()
    turn.wait()  # the child does not hold on to it
    assert turn._file is not None
    turn.over()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_fits_that_need_no_compiler_say_so():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    SVC().fit(X, y)
    report = SVC().fit(X, y).fit_report_
    assert report.compile_seconds == 0.0
    assert report.to_dict()["compile_seconds"] == 0.0
