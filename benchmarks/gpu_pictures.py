"""The pictures of docs/gpu.md: the working sets of a sweep, and seconds against rows.

    python benchmarks/gpu_pictures.py [--figures FILE] [--out FOLDER]

FILE is what `gpu.py --out` wrote; without it the second picture is left as it is. The working sets
are those that the solver takes on the processor, of 256 samples, so that there are ten of them.
"""

from __future__ import annotations

import argparse
import json
import sys
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from PIL import Image
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel

from gpu import CUML_SECONDS
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.plotting._style import COLOURS, colours
from maxmargin.solvers.sweeps.matrix_run import MatrixRun
from maxmargin.solvers.sweeps.numpy_backend import NumpyBackend
from maxmargin.solvers.sweeps.pieces import Kink, Variables

ROOT = Path(__file__).parents[1]
SETS, SECONDS = "gpu-working-sets.png", "gpu-time-against-n.png"
# Large letters: the pictures are read at 400 pixels' width.
_WIDTH, _DPI, _FONT = 6.0, 130, {"font.size": 14}
_COLOURS_OF_FILE = 128
_SAMPLES, _SET_SIZE, _GAMMA, _TOL = 2500, 256, 2.0, 1e-3


class WatchedBackend(NumpyBackend):
    """The processor, which remembers what the last sweep was about.

    Attributes
    ----------
    chain : the landmarks, one after the other
    sets : the working sets, one per row
    grows : whether each sample should grow
    """

    block_size = _SET_SIZE

    def nearest(self, rows, landmarks, places):
        self.chain = landmarks[np.argsort(places)]
        return super().nearest(rows, landmarks, places)

    def working_sets(self, at, order, threshold, bonus, shift):
        index, n_above = super().working_sets(at, order, threshold, bonus, shift)
        self.sets, self.grows = [row[row >= 0] for row in index], at.residual >= 0.0
        return index, n_above


def first_sweep(X, y, seed: int = 0) -> WatchedBackend:
    """What remembers the first sweep of an SVC, at which every sample violates."""
    kernel = PrecomputedKernelMatrix(rbf_kernel(X, gamma=_GAMMA))
    backend = WatchedBackend(kernel, 2**30)
    at = Variables(np.zeros(len(y)), y.copy(), np.minimum(0.0, y), np.maximum(0.0, y))
    K, random = backend.matrix(np.arange(len(y))), np.random.default_rng(seed)
    run = MatrixRun(backend, K, at, Kink(), random, lambda: False)
    run.advance(run.state(), _TOL)
    return backend


def draw_sets(path: Path) -> None:
    """Samples that should grow above those that should shrink, a colour for each working set."""
    X, classes = make_moons(_SAMPLES, noise=0.25, random_state=0)
    sweep = first_sweep(X, np.where(classes == 1, 1.0, -1.0))
    figure = _figure(7.4)
    both = figure.subplots(2, sharex=True, sharey=True)
    kinds = (("should grow", sweep.grows, "^", 24), ("should shrink", ~sweep.grows, "o", 19))
    halo = [withStroke(linewidth=4, foreground="white")]
    for axes, (said, of_kind, marker, size) in zip(both, kinds):
        axes.plot(*X[sweep.chain].T, ".-", color="#333333", linewidth=1, label="chain of landmarks")
        for number, colour in enumerate(colours(len(sweep.sets))):
            members = sweep.sets[number][of_kind[sweep.sets[number]]]
            axes.scatter(*X[members].T, s=size, marker=marker, color=colour, linewidths=0)
            # Where the piece is densest.
            middle = members[np.argmax(rbf_kernel(X[members], gamma=10 * _GAMMA).sum(axis=0))]
            axes.text(
                *X[middle], f"{number + 1}", path_effects=halo, fontweight="bold", zorder=4,
                ha="center", va="center", fontsize=16,
            )  # fmt: skip
        axes.set_title(said, loc="left", fontsize=15)
        axes.set(xticks=[], yticks=[])
    both[0].legend(loc="upper right", frameon=False)
    _save(figure, path)


def draw_seconds(path: Path, lines: list[dict]) -> None:
    """Seconds against rows, of what converged; the last of each curve is written beside it."""
    fits = {line["case"]: line for line in lines if line["status"] == "converged"}
    covertype = [name for name in CUML_SECONDS if name.startswith("covtype-") and name in fits]
    generated = [name for name in fits if name.startswith("shells-")]
    if not covertype and not generated:
        sys.exit("no fit of covertype or of the generated data is among the figures.")
    ours = {name: line["seconds"] for name, line in fits.items()}
    curves = (
        ("covertype, cuML", covertype, CUML_SECONDS, "s--", COLOURS[1]),
        ("covertype, maxmargin", covertype, ours, "o-", COLOURS[0]),
        ("generated data, maxmargin", generated, ours, "^-", COLOURS[2]),
    )
    figure = _figure(5.2)
    axes = figure.subplots()
    for label, names, seconds, line, colour in curves:
        if not names:
            continue
        points = [(fits[name]["n"], seconds[name]) for name in names]
        axes.plot(*zip(*points), line, color=colour, linewidth=2, markersize=8, label=label)
        last = points[-1][1]
        axes.annotate(
            f"{last:.0f}" if last >= 100 else f"{last:.2g}", points[-1], (10, 0), color=colour,
            textcoords="offset points", va="center",
        )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds")
    axes.margins(x=0.14, y=0.08)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside upper left", frameon=False)
    _save(figure, path)


def _figure(height: float) -> Figure:
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _save(figure: Figure, path: Path) -> None:
    """A palette makes the file a third as large."""
    whole = BytesIO()
    figure.savefig(whole, dpi=_DPI)
    Image.open(whole).convert("RGB").quantize(_COLOURS_OF_FILE).save(path, optimize=True)
    print(f"picture: {path}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figures", type=Path, help="the JSON file of gpu.py --out")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder (default: docs)")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(_FONT):
        draw_sets(options.out / SETS)
        if options.figures:
            draw_seconds(options.out / SECONDS, json.loads(options.figures.read_text("utf-8")))


if __name__ == "__main__":
    main()
