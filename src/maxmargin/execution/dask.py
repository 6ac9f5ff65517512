"""The executor of a Dask cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from distributed import Client, Event, Future, get_client, get_worker, wait

from maxmargin.execution.executors import Executor
from maxmargin.parallel import n_cores, session

# Seconds between two queries of the cluster's state.
_ASK_INTERVAL = 0.5
# How long, in seconds, and how often a worker that joined later tries to fetch the samples.
_TRANSFER_SECONDS = 30
_TRIES = 3
# Rows of a worker's partitions that one task examines: each task costs the scheduler time.
_ROWS_TOGETHER = 100_000


class Cluster(Executor):
    """Tasks on the workers of a Dask client; the dashboard names them by their step.

    If a worker dies, the scheduler runs its tasks elsewhere and recomputes results that only
    that worker held.
    """

    def __init__(self, client: Client):
        self.client = client
        self._published: list[str] = []
        self._homes: dict = {}
        self._waiting: dict[tuple, _Together] = {}
        self._turns: Counter[tuple] = Counter()
        self._stop = StopEvent(f"maxmargin-stop-{uuid4().hex}")
        self._workers = list(client.nthreads())
        self.max_concurrent = max(_threads_by_machine(client).values(), default=1)

    def put(self, value):
        sent = self.client.scatter(value, broadcast=True, hash=False)
        # A different name on every worker: after a while Dask keeps only one copy per name.
        own = {
            address: self.client.submit(_itself, sent, workers=[address], pure=False)
            for address in self.client.nthreads()
        }
        wait(list(own.values()))
        name = f"maxmargin-{uuid4().hex}"
        self.client.publish_dataset(list(own.values()), name=name)
        self._published.append(name)
        return OnEveryWorker(name, {address: future.key for address, future in own.items()})

    def submit(self, function, *arguments, name, priority=0, wide=False, near=None, bundle=None):
        at = (bundle, name, None if near is None else near.key)
        # Tasks that one member submits for the same step should run in parallel.
        turn = self._turns[at]
        self._turns[at] += 1
        key = (bundle and bundle[0], *at[1:], turn)
        if key not in self._waiting:
            self._waiting[key] = _Together(name, wide, near)
        piece = self._waiting[key].add(_Call(function, arguments), priority)
        if bundle is None:
            self.flush()
        return piece

    def flush(self):
        waiting, self._waiting = list(self._waiting.values()), {}
        self._turns.clear()
        for together in waiting:
            self._begin(together)

    def _begin(self, together: _Together) -> Future:
        """Hand calls to the scheduler as one task, after the tasks whose results they take."""
        if together.future is None:
            inputs: dict[Future, int] = {}

            def sent(argument):
                if isinstance(argument, list):
                    return [sent(each) for each in argument]
                if isinstance(argument, Piece):
                    future = self._begin(argument.together)
                    return _Taken(inputs.setdefault(future, len(inputs)), argument.place)
                if isinstance(argument, Future):
                    return _Taken(inputs.setdefault(argument, len(inputs)))
                return argument

            calls = [
                _Call(call.function, tuple(sent(each) for each in call.arguments))
                for call in together.calls
            ]
            together.calls = []
            together.future = self.client.submit(
                on_worker, together.wide, calls, list(inputs), pure=False,
                key=f"{together.name}-{uuid4().hex}", priority=together.priority,
                workers=self._home(together.near), allow_other_workers=True,
            )  # fmt: skip
        return together.future

    def _home(self, near: Future | None) -> list[str]:
        """The workers that hold a result; all workers where there is no such result.

        Others may run the task if one of them dies. A task without workers would wait in
        another queue of the scheduler, which disregards its priority.
        """
        if near is None:
            return self._workers
        if near.key not in self._homes:
            self._homes[near.key] = list(self.client.who_has([near])[near.key])
        return self._homes[near.key] or self._workers

    def by_home(self, futures: list[Future], sizes: list[int]) -> list[list[int]]:
        """Results of these sizes in groups on one worker each, a task per group; their places."""
        wait(futures)
        homes: dict[str, list[list[int]]] = {}
        rows: dict[str, int] = {}
        for place, (future, size) in enumerate(zip(futures, sizes, strict=True)):
            home = min(self._home(future))
            groups = homes.setdefault(home, [])
            if not groups or rows[home] + size > _ROWS_TOGETHER:
                groups.append([])
                rows[home] = 0
            groups[-1].append(place)
            rows[home] += size
        return [group for groups in homes.values() for group in groups]

    @property
    def stop_flag(self):
        return self._stop

    def request_stop(self):
        Event(self._stop.name, client=self.client).set()

    def __exit__(self, kind, error, traceback):
        self.request_stop()
        for name in self._published:
            self.client.unpublish_dataset(name)


@dataclass(frozen=True)
class _Call:
    """A function to run on a worker; results of other tasks are `_Taken` in its arguments."""

    function: Callable
    arguments: tuple


@dataclass(frozen=True)
class _Taken:
    """The number of a task among those whose results are needed, and the place in its result."""

    number: int
    place: int | None = None


class _Together:
    """Calls that are one task of the scheduler."""

    def __init__(self, name: str, wide: bool, near: Future | None):
        self.name, self.wide, self.near = name, wide, near
        self.calls: list[_Call] = []
        self.priority = 0
        self.future: Future | None = None
        self._results: list | None = None

    def add(self, call: _Call, priority: int) -> Piece:
        self.calls.append(call)
        self.priority = max(self.priority, priority)
        return Piece(self, len(self.calls) - 1)

    def results(self) -> list:
        if self._results is None:
            assert self.future is not None, "flush() comes before waiting"
            self._results = self.future.result()
        return self._results


class Piece:
    """The future of one call of a task that may have several."""

    def __init__(self, together: _Together, place: int):
        self.together, self.place = together, place

    def done(self) -> bool:
        future = self.together.future
        return future is not None and future.done()

    def result(self):
        return self.together.results()[self.place]


class StopEvent:
    """A request to stop that all workers of a cluster see, within a second."""

    # When this process last asked, and the answer, which all of its tasks share.
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
    """A value that all workers have; tasks are sent its name on each worker."""

    # The last value that this worker fetched because it joined later.
    _fetched: dict[str, Any] = {}

    def __init__(self, name: str, keys: dict):
        self.name, self.keys = name, keys

    def value(self):
        """The value, on any worker."""
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


def _threads_by_machine(client: Client) -> Counter[str]:
    threads: Counter[str] = Counter()
    for address, count in client.nthreads().items():
        threads[_machine(address)] += count
    return threads


def on_worker(wide: bool, calls: list[_Call], inputs: list) -> list:
    """Run calls one after the other, on the threads that other tasks of this worker leave free.

    A `wide` task also uses the threads of idle workers on this machine.
    """
    state = get_worker().state
    threads = max(1, state.nthreads // max(1, len(state.executing)))
    with session(_Wide(threads) if wide else threads):
        return [
            call.function(*(_received(argument, inputs) for argument in call.arguments))
            for call in calls
        ]


def _received(argument, inputs: list):
    if isinstance(argument, list):
        return [_received(each, inputs) for each in argument]
    if isinstance(argument, _Taken):
        given = inputs[argument.number]
        return given if argument.place is None else given[argument.place]
    return argument.value() if isinstance(argument, OnEveryWorker) else argument


class _Wide:
    """The threads that a task may use at present: its `own`, and the threads of idle workers.

    A query takes milliseconds, so it is made only now and then. Wide tasks are most of the longest
    chain of a hierarchical fit (w7a, covertype with 20,000 rows: 0.8), while other workers wait.
    """

    def __init__(self, own: int):
        self._own, self._now, self._next = own, own, 0.0

    def __call__(self) -> int:
        if time.monotonic() >= self._next:
            self._now = min(self._own + _idle_threads(), n_cores())
            self._next = time.monotonic() + _ASK_INTERVAL
        return self._now


def _idle_threads() -> int:
    """This worker's share of the threads of idle workers on its machine."""
    client, own = get_client(), _machine(get_worker().address)
    tasks = client.processing()
    idle = busy = 0
    for address, threads in client.nthreads().items():
        if _machine(address) == own:
            idle += threads if not tasks.get(address) else 0
            busy += bool(tasks.get(address))
    return idle // max(1, busy)
