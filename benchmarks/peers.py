"""maxmargin, scikit-learn, scikit-learn-intelex and LIBSVM side by side.

    python benchmarks/peers.py --data FOLDER [--scaling | --family]

Every fit has a fresh process; the contestants take turns, so that a machine that
drifts drifts for all. Every answer is judged by its float64 KKT violation,
recomputed from its dual coefficients. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
from pathlib import Path

import _peers_cases as cases
import _peers_output as output
from _peers_contestants import PEERS, Answer, Task, run, save_samples
from _peers_judge import floor, judge


def measure(
    case: cases.Case, samples: cases.Samples, contestants: list[str], *,
    repeat: int, limit: float, hopeless: dict[str, str], say=lambda line: None,
) -> output.Result:  # fmt: skip
    """Run all contestants on one case, judge their answers and measure the floor.

    `hopeless` names peers that need not start, and the easier case of the same
    series in which they exceeded the limit.
    """
    best: dict[str, Answer] = {
        name: Answer(f"not run: exceeded the limit in {hopeless[name]}", exceeded=True)
        for name in contestants
        if name in hopeless
    }
    spent = dict.fromkeys(contestants, 0.0)
    with tempfile.TemporaryDirectory(prefix="maxmargin-bench-") as folder:
        path = Path(folder) / "samples.npz"
        save_samples(path, samples.X, samples.y, samples.X_test)
        parameters = case.parameters(samples)
        task = Task(path, tol=cases.TOLERANCE, **parameters)
        for turn in range(repeat):
            for name in contestants:
                # Whoever needs a third of the limit has had its chance.
                known = best.get(name)
                if known and (known.seconds is None or spent[name] > limit / 3):
                    continue
                say(f"{case.name}: {name}, turn {turn + 1}")
                answer = run(name, task, limit)
                spent[name] += answer.seconds or 0.0
                best[name] = answer if known is None else _better(known, answer)
    X, y = samples.X, samples.y
    result = output.Result(case, X.shape[0], X.shape[1], limit)
    for name in contestants:
        answer = best[name]
        entry = output.Entry(
            name, answer.status, answer.seconds, answer.predict_seconds, exceeded=answer.exceeded
        )
        if answer.support is not None and answer.coefficients is not None:
            entry.verdict = judge(X, y, answer.support, answer.coefficients, **parameters)
        result.entries.append(entry)
    answered = [entry.verdict for entry in result.entries if entry.verdict]
    if answered:
        result.floor = floor(
            X, answered[0].n_support, kernel=case.kernel, gamma=parameters["gamma"]
        )
    return result


def _better(known: Answer, new: Answer) -> Answer:
    """The faster of two answers; a failure in either turn counts."""
    if new.seconds is None or known.seconds is None:
        return new if new.seconds is None else known
    faster = new if new.seconds < known.seconds else known
    predicts = [a.predict_seconds for a in (known, new) if a.predict_seconds is not None]
    faster.predict_seconds = min(predicts, default=None)
    return faster


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    try:
        chosen = cases.select(
            cases.names(options.cases), quick=options.quick, scaling=options.scaling,
            family=options.family,
        )  # fmt: skip
    except ValueError as error:
        sys.exit(str(error))
    peers = cases.names(options.peers)
    for peer in peers:
        if peer.partition(":")[0] not in PEERS:
            sys.exit(f"no peer is called {peer!r}; there are: {', '.join(PEERS)}.")
    solvers = [f"maxmargin:{name}" for name in cases.names(options.solvers) if name != "auto"]
    ours = ["maxmargin"] * ("auto" in cases.names(options.solvers)) + solvers
    contestants = [*ours, *peers]
    repeat = options.repeat or (1 if options.quick else 3)
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5:
        print("this machine is busy: the times below will not mean much", file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", *(sys.argv if arguments is None else ["peers.py", *arguments])])
    results: list[output.Result] = []
    skipped: dict[str, str] = {}
    gave_up: dict[str | None, dict[str, str]] = {}
    for case in chosen:
        try:
            samples = cases.read(case, options.data)
        except FileNotFoundError as error:
            skipped[case.name] = str(error)
            continue
        hopeless = gave_up.setdefault(case.series, {}) if case.series else {}
        result = measure(
            case, samples, contestants, repeat=repeat, limit=options.limit, hopeless=hopeless,
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )  # fmt: skip
        for entry in result.entries:
            if entry.exceeded and not entry.ours:
                hopeless.setdefault(entry.contestant, case.name)
        results.append(result)
        print(output.case_table(result), end="\n\n", flush=True)
        # Written after every case, so that an interrupted run leaves what it has.
        output.write_json(options.out / "peers.json", results, skipped, command)
    _finish(options.out, results, skipped)


def _finish(out: Path, results: list[output.Result], skipped: dict[str, str]) -> None:
    print(output.summary_table(results))
    for series in ("n", "C"):
        for name, power in output.exponents(results, series).items():
            if power is not None:
                print(f"time of {name} grows as {series}^{power:.2f}")
        path = out / f"time-against-{series}.png"
        if output.plot(path, results, series):
            print(f"plot: {path}")
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    print(f"results: {out / 'peers.json'}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data", type=Path, help="folder of LIBSVM files (NAME or NAME.xz)")
    add("--out", type=Path, default=Path("results/peers"), help="folder for JSON and plots")
    add("--cases", help="names or patterns, separated by commas (default: all of the table)")
    add("--peers", default=",".join(PEERS), help="peers, NAME or NAME:CACHE_MB (default: all)")
    add("--solvers", default="auto", help="solvers of maxmargin to run (default: auto)")
    add("--repeat", type=int, help="turns of every contestant (default: 3, with --quick 1)")
    add("--limit", type=float, default=180.0, help="seconds a fit may take (default: 180)")
    add("--quick", action="store_true", help="only the small cases")
    add("--scaling", action="store_true", help="also covtype 5k to 80k, and C from 1 to 1e6")
    add("--family", action="store_true", help="SVR, NuSVR, NuSVC and OneClassSVM instead of SVC")
    return parser


if __name__ == "__main__":
    main()
