"""The grid of ``maxmargin tune``: each parameter over powers of two, or fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.cli._options import gamma_value
from maxmargin.io.files import DataError

# The largest power of two either way, and the most values of a parameter.
_MAX_EXPONENT, _MAX_VALUES = 1000, 10_000
_NOT_VARIED = "null"  # grid.py's word


@dataclass(frozen=True)
class Axis:
    """A parameter, the exponents to try or "null", and its value where it is fixed.

    `given` says that the user gave the value, which excludes exponents.
    """

    name: str
    letter: str
    option: str
    exponents: str
    value: Any
    given: bool


def cost_axis(exponents: str, C: float | None) -> Axis:
    """C; grid.py's -log2c and -c."""
    return Axis("C", "-c", "--log2c", exponents, 1.0 if C is None else C, C is not None)


def gamma_axis(kernel: str, exponents: str | None, gamma: str | None) -> Axis:
    """Gamma, where the kernel has one."""
    has_gamma = kernel in ("poly", "rbf", "sigmoid")
    exponents = exponents or ("-8,1,1" if has_gamma else _NOT_VARIED)
    if exponents != _NOT_VARIED and not has_gamma:
        raise DataError(f"--log2g: the {kernel} kernel has no gamma.")
    value = gamma_value(gamma or "scale")
    return Axis("gamma", "-g", "--log2g", exponents, value, gamma is not None)


def epsilon_axis(exponents: str | None, epsilon: float | None) -> Axis:
    """Epsilon of a regression; the -log2p of LIBSVM's gridregression.py."""
    if exponents is None:
        exponents = "-7,-1,2" if epsilon is None else _NOT_VARIED
    value = 0.1 if epsilon is None else epsilon
    return Axis("epsilon", "-p", "--log2p", exponents, value, epsilon is not None)


def grid_of(axes: list[Axis]) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """The values of the varied parameters, and of the fixed ones."""
    grid: dict[str, list[float]] = {}
    fixed: dict[str, Any] = {}
    for axis in axes:
        if axis.exponents == _NOT_VARIED:
            fixed[axis.name] = axis.value
        elif axis.given:
            raise DataError(
                f"{axis.letter}: {axis.option} varies {axis.name}; use {axis.option} null for one "
                "value."
            )
        else:
            grid[axis.name] = powers_of_two(axis.exponents, axis.option)
    if not grid:
        named = " and ".join(axis.option for axis in axes)
        raise DataError(f"{named} are all null: there is nothing to tune.")
    return grid, fixed


def powers_of_two(text: str, option: str) -> list[float]:
    """``-1,10,1`` (LIBSVM's grid.py) as 2⁻¹, 2⁰, …, 2¹⁰."""
    try:
        begin, end, step = (float(part) for part in text.split(","))
        if max(abs(begin), abs(end)) > _MAX_EXPONENT or abs(end - begin) > _MAX_VALUES * abs(step):
            raise DataError(f"{option}: {text!r} leads too far, or in too small steps.")
        exponents = np.arange(begin, end + step * 1e-9, step)
    except DataError:
        raise
    except (ValueError, ZeroDivisionError):
        raise DataError(f"{option} must be BEGIN,END,STEP or null, not {text!r}.") from None
    if not len(exponents):
        raise DataError(f"{option}: there is nothing from {begin:g} to {end:g} by {step:g}.")
    return [float(2.0**exponent) for exponent in exponents]
