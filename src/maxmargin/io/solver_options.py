"""A solver and its options as JSON can hold them, and back."""

from __future__ import annotations

import inspect
from numbers import Integral, Real
from typing import Any

from maxmargin.io.schema import Anything, Record, Text, shown
from maxmargin.solvers.registry import SOLVERS

_PARTS = Record({"name": Text(), "options": Record({}, extra=Anything())})


def solver_parts(solver: Any) -> str | dict:
    """The name of a solver, or the name and the options of a solver object.

    Raises
    ------
    ValueError
        One sentence where a file could not hold the solver, so that no option is lost.
    """
    if isinstance(solver, str):
        return solver
    name = str(getattr(solver, "name", ""))
    if SOLVERS.get(name) is not type(solver):
        raise ValueError(
            f"A model file cannot hold the solver {solver!r}, which is not one of maxmargin's; "
            "set_params(solver='auto') leaves it out."
        )
    options = {option: getattr(solver, option) for option in _options_of(type(solver))}
    return {"name": name, "options": {key: _value(options[key], key, name) for key in options}}


def solver_from_parts(parts: Any) -> Any:
    """The solver that `solver_parts` described; a ValueError of one sentence if there is none."""
    if isinstance(parts, str):
        return parts
    _PARTS.check(parts, "solver", {})
    name, options = parts["name"], parts["options"]
    if name not in SOLVERS:
        raise ValueError(f"solver.name must be one of {', '.join(SOLVERS)}, not {shown(name)}.")
    unknown = [key for key in options if key not in _options_of(SOLVERS[name])]
    if unknown:
        raise ValueError(f"the solver {name!r} has no option {shown(unknown[0])}.")
    try:
        return SOLVERS[name](
            **{
                key: solver_from_parts(v) if isinstance(v, dict) else v
                for key, v in options.items()
            }
        )
    except TypeError as error:
        raise ValueError(f"the options of the solver {name!r} do not fit it.") from error


def _options_of(solver_class: type) -> list[str]:
    return list(inspect.signature(solver_class).parameters)


def _value(value: Any, option: str, name: str) -> Any:
    """An option as JSON can hold it: a number, a word, nothing, or another solver."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if hasattr(value, "solve"):
        return solver_parts(value)
    raise ValueError(
        f"A model file cannot hold the option {option}={value!r} of the solver {name!r}; "
        "set_params(solver='auto') leaves it out."
    )
