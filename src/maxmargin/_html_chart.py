"""A line chart as SVG, for the page about a fit."""

from __future__ import annotations

import math

_DOTS = 40  # points of a curve that are still marked one by one
_TICKS = 5  # at most, on an axis


def chart(
    curves: list[list[tuple[float, float]]],
    name: str,
    *,
    logarithmic: bool = False,
    level: float | None = None,
) -> str:
    """A line chart as SVG."""
    width, height, left, right, top, bottom = 460, 250, 62, 16, 24, 28
    values = [value for curve in curves for _, value in curve] + ([level] if level else [])
    if logarithmic:
        floor = min((value for value in values if value > 0), default=1.0)
        values = [math.log10(max(value, floor)) for value in values]
    lowest, highest = min(values), max(values)
    if logarithmic:  # from one power of ten to another
        lowest, highest = math.floor(lowest + 1e-9), math.ceil(highest - 1e-9)
        floor = 10.0**lowest
    if highest - lowest < 1e-12 * max(1.0, abs(highest)):
        lowest, highest = lowest - 0.5, highest + 0.5
    end = max(max(seconds for seconds, _ in curve) for curve in curves) or 1.0

    def x(seconds: float) -> float:
        return left + (width - left - right) * seconds / end

    def y(value: float) -> float:
        value = math.log10(max(value, floor)) if logarithmic else value
        return top + (height - top - bottom) * (highest - value) / (highest - lowest)

    parts = [f'<text x="4" y="12">{name}</text>']
    for tick in _ticks(lowest, highest, logarithmic):
        at = y(tick)
        parts.append(
            f'<line class="axis" x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:.4g}</text>'
        )
    for tick in _ticks(0.0, end, False):
        anchor = "end" if x(tick) > width - 2 * right else "middle"
        parts.append(
            f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="{anchor}">{tick:.4g} s</text>'
        )
    if level:
        at = y(level)
        parts.append(
            f'<line class="tol" x1="{left}" x2="{width - right}" y1="{at:.1f}" y2="{at:.1f}"/>'
            f'<text x="{width - right}" y="{at - 4:.1f}" text-anchor="end">tol {level:g}</text>'
        )
    for colour, curve in enumerate(curves):
        places = [(f"{x(seconds):.1f}", f"{y(value):.1f}") for seconds, value in curve]
        points = " ".join(",".join(place) for place in places)
        parts.append(f'<polyline style="stroke:var(--c{colour})" points="{points}"/>')
        if len(places) <= _DOTS:
            dots = "".join(
                f'<circle cx="{across}" cy="{down}" r="2.5"/>' for across, down in places
            )
            parts.append(f'<g style="fill:var(--c{colour})">{dots}</g>')
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{name} over time">'
        f"{''.join(parts)}</svg>"
    )


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
