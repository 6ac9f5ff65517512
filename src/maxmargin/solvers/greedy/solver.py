"""GS-SVM: the hard-margin dual, approached one support vector at a time."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from maxmargin.monitor import WORK_PER_CALL
from maxmargin.optimality import Certificate
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Stages, Status
from maxmargin.solvers.base import Capabilities, Solver
from maxmargin.solvers.greedy.rows import row_source
from maxmargin.solvers.greedy.steps import (
    FINISHED,
    ROW_MISSING,
    best_candidate,
    coordinate_sweeps,
)

# A residual up to this is the rounding of float32 kernel values, not a reason for a step.
_ROUNDING_OF_RESIDUAL = 1e-6
# Kernel values up to which a certificate is cheap (a fraction of a second).
_CHEAP_CERTIFICATE = 2**25
# Sweeps of coordinate descent of one backfitting.
_MAX_SWEEPS = 1000


class GreedyStagewise(Solver):
    """Greedy stagewise training without a capacity parameter (Bo, Wang and Jiao).

    The hard-margin dual, ½βᵀKβ − yᵀβ with yβ ≥ 0 and no other constraint (equation
    1), is lowered by one sample per step: the one whose own best coefficient lowers
    it most. No coefficient is changed again, and training ends when no unused
    sample could lower the objective. C and weights have no meaning here.

    The report's `objective` is that of equation (1), its `kkt_violation` the largest
    ``|1 − y f(x)|`` of a support vector and 1 − y f(x) of any other sample, and its
    `duality_gap` the distance to the primal ½‖f‖² of f scaled to margin 1 (infinite
    where f does not separate the training samples). They take n_SV·n further kernel
    values, and are not computed (nan) where that is more than 2²⁵.

    Parameters
    ----------
    intercept : bool
        Whether f has a constant. It is that of the kernel K + 1, for which the
        algorithm holds unchanged: b = Σβ.
    max_support : int or None
        Stop at this many support vectors.
    validation : float
        Share of each class to hold out. The result is the model of the path with the
        lowest error on the held-out samples, the smallest of several. (To stop at the
        first rise of the error would be wrong: it goes up and down to the last steps.)
    backfit : bool
        Whether to optimise all coefficients chosen so far, whenever their number
        has doubled and at the end (matching pursuit with backfitting). Without
        `max_support` this ends at the hard-margin SVM itself.
    panel : int or None
        None computes the rows of built-in kernels one at a time in compiled code, from
        a copy of X stored feature by feature, and stores no row. A number is the largest
        number of rows of one product: the row of the chosen sample and the rows of the
        next best, kept in the cache until they are chosen. The steps are the same, but
        rows that are never chosen cost kernel values too; panels become narrower while
        fewer than half are chosen. With 1 only chosen rows are computed, and two of them
        stored. For other kernels, and X of more than 256 MB, None means 64 where half of
        the rows fit the cache and 1 GB, else 1.
    """

    name = "greedy"
    capabilities = Capabilities(exact=False, box=False)

    def __init__(
        self,
        intercept: bool = False,
        max_support: int | None = None,
        validation: float = 0.0,
        backfit: bool = False,
        panel: int | None = None,
    ):
        for option, value in (("max_support", max_support), ("panel", panel)):
            if value is not None and not (isinstance(value, Integral) and value >= 1):
                raise ValueError(f"{option} must be a whole number from 1 or None, got {value!r}.")
        if not 0.0 <= validation < 1.0:
            raise ValueError(f"validation must be in [0, 1), got {validation!r}.")
        if validation and backfit:
            raise ValueError(
                "validation chooses one of the models on the way, which backfit=True does not "
                "keep: use one of them."
            )
        self.intercept = intercept
        self.max_support = max_support
        self.validation = validation
        self.backfit = backfit
        self.panel = panel

    def solve(self, problem: Problem, run: Run) -> Solution:
        before = problem.kernel.evaluations
        greedy = _GreedyRun(problem, run, self)
        status = greedy.until_finished()
        greedy.cut_at_best()
        certificate = greedy.certificate(problem.kernel.evaluations - before)
        return Solution(
            greedy.beta, certificate.intercept, status, greedy.n_iter,
            certificate=certificate, details=greedy.details, stages=greedy.stages(),
        )  # fmt: skip


class _GreedyRun:
    """The state of one solve: β of all samples, and arrays of the active ones.

    Active are the unused samples (the set Q of the paper), the held-out samples, and for a
    while the used ones, whose `scale` is 0.
    """

    def __init__(self, problem: Problem, run: Run, options: GreedyStagewise):
        self.problem, self.run, self.monitor, self.options = problem, run, run.monitor, options
        self.constant = 1.0 if options.intercept else 0.0
        self.threshold = run.tol if options.backfit else _ROUNDING_OF_RESIDUAL
        self.rows = row_source(problem, run.cache_bytes, options.panel)
        self.limit = problem.n if options.max_support is None else options.max_support
        self.held_out = _held_out(problem, run.random_state, options.validation)
        self.n_iter = self.values_needed = 0
        self.decreases: list[float] = []
        self.order: list[int] = []
        self.errors: list[int] = []
        self.details: dict = {}
        self._start()

    @property
    def objective(self) -> float:
        """½βᵀKβ − yᵀβ, from the decrease of each step."""
        return -sum(self.decreases)

    def _start(self) -> None:
        """β and residual of zero, or of the start: its support vectors count as chosen."""
        problem, signs = self.problem, self.problem.linear
        self.beta = np.zeros(problem.n)
        self.residual = signs.copy()
        diagonal = problem.kernel.diagonal() + self.constant
        # A sample without a norm in feature space cannot change f.
        positive = diagonal > 0
        self.scale = np.zeros(problem.n)
        self.scale[positive] = signs[positive] / np.sqrt(diagonal[positive])
        self.scale[self.held_out] = 0.0
        start = self.run.start
        if start is not None:
            self.beta = np.where((signs * start > 0) & (self.scale != 0), start, 0)
            used = np.flatnonzero(self.beta)
            self.residual -= problem.kernel.multiply(used, self.beta[used], precise=True)
            self.residual -= self.constant * self.beta.sum()
            self.decreases = [0.5 * float(self.beta @ (signs + self.residual))]
            self.order = used.tolist()
            self.errors = [len(self.held_out) + 1] * len(used)
            self.scale[used] = 0.0
        self.active = np.arange(problem.n)

    def until_finished(self) -> Status:
        """Steps until the paper's rule or a limit says stop; backfitting in between, if asked."""
        refit_at = 2
        while True:
            limit = min(self.limit, refit_at) if self.options.backfit else self.limit
            stop, finished = self._steps(limit)
            if self.options.backfit and self.order:
                stop = self._backfit() or stop
                refit_at = 2 * len(self.order)
            if stop is not None:
                return stop
            if len(self.order) >= self.limit or (finished and not self._violated()):
                return Status.CONVERGED

    def _violated(self) -> bool:
        best = best_candidate(self.residual, self.scale)
        return self.options.backfit and self.residual[best] * self.scale[best] > self.threshold

    def _steps(self, limit: int) -> tuple[Status | None, bool]:
        """Greedy steps to `limit` support vectors: the reason to stop early, and whether there
        is no further candidate."""
        while len(self.order) < limit:
            allowed = min(limit - len(self.order), self.monitor.iterations_left(self.n_iter))
            outcome, best = self._call(min(allowed, self.rows.steps_per_call(len(self.active))))
            if outcome == FINISHED:
                return None, True
            score = self.residual[best] * self.scale[best]
            sample = self.active[best]
            self._drop_used()
            if outcome == ROW_MISSING:
                self._fetch(sample)
            stop = self._watch(score)
            if stop is not None:
                return stop, False
        return None, False

    def _call(self, limit: int) -> tuple[int, int]:
        chosen, errors = np.empty(limit, np.int64), np.empty(limit, np.int64)
        coefficients, decreases = np.empty(limit), np.empty(limit)
        state = (
            self.residual, self.scale, self.constant, self.threshold, limit, chosen, coefficients,
            decreases, np.searchsorted(self.active, self.held_out),
            self.problem.linear[self.active], errors,
        )  # fmt: skip
        outcome, steps, best = self.rows.steps(state)
        samples = self.active[chosen[:steps]]
        self.beta[samples] = coefficients[:steps]
        self.decreases += decreases[:steps].tolist()
        # Step m of the paper needs the kernel values of the n − m samples that are still unused.
        unused = self.problem.n - len(self.order)
        self.values_needed += steps * unused - steps * (steps + 1) // 2
        self.n_iter += steps
        self.order += samples.tolist()
        self.errors += errors[:steps].tolist()
        return outcome, best

    def _drop_used(self) -> None:
        """Leave used samples out of the kernel rows, once they are many."""
        kept = self.scale != 0.0
        kept[np.searchsorted(self.active, self.held_out)] = True
        n_used = len(kept) - np.count_nonzero(kept)
        if n_used <= self.rows.used_share * len(kept) or n_used == len(kept):
            return
        kept = np.flatnonzero(kept)
        self.rows.restrict(kept)
        self.active = self.active[kept]
        self.residual, self.scale = self.residual[kept], self.scale[kept]

    def _fetch(self, best: int) -> None:
        """A row that is missing, where rows come in panels."""
        position = int(np.searchsorted(self.active, best))
        score = np.where(self.residual * self.scale > self.threshold, self.residual * self.scale, 0)
        score[position] = np.inf  # among samples of equal score, this one is next
        self.rows.fetch(position, score, self.scale > 0, len(self.order))

    def _backfit(self) -> Status | None:
        """Optimise the coefficients of all chosen samples: equation (1) on them alone."""
        problem, support = self.problem, np.array(self.order)
        needed = 8 * len(support) ** 2
        if needed > self.run.cache_bytes:
            raise ValueError(
                f"backfit=True needs the kernel matrix of the {len(support)} support vectors, "
                f"{needed / 2**20:.0f} MB; cache_size allows {self.run.cache_bytes / 2**20:.0f} "
                "MB. Set max_support or a larger cache_size."
            )
        K = problem.kernel.block(support, support, dtype=np.float64) + self.constant
        signs, beta = problem.linear[support], self.beta[support]
        residual = signs - K @ beta
        sweeps = max(1, WORK_PER_CALL // len(support) ** 2)
        stop, worst = None, np.inf
        for _ in range(0, _MAX_SWEEPS, sweeps):
            worst = coordinate_sweeps(K, signs, beta, residual, min(sweeps, _MAX_SWEEPS))
            stop = self.monitor.should_stop(self.n_iter)
            if worst <= 0.1 * self.run.tol or stop is not None:
                break
        change = beta - self.beta[support]
        self.beta[support] = beta
        self.decreases = [0.5 * float(beta @ (signs + signs - K @ beta))]
        moved = (
            problem.kernel.multiply(support, change, precise=True) + self.constant * change.sum()
        )
        self.residual -= moved[self.active]
        return stop

    def _watch(self, violation: float) -> Status | None:
        def state() -> tuple[float, float, np.ndarray, float]:
            return violation, self.objective, self.beta, self.constant * float(self.beta.sum())

        return self.monitor.observe(self.n_iter, state)

    def cut_at_best(self) -> None:
        """With samples held out: go back to the smallest model of the lowest error."""
        if not len(self.held_out) or not self.errors:
            return
        best = int(np.argmin(self.errors)) + 1
        self.details["validation_error"] = self.errors[best - 1] / len(self.held_out)
        self.details["steps_before_cut"] = len(self.order)
        self.beta[self.order[best:]] = 0.0
        undone = len(self.order) - best
        self.order = self.order[:best]
        self.decreases = self.decreases[: len(self.decreases) - undone]

    def certificate(self, evaluations: int) -> Certificate:
        """What equation (1) says of the result, where that is cheap to know."""
        problem, beta = self.problem, self.beta
        signs, support = problem.linear, np.flatnonzero(beta)
        intercept = self.constant * float(beta.sum())
        self.details |= {
            "training_kernel_evaluations": evaluations,
            "algorithm_kernel_evaluations": self.values_needed,
        }
        if len(support) * problem.n > _CHEAP_CERTIFICATE:
            unknown = np.full(problem.n, np.nan)
            return Certificate(
                problem, beta, unknown, np.nan, np.nan, self.objective, np.nan, (intercept,)
            )
        product = problem.kernel.multiply(support, beta[support], precise=True)
        residual = signs - product - intercept
        pull = signs * residual
        violation = max(float(pull.max()), float(np.abs(pull[support]).max(initial=0.0)), 0.0)
        objective = -0.5 * float(beta @ (signs + residual))
        squared_norm = float(beta @ (signs - residual))
        margin = float((1.0 - pull).min())
        gap = 0.5 * squared_norm / margin**2 + objective if margin > 0 else np.inf
        return Certificate(problem, beta, residual, violation, np.nan, objective, gap, (intercept,))

    def stages(self) -> Stages | None:
        if self.options.backfit:
            return None
        samples = np.array(self.order, np.int64)
        coefficients = self.beta[samples]
        return Stages(samples, coefficients, self.constant * np.cumsum(coefficients))


def _held_out(problem: Problem, seed: int, share: float) -> np.ndarray:
    """Samples that are not trained on, the same share of both classes; sorted."""
    if share == 0.0:
        return np.empty(0, np.int64)
    random = np.random.default_rng(seed)
    parts = []
    for sign in (1.0, -1.0):
        members = np.flatnonzero(problem.linear == sign)
        parts.append(random.permutation(members)[: int(share * len(members))])
    return np.sort(np.concatenate(parts))
