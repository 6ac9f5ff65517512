"""The simulation of a cluster, against schedules worked out by hand."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import distributed_model
from _cluster_simulation import Cluster, Task
from distributed_model import Laws, Power, Quadratic


def test_two_workers_and_a_union():
    """Two tasks side by side, a result that travels, then two checks of the answer."""
    first = Task("first", 0, 3.0, n_bytes=40.0)
    second = Task("second", 1, 4.0, n_bytes=20.0)
    union = Task("union", 0, 5.0, [first, second], n_bytes=10.0)
    checks = [Task("check", worker, 1.0, [union]) for worker in (0, 1)]
    found = Cluster(2, scheduler_seconds=0.5, bytes_per_second=10.0).run(
        [first, second, union, *checks]
    )
    # Handed out at 0.5 and 1; done at 3.5 and 5. The union is handed out at 5.5, has the 20 bytes
    # of the second at 7.5 and ends at 12.5. The checks are handed out at 13 and 13.5; the answer
    # is on the other worker at 14.5.
    assert found.finished == pytest.approx([3.5, 5.0, 12.5, 14.0, 15.5])
    assert found.seconds == pytest.approx(15.5)
    assert found.n_bytes == 30.0  # the 20 of the second, the 10 of the answer
    assert found.busy == pytest.approx([9.0, 5.0])
    assert found.scheduler == pytest.approx(2.5)


def test_a_worker_and_its_link_serve_one_at_a_time():
    parts = [Task("part", 0, 1.0, n_bytes=30.0) for _ in range(2)]
    taken = [Task("taken", 1, 2.0, [part]) for part in parts]
    both = Task("both", 1, 1.0, parts)
    found = Cluster(2, 0.0, 10.0).run([*parts, *taken, both])
    # The parts end at 1 and 2; they arrive at 4 and, after it, at 7. `both` waits for the second
    # `taken`, which runs from 7 to 9; nothing travels twice.
    assert found.finished == pytest.approx([1.0, 2.0, 6.0, 9.0, 10.0])
    assert found.n_bytes == 60.0


def test_an_answer_leaves_its_worker_copy_by_copy():
    answer = Task("answer", 0, 1.0, n_bytes=10.0)
    checks = [Task("check", worker, 0.0, [answer]) for worker in (1, 2, 3)]
    found = Cluster(4, 0.0, 10.0).run([answer, *checks])
    assert found.finished == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_the_graph_of_a_fit():
    """Sixteen partitions on one worker, one round: the tasks that a fit of 80,000 rows has."""
    laws = Laws(
        first=Power(1e-3, 1.0), kept=Power(0.1, 1.0), subproblem=Quadratic(1e-3, 0.0),
        union=Power(0.02, 1.0), support=Power(0.01, 1.0), back=0.5, rounds=1, check=1e-6,
        scheduler=0.0, row=100,
    )  # fmt: skip
    tasks = distributed_model.graph(laws, 80_000, 1, 5000)
    assert Counter(task.name for task in tasks) == {
        "step-1": 16, "step-2": 4, "summary": 7, "union": 1, "certificate": 2, "verdict": 2,
        "readmission": 1,
    }  # fmt: skip
    alone = Cluster(1, 0.0, 1e6).run(tasks)
    # 16 · 5, four second steps of 2,000 rows, a union of 1,600, a readmission of 800 · 1.5, and
    # two checks of 80,000 rows by 800 support vectors.
    assert alone.seconds == pytest.approx(80 + 8 + 1.6 + 1.2 + 2 * 64)
    assert alone.n_bytes == 0
    two = Cluster(2, 0.0, 1e6).run(distributed_model.graph(laws, 80_000, 2, 5000))
    assert sum(two.busy) == pytest.approx(sum(alone.busy))
    # Half of what the second step takes and gives; the answer twice; its violators twice, by half.
    rows = 16 * 500 / 2 + 1600 / 2 + 2 * 800 + 2 * 400 / 2
    assert two.n_bytes == pytest.approx(100 * rows)
    # 8 · 5, then the rows of two partitions in 0.2 s for each second step, one after the other...
    assert 40 + 4 + 1.6 + 1.2 + 64 < two.seconds < 40 + 4 + 1.6 + 1.2 + 64 + 100 * rows / 1e6


@pytest.mark.parametrize("law", [Power(2.0, 1.5), Quadratic(3.0, 0.25)])
def test_laws_are_found_again(law):
    x = [1.0, 3.0, 10.0, 40.0]
    found = type(law).of(x, [law(each) for each in x])
    assert vars(found) == pytest.approx(vars(law))
