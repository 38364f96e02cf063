"""Measured time of a masked model's call and of an AR token, and the break-even between them.

Contexts are noise, and an own network is untrained: neither changes the time. Both run through the engines of
`generate` and include the sampling of tokens. The masked model runs a few steps that each reveal the average number of
tokens of N steps. The AR model with its cache writes a few tokens at several distances from the start. The first run
warms up; later runs wait for the device before and after. For a whole batch (theory.md 9):

    T_MDM = E[model calls] t_call        T_AR = L t_token        break-even: L t_token / t_call model calls

An open model is compared with a given causal model or, without one, with its own layers under a causal mask: then both
have the same size, so only the order of work is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from unmask.core import arguments, progress
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.core.search import Floor, first
from unmask.core.tables import as_table
from unmask.denoisers import Marginals, as_marginals
from unmask.denoisers.contracts import Follower
from unmask.models.open.model import OpenModel
from unmask.models.trained import Network, Shape, Trunk
from unmask.models.trained.running import NetworkCausal
from unmask.planning import flops
from unmask.samplers.schedules import deltas

PLACES = 4  # distances from the start at which AR tokens are timed
REPEATS = 5
TOGETHER = {"cpu": 4, "cuda": 32}  # steps, or tokens, in one timed run
MOST_STEPS = 10**7
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK = "5"  # the high-water mark of resident memory, in the words of the Linux kernel


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
        return asdict(self) | {
            "mdm_seconds": self.mdm_seconds,
            "ar_seconds": self.ar_seconds,
            "break_even_model_calls": self.break_even_model_calls,
            "break_even_steps": self.break_even_steps,
            "evaluation_flop_per_second": 1000 * self.model_call_flop / self.model_call_ms.value,
            "token_flop_per_second": 1000 * self.token_flop / self.token_ms.value,
        }


def most_steps(budget: float, length: int) -> int | None:
    """Return the largest N with N (1 - (1 - 1/N)^L) model calls within a budget; None if all N are."""
    if budget >= length:
        return None
    with suppress(Floor):
        return first(lambda steps: steps * (1 - (1 - 1 / steps) ** length) > budget, most=MOST_STEPS + 1) - 1
    return None


def needed(length: int, steps: int) -> float:
    """Return the average number of model calls per sequence of N linear steps."""
    return flops.model_calls(deltas("linear", steps), length)


def clock(
    shape: Shape,
    lengths: Sequence[int],
    batches: Sequence[int],
    steps: int = 512,
    device: str = "auto",
    dtype: torch.dtype | None = None,
    repeats: int = REPEATS,
) -> list[Timing | UnmaskError]:
    """Return a Timing of untrained networks for each length and batch, or the error of a size that does not fit."""
    check_sizes(lengths, batches, steps, repeats)
    network = untrained(shape, max(lengths), device, dtype)
    return _timings(network, network, lengths, batches, steps, repeats)


def open_clock(
    model: OpenModel, lengths: Sequence[int], batches: Sequence[int], steps: int = 512, repeats: int = REPEATS
) -> list[Timing | UnmaskError]:
    """Return the same for a loaded open model."""
    check_sizes(lengths, batches, steps, repeats)
    return _timings(model, as_reader(model), lengths, batches, steps, repeats)


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


def as_reader(model: OpenModel) -> OpenModel:
    """Return the AR model of an open model, or the model itself with a causal mask."""
    if model.reader is not None or model.card.causal:
        return model.reader or model
    if model.body.sizes is None:
        raise UnmaskError(f"{model.name} cannot run causally. Pass an AR model with --causal-model")
    card = msgspec.structs.replace(model.card, name=f"{model.name}, causal", block=1)
    return OpenModel(card, model.body, batch=model.batch)


def _timings(
    model: Network | OpenModel,
    reader: Network | OpenModel,
    lengths: Sequence[int],
    batches: Sequence[int],
    steps: int,
    repeats: int,
) -> list[Timing | UnmaskError]:
    timings: list[Timing | UnmaskError] = []

    # a size that does not fit is an answer of its own
    with progress.track("timing", len(lengths) * len(batches)) as advance:
        for length in lengths:
            for batch in batches:
                try:
                    timings.append(_timing(model, reader, length, batch, steps, repeats))
                except UnmaskError as error:
                    timings.append(error)
                advance(1)
    return timings


def _timing(
    model: Network | OpenModel, reader: Network | OpenModel, length: int, batch: int, steps: int, repeats: int
) -> Timing:
    device = _device(model)
    with peak(device) as most:
        evaluation = of_model_calls(model, length, batch, steps, repeats)
        token = of_tokens(reader, length, batch, repeats)

    if isinstance(model, Network):
        assert model.mdm is not None
        shape = model.mdm.trunk.shape
        arithmetic = flops.evaluation(shape, length), flops.autoregression(shape, length) / length
    else:
        assert not isinstance(reader, Network)
        arithmetic = model.body.flops(length, length), reader.body.flops(1, length // 2)

    return Timing(
        length=length,
        batch=batch,
        steps=steps,
        model_call_ms=evaluation,
        token_ms=token,
        model_calls=needed(length, steps),
        model_call_flop=batch * arithmetic[0],
        token_flop=batch * arithmetic[1],
        peak_bytes=most(),
        threads=torch.get_num_threads(),
        device=device_name(device),
    )


def of_model_calls(model: Network | OpenModel, length: int, batch: int, steps: int, repeats: int = REPEATS) -> Estimate:
    """Measure milliseconds per model call; each reveals the average number of positions of N steps."""
    device = _device(model)
    rng = torch.Generator().manual_seed(0)
    revealed = max(1, round(length / needed(length, steps)))
    timed = max(1, min(TOGETHER[device.type], length // revealed))

    # positions without a step hold noise, which takes as long as text
    order = torch.zeros((batch, length), dtype=torch.int64)
    order[:, : timed * revealed] = torch.arange(1, timed + 1).repeat_interleave(revealed)[:length]
    order = order.gather(1, torch.rand(order.shape, generator=rng).argsort(1))
    noise = torch.randint(model.vocabulary, order.shape, generator=rng)
    start = torch.where(order > 0, model.vocabulary, noise)

    def run() -> None:
        tokens = start.clone()
        engine = model.engine(tokens, start)
        if isinstance(engine, Follower):
            engine.follow(order, Randomness(0, torch.arange(batch)), torch.zeros_like(order))
            return
        for step in range(1, timed + 1):
            rows, positions = (order == step).nonzero(as_tuple=True)
            tokens[rows, positions] = _drawn(as_marginals(engine.at(rows, positions, None)), rng)
            engine.renew(rows, positions)

    return middle([1000 * seconds / timed for seconds in measure(run, device, repeats)])


def of_tokens(model: Network | OpenModel, length: int, batch: int, repeats: int = REPEATS) -> Estimate:
    """Measure milliseconds per AR token: each repeat averages over distances from the start, evenly spread."""
    device = _device(model)
    together = min(TOGETHER[device.type], length)
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(repeats, dtype=torch.float64)
    for place in range(PLACES):
        begin = min(int((place + 0.5) * length / PLACES), length - together)
        reader = model.causal(batch, begin + together if isinstance(model, Network) else length)
        if isinstance(reader, NetworkCausal):
            reader.memory.lengths[:] = begin  # as if this number of symbols had been read, with the start
        else:
            reader.extend(torch.full((batch, begin + 1), model.vocabulary))

        tokens = torch.randint(model.vocabulary, (batch, begin + together), generator=generator)
        last = tokens[:, begin - 1] if begin else torch.full((batch,), model.vocabulary)

        def run(begin: int = begin, reader: Any = reader, last: Tensor = last, tokens: Tensor = tokens) -> None:
            if isinstance(reader, NetworkCausal):
                reader.finish(last, tokens, Randomness(0, torch.arange(batch)))
                return
            reader.rewind(torch.full((batch,), begin))
            current = tokens[:, begin : begin + 1]
            for _ in range(together):
                marginals = as_marginals(reader.extend(current, None, torch.ones((batch, 1), dtype=torch.bool)))
                if len(marginals):
                    current = _drawn(marginals, generator).unsqueeze(1)

        # seconds of a token, at this distance from the start
        total += torch.tensor(measure(run, device, repeats), dtype=torch.float64) / together
    return middle((1000 * total / PLACES).tolist())


def measure(run: Callable[[], None], device: torch.device, repeats: int) -> list[float]:
    """Return the seconds of each repeat, after one warm-up run."""
    times = []
    for _ in range(1 + repeats):
        began = flops.now(device)
        run()
        times.append(flops.now(device) - began)
    return times[1:]


def middle(values: Sequence[float]) -> Estimate:
    low, middle, high = torch.tensor(values, dtype=torch.float64).quantile(torch.tensor([0.25, 0.5, 0.75]).double())
    return Estimate(float(middle), float(low), float(high), len(values), 0.5, "median and quartiles")


def _drawn(marginals: Marginals, rng: torch.Generator) -> Tensor:
    return marginals.draw(torch.rand(len(marginals), generator=rng, dtype=torch.float64))


def _device(model: Network | OpenModel) -> torch.device:
    if isinstance(model, Network):
        evaluator = model.mdm or model.ar
        assert evaluator is not None
        return evaluator.device
    return model.body.device


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


@contextmanager
def peak(device: torch.device) -> Iterator[Callable[[], int | None]]:
    """`with peak(device) as most: ...; most()`: bytes of a CUDA device or of the process; None if unknown."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: torch.cuda.max_memory_allocated(device)
        return
    try:
        RESET.write_text(PEAK)
    except OSError:
        yield lambda: None
        return
    yield _resident_peak


def _resident_peak() -> int | None:
    kilobytes = re.search(r"^VmHWM:\s*(\d+)", STATUS.read_text(), re.MULTILINE)
    return 1024 * int(kilobytes[1]) if kilobytes else None
