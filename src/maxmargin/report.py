"""`fit_report_`: what was solved, by what and why, in how long, how close to the optimum."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from maxmargin.monitor import Progress

_STATUS_ORDER = ("interrupted", "time_limit", "max_iter", "stalled", "converged")
_COLUMNS = ("problem", "solver", "status", "seconds", "n_iter", "n_support", "kkt_violation",
            "duality_gap", "objective")  # fmt: skip
_ROWS_SHOWN = 12  # problems that the text lists
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class ProblemReport:
    """The report of one binary problem.

    Attributes
    ----------
    problem : its classes, such as "0 vs 1"
    solver, reason : what solved it, and why that one
    status : "converged", "max_iter", "time_limit", "interrupted" or "stalled"
    exact : whether the solver aims at the optimum of the whole problem
    seconds : wall-clock time, the certificate included and the compiler left out
    n_iter : iterations, in the solver's own unit
    kernel_evaluations : kernel values computed; what several problems use counts for the first
    n_samples, n_support, n_bounded : samples, those with β ≠ 0, those at their bound C
    objective : ½βᵀKβ − pᵀβ, which is minimised
    duality_gap : an upper bound on the distance of the objective to its optimum
    kkt_violation : the maximal violating pair, recomputed from scratch in float64
    history : how the solve went
    details : figures that the solver adds
    quantities : figures of the formulation: epsilon, nu, rho, the part of outliers
    """

    problem: str
    solver: str
    reason: str
    status: str
    exact: bool
    seconds: float
    n_iter: int
    kernel_evaluations: int
    n_samples: int
    n_support: int
    n_bounded: int
    objective: float
    duality_gap: float
    kkt_violation: float
    history: tuple[Progress, ...] = ()
    details: dict = field(default_factory=dict)
    quantities: dict = field(default_factory=dict)


class ReportTable(Sequence[ProblemReport]):
    """Reports of many problems as columns; each is made when it is read.

    Parameters
    ----------
    labels : names of the classes
    first, second : the two classes of each problem, −1 for all the others
    statuses, status : the words, and the number of the word of each problem
    columns : the other fields that differ, name → array with an entry per problem
    same : the fields that are the same for all
    others : reports of problems with more details, by number
    quantities : figures of the formulation, name → array with an entry per problem
    """

    def __init__(
        self, *, labels, first, second, statuses: list[str], status, columns: dict, same: dict,
        others: dict[int, ProblemReport], quantities: dict | None = None,
    ):  # fmt: skip
        self._labels, self._first, self._second = labels, first, second
        self._statuses, self._status = statuses, status
        self._columns, self._same, self._others = columns, same, others
        self._quantities = quantities or {}

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, at):
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = range(len(self))[at]
        if number in self._others:
            return self._others[number]
        fields = {name: column[number].item() for name, column in self._columns.items()}
        last = Progress(
            fields["seconds"], fields["n_iter"], fields["kkt_violation"], fields["objective"],
            fields["n_support"],
        )  # fmt: skip
        second = self._second[number]
        other = "rest" if second < 0 else self._labels[second]
        return ProblemReport(
            problem=f"{self._labels[self._first[number]]} vs {other}",
            status=self._statuses[self._status[number]],
            history=(last,),
            quantities={name: column[number].item() for name, column in self._quantities.items()},
            **fields,
            **self._same,
        )

    def column(self, name: str) -> list:
        """One field of all problems; of words only the distinct ones."""
        if name == "status":
            return [self._statuses[number] for number in sorted(set(self._status.tolist()))]
        if name in self._columns:
            return self._columns[name].tolist()
        own = [self._same[name]] if len(self._others) < len(self) else []
        return own + [getattr(report, name) for report in self._others.values()]

    def reasons(self) -> Counter[str]:
        """Each reason, and for how many problems it holds."""
        counts = Counter({self._same["reason"]: len(self) - len(self._others)})
        counts.update(report.reason for report in self._others.values())
        return +counts


class FitReport:
    """The reports of all binary problems, and the same fields for the fit as a whole.

    `seconds`, `n_iter`, `kernel_evaluations` and `objective` are sums,
    `duality_gap` and `kkt_violation` the largest, `status` the worst;
    `n_support` counts the support vectors of the model. `seconds` of the whole includes
    `compile_seconds`, which the first fit of a process spends on compiled code: a fraction of
    a second to load it, and several seconds to compile it.
    """

    def __init__(
        self, problems: Sequence[ProblemReport], *, seconds: float, n_support: int, tol: float,
        compile_seconds: float = 0.0,
    ):  # fmt: skip
        self.problems = problems
        self.seconds = seconds
        self.n_support = n_support
        self.tol = tol
        self.compile_seconds = compile_seconds

    def __len__(self) -> int:
        return len(self.problems)

    def __iter__(self) -> Iterator[ProblemReport]:
        return iter(self.problems)

    def __getitem__(self, at: int) -> ProblemReport:
        return self.problems[at]

    def _column(self, name: str) -> list:
        """One field of all problems."""
        if isinstance(self.problems, ReportTable):
            return self.problems.column(name)
        return [getattr(problem, name) for problem in self.problems]

    def _distinct(self, name: str) -> str:
        return " | ".join(dict.fromkeys(self._column(name)))

    def _largest(self, name: str) -> float:
        """The largest value; NaN if any value is NaN, which `max` may overlook."""
        values = self._column(name)
        return math.nan if any(map(math.isnan, values)) else max(values)

    @property
    def solver(self) -> str:
        return self._distinct("solver")

    @property
    def reason(self) -> str:
        return " | ".join(self.reasons())

    def reasons(self) -> list[str]:
        """One phrase for each kind of reason, with the number of problems that it holds for."""
        if isinstance(self.problems, ReportTable):
            counts = self.problems.reasons()
        else:
            counts = Counter(problem.reason for problem in self.problems)
        kinds = _by_kind(counts)
        total = len(self.problems)
        if len(kinds) == 1 and (total == 1 or kinds[0][0].startswith(f"{total} ")):
            return [kinds[0][0]]
        if len(kinds) == 1:
            return [f"{kinds[0][0]} ({total} problems)"]
        return [f"{phrase} ({count} of {total} problems)" for phrase, count in kinds]

    @property
    def status(self) -> str:
        return min(self._column("status"), key=_STATUS_ORDER.index)

    @property
    def exact(self) -> bool:
        return all(self._column("exact"))

    @property
    def n_iter(self) -> int:
        return sum(self._column("n_iter"))

    @property
    def kernel_evaluations(self) -> int:
        return sum(self._column("kernel_evaluations"))

    @property
    def objective(self) -> float:
        return sum(self._column("objective"))

    @property
    def duality_gap(self) -> float:
        return self._largest("duality_gap")

    @property
    def kkt_violation(self) -> float:
        return self._largest("kkt_violation")

    @property
    def history(self) -> list[Progress]:
        return [line for problem in self.problems for line in problem.history]

    def to_dict(self) -> dict:
        """The whole report as dictionaries, lists, strings and numbers that JSON has.

        What is infinite or not a number, such as a bound that a solver cannot give, is None.
        """
        names = ("solver", "reason", "status", "exact", "seconds", "compile_seconds", "n_iter",
                 "kernel_evaluations", "n_support", "objective", "duality_gap", "kkt_violation",
                 "tol")  # fmt: skip
        return plain(
            {name: getattr(self, name) for name in names}
            | {"problems": [asdict(problem) for problem in self.problems]}
        )

    def _rows(self) -> list[list[str]]:
        shown = self.problems if len(self.problems) <= _ROWS_SHOWN else self.problems[:_ROWS_SHOWN]
        rows = [[_text(getattr(problem, name)) for name in _COLUMNS] for problem in shown]
        if len(shown) < len(self.problems):
            rows.append([f"… {len(self.problems) - len(shown)} more"] + [""] * (len(_COLUMNS) - 1))
        if len(self.problems) > 1:
            total = [_text(getattr(self, name)) for name in _COLUMNS[1:]]
            rows.append([f"all {len(self.problems)}", *total])
        return rows

    def _headline(self) -> str:
        kind = "optimal" if self.status == "converged" and self.exact else self.status
        if not self.exact:
            kind += ", approximate"
        return (
            f"{kind}: KKT violation {self.kkt_violation:.2g} (tol {self.tol:g}), "
            f"{self.n_support} support vectors, {self._quantities()}{self.seconds:.3g} s"
        )

    def _quantities(self) -> str:
        """The figures of the formulation, if the fit has a single problem."""
        of_one = self.problems[0].quantities if len(self.problems) == 1 else {}
        return "".join(f"{name} {value:.4g}, " for name, value in of_one.items())

    def __str__(self) -> str:
        rows = [list(_COLUMNS), *self._rows()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
        lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([self._headline(), f"why: {self.reason}", *lines])

    def __repr__(self) -> str:
        return f"<FitReport: {self._headline()}>"

    def _repr_html_(self) -> str:
        def cells(tag: str, values: list[str]) -> str:
            return "".join(f"<{tag}>{html.escape(value)}</{tag}>" for value in values)

        body = "".join(f"<tr>{cells('td', row)}</tr>" for row in self._rows())
        return (
            f"<p><b>{html.escape(self._headline())}</b><br>why: {html.escape(self.reason)}</p>"
            f"<table><thead><tr>{cells('th', list(_COLUMNS))}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def _by_kind(counts: Counter[str]) -> list[tuple[str, int]]:
    """Reasons that differ only in their numbers become one, with the range of each number."""
    kinds: dict[str, list[tuple[str, int]]] = {}
    for reason, count in counts.items():
        kinds.setdefault(_NUMBER.sub("#", reason), []).append((reason, count))
    phrases = []
    for members in kinds.values():
        columns = zip(*(_NUMBER.findall(reason) for reason, _ in members))
        ranges = iter([_range(column) for column in columns])
        phrase = _NUMBER.sub(lambda match: next(ranges), members[0][0])  # noqa: B023
        phrases.append((phrase, sum(count for _, count in members)))
    return sorted(phrases, key=lambda kind: -kind[1])


def _range(numbers: tuple[str, ...]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if low == high else f"{low} to {high}"


def _text(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def plain(value, not_finite=lambda number: None):
    """The value as JSON can hold it: NumPy's types as Python's, anything unknown as text.

    `not_finite` says what becomes of the numbers that JSON does not have.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry, not_finite) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry, not_finite) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return not_finite(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
