"""One self-contained HTML page about a fit: no script, no network, light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np
from sklearn.utils.validation import check_is_fitted

import maxmargin
from maxmargin.report import FitReport, ProblemReport

_CURVES = 8  # problems drawn; colours beyond that cannot be told apart
_CLASSES = 30  # the largest confusion matrix that is shown as a whole
_POINTS = 500  # of a curve; more cannot be seen
_ROWS = 200  # problems listed
_DOTS = 40  # points of a curve that are still marked one by one

_STYLE = """
:root { --ink: #1c2430; --soft: #5c6675; --line: #d8dde5; --page: #f6f7f9; --card: #fff;
  --good: #1a7f4b; --bad: #b3402a; --c0: #2f6fde; --c1: #d9632a; --c2: #2a9d6f; --c3: #9a4fd0;
  --c4: #b58a00; --c5: #c2417c; --c6: #2aa3b8; --c7: #6b7280; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #9aa4b2; --line: #343c49;
  --page: #14181f; --card: #1c222b; --good: #4cc38a; --bad: #ff8b70; --c0: #6ea3ff; --c1: #ff9a66;
  --c2: #5fd0a2; --c3: #c48bf0; --c4: #e0bd4a; --c5: #f07fb0; --c6: #63cfe0; --c7: #a3abb8; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 2rem 1rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
main { max-width: 62rem; margin: auto; display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
header, .wide { grid-column: 1 / -1; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 0 0 .6rem; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 1rem 1.2rem; overflow-x: auto; }
p { margin: .2rem 0; } .soft { color: var(--soft); }
.status { font-weight: 600; color: var(--bad); } .status.good { color: var(--good); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem .2rem 0; text-align: left; vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; border-bottom: 1px solid var(--line); }
tbody th { font-weight: 500; } td { vertical-align: middle; } td.n, th.n { text-align: right; }
.matrix td { text-align: right; padding: .25rem .6rem; border: 1px solid var(--line);
  background: color-mix(in srgb, var(--tone) calc(var(--share) * 60%), transparent); }
.bar { height: .7rem; min-width: 8rem; background: var(--line); border-radius: 3px; }
.bar i { display: block; height: 100%; background: var(--c0); border-radius: 3px; }
svg { width: 100%; min-width: 36rem; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 11px; }
svg .axis { stroke: var(--line); } svg .tol { stroke: var(--soft); stroke-dasharray: 4 3; }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .35rem; vertical-align: -1px; }
"""


def html_report(model, X, y, *, title: str = "SVM", evaluated_on: str = "training data") -> str:
    """A page about a fitted model: settings, certificate, convergence, support vectors, errors.

    Parameters
    ----------
    model : fitted SVC with a `fit_report_`
    X, y : samples and labels for the confusion matrix; training data or any other
    title : what the data is called
    evaluated_on : what X and y are

    Returns
    -------
    page : str
        HTML that needs nothing but itself.
    """
    check_is_fitted(model, "fit_report_")
    report = model.fit_report_
    predicted, y = model.predict(X), np.asarray(y)
    good = "good" if report.status == "converged" else ""
    sections = [
        f'<header><h1>{_text(title)}</h1><p class="status {good}">'
        f'{_text(report._headline())}</p><p class="soft">{_text(report.reason)}</p></header>',
        _section("Settings", _settings(model)),
        _section("Certificate", _certificate(report)),
        _section("Convergence", _convergence(report), wide=True),
        _section("Support vectors", _support_vectors(model)),
        _section(
            f"Confusion matrix ({_text(evaluated_on)})", _confusion(model.classes_, y, predicted)
        ),
    ]
    if len(report) > 1:
        sections.append(_section("Binary problems", _problems(report), wide=True))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body><main>"
        + "\n".join(sections)
        + f'<p class="soft">maxmargin {maxmargin.__version__}</p></main></body></html>\n'
    )


def _text(value) -> str:
    if isinstance(value, float):
        value = f"{value:.5g}"
    return html.escape(str(value))


def _section(heading: str, body: str, *, wide: bool = False) -> str:
    return f"<section{' class=wide' if wide else ''}><h2>{heading}</h2>{body}</section>"


def _table(rows: Sequence[Sequence], head: Sequence[str] = (), caption: str = "") -> str:
    """A table whose first column is a heading and whose numbers stand on the right."""

    def cell(at: int, value) -> str:
        tag = "th" if at == 0 else "td"
        return f"<{tag}{' class=n' if head and numbers[at] else ''}>{_text(value)}</{tag}>"

    numbers = [isinstance(value, int | float | np.number) for value in (rows[0] if rows else ())]
    top = "".join(
        f"<th{' class=n' if number else ''}>{_text(name)}</th>"
        for name, number in zip(head, numbers)
    )
    top = f"<thead><tr>{top}</tr></thead>" if head else ""
    body = "".join(
        "<tr>" + "".join(cell(at, value) for at, value in enumerate(row)) + "</tr>" for row in rows
    )
    note = f'<p class="soft">{caption}</p>' if caption else ""
    return f"<table>{top}<tbody>{body}</tbody></table>{note}"


def _settings(model) -> str:
    """What differs from the defaults, and what every SVM has."""
    defaults = type(model)().get_params()
    values = model.get_params()
    always = ("C", "kernel", "gamma", "tol", "solver")
    rows = [(name, values[name]) for name in always]
    if not isinstance(model.gamma, int | float) and model.kernel != "precomputed":
        rows[2] = ("gamma", f"{model.gamma} = {model._gamma:.5g}")
    rows += [
        (name, value)
        for name, value in values.items()
        if name not in always and str(value) != str(defaults[name])
    ]
    return _table(rows, caption="Everything else is at its default.")


def _certificate(report: FitReport) -> str:
    evaluations = f"{report.kernel_evaluations:,}".replace(",", " ")
    rows = [
        ("status", report.status),
        ("KKT violation", f"{report.kkt_violation:.3g} (tol {report.tol:g})"),
        ("duality gap", report.duality_gap),
        ("objective", f"{report.objective:.8g}"),
        ("solver", report.solver + ("" if report.exact else " (approximate)")),
        ("iterations", report.n_iter),
        ("kernel values", evaluations),
        ("seconds", report.seconds),
    ]
    return _table(rows, caption="Recomputed from scratch in float64 after the training.")


def _support_vectors(model) -> str:
    total, most = int(model.n_support_.sum()), max(1, int(model.n_support_.max()))
    rows = []
    for label, count in zip(model.classes_.tolist(), model.n_support_.tolist(), strict=True):
        width = 100 * count / most
        rows.append(
            f'<tr><th>{_text(label)}</th><td class="n">{count}</td>'
            f'<td><div class="bar"><i style="width:{width:.1f}%"></i></div></td></tr>'
        )
    share = total / model.shape_fit_[0]
    return (
        f"<p>{total} of {model.shape_fit_[0]} samples ({100 * share:.1f}%)</p>"
        f"<table><thead><tr><th>class</th><th class=n>count</th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _confusion(classes: np.ndarray, y: np.ndarray, predicted: np.ndarray) -> str:
    """Rows are the true labels; with very many classes, the pairs that are mixed up most."""
    from sklearn.metrics import confusion_matrix

    labels = np.unique(np.concatenate([classes, y]))
    counts = confusion_matrix(y, predicted, labels=labels)
    wrong = len(y) - int(np.trace(counts))
    line = f"<p>{len(y) - wrong} of {len(y)} right ({100 * (1 - wrong / len(y)):.2f}%)</p>"
    if len(labels) > _CLASSES:
        mixed = counts - np.diag(np.diag(counts))
        worst = [at for at in np.argsort(-mixed, axis=None, kind="stable")[:15] if mixed.flat[at]]
        pairs = [(*divmod(int(at), len(labels)), int(mixed.flat[at])) for at in worst]
        rows = [(str(labels[i]), str(labels[j]), count) for i, j, count in pairs]
        return line + _table(rows, ("true", "predicted", "count"))
    head = "".join(f"<th class=n>{_text(label)}</th>" for label in labels)
    body = ""
    for at, (label, row) in enumerate(zip(labels, counts)):
        cells = ""
        for to, count in enumerate(row.tolist()):
            share = count / max(1, row.sum())
            tone = "good" if at == to else "bad"
            cells += f'<td style="--share:{share:.3f};--tone:var(--{tone})">{count}</td>'
        body += f"<tr><th>{_text(label)}</th>{cells}</tr>"
    return line + (
        f"<table class=matrix><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>"
        '<p class="soft">Rows: true labels. Columns: predicted.</p>'
    )


def _problems(report: FitReport) -> str:
    names = ("problem", "solver", "status", "n_samples", "n_support", "n_iter", "seconds",
             "kkt_violation", "duality_gap")  # fmt: skip
    rows = [[getattr(problem, name) for name in names] for problem in report.problems[:_ROWS]]
    left = len(report) - len(rows)
    return _table(rows, names, caption=f"and {left} more" if left else "")


def _convergence(report: FitReport) -> str:
    """Violation over time on a logarithmic scale, and the objective beside it."""
    slowest = sorted(report.problems, key=lambda problem: -problem.seconds)[:_CURVES]
    drawn = [problem for problem in slowest if problem.history]
    if not drawn:
        return "<p class=soft>The solver kept no history.</p>"
    legend = ""
    if len(report) > 1:
        legend = "".join(
            f'<span><i style="background:var(--c{at})"></i>{_text(problem.problem)}</span>'
            for at, problem in enumerate(drawn)
        )
        few = (
            f"The {len(drawn)} slowest of {len(report)} problems." if len(report) > _CURVES else ""
        )
        legend = f'<div class="legend">{legend}</div><p class="soft">{few}</p>'
    violation = _chart(
        [_curve(problem, "kkt_violation", problem.kkt_violation) for problem in drawn],
        "KKT violation", logarithmic=True, level=report.tol,
    )  # fmt: skip
    objective = _chart(
        [_curve(problem, "objective", problem.objective) for problem in drawn], "objective"
    )
    return legend + violation + objective


def _curve(problem: ProblemReport, name: str, end: float) -> list[tuple[float, float]]:
    """(seconds, value) of a solve's history, thinned, with the certified value at the end."""
    history = problem.history
    step = max(1, math.ceil(len(history) / _POINTS))
    points = [(line.seconds, getattr(line, name)) for line in history[::step]]
    points.append((max(problem.seconds, history[-1].seconds), end))
    return [point for point in points if math.isfinite(point[1])]


def _chart(
    curves: list[list[tuple[float, float]]],
    name: str,
    *,
    logarithmic: bool = False,
    level: float | None = None,
) -> str:
    """A line chart as SVG."""
    width, height, left, right, top, bottom = 900, 230, 70, 15, 22, 28
    values = [value for curve in curves for _, value in curve] + ([level] if level else [])
    if logarithmic:
        floor = min((value for value in values if value > 0), default=1.0)
        values = [math.log10(max(value, floor)) for value in values]
    lowest, highest = min(values), max(values)
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
    for share in (0, 0.25, 0.5, 0.75, 1):
        anchor = "end" if share == 1 else "middle"
        parts.append(
            f'<text x="{x(share * end):.1f}" y="{height - 8}" text-anchor="{anchor}">'
            f"{share * end:.3g} s</text>"
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
    step = 10 ** math.floor(math.log10((highest - lowest) / 2))
    while (highest - lowest) / step > 6:
        step *= 2
    first = math.ceil(lowest / step)
    return [at * step for at in range(first, math.floor(highest / step) + 1)]
