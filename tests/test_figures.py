"""Tables of the documentation come from files that benchmarks write, with their state."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import figures

ROOT = Path(__file__).parents[1]


def test_pages_show_what_is_stored():
    shown = set()
    for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        text = path.read_text("utf-8")
        assert figures.fill(text, figures.stored()) == text, f"{path} is older than its figures"
        shown |= set(re.findall("<!-- figure: ([\\w-]+) -->", text))
    assert set(figures.stored()) <= shown <= set(figures.QUICK | figures.WHOLE)


@pytest.mark.parametrize("name", sorted(figures.stored()))
def test_each_says_its_command_commit_date_and_machine(name):
    last = figures.stored()[name].rstrip().splitlines()[-1]
    assert re.match(
        r"Made by `python benchmarks/[^`]+`: commit [0-9a-f]{7,}( with changes)?, "
        r"\d{4}-\d\d-\d\d, \d+ cores of .+, Python 3\.\d+\.\d+(, load [\d.]+)?\.$",
        last,
    )


def test_benchmarks_exist():
    for command in (figures.QUICK | figures.WHOLE).values():
        assert (ROOT / "benchmarks" / command.split()[0]).exists()


def test_a_page_is_filled_between_its_marks():
    end = "<!-- end of figure -->\n"
    page = f"a\n<!-- figure: x -->\nold\n{end}b\n<!-- figure: y -->\n{end}"
    filled = figures.fill(page, {"x": "| new |\n"})
    assert "old" not in filled and "| new |" in filled and filled.startswith("a\n")
    assert figures.fill(filled, {"x": "| new |\n"}) == filled
    assert filled.endswith("b\n<!-- figure: y -->\n<!-- end of figure -->\n")


def test_text_that_is_no_table_is_set_as_text():
    assert figures.figure("| a |\n|---|\n", "b.py", "here").startswith("| a |")
    assert figures.figure("a 1\nb 2\n", "b.py", "here").startswith("```text\na 1")
    assert figures.figure("a", "b.py", "here").endswith("Made by `python benchmarks/b.py`: here.\n")


def test_data_must_be_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["figures.py"])
    with pytest.raises(SystemExit):
        figures.main()
    assert "--data must name a folder" in capsys.readouterr().err
