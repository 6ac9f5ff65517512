"""Solutions of one binary problem for growing C, on a kernel matrix held in memory.

A fit alone spends its time on kernel values. Here they are given, and the last
solution is near the next one: a few pair steps on the samples near the margin,
and a Newton step where those crawl, carry it over.
"""

from __future__ import annotations

import numpy as np

from maxmargin.estimators.formulations import c_svc
from maxmargin.kernels._rows import gather_block, subtract_rows
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.monitor import Interrupt, Monitor
from maxmargin.optimality import violation_and_intercept
from maxmargin.problem import Problem, nearest_feasible
from maxmargin.solution import Status
from maxmargin.solvers.common.newton import newton_change
from maxmargin.solvers.common.pair_steps import SECOND_ORDER, STEP_LIMIT, set_penalties, smo_steps
from maxmargin.solvers.decomposition.solver import Decomposition

# Part of tol that the steps aim at, as in the block method.
_TARGET = 0.9
_INNER_TOL = 0.1
# A round takes the free samples and the nearest to the margin: so many times the free ones.
_ACTIVE_FACTOR, _LEAST_ACTIVE = 1.3, 768
# From this part of all samples on, picking some of them costs more than it saves.
_NEARLY_ALL = 0.7
# Nanoseconds of a pair step per sample, and of a Newton step per free sample, squared and cubed.
_PAIR_STEP, _NEWTON_SQUARE, _NEWTON_CUBE = 1.2, 3.0, 0.012
_LEAST_STEPS = 2_000
# Rounds end after so many nanoseconds, so that an interrupt is served.
_ROUND = 2e8
# Steps for one C after which the block method takes over, which has more than pair steps.
_PATIENCE = 200_000
_CACHE_BYTES = 512 * 2**20
# Multiple of tol that rounding of float32 kernel values may cost; LIBSVM's are float32 at any C.
_SHARE_OF_TOL = 1.0


class Unsuited(Exception):
    """This problem is better left to a solver that certifies itself."""


