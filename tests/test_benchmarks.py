"""The benchmark against the peers: its judge is right, and it runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import SVC

import maxmargin
import oracle

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import _peers_cases as cases
import _peers_contestants as contestants
import _peers_judge as judging
import _peers_output as output
import breakdown
import classes
import command_line
import commits
import data
import everyday
import gpu_pictures
import large
import outliers
import peers
import search
import small
import threads


def naive_violation(X, y, alpha, C, kernel, gamma):
    """The maximal violating pair by its definition, one kernel value at a time."""
    n = len(y)

    def k(a, b):
        return a @ b if kernel == "linear" else np.exp(-gamma * np.sum((a - b) ** 2))

    ups, lows = [], []
    for i in range(n):
        gradient = sum(y[i] * y[j] * k(X[i], X[j]) * alpha[j] for j in range(n)) - 1
        if (alpha[i] < C and y[i] > 0) or (alpha[i] > 0 and y[i] < 0):
            ups.append(-y[i] * gradient)
        if (alpha[i] < C and y[i] < 0) or (alpha[i] > 0 and y[i] > 0):
            lows.append(-y[i] * gradient)
    return max(ups) - min(lows)


@pytest.fixture
def problem():
    random = np.random.default_rng(0)
    X = random.normal(size=(43, 3)) + 100.0
    y = np.where(random.random(43) < 0.5, -1.0, 1.0)
    alpha = random.choice([0.0, 0.3, 1.1, 2.0], size=43)
    return X, y, alpha


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix])
def test_judge_equals_the_definition(problem, kernel, container, monkeypatch):
    monkeypatch.setattr(judging, "_ROWS", 8)
    monkeypatch.setattr(judging, "_COLUMNS", 5)
    X, y, alpha = problem
    support = np.flatnonzero(alpha)
    verdict = judging.judge(
        container(X), y, support, (y * alpha)[support], C=2.0, kernel=kernel, gamma=0.4
    )
    expected = naive_violation(X, y, alpha, 2.0, kernel, 0.4)
    assert verdict.kkt_violation == pytest.approx(expected, rel=1e-9)
    assert verdict.infeasibility == pytest.approx(abs(y @ alpha) / 2.0)
    assert verdict.n_support == len(support)
    assert verdict.n_free == np.sum((alpha > 0) & (alpha < 2.0))


def test_judge_tells_an_optimum_from_its_neighbourhood():
    X, y = data.two_gaussians(200)
    parameters = {"C": 10.0, "kernel": "rbf", "gamma": 0.5}
    model = SVC(**parameters, tol=1e-5).fit(X, y)
    beta = model.dual_coef_.ravel()
    verdict = judging.judge(X, y, model.support_, beta, **parameters)
    assert verdict.kkt_violation < 2e-5
    # The objective ½βᵀKβ − yᵀβ, by way of the model's own decision function.
    decision = model.decision_function(X[model.support_]) - model.intercept_
    objective = 0.5 * beta @ decision - y[model.support_] @ beta
    assert verdict.objective == pytest.approx(objective)
    assert judging.judge(X, y, model.support_, 0.9 * beta, **parameters).kkt_violation > 0.05
    outside = judging.judge(X, y, model.support_, 1.1 * beta, **parameters)
    assert outside.infeasibility == pytest.approx(0.1)


FAMILY = {
    "SVR": {"C": 5.0, "epsilon": 0.1},
    "NuSVR": {"C": 5.0, "nu": 0.4},
    "NuSVR without a tube": {"C": 0.05, "nu": 0.9999},
    "NuSVC": {"nu": 0.3},
    "OneClassSVM": {"nu": 0.2},
}


@pytest.mark.parametrize("library", [sklearn.svm, maxmargin], ids=["scikit-learn", "maxmargin"])
@pytest.mark.parametrize("case", FAMILY)
def test_judge_of_the_other_kinds(case, library):
    kind, parameters = case.split()[0], FAMILY[case]
    X, y = data.two_gaussians(150)
    if "SVR" in kind:
        y = np.sin(2 * X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=150)
    model = getattr(library, kind)(gamma=0.5, tol=1e-5, **parameters)
    model.fit(X, None if kind == "OneClassSVM" else y)
    told = {"C": 1.0, "kernel": "rbf", "gamma": 0.5, "kind": kind} | parameters
    beta = model.dual_coef_.ravel()
    verdict = judging.judge(X, y, model.support_, beta, **told)
    assert verdict.kkt_violation < 3e-5
    assert verdict.infeasibility < 1e-6
    # Another answer whose sums are right, and one whose sums are not.
    moved = beta.copy()
    first, second = np.flatnonzero(np.abs(beta) < 0.999 * np.abs(beta).max())[:2]
    step = 0.4 * min(abs(beta[first]), abs(beta[second]))
    moved[first] += step
    moved[second] -= step
    assert judging.judge(X, y, model.support_, moved, **told).kkt_violation > 1e-3
    if kind != "NuSVC":  # whose scale is arbitrary
        moved = beta + 0.1 * np.abs(beta)
        assert judging.judge(X, y, model.support_, moved, **told).infeasibility > 1e-3


def test_cases_of_the_family():
    chosen = cases.select(None, family=True)
    assert len(chosen) == 4 * 3 * 3 * 2 + 4 + 6
    assert {case.kind for case in chosen} == {"SVR", "NuSVR", "NuSVC", "OneClassSVM"}
    friedman = cases.select(["svr-friedman-C1-e0.1-gd"])[0]
    samples = cases.read(friedman, None)
    assert samples.X.shape == (20_000, 10) and abs(samples.y.std() - 1) < 1e-12
    assert friedman.parameters(samples)["gamma"] == 0.1
    half = cases.select(["nusvc-a9a-half"])[0]
    labels = cases.Samples(np.zeros((10, 2)), np.repeat([1.0, -1.0], [2, 8]))
    assert half.parameters(labels)["nu"] == pytest.approx(0.2)


def test_floor_is_a_time_and_has_no_meaning_for_thousands_of_features():
    X, _ = data.two_gaussians(3000)
    assert judging.floor(X, 600, kernel="rbf", gamma=0.5) > 0
    wide = sp.csr_matrix((10, 5000))
    assert judging.floor(wide, 5, kernel="rbf", gamma=0.5) is None


def test_libsvm_coefficients_have_our_signs():
    pytest.importorskip("libsvm")
    X, y = data.two_gaussians(200)
    trainer = contestants._trainer("libsvm")
    for signs in (y, -y):  # LIBSVM's positive class is the one it meets first
        task = contestants.Task(Path(), 1.0, "rbf", 0.5, 1e-3)
        model = trainer.train(trainer.prepare(X, signs, task, C=1.0))
        _, support, coefficients = trainer.answer(model)
        verdict = judging.judge(X, signs, support, coefficients, C=1.0, kernel="rbf", gamma=0.5)
        assert verdict.kkt_violation < 2e-3
        assert verdict.infeasibility < 1e-9


def entry(name, seconds, violation=1e-4, **others):
    verdict = None if seconds is None else judging.Verdict(violation, 0.0, -1.0, 10, 2)
    return output.Entry(name, "finished", seconds, verdict=verdict, **others)


def result_of(*entries, **case):
    case = cases.Case(**{"name": "made-up", "source": "gaussians", "C": 1.0} | case)
    return output.Result(case, n=100, n_features=2, limit=60.0, floor=0.5, entries=list(entries))


def test_ratio_is_to_the_best_peer():
    ours = entry("maxmargin", 2.0)
    careless, honest = entry("intelex", 4.0, violation=0.5), entry("libsvm", 10.0)
    killed = entry("scikit-learn", None, exceeded=True)
    result = result_of(ours, careless, honest, killed)
    assert output.ratio(result, ours, reached=False) == output.Ratio(2.0, "intelex")
    assert output.ratio(result, ours, reached=True) == output.Ratio(5.0, "libsvm")
    only_killed = result_of(ours, careless, killed)
    assert str(output.ratio(only_killed, ours, reached=True)) == "> 30"
    assert output.ratio(result_of(ours), ours, reached=False) is None
    table = output.case_table(result)
    assert "> 60" in table and "NO" in table
    assert output.summary_table([result]).splitlines()[-1].split(" | ")[3].strip() == "intelex"


def test_exponents_and_plot(tmp_path):
    results = [
        result_of(
            entry("maxmargin", 3e-6 * n**1.5),
            entry("libsvm", 1e-6 * n**2) if n < 4000 else entry("libsvm", None, exceeded=True),
            series="n", at=n,
        )
        for n in (1000, 2000, 4000)
    ]  # fmt: skip
    powers = output.exponents(results, "n")
    assert powers["maxmargin"] == pytest.approx(1.5)
    assert powers["libsvm"] is None
    assert output.plot(tmp_path / "n.png", results, "n")
    assert (tmp_path / "n.png").stat().st_size > 1000
    assert not output.plot(tmp_path / "C.png", results, "C")


def test_cases_of_a_series_come_in_ascending_order():
    names = [case.name for case in cases.select(None, scaling=True)]
    assert names.index("covtype-5k") < names.index("covtype-20k") < names.index("covtype-80k")
    costs = [case.C for case in cases.select(["gaussians-*"])]
    assert costs == sorted(costs) and costs[0] == 1 and costs[-1] == 1e6
    with pytest.raises(ValueError, match="no case is called 'moon'"):
        cases.select(["moon"])


def test_a_fit_is_killed_at_the_limit_and_not_tried_on_what_is_harder():
    case = cases.select(["gaussians-C100"])[0]
    samples = cases.read(case, None)
    result = peers.measure(
        case,
        samples,
        ["scikit-learn", "libsvm"],
        repeat=2,
        limit=0.0,
        hopeless={"libsvm": "easier"},
    )
    assert [entry.exceeded for entry in result.entries] == [True, True]
    assert [entry.seconds for entry in result.entries] == [None, None]
    assert "easier" in result.entries[1].status


def test_whole_run_on_generated_data(tmp_path, capsys):
    peers.main(
        ["--cases", "small-100,a9a", "--peers", "scikit-learn", "--solvers", "auto,smo",
         "--repeat", "1", "--out", str(tmp_path)]
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert "skipped a9a: needs --data" in printed
    content = json.loads((tmp_path / "peers.json").read_text(encoding="utf-8"))
    (case,) = content["cases"]
    entries = {entry["contestant"]: entry for entry in case["entries"]}
    assert list(entries) == ["maxmargin", "maxmargin:smo", "scikit-learn"]
    for name, entry in entries.items():
        assert entry["reached"] and entry["seconds"] > 0, entry["status"]
        assert f"| {name} " in printed
    ours, peer = entries["maxmargin"], entries["scikit-learn"]
    assert ours["ratio"]["value"] == pytest.approx(peer["seconds"] / ours["seconds"])
    assert ours["verdict"]["objective"] == pytest.approx(peer["verdict"]["objective"], rel=1e-3)


def test_search_benchmark_on_generated_data(tmp_path, capsys):
    out = tmp_path / "search.json"
    search.main(
        ["--samples", "120", "--step", "6", "--jobs", "1", "--out", str(out),
         "--contestants", "maxmargin,scikit-learn"]
    )  # fmt: skip
    printed = capsys.readouterr().out
    [case] = json.loads(out.read_text(encoding="utf-8"))
    ours, peer = case["results"]
    assert f"| {peer['seconds'] / ours['seconds']:.1f} |" in printed
    assert ours["best"] == peer["best"] and len(ours["scores"]) == 4
    with pytest.raises(SystemExit, match="no contestant is called 'thunder'"):
        search.main(["--samples", "120", "--step", "6", "--contestants", "thunder"])


def test_search_benchmark_of_many_classes(tmp_path, capsys):
    out = tmp_path / "search.json"
    search.main(
        ["--classes", "--samples", "150", "--clock", "cpu", "--contestants", "maxmargin",
         "--out", str(out)]
    )  # fmt: skip
    cases = json.loads(out.read_text(encoding="utf-8"))
    assert [case["set"] for case in cases] == list(search.MANY_CLASSES)
    assert all(len(case["results"][0]["scores"]) == 16 for case in cases)
    assert "digits: 150 samples" in capsys.readouterr().out


def test_breakdown_counts_all_of_the_time(capsys):
    lowest, total, parts = breakdown.breakdown(cases.select(["small-1000"])[0], None)
    assert lowest > 0 and 0 < sum(parts) < total
    breakdown.main(["--cases", "small-300"])
    assert capsys.readouterr().out.splitlines()[1].startswith("small-300")


def test_small_fits_take_turns(capsys):
    small.main(["--only", "iris,n20-d2", "--repeat", "1"])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split()[0] for line in lines] == ["n20-d2", "iris"]
    for line in lines:
        assert line.count("/") == len(small.OPTIONS)


@pytest.mark.slow
def test_commands_take_turns(capsys):
    pytest.importorskip("typer", reason="typer is not installed (extra cli).")
    command_line.main(["--repeat", "1"])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == len(command_line.COMMANDS)
    assert all(re.search(r"\d\.\d\d s", line) for line in lines)


def test_small_sets_are_what_their_names_say():
    for name, (X, y) in small.sets():
        if name.startswith("n"):
            n, n_features, *classes = map(int, re.findall(r"\d+", name))
            assert X.shape == (n, n_features)
            assert len(set(y)) == (classes[0] if classes else 2)


@pytest.mark.parametrize(("benchmark", "case"), [(classes, "digits*C=1"), (everyday, "breast*C=1")])
def test_many_classes_and_everyday_data(benchmark, case, capsys):
    """A row has the times of all that were chosen, ratios to the best peer, and a floor."""
    options = ["--only", case, "--repeat", "1", "--contestants", "maxmargin,scikit-learn"]
    (row,) = benchmark.main(options)
    assert set(row["fit"]) == set(row["predict"]) == {"maxmargin", "scikit-learn"}
    assert row["floor"] > 0 and row["status"] == "converged"
    head, line, *means = capsys.readouterr().out.splitlines()[1:]
    assert head.split()[0] == "set" and line.startswith(row["name"]) and len(means) >= 1


def test_generated_classes_are_what_their_names_say():
    for name, shape in classes.GENERATED.items():
        assert int(name.removeprefix("k=")) == shape[0]
    X, y = classes.clouds(3, 5, 4, 1.0)
    assert X.shape == (15, 4) and (np.bincount(y) == 5).all()


def test_large_fits_have_a_floor_and_memory_beside_them(tmp_path, capsys):
    (line,) = large.main(
        ["--cases", "easy-ball", "--sizes", "400", "--peers", "", "--judge", "--out", str(tmp_path)]
    )
    assert line.status == "converged" and line.n == 400 and line.features == 3
    assert line.seconds > 0 and line.floor > 0 and line.memory >= 0 and line.judged <= 1.05e-3
    (row,) = json.loads((tmp_path / "large.json").read_text(encoding="utf-8"))["lines"]
    assert row["n_support"] == line.n_support
    assert "| easy-ball | 400 " in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no case is called 'moon'"):
        large.main(["--cases", "moon", "--out", str(tmp_path)])


@pytest.mark.parametrize("contestant", ["maxmargin", "scikit-learn"])
def test_large_predictions_have_all_samples_as_support_vectors(monkeypatch, contestant):
    monkeypatch.setattr(large, "_PREDICTED_SUPPORT", 300)
    messages = []
    listener = type("Listener", (), {"send": lambda self, message: messages.append(message)})()
    case = large._named("values-shells")
    line = large._measure(contestant, case, None, 50, True, listener)
    assert messages == ["ready"] and line.n == 50 and line.n_support == 300
    assert line.floor > 0 and line.judged is None and line.status == "finished"


def test_a_grown_model_decides_by_its_coefficients():
    X, y = large.shells(400)
    models = [
        large._grown(
            large._estimator(name, {"C": 1.0, "gamma": 0.05}).fit(X[:50], y[:50]), 1.0, X, y
        )
        for name in ("maxmargin", "scikit-learn")
    ]
    K = oracle.kernel_values(X, X[models[0].support_], gamma=0.05)
    for model in models:
        expected = K @ model.dual_coef_[0] + model.intercept_
        assert_allclose(model.decision_function(X), expected, atol=1e-9)
        assert_array_equal(model.predict(X), np.where(expected > 0, 1.0, -1.0))


def test_growth_with_n_is_fitted_and_drawn(tmp_path):
    sizes = (10, 100, 1000)
    lines = [large.Line("made-up", "maxmargin", n, seconds=n**1.5, memory=n) for n in sizes]
    lines.append(large.Line("made-up", "libsvm", 10))
    assert large.exponents(lines) == {"made-up, maxmargin": pytest.approx(1.5)}
    assert large.plot(tmp_path / "n.png", lines) and not large.plot(tmp_path / "m.png", lines[:2])


def test_pictures_of_the_gpu_page(tmp_path, capsys):
    cases = {"shells-10000": 10_000, "covtype-20k": 20_000, "covtype-80k": 80_000}
    lines = [
        {"case": case, "n": n, "seconds": n / 1e5, "status": "converged"}
        for case, n in cases.items()
    ]
    (tmp_path / "gpu.json").write_text(json.dumps(lines))
    gpu_pictures.main(["--figures", str(tmp_path / "gpu.json"), "--out", str(tmp_path)])
    assert capsys.readouterr().out.count("picture: ") == 2
    for name in (gpu_pictures.SETS, gpu_pictures.SECONDS):
        assert 1000 < (tmp_path / name).stat().st_size < 120_000
    with pytest.raises(SystemExit, match="no fit"):
        gpu_pictures.draw_seconds(tmp_path / "none.png", [lines[0] | {"status": "time_limit"}])


def test_the_first_sweep_of_the_picture_takes_every_sample_once():
    X, y = data.two_gaussians(600)
    sweep = gpu_pictures.first_sweep(X, y)
    assert_array_equal(sweep.grows, y > 0)
    assert_array_equal(np.sort(np.concatenate(sweep.sets)), np.arange(600))
    assert len(sweep.sets) == 3 and all(0 < sweep.grows[own].mean() < 1 for own in sweep.sets)


@pytest.mark.parametrize(
    "case", [case for case in large.CASES if case.file is None], ids=lambda case: case.name
)
def test_generated_large_data_have_two_classes(case):
    X, y = case.make(None, 500)
    assert X.shape[0] == len(y) == 500 and set(y) == {-1.0, 1.0}


def test_simulated_threads():
    assert threads.makespan([3.0, 1.0, 1.0, 1.0], 2) == 3.0
    assert threads.makespan([1.0, 1.0, 3.0], 2) == 4.0
    X, y = classes.clouds(12, 80, 10, 1.0)
    real, before = maxmargin.SVC(n_jobs=4).fit(X, y), maxmargin.parallel.run_blocks
    with threads.recording() as recorder:
        recorded = maxmargin.SVC(n_jobs=4).fit(X, y)
    assert maxmargin.parallel.run_blocks is before
    assert 0 < recorder.saved < recorder.in_blocks
    assert np.array_equal(recorded.dual_coef_, real.dual_coef_)


def test_random_problems_beside_scikit_learn(capsys):
    outliers.main(["--problems", "1", "--first", "43"])
    said = capsys.readouterr().out
    assert re.search(r"^ +\d+\.\d\d +\d+\.\d\d +\d+\.\d\d  43: SVR 118 × 2;", said, re.MULTILINE)
    mean = r"^SVR: 1 problems, geometric mean \d+\.\d\d, [01] slower$"
    assert re.search(mean, said, re.MULTILINE)
    again = [outliers.make_problem(43) for _ in range(2)]
    assert np.array_equal(again[0].X, again[1].X)
    assert again[0].parameters == again[1].parameters


def test_two_states_of_the_code_take_turns(tmp_path):
    workers = [commits.start(commits.ROOT, str(tmp_path), f"s{at}") for at in range(2)]
    X, y = small.generated(60, 3, 2)
    seconds = commits.compare([worker[1] for worker in workers], X, y, {"C": 1.0}, repeat=1)
    assert len(seconds) == 2
    assert all(0 < value < np.inf for value in seconds)
    for process, connection in workers:
        connection.send(None)
        assert process.wait() == 0
