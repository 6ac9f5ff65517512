"""All binary problems of a fit as one job: compiled SMO steps, kernel values shared."""

from maxmargin.solvers.pairs.batch import Batch, BatchOutcome, solve_batch, worth_it
from maxmargin.solvers.pairs.copies import type_of_copies
from maxmargin.solvers.pairs.growing import follow_pairs
from maxmargin.solvers.pairs.problems import CONVERGED, HARD, STEP_LIMIT

__all__ = [
    "CONVERGED",
    "HARD",
    "STEP_LIMIT",
    "Batch",
    "BatchOutcome",
    "follow_pairs",
    "solve_batch",
    "type_of_copies",
    "worth_it",
]
