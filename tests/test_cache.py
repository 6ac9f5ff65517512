"""The cache of kernel rows: right rows, least recently used dropped, never over its bytes."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maxmargin import constants
from maxmargin.kernels import buffers
from maxmargin.kernels import row_cache as module
from maxmargin.kernels.budget import cache_bytes, memory_budget
from maxmargin.kernels.buffers import BufferPool
from maxmargin.kernels.row_cache import RowCache
from maxmargin.kernels.user_values import PrecomputedKernelMatrix
from maxmargin.parallel import session


def matrix(n=12):
    half = np.random.default_rng(0).normal(size=(n, n))
    return half + half.T


def held(cache):
    return np.flatnonzero(cache.holds())


def check_held_rows(cache, K):
    rows, slot_of, _ = cache.arrays()
    slots = slot_of[held(cache)]
    assert_array_equal(rows[slots], K[held(cache)])
    assert len(np.unique(slots)) == len(slots) <= cache.capacity


def test_fetched_rows_are_there():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 5 * K[0].nbytes)
    slots = cache.fetch(np.array([7, 2, 9]))
    assert_array_equal(cache.arrays().rows[slots], K[[7, 2, 9]])
    check_held_rows(cache, K)


def test_a_row_that_is_there_is_not_computed_again():
    calls = []

    class Counting(PrecomputedKernelMatrix):
        def block(self, rows, *others, **options):
            calls.extend(rows)
            return super().block(rows, *others, **options)

    cache = RowCache(Counting(matrix()), 5 * 12 * 8)
    cache.fetch(np.array([1, 2]))
    cache.fetch(np.array([2, 3]))
    assert calls == [1, 2, 3]


def test_least_recently_used_is_dropped():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 3 * K[0].nbytes)
    for sample in [4, 5, 6, 4, 7]:  # 5 is the oldest when 7 comes
        cache.fetch(np.array([sample]))
    assert_array_equal(held(cache), [4, 6, 7])
    check_held_rows(cache, K)


def test_new_memory_is_for_rows_that_are_used_again(monkeypatch):
    monkeypatch.setattr(constants, "FREE_BYTES", 3 * 12 * 8)
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 10**6)
    for sample in [4, 5, 6, 7, 8]:  # each once: three places do
        cache.fetch(np.array([sample]))
    assert_array_equal(held(cache), [6, 7, 8])
    for _ in range(3 * constants.USES_PER_ROW):
        cache.fetch(np.array([8]))
    cache.fetch(np.array([9]))
    assert_array_equal(held(cache), [6, 7, 8, 9])
    cache.fetch(np.arange(1, 9))  # rows asked for together always have room
    assert_array_equal(held(cache), np.arange(1, 9))
    check_held_rows(cache, K)


def test_rows_asked_for_together_do_not_drop_each_other():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 3 * K[0].nbytes)
    cache.fetch(np.array([0, 1, 2]))
    cache.fetch(np.array([1, 8, 9]))
    assert_array_equal(held(cache), [1, 8, 9])


@pytest.mark.parametrize("n_bytes", [2 * 96, 3 * 96 + 50, 12 * 96, 10**6])
def test_memory_never_exceeds_its_bytes(n_bytes):
    cache = RowCache(PrecomputedKernelMatrix(matrix()), n_bytes)
    assert cache._memory.nbytes <= n_bytes
    assert cache.arrays().rows.nbytes <= n_bytes
    assert cache.capacity == min(12, n_bytes // 96)
    assert np.shares_memory(cache.arrays().rows, cache._memory)


def test_float32_rows_take_half():
    K = matrix().astype(np.float32)
    assert RowCache(PrecomputedKernelMatrix(K), 4 * 48).capacity == 4


def test_less_than_two_rows_gets_a_sentence():
    with pytest.raises(ValueError, match="cache_size is too small: two kernel rows of 12 samples"):
        RowCache(PrecomputedKernelMatrix(matrix()), 2 * 96 - 1)


@given(st.data())
def test_any_sequence_of_fetches_and_restrictions(data):
    """Whatever is asked: the rows that the cache says it holds are right, within its bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "FREE_BYTES", data.draw(st.integers(0, 17)) * 15 * 8)
        check_sequence(data)


