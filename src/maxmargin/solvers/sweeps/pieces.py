"""The smooth pieces of a problem with a kink at zero: a tube, or a sum for each sign.

Within a sweep or a Newton step no β passes through zero, so each is about a quadratic problem
under bounds; which piece a β at zero is on is decided anew before each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# An array of NumPy or CuPy.
Array = Any


@dataclass(frozen=True)
class Kink:
    """What is not smooth at zero.

    Attributes
    ----------
    epsilon : half the width of the tube
    by_sign : whether positive and negative β have a sum each
    """

    epsilon: float = 0.0
    by_sign: bool = False


@dataclass(frozen=True)
class State:
    """Where a solve stands.

    Attributes
    ----------
    violations, levels : of each sum of β, LIBSVM's violation and the multiplier
    n_free : number of free samples
    """

    violations: tuple[float, ...]
    levels: tuple[float, ...]
    n_free: int

    @property
    def violation(self) -> float:
        return max(self.violations)

    @property
    def intercept(self) -> float:
        return sum(self.levels) / len(self.levels)

    @property
    def worst(self) -> int:
        """The sum with the larger violation."""
        return int(np.argmax(self.violations))

    @classmethod
    def of(cls, extremes: Array, by_sign: bool) -> State:
        """From what `optimality.extremes` returns."""
        found = np.asarray(extremes, np.float64).reshape(2, 4)[: 1 + by_sign]
        pairs = [_violation_and_level(*side) for side in found]
        return cls(
            tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs),
            int(found[:, 3].sum()),
        )  # fmt: skip


def _violation_and_level(highest, lowest, total, n_free) -> tuple[float, float]:
    if np.isinf(highest) or np.isinf(lowest):
        level = highest if np.isfinite(highest) else lowest
        return 0.0, float(level) if np.isfinite(level) else 0.0
    middle = total / n_free if n_free else 0.5 * (highest + lowest)
    # Outside the interval of the pair no sample of one side would violate.
    middle = min(max(middle, min(highest, lowest)), max(highest, lowest))
    return max(0.0, float(highest - lowest)), float(middle)


@dataclass
class Variables:
    """β, its bounds and the residual p − Kβ, as arrays of the backend in float64."""

    beta: Array
    residual: Array
    lower: Array
    upper: Array

    def to_host(self, backend) -> Variables:
        arrays = (self.beta, self.residual, self.lower, self.upper)
        return Variables(*(backend.to_host(array) for array in arrays))

    def take(self, index: Array) -> Variables:
        return Variables(
            self.beta[index], self.residual[index], self.lower[index], self.upper[index]
        )


def pieces(at: Variables, kink: Kink, state: State, only: int | None = None) -> Variables:
    """The same β with the bounds of their pieces, and the pulls instead of the residuals.

    A pull is the residual less tube and multiplier of its sum: β should grow where it is
    positive. A β at zero is on the side that pulls harder. With `only`, the samples of the
    other sum are held.
    """
    up = at.residual - kink.epsilon - state.levels[0]
    if not kink.by_sign and not kink.epsilon:
        return Variables(at.beta, up, at.lower, at.upper)
    down = at.residual + kink.epsilon - state.levels[-1]
    undecided = (at.beta == 0) & (at.upper > 0)
    positive = (at.beta > 0) | (undecided & ((at.lower >= 0) | (up >= -down)))
    lower, upper = np.where(positive, 0.0, at.lower), np.where(positive, at.upper, 0.0)
    if only is not None:
        held = positive != (only == 0)
        lower, upper = np.where(held, at.beta, lower), np.where(held, at.beta, upper)
    return Variables(at.beta, np.where(positive, up, down), lower, upper)


def groups_of(part: Variables, kink: Kink) -> np.ndarray:
    """The number of the sum that each sample belongs to, from the bounds of its piece."""
    if not kink.by_sign:
        return np.zeros(len(part.beta), np.int64)
    return np.where(part.upper > 0, 0, 1)
