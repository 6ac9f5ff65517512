"""What predictions are worth: the measures of svm-predict, in its words."""

from __future__ import annotations

import numpy as np

from maxmargin.io.files import DataError

# Measure → its name in the output, and the task that svm-predict prints beside it.
_WORDS = {
    "accuracy": ("Accuracy", "classification"),
    "mean_squared_error": ("Mean squared error", "regression"),
    "squared_correlation": ("Squared correlation coefficient", "regression"),
    "outliers": ("Outliers", "one-class"),
}
_SHARES = ("accuracy", "outliers")


def measures(model, predicted: np.ndarray, truth: np.ndarray | None) -> dict[str, float | None]:
    """The measures by name; None for a measure that needs the truth where there is none.

    - classification: the share of right labels
    - regression: mean squared error and squared correlation
    - one-class: the share of outliers, and of right answers where the truth is +1 and −1
    """
    from sklearn.base import is_outlier_detector, is_regressor

    if is_regressor(model):
        return _of_numbers(predicted, truth)
    if not is_outlier_detector(model):
        return {"accuracy": None if truth is None else float(np.mean(_same(predicted, truth)))}
    found: dict[str, float | None] = {"outliers": float(np.mean(predicted < 0))}
    if truth is not None and truth.dtype.kind in "iuf" and np.isin(truth, (-1, 1)).all():
        found["accuracy"] = float(np.mean(predicted == truth))
    return found


def numbers(y: np.ndarray, name: str) -> np.ndarray:
    """Targets of a regression; a sentence where they are text."""
    if y.dtype.kind not in "biuf":
        raise DataError(f"{name}: regression learns numbers, not labels such as {str(y[0])!r}.")
    return y


def sentences(found: dict[str, float | None], n_samples: int, before: str = "") -> list[str]:
    """The lines of svm-predict; with `before`, the lines of svm-train's cross-validation."""
    lines = []
    for name, value in found.items():
        what, task = _WORDS[name]
        if value is None:
            continue
        if before:
            lines.append(f"{before} {what} = {_shown(name, value)}")
        else:
            count = f" ({round(value * n_samples)}/{n_samples})" if name in _SHARES else ""
            lines.append(f"{what} = {_shown(name, value)}{count} ({task})")
    return lines


def _shown(name: str, value: float) -> str:
    return f"{100 * value:g}%" if name in _SHARES else f"{value:g}"


def _of_numbers(predicted: np.ndarray, truth: np.ndarray | None) -> dict[str, float | None]:
    if truth is None:
        return {"mean_squared_error": None, "squared_correlation": None}
    a, b = predicted - predicted.mean(), truth - truth.mean()
    variances = float((a @ a) * (b @ b))
    return {
        "mean_squared_error": float(np.mean((predicted - truth) ** 2)),
        # Constant numbers have no correlation; svm-predict prints nan.
        "squared_correlation": float((a @ b) ** 2 / variances) if variances > 0 else float("nan"),
    }


def _same(labels: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which labels are right; where one side is text and the other numbers, both as text."""
    if (labels.dtype.kind in "US") != (truth.dtype.kind in "US"):
        return labels.astype(str) == truth.astype(str)
    return labels == truth
