"""Progress on a terminal: violation, support vectors, settled rows, time left."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from maxmargin.monitor import Progress
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution
from maxmargin.solvers import Solver, make_solver


class Watched(Solver):
    """Another solver whose progress is reported.

    Parameters
    ----------
    base : the solver
    watch : called with (number of the problem, its tol, Progress)
    """

    def __init__(self, base: Solver, watch: Callable[[int, float, Progress], None]):
        self.base, self.watch = base, watch
        self.name, self.capabilities = base.name, base.capabilities
        self._numbers = itertools.count()

    @contextmanager
    def prepare_batch(self, batch):
        with self.base.prepare_batch(batch) as (working, prepared):
            yield Watched(working, self.watch), prepared

    def solve(self, problem: Problem, run: Run) -> Solution:
        monitor, number = run.monitor, next(self._numbers)
        others = monitor.on_progress

        def on_progress(line: Progress, beta, intercept) -> bool:
            self.watch(number, run.tol, line)
            return others is not None and others(line, beta, intercept)

        monitor.on_progress = on_progress
        return self.base.solve(problem, run)


def shows_progress(quiet: bool) -> bool:
    """Whether to show progress: only where both outputs are a terminal."""
    return not quiet and sys.stdout.isatty() and sys.stderr.isatty()


@contextmanager
def watched(estimator, n_problems: int, quiet: bool) -> Iterator[None]:
    """A progress bar on standard error while the estimator's solver works."""
    if not shows_progress(quiet):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("training"), BarColumn(), TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_problems, state="", left="")
        fraction = Fraction()

        def watch(number: int, tol: float, line: Progress) -> None:
            done = number + fraction.of(number, tol, line.kkt_violation)
            left = line.seconds_left
            if n_problems > 1:  # by the part of all problems that is done
                elapsed = bar.tasks[task].elapsed or 0.0
                left = elapsed * (n_problems - done) / done if done else math.inf
            state = state_of(line, number, n_problems)
            bar.update(task, completed=done, state=state, left=time_left(left))

        solver = make_solver(estimator.solver, shrinking=estimator.shrinking)
        estimator.set_params(solver=Watched(solver, watch))
        yield


def state_of(line: Progress, number: int, n_problems: int) -> str:
    """Where a solve stands, in words."""
    parts = [f"problem {number + 1} of {n_problems}"] if n_problems > 1 else []
    parts += [f"violation {line.kkt_violation:.2g}", f"{line.n_support} support vectors"]
    if line.n_settled:
        parts.append(f"{line.n_settled} rows settled")
    return ", ".join(parts)


def time_left(seconds: float) -> str:
    """An estimated time as hours, minutes and seconds; empty while it is not known."""
    if not math.isfinite(seconds):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02d}:{rest:02d} left"


@contextmanager
def counting(what: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A function (done, total) that moves a progress bar."""
    if not shows_progress(quiet):
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class Fraction:
    """How much of a solve is done, if the violation falls by equal factors in equal times."""

    def __init__(self) -> None:
        self.number = -1
        self.first = self.lowest = math.inf

    def of(self, number: int, tol: float, violation: float) -> float:
        if number != self.number:
            self.number, self.first, self.lowest = number, violation, violation
        self.lowest = min(self.lowest, violation)
        if self.lowest <= tol:
            return 1.0
        if not math.isfinite(self.first) or self.first <= tol or self.lowest >= self.first:
            return 0.0
        return math.log(self.first / self.lowest) / math.log(self.first / tol)
