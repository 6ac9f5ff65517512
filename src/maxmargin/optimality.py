"""The certificate: how far a β is from the optimum, computed from scratch in float64.

Of a solver's results only β enters here.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import numpy as np

from maxmargin.compiled import leaf
from maxmargin.problem import Problem

# Parts of its range that a β may be beyond its bound, and of Σ|β| that a sum may be off.
FEASIBLE = 1e-9
# scikit-learn's sentence for overflows.
NOT_FINITE = (
    "The dual coefficients or intercepts are not finite. The input data may contain large values "
    "and need to be preprocessed."
)
# Samples whose residual is recomputed where the residual of all was computed elsewhere.
_SPOT_CHECK = 64
# Agreement of the two, relative to Σ|β| times the largest kernel value.
_SAME = 1e-10
# The residual of another β serves where at most this part of the support moved since, and where
# Σ|β| was at most this many times larger, as its rounding was.
_MOVED = 0.5
_LARGER = 2.0


@dataclass(frozen=True, eq=False)
class Certificate:
    """Optimality of a β.

    Attributes
    ----------
    problem : the problem that it is about
    beta : the β that it is about
    residual : p − Kβ, the negative gradient; at the optimum it equals the intercept
        wherever β is strictly between its bounds (and ε away from it in a regression)
    kkt_violation : LIBSVM's stopping quantity, the maximal violating pair; infinite where β is
        not feasible
    infeasibility : how far β is beyond its bounds or off its sums, relative to their size
    objective : ½βᵀKβ − pᵀβ + ε‖β‖₁
    duality_gap : primal minus dual objective, an upper bound on the distance to the optimum
    levels : the multiplier of each sum of the problem
    """

    problem: Problem
    beta: np.ndarray
    residual: np.ndarray
    kkt_violation: float
    infeasibility: float
    objective: float
    duality_gap: float
    levels: tuple[float, ...]

    @property
    def intercept(self) -> float:
        """The constant of the decision function that goes with β."""
        return sum(self.levels) / len(self.levels)

    @property
    def feasible(self) -> bool:
        return self.infeasibility <= FEASIBLE


_issued: weakref.WeakSet[Certificate] = weakref.WeakSet()


def certify(
    problem: Problem,
    beta: np.ndarray,
    residual: np.ndarray | None = None,
    since: Certificate | None = None,
) -> Certificate:
    """Recompute everything about β from the kernel, in float64.

    A residual that was computed elsewhere (in parallel, on workers) is believed if a sample
    of it agrees with one computed here. The float64 residual of `since`, which was issued for
    another β of this problem, is no less exact than one from scratch: where few samples moved
    since then, their kernel values in float64 are all that is computed.
    """
    support = np.flatnonzero(beta)
    if residual is None or not _agrees(problem, beta, support, residual):
        known, change = problem.linear, beta
        if since is not None and _serves(since, problem, beta, len(support)):
            known, change = since.residual, beta - since.beta
        moved = np.flatnonzero(change)
        residual = known - problem.kernel.multiply(moved, change[moved], precise=True)
    certificate = certificate_from(problem, beta, residual)
    _issued.add(certificate)
    return certificate


def _serves(since: Certificate, problem: Problem, beta: np.ndarray, n_support: int) -> bool:
    """Whether the residual of a certificate is a good start for that of another β."""
    if since not in _issued or not _is_same(since.problem, problem):
        return False
    few = np.count_nonzero(beta != since.beta) <= _MOVED * n_support
    return bool(few and np.abs(since.beta).sum() <= _LARGER * np.abs(beta).sum())


def is_issued(certificate: Certificate | None, problem: Problem, beta: np.ndarray) -> bool:
    """Whether `certify` made this certificate, for this problem and this very β."""
    return (
        certificate is not None
        and certificate in _issued
        and _is_same(certificate.problem, problem)
        and (certificate.beta is beta or np.array_equal(certificate.beta, beta))
    )


def _is_same(one: Problem, other: Problem) -> bool:
    """Whether two problems are the same, but for a copy of the kernel's values in memory."""
    if one is other:
        return True
    return (
        one.kernel.source is other.kernel.source
        and one.linear is other.linear
        and one.lower is other.lower
        and one.upper is other.upper
        and (one.epsilon, one.totals) == (other.epsilon, other.totals)
    )


