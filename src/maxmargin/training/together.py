"""All binary problems of a fit solved together, where they are small or easy enough.

Nothing here takes time in proportion to the number of problems but operations on arrays, in
which the answers stay; reports are made from them when somebody reads them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin import constants
from maxmargin.formulations import are_bounds, divisor_of
from maxmargin.kernels.budget import cache_bytes
from maxmargin.kernels.feature_matrix import has_few_features
from maxmargin.kernels.functions import BUILT_IN_KERNELS
from maxmargin.kernels.samples import are_dense
from maxmargin.parallel import resolve_n_jobs, session
from maxmargin.report import ProblemReport, ReportTable
from maxmargin.solution import Status
from maxmargin.solvers.auto import Auto
from maxmargin.solvers.pairs import (
    CONVERGED,
    HARD,
    STEP_LIMIT,
    Batch,
    BatchOutcome,
    solve_batch,
    worth_it,
)
from maxmargin.training.fit import Answers, warn_unless_converged
from maxmargin.training.kernels import card_matrix, kernel_matrix

if TYPE_CHECKING:
    from maxmargin.solvers.sweeps import Sweeps
    from maxmargin.training.local import LocalSource
    from maxmargin.training.watch import FitWatch

# What reports say of these problems, by who solves them: the processor, or a GPU.
_SOLVERS = ("pairs", "sweeps")
_STATUSES = (
    Status.CONVERGED,
    Status.MAX_ITER,
    Status.TIME_LIMIT,
    Status.INTERRUPTED,
    Status.STALLED,
)
_FROM_HARD = ("n_iter", "n_support", "n_bounded", "objective", "duality_gap", "kkt_violation")


def solve_together(
    source: LocalSource, solver, watch: FitWatch, seed: int, on_card: Sweeps | None = None
) -> Answers | None:
    """The answers to all problems of a fit; None where they are better solved one by one.

    `on_card` is the solver of a fit on a GPU, else None.
    """
    estimator, data = source.estimator, source.data
    layout = estimator._layout(data)
    if layout is None or watch.one_by_one or (on_card is None and type(solver) is not Auto):
        return None
    order, bounds, problems = layout
    wide, at_once = _worth_products(data.X, estimator.kernel)
    batch = Batch(
        problems, bounds, data.codes[order], data.costs[order], len(bounds) > 2,
        tol=float(estimator.tol), max_iter=int(estimator.max_iter),
        refine=len(order) <= constants.REFINED_SAMPLES,
        few_features=has_few_features(data.X, estimator.kernel),
        wide=wide,
        at_once=at_once,
        narrow=_is_narrow(data.X, estimator.kernel),
        nu=float(estimator.nu) if estimator._formulation == "nu_svc" else None,
    )  # fmt: skip
    if batch.nu is not None:
        _check_nu(batch, batch.nu, source)
    memory = cache_bytes(estimator.cache_size, data.n)
    with session(resolve_n_jobs(estimator.n_jobs)), watch.problem() as monitor:
        if not (worth_it(batch, memory) if on_card is None else on_card.solves_together(batch)):
            return None
        if on_card is None:
            kernel = _kernel_in_order(source, order, memory)
        else:
            kernel = card_matrix(estimator, data, source.gamma).restrict(order)
        if not are_bounds(batch.costs, float(np.abs(kernel.diagonal()).max())):
            return None  # a hard margin, for which c_svc finds the bounds of each problem
        start = estimator._start_of_all(data, order, len(problems))

        def stopped() -> bool:
            return monitor.should_stop(0) is not None

        if on_card is None:
            found = solve_batch(batch, kernel, memory, stopped, start)
        else:
            found = on_card.solve_together(batch, kernel, stopped, start)
        reason = monitor.should_stop(0)
    if found is None:
        return None
    kind = _Answered if batch.nu is None else _NuAnswered
    answered = kind(source, batch, order, found, reason, on_card is not None)
    answered.solve_hard(solver, watch, seed)
    answered.warn()
    return answered.answers()


def _worth_products(X, kernel) -> tuple[bool, bool]:
    """`wide` and `at_once` of a `Batch`: what large products save over products row by row.

    Of sparse samples the values of a linear kernel are worth computing all only where they do
    not have a low rank, which faster steps would make use of.
    """
    if kernel not in BUILT_IN_KERNELS or X.shape[1] < constants.FEATURES_WORTH_PRODUCTS:
        return False, False
    n, n_features = X.shape
    wide = isinstance(X, np.ndarray) and are_dense(X, kernel == "rbf")
    return wide, wide or kernel != "linear" or n_features >= n


def _is_narrow(X, kernel) -> bool:
    """`narrow` of a `Batch`; of a linear kernel the interior-point method counts on all values."""
    if kernel not in BUILT_IN_KERNELS or kernel == "linear":
        return False
    return isinstance(X, np.ndarray) and X.shape[1] <= constants.FEATURES_OF_CHEAP_ROWS


def _check_nu(batch: Batch, nu: float, source: LocalSource) -> None:
    """Raise the sentence of the first problem for which ν is too large."""
    sums = np.add.reduceat(batch.costs, batch.bounds[:-1])
    first, second = sums[batch.problems[:, 1]], sums[batch.problems[:, 2]]
    infeasible = 0.5 * nu * (first + second) > np.minimum(first, second)
    for number in np.flatnonzero(infeasible).tolist():  # or not, where that is mere rounding
        source.tasks[number].formulate(source.data, 1.0)


def _kernel_in_order(source: LocalSource, order: np.ndarray, memory: int):
    """The kernel matrix of the samples in the order of the batch, in float64."""
    estimator, X = source.estimator, source.data.X
    if len(order) == source.data.n and (order[1:] > order[:-1]).all():
        return kernel_matrix(estimator, X, source.gamma, memory, np.float64)
    if estimator.kernel in BUILT_IN_KERNELS:
        return kernel_matrix(estimator, X[order], source.gamma, memory, np.float64)
    return kernel_matrix(estimator, X, source.gamma, memory, np.float64).restrict(order)


class _Answered:
    """The outcome of a batch on its way to fitted attributes and reports."""

    def __init__(
        self, source: LocalSource, batch: Batch, order: np.ndarray, found: BatchOutcome, reason,
        on_card: bool,
    ):  # fmt: skip
        self._source, self._batch, self._order, self._found = source, batch, order, found
        self._on_card = on_card
        # Numbers of `_STATUSES`.
        self._status = np.zeros(len(found.status), np.int8)
        self._status[found.status == STEP_LIMIT] = _STATUSES.index(Status.MAX_ITER)
        late = found.stopped & (found.status != 0)
        self._status[late] = _STATUSES.index(reason or Status.TIME_LIMIT)
        self._hard: list[int] = np.flatnonzero((found.status == HARD) & ~late).tolist()
        self._reports: dict[int, ProblemReport] = {}

    def _decision_functions(self, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients of some samples in all problems, and the intercepts."""
        return self._found.coefficients[:, used], self._found.intercept.copy()

    def _quantities(self) -> dict[str, np.ndarray]:
        """The figures of the formulation, of each problem."""
        return {}

    def solve_hard(self, solver, watch, seed: int) -> None:
        """Solve the hard problems one by one, from where the batch left them."""
        if len(self._hard) == 0:
            return
        source, batch, found = self._source, self._batch, self._found
        column = np.zeros(source.data.n, np.int64)
        column[self._order] = np.arange(batch.n)
        tasks = [source.tasks[number] for number in self._hard]
        places = [
            batch.places(number, column[task.index])
            for number, task in zip(self._hard, tasks, strict=True)
        ]
        begun = [
            (found.coefficients[place], int(found.n_iter[number]))
            for number, place in zip(self._hard, places, strict=True)
        ]
        rest = type(source)(source.estimator, source.data, tasks, source.gamma)
        outcomes = rest.outcomes(solver, watch, seed, begun)
        for number, task, place, outcome in zip(self._hard, tasks, places, outcomes, strict=True):
            found.coefficients[place], found.intercept[number] = task.answer(outcome)
            steps = int(found.n_iter[number])
            report = replace(
                outcome,
                n_iter=outcome.n_iter + steps,
                kernel_evaluations=outcome.kernel_evaluations + int(found.evaluations[number]),
                seconds=outcome.seconds + float(found.seconds[number]),
                details=outcome.details | {"pair_steps": steps},
            ).report(task.name(source.data), task.quantities(outcome))
            self._reports[number] = report
            warn_unless_converged(source.estimator, outcome.status, outcome.details)
            self._status[number] = _STATUSES.index(outcome.status)
            for name in _FROM_HARD:
                getattr(found, name)[number] = getattr(report, name)
            found.evaluations[number], found.seconds[number] = (
                report.kernel_evaluations, report.seconds,
            )  # fmt: skip

    def warn(self) -> None:
        """One sentence for each way in which problems of the batch did not end at the optimum."""
        if not self._status.any():
            return
        easy = np.ones(len(self._status), bool)
        easy[self._hard] = False
        for number in np.unique(self._status[easy]):
            warn_unless_converged(self._source.estimator, _STATUSES[number], {})

    def answers(self) -> Answers:
        source, batch, found = self._source, self._batch, self._found
        used = np.flatnonzero((found.coefficients != 0).any(axis=0))
        used = used[np.argsort(batch.codes[used], kind="stable")]
        n_support = np.bincount(batch.codes[used], minlength=len(source.data.classes))
        attributes = source.estimator._merged(
            source.data, self._order[used], n_support.astype(np.int32),
            *self._decision_functions(used), source.gamma,
        )  # fmt: skip
        return Answers(attributes, found.n_iter.astype(np.int32), [None], self._table())

    def _table(self) -> ReportTable:
        found, batch, source = self._found, self._batch, self._source
        n, whole = len(found.status), np.int32
        second = batch.problems[:, 2] if batch.by_pair else np.full(n, 1 if n == 1 else -1)
        return ReportTable(
            labels=source.data.classes,
            first=batch.problems[:, 0].astype(whole),
            second=second.astype(whole),
            statuses=[str(status) for status in _STATUSES],
            status=self._status,
            columns={
                "seconds": found.seconds,
                "n_iter": found.n_iter.astype(whole),
                "kernel_evaluations": found.evaluations,
                "n_samples": batch.sizes.astype(whole),
                "n_support": found.n_support.astype(whole),
                "n_bounded": found.n_bounded.astype(whole),
                "objective": found.objective,
                "duality_gap": found.duality_gap,
                "kkt_violation": found.kkt_violation,
            },
            same={
                "solver": _SOLVERS[self._on_card],
                "reason": _reason(n, len(self._order), self._on_card),
                "exact": True,
            },
            others=self._reports,
            quantities=self._quantities(),
        )


