"""One solve: the samples in memory are optimised, and the certificate of all samples decides."""

from __future__ import annotations

import time
from collections import defaultdict

import numpy as np

from maxmargin.optimality import Certificate, certify
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.matrix_run import (
    BONUS_OF_FREE,
    FIRST_PROXIMAL,
    LEAST_VIOLATION,
    MatrixRun,
)
from maxmargin.solvers.sweeps.partition import landmarks_of, neighbour_order
from maxmargin.solvers.sweeps.pieces import Array, Kink, State, Variables, pieces

# Part of the memory that the kernel matrix of the samples in memory may take.
_SHARE_OF_MATRIX = 0.65
# Samples that are in memory in any case.
_LEAST_IN_MEMORY = 512
# Where not all samples are in memory, the samples in memory are optimised to this part of their
# first violation before the others are updated; the second number where all violators are in
# memory.
_INNER_TOLERANCE = 0.2
_LAST_TOLERANCE = 0.03
# Factor by which the samples of a pass grow, until it has all; the most such steps; the fewest
# samples of a pass; samples in memory for each sample that violates or is free.
_GROWTH = 4
_LEVELS = 2
_LEAST_PART = 15000
_IN_MEMORY_FOR_EACH = 8
# A sample nearly violates where it lacks less than this part of the largest violation.
_NEAR = 0.5
# Up to this part of the samples in memory is exchanged in place: columns are slow to write.
_FEW = 0.1
# Violations above this many tol are updated in working precision; those below from scratch.
_PRECISE_BELOW = 30.0
# Part of the objective that is rounding, and certificates without a gain beyond it or a halved
# violation before the solver gives up.
_ROUNDING_OF_OBJECTIVE = 1e-13
_FAILURES_ALLOWED = 4


