"""``maxmargin scale``: every feature into a range, as `svm-scale` does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import scipy.sparse as sp
import typer

from maxmargin.cli import _options as options
from maxmargin.cli._output import discard_output, note
from maxmargin.io.data import Dataset, read_data, write_data
from maxmargin.io.files import DataError, open_binary, write_text
from maxmargin.io.text_blocks import MAX_INDEX

# Values that are scaled at a time.
_BLOCK_VALUES = 2**20
# Factor by which the non-zero values must grow for a remark.
_GROWTH_WORTH_A_NOTE = 1.1


@dataclass(frozen=True, eq=False)
class Ranges:
    """The range of each feature that is not constant, and the new range.

    Attributes
    ----------
    features : their numbers from 0, ascending
    lowest, highest : their ranges, arrays of the same length
    lower, upper : the new range of all of them
    """

    features: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    lower: float
    upper: float

    def scaled(self, values: np.ndarray, at: np.ndarray | slice) -> np.ndarray:
        """Values of the features `at`, in the new range."""
        fraction = (values - self.lowest[at]) / (self.highest[at] - self.lowest[at])
        # Written so that both ends are met exactly.
        return self.lower * (1 - fraction) + self.upper * fraction


def scale(
    data: options.Data,
    out: Annotated[
        str,
        typer.Argument(
            metavar="OUT", help="LIBSVM text (also .gz, .bz2, .xz), .csv or .npz; else printed."
        ),
    ] = "-",
    lower: Annotated[float, typer.Option("--lower", "-l", metavar="X", help="Lower end.")] = -1.0,
    upper: Annotated[float, typer.Option("--upper", "-u", metavar="X", help="Upper end.")] = 1.0,
    save: Annotated[
        str | None, typer.Option("--save", "-s", metavar="FILE", help="Write the ranges.")
    ] = None,
    restore: Annotated[
        str | None,
        typer.Option("--restore", "-r", metavar="FILE", help="Use ranges written before."),
    ] = None,
    label: options.Label = None,
    quiet: options.Quiet = False,
) -> None:
    """Scale features to a range, as svm-scale does.

    Scale the training data with --save, and the test data with --restore. Features that
    never change are left out.
    """
    if save is not None and restore is not None:
        raise DataError("--save and --restore cannot be used together.")
    if not lower < upper or not np.isfinite([lower, upper]).all():
        raise DataError(f"--lower must be less than --upper, not {lower:g} and {upper:g}.")
    dataset = read_data(data, label=label)
    if restore is None:
        ranges = _ranges_of(dataset.X, lower, upper)
    else:
        ranges = _read_ranges(restore, dataset)
    with np.errstate(over="ignore", invalid="ignore"):
        X = (_scaled_sparse if sp.issparse(dataset.X) else _scaled_dense)(dataset.X, ranges)
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        raise DataError(f"{dataset.name}: the range of a feature is too large to scale it.")
    if save is not None:
        _write_ranges(save, ranges)
    try:
        write_data(out, replace(dataset, X=X))
    except BrokenPipeError:  # the reader has seen enough
        discard_output()
    before, after = _nonzeros(dataset.X), _nonzeros(X)
    if after > _GROWTH_WORTH_A_NOTE * before and sp.issparse(X) and not quiet:
        note(
            f"zeros vanish: {before} values were not zero, now {after} are; --lower 0 keeps zeros "
            "where no value is negative."
        )


def _nonzeros(X) -> int:
    return int(np.count_nonzero(X.data if sp.issparse(X) else X))


def _ranges_of(X, lower: float, upper: float) -> Ranges:
    """The ranges of the features of X; in sparse data, of the features that occur."""
    if sp.issparse(X):
        features, at = np.unique(X.indices, return_inverse=True)
        narrow = sp.csr_array((X.data, at, X.indptr), shape=(X.shape[0], len(features)))
        lowest, highest = (
            (found.toarray().ravel() if len(features) else np.empty(0))
            for found in (narrow.min(axis=0), narrow.max(axis=0))
        )
    else:
        features, lowest, highest = np.arange(X.shape[1]), X.min(axis=0), X.max(axis=0)
    kept = highest > lowest
    lowest, highest = lowest[kept].astype(np.float64), highest[kept].astype(np.float64)
    return Ranges(features[kept], lowest, highest, lower, upper)


def _scaled_dense(X: np.ndarray, ranges: Ranges) -> np.ndarray:
    result = np.zeros(X.shape)
    result[:, ranges.features] = ranges.scaled(
        X[:, ranges.features].astype(np.float64), slice(None)
    )
    return result


def _scaled_sparse(X: sp.csr_array, ranges: Ranges) -> sp.csr_array:
    """Scale stored entries; features whose zeros become other numbers are filled in whole."""
    width = max(X.shape[1], int(ranges.features.max(initial=-1)) + 1)
    of_zero = ranges.scaled(np.zeros(len(ranges.features)), slice(None))
    filled = np.flatnonzero(of_zero)
    place = np.full(len(ranges.features) + 1, -1)
    place[filled] = np.arange(len(filled))
    size = max(1, _BLOCK_VALUES // max(1, len(filled)))
    blocks = []
    for start in range(0, X.shape[0], size):
        rows = X[start : start + size]
        at = np.searchsorted(ranges.features, rows.indices)
        known = at < len(ranges.features)
        known[known] = ranges.features[at[known]] == rows.indices[known]
        row, at = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[known], at[known]
        values = ranges.scaled(rows.data[known], at)
        full = np.tile(of_zero[filled], (rows.shape[0], 1))
        inside = place[at] >= 0
        full[row[inside], place[at[inside]]] = values[inside]
        parts = [
            (values[~inside], row[~inside], ranges.features[at[~inside]]),
            (full.ravel(), np.repeat(np.arange(len(full)), len(filled)),
             np.tile(ranges.features[filled], len(full))),
        ]  # fmt: skip
        entries, row, column = (np.concatenate(part) for part in zip(*parts, strict=True))
        block = sp.coo_array((entries, (row, column)), shape=(rows.shape[0], width)).tocsr()
        block.eliminate_zeros()
        blocks.append(block)
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def _write_ranges(path: str, ranges: Ranges) -> None:
    """svm-scale's own format, byte for byte, so that either program can use the other's ranges."""
    lines = ["x", _pair(ranges.lower, ranges.upper)]
    columns = (ranges.features + 1, ranges.lowest, ranges.highest)
    lines += [f"{i} {_pair(low, high)}" for i, low, high in zip(*(c.tolist() for c in columns))]
    write_text(path, "\n".join(lines) + "\n")


def _pair(low: float, high: float) -> str:
    """Two numbers as svm-scale prints them, by which they are read back exactly."""
    return f"{low:.17g} {high:.17g}"


def _read_ranges(path: str, dataset: Dataset) -> Ranges:
    with open_binary(path) as file:
        lines = [line.decode("latin-1").split() for line in file]
    if lines[:1] != [["x"]]:
        raise DataError(f"{path}, line 1: expected x, as svm-scale writes it.")
    lower, upper = _numbers(path, lines, 2, 2)
    if not lower < upper:
        raise DataError(f"{path}, line 2: expected two numbers that rise.")
    found: dict[int, tuple[float, float]] = {}
    for at in range(3, len(lines) + 1):
        if not lines[at - 1]:
            continue
        feature, low, high = _numbers(path, lines, at, 3)
        if feature % 1 or not 1 <= feature <= MAX_INDEX:
            raise DataError(f"{path}, line {at}: features are counted from 1, found {feature:g}.")
        if dataset.fixed_width and feature > dataset.X.shape[1]:
            raise DataError(
                f"{path}, line {at}: there is no feature {feature:g} in {dataset.name}, which has "
                f"{dataset.X.shape[1]}."
            )
        if low < high:
            found[int(feature) - 1] = low, high
    features = np.array(sorted(found), dtype=np.int64)
    ends = np.array([found[feature] for feature in features.tolist()]).reshape(-1, 2)
    return Ranges(features, ends[:, 0], ends[:, 1], lower, upper)


def _numbers(path: str, lines: list[list[str]], at: int, count: int) -> list[float]:
    """The numbers of a line, which must have `count` of them."""
    fields = lines[at - 1] if at <= len(lines) else []
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        numbers = []
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise DataError(f"{path}, line {at}: expected {count} numbers, as svm-scale writes them.")
    return numbers
