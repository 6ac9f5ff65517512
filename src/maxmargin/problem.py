"""The dual quadratic problem that every solver solves: mathematics, and nothing about a run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from maxmargin.kernels.interface import KernelMatrix

# Part of Σ|β| that rounding may make of a sum of β: some tens of units in the last place.
ROUNDING_OF_SUM = 1e-14
# Part of its range, or of the largest |β| where that is less, within which a β is put on its bound.
ROUNDING_OF_BOUND = 1e-12
# The fractional parts of its multiples are spread evenly, for any number of them.
GOLDEN = 0.6180339887498949


@dataclass(frozen=True, eq=False)
class Problem:
    """minimise ½ βᵀKβ − pᵀβ + ε‖β‖₁  subject to  lower ≤ β ≤ upper  and fixed sums of β.

    This is the dual of every support vector machine in its signed form: β = yα for
    classifiers, β = α − α* for regression. The formulations differ in p, the bounds, ε and
    the sums. Every interval [lower, upper] contains zero.

    Attributes
    ----------
    kernel : the matrix K
    linear, lower, upper : float64 arrays of length n
    epsilon : half the width of the tube of a regression, else 0
    totals : one number, Σβ; or two, the sum of the positive β and the sum of the negative β
        (the formulations with ν, whose two sums have a multiplier each)
    limited : whether the two sums are but limits, and ‖β‖₁ may be less. A solver may take them
        as fixed; where it finds them slack, it need not go on, see `Solution.within_limits`
    labels : class number of each sample, None where there are no classes. It is not part of
        the mathematics: solvers that divide the samples class by class need it
    """

    kernel: KernelMatrix
    linear: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    epsilon: float = 0.0
    totals: tuple[float, ...] = (0.0,)
    limited: bool = False
    labels: np.ndarray | None = None

    @property
    def n(self) -> int:
        return self.kernel.n

    @property
    def by_sign(self) -> bool:
        """Whether positive and negative β have a sum each."""
        return len(self.totals) == 2

    @property
    def kinked(self) -> bool:
        """Whether zero is a kink, where the objective or the sums pass from piece to piece."""
        return self.epsilon > 0 or self.by_sign

    def feasible(self, beta: np.ndarray | None = None) -> np.ndarray:
        """A new feasible β near the given one; without one, a β with few non-zeros."""
        if beta is None:
            if not any(self.totals):
                return np.zeros(self.n)
            return filled(self.linear, self.lower, self.upper, self.totals)
        if self.epsilon:  # samples at the kink stay there, if the others can make up the sum
            lower, upper = self.pieces(beta)
            near = nearest_feasible(beta, lower, upper, self.totals)
            if abs(near.sum() - self.totals[0]) <= ROUNDING_OF_SUM * np.abs(near).sum():
                return near
        return nearest_feasible(beta, self.lower, self.upper, self.totals)

    def pieces(
        self, beta: np.ndarray, index: np.ndarray | slice = slice(None)
    ) -> tuple[np.ndarray, np.ndarray]:
        """The bounds within which the objective is quadratic, of the samples `index` at `beta`.

        Without a kink they are the bounds themselves. With one, a β does not pass through zero;
        at zero there is no slack at all, since nothing says on which side.
        """
        lower, upper = self.lower[index], self.upper[index]
        if not self.kinked:
            return lower, upper
        return np.where(beta < 0, lower, 0.0), np.where(beta > 0, upper, 0.0)

    def slopes(self, beta: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """The negative gradient at samples that are not zero: p − Kβ, less ε on their side."""
        return residual - self.epsilon * np.sign(beta) if self.epsilon else residual

    def groups(self, beta: np.ndarray) -> np.ndarray | None:
        """Which sum each of these samples, none of them zero, belongs to: a column per sum.

        None where they all belong to one.
        """
        if not self.by_sign or (beta > 0).all() or (beta < 0).all():
            return None
        return np.column_stack([beta > 0, beta < 0]).astype(np.float64)

    def objective(self, beta: np.ndarray, residual: np.ndarray) -> float:
        """½βᵀKβ − pᵀβ + ε‖β‖₁, from p − Kβ: βᵀKβ is βᵀ(p − residual)."""
        value = -0.5 * float(beta @ (self.linear + residual))
        return value + self.epsilon * float(np.abs(beta).sum()) if self.epsilon else value

    def decrease(self, beta: np.ndarray, new: np.ndarray, residual, new_residual) -> float:
        """How much the objective falls from one β to another, with the residual of each."""
        value = 0.5 * float((new - beta) @ (residual + new_residual))
        if self.epsilon:
            value -= self.epsilon * float(np.abs(new).sum() - np.abs(beta).sum())
        return value

    def residual_of(self, beta: np.ndarray) -> np.ndarray:
        """p − Kβ, from scratch in the precision of the kernel's rows."""
        support = np.flatnonzero(beta)
        if len(support) == 0:
            return self.linear.copy()
        return self.linear - self.kernel.multiply(support, beta[support])

    def restrict(self, index: np.ndarray, beta: np.ndarray | None = None) -> Problem:
        """The problem of a subset of the samples, the others being held at `beta`, or at zero.

        The linear term stays: the effect of the other samples is in the residual. Sums that are
        limits remain so where the others have found their place, not where they wait at zero.
        """
        return replace(
            self,
            kernel=self.kernel.restrict(index),
            linear=self.linear[index],
            lower=self.lower[index],
            upper=self.upper[index],
            totals=self.totals if beta is None else self._totals_left(index, beta),
            limited=self.limited and beta is not None,
            labels=None if self.labels is None else self.labels[index],
        )

    def _totals_left(self, index: np.ndarray, beta: np.ndarray) -> tuple[float, ...]:
        held = beta.copy()
        held[index] = 0.0
        return tuple(t - s for t, s in zip(self.totals, sums_of(held, self.by_sign), strict=True))


