"""What the clock counts and derives; that it measures time is for the benchmarks to see."""

from __future__ import annotations

import pytest
import torch

from tests.needs import needs, unmet
from unmask.models.trained import Shape
from unmask.planning import flops
from unmask.planning.clock import (
    TOGETHER,
    clock,
    most_steps,
    needed,
    peak,
    untrained,
)
from unmask.samplers.schedules import deltas

SHAPE = Shape("mdm", vocabulary=5, length=16, hidden=16, layers=2, heads=2)


@pytest.mark.parametrize("length", [1, 2, 7, 32])
@pytest.mark.parametrize("budget", [0.5, 1.0, 1.9, 3.3, 6.5, 31.0, 40.0])
def test_the_most_steps_are_the_last_within_the_budget(budget, length):
    found = most_steps(budget, length)
    if budget >= length:
        assert found is None
        return
    assert found == 0 or needed(length, found) <= budget + 1e-9
    assert needed(length, found + 1) > budget - 1e-9


def test_a_timing_of_each_length_and_batch():
    found = clock(SHAPE, lengths=[4, 20], batches=[1, 3], steps=8, device="cpu", repeats=2)
    assert [(timing.length, timing.batch) for timing in found] == [(4, 1), (4, 3), (20, 1), (20, 3)]
    for timing in found:
        assert timing.model_calls == flops.model_calls(deltas("linear", 8), timing.length)
        assert timing.model_call_flop == timing.batch * flops.evaluation(SHAPE, timing.length)
        assert timing.token_flop * timing.length == pytest.approx(
            timing.batch * flops.autoregression(SHAPE, timing.length)
        )
        for middle in (timing.model_call_ms, timing.token_ms):
            assert 0 < middle.low <= middle.value <= middle.high
            assert middle.n == 2
        said = timing.to_dict()
        assert said["break_even_model_calls"] * timing.model_call_ms.value == pytest.approx(1000 * said["ar_seconds"])


class Counted(torch.nn.Module):
    """A module that counts the rows and positions that pass through it."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.seen = inner, []

    def forward(self, *arguments, **options):
        self.seen.append(tuple(arguments[0].shape))
        return self.inner(*arguments, **options)


def test_a_timed_round_evaluates_all_rows_and_asks_for_a_typical_number_of_positions(monkeypatch):
    shapes = []

    def counted(shape, length, device, dtype):
        network = untrained(shape, length, device, dtype)
        network.mdm.trunk.head = Counted(network.mdm.trunk.head)
        shapes.append(network.mdm.trunk.head.seen)
        return network

    monkeypatch.setattr("unmask.planning.clock.untrained", counted)
    length, batch, steps = 16, 3, 8
    clock(SHAPE, [length], [batch], steps, device="cpu", repeats=1)
    typical = round(length / flops.model_calls(deltas("linear", steps), length))
    assert shapes[0] == [(batch * typical, SHAPE.hidden)] * (2 * TOGETHER["cpu"])


@needs("linux")  # which knows the peak memory of a process
def test_the_peak_is_that_of_the_work():
    device = torch.device("cpu")
    with peak(device) as most:
        before = most()
    with peak(device) as most:
        block = torch.ones(200 * 2**20, dtype=torch.uint8)
        del block
        during = most()
    with peak(device) as most:
        after = most()
    if before is None:
        unmet("linux", "this machine does not let a process reset its peak")
    assert during - before > 150 * 2**20
    assert during - after > 150 * 2**20


def test_a_time_is_that_of_one_round_and_one_token(monkeypatch):
    monkeypatch.setattr("unmask.planning.clock.measure", lambda run, device, repeats: [2.0] * repeats)
    (found,) = clock(SHAPE, [16], [1], steps=8, device="cpu", repeats=3)
    steps = tokens = TOGETHER["cpu"]
    assert (found.model_call_ms.value, found.token_ms.value) == (2000 / steps, 2000 / tokens)
    assert (found.ar_seconds, found.mdm_seconds) == (2 / tokens * 16, found.model_calls * 2 / steps)
