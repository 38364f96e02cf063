"""Rows in blocks over threads: the order of results, what an error stops, and how many threads there are."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unmask.core.cores import count
from unmask.core.errors import UnmaskError
from unmask.core.threads import over_blocks

EXAMPLES = settings(deadline=None, database=None, derandomize=True)


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setenv("UNMASK_THREADS", "4")


@EXAMPLES
@given(st.integers(0, 50), st.integers(1, 60))
def test_blocks_cover_the_rows_in_order(rows, block):
    parts = list(over_blocks(lambda part: part, rows, block))
    assert [row for part in parts for row in range(rows)[part]] == list(range(rows))
    assert all(part.stop - part.start <= block for part in parts)


@pytest.mark.parametrize(
    ("rows", "block", "sizes"),
    [(512, 102, [88] * 5 + [72]), (17, 9, [9, 8]), (30, 6, [6] * 5)],  # 512: not five of 102 and one of 2
)
def test_workers_have_equal_shares_in_eights(rows, block, sizes, monkeypatch):
    monkeypatch.setenv("UNMASK_THREADS", "2")
    assert [part.stop - part.start for part in over_blocks(lambda part: part, rows, block)] == sizes


@pytest.mark.usefixtures("four")
def test_results_come_in_order_even_where_the_first_takes_longest():
    def work(part):
        time.sleep(0.005 * (8 - part.start))
        return part.start

    assert list(over_blocks(work, 8, 1)) == list(range(8))


@pytest.mark.usefixtures("four")
def test_blocks_are_shared_by_several_threads():
    """Two blocks wait for each other, which one thread could not do."""
    together = threading.Barrier(2, timeout=10)
    assert sorted(over_blocks(lambda part: together.wait(), 2, 1)) == [0, 1]


@pytest.mark.usefixtures("four")
def test_an_error_comes_out_in_its_place_and_stops_the_rest():
    done = []

    def work(part):
        if part.start == 1:
            raise UnmaskError("block 1 is bad")
        time.sleep(0.01)
        done.append(part.start)
        return part.start

    results = over_blocks(work, 400, 1)
    assert next(results) == 0
    with pytest.raises(UnmaskError, match="block 1 is bad"):
        next(results)
    after = len(done)
    assert after < 100
    time.sleep(0.05)
    assert len(done) == after  # nothing runs on behind our back


@pytest.mark.usefixtures("four")
def test_whoever_stops_listening_stops_the_rest():
    done = []

    def work(part):
        time.sleep(0.01)
        done.append(part.start)

    results = over_blocks(work, 400, 1)
    next(results)
    results.close()
    assert len(done) < 100


@pytest.mark.usefixtures("four")
def test_nested_blocks_run_in_the_worker_that_asked():
    """Otherwise every block would bring its own threads."""

    def outer(part):
        inner = set(over_blocks(lambda _: threading.get_ident(), 8, 1))
        return inner == {threading.get_ident()} and threading.current_thread() is not threading.main_thread()

    assert all(over_blocks(outer, 8, 1))


@pytest.mark.parametrize("setting", ["1", None])
def test_one_thread_or_one_block_needs_no_worker(monkeypatch, setting):
    if setting:
        monkeypatch.setenv("UNMASK_THREADS", setting)
    rows = 8 if setting else 1
    assert set(over_blocks(lambda part: threading.get_ident(), rows, 1)) == {threading.get_ident()}


def test_count(monkeypatch):
    monkeypatch.delenv("UNMASK_THREADS", raising=False)
    assert count() >= 1
    monkeypatch.setenv("UNMASK_THREADS", "7")
    assert count() == 7


@pytest.mark.parametrize("wanted", ["0", "-1", "", " ", "two", "1.5", "1e3", "\N{SUPERSCRIPT TWO}"])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, wanted):
    monkeypatch.setenv("UNMASK_THREADS", wanted)
    with pytest.raises(UnmaskError, match=r"UNMASK_THREADS is .*; expected "):
        count()
