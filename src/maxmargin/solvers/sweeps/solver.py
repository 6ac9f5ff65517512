"""Sweeps of decoupled working sets, then proximal Newton steps on one factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from maxmargin import constants
from maxmargin.kernels.cuda.kernel_matrix import CudaKernelMatrix
from maxmargin.kernels.feature_matrix import FeatureKernelMatrix
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.problem import Problem
from maxmargin.run import Run
from maxmargin.solution import Solution, Status
from maxmargin.solvers.base import FORMULATIONS, Capabilities, Solver
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.pairs import Batch, BatchOutcome
from maxmargin.solvers.sweeps.backend import Backend
from maxmargin.solvers.sweeps.batch import are_small_pairs, solve_pairs
from maxmargin.solvers.sweeps.cupy_backend import CupyBackend
from maxmargin.solvers.sweeps.numpy_backend import NumpyBackend
from maxmargin.solvers.sweeps.run import SweepRun


class Sweeps(Solver):
    """Optimises many working sets at once, then all free samples by Newton steps.

    Parameters
    ----------
    device : {"cpu", "cuda"}
        Where it computes.
    memory : int or None
        Bytes of the card's memory that it may take; None for a share of what is free.
    """

    name = "sweeps"
    capabilities = Capabilities(formulations=FORMULATIONS)

    def __init__(self, device: str = "cpu", memory: int | None = None):
        if device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {device!r}.")
        self.device, self.memory = device, memory

    def solve(self, problem: Problem, run: Run) -> Solution:
        problem, backend = self._placed(problem, run)
        sweeps = SweepRun(problem, run, backend)
        status = sweeps.until_certified()
        certificate = sweeps.certificate()
        if run.refine and problem.n <= constants.REFINED_SAMPLES and status is Status.CONVERGED:
            # As with the other solvers, a small problem is solved to its exact optimum.
            exact = replace(run, start=certificate.beta, start_residual=None)
            certificate = Decomposition().solve(problem, exact).certificate or certificate
        seconds = {f"seconds_{part}": round(value, 6) for part, value in sweeps.seconds.items()}
        return Solution(
            certificate.beta, certificate.intercept, status, sweeps.n_iter,
            reason=f"requested; on the {backend.name}", certificate=certificate,
            details={
                "sweeps": sweeps.n_sweeps, "newton_steps": sweeps.n_newton,
                "matrices": sweeps.n_matrices, "samples_in_memory": sweeps.in_memory, **seconds,
            },
        )  # fmt: skip

    def solves_together(self, batch: Batch) -> bool:
        """Whether the problems of a fit are of the kind that `solve_together` is for."""
        return are_small_pairs(batch)

    def solve_together(
        self, batch: Batch, kernel: KernelMatrix, should_stop: Callable[[], bool],
        start: np.ndarray | None,
    ) -> BatchOutcome | None:  # fmt: skip
        """Solve the small pairs of classes of a fit; None where their kernel matrix is too large.

        `kernel` is that of all samples, in the order of the batch.
        """
        assert isinstance(kernel, CudaKernelMatrix)
        backend = CupyBackend(kernel, self.memory)
        try:
            return solve_pairs(batch, backend, should_stop, start)
        finally:
            backend.release()

    def _placed(self, problem: Problem, run: Run) -> tuple[Problem, Backend]:
        """The problem with its samples where they are wanted, and the backend there."""
        if self.device == "cpu":
            return problem, NumpyBackend(problem.kernel, run.cache_bytes)
        kernel = problem.kernel
        if not isinstance(kernel, CudaKernelMatrix):
            if isinstance(kernel, FeatureKernelMatrix):
                kernel = CudaKernelMatrix(kernel.features(), kernel.function)
            else:
                kernel = CudaKernelMatrix(kernel.block(np.arange(kernel.n)), None)
            problem = replace(problem, kernel=kernel)
        return problem, CupyBackend(kernel, self.memory)
