"""Samples in the memory of this process, and the problems that are solved on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from maxmargin import constants
from maxmargin.kernels.budget import cache_bytes
from maxmargin.optimality import NOT_FINITE
from maxmargin.parallel import n_threads, resolve_n_jobs, session, stream_concurrently
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solvers.base import Solver
from maxmargin.training.boundary import Outcome, solve_certified, violation_within
from maxmargin.training.device import solver_on_card
from maxmargin.training.fit import TrainingSource
from maxmargin.training.kernels import kernels_of_tasks
from maxmargin.training.together import solve_together
from maxmargin.training.watch import FitWatch

if TYPE_CHECKING:
    from maxmargin.solvers.sweeps import Sweeps

# Problems of up to this many samples take less time than handing them to another thread.
_WORTH_A_THREAD = 384
# Problems that one task may take: a formulation with ν has two, and may return to the first.
_ATTEMPTS = 8


class LocalSource(TrainingSource):
    """Arrays of this process.

    Parameters
    ----------
    estimator : has the parameters of the kernel, and turns answers into fitted attributes
    data : validated training data
    tasks : the problems: which samples each has, and its formulation
    gamma : the number behind the estimator's gamma
    """

    def __init__(self, estimator, data, tasks: Sequence, gamma: float):
        self.estimator, self.data, self.tasks, self.gamma = estimator, data, tasks, gamma

    @property
    def names(self) -> list[str]:
        return [task.name(self.data) for task in self.tasks]

    def reports(self, outcomes):
        return [
            outcome.report(task.name(self.data), task.quantities(outcome))
            for task, outcome in zip(self.tasks, outcomes, strict=True)
        ]

    def attributes(self, outcomes):
        answers = self._answers(outcomes)
        return self.estimator._assemble(self.data, self.tasks, answers, self.gamma)

    def now(self, outcomes, beta, intercept):
        answers = self._answers(outcomes)
        answers.append((beta, intercept))
        return self.estimator._assemble(self.data, self.tasks, answers, self.gamma)

    @property
    def n_problems(self):
        return len(self.tasks)

    def together(self, solver, watch, seed):
        return solve_together(self, solver, watch, seed, self._solver_on_card(solver))

    def _answers(self, outcomes):
        return [task.answer(outcome) for task, outcome in zip(self.tasks, outcomes, strict=False)]

    def _solver_on_card(self, solver: Solver) -> Sweeps | None:
        """The solver of this fit on a GPU; None where the processor does it."""
        if self.estimator.device == "cpu":
            return None
        largest = max(len(task.index) for task in self.tasks)
        return solver_on_card(self.estimator, solver, largest)

    def outcomes(
        self, solver: Solver, watch: FitWatch, seed: int, begun: Sequence | None = None
    ) -> Iterator[Outcome]:
        """`begun` are β and iterations of problems that have been begun, where they have."""
        estimator = self.estimator
        if begun is None:
            begun = [(start, 0) for start in estimator._starts(self.data, self.tasks)]
        starts = [start for start, _ in begun]
        on_card = self._solver_on_card(solver)
        solver = on_card or solver
        with session(resolve_n_jobs(estimator.n_jobs)):
            thread_safe = solver.capabilities.thread_safe
            concurrent = thread_safe and not watch.one_by_one and self._worth_threads()
            batch = self.problems(
                starts, seed, n_threads() if concurrent else 1,
                only_values=not solver.capabilities.uses_features and thread_safe,
                on_card=on_card is not None,
            )  # fmt: skip
            with solver.prepare_batch(batch) as (working, prepared):
                in_turn = stream_concurrently if concurrent else map
                items = zip(self.tasks, prepared, begun, strict=True)
                yield from in_turn(partial(self._outcome, working, watch), items)

    def _outcome(self, solver: Solver, watch: FitWatch, item: tuple) -> Outcome:
        """Solve the problem of one task; its outcome in terms of the formulation and the fit."""
        task, (problem, run), (_, n_iter) = item
        with watch.problem(n_iter) as monitor:
            run = replace(run, monitor=monitor, start_steps=n_iter)
            outcome = _solve(solver, task, problem, run)
        beyond = task.n_beyond_bounds(self.data, outcome.beta, problem.kernel.scale)
        if beyond:
            bounds = task.requested_bounds(self.data, problem)
            violation = violation_within(problem, outcome.beta, *bounds)
            outcome = outcome.not_separable(beyond, violation)
        stages = outcome.stages
        if stages is not None:  # numbers of samples in the problem become those in the fit
            stages = replace(stages, samples=task.index[stages.samples])
            outcome = replace(outcome, stages=stages)
        return outcome

    def problems(
        self,
        starts: list,
        seed: int = 0,
        shares: int = 1,
        only_values: bool = False,
        on_card: bool = False,
    ) -> Iterator[tuple[Problem, Run]]:
        """The problem of each task, made when its turn comes; they share the kernel matrix.

        The memory is divided into `shares` for as many problems at the same time.
        `only_values` says that the solver wants nothing of the data but kernel values, `on_card`
        that they are to be on a GPU.
        """
        estimator, data = self.estimator, self.data
        memory = cache_bytes(estimator.cache_size, data.n)
        few = data.n <= constants.REFINED_SAMPLES
        kernels = kernels_of_tasks(
            estimator, data, self.tasks, self.gamma, memory, only_values, on_card
        )
        for task, kernel, beta in zip(self.tasks, kernels, starts, strict=True):
            # A small problem of a larger fit is solved to tol, like the rest of it.
            refine = few or len(task.index) > constants.REFINED_SAMPLES
            run = Run(
                tol=estimator.tol, cache_bytes=memory // shares, start=beta, random_state=seed,
                refine=refine, lower_tol=task.lower_tol,
            )  # fmt: skip
            scale = kernel.scale
            if not np.isfinite(scale):
                raise ValueError(NOT_FINITE)
            yield Problem(kernel, **task.formulate(data, scale)), run

    def _worth_threads(self) -> bool:
        """Whether many problems are better solved on one thread each.

        They are if each has memory for its kernel matrix, and takes longer than waking a thread.
        """
        if not 1 < n_threads() <= len(self.tasks):
            return False
        largest = max(len(task.index) for task in self.tasks)
        if largest <= _WORTH_A_THREAD:
            return False
        return 8 * largest**2 * n_threads() <= cache_bytes(self.estimator.cache_size, largest)


def _solve(solver: Solver, task, problem: Problem, run: Run) -> Outcome:
    """The answer to a task, whose formulation may take more than one problem."""
    n_iter, tol = 0, run.tol
    taken: list[str] = []  # what the first problem needed may spare the second one any step
    for _ in range(_ATTEMPTS):
        outcome = task.judged(problem, solve_certified(solver, problem, run), tol)
        n_iter += outcome.n_iter
        taken += outcome.details.get("second_order", [])
        following = task.follow_up(problem, outcome, run, tol)
        if following is None:
            break
        problem, run = following
    details = outcome.details | ({"second_order": taken} if taken else {})
    return replace(outcome, n_iter=n_iter, details=details)
