"""Fits random problems and judges them: `python -m tests.fuzz.run --problems 10000`.

The seeds from 10,000,000 on are problems of the other four estimators.
"""

from __future__ import annotations

import argparse
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager

import numpy as np

from . import family
from .judge import complaints, kernel_and_rounding
from .problems import FuzzProblem, make_problem

# After so many seconds of one problem the process says where it is, and ends.
_HANGS = 600
# Kernel values beyond this may be refused: squares of them overflow.
_LARGEST_VALUE = 1e75
_LARGEST_SINGLE = 1e18


@contextmanager
def paths_of_large_problems(wanted: bool):
    """Float32 kernel rows, factors of low rank and interior points for problems of any size."""
    from maxmargin import constants
    from maxmargin.solvers.irwls import solver as irwls

    changes = [
        (constants, "DOUBLE_PRECISION_BYTES", 0),
        (constants, "INTERIOR_POINT_ITERATIONS", 0),
        (irwls, "_LOW_RANK_SAMPLES", 10),
    ]
    before = [getattr(module, name) for module, name, _ in changes]
    try:
        for module, name, value in changes if wanted else []:
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(changes, before):
            setattr(module, name, value)


def fit(problem: FuzzProblem):
    """The fitted model of a problem."""
    import maxmargin
    from maxmargin.solvers import SOLVERS

    solver = SOLVERS[problem.solver](**problem.options) if problem.options else problem.solver
    model = getattr(maxmargin, problem.kind)(solver=solver, **problem.params)
    with warnings.catch_warnings(), paths_of_large_problems(problem.like_large):
        warnings.simplefilter("ignore")
        if problem.first is not None:
            model.set_params(warm_start=True, **problem.first)
            model.fit(problem.X, problem.y, sample_weight=problem.weights)
            model.set_params(**{key: problem.params[key] for key in problem.first})
        return model.fit(problem.X, problem.y, sample_weight=problem.weights)


def judge(problem: FuzzProblem) -> tuple[str, list[str], str]:
    """How a problem ended, what is wrong with its answer, and what solved it."""
    try:
        model = fit(problem)
    except ValueError as error:
        return *_refused(problem, error), ""
    except Exception:
        return "crash", [traceback.format_exc(limit=-4)], ""
    report = model.fit_report_
    promises = {
        "exact": report.exact,
        "solves_all": problem.solver == "auto" and report.solver != "smo",
    }
    if problem.kind != "SVC":
        found = family.complaints(model, problem, **promises)
    else:
        found = complaints(
            model, problem.X, problem.y, problem.weights, problem.params,
            box=problem.solver != "greedy", **promises,
        )  # fmt: skip
    values = (model.predict if "SVR" in problem.kind else model.decision_function)(problem.X)
    if not np.isfinite(values).all():
        found.append("decision values are not finite")
    return report.status, found, report.solver


def _refused(problem: FuzzProblem, error: ValueError) -> tuple[str, list[str]]:
    """A refusal is no finding where the sentence says why the problem cannot be solved."""
    sentence = str(error)
    with np.errstate(all="ignore"):
        K, _ = kernel_and_rounding(problem.X, problem.params, problem.weights)
        largest = _LARGEST_SINGLE if problem.like_large else _LARGEST_VALUE
        large = not np.abs(K).max() <= largest
    if large and ("large values" in sentence or "overflow" in sentence or "finite" in sentence):
        return "refused: too large", []
    if "cache_size" in sentence or "needs" in sentence:
        return f"refused: {sentence[:30]}", []
    return "crash", [traceback.format_exc(limit=-4)]


def judge_seed(seed: int) -> tuple[str, list[str], str]:
    """How the problem of a seed ended, what is wrong with its answer, and its description."""
    problem = make_problem(seed)
    try:
        outcome, found, solver = judge(problem)
    except Exception:
        outcome, found, solver = "judge failed", [traceback.format_exc(limit=-4)], ""
    if outcome == "max_iter" and not problem.limited and solver != "smo":
        outcome = "lost"
        found = [*found, "no end in sight: stopped by the guard on iterations"]
    if outcome in ("interrupted", "time_limit"):
        found = [*found, "nobody asked for it"]
    return outcome, found, str(problem)


def _work(connection) -> None:
    """A worker: seeds come in, judgements go out; whoever hangs says where, and ends."""
    while (seed := connection.recv()) is not None:
        faulthandler.dump_traceback_later(_HANGS, exit=True)
        connection.send(judge_seed(seed))
        faulthandler.cancel_dump_traceback_later()


class _Worker:
    """A process that judges one seed after the other, and may die of one."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.began = 0.0
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=_work, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def take(self, seed: int | None) -> None:
        self.seed, self.began = seed, time.perf_counter()
        self.connection.send(seed)

    def answer(self) -> tuple[str, list[str], str]:
        try:
            return self.connection.recv()
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            self._start()
            return "died", [f"the process ended with {code}"], str(make_problem(self.seed))


def judgements(seeds, n_workers: int):
    """(seed, seconds, outcome, complaints, description) of all seeds, as they come."""
    seeds, workers = iter(seeds), [_Worker() for _ in range(n_workers)]
    busy = {}
    for worker in workers:
        if (seed := next(seeds, None)) is not None:
            worker.take(seed)
            busy[worker.connection] = worker
    while busy:
        for connection in multiprocessing.connection.wait(list(busy)):
            worker = busy.pop(connection)
            seed, answer = worker.seed, worker.answer()
            yield seed, time.perf_counter() - worker.began, *answer
            following = next(seeds, None)
            worker.take(following)
            if following is not None:
                busy[worker.connection] = worker


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, nargs="*", help="these alone")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    seeds = options.seeds or range(options.first, options.first + options.problems)
    outcomes: Counter = Counter()
    n_found, slowest = 0, []
    for seed, seconds, outcome, found, text in judgements(seeds, options.workers):
        outcomes[outcome] += 1
        slowest = sorted([*slowest, (round(seconds, 2), seed)])[-5:]
        if found:
            print(f"{outcome}: {text}\n    " + "\n    ".join(found), flush=True)
        n_found += bool(found)
        if sum(outcomes.values()) % 100 == 0:
            print(sum(outcomes.values()), dict(outcomes), slowest, flush=True)
    print(dict(outcomes), f"{n_found} findings; slowest (s, seed): {slowest}")
    return int(n_found > 0)


if __name__ == "__main__":
    sys.exit(main())
