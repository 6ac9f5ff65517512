"""The observers and limits of a fit: `verbose`, time limit, Ctrl-C, scikit-learn's callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from maxmargin.monitor import VERBOSE_SECONDS, Interrupt, Monitor, Progress, Throttle
from maxmargin.sklearn_private import callback_context, has_callbacks


def state_of(line: Progress) -> str:
    """One line of progress in words."""
    parts = [
        f"{line.n_iter} iterations",
        f"violation {line.kkt_violation:.3g}",
        f"{line.n_support} support vectors",
    ]
    if line.n_settled:
        parts.append(f"{line.n_settled} rows settled")
    if np.isfinite(line.seconds_left):
        parts.append(f"about {line.seconds_left:.0f} s left")
    return "  ".join(parts)


class FitWatch:
    """The limits and observers of one fit; makes a `Monitor` per problem.

    Parameters
    ----------
    estimator : what is fitted, with its limits and callbacks
    n_problems : how many problems it has
    X, y, sample_weight : as passed to `fit`, for callbacks that want to score
    start : `time.perf_counter()` at the beginning of the fit
    attributes_now : (beta, intercept) → fitted attributes, for callbacks that want to predict

    Attributes
    ----------
    one_by_one : whether problems are solved one after the other, because they are observed
    """

    def __init__(
        self, estimator, n_problems: int, X, y, sample_weight, start: float,
        attributes_now: Callable[[np.ndarray, float], dict],
    ):  # fmt: skip
        self.estimator, self.start, self._attributes_now = estimator, start, attributes_now
        self.interrupt = Interrupt()
        self._callbacks = has_callbacks(estimator)
        self.one_by_one = bool(estimator.verbose or self._callbacks)
        self._n_problems = n_problems
        metadata = None if sample_weight is None else {"sample_weight": sample_weight}
        self._data = {"X": X, "y": y, "metadata": metadata}
        self._context: Any = None

    @contextmanager
    def fitting(self) -> Iterator[None]:
        """Notify callbacks of the beginning and the end of the fit."""
        if not self._callbacks:
            yield
            return
        self._context = callback_context(self.estimator, self._n_problems)
        self._context.call_on_fit_task_begin(estimator=self.estimator, **self._data)
        yield
        self._context.call_on_fit_task_end(
            estimator=self.estimator, reconstruction_attributes={}, **self._data
        )

    @contextmanager
    def problem(self, n_iter: int = 0) -> Iterator[Monitor]:
        """The monitor of one problem, which is one task in scikit-learn's callback tree.

        `n_iter` is how many of its iterations have been taken before.
        """
        estimator, task = self.estimator, None
        # Without callbacks the tree of tasks has no reader, and problems may be solved in
        # several threads, which the tree is not made for.
        if self._context is not None:
            task = self._context.subcontext(task_name="binary problem", max_subtasks=None)
            task.call_on_fit_task_begin(estimator=estimator)
        limit = estimator.time_limit
        yield Monitor(
            max_iter=estimator.max_iter if estimator.max_iter < 0 else estimator.max_iter - n_iter,
            deadline=None if limit is None else self.start + limit,
            interrupt=self.interrupt,
            on_progress=self._on_progress(task) if self.one_by_one else None,
            tol=estimator.tol,
        )
        if task is not None:
            task.call_on_fit_task_end(estimator=estimator)

    def _on_progress(self, task) -> Callable[[Progress, np.ndarray, float], bool]:
        estimator, line_is_due = self.estimator, Throttle(VERBOSE_SECONDS)

        def on_progress(line: Progress, beta: np.ndarray, intercept: float) -> bool:
            if estimator.verbose and line_is_due():
                print(f"[maxmargin] {line.seconds:7.1f} s  {state_of(line)}", flush=True)
            if task is None:
                return False
            step = task.subcontext(task_name="iterations")
            step.progress = line  # scikit-learn's hooks have no argument for it
            step.call_on_fit_task_begin(estimator=estimator)
            return step.call_on_fit_task_end(
                estimator=estimator,
                reconstruction_attributes=lambda: self._attributes_now(beta.copy(), intercept),
                **self._data,
            )

        return on_progress
