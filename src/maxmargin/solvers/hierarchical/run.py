"""The steps of the hierarchical method, for any place of the samples and any executor."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.execution.executors import Executor, wait_for_any
from maxmargin.monitor import Monitor
from maxmargin.solution import STOPPED, Status
from maxmargin.solvers.base import Solver
from maxmargin.solvers.hierarchical.subproblem import Support, Task, solve_union

if TYPE_CHECKING:
    from maxmargin.solvers.hierarchical.solver import HierarchicalSVM

# Rounds of readmission without a better certificate before it counts as stuck.
_PATIENCE = 3
# A subproblem with readmitted samples is solved to this part of the violation. Where all samples
# violate at most this many times the tolerance of the subproblem, no sample was lost.
_CLOSER = 0.1
_COMPLETE = 10.0
# A method that yields futures, is sent their results, and returns a value.
TaskGenerator = Generator[Any, Any, Any]


@dataclass(frozen=True, eq=False)
class Check:
    """What all samples together say of an answer.

    Attributes
    ----------
    violation, objective, intercept, gap : of the whole problem, in float64
    n_violators : samples to readmit
    """

    violation: float
    objective: float
    intercept: float
    gap: float
    n_violators: int


class HierarchicalRun(ABC):
    """One problem's path through the steps: a generator that waits for one future at a time.

    Attributes
    ----------
    samples, number : handle of the `Samples` of the fit, and which of its problems this is
    size : samples of the problem; the largest is served first
    awaited : the future whose result it needs next
    events : the subproblems solved so far, in the order of submission
    support : the present answer
    check : its examination by all samples
    tol_now : the KKT violation to which the next subproblem is solved
    screening_radius : samples within this distance of their margin are examined: the last
        violation
    """

    support: Support
    check: Check

    def __init__(
        self, options: HierarchicalSVM, executor: Executor, samples, number: int, size: int,
        tol: float, limits: dict, scale: float = 1.0,
    ):  # fmt: skip
        self.options, self.executor, self.tol = options, executor, tol
        self.filter_tol = scale * options.filter_tol
        self.tol_now = max(tol, _CLOSER * self.filter_tol) if options.certify else tol
        self.samples, self.number, self.size = samples, number, size
        self.base: Solver = options.base_solver()
        self.limits = limits
        self.screening_radius = np.inf
        self.events: list[Support] = []
        self.n_iter = self.evaluations = self.rounds = self.readmitted = 0
        self.chain = 0.0
        self.steps: dict[str, list[int]] = {}
        self.seconds: dict[str, list[float]] = {}
        self.finished = False
        self.stopped_by: Status | None = None
        self._generator = self._run()
        self.awaited: Any = None

    @abstractmethod
    def known(self) -> list:
        """Support vectors of the last fit, or nothing."""

    @abstractmethod
    def first_step(self) -> tuple[list, list[list]]:
        """Futures of the first step, and which of them each subproblem of the second takes."""

    @abstractmethod
    def examine(self, step: str, answer, provisional: bool) -> TaskGenerator:
        """Count the answer of a step (a future), and return a `Check` of it: by all samples in
        float64, unless it is provisional and was not stopped.

        A provisional answer is examined by samples with β = 0 alone, and only by samples that the
        last examination found within `screening_radius` of their margin, or beyond it.
        """

    @abstractmethod
    def readmit(self, answer):
        """A future of the subproblem of an answer and the violators of its examination."""

    def combined_violation(self, highest: float, lowest: float) -> float:
        """The violation by samples with β = 0, which have these extremes, and by the answer's."""
        own, middle = 0.5 * self.support.violation, self.support.intercept
        return max(highest, middle + own) - min(lowest, middle - own)

    def summary(self, answer):
        """A future of the part of an answer that the client needs."""
        return answer

    def summaries_of_first(self, answers: list) -> TaskGenerator:
        """The parts of the answers of the first step that the client needs."""
        found = []
        for answer in answers:
            found.append((yield self.summary(answer)))
        return found

    def begin(self) -> None:
        self.awaited = next(self._generator)

    def advance(self) -> None:
        try:
            while self.awaited.done():
                self.awaited = self._generator.send(self.awaited.result())
        except StopIteration:
            self.finished = True

    def task(self, step: str, **others) -> Task:
        """How a subproblem is solved; subproblems of the first steps only choose samples."""
        chooses = step.startswith("step")
        tol = max(self.filter_tol, self.tol) if chooses else self.tol_now
        memory = 1 / self.executor.max_concurrent if chooses else 1.0
        # A single pass is approximate, so that there is no point in an exact last subproblem.
        others = {"refine": self.options.certify} | others
        return Task(
            self.base, self.number, tol, tol > self.tol, memory=memory, **(self.limits | others)
        )

    def iterations(self, part: float) -> dict:
        """The limit on iterations of a subproblem that has this part of the samples."""
        limit = self.limits["max_iter"]
        return {"max_iter": limit if limit < 0 else int(limit * part)}

    def solve(self, parts: list, step: str, **others):
        """A future of the subproblem of these parts."""
        task = self.task(step, **others)
        wide = not step.startswith("step")
        return self.submit(solve_union, self.samples, parts, task, name=step, wide=wide)

    def submit(self, function: Callable, *arguments, name: str, **others):
        """A task of this run, as its executor takes it."""
        return self.executor.submit(
            function, *arguments, name=f"maxmargin-{name}", priority=self.size, **others
        )

    def _run(self) -> TaskGenerator:
        """The steps, and then readmissions until the answer is optimal to `tol`.

        Until the samples that the steps lost are readmitted, a provisional answer suffices.
        """
        step, answer = "union", (yield from self._steps())
        best, failures = np.inf, 0
        while True:
            self.check = yield from self.examine(step, answer, self.tol_now > self.tol)
            provisional = self.tol_now > self.tol and self.support.status not in STOPPED
            self.screening_radius = self.check.violation
            self._report_check()
            failures = failures + 1 if self.check.violation >= best else 0
            best = min(best, self.check.violation)
            stuck = failures > _PATIENCE or (failures > 0 and self.check.n_violators == 0)
            stopped = self.support.status in STOPPED
            if not provisional and (self.optimal or stuck or stopped or not self.options.certify):
                break
            if provisional and stuck:  # only a better answer to the same samples can help
                self.tol_now, best, failures = self.tol, np.inf, 0
            self.tol_now = max(self.tol, self._next_tol())
            self.rounds += 1
            self.readmitted += self.check.n_violators
            step, answer = "readmission", self.readmit(answer)
        self.support = yield answer

    def _next_tol(self) -> float:
        """The tolerance of the next subproblem: no finer than the violation of missing samples."""
        if self.check.violation <= _COMPLETE * self.tol_now:
            return self.tol
        return min(self.tol_now, _CLOSER * self.check.violation)

    def _steps(self) -> TaskGenerator:
        """Section 2: the subproblems of the parts, their combination, the union, a future."""
        known = self.known()
        if known:
            last = self.solve(known, "union")
        else:
            first, groups = self.first_step()
            second = first
            if 1 < len(groups) < len(first):
                second = [
                    self.solve(group, "step-2", **self.iterations(len(group) / len(first)))
                    for group in groups
                ]
            if len(first) == 1:
                return first[0]
            # Where every subproblem had all parts of a class, its β counts for a share.
            last = self.solve(second, "union", share=1 / self.overlap(len(second)))
            for support in (yield from self.summaries_of_first(first)):
                self.add("first", support)
            for future in second if second is not first else []:
                yield from self.count("second", future)
        return last

    @abstractmethod
    def overlap(self, n_parts: int) -> float:
        """The number of parts of the last subproblem that a sample is in."""

    @property
    def optimal(self) -> bool:
        return self.check.violation <= self.tol

    @property
    def status(self) -> Status:
        if self.optimal:
            return Status.CONVERGED
        status = self.support.status
        if status in STOPPED or not self.options.certify:
            # Tasks are asked to stop in one way, whatever the reason.
            return self.stopped_by or status if status is Status.INTERRUPTED else status
        return Status.STALLED

    def count(self, step: str, answer) -> TaskGenerator:
        self.add(step, (yield self.summary(answer)))

    def add(self, step: str, support: Support) -> None:
        self.n_iter += support.n_iter
        self.evaluations += support.evaluations
        self.steps.setdefault(step, []).append(support.n_samples)
        self.seconds.setdefault(step, []).append(support.seconds)
        self.chain = max(self.chain, support.chain)
        self.support = support
        self.events.append(replace(support, n_iter=self.n_iter))

    def _report_check(self) -> None:
        now = self.check
        self.events.append(
            replace(
                self.support, violation=now.violation, objective=now.objective,
                intercept=now.intercept, n_iter=self.n_iter,
            )
        )  # fmt: skip

    def details(self) -> dict:
        """What the report adds for this method."""
        return {
            "base": self.base.name,
            "optimal": self.optimal,
            "n_samples_by_step": self.steps,
            "seconds_by_step": self.seconds,
            "seconds_longest_chain": self.chain,
            "rounds_of_readmission": self.rounds,
            "readmitted": self.readmitted,
        }


