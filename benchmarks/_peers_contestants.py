"""The contestants of `peers.py`, each trained in a process of its own.

A contestant is a name, optionally with a variant behind a colon:
`maxmargin` or `maxmargin:SOLVER`; `scikit-learn`, `intelex`, `libsvm`, or any of
these with the size of their kernel cache in MB (`scikit-learn:2000`).
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import time
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

PEERS = ("scikit-learn", "intelex", "libsvm")
# Short fits are repeated inside their process until this many seconds or fits.
_REPEAT_SECONDS, _REPEAT_FITS = 1.0, 10
_WARM_UP_ROWS, _WARM_UP_C = 400, 10.0
_START_SECONDS = 300.0


@dataclass(frozen=True)
class Task:
    """What a contestant is asked to do: the problem in the file at `path`."""

    path: Path
    C: float
    kernel: str
    gamma: float
    tol: float
    kind: str = "SVC"
    epsilon: float = 0.0
    nu: float = 0.0


@dataclass
class Answer:
    """What a contestant answered.

    `seconds` is None where it exceeded the limit or failed; `status` is its own
    word on how it ended. β is given by its non-zero entries, as `judge` takes it.
    """

    status: str
    seconds: float | None = None
    support: np.ndarray | None = None
    coefficients: np.ndarray | None = None
    predict_seconds: float | None = None
    exceeded: bool = False


# ---- in the parent ------------------------------------------------------------------------


def save_samples(path: Path, X, y: np.ndarray, X_test=None) -> None:
    """Write the data for the contestants' processes."""
    arrays: dict[str, Any] = {"y": y}
    for name, matrix in (("X", X), ("X_test", X_test)):
        if sp.issparse(matrix):
            arrays |= {
                f"{name}_{part}": getattr(matrix, part)
                for part in ("data", "indices", "indptr", "shape")
            }
        elif matrix is not None:
            arrays[name] = matrix
    np.savez(path, **arrays)