def check_sequence(data):
    K = matrix(15)
    whole = PrecomputedKernelMatrix(K)
    n_bytes = data.draw(st.integers(2, 17)) * K[0].nbytes
    cache = RowCache(whole, n_bytes)
    clock = 0
    for _ in range(data.draw(st.integers(1, 8))):
        clock += 1
        if cache.kernel.n > 2 and data.draw(st.booleans()):
            flags = data.draw(
                st.lists(st.booleans(), min_size=cache.kernel.n, max_size=cache.kernel.n)
            )
            kept = np.flatnonzero(flags)
            if len(kept) < 2:
                continue
            cache.restrict(kept, cache.kernel.restrict(kept))
            K = K[np.ix_(kept, kept)]
        else:
            size = data.draw(st.integers(1, min(cache.capacity, cache.kernel.n)))
            index = np.array(data.draw(st.permutations(range(cache.kernel.n)))[:size])
            slots = cache.fetch(index)
            assert_array_equal(cache.arrays().rows[slots], K[index])
        check_held_rows(cache, K)
        assert cache._memory.nbytes <= n_bytes


@pytest.mark.parametrize("threads", [1, 3])
def test_values_and_sums_of_cached_rows(threads, monkeypatch):
    monkeypatch.setattr(module, "_VALUES_WORTH_WAKING", 1)
    monkeypatch.setattr(module, "_GATHERED_ROWS", 2)
    K, rng = matrix(), np.random.default_rng(1)
    cache = RowCache(PrecomputedKernelMatrix(K), 7 * K[0].nbytes)
    with session(threads):
        for _ in range(20):
            index = rng.permutation(12)[: rng.integers(1, 7)]
            columns, targets = rng.permutation(12)[:5], rng.permutation(9)[: len(index)]
            out = np.full((9, 5), 7.5)
            cache.gather(index, columns, out, targets)
            assert_array_equal(out[targets], K[np.ix_(index, columns)])
            assert (np.delete(out, targets, axis=0) == 7.5).all()
            residual, change = rng.normal(size=12), rng.normal(size=len(index))
            expected = residual - K[:, index] @ change
            cache.subtract(residual, index, change)
            assert_allclose(residual, expected)


def test_the_whole_matrix_comes_in_order_or_not_at_all():
    K = matrix()
    assert RowCache(PrecomputedKernelMatrix(K), 11 * K[0].nbytes).whole() is None
    cache = RowCache(PrecomputedKernelMatrix(K), 12 * K[0].nbytes)
    assert_array_equal(cache.whole(), K)
    cache = RowCache(PrecomputedKernelMatrix(K), 12 * K[0].nbytes)
    cache.fetch(np.array([3]))
    assert cache.whole() is None


def test_rows_are_dropped_by_worth_where_one_is_given():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 3 * K[0].nbytes)
    cache.fetch(np.array([4, 5, 6]))
    worth = np.arange(12.0)
    worth[5] = -1.0
    cache.prefer(worth)
    cache.fetch(np.array([9]))
    assert_array_equal(held(cache), [4, 6, 9])
    cache.prefer(worth)
    cache.fetch(np.array([1]))
    assert_array_equal(held(cache), [1, 6, 9])
    check_held_rows(cache, K)


def test_restriction_keeps_rows_and_makes_room():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 4 * K[0].nbytes)
    cache.fetch(np.array([1, 5, 8, 11]))
    kept = np.array([1, 3, 8, 9, 11])
    cache.restrict(kept, PrecomputedKernelMatrix(K).restrict(kept))
    assert_array_equal(kept[cache.holds()], [1, 8, 11])  # 5 has left the problem
    assert cache.capacity == 5  # shorter rows: all of them fit now
    check_held_rows(cache, K[np.ix_(kept, kept)])


def test_caches_on_the_same_data_use_the_same_memory_in_turn():
    kernel = PrecomputedKernelMatrix(matrix())

    def address(cache):
        return cache.arrays().rows.__array_interface__["data"][0]

    first, second = RowCache(kernel, 800), RowCache(kernel, 800)
    addresses = {address(first), address(second)}
    assert len(addresses) == 2
    del first, second
    smaller = RowCache(kernel.restrict(np.arange(6)), 500)
    assert address(smaller) in addresses
    smaller.fetch(np.array([4, 1]))
    check_held_rows(smaller, matrix()[:6, :6])
    assert smaller._memory.nbytes <= 500
    del smaller
    assert len(pickle.dumps(kernel)) < len(pickle.dumps(kernel.K)) + 500
    assert RowCache(kernel, 1000)._memory.nbytes == 1000


class Owner:
    pass


