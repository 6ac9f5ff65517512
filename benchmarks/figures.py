"""All tables of the documentation again, from one state of the code.

    python benchmarks/figures.py --data FOLDER            # over night, on a quiet machine
    python benchmarks/figures.py --quick                  # what takes minutes and needs no data

Each benchmark writes what it prints to docs/figures/NAME.md, with the commit, the date and the
machine. Pages and the README show these files between two marks, which are filled in here:

    <!-- figure: NAME -->
    <!-- end of figure -->

A benchmark that fails is named at the end, and its old file stays.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "figures"
# What each file is made by; those of QUICK take minutes and need no data.
QUICK = {
    "cold-start": "cold_start.py",
    "command-line": "command_line.py",
    "small": "small.py",
    "products": "products.py",
    "threads": "threads.py",
}
WHOLE = {
    "peers": "peers.py --limit 45 --repeat 2 --scaling --data DATA",
    "family": "peers.py --family --limit 45 --repeat 2 --data DATA",
    "everyday": "everyday.py --repeat 4 --patience 1 "
    "--contestants maxmargin,scikit-learn,intelex --data DATA",
    "classes": "classes.py --repeat 3 --patience 1 "
    "--contestants maxmargin,scikit-learn,intelex --data DATA",
    "search": "search.py --data DATA",
    "search-classes": "search.py --classes",
    "search-regression": "search.py --kind SVR --set abalone_scale --data DATA",
    "large": "large.py --data DATA",
    "breakdown": "breakdown.py --data DATA",
    "second-order-smo": "papers/second_order_smo.py --data DATA",
    "irwls": "papers/irwls_svc.py --data DATA",
    "cluster-svm": "papers/cluster_svm.py --data DATA",
    "hierarchical": "papers/hierarchical_svm.py --data DATA",
    "greedy-stagewise": "papers/greedy_svm.py --data DATA",
}
_MARKED = re.compile(r"(<!-- figure: ([\w-]+) -->\n).*?(<!-- end of figure -->)", re.S)


def state() -> str:
    """The commit, the date and the machine, in words."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src"]).returncode != 0
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"commit {commit}{' with changes' if changed else ''}, "
        f"{datetime.date.today().isoformat()}, {os.cpu_count()} cores of {_processor()}, "
        f"{platform.system()}, Python {platform.python_version()}, load {load}"
    )


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.machine()
    found = re.search(r"model name\s*: (.+)", text)
    return found[1] if found else platform.machine()


def figure(printed: str, command: str, made: str) -> str:
    """What a benchmark printed, as Markdown: tables as they are, anything else as text."""
    lines = printed.strip("\n").rstrip().splitlines()
    table = all(line.startswith("|") or not line for line in lines)
    body = "\n".join(lines) if table else "\n".join(["```text", *lines, "```"])
    return f"{body}\n\nMade by `python benchmarks/{command}`: {made}.\n"


def fill(page: str, figures: dict[str, str]) -> str:
    """A page with the figures that it marks; those that there are not stay as they are."""

    def filled(mark: re.Match) -> str:
        if mark[2] not in figures:
            return mark[0]
        return f"{mark[1]}\n{figures[mark[2]]}\n{mark[3]}"

    return _MARKED.sub(filled, page)


def stored() -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.md"))}


def fill_pages() -> None:
    """Put what is stored into the pages."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text("utf-8")
        new = fill(text, stored())
        if new != text:
            path.write_text(new, "utf-8")


def measure(jobs: dict[str, str], data: str | None) -> list[str]:
    """Run benchmarks one after the other; the names of those that failed."""
    made, failed = state(), []
    FOLDER.mkdir(exist_ok=True)
    for name, command in jobs.items():
        print(f"{name}: python benchmarks/{command}", flush=True)
        words = [data if word == "DATA" else word for word in shlex.split(command)]
        run = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / words[0]), *words[1:]],
            capture_output=True, text=True, cwd=ROOT,
        )  # fmt: skip
        if run.returncode or not run.stdout.strip():
            failed.append(name)
            print(run.stderr[-2000:], file=sys.stderr)
            continue
        text = figure(run.stdout, command.replace("DATA", "FOLDER"), made)
        (FOLDER / f"{name}.md").write_text(text, "utf-8")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="a folder of LIBSVM files, see benchmarks/README.md")
    parser.add_argument("--quick", action="store_true", help="minutes, and no data")
    parser.add_argument("--only", nargs="+", metavar="NAME", help=f"of {', '.join(QUICK | WHOLE)}")
    arguments = parser.parse_args()
    jobs = QUICK if arguments.quick else QUICK | WHOLE
    if arguments.only:
        jobs = {name: (QUICK | WHOLE)[name] for name in arguments.only}
    if arguments.data is None and any("DATA" in command for command in jobs.values()):
        parser.error("--data must name a folder of LIBSVM files; --quick needs none")
    failed = measure(jobs, arguments.data)
    fill_pages()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
