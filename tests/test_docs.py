"""Every code block of the documentation works, and prints what the page says it prints.

- ``python`` blocks are executed, those of a page in order and in one namespace, in a folder
  of their own. All names are imported by the page itself; only `X` and `y`, a small problem,
  are there already, and so are `STAND_INS`, small files in the place of benchmark data.
- ``console`` blocks hold commands (``$ maxmargin …``) and their output. Commands run through
  the real command line in the same folder. In blocks of another kind, or none, the lines of
  a block that begins with a command are commands.
- The block after a ``python`` block is its output, and is compared; so is that of commands.
  Numbers may differ a little, seconds and what else depends on the machine by anything.
- Not run, because they install, build or need data that the repository does not hold:
  `CHECKED_ONLY`. Of these, extras, targets, scripts and options must exist.
"""

import math
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import matplotlib
import pytest
from markdown_it import MarkdownIt
from sklearn.datasets import dump_svmlight_file, make_classification
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from maxmargin.cli import main
from maxmargin.solvers import SOLVERS, make_solver

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md"), *ROOT.glob("docs/**/*.md")],
)
SOLVERS_PAGE = (ROOT / "docs" / "solvers.md").read_text()
KINDS = {SVC, NuSVC, SVR, NuSVR, OneClassSVM}
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
CHECKED_ONLY = ("pip", "make", "python")
COMMANDS = ("maxmargin", *CHECKED_ONLY)
STAND_INS = ("a4a", "a4a.t", "a9a", "a9a.t", "FOLDER/a9a")
# What another machine, or another number of threads, may see otherwise.
VOLATILE = {"seconds", "n_iter", "kkt_violation", "duality_gap"}


@dataclass
class Block:
    """A code block: its language ("" where the page gives none), its text, its line."""

    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    tokens = MarkdownIt().parse(page.read_text())
    found = [token for token in tokens if token.type in ("fence", "code_block")]
    languages = [(token.info.split() or [""])[0] for token in found]
    return [
        Block(language, token.content, token.map[0] + 1)
        for language, token in zip(languages, found)
        if not language.startswith("{")  # a directive of the site
    ]


def commands_of(block: Block) -> list[tuple[str, str]]:
    """(command, its output) of a block; empty where it holds none."""
    text = block.text.replace("\\\n", " ")
    if block.language != "console":
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines or lines[0].split()[0] not in COMMANDS:
            return []
        return [(re.sub(r"\s+#.*", "", line), "") for line in lines]
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"line {block.line}: output before the first command"
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts[1:]]


# --- the blocks -------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where a page's blocks run: a folder with FOLDER and small files in it."""
    matplotlib.use("Agg")
    X, y = make_classification(1000, 12, random_state=0)
    (tmp_path / "FOLDER").mkdir()
    for name in STAND_INS:
        n = 1000 if name.startswith("FOLDER") else 100
        dump_svmlight_file(X[:n], 2 * y[:n] - 1, str(tmp_path / name), zero_based=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_code_blocks(page, folder, capsys):
    X, y = make_classification(120, 5, random_state=0)
    namespace = {"__name__": "__main__", "X": X, "y": y}
    printed = None  # by the block before, where that was Python
    for block in blocks_of(page):
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        commands = commands_of(block)
        if block.language == "python":
            printed = run_python(block, page, namespace, capsys)
            continue
        if not commands and printed is not None:
            assert_shown(block.text, printed, where)
        for command, shown in commands:
            run_command(command, shown, where, folder, capsys)
        printed = None


def run_python(block: Block, page: Path, namespace: dict, capsys) -> str:
    # Padded, so that an error names the line of the page.
    code = compile("\n" * block.line + block.text, str(page), "exec")
    capsys.readouterr()
    with warnings.catch_warnings():
        if "time_limit=" in block.text or "max_iter=" in block.text:
            warnings.simplefilter("ignore", ConvergenceWarning)
        exec(code, namespace)
    return capsys.readouterr().out


def run_command(command: str, shown: str, where: str, folder: Path, capsys) -> None:
    words = shlex.split(command)
    if words[0] in CHECKED_ONLY:
        check_command(words, where)
        return
    assert words[0] == "maxmargin", f"{where}: nobody knows how to run {command!r}"
    capsys.readouterr()
    if any(sign in words for sign in ("|", "<", ">")):
        shim = folder / "maxmargin"
        shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m maxmargin.cli "$@"\n')
        shim.chmod(0o755)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"PATH={folder}:$PATH; {command}"],
            capture_output=True,
            text=True,
        )
        code, printed = done.returncode, done.stdout + done.stderr
    else:
        with pytest.raises(SystemExit) as ended, warnings.catch_warnings():
            warnings.simplefilter("error")  # a command speaks in sentences of its own
            main(words[1:])
        captured = capsys.readouterr()
        code, printed = ended.value.code or 0, captured.out + captured.err
    expected = 2 if shown.startswith("maxmargin: ") else 0
    assert code == expected, f"{where}: {command}\n{printed}"
    if shown.strip():
        assert_shown(shown, printed, where)


def check_command(words: list[str], where: str) -> None:
    """That what a command names is there."""
    if words[0] == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        for extras in re.findall(r"\[(.+?)\]", " ".join(words)):
            unknown = set(extras.split(",")) - set(project["optional-dependencies"])
            assert not unknown, f"{where}: no extra {unknown}"
    elif words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        named = [word for word in words[1:] if "=" not in word]
        assert set(named) <= set(targets), f"{where}: no target {named}"
    else:
        options = {word for word in words if re.fullmatch("--[a-zA-Z-]+", word)}
        unknown = options - options_of(words[1])
        assert not unknown, f"{where}: {words[1]} has no option {unknown}"


