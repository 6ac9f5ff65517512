"""Executors of task graphs: a task may take the results of others as its arguments.

One interface for threads, joblib's processes and Dask's workers, so that the
steps of a method are written once. A task gets the threads that its worker can spare; their
number never changes the bits of a result.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from joblib.parallel import get_active_backend

from maxmargin.execution.mapped import Mapped, load, store
from maxmargin.parallel import n_cores, n_threads, session

# How often a task is tried again after the process that ran it died.
RETRIES = 3


class Executor(ABC):
    """Runs tasks. A context manager: its tasks end with it.

    Attributes
    ----------
    max_concurrent : tasks that may run on one machine at the same time and share its memory
    """

    max_concurrent: int = 1

    @abstractmethod
    def put(self, value) -> Any:
        """Share a value with all workers, once; tasks receive the value in place of the handle."""

    @abstractmethod
    def submit(
        self, function: Callable, *arguments, name: str, priority: int = 0, wide: bool = False,
        near: Any = None, bundle: Any = None,
    ) -> Any:  # fmt: skip
        """A future of function(*arguments); arguments may be handles, futures, lists of futures.

        `name` is the step as a monitor shows it; tasks of larger `priority` run first. A `wide`
        task also gets the threads of idle workers on its machine. `near` is the argument that
        should not move. `bundle` is a number and a member: where tasks are costly, the tasks
        that the members of a bundle submit for the same step become one task at `flush`.
        """

    @abstractmethod
    def flush(self) -> None:
        """Begin all submitted tasks; to be called before waiting for one."""

    @abstractmethod
    def request_stop(self) -> None:
        """Ask running tasks to stop; later tasks see it in `stop_flag` when they begin."""

    @property
    @abstractmethod
    def stop_flag(self) -> Any:
        """An object whose `requested` tells tasks whether to stop."""

    def __enter__(self) -> Executor:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        self.request_stop()


class _Handle:
    """A value that is shared already, so that tasks are sent a reference."""

    def __init__(self, value):
        self.value = value


class _Graph(Executor):
    """Dependencies for executors whose futures are `concurrent.futures`'."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @abstractmethod
    def _start(self, function: Callable, arguments: list, wide: bool) -> Future:
        """Begin a task whose arguments are all there."""

    def submit(self, function, *arguments, name, priority=0, wide=False, near=None, bundle=None):
        # Tasks begin in the order of submission, and all workers have the same memory.
        outer: Future = Future()
        needed = [a for a in _flat(arguments) if isinstance(a, Future)]
        missing = len(needed)

        def begin() -> None:
            try:
                inner = self._start(function, [_resolved(a) for a in arguments], wide)
            except BaseException as error:
                outer.set_exception(error)
                return
            inner.add_done_callback(partial(_copy_result, outer))

        def one_is_there(_) -> None:
            nonlocal missing
            with self._lock:
                missing -= 1
                last = missing == 0
            if last:
                begin()

        if not needed:
            begin()
        for future in needed:
            future.add_done_callback(one_is_there)
        return outer

    def flush(self):
        pass  # submitted tasks have begun


