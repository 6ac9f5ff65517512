"""The executor of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from uuid import uuid4

from distributed import Client, Event, get_worker

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
        threads: Counter[str] = Counter()
        for address, count in client.nthreads().items():
            threads[address.rsplit(":", 1)[0]] += count
        self.side_by_side = max(threads.values(), default=1)

    def put(self, value):
        # On every worker, so that none of them is the only one to have it.
        return self.client.scatter(value, broadcast=True, hash=False)

    def submit(self, function, *arguments, name):
        return self.client.submit(
            on_worker, function, *arguments, key=f"{name}-{uuid4().hex}", pure=False
        )  # fmt: skip

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


def on_worker(function: Callable, *arguments):
    """Run a task with the threads that the other tasks of this worker leave to it."""
    state = get_worker().state
    with session(max(1, state.nthreads // max(1, len(state.executing)))):
        return function(*arguments)
