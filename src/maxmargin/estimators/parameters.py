"""The valid values of the parameters that estimators have in common."""

from __future__ import annotations

from numbers import Integral, Real

from maxmargin.sklearn_private import Hidden, Interval, StrOptions

COST = {"C": [Interval(Real, 0.0, None, closed="right")]}
NU = {"nu": [Interval(Real, 0.0, 1.0, closed="right")]}

# Of every estimator.
COMMON: dict = {
    "kernel": [
        StrOptions({"linear", "poly", "rbf", "sigmoid", "precomputed"}),
        callable,
    ],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "shrinking": ["boolean"],
    "tol": [Interval(Real, 0.0, None, closed="neither")],
    "cache_size": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
    "verbose": ["verbose"],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "random_state": ["random_state"],
    "solver": "no_validation",
    "n_jobs": [
        Interval(Integral, None, -1, closed="right"),
        Interval(Integral, 1, None, closed="left"),
        None,
    ],
    "warm_start": ["boolean"],
    "time_limit": [Interval(Real, 0, None, closed="neither"), None],
    "device": [StrOptions({"cpu", "cuda", "auto"})],
}

# Of classifiers.
CLASSIFICATION: dict = {
    **COMMON,
    "probability": ["boolean", Hidden(StrOptions({"deprecated"}))],
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
    "multi_class": [StrOptions({"ovo", "ovr"})],
}
