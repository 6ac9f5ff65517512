"""Pictures as SVG for the page about a fit: curves over time, and the errors of a regression."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_POINTS = 1500  # drawn; more cannot be told apart
_BINS = 31  # bars of a histogram
_DOTS = 40  # points of a curve that are still marked one by one
_TICKS = 5  # at most, on an axis


@dataclass(frozen=True)
class _Plane:
    """A picture with two axes: where values are on it, and its lines and numbers.

    With `logarithmic`, `y_range` are exponents of ten.
    """

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    name: str
    x_name: str
    logarithmic: bool = False
    width = 460
    height = 300
    left = 62
    right = 16
    top = 24
    bottom = 44

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (self.width - self.left - self.right) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        if self.logarithmic:
            value = math.log10(max(value, 10.0**low))
        return self.top + (self.height - self.top - self.bottom) * (high - value) / (high - low)

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
        return (
            f'<line class="{kind}" x1="{self.x(start[0]):.1f}" y1="{self.y(start[1]):.1f}" '
            f'x2="{self.x(end[0]):.1f}" y2="{self.y(end[1]):.1f}"/>'
        )

    def level(self, value: float, kind: str) -> str:
        """A line across the picture."""
        return self.line((self.x_range[0], value), (self.x_range[1], value), kind)

    def svg(self, body: str) -> str:
        parts = [f'<text x="4" y="12">{self.name}</text>']
        for tick in _ticks(*self.y_range, self.logarithmic):
            parts.append(self.level(tick, "axis"))
            at = f'x="{self.left - 6}" y="{self.y(tick) + 4:.1f}"'
            parts.append(f'<text {at} text-anchor="end">{tick:.4g}</text>')
        for tick in _ticks(*self.x_range, False):
            anchor = "end" if self.x(tick) > self.width - 2 * self.right else "middle"
            at = f'x="{self.x(tick):.1f}" y="{self.height - self.bottom + 16}"'
            parts.append(f'<text {at} text-anchor="{anchor}">{tick:.4g}</text>')
        at = f'x="{self.width - self.right}" y="{self.height - 8}"'
        parts.append(f'<text {at} text-anchor="end">{self.x_name}</text>')
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{self.name} over {self.x_name}">{"".join(parts)}{body}</svg>'
        )


def time_chart(
    curves: list[list[tuple[float, float]]],
    name: str,
    *,
    logarithmic: bool = False,
    tol: float | None = None,
) -> str:
    """Curves of (seconds, value); with a line at `tol`, which must be positive."""
    values = [value for curve in curves for _, value in curve] + ([tol] if tol else [])
    if logarithmic:  # from one power of ten to another
        floor = min((value for value in values if value > 0), default=1.0)
        exponents = [math.log10(max(value, floor)) for value in values]
        values = [math.floor(min(exponents) + 1e-9), math.ceil(max(exponents) - 1e-9)]
    end = max(max(seconds for seconds, _ in curve) for curve in curves) or 1.0
    plane = _Plane((0.0, end), _range(np.array(values)), name, "seconds", logarithmic)
    parts = []
    if tol:
        at = f'x="{plane.width - plane.right}" y="{plane.y(tol) - 4:.1f}"'
        parts.append(plane.level(tol, "tol") + f'<text {at} text-anchor="end">tol {tol:g}</text>')
    for colour, curve in enumerate(curves):
        places = [(f"{plane.x(seconds):.1f}", f"{plane.y(value):.1f}") for seconds, value in curve]
        points = " ".join(",".join(place) for place in places)
        parts.append(f'<polyline style="stroke:var(--c{colour})" points="{points}"/>')
        if len(places) <= _DOTS:
            dots = "".join(
                f'<circle cx="{across}" cy="{down}" r="2.5"/>' for across, down in places
            )
            parts.append(f'<g style="fill:var(--c{colour})">{dots}</g>')
    return plane.svg("".join(parts))


def error_charts(y: np.ndarray, predicted: np.ndarray, tube: float | None) -> str:
    """Predictions against the truth, and how often errors of each size occur.

    `tube` is the ε of the regression, drawn on both, or None.
    """
    finite = np.isfinite(y) & np.isfinite(predicted)
    if not finite.any():
        return ""
    y, predicted = y[finite], predicted[finite]
    return (
        f'<div class="charts">{_scatter(y, predicted, tube)}{_histogram(y, predicted, tube)}</div>'
    )


def _scatter(y: np.ndarray, predicted: np.ndarray, tube: float | None) -> str:
    low, high = _range(np.concatenate([y, predicted]))
    plane = _Plane((low, high), (low, high), "prediction", "truth")
    parts = [plane.line((low, low), (high, high), "tol")]
    for shift in (-tube, tube) if tube and tube < high - low else ():
        start, end = max(low, low - shift), min(high, high - shift)
        parts.append(plane.line((start, start + shift), (end, end + shift), "axis"))
    shown = np.linspace(0, len(y) - 1, min(len(y), _POINTS)).astype(int)
    dots = "".join(
        f'<circle cx="{plane.x(y[at]):.1f}" cy="{plane.y(predicted[at]):.1f}" r="2"/>'
        for at in shown
    )
    return plane.svg("".join(parts) + f'<g style="fill:var(--c0);opacity:.6">{dots}</g>')


def _histogram(y: np.ndarray, predicted: np.ndarray, tube: float | None) -> str:
    errors = predicted - y
    low, high = _range(np.append(errors, 0.0))
    counts, edges = np.histogram(errors, bins=_BINS, range=(low, high))
    plane = _Plane((low, high), (0.0, 1.1 * float(counts.max())), "samples", "prediction − truth")
    bars = "".join(
        f'<rect x="{plane.x(left):.1f}" y="{plane.y(count):.1f}" '
        f'width="{max(0.5, plane.x(right) - plane.x(left) - 1):.1f}" '
        f'height="{plane.y(0.0) - plane.y(count):.1f}"></rect>'
        for left, right, count in zip(edges[:-1], edges[1:], counts.tolist())
        if count
    )
    marks = "".join(
        plane.line((at, 0.0), (at, plane.y_range[1]), "tol")
        for at in ((-tube, tube) if tube else (0.0,))
        if low <= at <= high
    )
    return plane.svg(f'<g style="fill:var(--c0)">{bars}</g>{marks}')


def _range(values: np.ndarray) -> tuple[float, float]:
    """From the least value to the largest, and never from a number to itself."""
    low, high = float(values.min()), float(values.max())
    if high - low <= 1e-12 * max(1.0, abs(low), abs(high)):
        return low - 0.5, high + 0.5
    return low, high


def _ticks(lowest: float, highest: float, logarithmic: bool) -> list[float]:
    """Round numbers between the ends; powers of ten on a logarithmic scale."""
    if logarithmic:
        powers = range(math.ceil(lowest - 1e-9), math.floor(highest + 1e-9) + 1)
        return [10.0**power for power in powers[:: max(1, len(powers) // 6)]]
    span = highest - lowest
    power = 10.0 ** math.floor(math.log10(span / 2))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= _TICKS)
    first = math.ceil(lowest / step - 1e-9)
    last = math.floor(highest / step + 1e-9)
    return [float(f"{at * step:.12g}") for at in range(first, last + 1)]
