"""The cache of kernel rows: right rows, least recently used dropped, never over its bytes."""

import os
import pickle

import numpy as np
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from maxmargin.kernels import buffers as _memory
from maxmargin.kernels import row_cache as module
from maxmargin.kernels.row_cache import RowCache, cache_bytes
from maxmargin.kernels.user_values import PrecomputedKernelMatrix


def matrix(n=12):
    half = np.random.default_rng(0).normal(size=(n, n))
    return half + half.T


def check_held_rows(cache, K):
    held = np.flatnonzero(cache.slot_of >= 0)
    assert_array_equal(cache.rows[cache.slot_of[held]], K[held])
    assert_array_equal(cache.owner[cache.slot_of[held]], held)
    assert len(np.unique(cache.slot_of[held])) == len(held) <= cache.n_slots


def test_fetched_rows_are_there():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 5 * K[0].nbytes)
    slots = cache.fetch(np.array([7, 2, 9]), 1)
    assert_array_equal(cache.rows[slots], K[[7, 2, 9]])
    check_held_rows(cache, K)


def test_a_row_that_is_there_is_not_computed_again():
    calls = []

    class Counting(PrecomputedKernelMatrix):
        def rows(self, index, out, slots=None):
            calls.extend(index)
            super().rows(index, out, slots)

    cache = RowCache(Counting(matrix()), 5 * 12 * 8)
    cache.fetch(np.array([1, 2]), 1)
    cache.fetch(np.array([2, 3]), 2)
    assert calls == [1, 2, 3]


def test_least_recently_used_is_dropped():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 3 * K[0].nbytes)
    for clock, sample in enumerate([4, 5, 6, 4, 7]):  # 5 is the oldest when 7 comes
        cache.fetch(np.array([sample]), clock)
    assert_array_equal(np.flatnonzero(cache.slot_of >= 0), [4, 6, 7])
    check_held_rows(cache, K)


def test_new_memory_is_for_rows_that_are_used_again(monkeypatch):
    monkeypatch.setattr(module, "_FREE_BYTES", 3 * 12 * 8)
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 10**6)
    for clock, sample in enumerate([4, 5, 6, 7, 8]):  # each once: three places do
        cache.fetch(np.array([sample]), clock)
    assert_array_equal(np.flatnonzero(cache.slot_of >= 0), [6, 7, 8])
    for clock in range(5, 5 + 3 * module._USES_OF_A_ROW):
        cache.fetch(np.array([8]), clock)
    cache.fetch(np.array([9]), 99)
    assert_array_equal(np.flatnonzero(cache.slot_of >= 0), [6, 7, 8, 9])
    cache.fetch(np.arange(1, 9), 100)  # rows asked for together always have room
    assert_array_equal(np.flatnonzero(cache.slot_of >= 0), np.arange(1, 9))
    check_held_rows(cache, K)


def test_rows_asked_for_together_do_not_drop_each_other():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 3 * K[0].nbytes)
    cache.fetch(np.array([0, 1, 2]), 1)
    cache.fetch(np.array([1, 8, 9]), 2)
    assert_array_equal(np.flatnonzero(cache.slot_of >= 0), [1, 8, 9])


@pytest.mark.parametrize("n_bytes", [2 * 96, 3 * 96 + 50, 12 * 96, 10**6])
def test_memory_never_exceeds_its_bytes(n_bytes):
    cache = RowCache(PrecomputedKernelMatrix(matrix()), n_bytes)
    assert cache._memory.nbytes <= n_bytes
    assert cache.rows.nbytes <= n_bytes
    assert cache.n_slots == min(12, n_bytes // 96)
    assert np.shares_memory(cache.rows, cache._memory)


def test_float32_rows_take_half():
    K = matrix().astype(np.float32)
    assert RowCache(PrecomputedKernelMatrix(K), 4 * 48).n_slots == 4


def test_less_than_two_rows_gets_a_sentence():
    with pytest.raises(ValueError, match="cache_size is too small: two kernel rows of 12 samples"):
        RowCache(PrecomputedKernelMatrix(matrix()), 2 * 96 - 1)


@given(st.data())
def test_any_sequence_of_fetches_and_restrictions(data):
    """Whatever is asked: the rows that the cache says it holds are right, within its bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FREE_BYTES", data.draw(st.integers(0, 17)) * 15 * 8)
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
            size = data.draw(st.integers(1, min(cache.n_slots, cache.kernel.n)))
            index = np.array(data.draw(st.permutations(range(cache.kernel.n)))[:size])
            slots = cache.fetch(index, clock)
            assert_array_equal(cache.rows[slots], K[index])
        check_held_rows(cache, K)
        assert cache._memory.nbytes <= n_bytes


def test_restriction_keeps_rows_and_makes_room():
    K = matrix()
    cache = RowCache(PrecomputedKernelMatrix(K), 4 * K[0].nbytes)
    cache.fetch(np.array([1, 5, 8, 11]), 1)
    kept = np.array([1, 3, 8, 9, 11])
    cache.restrict(kept, PrecomputedKernelMatrix(K).restrict(kept))
    assert_array_equal(kept[cache.slot_of >= 0], [1, 8, 11])  # 5 has left the problem
    assert cache.n_slots == 5  # shorter rows: all of them fit now
    check_held_rows(cache, K[np.ix_(kept, kept)])


def test_caches_on_the_same_data_use_the_same_memory_in_turn():
    kernel = PrecomputedKernelMatrix(matrix())

    def address(cache):
        return cache.rows.__array_interface__["data"][0]

    first, second = RowCache(kernel, 800), RowCache(kernel, 800)
    addresses = {address(first), address(second)}
    assert len(addresses) == 2
    del first, second
    smaller = RowCache(kernel.restrict(np.arange(6)), 500)
    assert address(smaller) in addresses
    smaller.fetch(np.array([4, 1]), 1)
    check_held_rows(smaller, matrix()[:6, :6])
    assert smaller._memory.nbytes <= 500
    del smaller
    assert len(pickle.dumps(kernel)) < len(pickle.dumps(kernel.K)) + 500
    assert RowCache(kernel, 1000)._memory.nbytes == 1000


def test_small_memory_stays_with_the_process_and_large_memory_does_not(monkeypatch):
    monkeypatch.setattr(_memory, "_kept", _memory.Returned())
    monkeypatch.setattr(_memory, "_KEPT_BYTES", 1000)
    for n_bytes, kept in [(800, [800]), (500, [800]), (900, [900]), (5000, [900])]:
        borrower = RowCache.__new__(RowCache)
        memory = _memory.borrow(n_bytes, borrower, _memory.Returned())
        assert memory.nbytes == n_bytes
        del borrower
        assert [part.nbytes for part in _memory._kept] == kept
    first, second = RowCache.__new__(RowCache), RowCache.__new__(RowCache)
    lent = [_memory.borrow(600, each, _memory.Returned()) for each in (first, second)]
    assert not np.shares_memory(*lent)
    del first, second
    assert sum(part.nbytes for part in _memory._kept) <= 1000


@pytest.mark.parametrize("n_bytes", [0, 100, 2**20 - 1, 2**20, 3 * 2**20 + 5])
def test_new_memory_is_private_and_can_be_written(n_bytes):
    memory = _memory._new(n_bytes)
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