def find_twins(K: np.ndarray) -> np.ndarray:
    """Group numbers of the samples: those of one group have the same rows in K, to the bit."""
    if not (np.isfinite(K.max()) and np.isfinite(K.min())):
        raise Unsuited  # a fit has a sentence for this
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
    twins : group number of each sample, see `find_twins`
    tol : the KKT violation at which a solution counts as found
    interrupt : the flag that Ctrl-C sets, asked between rounds; raises `KeyboardInterrupt`

    Attributes
    ----------
    beta, residual : the present solution and p − Kβ
    intercept, violation : what goes with them
    """

    def __init__(self, K, signs, costs, twins, tol: float, interrupt: Interrupt):
        self.K, self.signs, self.costs = K, signs, costs
        self._twins = np.unique(twins, return_inverse=True)[1]
        self.tol, self.target = tol, _TARGET * tol
        self.interrupt = interrupt
        self.beta, self.residual = np.zeros(len(signs)), signs.copy()
        self.steps, self._since_newton = 0, 0.0
        self._C: float | None = None

    def solve(self, C: float) -> None:
        """Move on to a larger C."""
        _, self.lower, self.upper = c_svc(self.signs, C * self.costs)
        if self._C is not None:
            self._start(C / self._C if np.isfinite(C) else np.inf)
        self._C = C
        self._optimise()

    def precise(self) -> bool:
        """Whether rounding of float32 kernel values is small beside tol; see `precise_enough`."""
        if self.K.dtype == np.float64:
            return True
        # Of samples with the same kernel values only the sum counts.
        net = np.bincount(self._twins, self.beta)
        rounding = float(np.finfo(self.K.dtype).eps) / 4
        return rounding * float(np.linalg.norm(net)) <= _SHARE_OF_TOL * self.target

    def refine(self, K: np.ndarray) -> None:
        """Go on with a more precise kernel matrix."""
        self.K = K
        self.residual = self.signs.copy()
        support = np.flatnonzero(self.beta)
        subtract_rows(self.residual, K, support, self.beta[support], 0, len(K))
        self._optimise()

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

        Only twins of both labels are touched: of their sum, the dual wants as much
        as possible on both sides, so that one side is at its bounds.
        """
        positive = self.signs > 0
        total = np.bincount(self._twins, self.beta)
        most = np.bincount(self._twins, self.upper)
        least = np.bincount(self._twins, self.lower)
        mixed = ((most > 0) & (least < 0))[self._twins]
        if not mixed.any():
            return self.beta
        # A side without room has no sample whose part would be asked for.
        part_of_most = np.minimum(1.0, (total - least) / np.where(most > 0, most, 1.0))
        part_of_least = np.minimum(1.0, (total - most) / np.where(least < 0, least, 1.0))
        spread = np.where(
            positive,
            self.upper * part_of_most[self._twins],
            self.lower * part_of_least[self._twins],
        )
        return np.where(mixed, spread, self.beta)

    def _optimise(self) -> None:
        patience = self.steps + _PATIENCE
        while True:
            self.violation, self.intercept = violation_and_intercept(
                self.beta, self.residual, self.lower, self.upper
            )
            if self.violation <= self.target:
                return
            if self.interrupt.requested:
                raise KeyboardInterrupt
            if self.steps > patience:
                self._hand_over()
                return
            self._round(self._near_margin())

    def _hand_over(self) -> None:
        """Let the block method go on from here."""
        problem = Problem(
            PrecomputedKernelMatrix(self.K), self.signs, self.lower, self.upper, tol=self.tol,
            cache_bytes=min(_CACHE_BYTES, self.K.nbytes), start=self.beta,
        )  # fmt: skip
        solution = Decomposition().solve(problem, Monitor(interrupt=self.interrupt))
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        if solution.status is not Status.CONVERGED or solution.certificate is None:
            raise Unsuited
        self.beta, self.residual = solution.beta.copy(), solution.certificate.residual.copy()
        self.violation, self.intercept = solution.certificate.kkt_violation, solution.intercept

    def _near_margin(self) -> np.ndarray:
        """The samples of the next round: all that are free, then those closest to it."""
        n = len(self.beta)
        can_grow, can_shrink = self.beta < self.upper, self.beta > self.lower
        free = can_grow & can_shrink
        count = max(_LEAST_ACTIVE, int(_ACTIVE_FACTOR * np.count_nonzero(free)))
        if count >= _NEARLY_ALL * n or not self.beta.any():
            return np.arange(n)
        gap = self.intercept - self.residual
        distance = np.where(free, -np.inf, np.where(can_grow, gap, -gap))
        return np.sort(np.argpartition(distance, count)[:count])

    def _round(self, active: np.ndarray) -> None:
        """Pair steps on the active samples; a Newton step where these have cost as much."""
        n, everything = len(active), len(active) == len(self.beta)
        K = self.K if everything else _block(self.K, active)
        beta, residual = self.beta[active], self.residual[active]
        lower, upper = self.lower[active], self.upper[active]
        grow, shrink = np.empty(n, np.float32), np.empty(n, np.float32)
        set_penalties(beta, lower, upper, grow, shrink)
        cost = min(max(_newton_cost(beta, lower, upper), _LEAST_STEPS * _PAIR_STEP * n), _ROUND)
        tol = self.target if everything else max(0.5 * self.target, _INNER_TOL * self.violation)
        itself = np.arange(n)
        outcome, steps, *_ = smo_steps(
            K, itself, np.zeros_like(itself), 0, np.diagonal(K).astype(np.float32), beta, residual,
            lower, upper, grow, shrink, tol, 1 + int(cost / (_PAIR_STEP * n)), SECOND_ORDER,
        )  # fmt: skip
        self.steps += steps
        self._since_newton += _PAIR_STEP * n * steps
        stepped = True
        if outcome == STEP_LIMIT and self._since_newton > _newton_cost(beta, lower, upper):
            stepped = not self._newton_step(K, beta, residual, lower, upper)
        change = beta - self.beta[active]
        self.beta[active] = beta
        if everything and stepped:
            self.residual = residual  # the pair steps kept it
            return
        moved = np.flatnonzero(change)
        subtract_rows(self.residual, self.K, active[moved], change[moved], 0, len(self.beta))

    def _newton_step(self, K, beta, residual, lower, upper) -> bool:
        """Solve the problem of the free samples, in place; whether that was possible."""
        self._since_newton = 0.0
        free = np.flatnonzero((beta > lower) & (beta < upper))
        if len(free) < 2:
            return False
        change = newton_change(
            _block(K, free), residual[free], beta[free], lower[free], upper[free]
        )
        if change is None:
            self.steps += _LEAST_STEPS  # so that failures, too, come to an end
            return False
        beta[free] = np.clip(beta[free] + change, lower[free], upper[free])
        return True


def _newton_cost(beta, lower, upper) -> float:
    n_free = np.count_nonzero((beta > lower) & (beta < upper))
    return (_NEWTON_SQUARE + _NEWTON_CUBE * n_free) * n_free**2


def _block(K: np.ndarray, index: np.ndarray) -> np.ndarray:
    return submatrix(K, index, index)


def submatrix(K: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """K[rows][:, columns] as a new array."""
    out = np.empty((len(rows), len(columns)), K.dtype)
    gather_block(K, rows, columns.astype(np.uint32), out, np.arange(len(rows)))
    return out