class _NuAnswered(_Answered):
    """The same of ν-SVCs, whose decision functions are divided by ρ."""

    def warn(self):
        super().warn()
        found, tasks = self._found, self._source.tasks
        without = (found.status == CONVERGED) & ~(found.rho > found.kkt_violation)
        for number in np.flatnonzero(without).tolist():
            tasks[number].warn_without_margin(found.rho[number], found.kkt_violation[number])

    def _decision_functions(self, used):
        batch, found = self._batch, self._found
        divisor = divisor_of(found.rho, found.kkt_violation)
        divisor[self._hard] = 1.0  # theirs are divided
        # Row r of the coefficients of class i belongs to class r, or to class r + 1 from i on.
        _, g, h = batch.problems.T
        of_row = np.ones((batch.shape[0], len(batch.bounds) - 1))
        of_row[h - 1, g], of_row[g, h] = divisor, divisor
        coefficients, intercept = super()._decision_functions(used)
        return coefficients / of_row[:, batch.codes[used]], intercept / divisor

    def _quantities(self):
        rho = self._found.rho
        C = np.divide(1.0, rho, out=np.full(len(rho), np.inf), where=rho > 0)
        return {"nu": np.full(len(rho), self._batch.nu), "rho": rho, "C": C}


def _reason(n_problems: int, n_samples: int, on_card: bool) -> str:
    if n_problems == 1:
        return f"one problem of {n_samples} samples, in compiled code"
    how = "on the GPU" if on_card else "in compiled code"
    return f"{n_problems} problems over {n_samples} samples, solved together {how}"
