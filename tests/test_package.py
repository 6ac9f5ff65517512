"""The package as others meet it: metadata, types, a source distribution, links."""

import inspect
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import maxmargin

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

USER_SCRIPT = """
import numpy as np

from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch, SVRSearch, io, solvers
from maxmargin.html_report import html_report
from maxmargin.plotting import BoundaryDisplay, plot_grid


def train(X: np.ndarray, y: np.ndarray) -> float:
    model = SVC(C=10, gamma=0.1, class_weight={0: 2.0}, solver=solvers.SMO()).fit(X, y)
    reveal_type(model)
    reveal_type(model.fit_report_.kkt_violation)
    io.save_model(model, "model.npz")
    search = SVCSearch(SVC(), {"C": [1, 10]}, n_jobs=2).fit(X, y)
    plot_grid(search)
    BoundaryDisplay.from_estimator(model, X, y)
    print(html_report(model, X, y), io.load_model("model.npz").predict(X))
    SVRSearch(SVR(epsilon=0.2), {"C": [1.0]}).fit(X, y)
    for other in (NuSVC(nu=0.3), NuSVR(), OneClassSVM()):
        other.fit(X, y)
    return model.fit_report_.seconds


SVC(C="large")
"""


def installed(name):
    """Whether a package is; a folder of that name, such as build/, does not count."""
    try:
        return distribution(name) is not None
    except PackageNotFoundError:
        return False


def test_a_folder_is_no_package(tmp_path, monkeypatch):
    (tmp_path / "just_a_folder").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert installed("pytest") and not installed("just_a_folder")


def test_metadata_is_complete():
    for name in ("authors", "classifiers", "keywords", "license", "readme", "requires-python"):
        assert PROJECT[name]
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (Path(maxmargin.__file__).parent / "py.typed").exists()


def test_lower_bounds_are_those_that_are_tested():
    pinned = dict(
        line.split("==")
        for line in (ROOT / "constraints-oldest.txt").read_text("utf-8").splitlines()
        if "==" in line
    )
    extras = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *extras["cli"], *extras["onnx"], *extras["plot"]]
    for requirement in wanted:
        name, bound = re.fullmatch(r"([\w-]+)(?:\[.*\])?>=([\d.]+)", requirement).groups()
        assert pinned[name] == bound or pinned[name].startswith(f"{bound}."), requirement


def test_links_of_the_readme_lead_somewhere():
    """A package index shows the README alone: links to files must be of files that exist."""
    text = (ROOT / "README.md").read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert target.startswith("https://") or (ROOT / target).exists(), target


@pytest.mark.parametrize(
    "name", ["SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM", "SVCSearch", "SVRSearch"]
)
def test_help_describes_every_parameter(name):
    estimator = getattr(maxmargin, name)
    described = re.findall(r"^(\w+) : ", inspect.cleandoc(estimator.__doc__), re.MULTILINE)
    for parameter in inspect.signature(estimator).parameters:
        assert described.count(parameter) == 1, parameter
    assert "As of" not in estimator.__doc__


@pytest.mark.slow
@pytest.mark.skipif(not installed("mypy"), reason="mypy is not installed (extra lint).")
def test_a_users_script_under_strict_mypy(tmp_path):
    (tmp_path / "script.py").write_text(USER_SCRIPT)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", "cache", "script.py"]
    environment = os.environ | {"MYPYPATH": str(Path(maxmargin.__file__).parents[1])}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    lines = [line for line in run.stdout.splitlines() if line.startswith("script.py:")]
    lines = [line for line in lines if ": error:" in line]
    assert len(lines) == 1 and '"SVC" has incompatible type "str"; expected "float"' in lines[0]
    assert 'note: Revealed type is "maxmargin.estimators.svc.SVC"' in run.stdout
    assert run.stdout.count("Revealed type is") == 2 and '"float"' in run.stdout


@pytest.mark.slow
@pytest.mark.skipif(not installed("build"), reason="build is not installed (extra release).")
def test_distributions_have_all_that_is_needed(tmp_path):
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), "."]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel], [source] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert {"maxmargin/py.typed", "maxmargin/kernels/cuda/kernels.cu"} <= inside
    assert not any(name.startswith(("tests/", "docs/")) for name in inside)
    with tarfile.open(source) as archive:
        files = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "constraints.txt", "docs/conf.py", "tests/conftest.py"} <= files
    assert {"benchmarks/peers.py", "examples/demo.py", "CHANGELOG.md"} <= files
