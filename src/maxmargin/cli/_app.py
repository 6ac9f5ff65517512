"""The commands, gathered; each is a module of its own."""

from __future__ import annotations

from typing import Annotated

import typer

import maxmargin
from maxmargin.cli.bench import bench
from maxmargin.cli.demo import demo
from maxmargin.cli.inspect import inspect
from maxmargin.cli.predict import predict
from maxmargin.cli.scale import scale
from maxmargin.cli.train import train
from maxmargin.cli.tune import tune

app = typer.Typer(
    name="maxmargin",
    help="Support vector machines, trained fast and to a proven optimum.",
    no_args_is_help=True,
    add_completion=False,
    # Errors of the user are caught in `main` and become a sentence; others show as they are.
    pretty_exceptions_enable=False,
)
for command in (train, predict, scale, tune, inspect, demo, bench):
    app.command()(command)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"maxmargin {maxmargin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
