"""The commands, each a module of its own that is loaded when it is requested."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Annotated

import typer
from typer.core import TyperCommand

import maxmargin

# Three examples for each command, which its help shows.
COMMANDS = {
    "train": (
        "maxmargin train -c 10 -g 0.05 a9a",
        "maxmargin train -s epsilon_svr -p 0.1 -v 5 abalone.xz",
        "maxmargin train --label species iris.csv iris.npz --report iris.html",
    ),
    "predict": (
        "maxmargin predict a9a.t a9a.model labels",
        "maxmargin predict --scores --json test.csv iris.npz --label species",
        "maxmargin scale -r ranges a9a.t | maxmargin predict - a9a.model",
    ),
    "scale": (
        "maxmargin scale -s ranges train.txt train.scaled",
        "maxmargin scale -r ranges test.txt test.scaled",
        "maxmargin scale -l 0 sparse.txt.xz scaled.npz",
    ),
    "tune": (
        "maxmargin tune a9a best.model",
        "maxmargin tune -s epsilon_svr -log2c -1,8,1 -log2p -7,-1,2 abalone",
        "maxmargin tune -t 0 -log2c -3,3,1 --scoring f1 --plot grid.png a9a",
    ),
    "inspect": (
        "maxmargin inspect a9a.model",
        "maxmargin inspect abalone.npz abalone.t",
        "maxmargin inspect iris.npz --json",
    ),
    "demo": (
        "maxmargin demo",
        "maxmargin demo --report demo.html",
        "maxmargin demo --json",
    ),
    "warmup": (
        "maxmargin warmup",
        "maxmargin warmup --json",
        "maxmargin warmup --quiet && python many_processes.py",
    ),
    "bench": (
        "maxmargin bench -c 10 -g 0.05 a9a",
        "maxmargin bench --solver auto --solver smo --no-peers a9a",
        "maxmargin bench --repeat 3 --json --label species iris.csv",
    ),
}


# Around the name of an argument that must be given, in some versions of typer.
_BRACES = re.compile(r"\{(\w+)\}")


class _Command(TyperCommand):
    """A command whose help names options and values without their types in Python."""

    def get_usage(self, ctx) -> str:
        return _BRACES.sub(r"\1", super().get_usage(ctx))

    def get_help(self, ctx) -> str:
        text = _BRACES.sub(r"\1", super().get_help(ctx))
        text = re.sub(r"\[default: \(([^)]*)\)", r"[default: \1", text)
        return re.sub(r" <\w+>", lambda match: " " * len(match[0]), text)


def app_for(arguments: list[str]) -> typer.Typer:
    """The program with the command that the arguments name, or with all if they name none."""
    app = typer.Typer(
        name="maxmargin",
        help="Support vector machines, trained fast and to a proven optimum.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        # Errors of the user are caught in `main` and become a sentence; others show as they are.
        pretty_exceptions_enable=False,
    )
    wanted = arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else list(COMMANDS)
    for name in wanted:
        command = getattr(import_module(f"maxmargin.cli.{name}"), name)
        lines = "\n".join(f"  {example}" for example in COMMANDS[name])
        app.command(cls=_Command, epilog=f"\b\nExamples:\n{lines}")(command)
    app.callback()(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        print(f"maxmargin {maxmargin.__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
