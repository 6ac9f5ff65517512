"""Where the greedy method gets its kernel rows from: one by one, or in panels."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.feature_major import FeatureMajorSamples
from maxmargin.kernels.interface import KernelMatrix
from maxmargin.kernels.row_cache import RowCache
from maxmargin.monitor import WORK_PER_CALL
from maxmargin.problem import Problem
from maxmargin.solvers.greedy.steps import greedy_steps

# Rows of one product where rows that are not chosen at once can stay in memory. Beyond a GB
# the first touch of so much memory takes the time that the larger products save.
_PANEL = 64
_PANEL_BYTES = 2**30
# Panels become narrower while fewer of the computed rows than this have been chosen.
_CHOSEN_SHARE = 0.5
# Passes over a row, one per feature of its sample, that take as long as the rest of a step.
_PASSES_PER_STEP = 8


class OneByOne:
    """Each row computed inside the compiled steps and never stored: O(n) memory beside X.

    The row of the last sample decides which one is next, so this computes what Algorithm 1
    needs and no more.
    """

    # Used samples stay among the columns up to this share of them, since dropping them is a copy.
    used_share = 1 / 64

    def __init__(self, samples: FeatureMajorSamples, kernel: KernelMatrix):
        self.samples, self.kernel = samples, kernel

    def steps_per_call(self, n: int) -> int:
        passes = 1 + len(self.samples.table) // _PASSES_PER_STEP
        return max(1, min(64 + int(self.used_share * n), WORK_PER_CALL // (passes * n)))

    def steps(self, state: tuple) -> tuple[int, int, int]:
        """`greedy_steps` on these rows."""
        samples = self.samples
        source = samples.table, samples.norms, *samples.parameters
        outcome, steps, best = greedy_steps(None, source, *state)
        self.kernel.counter.add(steps * len(samples.norms))
        return outcome, steps, best

    def restrict(self, kept: np.ndarray) -> None:
        self.samples = self.samples.restrict(kept)

    def fetch(self, needed: int, score: np.ndarray, positive: np.ndarray, n_chosen: int) -> None:
        """Nothing to do: no row is ever missing."""


class Panels:
    """Products of several rows: the row that is needed and the rows of the next candidates.

    Candidates wait in the cache until they are chosen. Which of them will be chosen is a
    guess, so the width of a panel follows the share that was chosen.

    Parameters
    ----------
    panel : the most rows of one product; with 1 two rows are stored, else what the cache allows
    """

    def __init__(self, problem: Problem, cache_bytes: int, panel: int):
        self.kernel, self.panel = problem.kernel, panel
        self.width, self.rows_computed = min(panel, 2), 0
        self.used_share = 1 / 64 if panel == 1 else 1 / 8  # with the rows that wait in the cache
        two_rows = 2 * problem.n * problem.kernel.dtype.itemsize
        memory = cache_bytes if panel > 1 else min(two_rows, cache_bytes)
        self.cache = RowCache(problem.kernel, memory)

    def steps_per_call(self, n: int) -> int:
        return max(1, WORK_PER_CALL // n)

    def steps(self, state: tuple) -> tuple[int, int, int]:
        """`greedy_steps` on these rows."""
        rows, slot_of, _ = self.cache.arrays()
        return greedy_steps((rows, slot_of), None, *state)

    def restrict(self, kept: np.ndarray) -> None:
        self.kernel = self.kernel.restrict(kept)
        self.cache.restrict(kept, self.kernel)

    def fetch(self, needed: int, score: np.ndarray, positive: np.ndarray, n_chosen: int) -> None:
        """The row `needed` and those of the best candidates, in place of the least likely ones.

        Parameters
        ----------
        score : of each sample; those up to 0 are no candidates
        positive : which samples are of the first class
        n_chosen : samples chosen so far
        """
        cache = self.cache
        if self.panel == 1:
            cache.fetch(np.array([needed]))
            return
        wide = n_chosen >= _CHOSEN_SHARE * self.rows_computed
        self.width = min(self.panel, 2 * self.width) if wide else max(1, self.width // 2)
        wanted = self._candidates(needed, score, positive, min(self.width, cache.capacity))
        cache.prefer(score)  # that of used samples is the lowest
        cache.fetch(wanted)
        self.rows_computed += len(wanted)

    def _candidates(self, needed: int, score, positive, count: int) -> np.ndarray:
        """Samples without a row, the best ones of both classes: they are chosen in turn."""
        missing = np.flatnonzero(~self.cache.holds() & (score > 0))
        if len(missing) <= count:
            return missing
        parts = [np.array([needed])]
        others = missing[missing != needed]
        for own in (others[positive[others]], others[~positive[others]]):
            half = min((count - 1) // 2, len(own))
            best = np.argpartition(-score[own], half)[:half] if half < len(own) else slice(None)
            parts.append(own[best])
        return np.sort(np.concatenate(parts))


def row_source(problem: Problem, cache_bytes: int, panel: int | None) -> OneByOne | Panels:
    """One by one where the kernel allows it; else panels, if rows not chosen at once can wait."""
    if panel is None:
        samples = problem.kernel.feature_major()
        if samples is not None:
            return OneByOne(samples, problem.kernel)
        half_of_the_rows = problem.n * (problem.n // 2) * problem.kernel.dtype.itemsize
        panel = _PANEL if half_of_the_rows <= min(cache_bytes, _PANEL_BYTES) else 1
    return Panels(problem, cache_bytes, panel)