def limits_of(monitor: Monitor, executor: Executor) -> dict:
    """The limits of a fit in a form that travels."""
    left = None if monitor.deadline is None else monitor.deadline - time.perf_counter()
    return {
        "max_iter": monitor.max_iter,
        "deadline": None if left is None else time.time() + left,
        "stop": executor.stop_flag,
    }


def run_until_done(
    hierarchical: HierarchicalRun,
    runs: list[HierarchicalRun],
    executor: Executor,
    monitor: Monitor,
    report: Callable[[Support], Status | None],
) -> None:
    """Let all runs go on until one is finished, and report its events."""
    reported = 0
    while not hierarchical.finished or reported < len(hierarchical.events):
        waiting = [other for other in runs if not other.finished]
        if not hierarchical.finished:
            wait_for_any([other.awaited for other in waiting])
        for other in waiting:
            other.advance()
        executor.flush()
        for event in hierarchical.events[reported:]:
            reported += 1
            _stop(report(event), runs, executor)
        _stop(monitor.should_stop(0), runs, executor)


def _stop(reason: Status | None, runs: list[HierarchicalRun], executor: Executor) -> None:
    """Ask all tasks to stop if there is a reason to.

    The limit on iterations is for each problem, and its own tasks keep it.
    """
    if reason is None or reason is Status.MAX_ITER:
        return
    for hierarchical in runs:
        hierarchical.stopped_by = hierarchical.stopped_by or reason
    executor.request_stop()
