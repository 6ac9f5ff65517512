"""``maxmargin scale``: every feature into a range, as `svm-scale` does."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import scipy.sparse as sp
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import discard_output
from maxmargin.io.data import Dataset, read_data, write_data
from maxmargin.io.files import DataError, atomic_write, open_binary

_BLOCK_ROWS = 1024


def scale(
    data: options.Data,
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT", help="LIBSVM text (also .gz, .bz2, .xz), .csv or .npz; else printed."
        ),
    ] = "-",
    lower: Annotated[float, typer.Option("--lower", "-l", help="Lower end.")] = -1.0,
    upper: Annotated[float, typer.Option("--upper", "-u", help="Upper end.")] = 1.0,
    save: Annotated[
        str | None, typer.Option("--save", "-s", metavar="FILE", help="Write the ranges.")
    ] = None,
    restore: Annotated[
        str | None,
        typer.Option("--restore", "-r", metavar="FILE", help="Use ranges written before."),
    ] = None,
    label: options.Label = None,
) -> None:
    """Scale features to a range; features that never change are left out, as svm-scale does.

    Scale the training data with --save, and the test data with --restore.
    """
    if save is not None and restore is not None:
        raise DataError("--save and --restore cannot be used together.")
    if not lower < upper:
        raise DataError(f"--lower must be less than --upper, not {lower:g} and {upper:g}.")
    dataset = read_data(data, label=label)
    if restore is not None:
        lower, upper, lowest, highest = _read_ranges(restore, dataset)
    else:
        lowest, highest = _extremes(dataset.X)
    scaled = _scaled(dataset.X, lower, upper, lowest, highest)
    if save is not None:
        _write_ranges(save, lower, upper, lowest, highest)
    result = Dataset(scaled, dataset.y, dataset.feature_names, dataset.name, dataset.fixed_width)
    try:
        write_data(out, result)
    except BrokenPipeError:  # the reader has seen enough
        discard_output()


def _extremes(X) -> tuple[np.ndarray, np.ndarray]:
    if sp.issparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    return X.min(axis=0), X.max(axis=0)


def _scaled(X, lower: float, upper: float, lowest: np.ndarray, highest: np.ndarray):
    """lower + (upper − lower)·(x − lowest)/(highest − lowest), a block of rows at a time."""
    n_features = max(X.shape[1], len(lowest))
    changes = highest > lowest
    span = np.where(changes, highest - lowest, 1.0)
    blocks = []
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        rows = X[start : start + _BLOCK_ROWS]
        rows = rows.toarray() if sp.issparse(rows) else rows
        full = np.zeros((rows.shape[0], n_features))
        full[:, : rows.shape[1]] = rows
        fraction = (full - lowest) / span
        # Written so that both ends are met exactly.
        block = np.where(changes, lower * (1 - fraction) + upper * fraction, 0.0)
        blocks.append(sp.csr_array(block) if sp.issparse(X) else block)
    return sp.vstack(blocks, format="csr") if sp.issparse(X) else np.vstack(blocks)


def _write_ranges(path: str, lower: float, upper: float, lowest, highest) -> None:
    """svm-scale's own format, so that either program can use the other's ranges."""
    lines = ["x", f"{lower!r} {upper!r}"]
    for feature, (low, high) in enumerate(zip(lowest.tolist(), highest.tolist()), start=1):
        if low < high:
            lines.append(f"{feature} {low!r} {high!r}")
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n").encode())


def _read_ranges(path: str, dataset: Dataset):
    with open_binary(path) as file:
        lines = [line.decode("latin-1").split() for line in file]
    if lines[:1] != [["x"]]:
        raise DataError(f"{path}, line 1: expected x, as svm-scale writes it.")
    lower, upper = _numbers(path, lines, 2, 2)
    width = dataset.X.shape[1]
    ranges = [_numbers(path, lines, at, 3) for at in range(3, len(lines) + 1) if lines[at - 1]]
    width = max([width, *(int(feature) for feature, _, _ in ranges)])
    lowest, highest = np.zeros(width), np.zeros(width)
    for feature, low, high in ranges:
        lowest[int(feature) - 1], highest[int(feature) - 1] = low, high
    return lower, upper, lowest, highest


def _numbers(path: str, lines: list[list[str]], at: int, count: int) -> list[float]:
    """The numbers of a line, which must be so many."""
    fields = lines[at - 1] if at <= len(lines) else []
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.isfinite(numbers).all() or (count == 3 and numbers[0] < 1):
        raise DataError(f"{path}, line {at}: expected {count} numbers, as svm-scale writes them.")
    return numbers
