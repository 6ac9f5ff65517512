"""Output of the commands, as text and as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from maxmargin.report import plain


def emit(text: str) -> None:
    """Print at once; a reader that stops early, such as `head`, is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        discard_output()


def note(sentence: str) -> None:
    """A remark on standard error, where it does not mix with results."""
    print(f"maxmargin: {sentence}", file=sys.stderr)


def discard_output() -> None:
    """Discard all further output, and output that is still in the buffer."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_json(values: dict[str, Any]) -> None:
    """One JSON object; numbers that JSON does not have become null."""
    emit(json.dumps(plain(values), allow_nan=False))


def report_values(report) -> dict[str, Any]:
    """A fit report for JSON, without the history, which can be long."""
    values = report.to_dict()
    values["problems"] = [
        {key: value for key, value in problem.items() if key != "history"}
        for problem in values["problems"]
    ]
    return values
