"""``maxmargin inspect``: what is in a model file."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import maxmargin
from maxmargin.cli import _options as options
from maxmargin.cli._judgement import judged, judgement_lines
from maxmargin.cli._output import emit, print_json, report_values
from maxmargin.cli.predict import Model

_PARAMETERS = {
    "linear": (),
    "poly": ("gamma", "coef0", "degree"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}


def inspect(
    model: Model,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="Also say what the model makes of this data."),
    ] = None,
    label: options.Label = None,
    json: options.Json = False,
) -> None:
    """Print what is in a model file, and how it does on DATA.

    Its kind, kernel, classes and support vectors, and, where the file says so, how it was trained.
    Of regression on data, its residuals and predictions against the truth; of a one-class model,
    the share of outliers.
    """
    estimator = maxmargin.io.load_model(model)
    report = getattr(estimator, "fit_report_", None)
    values = {"model": model} | _contents(estimator, report)
    on_data = None if data is None else judged(estimator, data, label, model)
    if json:
        values["report"] = None if report is None else report_values(report)
        print_json(values if on_data is None else values | {"on_data": on_data})
        return
    width = max(map(len, values))
    for name, value in values.items():
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        emit(f"{name.ljust(width)}  {text}")
    emit(str(report) if report is not None else "A LIBSVM model does not say how it was trained.")
    if on_data is not None:
        emit("\n".join([f"on {data}:", *judgement_lines(on_data)]))


def _contents(estimator, report) -> dict[str, Any]:
    """The parts of a model by name."""
    values: dict[str, Any] = {"kind": type(estimator).__name__, "kernel": estimator.kernel}
    numbers = {"gamma": estimator._gamma, "coef0": estimator.coef0, "degree": estimator.degree}
    values |= {name: numbers[name] for name in _PARAMETERS[estimator.kernel]}
    if report is not None:
        known = estimator.get_params(deep=False)
        values |= {name: known[name] for name in ("C", "nu", "epsilon") if name in known}
    values |= {"n_features": estimator.n_features_in_, "n_support": len(estimator.support_)}
    if hasattr(estimator, "classes_"):
        values["classes"] = estimator.classes_.tolist()
        values["n_support_by_class"] = estimator.n_support_.tolist()
    else:
        values |= _single_function(estimator, report)
    if hasattr(estimator, "_noise"):
        values["noise"] = estimator._noise
    if hasattr(estimator, "classes_"):
        values["probabilities"] = "yes" if hasattr(estimator, "_pair_sigmoids") else "no"
    return values


def _single_function(estimator, report) -> dict[str, float]:
    """For a model without classes: its constant, and the quantities that its training found."""
    from sklearn.base import is_outlier_detector

    if is_outlier_detector(estimator):
        constant = {"rho": float(estimator.offset_[0])}
    else:
        constant = {"intercept": float(estimator.intercept_[0])}
    found = {} if report is None else report[0].quantities
    return constant | {name: found[name] for name in ("epsilon", "outliers") if name in found}
