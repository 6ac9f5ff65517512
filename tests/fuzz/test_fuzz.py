"""Random problems, and those that were once answered wrongly.

`make fuzz` judges 10,000 others. A seed that fails goes into `FOUND`, with a sentence.
"""

import pytest

from . import family
from .judge import binary_problems, complaints
from .problems import FIRST_OF_CATEGORIES, FIRST_OF_FAMILY, make_problem
from .run import fit, judge_seed

PROBLEMS, AT_A_TIME = 200, 10
FAMILY = range(FIRST_OF_FAMILY, FIRST_OF_FAMILY + 160, AT_A_TIME)
CATEGORIES = range(FIRST_OF_CATEGORIES, FIRST_OF_CATEGORIES + 8 * 20, 8)

FOUND = {
    39: "the maximal violating pair was not selected: its violation is small beside the intercept",
    54: "the same, without shrinking",
    125: "the greedy method ran out of samples that it had not used",
    170: "the same, with kernel rows in a cache",
    258: "a bound far away: β next to it by that measure was put on zero, and Σβ = −2.4",
    266: "a large constant feature: passes without end, though rounding left nothing to gain",
    527: "smoothing below rounding: the low-rank step lost Σβ and was never tried again",
    574: "LAPACK found no leading eigenvector where all are equal",
    735: "kernel values of a part, and an intercept that belongs to another β",
    753: "given up after one pass, though the next one converges",
    829: "IRWLS as the base of a hierarchical fit with a hard margin: Σβ ≠ 0",
    905: "coefficients of 1e-13 beside C = 0.08 were rounded to zero on one side",
    1168: "a clustered fit with a hard margin: Σβ ≠ 0",
    1222: "a low-rank system without a solution left NaN",
    1497: "coefficients of 1e-14 beside C = 0.002: Σβ ≠ 0",
    1583: "a hard margin on five samples, all β on one side",
    1641: "max_iter of one subproblem was reported as Ctrl-C",
    1945: "the same draft of a hierarchical fit again and again",
    2288: "β fell from 7,000 to 1e-13, and what rounding left of Σβ was more than that",
    3485: "a polynomial of degree 1 with a negative constant: stalled at β = 0",
    29228: 'one value everywhere: gamma="scale" took the rounding of its mean for a variance',
    64929: "C = inf without a hard margin: the violation was that of the bound in its place",
    309756: "kernel values beyond float32: a residual in float32 overflowed",
    201054: "kernel values beyond float32: an infinite diagonal made every SMO step zero",
    10_000_142: "ν-SVR: the limit on ‖β‖₁ was that of the bounds that stand for a very large C",
    119527: "no pair of the exhaustive selection had a gain: a row was asked for forever",
}


def failures(seeds) -> str:
    found = []
    for seed in seeds:
        outcome, sentences, description = judge_seed(seed)
        if sentences:
            found.append("\n    ".join([f"{outcome}: {description}", *sentences]))
    return "\n".join(found)


@pytest.mark.parametrize("first", range(0, PROBLEMS, AT_A_TIME))
def test_random_problems(first):
    found = failures(range(first, first + AT_A_TIME))
    assert not found, found


def test_random_problems_with_categories():
    assert all("categories" in make_problem(seed).notes for seed in CATEGORIES)
    found = failures(CATEGORIES)
    assert not found, found


@pytest.mark.parametrize("first", FAMILY)
def test_random_problems_of_the_family(first):
    found = failures(range(first, first + AT_A_TIME))
    assert not found, found


@pytest.mark.parametrize("seed", FOUND)
def test_problems_that_were_once_answered_wrongly(seed):
    found = failures([seed])
    assert not found, found


def test_the_judge_sees_what_is_wrong():
    """A judge that never complains would be worth nothing."""
    problem = next(
        problem
        for problem in map(make_problem, range(1000))
        if problem.solver == "auto" and problem.params["kernel"] == "rbf" and not problem.limited
        and problem.params["C"] == problem.params["C"] < 1e3 and len(set(problem.y)) == 2
        and problem.weights is None
    )  # fmt: skip
    model = fit(problem)

    def judged():
        return complaints(
            model, problem.X, problem.y, None, problem.params, box=True, exact=True
        )  # fmt: skip

    assert judged() == []
    (_, _, beta, _) = next(iter(binary_problems(model, problem.y, "ovo")))
    assert beta.any()
    original = model.dual_coef_
    for change, sentence in ((1.5, "violation"), (-1.0, "negative"), (1e9, "exceeds C")):
        model.__dict__["dual_coef_"] = model.__dict__["_dual_coef_"] = original * change
        assert sentence in " ".join(judged()), change
    changed = original.copy()
    changed[0, 0] = 0.0
    model.__dict__["dual_coef_"] = changed
    assert "Σβ" in " ".join(judged())


@pytest.mark.parametrize("kind", family.KINDS)
def test_the_judge_of_the_family_sees_what_is_wrong(kind):
    problem = next(
        problem
        for problem in map(make_problem, range(FIRST_OF_FAMILY, FIRST_OF_FAMILY + 1000))
        if problem.kind == kind and problem.solver == "auto" and not problem.limited
        and problem.params["kernel"] == "rbf" and problem.params.get("C", 1.0) < 1e3
        and problem.weights is None and len(set(problem.y)) > 1
        and not {"constant", "noise"} & set(problem.notes)
    )  # fmt: skip
    model = fit(problem)

    def judged():
        return " ".join(family.complaints(model, problem, exact=True, solves_all=True))

    assert not judged()
    original = model.dual_coef_
    # The decision function of a ν-SVC has any scale.
    for change in (-1.0,) if kind == "NuSVC" else (-1.0, 1.01, 1e9):
        model.__dict__["dual_coef_"] = model.__dict__["_dual_coef_"] = original * change
        assert judged(), change
    changed = original.copy()
    changed[0, abs(changed[0]).argmax()] = 0.0
    model.__dict__["dual_coef_"] = changed
    assert "a sum is" in judged()
