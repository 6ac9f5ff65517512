"""Second-order steps for the block method, taken where pair steps crawl.

Two situations ask for them. Many support vectors are free: then Newton's method on
these solves their problem with one factorisation, or, where too many of them would
meet a bound, IRWLS solves that of all samples that may still move. Or C is large: then
IRWLS on a factor of the kernel matrix, whose steps hardly depend on C, solves for all
samples at once, provided that the factor has a low rank. When to take which follows from
a model of the costs, not from a clock, so that a fit has the same bits each time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin import constants
from maxmargin.optimality import violation_of
from maxmargin.solvers.common import costs
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.factors import (
    Factor,
    LandmarkFactor,
    Stopped,
    as_factor,
    pause_until,
)
from maxmargin.solvers.common.limit import LimitIsSlack
from maxmargin.solvers.common.low_rank_levels import solve_levels
from maxmargin.solvers.common.low_rank_passes import (
    factor_of,
    landmarks_of,
    low_rank_passes,
    rank_of,
    rough_accuracy,
    rough_factor_of,
    rough_pass,
)
from maxmargin.solvers.common.newton import newton_change
from maxmargin.solvers.common.reweighted_block import knows, solve_block, unit_of
from maxmargin.solvers.common.reweighted_steps import SMOOTHING_PART_OF_TOL
from maxmargin.solvers.common.shrinking import settled

# What is expected of the rank, and the cost of rounds after which to look whether it is less.
_EXPECTED_RANK = 200
_WORTH_A_LOOK = 1e6
# The cost of rounds after which to look for a rough factor, the part of the exact factor's rank
# that it may have, and the violation, in units of p, that is far from a solution: from there a pass
# with it is worth as much as one with the exact factor.
_WORTH_ROUGH = 1e7
_ROUGH_PART_OF_RANK = 0.6
_FAR_VIOLATION = 0.8
# Where a low-rank solution was needed once, the rest is not left to SMO steps for long: the part
# of its cost that they may take.
_PATIENCE_AGAIN = 0.1
# Of very many samples, the part of a low-rank solution's cost after which the violators that are
# left tell what rounds will cost; and the violation, in units of p, from which on parts of the
# samples are solved first.
_LEAST_PATIENCE = 0.02
_FAR_FOR_LEVELS = 0.1
# The free set must have settled: at most this part of it may have changed since the last look.
_STABLE = 0.15
# A Newton step this many times cheaper than the rounds since the last is tried in any case.
_HARDLY_COUNTS = 20
# After each step that failed the next of its kind must wait twice as long, up to this many times.
_LONGEST_WAIT = 16.0
# Newton steps whose cost rounds may take before IRWLS on a working set: where that has all samples
# that may still move, and where it has some of them; and the free samples from which on it is worth
# its overhead.
_BLOCK_STEPS = 5
_BLOCK_STEPS_OF_PART = 20
_LEAST_FREE = 64
# Its working set has all samples that are no more than a part of the violation from moving: the
# first of these parts that leaves at most so many times the free ones.
_PARTS_OF_VIOLATION = (1.0, 0.3, 0.1, 0.03, 0.0)
_BLOCK_PER_FREE = 2.0
# Bytes that a pair of samples of it takes: the kernel value, and the system that is factorised.
_BLOCK_BYTES = 16
# Its first and last smoothing width as parts of the violation: samples that it leaves out will
# violate more than that.
_SMOOTHING_OF_VIOLATION = (1.0, 0.02)


class SecondOrder:
    """Decides on second-order steps of one solve, and takes them.

    `affords(β)` sets time aside for the certificate of a β, and says whether there is as much.
    """

    def __init__(self, affords: Callable[[np.ndarray], bool] = lambda beta: True) -> None:
        self._affords = affords
        self.taken: list[str] = []
        self._since_newton = self._since_low_rank = self._since_block = 0.0
        self._newton_wait = self._block_wait = 1.0
        self._low_rank_possible = True
        self._low_rank_below = np.inf  # samples from which on the rank was found too high
        self._rank: float | None = None
        self._rough_rank: float | None = None
        self._rough_tried = False
        self._has_looked = False
        self._landmarks: LandmarkFactor | None = None
        self._landmarks_tried = False
        self._last_free: np.ndarray | None = None
        self._looked_at = 0.0

    def count_round(self, n: int, size: int, steps: int, moved: int) -> None:
        """Add the cost of a round of pair steps on `size` of n samples."""
        cost = costs.working_set_round(n, size, steps, moved)
        self._since_newton += cost
        self._since_low_rank += cost
        self._since_block += cost

    def step(
        self, active: ActiveSet, may_shrink: bool, count_steps: Callable[[int], object]
    ) -> bool:
        """Take a second-order step if the rounds since the last one have cost as much.

        `count_steps` counts its steps as iterations, and returns something where it must end.
        Raises `LimitIsSlack`, with β of the active samples.
        """
        if self._low_rank_due(active, may_shrink):
            if may_shrink:
                active.shrink()  # the cost is that of the samples that are left
            if self._low_rank(active, may_shrink, count_steps):
                return True
        if self._rough_due(active) and self._rough(active, count_steps):
            return True
        free = active.free()
        if not 2 <= len(free) <= active.cache.capacity:
            return False
        if self._newton_due(active, free):
            taken = self._newton(active, free, count_steps)
            self._newton_wait = 1.0 if taken else min(2 * self._newton_wait, _LONGEST_WAIT)
            if taken:
                return True
        return self._newton_wait > 1.0 and self._block(active, free, count_steps)

    def _newton_due(self, active: ActiveSet, free: np.ndarray) -> bool:
        cost = self._newton_wait * costs.newton_step(len(free), active.n)
        cheap = self._since_newton > _HARDLY_COUNTS * cost
        return self._since_newton > cost and (cheap or self._settled(active, free, cost))

    def _low_rank_due(self, active: ActiveSet, may_shrink: bool) -> bool:
        patience = (
            _PATIENCE_AGAIN if "low-rank IRWLS" in self.taken else constants.LOW_RANK_PATIENCE
        )
        if self._rank is None and self._since_low_rank > _WORTH_A_LOOK:
            self._rank = min(_EXPECTED_RANK, rank_of(active.problem))
        rank = min(self._rank or _EXPECTED_RANK, active.n)

        def due(n: int) -> bool:
            cost = patience * costs.low_rank_solution(n, rank)
            if n < constants.MANY_SAMPLES or self._since_low_rank < _LEAST_PATIENCE * cost:
                return self._since_low_rank > cost
            return self._since_low_rank + _cost_of_violators(active) > cost

        # To count those that would be left takes a pass over the samples.
        possible = self._low_rank_possible and active.n < self._low_rank_below
        if not (possible and due(0) and knows(active.problem)):
            return False
        return due(len(active.unsettled()) if may_shrink else active.n)

    def _rough_due(self, active: ActiveSet) -> bool:
        """Whether a pass with a rough factor is worth its cost, far from the solution.

        Of regressions it is, most samples of which are free; classifiers have enough of them at
        their bounds for passes with the exact factor (two Gaussians, C = 1000: half the time).
        """
        problem = active.problem
        if self._rough_tried or self._since_low_rank < _WORTH_ROUGH or not problem.kinked:
            return False
        if not knows(problem):
            return False
        if self._rough_rank is None:
            self._rough_rank = rank_of(problem, rough_accuracy(problem))
            most = min(constants.ROUGH_RANK, _ROUGH_PART_OF_RANK * rank_of(problem))
            self._rough_tried = self._rough_rank > most  # not worth one
        # Before and after it the residual is computed from scratch.
        cost = costs.low_rank_solution(active.n, self._rough_rank)
        cost += 2 * costs.exact_residual(active.n, int(np.count_nonzero(active.beta)))
        if self._rough_tried or self._since_low_rank < constants.LOW_RANK_PATIENCE * cost:
            return False
        return active.violation_and_intercept()[0] > _FAR_VIOLATION * unit_of(problem)

    def _rough(self, active: ActiveSet, count_steps) -> bool:
        self._rough_tried, problem = True, active.problem
        assert self._rough_rank is not None
        V = rough_factor_of(problem, active.cache_bytes, self._rough_rank)
        if V is None:
            return False
        active.make_exact()
        found = rough_pass(problem, V, active.beta, active.residual, count_steps)
        if found is None:
            return False
        active.move_to(*found)
        # What the factor lacks is left to the next steps, and to rounds no longer.
        self._since_newton, self._since_block, self._newton_wait = 0.0, np.inf, 2.0
        self.taken.append("rough IRWLS")
        return True

    def _settled(self, active: ActiveSet, free: np.ndarray, cost: float) -> bool:
        """Whether the free set is nearly the one of a while ago."""
        if self._last_free is not None and self._since_newton < self._looked_at + 0.2 * cost:
            return False
        free = active.index[free]
        last, self._last_free, self._looked_at = self._last_free, free, self._since_newton
        if last is None:
            return False
        return len(np.setxor1d(last, free, assume_unique=True)) <= _STABLE * len(free)

    def _newton(self, active: ActiveSet, free: np.ndarray, count_steps) -> bool:
        self._since_newton = self._looked_at = 0.0
        self._last_free = None
        problem, beta = active.problem, active.beta[free]
        lower, upper = problem.pieces(beta, free)
        change = newton_change(
            active.block(free), problem.slopes(beta, active.residual[free]), beta, lower, upper,
            problem.groups(beta),
        )  # fmt: skip
        if change is None:
            return False
        target = np.clip(beta + change, lower, upper)
        change = target - beta
        active.beta[free] = target
        active.update_residual(free, change)
        count_steps(1)
        self.taken.append("Newton")
        return True

    def _block(self, active: ActiveSet, free: np.ndarray, count_steps) -> bool:
        """IRWLS on the samples that may still move, where Newton's method failed."""
        problem, cost = active.problem, self._block_wait * costs.newton_step(len(free), active.n)
        due = self._since_block > _BLOCK_STEPS * cost
        if not due or len(free) < _LEAST_FREE or not knows(problem):
            return False
        violation, levels = violation_of(problem, active.beta, active.residual)
        working, part = _may_move(active, free, levels, violation)
        patience = _BLOCK_STEPS if part == 1.0 else _BLOCK_STEPS_OF_PART
        if len(working) == 0 or self._since_block <= patience * cost:
            return False
        self._since_block = 0.0
        last = SMOOTHING_PART_OF_TOL * active.tol
        if part < 1.0:
            last = max(_SMOOTHING_OF_VIOLATION[1] * violation, last)
        # Where all β are large, float32 rows have made more of a residual wrong than that.
        if active.correct(last):
            violation, levels = violation_of(problem, active.beta, active.residual)
        beta, residual = active.beta[working], active.residual[working]
        # Beside a large C, the rounding of single precision would outweigh the smoothing.
        K = problem.kernel.block(working, working, dtype=np.float64)
        smoothings = (_SMOOTHING_OF_VIOLATION[0] * violation, last)
        try:
            new = solve_block(
                problem, K, working, beta, residual, levels, violation, smoothings,
                lambda steps, state: count_steps(steps), np.dtype(np.float64),
            )  # fmt: skip
        except LimitIsSlack as slack:
            self.taken.append("block IRWLS")
            found = active.beta.copy()
            found[working] = slack.beta
            raise LimitIsSlack(found) from None
        self._block_wait = 1.0 if new is not None else min(2 * self._block_wait, _LONGEST_WAIT)
        if new is None:
            return False
        active.beta[working] = new
        active.update_residual(working, new - beta)
        active.correct(last)
        self._newton_wait = 1.0  # the free set is another one
        self.taken.append("block IRWLS")
        return True

    def _low_rank(self, active: ActiveSet, may_shrink: bool, count_steps) -> bool:
        problem, expected = active.problem, None
        if not self._has_looked:
            expected = rank_of(problem)
            self._has_looked, self._rank = True, expected
            if not self._low_rank_due(active, may_shrink):
                return False  # not yet, now that the rank is known better
        try:
            V = self._factor(active, expected, count_steps)
        except Stopped:
            return False
        if V is None:  # fewer samples may still have one: up to so many that have any rank
            self._low_rank_below = max(active.n / 2, min(active.n, constants.MAX_RANK + 1))
            self._rank = constants.MAX_RANK
            return False
        self._since_low_rank = 0.0
        active.make_exact()
        if isinstance(V, LandmarkFactor):
            V = self._levels(active, V, may_shrink, count_steps)
            problem = active.problem
            if count_steps(0):
                return True
        self._rank = V.rank
        # What the samples outside the active set contribute stands in the residual.
        self.taken.append("low-rank IRWLS")
        beta, residual, self._low_rank_possible = low_rank_passes(
            problem, active.tol, V, active.beta, active.residual,
            lambda steps, state: count_steps(steps),
        )  # fmt: skip
        active.move_to(beta, residual)
        return True

    def _factor(self, active: ActiveSet, expected: float | None, count_steps) -> Factor | None:
        """V of the active samples; of very many it is made of landmarks and kept for later."""
        stored = active.n < constants.MANY_SAMPLES or active.whole.kernel.product_without_values
        if not (stored or self._landmarks_tried):
            self._landmarks = landmarks_of(
                active.whole, active.cache_bytes, pause_until(lambda: count_steps(0))
            )
            self._landmarks_tried = True
        if self._landmarks is not None:
            return self._landmarks.restrict(active.index)
        V = factor_of(active.problem, active.cache_bytes, expected=expected)
        return None if V is None else as_factor(V)

    def _levels(
        self, active: ActiveSet, V: LandmarkFactor, may_shrink: bool, count_steps
    ) -> LandmarkFactor:
        """Far from the solution, begin with parts of the samples; V of those still active."""
        problem, before = active.problem, active.index
        violation, _ = active.violation_and_intercept()
        far = violation > _FAR_FOR_LEVELS * unit_of(problem)
        if not far or active.n < constants.MANY_SAMPLES or problem.by_sign:
            return V
        found = solve_levels(
            problem, V, active.tol, active.cache_bytes, active.beta, active.residual, count_steps,
            lambda beta: self._affords(_of_all(active, beta)),
        )  # fmt: skip
        if found is None:
            return V
        active.move_to(*found)
        self.taken.append("levels")
        if may_shrink and active.shrink():
            return V.restrict(np.searchsorted(before, active.index))
        return V