def run(contestant: str, task: Task, limit: float) -> Answer:
    """Train a contestant in a fresh process, which is killed `limit` seconds into the fit."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, contestant, task))
    process.start()
    theirs.close()
    try:
        started = _next_message(ours, _START_SECONDS)
        if started != "ready":
            return started or Answer(f"error: not ready after {_START_SECONDS:g} s")
        answer = _next_message(ours, limit) or Answer("killed at the limit", exceeded=True)
        if answer.seconds is not None:
            predicted = _next_message(ours, limit)
            answer.predict_seconds = predicted if isinstance(predicted, float) else None
        return answer
    except EOFError:
        process.join()
        return Answer(f"error: process ended with exit code {process.exitcode}")
    finally:
        process.kill()
        process.join()
        ours.close()


def _next_message(connection: Connection, seconds: float):
    return connection.recv() if connection.poll(seconds) else None


# ---- in the contestant's own process ------------------------------------------------------


def _work(connection: Connection, contestant: str, task: Task) -> None:
    try:
        X, y, X_test = _load_samples(task.path)
        trainer = _trainer(contestant, task.kind)
        # Imports, compilers and thread pools are paid for here, on a small part of the data.
        chosen = np.arange(min(len(y), 2 * _WARM_UP_ROWS))
        if task.kind in ("SVC", "NuSVC"):
            chosen = np.concatenate([np.flatnonzero(y == sign)[:_WARM_UP_ROWS] for sign in (-1, 1)])
        warm = trainer.prepare(X[chosen], y[chosen], task, C=min(task.C, _WARM_UP_C))
        trainer.train(warm)
        prepared = trainer.prepare(X, y, task, C=task.C)
        connection.send("ready")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seconds, model = _best_time(lambda: trainer.train(prepared))
        status, support, coefficients = trainer.answer(model)
        if any(warning.category.__name__ == "ConvergenceWarning" for warning in caught):
            status += " (warned)"
        connection.send(Answer(status, seconds, support, coefficients))
        if X_test is not None:
            connection.send(_best_time(lambda: trainer.predict(model, X_test))[0])
        else:
            connection.send(None)
    except ImportError as error:
        connection.send(Answer(f"not installed: {error.name}"))
    except Exception as error:
        connection.send(Answer(f"error: {type(error).__name__}: {error}"))


def _best_time(function) -> tuple[float, object]:
    times: list[float] = []
    gc.collect()  # the objects of the imports are nobody's work
    while sum(times) < _REPEAT_SECONDS and len(times) < _REPEAT_FITS:
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def _load_samples(path: Path):
    with np.load(path) as file:
        arrays = dict(file)

    def matrix(name: str):
        if f"{name}_indptr" not in arrays:
            return arrays.get(name)
        data, indices, indptr, shape = (
            arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr", "shape")
        )
        return sp.csr_matrix((data, indices, indptr), shape=tuple(shape))

    return matrix("X"), arrays["y"], matrix("X_test")


def _trainer(contestant: str, kind: str = "SVC"):
    name, _, variant = contestant.partition(":")
    if name == "maxmargin":
        return _Estimator(name, {"solver": variant or "auto"}, kind)
    cache = float(variant) if variant else None
    if name == "libsvm":
        return _Libsvm(cache)
    return _Estimator(name, {} if cache is None else {"cache_size": cache}, kind)


_HOMES = {"maxmargin": "maxmargin", "scikit-learn": "sklearn.svm", "intelex": "sklearnex.svm"}
# The parameters that each kind has.
_PARAMETERS = {
    "SVC": ("C",), "NuSVC": ("nu",), "SVR": ("C", "epsilon"), "NuSVR": ("C", "nu"),
    "OneClassSVM": ("nu",),
}  # fmt: skip


class _Estimator:
    """maxmargin, scikit-learn or scikit-learn-intelex, which share an interface."""

    def __init__(self, name: str, options: dict, kind: str):
        homes = {
            "maxmargin": "maxmargin",
            "scikit-learn": "sklearn.svm",
            "intelex": "sklearnex.svm",
        }
        if name not in homes:
            raise ValueError(f"no contestant is called {name!r}.")
        self.name, self.options = name, options
        self.estimator = getattr(importlib.import_module(homes[name]), kind)

    def prepare(self, X, y, task: Task, C: float):
        own = {each: getattr(task, each) for each in _PARAMETERS[task.kind]}
        own = own | {"C": C} if "C" in own else own
        model = self.estimator(
            kernel=task.kernel, gamma=task.gamma, tol=task.tol, **own, **self.options
        )
        return model, X, None if task.kind == "OneClassSVM" else y

    def train(self, prepared):
        model, X, y = prepared
        return model.fit(X, y)

    def predict(self, model, X_test):
        return model.predict(X_test)

    def answer(self, model):
        coefficients = model.dual_coef_
        coefficients = coefficients.toarray() if sp.issparse(coefficients) else coefficients
        return self._status(model), np.array(model.support_), np.ravel(coefficients)

    def _status(self, model) -> str:
        if self.name == "maxmargin":
            return f"{model.fit_report_.status} ({model.fit_report_.solver})"
        if self.name == "intelex":
            onedal = hasattr(model, "_onedal_estimator")
            return "finished" if onedal else "finished (fell back to scikit-learn)"
        return "converged" if model.fit_status_ == 0 else "not converged"


class _Libsvm:
    """LIBSVM's own Python package; turning X into its nodes is not timed."""

    def __init__(self, cache: float | None):
        from libsvm import svmutil

        self.svmutil = svmutil
        self.options = "-q" if cache is None else f"-q -m {cache}"

    def prepare(self, X, y, task: Task, C: float):
        kernel = {"linear": 0, "rbf": 2}[task.kernel]
        kind = ("SVC", "NuSVC", "OneClassSVM", "SVR", "NuSVR").index(task.kind)
        options = f"{self.options} -s {kind} -t {kernel} -c {C!r} -g {task.gamma!r} -e {task.tol!r}"
        options += f" -p {task.epsilon!r} -n {task.nu!r}"
        problem = self.svmutil.svm_problem(y, sp.csr_matrix(X))
        return problem, self.svmutil.svm_parameter(options)

    def train(self, prepared):
        return self.svmutil.svm_train(*prepared)

    def predict(self, model, X_test):
        return self.svmutil.svm_predict([], sp.csr_matrix(X_test), model, "-q")[0]

    def answer(self, model):
        # LIBSVM counts from 1 and takes the class that it met first as the positive one.
        labels = model.get_labels()
        sign = -1.0 if model.get_svm_type() in (0, 1) and labels[0] < 0 else 1.0
        coefficients = sign * np.array(model.get_sv_coef()).ravel()
        return "finished", np.array(model.get_sv_indices()) - 1, coefficients
