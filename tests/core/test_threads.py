"""Rows in blocks over threads: the order of results, what an error stops, and how many threads there are."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unmask import gap, generate
from unmask.core import threads
from unmask.core.errors import UnmaskError
from unmask.core.memory import cores
from unmask.core.threads import over_blocks
from unmask.denoisers import Ideal, Perturbed
from unmask.diagnosis.audit import audit
from unmask.diagnosis.loss_curve import loss_curve
from unmask.languages import load
from unmask.theory import recursion, sampled
from unmask.theory.chains import first_order

MANY = 4000  # blocks of 0.01 s: on a machine that pauses this process for seconds, half of them are not done yet


def test_torch_has_one_thread_in_tests():
    """tests/conftest.py says so before anybody imports it; with two, a busy machine takes ten times as long."""
    assert torch.get_num_threads() == 1


@pytest.fixture
def four(monkeypatch):
    monkeypatch.setenv("UNMASK_THREADS", "4")


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
    together = threading.Barrier(2, timeout=120)
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

    results = over_blocks(work, MANY, 1)
    assert next(results) == 0
    with pytest.raises(UnmaskError, match="block 1 is bad"):
        next(results)
    after = len(done)
    assert after < MANY / 2
    time.sleep(0.05)
    assert len(done) == after  # nothing runs on behind our back


@pytest.mark.usefixtures("four")
def test_whoever_stops_listening_stops_the_rest():
    done = []

    def work(part):
        time.sleep(0.01)
        done.append(part.start)

    results = over_blocks(work, MANY, 1)
    next(results)
    results.close()
    assert len(done) < MANY / 2


@pytest.mark.usefixtures("four")
def test_nested_blocks_run_in_the_worker_that_asked():
    """Otherwise every block would bring its own threads."""

    def outer(part):
        inner = set(over_blocks(lambda _: threading.get_ident(), 8, 1))
        return inner == {threading.get_ident()} and threading.current_thread() is not threading.main_thread()

    assert all(over_blocks(outer, 8, 1))


@pytest.mark.parametrize(("setting", "rows"), [("1", 8), ("4", 1)])
def test_one_thread_or_one_block_needs_no_worker(monkeypatch, setting, rows):
    monkeypatch.setenv("UNMASK_THREADS", setting)
    assert set(over_blocks(lambda part: threading.get_ident(), rows, 1)) == {threading.get_ident()}


def test_count(monkeypatch):
    monkeypatch.delenv("UNMASK_THREADS", raising=False)
    assert cores() >= 1
    monkeypatch.setenv("UNMASK_THREADS", "7")
    assert cores() == 7


@pytest.mark.parametrize("wanted", ["0", "-1", "", " ", "two", "1.5", "1e3", "\N{SUPERSCRIPT TWO}"])
def test_a_wrong_number_of_threads_is_refused(monkeypatch, wanted):
    monkeypatch.setenv("UNMASK_THREADS", wanted)
    with pytest.raises(UnmaskError, match=r"UNMASK_THREADS is .*; expected "):
        cores()


CHAIN, HMM = load("paper-2gram"), load("sparse-hmm")
LEAKY = Perturbed(HMM, "leak", 0.01)


def drawn():
    return HMM.sample(3000, 24, seed=1)


SHARED_OUT = {  # everything that is shared out over threads
    "a generation that looks": lambda: generate(HMM, sampler="low-confidence", steps=4, length=24, rows=3000).tokens,
    "a generation in an order": lambda: generate(CHAIN, steps=4, length=24, rows=9000).tokens,
    "draws": drawn,
    "likelihoods": lambda: HMM.log_prob(drawn()),
    "posteriors": lambda: HMM.posterior(torch.where(torch.arange(24) % 3 == 1, drawn(), HMM.vocabulary)),
    "a curve of information": lambda: sampled.information_curve(HMM, 12, rows=600).terms,
    "a curve of errors": lambda: sampled.error_curve(CHAIN, 12, rows=40).terms,
    "orders": lambda: recursion.valid_given_order(first_order(CHAIN), 1 + torch.arange(24000).view(-1, 24) % 7 % 3),
    "a curve of losses": lambda: loss_curve(Ideal(HMM), drawn()).losses,
    "a gap": lambda: gap(LEAKY, generate(LEAKY, steps=4, length=24, rows=3000), reference=0).nats,
    "an audit": lambda: list(audit(CHAIN.sample(200, 12, seed=3), CHAIN, steps=4).p_values.values()),
}


@pytest.mark.sampled(11)
@pytest.mark.parametrize("what", SHARED_OUT)
def test_threads_change_nothing(what, monkeypatch):
    """Nothing of what they write into memory that all share, nor of what they keep for themselves."""
    made, pools = [], []

    def pool(workers, **options):
        pools.append(workers)
        return ThreadPoolExecutor(workers, **options)

    monkeypatch.setattr(threads, "ThreadPoolExecutor", pool)
    for setting in ("1", "4"):
        monkeypatch.setenv("UNMASK_THREADS", setting)
        assert not pools
        made.append(torch.as_tensor(SHARED_OUT[what]()))
    assert torch.equal(*made)
    assert max(pools) > 1
