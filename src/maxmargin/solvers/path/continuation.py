"""Solutions of one formulation for growing C, and several ε, each the start of the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin import constants
from maxmargin.kernels._rows import subtract_rows
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.monitor import Interrupt, Monitor
from maxmargin.optimality import is_issued, violation_of
from maxmargin.problem import Problem, nearest_feasible
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.path.solver import PathSolver

# Row cache of the full solver that takes over, at most.
_CACHE_BYTES = 512 * 2**20
# Part of tol that rounding of the stored kernel values may cost the running residual. The largest
# of many errors is some standard deviations away, hence less than what the steps leave of tol.
_ROUNDING_PART_OF_TOL = 0.25 * (1.0 - constants.TARGET)
# Exact residuals that are computed for one point before a full solver is asked.
_CORRECTIONS = 6


class NeedsFullSolver(Exception):
    """This problem is better left to a solver that certifies itself."""


def find_duplicates(K: np.ndarray) -> np.ndarray:
    """Group numbers of the samples: samples of one group have the same row of K, to the bit."""
    if not (np.isfinite(K.max()) and np.isfinite(K.min())):
        raise NeedsFullSolver  # a fit has a sentence for this
    n = len(K)
    mixed = np.zeros(n)
    subtract_rows(mixed, K, np.arange(n), np.random.RandomState(0).randn(n), 0, n)
    _, first, group = np.unique(mixed, return_index=True, return_inverse=True)
    for sample in np.flatnonzero(first[group] != np.arange(n)):
        if not np.array_equal(K[sample], K[first[group[sample]]]):
            return np.arange(n)  # a coincidence: do without
    return group


@dataclass(frozen=True, eq=False)
class _State:
    """A β on the way: its p − Kβ, and the β at which that was computed from scratch."""

    beta: np.ndarray
    residual: np.ndarray
    exact: np.ndarray

    def grown(self, ratio: float, problem: Problem) -> _State | None:
        """All of β times the ratio, where that is feasible: no kernel value is needed for it."""
        beta = ratio * self.beta
        near = nearest_feasible(beta, problem.lower, problem.upper)
        if np.abs(near - beta).max() > 1e-9 * np.abs(near).max():
            return None
        residual = problem.linear - ratio * (problem.linear - self.residual)
        return _State(near, residual, ratio * self.exact)


class RegularisationPath:
    """Follows the solution of a C-SVC or an ε-SVR from one C to the next larger one.

    For each C there may be problems with several ε; they start from each other.

    Parameters
    ----------
    kernel : the kernel matrix of the training samples, its values in memory
    duplicates : group number of each sample, see `find_duplicates`
    tol : the KKT violation at which a solution counts as found
    interrupt : the flag that Ctrl-C sets, looked at between rounds; raises `KeyboardInterrupt`

    Attributes
    ----------
    beta, residual : the present solution and p − Kβ
    steps : SMO steps so far
    """

    def __init__(self, kernel: KernelMatrix, duplicates, tol: float, interrupt: Interrupt):
        self.kernel = kernel
        self._duplicates = np.unique(duplicates, return_inverse=True)[1]
        self.tol, self.target = tol, constants.TARGET * tol
        self.interrupt = interrupt
        self.steps = 0
        self._state: _State | None = None
        self._solved: dict[float, tuple[float, _State]] = {}  # the last C of each ε

    @property
    def beta(self) -> np.ndarray:
        assert self._state is not None
        return self._state.beta

    @property
    def residual(self) -> np.ndarray:
        assert self._state is not None
        return self._state.residual

    def begin(self, problem: Problem, C: float, beta: np.ndarray) -> None:
        """Begin the path with a feasible β that another solver has for this C."""
        self._state = self._from_scratch(problem, beta)
        self._solved[problem.epsilon] = C, self._state

    def solve(self, problem: Problem, C: float) -> None:
        """Move on to a problem with the same or a larger C; the bounds are C times the same."""
        self._state = self._start(problem, C)
        for _ in range(_CORRECTIONS):
            self._optimise(problem)
            if self._precise():
                self._solved[problem.epsilon] = C, self._state
                return
            self._correct(problem)
        raise NeedsFullSolver

    def _precise(self) -> bool:
        """Whether rounding of the stored kernel values is small beside tol."""
        assert self._state is not None
        if self.kernel.dtype == np.float64:
            return True
        # Of samples with the same kernel values only the sum counts.
        net = np.bincount(self._duplicates, self._state.beta - self._state.exact)
        rounding = float(np.finfo(self.kernel.dtype).eps) / 4 * self.kernel.scale
        return rounding * float(np.linalg.norm(net)) <= _ROUNDING_PART_OF_TOL * self.tol

    def _correct(self, problem: Problem) -> None:
        self._state = self._from_scratch(problem, self.beta)

    def _from_scratch(self, problem: Problem, beta: np.ndarray) -> _State:
        """β with its residual in float64."""
        support = np.flatnonzero(beta)
        product = self.kernel.multiply(support, beta[support], precise=True)
        return _State(beta, problem.linear - product, beta)

    def _optimise(self, problem: Problem) -> None:
        state = self._state
        assert state is not None
        run = Run(
            tol=self.tol, cache_bytes=min(_CACHE_BYTES, 8 * problem.n**2), start=state.beta,
            start_residual=state.residual, provisional=True,
            monitor=Monitor(interrupt=self.interrupt),
        )  # fmt: skip
        solution = PathSolver().solve(problem, run)
        self.steps += solution.n_iter
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if solution.status is not Status.CONVERGED or solution.certificate is None:
            raise NeedsFullSolver
        # The next start may change them.
        beta, residual = solution.beta.copy(), solution.certificate.residual.copy()
        exact = beta if is_issued(solution.certificate, problem, solution.beta) else state.exact
        self._state = _State(beta, residual, exact)

    def _start(self, problem: Problem, C: float) -> _State:
        """The best of the starts whose residuals are known without a kernel value.

        From the solution of a smaller C, either all of β grows with C, which suits samples at
        their bounds; or Kβ stays, which suits free ones. Where the second is optimal, every
        larger C has this solution: nothing is left to do for them. Another start is the
        solution of another ε.
        """
        if self._state is None:
            zero = np.zeros(problem.n)
            return _State(zero, problem.linear.copy(), zero)
        starts = [self._state]
        if problem.epsilon in self._solved:
            smaller, last = self._solved[problem.epsilon]
            kept = _State(self._kept(last.beta, problem), last.residual, last.exact)
            if violation_of(problem, kept.beta, kept.residual)[0] <= self.target:
                return kept
            starts = [kept] if self._state is last else [kept, self._state]
            grown = last.grown(C / smaller, problem) if np.isfinite(C) else None
            starts += [] if grown is None else [grown]
        return min(starts, key=lambda start: problem.objective(start.beta, start.residual))

    def _kept(self, beta: np.ndarray, problem: Problem) -> np.ndarray:
        """β for the present bounds that leaves Kβ as it is.

        Only duplicates of both labels are touched: of their sum, the dual wants as much
        as possible on both sides, so that one side is at its bounds.
        """
        lower, upper = problem.lower, problem.upper
        total = np.bincount(self._duplicates, beta)
        most = np.bincount(self._duplicates, upper)
        least = np.bincount(self._duplicates, lower)
        mixed = ((most > 0) & (least < 0))[self._duplicates]
        if not mixed.any() or ((lower < 0) & (upper > 0)).any():
            return beta
        # A side without slack has no sample that would take a part of it.
        part_of_most = np.minimum(1.0, (total - least) / np.where(most > 0, most, 1.0))
        part_of_least = np.minimum(1.0, (total - most) / np.where(least < 0, least, 1.0))
        shared = np.where(
            upper > 0,
            upper * part_of_most[self._duplicates],
            lower * part_of_least[self._duplicates],
        )
        return np.where(mixed, shared, beta)
