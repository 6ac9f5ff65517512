"""The programs of the gallery run, and draw what the page shows."""

import ast
import importlib.util
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(path for path in (ROOT / "examples/gallery").glob("*.py") if path.stem != "draw")
SLOW = ("convergence", "probabilities", "tuning")


def load(path):
    spec = importlib.util.spec_from_file_location(f"gallery_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else [], id=path.stem)
        for path in EXAMPLES
    ],
)
def test_an_example_draws(path):
    figure = load(path).main()
    assert isinstance(figure, Figure) and all(ax.has_data() for ax in figure.axes)
    plt.close("all")


def test_the_page_shows_every_example():
    page = (ROOT / "docs/gallery.md").read_text("utf-8")
    assert len(EXAMPLES) == 8
    for path in EXAMPLES:
        assert (ROOT / f"docs/gallery/{path.stem}.png").exists()
        assert f"(gallery/{path.stem}.png)" in page and f"examples/gallery/{path.name}" in page
        text = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        assert " ".join(text.partition("\n\n")[2].split()) in page