def _agrees(problem: Problem, beta, support: np.ndarray, residual: np.ndarray) -> bool:
    if residual.shape != beta.shape or not np.isfinite(residual).all():
        return False
    few = np.arange(0, problem.n, max(1, problem.n // _SPOT_CHECK))
    product = problem.kernel.multiply(support, beta[support], rows=few, precise=True)
    exact = problem.linear[few] - product
    scale = np.abs(beta).sum() * max(1.0, float(np.abs(problem.kernel.diagonal()).max()))
    return bool((np.abs(exact - residual[few]) <= _SAME * scale).all())


def certificate_from(problem: Problem, beta: np.ndarray, residual: np.ndarray) -> Certificate:
    """An estimate of the certificate of β, as good as the given p − Kβ."""
    lower, upper, epsilon, by_sign = problem.lower, problem.upper, problem.epsilon, problem.by_sign
    infeasibility = infeasibility_of(beta, lower, upper, problem.totals)
    violation, levels = violation_and_levels(beta, residual, lower, upper, epsilon, by_sign)
    if not np.isfinite(levels[0] + levels[-1]):
        raise ValueError(NOT_FINITE)
    if infeasibility > FEASIBLE:
        violation = np.inf
    objective = problem.objective(beta, residual)
    gap = gap_of(beta, residual, lower, upper, epsilon, levels[0], levels[-1])
    return Certificate(problem, beta, residual, violation, infeasibility, objective, gap, levels)


def infeasibility_of(beta: np.ndarray, lower, upper, totals: tuple[float, ...] = (0.0,)) -> float:
    """How far β is beyond its bounds or off its sums, relative to their size; 0 if feasible."""
    beyond, total, positive, negative = feasibility(beta, lower, upper)
    if not np.isfinite(total):
        return np.inf
    sums = (positive, negative) if len(totals) == 2 else (total,)
    scale = max(positive - negative, *map(abs, totals))
    off = max(abs(s - t) for s, t in zip(sums, totals, strict=True))
    return max(beyond, off / scale if off > 0 else 0.0)


@leaf()
def feasibility(beta, lower, upper):
    """Largest part of its range that a β is beyond its bound; Σβ, Σβ⁺, Σβ⁻."""
    beyond, positive, negative, total = 0.0, 0.0, 0.0, 0.0
    for t in range(beta.size):
        value = beta[t]
        over = max(lower[t] - value, value - upper[t])
        if over > 0.0:
            width = upper[t] - lower[t]
            beyond = max(beyond, over / width if width > 0.0 else np.inf)
        total += value
        if value > 0.0:
            positive += value
        else:
            negative += value
    return beyond, total, positive, negative


@leaf()
def gap_of(beta, residual, lower, upper, epsilon, positive_level, negative_level):
    """The part of the duality gap due to some samples: what each could still gain alone.

    For fixed multipliers of the sums, a sample's part of the Lagrangian is piecewise
    linear in its β; its largest value is at a bound or at zero.
    """
    gap = 0.0
    for t in range(beta.size):
        up = residual[t] - positive_level - epsilon
        down = residual[t] - negative_level + epsilon
        most = max(up * upper[t] if upper[t] > 0.0 else 0.0, 0.0)
        most = max(down * lower[t] if lower[t] < 0.0 else 0.0, most)
        gap += most - (up if beta[t] > 0.0 else down) * beta[t]
    return gap


def violation_and_levels(
    beta: np.ndarray,
    residual: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    epsilon: float = 0.0,
    by_sign: bool = False,
) -> tuple[float, tuple[float, ...]]:
    """The maximal violating pair of β, and the multiplier of each sum that p − Kβ implies.

    A sample whose β can grow pulls the multiplier above its residual, one whose β can
    shrink below; the pair that pulls hardest is the violation. The multiplier is the mean
    residual of the free samples (where 0 < α < C), as in LIBSVM, or the middle of the
    interval that the others leave.
    """
    found = extremes(beta, residual, lower, upper, epsilon, by_sign)
    if not by_sign:
        violation, level = pair_and_level(*found[:4])
        return violation, (level,)
    first, second = pair_and_level(*found[:4]), pair_and_level(*found[4:])
    return max(first[0], second[0]), (first[1], second[1])


def violation_of(
    problem: Problem, beta: np.ndarray, residual: np.ndarray
) -> tuple[float, tuple[float, ...]]:
    """The same for the samples of a problem."""
    return violation_and_levels(
        beta, residual, problem.lower, problem.upper, problem.epsilon, problem.by_sign
    )


@leaf()
def pair_and_level(highest, lowest, total, n_free):
    """The violation of the maximal pair, and the multiplier that goes with it."""
    level = total / n_free if n_free else 0.5 * (highest + lowest)
    if np.isinf(level):  # no sample can grow, or none can shrink
        level = highest if np.isfinite(highest) else lowest
        level = level if np.isfinite(level) else 0.0
    elif np.isnan(level):
        level = 0.0 if np.isinf(highest) else np.nan
    return max(0.0, highest - lowest), level


@leaf()
def extremes(beta, residual, lower, upper, epsilon, by_sign):
    """Highest residual of samples that can grow, lowest of samples that can shrink, and the sum
    and number of the free ones; then the same of the second sum.

    A β at zero leaves a tube of half-width ε on either side of its residual.
    """
    highest, lowest, total, n_free = -np.inf, np.inf, 0.0, 0
    highest_negative, lowest_negative, total_negative, n_free_negative = -np.inf, np.inf, 0.0, 0
    kinked = by_sign or epsilon > 0.0
    for t in range(beta.size):
        value, b = residual[t], beta[t]
        if value != value:  # an overflow: no multiplier goes with it
            return np.nan, np.nan, np.nan, 1, np.nan, np.nan, np.nan, 1
        can_grow, can_shrink = b < upper[t], b > lower[t]
        if can_grow:
            if b >= 0.0 or not by_sign:
                highest = max(highest, value - epsilon if b >= 0.0 else value + epsilon)
            else:
                highest_negative = max(highest_negative, value + epsilon)
        if can_shrink:
            if b > 0.0 or not by_sign:
                lowest = min(lowest, value - epsilon if b > 0.0 else value + epsilon)
            else:
                lowest_negative = min(lowest_negative, value + epsilon)
        if can_grow and can_shrink and (b != 0.0 or not kinked):
            if b > 0.0 or not by_sign:
                total += value - epsilon if b > 0.0 else value + epsilon
                n_free += 1
            else:
                total_negative += value + epsilon
                n_free_negative += 1
    return (
        highest, lowest, total, n_free,
        highest_negative, lowest_negative, total_negative, n_free_negative,
    )  # fmt: skip
