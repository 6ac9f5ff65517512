"""`fit_report_`: its fields, its sums, and its three faces: text, HTML, dictionary."""

import dataclasses
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_digits

from maxmargin import SVC, SVCSearch
from maxmargin.estimators import documentation
from maxmargin.report import FitReport

FIELDS = ["solver", "reason", "status", "seconds", "n_iter", "kernel_evaluations", "n_support",
          "objective", "duality_gap", "kkt_violation", "history"]  # fmt: skip


@pytest.fixture(scope="module")
def models():
    X, y = load_digits(n_class=6, return_X_y=True)
    X, y = X[:240] / 16, y[:240]
    two = SVC(C=5.0).fit(X[y < 2], y[y < 2])
    return {"binary": two, "ovo": SVC(C=5.0).fit(X, y), "ovr": SVC(multi_class="ovr").fit(X, y)}


@pytest.mark.parametrize("kind", ["binary", "ovo", "ovr"])
def test_all_fields_in_total_and_for_each_problem(models, kind):
    model, n_problems = models[kind], {"binary": 1, "ovo": 15, "ovr": 6}[kind]
    report = model.fit_report_
    assert len(report) == len(list(report)) == n_problems
    for line in [report, *report]:
        for name in FIELDS:
            assert getattr(line, name) is not None
        assert line.status == "converged" and line.exact
        assert line.seconds > 0
        assert 0 <= line.kkt_violation <= 1e-3
        assert line.objective < 0
        assert line.duality_gap >= -1e-9
        assert isinstance(line.solver, str) and isinstance(line.reason, str) and line.reason


@pytest.mark.parametrize("kind", ["binary", "ovo", "ovr"])
def test_totals(models, kind):
    model = models[kind]
    report = model.fit_report_
    assert report.n_iter == sum(line.n_iter for line in report) == model.n_iter_.sum()
    assert report.kernel_evaluations == sum(line.kernel_evaluations for line in report)
    assert report.kernel_evaluations >= report[0].kernel_evaluations > 0
    assert report.kkt_violation == max(line.kkt_violation for line in report)
    assert report.duality_gap == max(line.duality_gap for line in report)
    assert_allclose(report.objective, sum(line.objective for line in report))
    assert report.seconds >= max(line.seconds for line in report)
    assert report.n_support == len(model.support_)
    assert report.tol == 1e-3


def test_problems_are_named_after_their_classes(models):
    names = [line.problem for line in models["ovo"].fit_report_]
    assert names[:2] == ["0 vs 1", "0 vs 2"] and names[-1] == "4 vs 5"
    assert models["ovr"].fit_report_[3].problem == "3 vs rest"


def test_counts_of_support_vectors(models):
    model = models["binary"]
    line = model.fit_report_[0]
    alpha = np.abs(model.dual_coef_[0])
    assert line.n_support == len(alpha)
    assert line.n_bounded == (alpha == model.C).sum()
    assert line.n_samples == model.shape_fit_[0]


def test_history_ends_with_the_certified_values(models):
    for line in models["ovo"].fit_report_:
        last = line.history[-1]
        assert last.kkt_violation == line.kkt_violation and last.objective == line.objective
        assert last.n_iter == line.n_iter and last.n_support == line.n_support
        seconds = [step.seconds for step in line.history]
        assert seconds == sorted(seconds)


@pytest.mark.parametrize("worst", ["max_iter", "time_limit", "interrupted", "stalled"])
def test_the_worst_status_speaks_for_all(models, worst):
    good = models["binary"].fit_report_[0]
    bad = dataclasses.replace(good, status=worst)
    report = FitReport([good, bad, good], seconds=1.0, n_support=3, tol=1e-3)
    assert report.status == worst
    assert str(report).startswith(worst) and repr(report).startswith(f"<FitReport: {worst}")


def test_an_approximate_model_is_not_called_optimal(models):
    rough = dataclasses.replace(models["binary"].fit_report_[0], exact=False)
    report = FitReport([rough], seconds=1.0, n_support=3, tol=1e-3)
    assert str(report).startswith("converged, approximate")


