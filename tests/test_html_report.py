"""The page about a fit: complete, self-contained, and shown by a real browser."""

import re
import shutil
import struct
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVR, OneClassSVM
from maxmargin._html_charts import _ticks, error_charts
from maxmargin.html_report import html_report
from maxmargin.monitor import Progress
from maxmargin.report import FitReport

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
BROWSER_OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars",
]  # fmt: skip
VOID = {"meta", "line", "polyline", "circle", "br"}


class Outline(HTMLParser):
    """Checks that tags are closed in order, and gathers the text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data.strip())


def with_history(model):
    """The model as if its problems had taken seconds: progress is kept ten times a second."""
    report = model.fit_report_
    problems = [
        replace(
            problem,
            seconds=3.0 + k / 100,
            history=tuple(
                Progress(seconds, 100, violation, problem.objective * (1 - violation), 10)
                for seconds, violation in ((0.1, 0.5), (1.0, 0.1), (2.0, 0.01))
            ),
        )
        for k, problem in enumerate(report)
    ]
    model.fit_report_ = FitReport(problems, seconds=9.0, n_support=report.n_support, tol=report.tol)
    return model


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_the_page_says_what_the_report_says(cancer):
    X, y = cancer
    model = with_history(SVC(C=7, break_ties=True).fit(X, y))
    page = html_report(model, X, y, title="my <data> & more")
    texts = Outline(page).texts
    assert "my <data> & more" in texts
    assert model.fit_report_._headline() in texts
    for name in ("Settings", "Certificate", "Convergence", "Support vectors"):
        assert name in texts
    assert "Confusion matrix (training data)" in texts
    assert f"scale = {model._gamma:.5g}" in texts
    assert "break_ties" in texts and "degree" not in texts
    right = int(np.sum(model.predict(X) == y))
    assert f"{right} of {len(y)} right ({100 * right / len(y):.2f}%)" in texts
    for count in model.n_support_:
        assert str(count) in texts
    assert page.count("<svg") == 2 and page.count("<polyline") == 2


def test_a_fit_of_a_moment_has_no_curves(cancer):
    page = html_report(SVC().fit(*cancer), *cancer)
    assert "<svg" not in page and "Too quick for a curve" in page


def test_the_page_needs_nothing_but_itself(cancer):
    page = html_report(SVC().fit(*cancer), *cancer)
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|<img|\bsrc=|\bhref=", page)


def test_many_classes():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    model = with_history(SVC(solver="smo").fit(X, y))
    page = html_report(model, X, y)
    assert page.count("requested") == 1 and "requested (45 problems)" in Outline(page).texts
    assert "The 8 slowest of 45 problems." in Outline(page).texts
    assert page.count("<polyline") == 16
    assert page.count(" vs ") >= 45
    labels = 100 + np.arange(300) % 50  # too many classes for a matrix
    model = SVC(multi_class="ovr").fit(X, labels)
    mistaken = model.predict(X)
    mistaken[:4] = 149 - np.arange(4)  # which were predicted as 100, 101, 102, 103
    texts = [text for text in Outline(html_report(model, X, mistaken)).texts if text]
    assert "296 of 300 right (98.67%)" in texts
    at = texts.index("predicted")
    assert texts[at + 2 : at + 14][::3] == ["146", "147", "148", "149"]


def test_a_fit_that_did_not_converge_says_so(cancer):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=3).fit(*cancer)
    page = html_report(model, *cancer)
    assert '<p class="status ">max_iter' in page


def test_labels_that_the_model_does_not_know_are_counted(cancer):
    X, y = cancer
    page = html_report(SVC().fit(X, y), X[:5], np.full(5, 9), evaluated_on="new data")
    assert "0 of 5 right (0.00%)" in Outline(page).texts


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        html_report(SVC(), *load_iris(return_X_y=True))


def test_the_page_says_when_and_with_what_it_was_made(cancer):
    texts = Outline(html_report(SVC().fit(*cancer), *cancer)).texts
    [line] = [text for text in texts if text.startswith("Written ")]
    assert re.match(r"Written \d{4}-\d\d-\d\d \d\d:\d\d UTC by maxmargin [\d.]+", line)
    assert all(f"{name} " in line for name in ("scikit-learn", "numpy", "numba", "Python"))
    assert texts[texts.index("features") + 1] == "30"


def test_regression_and_outliers():
    X, y = load_diabetes(return_X_y=True)
    model = SVR(C=100.0, solver="smo").fit(X, y)
    texts = Outline(html_report(model, X, y)).texts
    assert "Errors (training data)" in texts
    assert texts[texts.index("R²") + 1] == f"{model.score(X, y):.5g}"
    detector = OneClassSVM(nu=0.2).fit(X)
    outliers = int((detector.predict(X) < 0).sum())
    texts = Outline(html_report(detector, X)).texts
    assert f"nu = 0.2, rho = {detector.offset_[0]:.5g}" in texts
    assert f"{outliers} of {len(X)} samples are outliers ({100 * outliers / len(X):.2f}%)" in texts
    with pytest.raises(ValueError, match="needs the labels or targets y"):
        html_report(model, X)


def test_errors_of_a_regression_are_drawn():
    X, y = load_diabetes(return_X_y=True)
    model = SVR(C=100.0, epsilon=30.0).fit(X, y)
    page = html_report(model, X, y)
    texts = Outline(page).texts
    within = np.mean(np.abs(model.predict(X) - y) <= 30 + model.tol)
    assert texts[texts.index("within epsilon = 30") + 1] == f"{100 * within:.1f}%"
    assert {"prediction", "truth", "prediction − truth"} <= set(texts)
    assert page.count('r="2"/>') == len(y)
    # What is outside of the picture would be beyond its edges.
    places = re.findall(r'<circle cx="([-\d.]+)" cy="([-\d.]+)" r="2"/>', page)
    across, down = np.array(places, dtype=float).T
    assert across.min() >= 62 and across.max() <= 444 and down.min() >= 24 and down.max() <= 256


@pytest.mark.parametrize(
    "y, predicted",
    [([2.0, 2.0], [2.0, 2.0]), ([1.0], [3.0]), ([0.0, 1e300], [1.0, np.inf]), ([1e-9, 0], [0, 0])],
)
def test_errors_that_do_not_vary_or_are_far_apart(y, predicted):
    for tube in (None, 0.0, 0.1, 1e3):
        charts = error_charts(np.array(y), np.array(predicted), tube)
        Outline(charts)
        assert "nan" not in charts and "inf" not in charts


@pytest.mark.parametrize("lowest, highest", [(0.0, 0.0173), (-163.2, -4.0), (2.9, 3.0), (0.0, 7.0)])
def test_ticks_are_round_and_few(lowest, highest):
    ticks = _ticks(lowest, highest, False)
    assert 2 <= len(ticks) <= 6 and lowest <= ticks[0] and ticks[-1] <= highest
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0])
    mantissa = f"{steps[0]:.6e}".split("e")[0].rstrip("0").rstrip(".")
    assert mantissa in ("1", "2", "5")


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (Debian package chromium).")
@pytest.mark.parametrize("width", [400, 1300])
def test_nothing_is_clipped(width, tmp_path):
    """The page in a frame of that width: no element is wider than what shows it."""
    X, y = load_digits(return_X_y=True)
    model = with_history(SVC(solver="smo").fit(X[:400], y[:400]))
    (tmp_path / "page.html").write_text(html_report(model, X[:400], y[:400]))
    script = """<script>onload = () => { const page = document.querySelector("iframe")
      .contentDocument; const wide = [...page.querySelectorAll("section, main, body")]
      .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.innerText.slice(0, 30));
      document.title = "wide: " + JSON.stringify(wide); }</script>"""
    frame = f'<iframe src="page.html" style="width:{width}px;height:900px;border:0"></iframe>'
    (tmp_path / "frame.html").write_text(f"<title>not run</title>{script}{frame}")
    command = [BROWSER, *BROWSER_OPTIONS, "--allow-file-access-from-files", "--dump-dom"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "frame.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "<title>wide: []</title>" in dom


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (Debian package chromium).")
def test_a_real_browser_shows_it(cancer, tmp_path):
    """The page as the browser built it, and a picture of it that is not blank."""
    page = tmp_path / "page.html"
    model = with_history(SVC(C=10).fit(*cancer))
    page.write_text(html_report(model, *cancer, title="In a browser"))

    def browse(*options):
        command = [BROWSER, *BROWSER_OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", *options]
        command += ["--window-size=1000,1200", page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    dom = browse("--dump-dom")
    assert "<h1>In a browser</h1>" in dom
    assert dom.count("<section") == 5 and dom.count("<polyline") == 2
    picture = tmp_path / "page.png"
    browse(f"--screenshot={picture}")
    data = picture.read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1000, 1200)
    pixels = imread(picture)[..., :3]
    colours = np.unique((pixels * 255).astype(np.uint8).reshape(-1, 3), axis=0)
    assert len(colours) > 50
    line = np.array([0x2F, 0x6F, 0xDE]) / 255  # the curve's colour: the drawing is there
    assert (np.abs(pixels - line).max(axis=2) < 0.02).sum() > 200
