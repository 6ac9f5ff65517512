"""How a model does on data: measures, and for regression its residuals, as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.cli._measures import measures, sentences
from maxmargin.cli.predict import answers, samples_for

# Quantiles of decision values or residuals that are shown, as parts of 1.
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
# Groups of equal size that samples are divided into, in ascending order of the truth.
_GROUPS = 5


def judged(estimator, data: str, label: str | None, model_name: str) -> dict[str, Any]:
    """Measures of the predictions, and in addition

    - for regression: quantiles of the residuals (truth less prediction), and the means of truth
      and prediction in fifths of the samples, ordered by the truth
    - for a one-class model: quantiles of the decision values
    """
    from sklearn.base import is_outlier_detector, is_regressor

    X, truth = samples_for(estimator, data, label, model_name, quiet=False)
    outliers = is_outlier_detector(estimator)
    predicted, values = answers(estimator, X, "decision_function" if outliers else None)
    found: dict[str, Any] = {"n_samples": len(predicted), **measures(estimator, predicted, truth)}
    if outliers:
        found["decision_values"] = _quantiles(values)
    elif is_regressor(estimator) and truth is not None:
        found["residuals"] = _quantiles(truth - predicted)
        found["by_truth"] = _fifths(truth, predicted)
    return found


def judgement_lines(found: dict[str, Any]) -> list[str]:
    """The same as text."""
    numbers = {name: found[name] for name in found if not isinstance(found[name], dict | list)}
    n_samples = numbers.pop("n_samples")
    lines = sentences(numbers, n_samples) or [f"{n_samples} samples, without labels"]
    for name in ("decision_values", "residuals"):
        if name in found:
            head = [f"{100 * share:g}%" for share in _QUANTILES]
            rows = [head, [f"{value:.4g}" for value in found[name].values()]]
            lines += _columns([[name.replace("_", " "), *rows[0]], ["", *rows[1]]])
    if "by_truth" in found:
        names = ("samples", "truth", "prediction", "rmse")
        rows = [[_shown(group[name]) for name in names] for group in found["by_truth"]]
        lines += _columns([list(names), *rows])
    return lines


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def _quantiles(values) -> dict[str, float]:
    found = np.quantile(values, _QUANTILES)
    return {f"{100 * share:g}%": float(value) for share, value in zip(_QUANTILES, found)}


def _fifths(truth: np.ndarray, predicted: np.ndarray) -> list[dict[str, float]]:
    order = np.argsort(truth, kind="stable")
    groups = np.array_split(order, min(_GROUPS, len(order)))
    return [
        {
            "samples": len(group),
            "truth": float(truth[group].mean()),
            "prediction": float(predicted[group].mean()),
            "rmse": float(np.sqrt(np.mean((predicted[group] - truth[group]) ** 2))),
        }
        for group in groups
    ]


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
