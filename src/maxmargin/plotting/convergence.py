"""The convergence of fits to the optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maxmargin.estimators.unwrap import fit_report
from maxmargin.plotting._style import colours, pyplot, thin_ticks
from maxmargin.report import FitReport, ProblemReport

# From this many problems of a fit on, its lines are thin and share one name.
_MANY = 4


class ConvergenceDisplay:
    """How fits approached the optimum: KKT violation and objective over time.

    The objective is shown as its distance to the lower bound that the fit proved
    in the end (the last objective less its duality gap), so that fits of
    different problems can share a picture.

    Attributes
    ----------
    axes_, figure_ : where it was drawn
    lines_ : the lines of each fit, by its name: a list of (violation, objective), an entry for
        each problem
    """

    def __init__(self, *, reports: Mapping[str, Sequence[ProblemReport]], tol: float):
        self.reports = dict(reports)
        self.tol = tol

    @classmethod
    def from_estimators(
        cls, estimators, *, problem: int | None = None, axes=None
    ) -> ConvergenceDisplay:
        """Draw the histories of fitted models.

        Parameters
        ----------
        estimators : {name: fitted SVM}, a list of fitted SVMs, named by their solvers, or one
            Also pipelines, searches and calibrated models with an SVM inside.
        problem : int, default=None
            One of the binary problems, where there are more than two classes; None draws all.
        axes : two matplotlib axes, default=None
            Where to draw; None makes a new figure.
        """
        pyplot("ConvergenceDisplay")
        reports = named_reports(estimators)
        for name, report in reports.items():
            if problem is not None and not -len(report) <= problem < len(report):
                raise ValueError(
                    f"problem={problem}, but {name!r} has {len(report)} problems, numbered from 0."
                )
        chosen = {
            name: list(report) if problem is None else [report[problem]]
            for name, report in reports.items()
        }
        return cls(reports=chosen, tol=min(one.tol for one in reports.values())).plot(axes)

    def plot(self, axes=None) -> ConvergenceDisplay:
        """Draw, on two `axes` or a new figure."""
        plt = pyplot("ConvergenceDisplay")
        if axes is None:
            _, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
        self.lines_ = {}
        for (name, reports), colour in zip(self.reports.items(), colours(len(self.reports))):
            self.lines_[name] = self._draw(axes, name, reports, colour)
        axes[0].axhline(self.tol, color="0.4", linestyle="--", linewidth=0.9, label="tol")
        axes[0].set(ylabel="KKT violation")
        axes[1].set(ylabel="objective − proven lower bound")
        for ax in axes:
            ax.set(xlabel="seconds", xscale="log", yscale="log")
            thin_ticks(ax.xaxis)
            ax.grid(linewidth=0.3)
        axes[0].legend(fontsize=8, framealpha=0.8)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    @staticmethod
    def _draw(axes, name: str, reports, colour) -> list[tuple]:
        many = len(reports) >= _MANY
        style = {
            "color": colour, "marker": "o", "markersize": 2 if many else 3,
            "linewidth": 0.7 if many else 1.5, "alpha": 0.55 if many else 1.0,
        }  # fmt: skip
        lines = []
        for number, report in enumerate(reports):
            seconds, violation, distance = _curves(report)
            label = None
            if number == 0:
                label = f"{name}, {len(reports)} problems" if len(reports) > 1 else name
            lines.append(
                (
                    axes[0].plot(seconds, violation, label=label, **style)[0],
                    axes[1].plot(seconds, distance, label=label, **style)[0],
                )
            )
        return lines


def named_reports(estimators) -> dict[str, FitReport]:
    """The reports of fitted models by name; a model without a name has that of its solver."""
    if isinstance(estimators, Mapping):
        return {str(name): fit_report(model) for name, model in estimators.items()}
    if hasattr(estimators, "fit"):
        report = fit_report(estimators)
        return {report.solver: report}
    reports = [fit_report(model) for model in estimators]
    return {f"{k}: {report.solver}": report for k, report in enumerate(reports, start=1)}


def _curves(report: ProblemReport) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Seconds, KKT violation and distance to the bound of one fit, its certificate at the end."""
    lines = [(line.seconds, line.kkt_violation, line.objective) for line in report.history]
    lines.append((report.seconds, report.kkt_violation, report.objective))
    seconds, violation, objective = np.array(lines).T
    distance = (objective - report.objective) + report.duality_gap
    # What rounding makes zero or negative has no place on a logarithmic axis.
    return _positive(seconds), _positive(violation), _positive(distance)


def _positive(values: np.ndarray) -> np.ndarray:
    return np.where(values > 0, values, np.nan)
