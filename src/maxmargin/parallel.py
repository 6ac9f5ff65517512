"""The one thread pool, and the one place that limits the threads of BLAS.

Compiled leaves release the interpreter's lock, so the calling thread and those of a plain
`ThreadPoolExecutor` run blocks of work on all cores. While they do, BLAS is held to one thread a
call; a factorisation, which is one large BLAS call, gets all of them. No OpenMP
and no process is involved, so forked, joblib and Dask workers are all safe.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache

import joblib
import numpy as np
from joblib.parallel import SequentialBackend, get_active_backend
from threadpoolctl import OpenBLASController, ThreadpoolController

# Floating-point operations of a BLAS call from which on several threads pay (about 80 ms of one).
_FLOPS_WORTH_THREADS = 4e9
_lock = threading.Lock()
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_state = threading.local()
_sessions = 0
_NO_LIMIT = 2**31  # threads where OMP_NUM_THREADS is not set
_environment: tuple[str, int] = "", _NO_LIMIT
_restore: list = []


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    """Handle of the loaded BLAS libraries; finding them takes milliseconds, so once."""
    import scipy.linalg  # noqa: F401  (brings SciPy's own BLAS with it)

    return ThreadpoolController().select(user_api="blas")


def _in_control(change: Callable):
    """Call `change`, which sets BLAS threads, from any thread.

    threadpoolctl lets only the first thread that asked set them, and silently ignores all
    others; sessions may begin and end in any thread.
    """
    free = getattr(OpenBLASController, "clear_controlling_thread", lambda force: None)
    free(force=True)
    try:
        return change()
    finally:
        free(force=True)


def n_cores() -> int:
    """Cores that this process may use, as joblib counts them, which reads several files."""
    affinity = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    return _count_cores(frozenset(affinity), os.environ.get("LOKY_MAX_CPU_COUNT"))


@lru_cache(maxsize=8)
def _count_cores(affinity: frozenset, limit: str | None) -> int:
    return joblib.cpu_count()


def resolve_n_jobs(n_jobs: int | None) -> int:
    """Number of threads a fit may use.

    `None` takes what joblib's context leaves to this worker: the `n_jobs` of an active
    `parallel_config`, one thread inside a thread of joblib, the limit for BLAS that joblib
    set inside one of its processes, else all cores.
    """
    if n_jobs == 0:
        raise ValueError("n_jobs must be at least 1, or negative to count from all cores; it is 0.")
    if n_jobs is not None:
        return max(1, n_cores() + 1 + n_jobs) if n_jobs < 0 else n_jobs
    backend, configured = get_active_backend()
    # A joblib task runs in a thread other than the main one only if the workers are threads.
    nested = bool(getattr(backend, "nesting_level", 0))
    in_thread = threading.current_thread() is not threading.main_thread()
    if isinstance(backend, SequentialBackend) or (nested and in_thread):
        return 1
    if configured is not None and configured != 1:
        return max(1, backend.effective_n_jobs(configured))
    return min(n_cores(), _limit_of_environment())


def _limit_of_environment() -> int:
    """OMP_NUM_THREADS as it was when this process began; a large number where it was not set.

    Dask sets the variable for its workers, in the process that starts them. BLAS read it at
    the beginning: if BLAS has more threads, the variable was set later.
    """
    global _environment
    limit = os.environ.get("OMP_NUM_THREADS", "")
    if not (limit.isdigit() and int(limit) > 0):
        return _NO_LIMIT
    with _lock:
        if _sessions == 0:  # else BLAS has the one thread that we gave it
            has = max((library.num_threads for library in _blas().lib_controllers), default=1)
            _environment = limit, int(limit) if has <= int(limit) else _NO_LIMIT
        known, answer = _environment
    return answer if known == limit else int(limit)


def n_threads() -> int:
    """Threads that the calling thread may use now (1 outside a session)."""
    threads = getattr(_state, "n_threads", 1)
    return threads() if callable(threads) else threads


def always_one_thread() -> bool:
    """Whether the calling thread works alone, now and until its session ends."""
    return getattr(_state, "n_threads", 1) == 1


@contextmanager
def session(threads: int | Callable[[], int]) -> Iterator[None]:
    """Give the calling thread `threads` threads, and hold BLAS to one per call.

    A function is called for the number whenever it is needed. The limit on BLAS is
    process-wide, so sessions may overlap: the first one sets it, and the last one restores the
    earlier value.
    """
    global _sessions
    previous = getattr(_state, "n_threads", 1)
    _state.n_threads = threads
    with _lock:
        _sessions += 1
        if _sessions == 1:
            _restore.append(_in_control(lambda: _limit_blas(1)))
    try:
        # Overflows show in the results, and are reported there.
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    finally:
        _state.n_threads = previous
        with _lock:
            _sessions -= 1
            if _sessions == 0:
                before = _restore.pop()
                _in_control(lambda: _set_blas(before))


def _limit_blas(threads: int) -> list[int]:
    """Set the threads per BLAS call, and return the earlier numbers, library by library."""
    before = [library.get_num_threads() for library in _blas().lib_controllers]
    _set_blas([threads] * len(before))
    return before


def _set_blas(threads: list[int]) -> None:
    for library, count in zip(_blas().lib_controllers, threads, strict=True):
        library.set_num_threads(count)


@contextmanager
def blas_threads(flops: float) -> Iterator[None]:
    """All of this session's threads for BLAS, for one factorisation or product of that size.

    Threads of BLAS wait for each other by spinning, which on a busy machine costs a time slice
    per call: work of a few milliseconds is better done by one thread.
    """
    if n_threads() == 1 or flops < _FLOPS_WORTH_THREADS:
        yield
        return
    before = _in_control(lambda: _limit_blas(n_threads()))
    try:
        yield
    finally:
        _in_control(lambda: _set_blas(before))


def run_blocks(function: Callable, blocks: Iterable) -> list:
    """[function(block) for block in blocks], on the session's threads.

    The calling thread is one of them, and takes more blocks while the others are slow to wake.
    Results keep the order of the blocks, so that sums over them have the same bits whichever
    thread was faster.
    """
    blocks, threads = list(blocks), n_threads()  # called once: the number may change
    helpers = min(threads, len(blocks)) - 1
    if helpers < 1:
        return [function(block) for block in blocks]
    return _SharedBlocks(function, blocks).run(_pool(threads - 1), helpers)


class _SharedBlocks:
    """Blocks of work that several threads take one after the other."""

    def __init__(self, function: Callable, blocks: list):
        self._function, self._blocks = function, blocks
        self._results = [None] * len(blocks)
        # One iterator for all threads: the interpreter's lock lets one at a time ask for the next.
        self._numbers = iter(range(len(blocks)))

    def run(self, pool: ThreadPoolExecutor, helpers: int) -> list:
        """The results, with the help of this many threads of the pool."""
        futures = [pool.submit(self._work) for _ in range(helpers)]
        given, _state.n_threads = _state.n_threads, 1
        try:
            self._work()
        finally:
            _state.n_threads = given
            begun = [future for future in futures if not future.cancel()]
            wait(begun)
        for future in begun:
            future.result()
        return self._results

    def _work(self) -> None:
        try:
            for number in self._numbers:
                self._results[number] = self._function(self._blocks[number])
        except BaseException:
            for _ in self._numbers:  # the other blocks are no longer needed
                pass
            raise


def stream_blocks(function: Callable, blocks: Iterable) -> Iterator:
    """The same results one by one, each as soon as it and all before it are computed."""
    blocks = list(blocks)
    threads = min(n_threads(), len(blocks))
    if threads <= 1:
        return map(function, blocks)
    return _pool(n_threads()).map(function, blocks)


def run_beside(function: Callable, other: Callable):
    """function(), which is one thread's work, while the other threads do other()'s blocks."""
    threads = n_threads()
    if threads == 1:
        other()
        return function()
    future = _pool(threads - 1).submit(function)
    try:
        other()
    finally:
        wait([future])
    return future.result()


def stream_concurrently(function: Callable, items: Iterable) -> Iterator:
    """function(item) for each item, in order, each call on one thread of the session.

    For items that are large themselves: the calling thread draws each one shortly before its
    turn, while the other threads work.
    """
    waiting: deque[Future] = deque()
    threads, given = n_threads(), getattr(_state, "n_threads", 1)
    pool = _pool(threads)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            _state.n_threads = 1
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        _state.n_threads = given
        for future in waiting:
            future.cancel()


def _pool(threads: int) -> ThreadPoolExecutor:
    # A forked child inherits the dictionary but not the threads: the key holds the process.
    key = (os.getpid(), threads)
    with _lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(
                threads, thread_name_prefix="maxmargin", initializer=_ignore_overflow
            )
        return _pools[key]


def _ignore_overflow() -> None:
    """As in `session`, for a thread of the pool."""
    np.seterr(over="ignore", invalid="ignore")


def _begin_anew() -> None:
    """Start afresh in a forked child, which has none of the parent's other threads.

    Sessions of those threads would never end, nor would their limit on BLAS.
    """
    global _lock, _sessions
    _lock, _sessions = threading.Lock(), 0
    _pools.clear()
    _state.__dict__.clear()
    if _restore:
        before = _restore[0]
        _restore.clear()
        _in_control(lambda: _set_blas(before))


if hasattr(os, "register_at_fork"):
    # The lock is held meanwhile, so that no other thread is halfway through a change.
    os.register_at_fork(
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_begin_anew,
    )


def split(n: int, size: int) -> list[slice]:
    """Slices of at most `size` that cover range(n)."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