def test_text_is_a_short_table(models):
    text = str(models["binary"].fit_report_)
    lines = text.splitlines()
    assert lines[0].startswith("optimal: KKT violation")
    assert lines[1].startswith("why: ")
    assert lines[2].split()[:3] == ["problem", "solver", "status"]
    assert lines[3].startswith("0 vs 1") and len(lines) == 4
    many = str(models["ovo"].fit_report_).splitlines()
    assert many[-2].startswith("… 3 more") and many[-1].startswith("all 15")
    assert len(many) == 3 + 12 + 2
    assert repr(models["binary"].fit_report_).startswith("<FitReport: optimal")


def test_why_is_one_phrase_a_kind(models):
    one = models["binary"].fit_report_[0]
    whys = [f"{n} samples fit one working set" for n in (310, 90, 1024)]
    whys += [
        "5000 samples: working sets of 1024",
        "6000 samples: working sets of 1024",
        "requested",
    ]
    problems = [dataclasses.replace(one, reason=why) for why in whys]
    report = FitReport(problems, seconds=1.0, n_support=3, tol=1e-3)
    assert report.reasons() == [
        "90 to 1024 samples fit one working set (3 of 6 problems)",
        "5000 to 6000 samples: working sets of 1024 (2 of 6 problems)",
        "requested (1 of 6 problems)",
    ]
    assert report.reason == " | ".join(report.reasons())
    assert FitReport(problems[:1], seconds=1.0, n_support=3, tol=1e-3).reason == whys[0]
    same = FitReport(problems[-1:] * 4, seconds=1.0, n_support=3, tol=1e-3)
    assert same.reason == "requested (4 problems)"
    why = "15 problems over 240 samples, solved together in compiled code"
    assert models["ovo"].fit_report_.reason == why


def test_the_html_view_of_an_estimator_links_to_its_documentation(monkeypatch):
    pages = {
        "": None,
        "https://docs.example/svm": "https://docs.example/svm/api.html#maxmargin.SVC",
    }
    for address, link in pages.items():
        monkeypatch.setattr(documentation, "documentation_address", lambda address=address: address)
        page, search = SVC()._repr_html_(), SVCSearch({"C": [1]})._repr_html_()
        assert ("Documentation for SVC" in page) == (link is not None)
        assert link is None or (link in page and f"{link}Search" in search)


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.rows, self.cells = [], 0, []

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells.append(data)


def test_html_is_well_formed_and_escaped(binary):
    X, y = binary
    labels = np.where(y == 1, "<b>&", "z")
    model = SVC().fit(X, labels)
    page = _Cells()
    page.feed(model.fit_report_._repr_html_())
    assert page.open == [] and page.rows == 2
    assert page.cells[0] == "<b>& vs z"
    assert "<b>& vs z" not in model.fit_report_._repr_html_()


@pytest.mark.parametrize("kind", ["binary", "ovo"])
def test_to_dict_survives_json(models, kind):
    report = models[kind].fit_report_
    whole = report.to_dict()
    again = json.loads(json.dumps(whole, allow_nan=False))
    assert again["status"] == "converged" and again["tol"] == 1e-3
    assert len(again["problems"]) == len(report)
    assert again["problems"][0]["history"][-1]["n_iter"] == report[0].n_iter
    assert set(FIELDS) - {"history"} <= set(again)
    assert set(FIELDS) <= set(again["problems"][0])


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_json_cannot_hold_is_null(models, number):
    good = models["binary"].fit_report_[0]
    odd = dataclasses.replace(good, duality_gap=number, details={"values": np.array([1, number])})
    for problems in ([good, odd], [odd, good]):
        whole = FitReport(problems, seconds=1.0, n_support=3, tol=1e-3).to_dict()
        assert json.loads(json.dumps(whole, allow_nan=False)) == whole
        assert whole["problems"][problems.index(odd)]["duality_gap"] is None
        assert whole["problems"][problems.index(odd)]["details"] == {"values": [1.0, None]}
        assert (whole["duality_gap"] is None) == (number != -np.inf)