class SweepRun:
    """β and residual p − Kβ of all samples on the device, and the run on those in memory."""

    def __init__(self, problem: Problem, run: Run, backend: Backend):
        self.problem, self.tol, self.monitor = problem, run.tol, run.monitor
        self.backend = backend
        self.linear = backend.asarray(problem.linear)
        self.kink = Kink(problem.epsilon, problem.by_sign)
        beta = run.initial_beta(problem)
        self.at = Variables(
            backend.asarray(beta),
            self.linear.copy(),
            backend.asarray(problem.lower),
            backend.asarray(problem.upper),
        )
        self.exact = not beta.any()
        self.n_sweeps = self.n_newton = self.n_matrices = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._rng = np.random.default_rng(run.random_state)
        self._inner: MatrixRun | None = None  # the run on the samples in memory
        self._members: np.ndarray = np.zeros(0, np.int64)  # which these are
        self._index: Array = None  # the same on the device
        self._scale = problem.kernel.scale
        self._large = float(np.abs(problem.linear).max(initial=0.0))
        itemsize = backend.dtype.itemsize
        most = np.sqrt(_SHARE_OF_MATRIX * backend.free_bytes() / itemsize)
        self.in_memory = min(problem.n, max(_LEAST_IN_MEMORY, int(most)))
        # Samples take part in random order: all are equal at the start, and the rows may be
        # sorted. A warm start has all samples from the beginning.
        self._shuffled = self._rng.permutation(problem.n)
        self._candidates = self._shuffled[: self._first_part() if self.exact else problem.n]

    def _first_part(self) -> int:
        size = self.problem.n
        for _ in range(_LEVELS):
            if size >= _GROWTH * _LEAST_PART or size > self.in_memory:
                size = -(-size // _GROWTH)
        return size

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
            if self._inner is not None:
                self._inner.release()
            self.backend.release()

    def _until_certified(self) -> Status:
        """Optimise until the float64 residual of all samples agrees that it is the optimum.

        The residual drifts with kernel values in float32. It is computed anew, and the run goes
        on: the remaining error is small, and converges like iterative refinement.
        """
        if not self.exact:
            self.refresh()
        best, lowest, failures = np.inf, np.inf, 0
        while True:
            state = self.backend.state(self.at, self.kink)
            # Without targets or labels in p, large is what the first violation is.
            self._large = self._large or 0.5 * state.violation
            if state.violation <= self.tol:
                if self.exact:
                    return Status.CONVERGED
                self.refresh()
                continue
            if self.exact or self.backend.precise:
                objective = self._objective()
                gained = lowest - objective > _ROUNDING_OF_OBJECTIVE * abs(objective)
                failures = 0 if gained or state.violation < 0.5 * best else failures + 1
                best, lowest = min(best, state.violation), min(lowest, objective)
                if failures > _FAILURES_ALLOWED:
                    return Status.STALLED
            status = self._pass(state, self.tol * (0.5 if failures else 1.0))
            if status is not None:
                return status

    def _pass(self, state: State, tol: float) -> Status | None:
        """Optimise as many of the worst violators and free samples as fit, then update all.

        A growing part of the samples takes part, in random order: a solution of few samples is
        cheap, and the others need only correct it.
        """
        inner, relative = self._inner_of(state)
        index, before = self._index, self.backend.to_host(inner.at.beta).copy()
        self._before = self._objective(), inner.at.beta.copy(), inner.at.residual.copy()
        whole = len(index) == self.problem.n
        if not whole:
            tol = max(0.5 * tol, relative * state.violation)
        status = self._optimise(inner, tol)
        self.at.beta[index] = inner.at.beta
        change = self.backend.to_host(inner.at.beta) - before
        moved = np.flatnonzero(change)
        self._candidates = self._shuffled[: _GROWTH * len(self._candidates)]
        if not len(moved):
            if not self.exact:
                self.refresh()
            return status
        self.exact = False
        by_part = self.backend.precise or state.violation > _PRECISE_BELOW * self.tol
        if whole or status is not None or not by_part:
            self.at.residual[index] = inner.at.residual
            if status is None:
                self.refresh()
            return status
        start = time.perf_counter()
        places = self.backend.asarray(moved)
        change = self.backend.asarray(change[moved])
        self.at.residual -= self.backend.product(index[places], change, precise=False)
        self.seconds["update"] += time.perf_counter() - start
        return status

    def _inner_of(self, state: State) -> tuple[MatrixRun, float]:
        """The run on the samples that are to be in memory, and how far it is to go."""
        members, near, n_wanted = self._worst(state)
        start = time.perf_counter()
        if self._inner is None or len(members) != len(self._index):
            self._begin(members)
        elif len(members) < self.problem.n:
            self._exchange(members, near)
            self._inner.begin()
        self.seconds["kernel"] += time.perf_counter() - start
        assert self._inner is not None
        now, at = self.at.take(self._index), self._inner.at
        at.beta[:], at.residual[:], at.lower[:], at.upper[:] = (
            now.beta, now.residual, now.lower, now.upper
        )  # fmt: skip
        # Where all violators are in memory, the other samples change little.
        last = len(self._candidates) == self.problem.n and n_wanted <= self.in_memory
        return self._inner, _LAST_TOLERANCE if last else _INNER_TOLERANCE

    def _begin(self, members: np.ndarray) -> None:
        """A kernel matrix in memory. Neighbours are put side by side, so that sets read less."""
        backend, proximal = self.backend, FIRST_PROXIMAL
        if self._inner is not None:
            proximal = self._inner.proximal
            self._inner.release()  # before the next matrix takes its memory
        if len(members) > _LEAST_PART:
            landmarks = landmarks_of(len(members), self._rng)
            index = backend.asarray(members)
            rows = backend.block(index[backend.asarray(landmarks)], index)
            members = members[backend.to_host(neighbour_order(backend, rows, landmarks))]
        self._index, self._members = backend.asarray(members), members.copy()
        K = backend.matrix(self._index)
        self.n_matrices += 1
        self._inner = MatrixRun(
            backend, K, self.at.take(self._index), self.kink, self._rng, self._stopped, self._scale,
            proximal, self._large,
        )  # fmt: skip

    def _exchange(self, members: np.ndarray, near: np.ndarray) -> None:
        """Let members in that nearly violate, in the places of samples that are no members."""
        assert self._inner is not None
        n = self.problem.n
        wanted, present = np.zeros(n, bool), np.zeros(n, bool)
        wanted[members], present[self._members] = True, True
        entering = members[near & ~present[members]]
        if len(entering) > _FEW * len(members):
            return self._begin(members)
        places = np.flatnonzero(~wanted[self._members])[: len(entering)]
        if not len(places):
            return
        self._members[places] = entering
        self._index = self.backend.asarray(self._members)
        self.backend.replace(self._inner.K, self._index, self.backend.asarray(places))
        self.n_matrices += 1
        self._inner.forget()

    def _optimise(self, inner: MatrixRun, tol: float) -> Status | None:
        """Sweeps and Newton steps until the samples in memory are optimal; why it stopped early."""
        sweeps, newton, before = inner.n_sweeps, inner.n_newton, dict(inner.seconds)
        base = self.n_sweeps - sweeps, self.n_newton - newton
        stuck, stop = 0, None
        while stop is None and stuck < 2:
            state = inner.state()
            if state.violation <= tol:
                break
            stuck = 0 if inner.advance(state, tol) else stuck + 1
            self.n_sweeps, self.n_newton = base[0] + inner.n_sweeps, base[1] + inner.n_newton
            stop = self._reason_to_stop(state, inner)
        for part, value in inner.seconds.items():
            self.seconds[part] += value - before.get(part, 0.0)
        return stop

    def _worst(self, state: State) -> tuple[np.ndarray, np.ndarray, int]:
        """The samples with the largest violation; which of them nearly violate; how many do.

        Free samples count as violating.
        """
        candidates = self._candidates
        if len(candidates) <= min(self.in_memory, _LEAST_PART):
            return candidates, np.ones(len(candidates), bool), len(candidates)
        at = pieces(self.at.to_host(self.backend).take(candidates), self.kink, state)
        can_grow, can_shrink = at.beta < at.upper, at.beta > at.lower
        pull = at.residual
        score = np.maximum(np.where(can_grow, pull, -np.inf), np.where(can_shrink, -pull, -np.inf))
        few = 2 * state.n_free <= self.in_memory
        score[can_grow & can_shrink] += (1.0 if few else BONUS_OF_FREE) * state.violation
        n_wanted = int(np.count_nonzero(score > LEAST_VIOLATION * state.violation))
        enough = _IN_MEMORY_FOR_EACH * int(np.count_nonzero(score > 0.0))
        size = min(len(candidates), self.in_memory, max(enough, _LEAST_PART))
        order = np.argpartition(-score, size - 1)[:size]
        return candidates[order], score[order] > -_NEAR * state.violation, n_wanted

    def _reason_to_stop(self, state: State, inner: MatrixRun) -> Status | None:
        def now() -> tuple[float, float, np.ndarray, float]:
            beta = self.backend.to_host(self.at.beta).copy()
            beta[self._members] = self.backend.to_host(inner.at.beta)
            objective, old_beta, old_residual = self._before
            # Exact for a quadratic function: the mean of the slopes before and after, times the
            # change.
            gain = 0.5 * float((inner.at.beta - old_beta) @ (old_residual + inner.at.residual))
            gain -= self._tube_of(inner.at.beta) - self._tube_of(old_beta)
            return state.violation, objective - gain, beta, state.intercept

        return self.monitor.observe(self.n_iter, now)

    def _objective(self) -> float:
        at = self.at
        return -0.5 * float(at.beta @ (self.linear + at.residual)) + self._tube_of(at.beta)

    def _tube_of(self, beta: Array) -> float:
        """ε‖β‖₁; on the device as a product of β with its signs."""
        if not self.kink.epsilon:
            return 0.0
        return self.kink.epsilon * float(beta @ self.backend.xp.sign(beta))

    def _stopped(self) -> bool:
        return self.monitor.should_stop(self.n_iter) is not None
