"""All fits of a search: those that share kernels and solutions, then the others one by one."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from maxmargin.monitor import Interrupt
from maxmargin.search.chains import Chains, reason_not_shared, reason_too_large
from maxmargin.search.folds import CVData
from maxmargin.search.held_out import FoldSolution, held_out_model
from maxmargin.search.independent import fit_independently
from maxmargin.sklearn_private import num_samples

__all__ = ["CVData", "fit_candidates"]


def fit_candidates(estimators: dict, cv_data: CVData, verbose: int = 0) -> Iterator[tuple]:
    """(candidate, fold, fitted model or None, seconds, error or None) of all fits.

    Candidates are estimators of one class by their number.
    """
    reasons = _reasons(estimators, num_samples(cv_data.X))
    for reason in dict.fromkeys(filter(None, reasons.values())) if verbose else ():
        print(f"[maxmargin] some candidates are fitted one by one: {reason}.", flush=True)
    splits = range(len(cv_data.splits))
    alone = [(number, split) for number, reason in reasons.items() if reason for split in splits]
    sharing = {number: estimators[number] for number, reason in reasons.items() if not reason}
    if sharing:
        alone += yield from _shared(cv_data, sharing)
    yield from fit_independently(cv_data, estimators, alone)


def _reasons(estimators: dict, n: int) -> dict[int, str | None]:
    """Why each candidate is fitted alone; None where it shares its work with others."""
    reasons = {number: reason_not_shared(estimator) for number, estimator in estimators.items()}
    sharing = [number for number, reason in reasons.items() if not reason]
    if sharing:
        too_large = reason_too_large([estimators[number] for number in sharing], n)
        reasons |= dict.fromkeys(sharing, too_large)
    return reasons


def _shared(cv_data: CVData, estimators: dict) -> Generator[tuple, None, list[tuple[int, int]]]:
    """The fits of chains; returns (candidate, split) of the fits that need a full solver."""
    interrupt, alone = Interrupt(), []
    chains = Chains(cv_data, estimators, num_samples(cv_data.X), interrupt)
    for number, fold in chains.failed:
        yield number, fold, None, 0.0, fold.error
    with interrupt.listening():
        for number, answer in chains.solve():
            if isinstance(answer, FoldSolution):
                model = held_out_model(estimators[number], answer)
                yield number, answer.fold, model, answer.seconds, None
            else:
                alone.append((number, answer.split))
    if interrupt.requested:
        raise KeyboardInterrupt
    return alone
