"""The executor of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any
from uuid import uuid4

from distributed import Client, Event, get_client, get_worker, wait
from joblib import cpu_count

from maxmargin.distributed.executors import Executor
from maxmargin.parallel import session

_ASK_INTERVAL = 1.0
# How long and how often a worker that came later tries to get the samples from another.
_TRANSFER_SECONDS = 30
_TRIES = 3


class Cluster(Executor):
    """Tasks on the workers of a Dask client; the dashboard names them by their step.

    The scheduler runs the tasks of a worker that died somewhere else, and computes
    again what only that worker held.
    """

    def __init__(self, client: Client):
        self.client = client
        self._published: list[str] = []
        self._stop = StopEvent(f"maxmargin-stop-{uuid4().hex}")
        self._threads: Counter[str] = Counter()
        for address, count in client.nthreads().items():
            self._threads[_machine(address)] += count
        self.side_by_side = max(self._threads.values(), default=1)

    def put(self, value):
        sent = self.client.scatter(value, broadcast=True, hash=False)
        # A name of its own on every worker: of one name Dask keeps one copy only, after a while.
        own = {
            address: self.client.submit(_itself, sent, workers=[address], pure=False)
            for address in self.client.nthreads()
        }
        wait(list(own.values()))
        name = f"maxmargin-{uuid4().hex}"
        self.client.publish_dataset(list(own.values()), name=name)
        self._published.append(name)
        return OnEveryWorker(name, {address: future.key for address, future in own.items()})

    def submit(self, function, *arguments, name, alone=False):
        threads = dict(self._threads) if alone else {}
        key = f"{name}-{uuid4().hex}"
        return self.client.submit(on_worker, threads, function, *arguments, key=key, pure=False)

    @property
    def stop_flag(self):
        return self._stop

    def request_stop(self):
        Event(self._stop.name, client=self.client).set()

    def __exit__(self, kind, error, traceback):
        self.request_stop()
        for name in self._published:
            self.client.unpublish_dataset(name)


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


class OnEveryWorker:
    """A value that all workers have: tasks are sent the names under which they find it."""

    # What a worker that came later has fetched, the last alone.
    _fetched: dict[str, Any] = {}

    def __init__(self, name: str, keys: dict):
        self.name, self.keys = name, keys

    def value(self):
        """The value, on whatever worker this is."""
        worker = get_worker()
        key = self.keys.get(worker.address)
        if key is not None and key in worker.data:
            return worker.data[key]
        if self.name not in self._fetched:
            self._fetched.clear()
            self._fetched[self.name] = self._from_another()
        return self._fetched[self.name]

    def _from_another(self):
        client = get_client()
        for _ in range(_TRIES):
            copies = client.get_dataset(self.name)
            holders = client.who_has(copies)
            for copy in copies:
                if holders.get(copy.key):
                    with suppress(TimeoutError, CancelledError):
                        return copy.result(timeout=_TRANSFER_SECONDS)
        raise RuntimeError("All workers that had the samples of this fit have died.")


def _itself(value):
    return value


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
        return function(*[a.value() if isinstance(a, OnEveryWorker) else a for a in arguments])
