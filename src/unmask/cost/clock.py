"""What an evaluation of an MDM and a token of an AR model take, by the clock, and where one overtakes the other.

Weights are untrained and contexts are noise, since neither changes the time. Both run through the engines that
`generate` uses, draws included: an MDM a few rounds that reveal as many tokens as a round of N steps reveals on
average, an AR model with its cache a few tokens at each of several distances from the start. The first run warms up;
a device is waited for before and after each of the others. Then, for a whole batch (theory.md 9),

    T_MDM = E[evaluations] t_evaluation        T_AR = L t_token        break-even: L t_token / t_evaluation evaluations
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
from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.search import Floor, first
from unmask.core.tables import as_table
from unmask.cost import flops
from unmask.cost.memory import peak
from unmask.denoisers.contracts import Follower
from unmask.networks import Network, Shape, Trunk
from unmask.networks.running.causal import NetworkCausal
from unmask.schedules import deltas

PLACES = 4  # distances from the start at which AR tokens are timed
REPEATS = 5
TOGETHER = {"cpu": 4, "cuda": 32}  # rounds, or tokens, in one timed run
MOST_STEPS = 10**7


@dataclass(frozen=True)
class Timing:
    """One length and batch; seconds are those of the whole batch."""

    length: int
    batch: int
    steps: int
    evaluation_ms: Estimate
    token_ms: Estimate
    evaluations: float  # that N steps need on average, a row
    evaluation_flop: float  # of the whole batch
    token_flop: float
    peak_bytes: int | None
    threads: int
    device: str

    __repr__ = as_table

    @property
    def mdm_seconds(self) -> float:
        return self.evaluations * self.evaluation_ms.value / 1000

    @property
    def ar_seconds(self) -> float:
        return self.length * self.token_ms.value / 1000

    @property
    def break_even_evaluations(self) -> float:
        """Evaluations that take as long as AR."""
        return 1000 * self.ar_seconds / self.evaluation_ms.value

    @property
    def break_even_steps(self) -> int | None:
        """The most steps of a linear schedule that are not slower than AR; None: any number, 0: not even one."""
        return most_steps(self.break_even_evaluations, self.length)

    def to_dict(self) -> dict[str, Any]:
        derived = ("mdm_seconds", "ar_seconds", "break_even_evaluations", "break_even_steps")
        rates = {
            "evaluation_flop_per_second": 1000 * self.evaluation_flop / self.evaluation_ms.value,
            "token_flop_per_second": 1000 * self.token_flop / self.token_ms.value,
        }
        return asdict(self) | {name: getattr(self, name) for name in derived} | rates


def most_steps(budget: float, length: int) -> int | None:
    """The most N for which N (1 - (1 - 1/N)^L) evaluations are within a budget; None where all are."""
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
    compiled: bool = False,
) -> list[Timing | UnmaskError]:
    """A Timing of each length and batch, in order; in place of those that do not fit, the error that says why."""
    check_sizes(lengths, batches, steps, repeats)
    network = untrained(shape, max(lengths), device, dtype, compiled)
    found: list[Timing | UnmaskError] = []
    with progress.track("timing", len(lengths) * len(batches) * (1 + PLACES) * (1 + repeats)) as advance:
        for length in lengths:
            for batch in batches:
                try:
                    found.append(_timing(network, shape, length, batch, steps, repeats, lambda: advance(1)))
                except UnmaskError as error:
                    found.append(error)
    return found


def check_sizes(lengths: Sequence[int], batches: Sequence[int], steps: int, repeats: int) -> None:
    for name, given in (("lengths", lengths), ("batches", batches), ("steps", [steps]), ("repeats", [repeats])):
        if not given:
            raise UnmaskError(f"{name}: expected at least one number")
        for number in given:
            arguments.whole(name, number, 1, arguments.MOST_LENGTH)


def untrained(
    shape: Shape, length: int, device: str = "auto", dtype: torch.dtype | None = None, compiled: bool = False
) -> Network:
    """An MDM and an AR model of one shape, for sequences of this length."""
    sizes = shape.to_dict() | {"length": length}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mdm, ar = (Trunk(Shape.from_dict(sizes | {"kind": kind})).eval() for kind in ("mdm", "ar"))
        return Network(mdm, ar, device=device, dtype=dtype, compiled=compiled)


def _timing(
    network: Network, shape: Shape, length: int, batch: int, steps: int, repeats: int, advance: Callable[[], None]
) -> Timing:
    assert network.mdm is not None
    with peak(network.mdm.device) as most:
        evaluation = of_evaluations(network, length, batch, steps, repeats, advance)
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
    """times: milliseconds of an evaluation and of a token; arithmetic: their FLOP, of a row."""
    return Timing(
        length=length,
        batch=batch,
        steps=steps,
        evaluation_ms=times[0],
        token_ms=times[1],
        evaluations=needed(length, steps),
        evaluation_flop=batch * arithmetic[0],
        token_flop=batch * arithmetic[1],
        peak_bytes=memory,
        threads=torch.get_num_threads(),
        device=device_name(device),
    )


def needed(length: int, steps: int) -> float:
    """Evaluations that N steps of a linear schedule need on average, a row."""
    return flops.evaluations(deltas("linear", steps), length)


def of_evaluations(
    network: Network,
    length: int,
    batch: int,
    steps: int,
    repeats: int = REPEATS,
    advance: Callable[[], None] = lambda: None,
) -> Estimate:
    """Milliseconds of one of the evaluations of N steps: each reveals as many positions as theirs do on average."""
    assert network.mdm is not None
    luck = Luck(0, torch.arange(batch))
    revealed = max(1, round(length / needed(length, steps)))
    rounds = max(1, min(TOGETHER[network.mdm.device.type], length // revealed))
    order = torch.zeros((batch, length), dtype=torch.int64)
    order[:, : rounds * revealed] = torch.arange(1, rounds + 1).repeat_interleave(revealed)[:length]
    order = order.gather(1, torch.rand(order.shape, generator=torch.Generator().manual_seed(0)).argsort(1))
    start = torch.where(order > 0, network.vocabulary, _noise(network, order.shape))

    def run() -> None:
        engine = network.engine(start.clone())
        assert isinstance(engine, Follower)
        engine.follow(order, luck, torch.zeros_like(order))

    times = measure(run, network.mdm.device, repeats, advance)
    return middle([1000 * seconds / rounds for seconds in times])


def of_tokens(
    network: Network, length: int, batch: int, repeats: int = REPEATS, advance: Callable[[], None] = lambda: None
) -> Estimate:
    """Milliseconds of a token: the mean over distances of the start, evenly over the sequence; each repeat is a mean of
    its own."""
    assert network.ar is not None
    luck, device = Luck(0, torch.arange(batch)), network.ar.device
    together = min(TOGETHER[device.type], length)
    total = torch.zeros(repeats, dtype=torch.float64)
    for place in range(PLACES):
        begin = min(int((place + 0.5) * length / PLACES), length - together)
        reader = network.causal(batch, begin + together)
        assert isinstance(reader, NetworkCausal)
        reader.memory.lengths[:] = begin  # as if so many symbols had been read, the start included
        tokens = _noise(network, torch.Size((batch, begin + together)))
        last = tokens[:, begin - 1] if begin else torch.full((batch,), network.vocabulary)

        def run(reader: NetworkCausal = reader, last: Tensor = last, tokens: Tensor = tokens) -> None:
            reader.finish(last, tokens, luck)

        total += torch.tensor(measure(run, device, repeats, advance), dtype=torch.float64) / together
    return middle((1000 * total / PLACES).tolist())


def measure(
    run: Callable[[], None], device: torch.device, repeats: int, advance: Callable[[], None] = lambda: None
) -> list[float]:
    """Seconds of each repeat, after one that warms up."""
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
