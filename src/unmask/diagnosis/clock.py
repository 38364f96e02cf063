"""Measured time of an MDM model call and of an AR token, and the break-even between them.

Weights are untrained and contexts are noise: neither changes the time. Both run through the engines of `generate` and
include the sampling of tokens. The MDM runs a few steps that each reveal the average number of tokens of N steps. The
AR model with its cache writes a few tokens at several distances from the start. The first run warms up; later runs
wait for the device before and after. For a whole batch (theory.md 9):

    T_MDM = E[model calls] t_call        T_AR = L t_token        break-even: L t_token / t_call model calls
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.search import Floor, first
from unmask.core.tables import as_table
from unmask.denoisers.contracts import Follower
from unmask.diagnosis import flops
from unmask.diagnosis.memory import peak
from unmask.models.trained import Network, Shape, Trunk
from unmask.models.trained.running import NetworkCausal
from unmask.samplers.schedules import deltas

PLACES = 4  # distances from the start at which AR tokens are timed
REPEATS = 5
TOGETHER = {"cpu": 4, "cuda": 32}  # steps, or tokens, in one timed run
MOST_STEPS = 10**7


@dataclass(frozen=True)
class Timing:
    """One length and batch; seconds are those of the whole batch."""

    length: int
    batch: int
    steps: int
    model_call_ms: Estimate
    token_ms: Estimate
    model_calls: float  # of N steps per sequence, on average
    model_call_flop: float  # of the whole batch
    token_flop: float
    peak_bytes: int | None
    threads: int
    device: str

    __repr__ = as_table

    @property
    def mdm_seconds(self) -> float:
        return self.model_calls * self.model_call_ms.value / 1000

    @property
    def ar_seconds(self) -> float:
        return self.length * self.token_ms.value / 1000

    @property
    def break_even_model_calls(self) -> float:
        """Number of model calls that take as long as AR."""
        return 1000 * self.ar_seconds / self.model_call_ms.value

    @property
    def break_even_steps(self) -> int | None:
        """Largest number of linear steps that is not slower than AR; None: any number, 0: not even one."""
        return most_steps(self.break_even_model_calls, self.length)

    def to_dict(self) -> dict[str, Any]:
        derived = ("mdm_seconds", "ar_seconds", "break_even_model_calls", "break_even_steps")
        rates = {
            "evaluation_flop_per_second": 1000 * self.model_call_flop / self.model_call_ms.value,
            "token_flop_per_second": 1000 * self.token_flop / self.token_ms.value,
        }
        return asdict(self) | {name: getattr(self, name) for name in derived} | rates


def most_steps(budget: float, length: int) -> int | None:
    """Return the largest N with N (1 - (1 - 1/N)^L) model calls within a budget; None if all N are."""
    if budget >= length:
        return None

    def exceeds(steps: int) -> bool:
        return steps * (1 - (1 - 1 / steps) ** length) > budget

    with suppress(Floor):
        return first(exceeds, most=MOST_STEPS + 1) - 1
    return None


def clock(
    shape: Shape,
    lengths: Sequence[int],
    batches: Sequence[int],
    steps: int = 512,
    device: str = "auto",
    dtype: torch.dtype | None = None,
    repeats: int = REPEATS,
) -> list[Timing | UnmaskError]:
    """Return a Timing for each length and batch, in order, or the error of a size that does not fit."""
    check_sizes(lengths, batches, steps, repeats)
    network = untrained(shape, max(lengths), device, dtype)
    timings: list[Timing | UnmaskError] = []
    with progress.track("timing", len(lengths) * len(batches) * (1 + PLACES) * (1 + repeats)) as advance:
        for length in lengths:
            for batch in batches:
                try:
                    timings.append(_timing(network, shape, length, batch, steps, repeats, lambda: advance(1)))
                except UnmaskError as error:
                    timings.append(error)
    return timings


def check_sizes(lengths: Sequence[int], batches: Sequence[int], steps: int, repeats: int) -> None:
    for name, given in (("lengths", lengths), ("batches", batches), ("steps", [steps]), ("repeats", [repeats])):
        if not given:
            raise UnmaskError(f"{name}: expected at least one number")
        for number in given:
            arguments.whole(name, number, 1, arguments.MOST_LENGTH)


def untrained(shape: Shape, length: int, device: str = "auto", dtype: torch.dtype | None = None) -> Network:
    """Return an untrained MDM and AR model of one shape, for sequences of this length."""
    sizes = shape.to_dict() | {"length": length}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mdm, ar = (Trunk(Shape.from_dict(sizes | {"kind": kind})).eval() for kind in ("mdm", "ar"))
        return Network(mdm, ar, device=device, dtype=dtype)


def _timing(
    network: Network, shape: Shape, length: int, batch: int, steps: int, repeats: int, advance: Callable[[], None]
) -> Timing:
    assert network.mdm is not None
    with peak(network.mdm.device) as most:
        evaluation = of_model_calls(network, length, batch, steps, repeats, advance)
        token = of_tokens(network, length, batch, repeats, advance)
    arithmetic = flops.evaluation(shape, length), flops.autoregression(shape, length) / length
    return timing(length, batch, steps, (evaluation, token), arithmetic, most(), network.mdm.device)


def timing(
    length: int,
    batch: int,
    steps: int,
    times: tuple[Estimate, Estimate],
    arithmetic: tuple[float, float],
    memory: int | None,
    device: torch.device,
) -> Timing:
    """times: milliseconds of a model call and of a token; arithmetic: their FLOP per sequence."""
    return Timing(
        length=length,
        batch=batch,
        steps=steps,
        model_call_ms=times[0],
        token_ms=times[1],
        model_calls=needed(length, steps),
        model_call_flop=batch * arithmetic[0],
        token_flop=batch * arithmetic[1],
        peak_bytes=memory,
        threads=torch.get_num_threads(),
        device=device_name(device),
    )


def needed(length: int, steps: int) -> float:
    """Return the average number of model calls per sequence of N linear steps."""
    return flops.model_calls(deltas("linear", steps), length)


def of_model_calls(
    network: Network,
    length: int,
    batch: int,
    steps: int,
    repeats: int = REPEATS,
    advance: Callable[[], None] = lambda: None,
) -> Estimate:
    """Measure milliseconds per model call; each reveals the average number of positions of N steps."""
    assert network.mdm is not None
    rng = Randomness(0, torch.arange(batch))
    revealed = max(1, round(length / needed(length, steps)))
    timed = max(1, min(TOGETHER[network.mdm.device.type], length // revealed))
    order = torch.zeros((batch, length), dtype=torch.int64)
    order[:, : timed * revealed] = torch.arange(1, timed + 1).repeat_interleave(revealed)[:length]
    order = order.gather(1, torch.rand(order.shape, generator=torch.Generator().manual_seed(0)).argsort(1))
    start = torch.where(order > 0, network.vocabulary, _noise(network, order.shape))

    def run() -> None:
        engine = network.engine(start.clone())
        assert isinstance(engine, Follower)
        engine.follow(order, rng, torch.zeros_like(order))

    times = measure(run, network.mdm.device, repeats, advance)
    return middle([1000 * seconds / timed for seconds in times])


def of_tokens(
    network: Network, length: int, batch: int, repeats: int = REPEATS, advance: Callable[[], None] = lambda: None
) -> Estimate:
    """Measure milliseconds per AR token: each repeat averages over distances from the start, evenly spread."""
    assert network.ar is not None
    rng, device = Randomness(0, torch.arange(batch)), network.ar.device
    together = min(TOGETHER[device.type], length)
    total = torch.zeros(repeats, dtype=torch.float64)
    for place in range(PLACES):
        begin = min(int((place + 0.5) * length / PLACES), length - together)
        reader = network.causal(batch, begin + together)
        assert isinstance(reader, NetworkCausal)
        reader.memory.lengths[:] = begin  # as if this number of symbols had been read, with the start
        tokens = _noise(network, torch.Size((batch, begin + together)))
        last = tokens[:, begin - 1] if begin else torch.full((batch,), network.vocabulary)

        def run(reader: NetworkCausal = reader, last: Tensor = last, tokens: Tensor = tokens) -> None:
            reader.finish(last, tokens, rng)

        total += torch.tensor(measure(run, device, repeats, advance), dtype=torch.float64) / together
    return middle((1000 * total / PLACES).tolist())


def measure(
    run: Callable[[], None], device: torch.device, repeats: int, advance: Callable[[], None] = lambda: None
) -> list[float]:
    """Return the seconds of each repeat, after one warm-up run."""
    times = []
    for _ in range(1 + repeats):
        _wait(device)
        began = time.perf_counter()
        run()
        _wait(device)
        times.append(time.perf_counter() - began)
        advance()
    return times[1:]


def middle(values: Sequence[float]) -> Estimate:
    low, middle, high = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.25, 0.5, 0.75]).double())
    return Estimate(float(middle), float(low), float(high), len(values), 0.5, "median and quartiles")


def _noise(network: Network, shape: torch.Size) -> Tensor:
    return torch.randint(network.vocabulary, shape, generator=torch.Generator().manual_seed(0))


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
