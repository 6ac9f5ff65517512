"""One self-contained HTML page about a fit: no script, no network, light and dark."""

from __future__ import annotations

import html
import math
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np
from sklearn.base import is_outlier_detector

import maxmargin
from maxmargin._html_charts import error_charts, time_chart
from maxmargin.estimators.unwrap import fit_report, unwrap
from maxmargin.report import FitReport, ProblemReport

_CURVES = 8  # problems drawn: more colours cannot be told apart
_CLASSES = 30  # classes of the largest confusion matrix that is shown whole
_NARROW_MATRIX = 8  # classes of the largest confusion matrix on half the width of the page
_POINTS = 500  # points of a curve: more cannot be seen
_ROWS = 200  # problems listed

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
.charts { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 12px; }
svg .axis { stroke: var(--line); } svg .tol { stroke: var(--soft); stroke-dasharray: 4 3; }
svg polyline { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; color: var(--soft); }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px;
  margin-right: .35rem; vertical-align: -1px; }
@media (max-width: 44rem) { body { padding: 1rem .5rem; } section { padding: .8rem; }
  th, td { overflow-wrap: anywhere; } .bar { min-width: 4rem; }
  .matrix { font-size: 11px; } .matrix td { padding: .2rem; } .matrix th { padding: .1rem .2rem; }
  .rows thead { display: none; } .rows, .rows tbody { display: block; }
  .rows tr { display: grid; grid-template-columns: 1fr 1fr; padding: .3rem 0;
    border-bottom: 1px solid var(--line); }
  .rows th { grid-column: 1 / -1; } .rows td, .rows td.n { text-align: left; padding: 0; }
  .rows td::before { content: attr(data-name) " "; color: var(--soft); } }
"""


def html_report(
    model, X, y=None, *, title: str = "SVM", evaluated_on: str = "training data"
) -> str:
    """A page about a fitted model: settings, certificate, convergence, support vectors, errors.

    Parameters
    ----------
    model : fitted SVM with a `fit_report_`
        Or a pipeline, a search or a calibrated model with one inside: the page is about that SVM,
        and the predictions are those of the whole.
    X, y : samples and labels or targets to judge it by; training data or any other
        A `OneClassSVM` needs no y.
    title : what the data is called
    evaluated_on : what X and y are

    Returns
    -------
    page : str
        HTML that needs nothing but itself.
    """
    report = fit_report(model)
    inside = unwrap(model)
    svm = inside.svm
    good = "good" if report.status == "converged" else ""
    why = "".join(f'<p class="soft">{_text(phrase)}</p>' for phrase in report.reasons())
    sections = [
        f'<header><h1>{_text(title)}</h1><p class="status {good}">'
        f"{_text(report._headline())}</p>{why}</header>",
        _section("Settings", _settings(svm, inside.before)),
        _section("Certificate", _certificate(report)),
        _section("Convergence", _convergence(report), wide=True),
        _section("Support vectors", _support_vectors(svm)),
        _judgement(model, y, np.asarray(model.predict(X)), evaluated_on),
    ]
    if len(report) > 1:
        sections.append(_section("Binary problems", _problems(report), wide=True))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>\n<body><main>"
        + "\n".join(sections)
        + f'<p class="soft wide">{_text(_made_by())}</p></main></body></html>\n'
    )


def _made_by() -> str:
    """When and with what the page was made."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    libraries = [f"{name} {version(name)}" for name in ("scikit-learn", "numpy", "numba")]
    return (
        f"Written {now} by maxmargin {maxmargin.__version__}, {', '.join(libraries)}, "
        f"Python {platform.python_version()}."
    )


def _text(value) -> str:
    if isinstance(value, float):
        value = f"{value:.5g}"
    return html.escape(str(value))


def _section(heading: str, body: str, *, wide: bool = False) -> str:
    return f"<section{' class=wide' if wide else ''}><h2>{heading}</h2>{body}</section>"


def _table(rows: Sequence[Sequence], head: Sequence[str] = (), caption: str = "") -> str:
    """A table whose first column is a heading and whose numbers stand on the right.

    On a narrow screen the rows of one with a head become blocks, in which each value has the name
    of its column before it.
    """

    def cell(at: int, value) -> str:
        number = " class=n" if head and numbers[at] else ""
        if at == 0:
            return f"<th{number}>{_text(value)}</th>"
        name = f' data-name="{_text(head[at])}"' if head else ""
        return f"<td{number}{name}>{_text(value)}</td>"

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
    kind = " class=rows" if head else ""
    return f"<table{kind}>{top}<tbody>{body}</tbody></table>{note}"


