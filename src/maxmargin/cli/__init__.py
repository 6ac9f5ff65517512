"""The command line: ``maxmargin train``, ``predict``, ``scale``, ``tune``, …

Exit codes: 0 done, 1 training did not converge, 2 bad input (one sentence on
standard error says what, and where).
"""

from __future__ import annotations

import re
import sys

_LIBSVM_WEIGHT = re.compile(r"-w(?P<label>[^=]+)")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code."""
    try:
        from maxmargin.cli._app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(_complain("the command line needs typer and rich: pip install 'maxmargin[cli]'"))
    from maxmargin.io.files import DataError

    arguments = libsvm_weights(sys.argv[1:] if arguments is None else arguments)
    try:
        app(arguments, prog_name="maxmargin")
    except DataError as error:
        sys.exit(_complain(str(error)))
    except OSError as error:
        if error.filename is None:  # the output itself: what is left of it cannot be written
            from maxmargin.cli._output import discard_output

            discard_output()
        sys.exit(_complain(f"{error.filename or 'output'}: {error.strerror}."))
    except ValueError as error:
        sys.exit(_complain(str(error)))
    except MemoryError as error:
        sys.exit(_complain(f"not enough memory ({error})."))
    except KeyboardInterrupt:
        sys.exit(130)


def libsvm_weights(arguments: list[str]) -> list[str]:
    """LIBSVM's ``-w1 5``, in which the option's name holds the label, as ``--weight 1=5``."""
    result = []
    rest = iter(arguments)
    for argument in rest:
        match = _LIBSVM_WEIGHT.fullmatch(argument)
        if argument == "--":
            result += [argument, *rest]
        elif match and argument != "-w":
            result += ["--weight", f"{match['label']}={next(rest, '')}"]
        else:
            result.append(argument)
    return result


def _complain(sentence: str) -> int:
    print(f"maxmargin: {sentence}", file=sys.stderr)
    return 2
