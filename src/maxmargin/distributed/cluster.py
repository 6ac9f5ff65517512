"""The executor of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

from distributed import Client, Event, get_worker
from joblib import cpu_count

from maxmargin.distributed.executors import Executor
from maxmargin.parallel import session

_ASK_INTERVAL = 1.0


class Cluster(Executor):
    """Tasks on the workers of a Dask client; the dashboard names them by their step.

    The scheduler runs the tasks of a worker that died somewhere else, and computes
    again what only that worker held.
    """

    def __init__(self, client: Client):
        self.client = client
        self._stop = StopEvent(f"maxmargin-stop-{uuid4().hex}")
        self._threads: Counter[str] = Counter()
        for address, count in client.nthreads().items():
            self._threads[_machine(address)] += count
        self.side_by_side = max(self._threads.values(), default=1)

    def put(self, value):
        # On every worker, so that none of them is the only one to have it.
        return self.client.scatter(value, broadcast=True, hash=False)

    def submit(self, function, *arguments, name, alone=False):
        threads = dict(self._threads) if alone else {}
        key = f"{name}-{uuid4().hex}"
        return self.client.submit(on_worker, threads, function, *arguments, key=key, pure=False)

    @property
    def stop_flag(self):
        return self._stop

    def request_stop(self):
        Event(self._stop.name, client=self.client).set()


class StopEvent:
    """A wish to stop that all workers of a cluster see, within a second."""

    # When a process last asked, and the answer: one for all of its tasks.
    _answers: dict[str, tuple[float, bool]] = {}

    def __init__(self, name: str):
        self.name = name

    @property
    def requested(self) -> bool:
        now = time.monotonic()
        asked, answer = self._answers.get(self.name, (-_ASK_INTERVAL, False))
        if not answer and now >= asked + _ASK_INTERVAL:
            answer = Event(self.name).is_set()
            self._answers.clear()
            self._answers[self.name] = (now, answer)
        return answer


def _machine(address: str) -> str:
    """The machine of a worker: its address without the port."""
    return address.rsplit(":", 1)[0]


def on_worker(threads: dict[str, int], function: Callable, *arguments):
    """Run a task with the threads that the other tasks of this worker leave to it.

    `threads` of a task that is alone says how many the workers of each machine have together.
    """
    worker = get_worker()
    own = worker.state.nthreads // max(1, len(worker.state.executing))
    with session(max(1, own, min(threads.get(_machine(worker.address), 1), cpu_count()))):
        return function(*arguments)
