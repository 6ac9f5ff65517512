"""Solutions of one C-SVC for growing C, each the start of the next."""

from __future__ import annotations

import numpy as np

from maxmargin import constants
from maxmargin.formulations import c_svc
from maxmargin.kernels._rows import subtract_rows
from maxmargin.kernels.interface import scale_of
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Interrupt, Monitor
from maxmargin.optimality import violation_and_intercept
from maxmargin.problem import Problem, nearest_feasible
from maxmargin.run import Run
from maxmargin.solution import Status
from maxmargin.solvers.path.solver import PathSolver

_CACHE_BYTES = 512 * 2**20


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


class RegularisationPath:
    """Follows the solution of a C-SVC from one C to the next larger one.

    Parameters
    ----------
    K : kernel matrix of the training samples
    signs : their labels, +1.0 or −1.0
    costs : weight of each sample; its bound is C times this
    duplicates : group number of each sample, see `find_duplicates`
    tol : the KKT violation at which a solution counts as found
    interrupt : the flag that Ctrl-C sets, looked at between rounds; raises `KeyboardInterrupt`

    Attributes
    ----------
    beta, residual : the present solution and p − Kβ
    intercept, violation : what goes with them
    steps : SMO steps so far
    """

    def __init__(self, K, signs, costs, duplicates, tol: float, interrupt: Interrupt):
        self.K, self.signs, self.costs = np.ascontiguousarray(K), signs, costs
        self._duplicates = np.unique(duplicates, return_inverse=True)[1]
        self.tol, self.target = tol, constants.TARGET * tol
        self.interrupt = interrupt
        self.beta, self.residual = np.zeros(len(signs)), signs.copy()
        self.steps = 0
        self._C: float | None = None

    def solve(self, C: float) -> None:
        """Move on to a larger C."""
        _, self.lower, self.upper = c_svc(self.signs, C * self.costs, scale_of(self.K.diagonal()))
        if self._C is not None:
            self._start(C / self._C if np.isfinite(C) else np.inf)
        self._C = C
        self._optimise()

    def precise(self) -> bool:
        """Whether rounding of float32 kernel values is small beside tol; see `precise_enough`."""
        if self.K.dtype == np.float64:
            return True
        # Of samples with the same kernel values only the sum counts.
        net = np.bincount(self._duplicates, self.beta)
        rounding = float(np.finfo(self.K.dtype).eps) / 4 * scale_of(self.K.diagonal())
        return rounding * float(np.linalg.norm(net)) <= self.target

    def refine(self, K: np.ndarray) -> None:
        """Go on with a more precise kernel matrix."""
        self.K = K
        self.residual = self.signs.copy()
        support = np.flatnonzero(self.beta)
        subtract_rows(self.residual, K, support, self.beta[support], 0, len(K))
        self._optimise()

    def _optimise(self) -> None:
        problem = Problem(PrecomputedKernelMatrix(self.K), self.signs, self.lower, self.upper)
        run = Run(
            tol=self.tol, cache_bytes=min(_CACHE_BYTES, self.K.nbytes), start=self.beta,
            start_residual=self.residual, provisional=True,
            monitor=Monitor(interrupt=self.interrupt),
        )  # fmt: skip
        solution = PathSolver().solve(problem, run)
        self.steps += solution.n_iter
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if solution.status is not Status.CONVERGED or solution.certificate is None:
            raise NeedsFullSolver
        # The next start may change them.
        self.beta, self.residual = solution.beta.copy(), solution.certificate.residual.copy()
        self.violation, self.intercept = solution.certificate.kkt_violation, solution.intercept

    def _start(self, ratio: float) -> None:
        """The better of two starts whose residuals are known without a kernel value.

        Either all of β grows with C, which suits samples at their bounds; or Kβ stays,
        which suits free ones. Where the second is optimal, every larger C has this
        solution: nothing is left to do for them.
        """
        kept = self._kept()
        violation, _ = violation_and_intercept(kept, self.residual, self.lower, self.upper)
        if violation > self.target and np.isfinite(ratio):
            scaled = nearest_feasible(ratio * self.beta, self.lower, self.upper)
            residual = self.signs - ratio * (self.signs - self.residual)
            near = np.abs(scaled - ratio * self.beta).max() <= 1e-9 * np.abs(scaled).max()
            if near and scaled @ (self.signs + residual) > kept @ (self.signs + self.residual):
                self.beta, self.residual = scaled, residual
                return
        self.beta = kept

    def _kept(self) -> np.ndarray:
        """β for the present bounds that leaves Kβ as it is.

        Only duplicates of both labels are touched: of their sum, the dual wants as much
        as possible on both sides, so that one side is at its bounds.
        """
        positive = self.signs > 0
        total = np.bincount(self._duplicates, self.beta)
        most = np.bincount(self._duplicates, self.upper)
        least = np.bincount(self._duplicates, self.lower)
        mixed = ((most > 0) & (least < 0))[self._duplicates]
        if not mixed.any():
            return self.beta
        # A side without slack has no sample that would take a part of it.
        part_of_most = np.minimum(1.0, (total - least) / np.where(most > 0, most, 1.0))
        part_of_least = np.minimum(1.0, (total - most) / np.where(least < 0, least, 1.0))
        shared = np.where(
            positive,
            self.upper * part_of_most[self._duplicates],
            self.lower * part_of_least[self._duplicates],
        )
        return np.where(mixed, shared, self.beta)
