"""One solve: what is in memory is optimised, and the certificate of all samples decides."""

from __future__ import annotations

import time
from collections import defaultdict

import numpy as np

from maxmargin.optimality import Certificate, certify
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.sweeps.backend import Array, Backend, State, Variables
from maxmargin.solvers.sweeps.matrix_run import PROXIMAL, MatrixRun

# Seconds between two lines of the history.
_UPDATE_SECONDS = 0.1
# Part of the memory that the kernel matrix of the samples in memory may take.
_SHARE_OF_MATRIX = 0.4
# Where not all samples are in memory, those that are there are optimised to this part of their
# largest violation before the others hear of it.
_INNER_TOLERANCE = 0.1
_LAST_TOLERANCE = 0.01
# What counts as violating, as part of the largest violation.
_LEAST_VIOLATION = 0.05
# Where free samples are many, what each counts more than its violation, as part of all.
_BONUS_OF_FREE = 0.1
# Violations above this many tol are updated in working precision; those below from scratch.
_PRECISE_BELOW = 30.0
# Certificates without a gain beyond rounding or a halved violation before the solver gives up.
_ROUNDING = 1e-13
_PATIENCE = 4


class SweepRun:
    """β and residual p − Kβ of all samples on the device, and the run on those in memory."""

    def __init__(self, problem: Problem, run: Run, backend: Backend):
        self.problem, self.tol, self.monitor = problem, run.tol, run.monitor
        self.backend = backend
        self.linear = backend.asarray(problem.linear)
        self.at = Variables(
            backend.asarray(run.initial_beta(problem)),
            self.linear.copy(),
            backend.asarray(problem.lower),
            backend.asarray(problem.upper),
        )
        self.exact = not bool(self.at.beta.any())
        self.n_sweeps = self.n_newton = self.n_matrices = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._rng = np.random.default_rng(run.random_state)
        self._last_update = -np.inf
        self._whole: MatrixRun | None = None  # the run where all samples are in memory
        self._scale = problem.kernel.scale
        self._proximal = PROXIMAL
        itemsize = backend.dtype.itemsize
        most = np.sqrt(_SHARE_OF_MATRIX * backend.free_bytes() / itemsize)
        self.in_memory = min(problem.n, max(2 * backend.block_size, int(most)))

    @property
    def n_iter(self) -> int:
        return self.n_sweeps + self.n_newton

    def refresh(self) -> None:
        """The residual from scratch, in float64."""
        start = time.perf_counter()
        beta = self.backend.to_host(self.at.beta)
        support = np.flatnonzero(beta)
        self.at.residual = self.linear.copy()
        if len(support):
            self.at.residual -= self.backend.product(
                self.backend.asarray(support), self.backend.asarray(beta[support])
            )
        self.exact = True
        self.seconds["certificate"] += time.perf_counter() - start

    def certificate(self) -> Certificate:
        """The certificate of the present β."""
        if not self.exact:
            self.refresh()
        beta = self.backend.to_host(self.at.beta)
        return certify(self.problem, beta, self.backend.to_host(self.at.residual))

    def until_certified(self) -> Status:
        """Optimise until the certificate agrees, and give the memory back."""
        try:
            return self._until_certified()
        finally:
            if self._whole is not None:
                self._whole.release()

    def _until_certified(self) -> Status:
        """Optimise until the float64 residual of all samples agrees that it is the optimum.

        The residual drifts with kernel values in float32. It is computed anew, and the run goes
        on: what is left is small, and converges like iterative refinement.
        """
        if not self.exact:
            self.refresh()
        best, lowest, failures = np.inf, np.inf, 0
        while True:
            state = self.backend.state(self.at)
            if self.exact:
                if state.violation <= self.tol:
                    return Status.CONVERGED
                objective = self._objective()
                gained = lowest - objective > _ROUNDING * abs(objective)
                failures = 0 if gained or state.violation < 0.5 * best else failures + 1
                best, lowest = min(best, state.violation), min(lowest, objective)
                if failures > _PATIENCE:
                    return Status.STALLED
            elif state.violation <= self.tol:
                self.refresh()
                continue
            if self.in_memory == self.problem.n:
                whole = self._whole = self._whole or self._inner(None, self.at)
                status = self._optimise(whole, self.tol * (0.5 if failures else 1.0))
                self.exact = self.exact and not whole.moved
                whole.moved = False
                if status is None:
                    self.refresh()
            else:
                status = self._optimise_part(state)
            if status is not None:
                return status

    def _inner(self, index: Array | None, at: Variables) -> MatrixRun:
        start = time.perf_counter()
        K = self.backend.matrix(index)
        self.n_matrices += 1
        self.seconds["kernel"] += time.perf_counter() - start
        return MatrixRun(self.backend, K, at, self._rng, self._stopped, self._scale, self._proximal)

    def _optimise(self, inner: MatrixRun, tol: float, relative: float = 0.0) -> Status | None:
        """Sweeps and Newton steps until those in memory are optimal; the reason to stop early.

        To stop at tol, or where the violation has fallen to the `relative` part of its largest.
        """
        sweeps, newton, before = inner.n_sweeps, inner.n_newton, dict(inner.seconds)
        base = self.n_sweeps - sweeps, self.n_newton - newton
        stuck, stop, largest = 0, None, 0.0
        while stop is None and stuck < 2:
            state = inner.state()
            largest = max(largest, state.violation)
            if state.violation <= max(tol, relative * largest):
                break
            stuck = 0 if inner.advance(state, tol) else stuck + 1
            self.n_sweeps, self.n_newton = base[0] + inner.n_sweeps, base[1] + inner.n_newton
            stop = self._reason_to_stop(state, inner)
        for part, value in inner.seconds.items():
            self.seconds[part] += value - before.get(part, 0.0)
        return stop

    def _optimise_part(self, state: State) -> Status | None:
        """Optimise as many of the worst violators and free samples as fit, then tell all."""
        worst, n_wanted = self._worst(state)
        index = self.backend.asarray(worst)
        part = self.at.take(index)
        before = self.backend.to_host(part.beta).copy()
        inner = self._inner(index, part)
        # Where all that violate fit, the rest has little to say.
        relative = _INNER_TOLERANCE if n_wanted > self.in_memory else _LAST_TOLERANCE
        status = self._optimise(inner, 0.5 * self.tol, relative)
        self.at.beta[index] = part.beta
        self._proximal = inner.proximal
        inner.release()
        change = self.backend.to_host(part.beta) - before
        moved = self.backend.asarray(np.flatnonzero(change))
        change = self.backend.asarray(change)
        if state.violation > _PRECISE_BELOW * self.tol and status is None:
            start = time.perf_counter()
            self.at.residual -= self.backend.product(index[moved], change[moved], precise=False)
            self.exact = False
            self.seconds["update"] += time.perf_counter() - start
        else:
            self.refresh()
        return status

    def _worst(self, state: State) -> tuple[np.ndarray, int]:
        """The samples with the largest violation, and how many violate; free ones count as such."""
        at = self.at.to_host(self.backend)
        can_grow, can_shrink = at.beta < at.upper, at.beta > at.lower
        pull = at.residual - state.intercept
        score = np.maximum(np.where(can_grow, pull, -np.inf), np.where(can_shrink, -pull, -np.inf))
        few = 2 * state.n_free <= self.in_memory
        score[can_grow & can_shrink] += (1.0 if few else _BONUS_OF_FREE) * state.violation
        # Among equals chance decides: at the start all are equal, and the rows may be sorted.
        shuffled = self._rng.permutation(self.problem.n)
        order = np.argpartition(-score[shuffled], self.in_memory - 1)[: self.in_memory]
        n_wanted = int(np.count_nonzero(score > _LEAST_VIOLATION * state.violation))
        return np.sort(shuffled[order]), n_wanted

    def _reason_to_stop(self, state: State, inner: MatrixRun) -> Status | None:
        now = self.monitor.seconds
        if now - self._last_update < _UPDATE_SECONDS:
            return self.monitor.should_stop(self.n_iter)
        self._last_update = now
        beta = self.backend.to_host(self.at.beta)
        return self.monitor.update(
            self.n_iter, state.violation, self._objective(), beta, state.intercept
        )

    def _objective(self) -> float:
        return -0.5 * float(self.at.beta @ (self.linear + self.at.residual))

    def _stopped(self) -> bool:
        return self.monitor.should_stop(self.n_iter) is not None