def sums_of(beta: np.ndarray, by_sign: bool) -> tuple[float, ...]:
    """The sums of β that a problem fixes."""
    if not by_sign:
        return (float(beta.sum()),)
    return float(np.maximum(beta, 0.0).sum()), float(np.minimum(beta, 0.0).sum())


def filled(linear, lower, upper, totals: tuple[float, ...]) -> np.ndarray:
    """A β with few samples that are not zero, at their bounds but for one per sum.

    Samples with the largest p come first on the positive side, samples with the least on the
    negative one; among equals they are scattered over the set, which may be in some order.
    """
    n = len(linear)
    scattered = (np.arange(n) * GOLDEN) % 1.0
    order = np.lexsort((scattered, -linear))
    if len(totals) == 1:
        totals = (max(totals[0], 0.0), min(totals[0], 0.0))
    return _fill(order, upper, totals[0]) - _fill(order[::-1], -lower, -totals[1])


def _fill(order: np.ndarray, capacity: np.ndarray, total: float) -> np.ndarray:
    """As much of each capacity as it takes to reach the total, in that order."""
    before = np.cumsum(capacity[order]) - capacity[order]
    beta = np.zeros(len(capacity))
    beta[order] = np.clip(total - before, 0.0, capacity[order])
    return beta


def nearest_feasible(
    beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, totals: tuple[float, ...] = (0.0,)
) -> np.ndarray:
    """A β near the given one, within its bounds and with the given sums."""
    if len(totals) == 1:
        return _with_sum(beta, lower, upper, totals[0])
    on_positive = _sides(beta, lower, upper, totals)
    zero = np.zeros(len(beta))
    positive = _with_sum(beta, zero, np.where(on_positive, upper, 0.0), totals[0])
    return positive + _with_sum(beta, np.where(on_positive, 0.0, lower), zero, totals[1])


def _sides(beta, lower, upper, totals: tuple[float, ...]) -> np.ndarray:
    """Which samples may be positive; the others may be negative.

    A sample stays on the side of its sign, unless the other side is too small for its sum:
    then samples with the smallest |β| change sides.
    """
    on_positive = (beta > 0) | ((beta == 0) & (upper >= -lower))
    order = np.argsort(np.abs(beta), kind="stable")
    for side, bounds, total in ((True, upper, totals[0]), (False, -lower, -totals[1])):
        missing = total - bounds[on_positive == side].sum()
        if missing > 0:
            others = order[on_positive[order] != side]
            enough = int(np.searchsorted(np.cumsum(bounds[others]), missing)) + 1
            on_positive[others[:enough]] = side
    return on_positive


def _with_sum(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: float) -> np.ndarray:
    """A β within its bounds whose sum is `total`.

    A β within rounding of a bound is put on it. The surplus is taken from the samples
    between their bounds in proportion to their slack, and only if that is not enough
    from the others.
    """
    beta = snap_to_bounds(np.clip(beta, lower, upper), lower, upper)
    free = (beta > lower) & (beta < upper)
    for movable in (free, np.ones_like(free)):
        surplus = beta.sum() - total
        slack = np.where(movable, beta - lower if surplus > 0 else beta - upper, 0.0)
        available = slack.sum()
        # A surplus within rounding stays: to remove it would take samples off their bounds.
        if abs(surplus) > ROUNDING_OF_SUM * np.abs(beta).sum() and available != 0:
            beta = beta - slack * min(1.0, surplus / available)
    return beta


def snap_to_bounds(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The same β, with values within rounding of a bound put on it.

    A bound may be as far away as that of a hard margin: rounding is measured by β, too.
    """
    near = ROUNDING_OF_BOUND * np.minimum(upper - lower, np.abs(beta).max(initial=0.0))
    beta = np.where(np.abs(beta - upper) <= near, upper, beta)
    return np.where(np.abs(beta - lower) <= near, lower, beta)
