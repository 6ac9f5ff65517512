"""``maxmargin warmup``: compile in advance what the first fits would compile."""

from __future__ import annotations

from maxmargin.cli import _deferred as deferred
from maxmargin.cli import _options as options
from maxmargin.cli._output import emit, print_json


def warmup(json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Compile what fits need, once for a machine and a version.

    The first fit on a machine waits for the compiler, and so do all processes that begin at the
    same time. Run this once after installing, and they find the code ready.
    """
    seconds = deferred.warm_up()
    if json:
        print_json({"compile_seconds": seconds})
    elif not quiet:
        emit(f"compiled code is ready: {seconds:.1f} s to make or load it")
