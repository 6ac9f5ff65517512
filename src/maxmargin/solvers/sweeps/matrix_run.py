"""Sweeps and Newton steps on samples whose kernel matrix is in memory."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import numpy as np

from maxmargin.problem import snap_to_bounds
from maxmargin.solvers.sweeps.active_set import FreeSystem, Matrix, newton_change
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.combine import step_lengths
from maxmargin.solvers.sweeps.partition import landmarks_of, neighbour_order
from maxmargin.solvers.sweeps.pieces import Array, Kink, State, Variables, groups_of, pieces

# Orders of neighbours that are used in turn, and sweeps with each before the next.
_ORDERS = 4
_SWEEPS_PER_ORDER = 4
# Parts of the violation of all samples: what a sample must violate to count as violating, and what
# a free sample counts in addition, since it would undo its neighbours' steps if it were left out.
LEAST_VIOLATION = 0.05
BONUS_OF_FREE = 0.1
# A working set is optimised to this part of its violation.
_INNER_TOLERANCE = 0.1
# The proximal term of Newton steps, relative to the mean diagonal of K: the first, the least and
# the largest; the factor by which it falls where steps are too short, and the one that it keeps
# from a term that failed.
FIRST_PROXIMAL = 0.03
_LEAST_PROXIMAL = 1e-10
_LARGEST_PROXIMAL = 1.0
_PROXIMAL_FALL = 30.0
_PROXIMAL_RISE = 6.0
# A step is slow, or very slow, where the violation does not fall below this part of itself.
_SLOW = 0.1
_VERY_SLOW = 0.5
# Memory of a Newton step, in float64 matrices of its size: the factor, and the columns of samples
# that meet bounds.
_MATRICES = 1.5
# How much more than was spent on sweeps a Newton step may cost, once its samples are counted.
_OVERRUN = 2.0
# Cost of sweeps before a Newton step, in costs of that step: before the first, and at most before
# the next.
_FIRST_WAIT = 4.0
_LONGEST_WAIT = 8.0
# The same where violations are no longer large, and at most this many times the free samples take
# part: the free set is then about right.
_NEARLY_FREE = 1.2
_SHORT_WAIT = 0.5


class MatrixRun:
    """β and residual of some samples, K among them, and what changes them.

    Attributes
    ----------
    at : β, bounds and residual; changed in place
    kink : what is not smooth at β = 0
    scale : the mean diagonal of K, by which the proximal term is measured
    proximal : the proximal term of the first Newton step
    large : what counts as a large violation
    seconds : where the time went
    """

    def __init__(
        self,
        backend: Backend,
        K: Array,
        at: Variables,
        kink: Kink,
        rng: np.random.Generator,
        should_stop: Callable[[], bool],
        scale: float = 1.0,
        proximal: float = FIRST_PROXIMAL,
        large: float = 1.0,
    ):
        self.backend, self.K, self.at, self.kink = backend, K, at, kink
        self.n = len(K)
        self.n_sweeps = self.n_newton = 0
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._rng, self._should_stop = rng, should_stop
        self._orders: list[Array] = []
        self._least = LEAST_VIOLATION
        # Costs since the last Newton step, and how much of the cost of one must be spent on sweeps
        # before it is tried.
        self._spent, self._wanted = 0.0, _FIRST_WAIT
        self._scale, self._large = scale or 1.0, large
        self._proximal, self._least_proximal = proximal, _LEAST_PROXIMAL
        self._worked = 0.0  # the proximal term of the last step that succeeded
        self._system: FreeSystem | None = None
        self._n_chosen = 0  # violators of the last sweep, about as many as a Newton step has

    @property
    def proximal(self) -> float:
        """The proximal term of the last Newton step that succeeded, or of the first."""
        return self._worked or self._proximal

    def state(self) -> State:
        return self.backend.state(self.at, self.kink)

    def begin(self) -> None:
        """Go on from other values of β and the residual: sweeps come first again."""
        self._spent, self._wanted, self._n_chosen = 0.0, _FIRST_WAIT, 0

    def forget(self) -> None:
        """Drop what was derived from K: other samples are in it."""
        self._system, self._orders = None, []

    def release(self) -> None:
        """Give the memory back now: objects that refer to each other would keep it for a while."""
        self.K = None
        self.forget()

    def advance(self, state: State, tol: float) -> bool:
        """One Newton step or sweep, whichever is due; False where nothing moved."""
        start = time.perf_counter()
        at = self._newton_problem(state) if self._newton_is_due(state) else None
        changed = self._sweep(state, tol) if at is None else self._newton(state, *at)
        self.seconds["sweeps" if at is None else "newton"] += time.perf_counter() - start
        return changed or at is not None

    # Sweeps.

    def _sweep(self, state: State, tol: float) -> bool:
        """Optimise many working sets at once, and go as far as they agree."""
        backend, now, kink = self.backend, self.at, self.kink
        self.n_sweeps += 1
        at = backend.pieces(now, kink, state, state.worst if kink.by_sign else None)
        least, bonus = self._least * state.violation, BONUS_OF_FREE * state.violation
        shift = self._rng.random()
        index, self._n_chosen = backend.working_sets(at, self._order(), least, bonus, shift)
        change = backend.pair_steps(self.K, at, index, _INNER_TOLERANCE, 0.3 * tol)
        products = backend.block_products(self.K, index, change)
        both = backend.couplings(at, index, change, products)
        lengths = step_lengths(np.ascontiguousarray(both[:, :-1]), both[:, -1].copy())
        self._spent += backend.sweep_cost(float(index.size) * self.n)
        # Sets whose samples all want to grow, or to shrink, cannot move: then small violators help.
        self._least = LEAST_VIOLATION if lengths.any() else 0.0
        if not lengths.any():
            return False
        moved = Variables(now.beta, now.residual, at.lower, at.upper)
        backend.move(moved, index, change, products, lengths)
        return True

    def _order(self) -> Array:
        number = self.n_sweeps // _SWEEPS_PER_ORDER % _ORDERS
        while number >= len(self._orders):
            landmarks = landmarks_of(self.n, self._rng)
            rows = self.K[self.backend.asarray(landmarks)]
            self._orders.append(neighbour_order(self.backend, rows, landmarks))
        return self._orders[number]

    # Newton steps.

    def _newton_is_due(self, state: State) -> bool:
        """Whether sweeps have cost as much as a Newton step would."""
        m = max(self._n_chosen, state.n_free)
        if m < 2 or self._spent < self._wait(m, state) * self.backend.newton_cost(m):
            return False
        return 8 * _MATRICES * m * m <= self.backend.free_bytes()

    def _wait(self, size: int, state: State) -> float:
        """The cost of sweeps before a Newton step of this size, in costs of that step."""
        small = self._n_chosen and state.violation <= self._large
        settled = small and size <= _NEARLY_FREE * state.n_free
        return min(self._wanted, _SHORT_WAIT) if settled else self._wanted

    def _newton(self, state: State, at: Variables, samples: np.ndarray, side: np.ndarray) -> bool:
        """Minimise over the free and the violating samples."""
        self._spent = 0.0
        self.n_newton += 1
        changed = self._newton_change(at, samples, side)
        if changed:
            self._after_success(self.state().violation / state.violation)
        else:
            self._after_failure()
        return changed

    def _after_success(self, ratio: float) -> None:
        """Steps that succeed follow each other at once, with a smaller proximal term if slow."""
        self._wanted, self._worked = 0.0, self._proximal
        smaller = max(self._proximal / _PROXIMAL_FALL, self._least_proximal)
        if ratio > _SLOW and smaller < self._proximal:
            self._proximal, self._system = smaller, None
        elif ratio > _VERY_SLOW:
            self._wanted = 1.0
            self._least_proximal = max(self._least_proximal / _PROXIMAL_FALL, _LEAST_PROXIMAL)

    def _after_failure(self) -> None:
        """Too many samples met a bound, or K is not definite: a larger proximal term."""
        self._system = None
        if self._proximal < self._worked:
            self._least_proximal = min(_PROXIMAL_RISE * self._proximal, self._worked)
            self._proximal = self._worked
            return
        self._proximal = min(_PROXIMAL_FALL * self._proximal, _LARGEST_PROXIMAL)
        self._wanted = min(2.0 * max(0.5, self._wanted), _LONGEST_WAIT)

    def _newton_problem(self, state: State) -> tuple[Variables, np.ndarray, np.ndarray] | None:
        """The pieces on the host, the samples that are to change, and which are at a bound.

        None where the step would cost far more than was spent on sweeps.
        """
        at = pieces(self.at.to_host(self.backend), self.kink, state)
        can_grow, can_shrink = at.beta < at.upper, at.beta > at.lower
        pull = at.residual
        free, violating = can_grow & can_shrink, np.where(pull > 0, can_grow, can_shrink)
        wanted = free | (violating & (np.abs(pull) > LEAST_VIOLATION * state.violation))
        count = int(np.count_nonzero(wanted))
        wait = self._wait(count, state)
        if wait and self.backend.newton_cost(count) > _OVERRUN * self._spent / wait:
            self._n_chosen = count
            return None
        if self._system is not None and self._system.backend is self.backend.algebra(count):
            wanted[self._system.members] = True  # they may stay in the problem: it costs nothing
        samples = np.flatnonzero(wanted)
        side = np.where(free | violating, 0, np.where(pull > 0, 1, -1))[samples]
        return at, samples, side

    def _newton_change(self, at: Variables, samples: np.ndarray, side: np.ndarray) -> bool:
        """Change β to the minimum over its bounds; the sets are found on the host."""
        algebra = self.backend.algebra(len(samples))
        if self._system is None or self._system.backend is not algebra:
            ridge = self._proximal * self._scale
            matrix = Matrix(partial(self._block, algebra, ridge), self._product, ridge)
            self._system = FreeSystem(algebra, matrix, self._should_stop)
        groups = groups_of(at, self.kink)
        found = newton_change(self._system, at, groups, samples, side, self._should_stop)
        if found is None:
            return False
        change, products, settled = found
        beta, part = at.beta.copy(), at.take(samples)
        target = np.clip(part.beta + change, part.lower, part.upper)
        beta[samples] = snap_to_bounds(target, part.lower, part.upper)
        self.at.beta[:] = self.backend.asarray(beta)
        self.at.residual -= self.backend.asarray(products)
        return settled

    def _block(
        self, algebra: Backend, ridge: float, rows: np.ndarray, columns: np.ndarray
    ) -> Array:
        block = self.backend.submatrix(self.K, rows, columns, ridge)
        return block if algebra is self.backend else self.backend.to_host(block)

    def _product(self, index: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        backend = self.backend
        return backend.to_host(
            backend.matrix_product(self.K, backend.asarray(index), backend.asarray(coefficients))
        )
