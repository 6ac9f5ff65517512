"""What a solver returns, and what its status means in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # kernels, and with them the compiler, are loaded with the first fit
    from maxmargin.optimality import Certificate


class Status(StrEnum):
    """How a solve ended."""

    CONVERGED = "converged"
    MAX_ITER = "max_iter"
    TIME_LIMIT = "time_limit"
    INTERRUPTED = "interrupted"
    STALLED = "stalled"

    def message(self, *, max_iter: int, time_limit: float | None, tol: float) -> str:
        """The sentence that a user reads in the `ConvergenceWarning`."""
        sentences = {
            Status.CONVERGED: "The optimum was reached.",
            Status.MAX_ITER: (
                f"Solver terminated early (max_iter={max_iter}).  Consider pre-processing your "
                "data with StandardScaler or MinMaxScaler."
            ),
            Status.TIME_LIMIT: (
                f"Solver stopped at time_limit={time_limit} s before it reached tol={tol}; "
                "fit again with warm_start=True to go on."
            ),
            Status.INTERRUPTED: (
                f"Solver was interrupted before it reached tol={tol}; the model is usable, and "
                "fit with warm_start=True goes on from it."
            ),
            Status.STALLED: (
                f"Solver could not reach tol={tol} in float64 arithmetic; see "
                "fit_report_.kkt_violation for what it reached. Scale the features, as with "
                "StandardScaler, lower C or raise tol."
            ),
        }
        return sentences[self]


# The ends of a solve that a limit or the user brought about.
STOPPED = (Status.MAX_ITER, Status.TIME_LIMIT, Status.INTERRUPTED)


@dataclass(frozen=True, eq=False)
class Stages:
    """The support vectors of a stagewise solver in the order in which they were chosen.

    Attributes
    ----------
    samples, coefficients : the support vectors and their coefficients
    intercepts : the constant of the decision function after each of them
    """

    samples: np.ndarray
    coefficients: np.ndarray
    intercepts: np.ndarray


# Among the details of a solution: a tol below the given one was out of reach in reasonable time.
GAVE_UP = "lower_tol_given_up"


@dataclass(eq=False)
class Solution:
    """The result of a solve.

    Attributes
    ----------
    beta : float64 array, the signed dual coefficients
    intercept : the constant b of the decision function; that of an exact solver follows from β
    status : how the solve ended, as the solver believes
    n_iter : iterations, in the solver's own unit
    solver, reason : name of the solver and why it was chosen, where a solver delegates to another
    details : further figures that the solver wants reported
    certificate : what `optimality.certify` said of this very β, where the solver called it;
        any other certificate is computed again
    stages : the models on the way to the last one, where the solver keeps them
    within_limits : where the solver gave up because the sums of a problem that is `limited` seem
        slack, a β from which to go on without them
    """

    beta: np.ndarray
    intercept: float
    status: Status
    n_iter: int
    solver: str = ""
    reason: str = "requested"
    details: dict = field(default_factory=dict)
    certificate: Certificate | None = None
    stages: Stages | None = None
    within_limits: np.ndarray | None = None
