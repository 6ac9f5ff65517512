"""An event-driven simulation of a task graph on a cluster.

A task is handed out by the one scheduler, waits for its inputs to travel, then for its worker,
and runs there. The scheduler, each worker and each direction of its network link serve one at a
time, in the order of arrival.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from itertools import count


@dataclass(eq=False)
class Task:
    """Work of some seconds on a worker, after other tasks; its result has `n_bytes`."""

    name: str
    worker: int
    seconds: float
    needs: list[Task] = field(default_factory=list)
    n_bytes: float = 0.0


@dataclass
class Simulated:
    """What became of a graph.

    Attributes
    ----------
    seconds : until the last task was finished
    n_bytes : that travelled between workers
    busy : seconds of work of each worker
    scheduler : seconds of work of the scheduler
    finished : when each task was, in the order of the graph
    """

    seconds: float
    n_bytes: float
    busy: list[float]
    scheduler: float
    finished: list[float]


class Cluster:
    """Workers of one thread, a network and a scheduler."""

    def __init__(self, n_workers: int, scheduler_seconds: float, bytes_per_second: float):
        self.n_workers = n_workers
        self.scheduler_seconds, self.bytes_per_second = scheduler_seconds, bytes_per_second

    def run(self, graph: list[Task]) -> Simulated:
        """Let all tasks of a graph pass; of those that are ready at once, the first goes first."""
        self._events: list = []
        self._order = count()
        self._scheduler_free = 0.0
        self._sent, self._received = [0.0] * self.n_workers, [0.0] * self.n_workers
        self._arrivals: dict[tuple[Task, int], float] = {}
        self._queues: list[deque[Task]] = [deque() for _ in range(self.n_workers)]
        self._working = [False] * self.n_workers
        self._busy, self._n_bytes = [0.0] * self.n_workers, 0.0
        missing = {task: len(task.needs) for task in graph}
        users: dict[Task, list[Task]] = {task: [] for task in graph}
        finished: dict[Task, float] = {}
        for task in graph:
            for needed in task.needs:
                users[needed].append(task)
            if not task.needs:
                self._at(0.0, "ready", task)
        while self._events:
            now, _, event, task = heapq.heappop(self._events)
            if event == "ready":
                self._scheduler_free = max(self._scheduler_free, now) + self.scheduler_seconds
                self._at(self._scheduler_free, "sent", task)
            elif event == "sent":
                arrived = [self._travel(needed, task.worker, now) for needed in task.needs]
                self._at(max(arrived, default=now), "arrived", task)
            elif event == "arrived":
                self._queues[task.worker].append(task)
                self._work(task.worker, now)
            else:
                finished[task] = now
                self._working[task.worker] = False
                self._work(task.worker, now)
                for user in users[task]:
                    missing[user] -= 1
                    if not missing[user]:
                        self._at(now, "ready", user)
        times = [finished[task] for task in graph]
        scheduler = self.scheduler_seconds * len(graph)
        return Simulated(max(times), self._n_bytes, self._busy, scheduler, times)

    def _at(self, when: float, event: str, task: Task) -> None:
        heapq.heappush(self._events, (when, next(self._order), event, task))

    def _work(self, worker: int, now: float) -> None:
        if self._working[worker] or not self._queues[worker]:
            return
        task = self._queues[worker].popleft()
        self._working[worker] = True
        self._busy[worker] += task.seconds
        self._at(now + task.seconds, "finished", task)

    def _travel(self, task: Task, to: int, now: float) -> float:
        """When a result is on a worker; it goes there once."""
        if task.worker == to:
            return now
        if (task, to) not in self._arrivals:
            begin = max(now, self._sent[task.worker], self._received[to])
            end = begin + task.n_bytes / self.bytes_per_second
            self._sent[task.worker] = self._received[to] = end
            self._arrivals[task, to] = end
            self._n_bytes += task.n_bytes
        return max(now, self._arrivals[task, to])
