"""Labels from decision values in float32, where they prove what float64 values would say.

Most samples are so far from the boundaries that half of the digits decide, and these take half of
the time. The proof is a bound on the error of every decision value of the RBF kernel.

With the rounding unit u, terms of relative error at most nu/(1 − nu) after n roundings, and
squared norms summed in float64, the exponent −γ‖a − b‖² of a sample a of d features and a support
vector b is off by at most

    γ (2 (d + 3) u ‖a‖ ‖b‖ + 6 u (‖a‖ + ‖b‖)²),

and a kernel value by that part of itself, and by 4u for the exponential. The sum over m support
vectors adds m + 4 roundings. So the error of a decision value is at most a small part t of the
sum of all |coefficient| · kernel value, which is computed beside the values. A long support vector
has a larger part: it counts for (‖b‖ / mean length)² of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin._decision_leaves import certain_votes
from maxmargin.coefficients import Coefficients
from maxmargin.kernels.buffers import thread_scratch
from maxmargin.kernels.functions import KernelFunction
from maxmargin.kernels.samples.mapped import MappedSamples
from maxmargin.kernels.tiles import cancels, kernel_tile

# Rounding units.
_SINGLE, _DOUBLE = 2.0**-24, 2.0**-53
# Largest part of itself by which a kernel value may be off: up to here exp(x) − 1 ≤ x (1 + x), and
# (1 + x)² (1 + 2x), for sums of values that are too small themselves, is at most 1 + 5x.
_LARGEST_PART = 1 / 8
# For the rounding of the bound itself, and for the error of the float64 values.
_MARGIN = 1 + 2.0**-8
# Within these limits no number of float32 overflows, and what underflows is below _UNDERFLOW.
_LARGEST_GAMMA = 2.0**60
_LARGEST_COEFFICIENTS = 2.0**100
_UNDERFLOW = 2.0**-120
# Sure wins of a class are counted in 15 bits.
_MOST_CLASSES = 2**15


class SinglePrecision:
    """The decision values of a model of RBF kernels in float32, and how far they may be off.

    Parameters
    ----------
    basis : the support vectors in float64
    intercept : array of shape (n_tasks, 1)
    """

    def __init__(self, function: KernelFunction, basis, coefficients: Coefficients, intercept):
        mean = float(basis.norms.mean())
        shares = np.maximum(1.0, basis.norms / mean) if mean > 0 else np.ones(basis.n)
        weights = shares * coefficients.largest()
        self._function, self._basis = function, basis
        self._mean_length, self._largest_share = np.sqrt(mean), float(shares.max())
        self._coefficients = coefficients.weighted(weights)
        rounded: Any = basis.rounded()
        self._parts = [rounded.part(chunk) for chunk in self._coefficients]
        self._largest_sums = self._coefficients.by_class(weights)[:, np.newaxis]
        self._intercept = intercept.astype(np.float32)
        # What rounding of the intercepts and underflow may add to the error of each task.
        underflow = _UNDERFLOW * (weights.sum() + basis.n)
        self._offsets = {
            unit: (4 * unit * np.abs(intercept[:, 0]) + underflow).astype(dtype)
            for unit, dtype in ((_SINGLE, np.float32), (_DOUBLE, np.float64))
        }

    @classmethod
    def of(
        cls, function: KernelFunction, basis, coefficients: Coefficients, intercept
    ) -> SinglePrecision | None:
        """None where the bound does not hold, or is too large for a typical sample."""
        known = function.name == "rbf" and 1 / _LARGEST_GAMMA < function.gamma < _LARGEST_GAMMA
        sizes = np.abs(intercept).max(), coefficients.largest().sum() * basis.n
        few = len(coefficients.n_support) < _MOST_CLASSES
        if not known or not few or not max(sizes) < _LARGEST_COEFFICIENTS:
            return None
        if isinstance(basis, MappedSamples) or cancels(function, basis):
            return None
        found = cls(function, basis, coefficients, intercept)
        typical = found._relative_error(np.array([found._mean_length**2]), _SINGLE)
        return found if np.isfinite(typical).all() else None

    def labels(self, rows, form: str) -> tuple[np.ndarray, np.ndarray]:
        """Labels of some rows, and which of them float64 values have for certain."""
        samples = self._basis.like(rows)
        own, sums = samples.rounded(), self._coefficients
        shape = self._largest_sums.shape[0], samples.n
        tile = thread_scratch("decisions").array((sums.n_tasks, samples.n), np.float32)
        magnitudes = thread_scratch("magnitudes").array(shape, np.float32)
        sums.clear(tile, magnitudes)
        for place, vectors in enumerate(self._parts):
            values = kernel_tile(self._function, vectors, own, slice(0, own.n))
            sums.add(place, values, tile, magnitudes)
        tile += self._intercept
        magnitudes *= self._relative_error(samples.norms, _SINGLE).astype(np.float32)
        return _judge(tile, magnitudes, self._offsets[_SINGLE], form)

    def judge(self, tile: np.ndarray, rows, form: str) -> tuple[np.ndarray, np.ndarray]:
        """The same from float64 values: which labels do not depend on the order of sums."""
        errors = 2.0 * self._relative_error(self._basis.like(rows).norms, _DOUBLE)
        return _judge(tile, self._largest_sums * errors, 2.0 * self._offsets[_DOUBLE], form)

    def _relative_error(self, norms: np.ndarray, unit: float) -> np.ndarray:
        """The largest error of decision values, in parts of the magnitudes; infinite if unknown."""
        gamma, typical, share = self._function.gamma, self._mean_length, self._largest_share
        of_products = 2.0 * _roundings(self._basis.terms_of_product + 3, unit)
        # A polynomial of the length of a sample: few passes over few numbers take as long as
        # their kernel values.
        part = np.sqrt(norms) * (gamma * typical * (of_products + 12 * unit))
        part += gamma * 6 * unit * norms
        part += gamma * 6 * unit * typical**2 + _roundings(
            self._coefficients.terms_of_sum + 8, unit
        )
        error = part * (_MARGIN + 5 * _MARGIN * share * part)
        error[~(part <= _LARGEST_PART / share)] = np.inf
        return error


def _roundings(n: int, unit: float) -> float:
    """The relative error of n roundings."""
    return n * unit / (1 - n * unit) if n * unit < 0.5 else np.inf


def _judge(
    tile: np.ndarray, errors: np.ndarray, offsets: np.ndarray, form: str
) -> tuple[np.ndarray, np.ndarray]:
    """Labels in the form "votes" or "largest", and which of them no error can change.

    Parameters
    ----------
    errors : array of shape (n_classes, n_samples) for votes of pairs, else (1, n_samples)
    """
    if len(tile) > 1 and form == "votes":
        return certain_votes(tile, len(errors), errors, offsets)
    errors = errors + offsets[:, np.newaxis]
    if len(tile) == 1:
        return label_of_two(tile), np.abs(tile[0]) > errors[0]
    best, every = tile.argmax(axis=0), np.arange(tile.shape[1])
    least = (tile - errors)[best, every]
    most = tile + errors
    most[best, every] = -np.inf
    return best, least > most.max(axis=0)


def label_of_two(tile: np.ndarray) -> np.ndarray:
    """The first of two classes where their values, of shape (1, n_samples), are positive."""
    return np.where(tile[0] > 0, 0, 1)