class Threads(_Graph):
    """Tasks on threads of this process; one that runs alone gets all of them."""

    def __init__(self, workers: int):
        super().__init__()
        self._workers, self._busy, self._stop = workers, 0, _Flag()
        self.max_concurrent = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="maxmargin-task")

    def put(self, value):
        return _Handle(value)

    @property
    def stop_flag(self):
        return self._stop

    def request_stop(self):
        self._stop.requested = True

    def _start(self, function, arguments, wide):
        with self._lock:
            self._busy += 1
        return self._pool.submit(self._run, function, [_value(a) for a in arguments])

    def _run(self, function, arguments):
        try:
            # Tasks in the queue count as busy: they will want their threads soon.
            with session(max(1, self._workers // self._busy)):
                return function(*arguments)
        finally:
            with self._lock:
                self._busy -= 1

    def __exit__(self, kind, error, traceback):
        self.request_stop()
        self._pool.shutdown(wait=True, cancel_futures=True)


class _Flag:
    requested = False


class Processes(_Graph):
    """Tasks in processes of joblib's loky, which map the shared data into their memory.

    A process that dies (killed, or out of memory) costs its tasks another try.
    """

    def __init__(self, workers: int):
        super().__init__()
        self._workers = self.max_concurrent = workers
        self._count = self._busy = 0
        self._threads = max(1, n_cores() // workers)
        self._folder = Path(tempfile.mkdtemp(prefix="maxmargin-"))
        self._stop = StopFile(str(self._folder / "stop"))

    def put(self, value):
        self._count += 1
        return store(value, self._folder / f"shared-{self._count}")

    @property
    def stop_flag(self):
        return self._stop

    def request_stop(self):
        if self._folder.is_dir():
            Path(self._stop.path).touch()

    def _start(self, function, arguments, wide):
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        result: Future = Future()
        tries = 0
        with self._lock:
            self._busy += 1
            idle = self._busy == 1
        threads = n_cores() if wide and idle else self._threads

        def attempt() -> None:
            inner = self._pool().submit(_in_process, threads, function, arguments)
            inner.add_done_callback(done)

        def done(inner: Future) -> None:
            nonlocal tries
            error = inner.exception()
            if isinstance(error, (TerminatedWorkerError, BrokenExecutor)) and tries < RETRIES:
                tries += 1
                # Not in this thread: it belongs to the pool that is going down.
                threading.Thread(target=attempt, daemon=True).start()
            else:
                with self._lock:
                    self._busy -= 1
                _copy_result(result, inner)

        attempt()
        return result

    def _pool(self):
        from joblib.executor import get_memmapping_executor

        # A process has one pool of joblib, and its next user expects it as joblib makes it.
        with self._lock:
            return get_memmapping_executor(self._workers, timeout=60)

    def __exit__(self, kind, error, traceback):
        self.request_stop()
        if kind is not None and not issubclass(kind, Exception):
            # A second Ctrl-C: the processes are not given time to end by themselves.
            self._pool().shutdown(wait=True, kill_workers=True)
        shutil.rmtree(self._folder, ignore_errors=True)


class StopFile:
    """A request to stop that other processes of this machine see: the existence of a file."""

    def __init__(self, path: str):
        self.path = path

    @property
    def requested(self) -> bool:
        # The folder is removed with the fit, after which no answer is needed.
        return os.path.exists(self.path) or not os.path.isdir(os.path.dirname(self.path))


def _in_process(threads: int, function: Callable, arguments: list):
    with session(threads):
        return function(*[load(a) if isinstance(a, Mapped) else a for a in arguments])


def _flat(arguments) -> list:
    return [b for a in arguments for b in (a if isinstance(a, list) else [a])]


def _resolved(argument):
    if isinstance(argument, list):
        return [_resolved(a) for a in argument]
    return argument.result() if isinstance(argument, Future) else argument


def _value(argument):
    return argument.value if isinstance(argument, _Handle) else argument


def _copy_result(outer: Future, inner: Future) -> None:
    if inner.cancelled():
        outer.cancel()
    elif inner.exception() is not None:
        outer.set_exception(inner.exception())
    else:
        outer.set_result(inner.result())


def wait_for_any(futures: list) -> None:
    """Return when one of the futures is done, or after about a tenth of a second."""
    pause, deadline = 0.002, time.monotonic() + 0.1
    while not any(future.done() for future in futures) and time.monotonic() < deadline:
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def active_executor() -> Executor:
    """The executor of joblib's context; threads of this process where there is no context.

    `parallel_config(backend="loky", n_jobs=4)` means four processes, and
    `parallel_config(backend="dask")` the workers of the current Dask client.
    """
    backend, n_jobs = get_active_backend()
    kind = type(backend).__name__
    if kind == "DaskDistributedBackend":
        from maxmargin.execution.dask import Cluster

        return Cluster(backend.client)
    if kind == "LokyBackend" and getattr(backend, "nesting_level", 0) == 0 and n_jobs is not None:
        workers = backend.effective_n_jobs(n_jobs)
        if workers > 1:
            return Processes(workers)
    return Threads(n_threads())