def test_small_memory_stays_with_the_process_and_large_memory_does_not(monkeypatch):
    process = BufferPool()
    monkeypatch.setattr(buffers, "_of_process", process)
    monkeypatch.setattr(buffers, "_KEPT_BYTES", 1000)
    for n_bytes, kept in [(800, 800), (500, 800), (900, 900), (5000, 900)]:
        owner = Owner()
        memory = BufferPool().acquire(n_bytes, owner)
        assert memory.nbytes == n_bytes
        del owner
        assert process.n_bytes == kept
    first, second = Owner(), Owner()
    leased = [BufferPool().acquire(600, each) for each in (first, second)]
    assert not np.shares_memory(*leased)
    kept = leased[1].__array_interface__["data"][0]
    del first, second  # of which the last one stays
    assert process.n_bytes == 600
    assert BufferPool().acquire(600, Owner()).__array_interface__["data"][0] == kept


def test_the_least_memory_that_suffices_is_taken(monkeypatch):
    process = BufferPool()
    monkeypatch.setattr(buffers, "_of_process", process)
    monkeypatch.setattr(buffers, "_KEPT_BYTES", 100 * 2**20)
    sizes = [3 * 2**20, 2**10, 2 * 2**20]
    owners = [Owner() for _ in sizes]
    for n_bytes, owner in zip(sizes, owners, strict=True):
        BufferPool().acquire(n_bytes, owner)[:] = 7
    owners.clear()
    del owner
    assert process.n_bytes == sum(sizes)  # lent to the operating system, and still there
    for n_bytes, left in [(2**20, 3 * 2**20 + 2**10), (100, 3 * 2**20), (2**22, 0)]:
        owners.append(Owner())
        memory = BufferPool().acquire(n_bytes, owners[-1])
        memory[:] = 9
        assert process.n_bytes == left and (memory == 9).all()


def test_small_owners_leave_large_memory_alone(monkeypatch):
    process = BufferPool()
    monkeypatch.setattr(buffers, "_of_process", process)
    monkeypatch.setattr(buffers, "_SPARED_BYTES", 1000)
    owner = Owner()
    BufferPool().acquire(100_000, owner)
    del owner
    small, large = Owner(), Owner()
    BufferPool().acquire(200, small)
    assert process.n_bytes == 100_000
    BufferPool().acquire(60_000, large)
    assert process.n_bytes == 0


def test_large_memory_goes_back_to_its_pool():
    pool, owner = BufferPool(), Owner()
    large = buffers._KEPT_BYTES + 2**20
    memory = pool.acquire(large, owner)
    address = memory.__array_interface__["data"][0]
    assert pool.n_bytes == 0
    del owner, memory
    assert pool.n_bytes == large
    again = pool.acquire(large - 1, Owner())
    assert again.__array_interface__["data"][0] == address
    assert pickle.loads(pickle.dumps(pool)).n_bytes == 0


def test_scratch_is_the_same_memory_and_aligned():
    scratch = buffers.Scratch()
    large = scratch.array((40, 30), np.float64)
    assert not large.any()
    for shape, dtype in [((3, 5), np.float32), ((30, 40), np.float64), ((7,), np.int32)]:
        part = scratch.array(shape, dtype)
        assert part.shape == shape and part.dtype == dtype
        assert part.__array_interface__["data"][0] % 64 == 0
        assert np.shares_memory(part, large)
    assert not np.shares_memory(scratch.array((41, 30), np.float64), large)
    with ThreadPoolExecutor(1) as other:
        theirs = other.submit(buffers.thread_scratch, "test").result()
    assert theirs is not buffers.thread_scratch("test") is buffers.thread_scratch("test")


@pytest.mark.parametrize("n_bytes", [0, 100, 2**20 - 1, 2**20, 3 * 2**20 + 5])
def test_new_memory_is_private_and_can_be_written(n_bytes):
    memory = buffers._new(n_bytes)
    assert memory.nbytes == n_bytes
    memory[:] = 7
    if n_bytes and hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            memory[:] = 8
            os._exit(0)
        os.waitpid(child, 0)
        assert (memory == 7).all()


def test_cache_size_in_bytes():
    assert cache_bytes(1.5, 10) == 1.5 * 2**20
    assert 0 < cache_bytes("auto", 10) < psutil.virtual_memory().total
    assert memory_budget(1.5) == memory_budget(1.5, 10) == 1.5 * 2**20
    assert memory_budget("auto", 10) == 10
    assert 0 < memory_budget("auto") < psutil.virtual_memory().total