@cache
def options_of(script: str) -> set[str]:
    assert script.startswith("benchmarks/"), f"{script} should be run, not only looked at"
    done = subprocess.run(
        [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=True
    )
    return set(re.findall("--[a-zA-Z-]+", done.stdout))


# --- the output -------------------------------------------------------------


def assert_shown(shown: str, printed: str, where: str) -> None:
    __tracebackhide__ = True
    same = len(words_of(shown)) == len(words_of(printed)) and all(
        map(same_word, words_of(shown), words_of(printed))
    )
    if not same:
        pytest.fail(f"{where}: the page shows\n\n{shown}\nbut this is printed:\n\n{printed}")


def words_of(text: str) -> list[str]:
    """The words of an output, with those that depend on the machine taken out."""
    text = re.sub(r"\S+ s$", "# s", text, flags=re.MULTILINE)
    text = re.sub(r"KKT violation \S+", "KKT violation #", text)
    text = re.sub(r"; .* steps took over$", "", text, flags=re.MULTILINE)
    words: list[str] = []
    header: list[str] = []
    for line in text.splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        if VOLATILE & set(cells):
            header = cells
        elif len(cells) == len(header):
            cells = ["#" if name in VOLATILE else cell for name, cell in zip(header, cells)]
        words += " ".join(cells).split()
    return words


def same_word(shown: str, printed: str) -> bool:
    """Equal but for rounding; a count, such as that of support vectors, may be off by 2 %."""
    try:
        return math.isclose(
            float(shown), float(printed), rel_tol=0.02 if shown.isdecimal() else 0.005
        )
    except ValueError:
        return shown == printed


def test_the_comparison_sees_differences():
    table = "optimal: KKT violation 1e-4 (tol 0.001), 8 support vectors, 0.1 s\n"
    table += "problem  solver  seconds  n_support\n0 vs 1   smo     0.1      8\n"
    assert_shown(table, table.replace("0.1 ", "7.3 ").replace("1e-4", "2e-5"), "")
    for old, new in (("8 support", "9 support"), ("smo", "irwls"), ("optimal", "stalled")):
        with pytest.raises(pytest.fail.Exception, match="but this is printed"):
            assert_shown(table, table.replace(old, new), "")
    with pytest.raises(pytest.fail.Exception):
        assert_shown("0.97\n", "0.95\n", "")
    with pytest.raises(pytest.fail.Exception):
        assert_shown("one line\n", "one line\nmore\n", "")


@pytest.mark.parametrize(
    "command",
    [
        "pip install '.[nonsense]'",
        "make nonsense",
        "python benchmarks/peers.py --nonsense",
        "python examples/demo.py",
        "nonsense",
        "maxmargin train missing",
    ],
)
def test_wrong_commands_are_seen(command, folder, capsys):
    with pytest.raises(AssertionError, match=r"nonsense|missing|should be run"):
        run_command(command, "", "here", folder, capsys)


# --- what pages say of the project ------------------------------------------


def heading_anchors(page: Path) -> set[str]:
    """The anchors of headings, as GitHub and the site make them."""
    tokens = MarkdownIt().parse(page.read_text())
    headings = [
        tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"
    ]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page):
    tokens = MarkdownIt().parse(page.read_text())
    parts = [part for token in tokens for part in token.children or []]
    links = [part.attrs.get("href") or part.attrs.get("src") for part in parts]
    for link in filter(None, links):
        if re.match("[a-z]+:", str(link)):
            continue
        path, _, anchor = str(link).partition("#")
        target = (page.parent / path) if path else page
        assert target.exists(), f"{link}: there is no such file"
        if anchor:
            assert anchor in heading_anchors(target), f"{link}: there is no such heading"


@pytest.mark.parametrize("name", SOLVERS)
def test_the_table_of_solvers_says_what_they_declare(name):
    table = re.findall(r"^\| `\"(\w+)\"` \| ([^|]+) \| ([^|]+) \|", SOLVERS_PAGE, re.MULTILINE)
    exact, solves = {solver: columns for solver, *columns in table}[name]
    declared = make_solver(name).capabilities
    kinds = {kind for kind in KINDS if kind._formulation in declared.formulations}
    written = (
        KINDS
        if solves == "all five"
        else {getattr(maxmargin, kind) for kind in re.findall(r"`(\w+)`", solves)}
    )
    assert written == kinds
    # Where it depends on an option, the words begin with those of the default.
    assert exact.split()[0] in (("yes", "unless") if declared.exact else ("no", "only"))


@pytest.mark.parametrize("name", ["README.md", "docs/solvers.md"])
def test_every_solver_is_explained(name):
    text = (ROOT / name).read_text()
    for solver in SOLVERS:
        assert f'`"{solver}"`' in text, f"{name} says nothing of {solver!r}"


@pytest.mark.parametrize("module", [maxmargin, maxmargin.io, maxmargin.solvers])
def test_every_public_name_is_in_the_reference(module):
    text = (ROOT / "docs" / "api.md").read_text()
    for name in module.__all__:
        assert f"{module.__name__}.{name}" in text, f"docs/api.md lacks {name}"


@pytest.mark.parametrize(
    "page", [p for p in PAGES if "\n$$\n" in p.read_text()], ids=lambda p: p.stem
)
def test_formulas_become_mathml(page):
    """Browsers draw them without a script, and so without a network."""
    mathml = pytest.importorskip(
        "docutils.utils.math.latex2mathml", reason="docutils is not installed (extra docs)."
    )
    for formula in re.findall(r"^\$\$\n(.+?)\n\$\$$", page.read_text(), re.MULTILINE | re.DOTALL):
        assert mathml.tex2mathml(formula, as_block=True).startswith("<math")
