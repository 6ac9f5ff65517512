"""Residuals of very many samples that are brought up to date in turn.

A part of the samples is solved by itself, and the residual of all others changes with it. Their
kernel values against all samples that moved are most of the work. But the next part has places
for some of the violators only, and half of the others have more than enough of them: as in partial
pricing of linear programs, the other half waits, and hears of the moves of several parts at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from maxmargin import constants
from maxmargin.optimality import violation_and_levels, violation_of
from maxmargin.parallel import split
from maxmargin.problem import GOLDEN
from maxmargin.solvers.common.active_set import ActiveSet
from maxmargin.solvers.common.violators import pulls

# Samples whose moves are carried over to others at once.
_CARRIED = 2048
# Groups of samples that are brought up to date in turn.
_GROUPS = 2
# Violators, by a part of the violation at least, that are enough for the next part, as a share of
# its samples.
_VIOLATES = 0.1
_ENOUGH = 0.025


class PartialPricing:
    """The residuals of active samples while one part of them is solved after the other.

    Each sample has the number of the β that its residual belongs to.
    """

    def __init__(self, active: ActiveSet):
        self.active = active
        self._number = np.zeros(active.n, np.int64)
        self._now, self._betas = 0, {0: active.beta.copy()}
        self._group = ((active.index * GOLDEN) % 1.0 * _GROUPS).astype(np.int64)
        self._turn = 0

    def select(self, size: int) -> np.ndarray:
        """A part that is worth solving: free samples, and violators that are known as such."""
        chosen = self.active.select_part(size, self._known())
        self.refresh(chosen)
        return chosen

    def take_over(self, part: ActiveSet, of: np.ndarray) -> int:
        """Take β and residual of a part over; how many samples moved."""
        active = self.active
        moved = int(np.count_nonzero(part.beta != active.beta[of]))
        active.beta[of], active.residual[of] = part.beta, part.residual
        self._now += 1
        self._betas[self._now] = active.beta.copy()
        self._number[of] = self._now
        return moved

    def violation_of_some(
        self, size: int, must_stop: Callable[[], bool] = lambda: False
    ) -> float | None:
        """The violation of up-to-date samples, if these have enough violators for a part.

        None where there are not, or where all samples are up to date.
        """
        active, problem = self.active, self.active.problem
        if problem.kinked:  # no one residual says of all samples that they need not move
            return None
        group, self._turn = self._turn, (self._turn + 1) % _GROUPS
        self.refresh(np.flatnonzero(self._group == group), must_stop)
        known = self._number == self._now
        if must_stop() or known.all():
            return None
        residual = self._known()
        violation, _ = violation_of(problem, active.beta, residual)
        pull = pulls(problem, active.beta, residual, np.flatnonzero(known))
        enough = np.count_nonzero(pull > _VIOLATES * violation) >= _ENOUGH * size
        return violation if enough and violation > constants.TARGET * active.tol else None

    def refresh(
        self, rows: np.ndarray | None = None, must_stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Bring the residual of some samples up to date, by default of all.

        Where it must stop, they are left as they are: only the certificate is computed after it.
        """
        active, rows = self.active, np.arange(self.active.n) if rows is None else rows
        for number in np.unique(self._number[rows]):
            change = active.beta - self._betas[number]
            moved, behind = np.flatnonzero(change), rows[self._number[rows] == number]
            for block in split(len(moved), _CARRIED):
                if must_stop():
                    return
                active.carry(moved[block], change[moved[block]], behind)
            self._number[behind] = self._now
        for number in set(self._betas) - set(np.unique(self._number)) - {self._now}:
            del self._betas[number]

    def _known(self) -> np.ndarray:
        """The residual, where it is up to date; else one that is no reason to move."""
        active, behind = self.active, self._number != self._now
        if not behind.any():
            return active.residual
        known, problem = np.flatnonzero(~behind), active.problem
        _, levels = violation_and_levels(
            active.beta[known], active.residual[known], problem.lower[known], problem.upper[known]
        )
        return np.where(behind, levels[0], active.residual)