def _of_all(active: ActiveSet, beta: np.ndarray) -> np.ndarray:
    """β of all samples with another one of the active samples."""
    whole = active.beta_of_all().copy()
    whole[active.index] = beta
    return whole


def _cost_of_violators(active: ActiveSet) -> float:
    """What rounds will cost at least: each violator moves, and its row over all is computed."""
    problem, beta, residual = active.problem, active.beta, active.residual
    _, levels = violation_of(problem, beta, residual)
    still = active.n - int(np.sum(settled(problem, beta, residual, levels, -active.tol)))
    return costs.exact_residual(active.n, still)


def _may_move(
    active: ActiveSet, free: np.ndarray, levels: tuple[float, ...], violation: float
) -> tuple[np.ndarray, float]:
    """The samples no more than a part of the violation from moving, and the part.

    It is the largest that leaves no more of them than IRWLS can solve; none where none does.
    """
    fits = np.sqrt(active.cache_bytes / _BLOCK_BYTES)
    most = min(_BLOCK_PER_FREE * len(free), active.cache.capacity, fits)
    for part in _PARTS_OF_VIOLATION:
        margin = part * violation
        at_rest = settled(active.problem, active.beta, active.residual, levels, margin)
        working = np.flatnonzero(~at_rest)
        if len(working) <= most:
            return working, part
    return working[:0], 0.0
