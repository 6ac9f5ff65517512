"""Pictures of the errors of a regression as SVG, for the page about a fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin._html_chart import _ticks

_POINTS = 1500  # drawn; more cannot be told apart
_BINS = 31


@dataclass(frozen=True)
class _Plane:
    """A picture with two axes: where values are on it, and its lines and numbers."""

    x_range: tuple[float, float]
    y_range: tuple[float, float]
    name: str
    x_name: str
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
        return self.top + (self.height - self.top - self.bottom) * (high - value) / (high - low)

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> str:
        return (
            f'<line class="{kind}" x1="{self.x(start[0]):.1f}" y1="{self.y(start[1]):.1f}" '
            f'x2="{self.x(end[0]):.1f}" y2="{self.y(end[1]):.1f}"/>'
        )

    def svg(self, body: str) -> str:
        parts = [f'<text x="4" y="12">{self.name}</text>']
        for tick in _ticks(*self.y_range, False):
            parts.append(self.line((self.x_range[0], tick), (self.x_range[1], tick), "axis"))
            at = f'x="{self.left - 6}" y="{self.y(tick) + 4:.1f}"'
            parts.append(f'<text {at} text-anchor="end">{tick:.4g}</text>')
        for tick in _ticks(*self.x_range, False):
            at = f'x="{self.x(tick):.1f}" y="{self.height - self.bottom + 16}"'
            parts.append(f'<text {at} text-anchor="middle">{tick:.4g}</text>')
        at = f'x="{self.width - self.right}" y="{self.height - 8}"'
        parts.append(f'<text {at} text-anchor="end">{self.x_name}</text>')
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{self.name} over {self.x_name}">{"".join(parts)}{body}</svg>'
        )


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
