"""Every engine on a device against the same engine on the CPU: the same sequences and the same predictions.

Random numbers are the same to the bit on every device. In float64 rounding is far smaller than any distance to a
boundary between two tokens, so sequences are the same token for token. In float32 a near tie may fall the other way,
after which a sequence goes its own way: at most one sequence in twenty may. bfloat16 only promises predictions:
twice the distance that bfloat16 has from float64 on the CPU.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from torch import Tensor

from benchmarks.networks import VOCABULARY, trunk
from benchmarks.open_models import model_of
from benchmarks.timing import Report, say
from unmask import generate
from unmask.core.chance import Stream, uniform
from unmask.denoisers import Denoiser
from unmask.models.open.model import OpenModel
from unmask.models.trained import Network, Shape, Trunk
from unmask.models.trained.loop import Conditions, train
from unmask.models.trained.recipe import Recipe

OPEN = 200  # symbols of the open models
SAME = {torch.float64: 1.0, torch.float32: 0.95}  # of the sequences, at least
APART = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.25}  # largest difference of a probability
LOSS = 1e-3  # nats a token, after some steps in float32


class Engine(NamedTuple):
    """make: the denoiser on a device in a data type, from the same weights; predicts: whether it fills a canvas."""

    make: Callable[[str, torch.dtype], Denoiser]
    samplers: tuple[str, ...]
    vocabulary: int
    predicts: bool = True


def engines(length: int, hidden: int, layers: int) -> dict[str, Engine]:
    mdm, ar = (trunk(kind, length, hidden, layers) for kind in ("mdm", "ar"))
    timed = Trunk(Shape("mdm", VOCABULARY, length, hidden, layers, heads=8, time_free=False)).eval()
    timed.head.load_state_dict(mdm.head.state_dict())
    plain = model_of(hidden, layers, OPEN, head=hidden // 2)

    def opened(device: str, dtype: torch.dtype, **card: object) -> OpenModel:
        body = copy.deepcopy(plain.body).to(device, dtype)
        return OpenModel(msgspec.structs.replace(plain.card, **card), body)

    def pair(device: str, dtype: torch.dtype) -> OpenModel:
        body = copy.deepcopy(plain.body).to(device, dtype)
        return OpenModel(plain.card, body, causal=opened(device, dtype, block=1))

    def of_networks(*trunks: Trunk | None) -> Callable[[str, torch.dtype], Denoiser]:
        return lambda device, dtype: Network(*trunks, device=device, dtype=dtype)

    filling = ("low-confidence", "ancestral")
    return {
        "MDM": Engine(of_networks(mdm), (*filling, "left-to-right"), VOCABULARY),
        "MDM with time": Engine(of_networks(timed), filling, VOCABULARY),
        "AR": Engine(of_networks(None, ar), ("autoregressive",), VOCABULARY, False),
        "MDM and AR": Engine(of_networks(mdm, ar), ("speculative",), VOCABULARY),
        "open model": Engine(opened, (*filling, "llada(block_length=4)"), OPEN),
        "open model, shifted": Engine(partial(opened, prediction="shifted"), filling, OPEN),
        "open model, blocks": Engine(partial(opened, block=4), filling, OPEN),
        "open AR model": Engine(partial(opened, block=1), ("autoregressive",), OPEN, False),
        "open pair": Engine(pair, ("speculative",), OPEN),
    }


def measure(report: Report, device: str) -> None:
    toy = report.size == "toy"
    rows, length, hidden, layers = (2, 8, 16, 1) if toy else (40, 32, 64, 4)
    for name, engine in engines(length, hidden, layers).items():
        say(f"parity: {name}")
        for dtype in APART:
            kind = str(dtype).removeprefix("torch.")
            here, there = engine.make("cpu", dtype), engine.make(device, dtype)
            for sampler in engine.samplers if dtype in SAME else ():
                ours, theirs = (_made(one, sampler, rows, length) for one in (here, there))
                same = float((ours == theirs).all(1).double().mean())
                report.at_least(f"{name}, {sampler}, {kind}: the same sequences", same, SAME[dtype], "of them")
            if engine.predicts:
                noise = torch.randint(engine.vocabulary, (rows, length), generator=torch.Generator().manual_seed(2))
                noise[:, ::2] = engine.vocabulary  # hidden
                apart = float((_predicted(there, noise) - _predicted(here, noise)).abs().max())
                report.at_most(f"{name}, {kind}: difference of a probability", apart, APART[dtype], "of 1")
    _numbers(report, device)
    _trainings(report, device, length, hidden, layers)


def _made(denoiser: Denoiser, sampler: str, rows: int, length: int) -> Tensor:
    """Continuations of random prompts: where all is hidden, positions are alike, and rounding decides their order."""
    prompts = torch.randint(denoiser.vocabulary, (rows, length // 4), generator=torch.Generator().manual_seed(3))
    given = torch.full((rows, length), denoiser.vocabulary)
    given[:, : length // 4] = prompts
    return generate(denoiser, sampler=sampler, rows=rows, given=given, steps=length // 2, seed=1).tokens


def _predicted(denoiser: Denoiser, noise: Tensor) -> Tensor:
    """(n, V) at the hidden positions; a time in the middle."""
    rows, places = (noise == denoiser.vocabulary).nonzero(as_tuple=True)
    time = None if denoiser.time_free else torch.full((len(noise),), 0.5, dtype=torch.float64)
    return denoiser.engine(noise.clone()).at(rows, places, time).dense().double().cpu()


def _numbers(report: Report, device: str) -> None:
    """As a test of tests/core/test_chance.py, across the 32-bit boundary of the row."""
    rows, positions = torch.arange(2**32 - 500, 2**32 + 500).view(-1, 1), torch.arange(100)
    ours = uniform(2**63 - 1, Stream.TOKEN, rows, positions, 2**24 - 1)
    theirs = uniform(2**63 - 1, Stream.TOKEN, rows.to(device), positions.to(device), 2**24 - 1).cpu()
    report.at_least("random numbers that are the same to the bit", float((ours == theirs).double().mean()), 1, "of all")


def _trainings(report: Report, device: str, length: int, hidden: int, layers: int) -> None:
    """The loss after a few steps from the same weights, on the same batches."""
    for kind in ("mdm", "ar"):
        say(f"parity: training {kind}")
        shape = Shape(kind, VOCABULARY, length, hidden, layers, heads=8)
        losses = []
        for place in ("cpu", device):
            with tempfile.TemporaryDirectory() as directory:
                conditions = Conditions(place, "float32", save_seconds=1e9)
                recipe = Recipe(steps=2, batch=4, rate=1e-3)
                losses.append(train("paper-2gram", shape, recipe, Path(directory), conditions=conditions).loss)
        report.at_most(f"training {kind}: difference of the loss", abs(losses[0] - losses[1]), LOSS, "nats")
