"""The page about a fit: complete, self-contained, and shown by a real browser."""

import re
import shutil
import struct
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.html_report import html_report

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


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_the_page_says_what_the_report_says(cancer):
    X, y = cancer
    model = SVC(C=7, break_ties=True).fit(X, y)
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


def test_the_page_needs_nothing_but_itself(cancer):
    page = html_report(SVC().fit(*cancer), *cancer)
    assert not re.search(r"https?:|//|@import|url\(|<script|<link|<img|\bsrc=|\bhref=", page)


def test_many_classes():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    model = SVC().fit(X, y)
    page = html_report(model, X, y)
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


@pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed (Debian package chromium).")
def test_a_real_browser_shows_it(cancer, tmp_path):
    """The page as the browser built it, and a picture of it that is not blank."""
    page = tmp_path / "page.html"
    page.write_text(html_report(SVC(C=10).fit(*cancer), *cancer, title="In a browser"))

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
