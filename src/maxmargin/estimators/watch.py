"""Between a solve and those who watch it: `verbose`, time limit, scikit-learn's callbacks."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np

_VERBOSE_SECONDS = 1.0


@contextmanager
def watched_task(estimator, context, interrupt, start, attributes_now, told):
    """A `Monitor` for one binary problem, which is one task in scikit-learn's callback tree.

    Parameters
    ----------
    context : callback context of the fit, None where there are no callbacks
    interrupt : the flag that Ctrl-C sets
    start : `time.perf_counter()` at the beginning of the fit
    attributes_now : (beta, intercept) → fitted attributes, for callbacks that want to predict
    told : X, y and metadata of the fit, for callbacks that want to score
    """
    from maxmargin.monitor import Monitor

    # Without callbacks nobody looks at the tree of tasks, and problems may be solved side by side,
    # which the tree is not made for.
    has_callbacks = estimator._has_callbacks()
    if has_callbacks:
        task = context.subcontext(task_name="binary problem", max_subtasks=None)
        task.call_on_fit_task_begin(estimator=estimator)
    last_line = -np.inf

    def on_progress(line, beta, intercept) -> bool:
        nonlocal last_line
        if estimator.verbose and line.seconds - last_line >= _VERBOSE_SECONDS:
            last_line = line.seconds
            print(
                f"[maxmargin] {line.seconds:7.1f} s  {line.n_iter} iterations  "
                f"violation {line.kkt_violation:.3g}  {line.n_support} support vectors",
                flush=True,
            )
        if not has_callbacks:
            return False
        step = task.subcontext(task_name="iterations")
        step.call_on_fit_task_begin(estimator=estimator)
        return step.call_on_fit_task_end(
            estimator=estimator,
            reconstruction_attributes=lambda: attributes_now(beta.copy(), intercept),
            **told,
        )

    limit = estimator.time_limit
    yield Monitor(
        max_iter=estimator.max_iter,
        deadline=None if limit is None else start + limit,
        interrupt=interrupt,
        on_progress=on_progress if has_callbacks or estimator.verbose else None,
    )
    if has_callbacks:
        task.call_on_fit_task_end(estimator=estimator)