def _settings(model, before: tuple) -> str:
    """The main parameters, all others that differ from their defaults, and the steps before."""
    defaults = type(model)().get_params()
    values = model.get_params(deep=False)
    names = ("C", "nu", "epsilon", "kernel", "gamma", "tol", "solver")
    always = {name: values[name] for name in names if name in values}
    if model.kernel == "precomputed" or callable(model.kernel) or model.kernel == "linear":
        del always["gamma"]
    elif not isinstance(model.gamma, int | float):
        always["gamma"] = f"{model.gamma} = {model._gamma:.5g}"
    rows: list[tuple[str, object]] = [("model", type(model).__name__)]
    if before:
        rows.append(("preprocessing", ", ".join(type(step).__name__ for step in before)))
    rows += [
        ("samples", model.shape_fit_[0]),
        ("features", getattr(model, "n_features_in_", model.shape_fit_[1])),
    ]
    rows += always.items()
    rows += [
        (name, value)
        for name, value in values.items()
        if name not in names and str(value) != str(defaults[name])
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
        ("seconds", f"{report.seconds:.4g}, {report.compile_seconds:.3g} of them compiling"),
    ]
    return _table(rows, caption="Recomputed from scratch in float64 after the training.")


def _support_vectors(model) -> str:
    counts = np.atleast_1d(model.n_support_)
    total, samples = int(counts.sum()), model.shape_fit_[0]
    line = f"<p>{total} of {samples} samples ({100 * total / samples:.1f}%)</p>"
    if not hasattr(model, "classes_"):
        return line
    rows, most = [], max(1, int(counts.max()))
    for label, count in zip(model.classes_.tolist(), counts.tolist(), strict=True):
        width = 100 * count / most
        rows.append(
            f'<tr><th>{_text(label)}</th><td class="n">{count}</td>'
            f'<td><div class="bar"><i style="width:{width:.1f}%"></i></div></td></tr>'
        )
    return (
        f"{line}<table><thead><tr><th>class</th><th class=n>count</th><th></th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _judgement(model, y, predicted: np.ndarray, evaluated_on: str) -> str:
    """The section that compares predictions with what is known of the samples."""
    where, inside = f"({_text(evaluated_on)})", unwrap(model)
    svm = inside.svm
    if is_outlier_detector(svm):
        outliers = int(np.count_nonzero(predicted < 0))
        share = 100 * outliers / max(1, len(predicted))
        line = f"<p>{outliers} of {len(predicted)} samples are outliers ({share:.2f}%)</p>"
        line += f'<p class="soft">nu = {svm.nu:g}, rho = {svm.offset_[0]:.5g}</p>'
        return _section(f"Outliers {where}", line)
    if y is None:
        raise ValueError("html_report needs the labels or targets y of the samples in X.")
    if hasattr(svm, "classes_"):
        body = _confusion(np.asarray(svm.classes_), np.asarray(y), predicted)
        wide = len(svm.classes_) > _NARROW_MATRIX
        return _section(f"Confusion matrix {where}", body, wide=wide)
    # Behind a transformer of the targets the tube is in other units.
    tube = None if inside.after else svm.fit_report_[0].quantities.get("epsilon")
    body = _errors(np.asarray(y, dtype=np.float64), predicted, tube, svm.tol)
    return _section(f"Errors {where}", body, wide=True)


def _errors(y: np.ndarray, predicted: np.ndarray, tube: float | None, tol: float) -> str:
    from sklearn.metrics import r2_score

    errors = np.abs(predicted - y)
    rows: list[tuple[str, object]] = [
        ("R²", float(r2_score(y, predicted)) if len(y) > 1 else math.nan),
        ("mean absolute error", float(errors.mean())),
        ("root mean squared error", float(np.sqrt(np.mean(errors**2)))),
        ("largest error", float(errors.max())),
    ]
    if tube is not None:
        within = np.mean(errors <= tube + tol)  # free support vectors are on its edge, up to tol
        rows.append((f"within epsilon = {tube:.4g}", f"{100 * within:.1f}%"))
    return _table(rows, caption=f"{len(y)} samples") + error_charts(y, predicted, tube)


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
    drawn = [problem for problem in slowest if len(problem.history) > 1]
    if not drawn:
        return "<p class=soft>Too quick for a curve: progress is kept ten times a second.</p>"
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
    violation = time_chart(
        [_curve(problem, "kkt_violation", problem.kkt_violation) for problem in drawn],
        "KKT violation", logarithmic=True, tol=report.tol,
    )  # fmt: skip
    objective = time_chart(
        [_curve(problem, "objective", problem.objective) for problem in drawn], "objective"
    )
    return f'{legend}<div class="charts">{violation}{objective}</div>'


def _curve(problem: ProblemReport, name: str, end: float) -> list[tuple[float, float]]:
    """(seconds, value) of a solve's history, thinned, with the certified value at the end."""
    history = problem.history
    step = max(1, math.ceil(len(history) / _POINTS))
    points = [(line.seconds, getattr(line, name)) for line in history[::step]]
    points.append((max(problem.seconds, history[-1].seconds), end))
    return [point for point in points if math.isfinite(point[1])]
