"""The active samples of the block method, and one round of it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from maxmargin import constants
from maxmargin.kernels.buffers import Scratch
from maxmargin.kernels.row_cache import RowCache
from maxmargin.optimality import violation_of
from maxmargin.parallel import run_beside
from maxmargin.problem import Problem
from maxmargin.solvers.common.pair_steps import (
    LARGEST_DIAGONAL,
    diagonal_for_gains,
    steps_on_block,
)
from maxmargin.solvers.common.shrinking import settled, worth_shrinking_to
from maxmargin.solvers.common.violators import pulls, violators

# Rows of this many values for one that is wanted: nearly each lies in a cache line of its own.
_LONG_ROWS = 12
# From this many times the places of a working set on, free samples are chosen by their coupling
# to this many of the worst violators on each side.
_MANY_FREE = 2
_WORST = 8
# Part of the largest residual that single precision may lose over the steps of a round: the root
# of some ten thousand times its rounding.
_ROUNDING_OF_STEPS = 2.0**-15
# Kernel values of a round that are kept for the next.
_KEPT_VALUES = 2**21
# Samples whose residual is compared with an exact one.
_SPOT_CHECK = 64


class ActiveSet:
    """The samples that still take part: their β and residual, and their kernel rows.

    Attributes
    ----------
    whole : the problem of all samples
    problem : the problem of the active samples
    tol : the KKT violation at which the whole problem counts as solved
    index : their numbers in the whole problem
    beta, residual : float64; residual is p − Kβ over all samples of the whole problem
    seconds : where the time went
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        cache_bytes: int,
        beta: np.ndarray,
        residual: np.ndarray,
        seconds: defaultdict[str, float],
    ):
        self.whole = self.problem = problem
        self.tol, self.cache_bytes = tol, cache_bytes
        self.seconds = seconds
        self.index = np.arange(problem.n)
        self.beta, self.residual = beta.copy(), residual.copy()
        self._exact, self._of_all = beta.copy(), beta.copy()
        self.diagonal = diagonal_for_gains(problem.kernel.diagonal())
        self._scratch = Scratch()
        self._moves = np.zeros(problem.n, np.int64)
        self._remember(problem.objective(beta, residual))

    @cached_property
    def cache(self) -> RowCache:
        """The rows of active samples; made when first wanted, which some problems never do."""
        return RowCache(self.problem.kernel, self.cache_bytes)

    def _remember(self, objective: float) -> None:
        """The state that `objective` counts from; inactive samples do not move after it."""
        self._start = objective, self.beta.copy(), self.residual.copy()

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def n_settled(self) -> int:
        """Samples that are left out, since they seem to stay at their bound."""
        return self.whole.n - self.n

    def violation_and_intercept(self) -> tuple[float, float]:
        violation, levels = violation_of(self.problem, self.beta, self.residual)
        return violation, sum(levels) / len(levels)

    def beta_of_all(self) -> np.ndarray:
        """β of the whole problem; the next call writes to the same array."""
        self._of_all[self.index] = self.beta
        return self._of_all

    def change(self) -> np.ndarray:
        """How far β is from where the residual was computed with the true kernel."""
        return self.beta - self._exact

    def move_to(self, beta: np.ndarray, residual: np.ndarray) -> None:
        """Take over β and its residual, computed with the true kernel."""
        self.beta, self.residual, self._exact = beta, residual, beta.copy()

    def objective(self) -> float:
        """The objective of all samples, from its change since the state that is remembered."""
        objective, beta, residual = self._start
        return objective - self.problem.decrease(beta, self.beta, residual, self.residual)

    def free(self) -> np.ndarray:
        """The samples strictly between their bounds, and not at a kink."""
        return np.flatnonzero(self._is_free())

    def _is_free(self, index: np.ndarray | slice = slice(None)) -> np.ndarray:
        beta = self.beta[index]
        free = (beta > self.problem.lower[index]) & (beta < self.problem.upper[index])
        return free & (beta != 0.0) if self.problem.kinked else free

    def resume_with(
        self, problem: Problem, tol: float, beta: np.ndarray, residual: np.ndarray
    ) -> bool:
        """Take over a better residual of all samples, unless an inactive one violates by it."""
        inactive = np.ones(problem.n, bool)
        inactive[self.index] = False
        violation, levels = violation_of(problem, beta, residual)
        at_rest = settled(problem, beta, residual, levels, max(violation, tol))
        if problem.kernel is not self.whole.kernel or not at_rest[inactive].all():
            return False
        self.whole, self.tol = problem, tol
        self._of_all = beta.copy()
        self.move_to(beta[self.index], residual[self.index])
        self._remember(problem.objective(beta, residual))
        return True

    def correct(self, margin: float) -> bool:
        """Make the residual exact if a few samples show that it drifted by more than `margin`."""
        if self.problem.kernel.dtype == np.float64:
            return False
        free = self.free()
        few = free[:: max(1, len(free) // _SPOT_CHECK)]
        if len(few) == 0:
            return False
        drift = float(np.abs(self._exact_residual(few) - self.residual[few]).max())
        if drift > margin:
            self.make_exact()
        return drift > margin

    def make_exact(self) -> None:
        """Replace the residual by one from scratch, with the true kernel in float64."""
        if self.problem.kernel.dtype == np.float64:
            return
        self.move_to(self.beta, self._exact_residual(np.arange(self.n)))
        self._remember(self.objective())

    def _exact_residual(self, of: np.ndarray) -> np.ndarray:
        beta = self.beta_of_all()
        support = np.flatnonzero(beta)
        kernel, rows = self.whole.kernel, self.index[of]
        return self.problem.linear[of] - kernel.multiply(support, beta[support], rows, precise=True)

    def running_residual(self, beta: np.ndarray) -> np.ndarray:
        """p − Kβ of all samples as it is believed to be, in the precision of the rows."""
        if self.n == self.whole.n:
            return self.residual
        inactive = np.ones(self.whole.n, bool)
        inactive[self.index] = False
        inactive = np.flatnonzero(inactive)
        support, residual = np.flatnonzero(beta), self.whole.linear.copy()
        residual[self.index] = self.residual
        if len(inactive) and len(support):
            residual[inactive] -= self.whole.kernel.multiply(support, beta[support], inactive)
        return residual

    def select(self, size: int, last: np.ndarray) -> np.ndarray:
        """The next working set: the worst violators of both sides, and their partners.

        Where many samples are free, the other half are the free samples with the largest
        kernel values against the worst violators: they would undo a step that leaves them
        out. Else it is half of the last set, its free samples first, then the samples that are
        nearest to moving again: those farthest beyond their bounds, which have the largest
        residuals, are the last to come back.
        """
        if self.n <= size:
            return np.arange(self.n)
        growing, shrinking = violators(
            self.problem, self.beta, self.residual, max(2, size // 2 if len(last) else size)
        )
        fresh = np.concatenate([growing, shrinking])
        is_fresh = np.zeros(self.n, bool)
        is_fresh[fresh] = True
        free = np.flatnonzero(self._is_free() & ~is_fresh)
        if len(last) and len(free) > _MANY_FREE * (size - len(fresh)):
            stay = self._coupled(free, growing, shrinking, size - len(fresh))
            return np.sort(np.concatenate([stay, fresh]))
        stay = last[~is_fresh[last]]
        if len(stay) > size - len(fresh):
            pull = pulls(self.problem, self.beta, self.residual, stay)
            worth = np.where(self._is_free(stay), np.inf, pull)
            stay = stay[np.argsort(-worth, kind="stable")[: size - len(fresh)]]
        return np.sort(np.concatenate([stay, fresh]))

    def select_part(self, size: int, residual: np.ndarray) -> np.ndarray:
        """Many samples that are worth solving together: all free ones and the worst violators.

        Where the free ones are more than half of it, these are the ones that answer to
        the violators. `residual` is the one that tells violators.
        """
        free = self.free()
        growing, shrinking = violators(
            self.problem, self.beta, residual, size - min(len(free), size // 2)
        )
        fresh = np.concatenate([growing, shrinking])
        others = np.setdiff1d(free, fresh, assume_unique=True)
        if len(others) > size - len(fresh):
            others = self._coupled(others, growing, shrinking, size - len(fresh))
        return np.sort(np.concatenate([fresh, others]))

    def _coupled(self, free, growing, shrinking, count: int) -> np.ndarray:
        """The `count` free samples with the strongest coupling to the worst violators."""
        worst_growing = growing[np.argsort(-self.residual[growing])[:_WORST]]
        worst_shrinking = shrinking[np.argsort(self.residual[shrinking])[:_WORST]]
        worst = np.concatenate([worst_growing, worst_shrinking])
        values = self._part(worst, free)
        coupling = np.abs(values, out=values).sum(axis=0)
        return free[np.argpartition(-coupling, count)[:count]]

    def block(self, index: np.ndarray) -> np.ndarray:
        """K[index][:, index] in the precision of the rows, until the next call."""
        if len(index) == self.n and np.array_equal(index, np.arange(self.n)):
            values = self.problem.kernel.as_array()
            if values is None:
                with self._kernel_time():
                    values = self.cache.whole()
            if values is not None:
                return values
        return self._part(index, index)

    def _part(self, index: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """K[index][:, columns] from the cached rows, or computed where these are missing.

        The next call overwrites it.
        Over all samples a row is computed once its own has moved, not before. Few values of
        long rows are not even read from there, if they are cheap to compute.
        """
        compute = self.problem.kernel.cheap and self.n > _LONG_ROWS * len(columns)
        use_cached = self.cache.holds(index) & (not compute)
        cached, computed = np.flatnonzero(use_cached), np.flatnonzero(~use_cached)
        out = self._values((len(index), len(columns)))
        if len(cached):
            self.fetch(index[cached])
            self.cache.gather(index[cached], columns, out, cached)
        if len(computed) == len(index):  # half of it, where the columns are the same samples
            with self._kernel_time():
                self.problem.kernel.block(index, columns, out=out)
        elif len(computed):
            with self._kernel_time():
                self.problem.kernel.block(index[computed], columns, out=out, slots=computed)
        return out

    def _values(self, shape: tuple[int, int]) -> np.ndarray:
        """An array for kernel values, in the same memory each time unless it is large.

        New memory for each round would have to be cleared by the operating system first.
        """
        dtype = self.problem.kernel.dtype
        if shape[0] * shape[1] > _KEPT_VALUES:
            return np.empty(shape, dtype)
        return self._scratch.array(shape, dtype)

    def fetch(self, index: np.ndarray) -> None:
        """Put the missing ones of these rows into the cache."""
        with self._kernel_time():
            self.cache.fetch(index)

    @contextmanager
    def _kernel_time(self) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds["kernel"] += time.perf_counter() - start

    def pair_steps(self, working: np.ndarray, tol: float, max_steps: int) -> tuple[int, int]:
        """Optimise the working set by pair steps: how many were taken, how many samples moved."""
        K = self.block(working)
        beta, residual = self.beta[working], self.residual[working]
        lower, upper = self.problem.lower[working], self.problem.upper[working]
        diagonal = self.diagonal[working]

        def optimise() -> int:
            return steps_on_block(
                K, diagonal, beta, residual, lower, upper, tol, max_steps,
                self.problem.epsilon, self.problem.by_sign,
            )  # fmt: skip

        if len(working) == self.n:
            # The steps keep the residual of the working set, and there are no other samples.
            steps = optimise()
            self.beta, self.residual = beta, residual
            return steps, 0
        # Else theirs is forgotten, and need not be more precise than they are optimised.
        single = tol > _ROUNDING_OF_STEPS * np.abs(residual).max()
        if single and diagonal.max() < LARGEST_DIAGONAL:
            residual = residual.astype(np.float32)
        steps = run_beside(optimise, lambda: self.fetch(self._rows_to_prefetch(working)))
        change = beta - self.beta[working]
        self.beta[working] = beta
        return steps, self.update_residual(working, change)

    def _rows_to_prefetch(self, working: np.ndarray) -> np.ndarray:
        """Samples of a working set whose kernel rows are worth keeping, if they move.

        They are free, and most free samples do move: threads that would wait for the pair
        steps compute their rows meanwhile.
        """
        wanted = self._expect_reuse(working, self._moves[working] + 1)
        wanted = working[wanted & (~self.cache.holds(working))]
        return wanted[: self.cache.capacity]

    def update_residual(self, index: np.ndarray, change: np.ndarray) -> int:
        """Carry a change of β over to the residual of all active samples; how many moved."""
        moved = np.flatnonzero(change)
        index, change = index[moved], change[moved]
        self._moves[index] += 1
        kept = self._worth_keeping(index)
        if not kept.all():
            with self._kernel_time():
                self.residual -= self.problem.kernel.multiply(index[~kept], change[~kept])
        self.fetch(index[kept])
        start = time.perf_counter()
        self.cache.subtract(self.residual, index[kept], change[kept])
        self.seconds["update"] += time.perf_counter() - start
        return len(moved)

    def _worth_keeping(self, index: np.ndarray) -> np.ndarray:
        """Whose kernel rows will be wanted again: those of free samples that move often.

        Most bounded support vectors go from one bound to the other and stay. To store a
        row costs more than to compute it, so their rows are used and forgotten. Where
        most moving samples are free, the solution is taking shape.
        """
        kept = self._expect_reuse(index, self._moves[index]) | self.cache.holds(index)
        kept[np.flatnonzero(kept)[self.cache.capacity :]] = False
        return kept

    def _expect_reuse(self, index: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Whether samples that moved so often are free and will move again."""
        if self.problem.kernel.product_without_values:
            return np.zeros(len(index), bool)
        free = self._is_free(index)
        return free & (
            (moves > constants.MOVES_BEFORE_CACHING) | (2 * np.count_nonzero(free) > len(free))
        )

    def unsettled(self) -> np.ndarray:
        """The samples that may still move, or all where that is most of them."""
        kept = worth_shrinking_to(self.problem, self.beta, self.residual, self.tol)
        return np.arange(self.n) if kept is None else kept

    def shrink(self) -> bool:
        """Leave samples out that are safely at their bound; whether there were any."""
        kept = self.unsettled()
        if len(kept) == self.n:
            return False
        self._keep(kept)
        return True

    def part(self, of: np.ndarray) -> ActiveSet:
        """Some of the active samples as an active set of their own.

        Its kernel rows are in the memory of those over all samples, which are forgotten.
        """
        self.__dict__.pop("cache", None)
        residual = self.whole.linear.copy()
        residual[self.index] = self.residual
        beta = self.beta_of_all()
        part = ActiveSet(self.whole, self.tol, self.cache_bytes, beta, residual, self.seconds)
        part._keep(self.index[of])
        return part

    def carry(self, moved: np.ndarray, change: np.ndarray, rows: np.ndarray) -> None:
        """Carry changes of β over to the residual of some samples; their values are forgotten."""
        with self._kernel_time():
            of = None if len(rows) == self.n else rows
            self.residual[rows] -= self.problem.kernel.multiply(moved, change, of)

    def _keep(self, kept: np.ndarray) -> None:
        """Shrink to the samples `kept`."""
        objective = self.objective()
        self.beta_of_all()  # keeps what the inactive samples have
        self.problem = self.problem.restrict(kept, self.beta)
        self.index, self.diagonal = self.index[kept], self.diagonal[kept]
        self.beta, self.residual = self.beta[kept], self.residual[kept]
        self._exact = self._exact[kept]
        self._moves = self._moves[kept]
        if "cache" in self.__dict__:  # else it will be made for the kept samples
            self.cache.restrict(kept, self.problem.kernel)
        self._remember(objective)
