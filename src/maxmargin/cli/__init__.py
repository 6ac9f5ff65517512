"""The command line: ``maxmargin train``, ``predict``, ``scale``, ``tune``, …

Exit codes: 0 done, 1 training did not converge, 2 bad input (one sentence on
standard error says what, and where).
"""

from __future__ import annotations

import gc
import sys

from maxmargin.cli._arguments import translated
from maxmargin.cli._left_out import defer_imports
from maxmargin.cli._output import discard_output
from maxmargin.io.files import DataError

# Objects between two garbage collections. Imported modules stay, so a collection at every 700th
# object, Python's default, takes up to a tenth of the start.
_OBJECTS_BETWEEN_COLLECTIONS = 10_000


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and end the process with its exit code.

    Parameters
    ----------
    arguments : list of str or None
        None takes those of the process, which is then the command line's own.
    """
    own_process = arguments is None
    if own_process:
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:  # the one module that needs an optional extra from its first line on
        from maxmargin.cli._app import app_for
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("typer", "rich"):
            raise
        sys.exit(_complain("the command line needs typer and rich: pip install 'maxmargin[cli]'"))
    arguments = sys.argv[1:] if arguments is None else arguments
    if own_process and arguments[:1] != ["bench"]:  # whose peers may need anything
        defer_imports()
    try:
        arguments = translated(arguments)
        app_for(arguments)(arguments, prog_name="maxmargin")
    except DataError as error:
        sys.exit(_complain(str(error)))
    except OSError as error:
        if error.filename is None:  # the output itself: the rest of it cannot be written
            discard_output()
        sys.exit(_complain(f"{error.filename or 'output'}: {error.strerror}."))
    except ValueError as error:
        sys.exit(_complain(str(error).partition("\n")[0]))
    except MemoryError as error:
        sys.exit(_complain(f"not enough memory ({error})."))
    except KeyboardInterrupt:
        sys.exit(130)


def _complain(sentence: str) -> int:
    print(f"maxmargin: {sentence}", file=sys.stderr)
    return 2
