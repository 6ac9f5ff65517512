"""LIBSVM's spelling of options, as ours."""

from __future__ import annotations

import re

from maxmargin.io.files import DataError

_WEIGHT = re.compile(r"-w(?P<label>[^=]+)")
# Options of grid.py, of two letters and more after one dash.
_GRID = {"-log2c": "--log2c", "-log2g": "--log2g", "-log2p": "--log2p", "-png": "--plot"}
_NOT_HERE = ("-gnuplot", "-out", "-resume", "-svmtrain")


def translated(arguments: list[str]) -> list[str]:
    """The arguments with each option in the spelling of our commands.

    - ``-w1 5``, in which the option's name holds the label, is ``--weight 1=5``.
    - ``-log2c -5,15,2`` is ``--log2c -5,15,2``, and so on.
    - ``-h`` asks for help, but ``-h 0`` and ``-h 1`` are svm-train's option for shrinking.
    """
    command = arguments[0] if arguments else ""
    result: list[str] = []
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        weight = _WEIGHT.fullmatch(argument)
        if argument == "--":
            return [*result, argument, *rest]
        if argument == "-h" and not (command == "train" and rest[:1] in (["0"], ["1"])):
            result.append("--help")
        elif command == "tune" and argument in _GRID:
            result.append(_GRID[argument])
        elif command == "tune" and argument in _NOT_HERE:
            raise DataError(
                f"{argument} of grid.py has no counterpart here: --plot draws the grid, --json "
                "prints all results."
            )
        elif weight:
            result += ["--weight", f"{weight['label']}={rest.pop(0) if rest else ''}"]
        else:
            result.append(argument)
    return result
