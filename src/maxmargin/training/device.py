"""Whether a fit is done on a GPU, and by which solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from maxmargin import solvers
from maxmargin.kernels.cuda import use_card
from maxmargin.solvers.base import Solver

if TYPE_CHECKING:
    from maxmargin.solvers.sweeps import Sweeps


def solver_on_card(estimator, solver: Solver, n: int) -> Sweeps | None:
    """The solver of a fit of n samples on the GPU, or None where it is done by the processor.

    With device="auto" the processor does what a GPU cannot do; with
    device="cuda" it is an error of one sentence.
    """
    device = estimator.device
    if device == "cpu":
        return None
    obstacle = _obstacle(estimator, solver)
    if obstacle and device == "cuda":
        raise ValueError(f"device='cuda' {obstacle}; use device='cpu'.")
    if obstacle or not use_card(device, float(n) * n):
        return None
    if solver.name == "sweeps" and cast("Sweeps", solver).device == "cuda":
        return cast("Sweeps", solver)
    size = estimator.cache_size
    return solvers.Sweeps(device="cuda", memory=None if size == "auto" else int(size * 2**20))


def _obstacle(estimator, solver: Solver) -> str | None:
    if callable(estimator.kernel):
        return "takes built-in and precomputed kernels, not a function"
    if solver.name not in ("auto", "sweeps"):
        return f"goes with solver='auto' or 'sweeps', not with {solver.name!r}"
    return None
