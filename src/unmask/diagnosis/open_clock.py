"""Measured time of a model call of an open model and of a token in causal order, as in clock.py.

The AR model is the given causal model or, without one, the same layers with a causal mask: it has the same size, so
only the order of work is compared. Contexts are noise. A step computes the hidden positions of the canvas and samples
the average number of tokens of N steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import torch
from torch import Tensor

from unmask.core import progress
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate
from unmask.denoisers import Causal, Marginals
from unmask.denoisers.marginals import as_marginals
from unmask.diagnosis.clock import PLACES, REPEATS, TOGETHER, Timing, check_sizes, measure, middle, needed, timing
from unmask.diagnosis.memory import peak
from unmask.models.open.model import OpenModel


def open_clock(
    model: OpenModel, lengths: Sequence[int], batches: Sequence[int], steps: int = 512, repeats: int = REPEATS
) -> list[Timing | UnmaskError]:
    """Return a Timing or an error for each length and batch, as `clock` does, for a loaded model."""
    check_sizes(lengths, batches, steps, repeats)
    timings: list[Timing | UnmaskError] = []
    with progress.track("timing", len(lengths) * len(batches)) as advance:
        for length in lengths:
            for batch in batches:
                try:
                    timings.append(_timing(model, length, batch, steps, repeats))
                except UnmaskError as error:
                    timings.append(error)
                advance(1)
    return timings


def as_reader(model: OpenModel) -> OpenModel:
    """Return the AR model of a model, or the model itself with a causal mask."""
    if model.reader is not None or model.card.causal:
        return model.reader or model
    if model.body.sizes is None:
        raise UnmaskError(f"{model.name} cannot run causally. Pass an AR model with --causal-model")
    card = msgspec.structs.replace(model.card, name=f"{model.name}, causal", block=1)
    return OpenModel(card, model.body, batch=model.batch)


def _timing(model: OpenModel, length: int, batch: int, steps: int, repeats: int) -> Timing:
    reader = as_reader(model)
    with peak(model.body.device) as most:
        evaluation = _of_model_calls(model, length, batch, steps, repeats)
        token = _of_tokens(reader, length, batch, repeats)
    arithmetic = model.body.flops(length, length), reader.body.flops(1, length // 2)
    return timing(length, batch, steps, (evaluation, token), arithmetic, most(), model.body.device)


def _of_model_calls(model: OpenModel, length: int, batch: int, steps: int, repeats: int) -> Estimate:
    """Measure milliseconds per step: a model call, and the tokens that it reveals."""
    revealed = max(1, round(length / needed(length, steps)))
    timed = max(1, min(TOGETHER[_kind(model)], length // revealed))
    rng = torch.Generator().manual_seed(0)
    places = torch.rand((batch, length), generator=rng).argsort(1)[:, : timed * revealed]
    start = torch.randint(model.vocabulary, (batch, length), generator=rng)
    start.scatter_(1, places, model.vocabulary)
    rows = torch.arange(batch).repeat_interleave(revealed)

    def run() -> None:
        tokens = start.clone()
        engine = model.engine(tokens, start)
        for part in places.split(revealed, 1):
            positions = part.sort(1).values.flatten()
            mine = rows[: len(positions)]
            tokens[mine, positions] = _drawn(as_marginals(engine.at(mine, positions, None)), rng)
            engine.renew(mine, positions)

    times = measure(run, model.body.device, repeats)
    return middle([1000 * seconds / timed for seconds in times])


def _of_tokens(model: OpenModel, length: int, batch: int, repeats: int) -> Estimate:
    """Measure milliseconds per token, averaged over distances from the start."""
    together = min(TOGETHER[_kind(model)], length)
    total = torch.zeros(repeats, dtype=torch.float64)
    for place in range(PLACES):
        begin = min(int((place + 0.5) * length / PLACES), length - together)
        reader = model.causal(batch, length)
        reader.extend(torch.full((batch, begin + 1), model.vocabulary))
        each = measure(partial(_read, reader, begin, together, batch, model.vocabulary), model.body.device, repeats)
        total += torch.tensor(each, dtype=torch.float64) / together
    return middle((1000 * total / PLACES).tolist())


def _read(reader: Causal, begin: int, count: int, batch: int, vocabulary: int) -> None:
    """Read `count` tokens after the first `begin`."""
    rng = torch.Generator().manual_seed(0)
    reader.rewind(torch.full((batch,), begin))
    current = torch.randint(vocabulary, (batch, 1), generator=rng)
    for _ in range(count):
        marginals = as_marginals(reader.extend(current, None, torch.ones((batch, 1), dtype=torch.bool)))
        current = _drawn(marginals, rng).unsqueeze(1) if len(marginals) else current


def _drawn(marginals: Marginals, rng: torch.Generator) -> Tensor:
    return marginals.draw(torch.rand(len(marginals), generator=rng, dtype=torch.float64))


def _kind(model: OpenModel) -> str:
    return "cuda" if model.body.device.type == "cuda" else "cpu"
