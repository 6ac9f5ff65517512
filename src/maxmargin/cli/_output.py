"""What commands print, for people and for machines."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any


def emit(text: str) -> None:
    """Print now; a reader that has seen enough, such as `head`, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Let what is printed from here on vanish, also what the process still holds back."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(values: dict[str, Any]) -> None:
    """One JSON object; numbers that JSON does not have become null."""
    emit(json.dumps(_plain(values), allow_nan=False))


def _plain(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def report_values(report) -> dict[str, Any]:
    """A fit report for JSON, without the history, which can be long."""
    values = report.to_dict()
    values["problems"] = [
        {key: value for key, value in problem.items() if key != "history"}
        for problem in values["problems"]
    ]
    return values
