"""What an evaluation of an open model and a token read from left to right take, by the same clock as the networks'.

The AR model is the one beside it, or, where there is none, its own layers seeing what is before them alone: of one size
with it, so that nothing but the order of work is compared. Contexts are noise. A round looks at the hidden places of
the canvas and draws as many tokens as a round of N steps reveals on average.
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
from unmask.cost.clock import PLACES, REPEATS, TOGETHER, Timing, check_sizes, measure, middle, needed, timing
from unmask.cost.memory import peak
from unmask.denoisers import Causal, Marginals
from unmask.denoisers.marginals import as_marginals
from unmask.hub.model import OpenModel


def open_clock(
    model: OpenModel, lengths: Sequence[int], batches: Sequence[int], steps: int = 512, repeats: int = REPEATS
) -> list[Timing | UnmaskError]:
    """As cost.clock.clock, of a model that is there."""
    check_sizes(lengths, batches, steps, repeats)
    found: list[Timing | UnmaskError] = []
    with progress.track("timing", len(lengths) * len(batches)) as advance:
        for length in lengths:
            for batch in batches:
                try:
                    found.append(_timing(model, length, batch, steps, repeats))
                except UnmaskError as error:
                    found.append(error)
                advance(1)
    return found


def as_reader(model: OpenModel) -> OpenModel:
    """The AR model beside it, or the model itself read from left to right."""
    if model.reader is not None or model.card.causal:
        return model.reader or model
    if model.body.sizes is None:
        raise UnmaskError(f"{model.name} cannot be read from left to right; give an AR model beside it, --causal-model")
    card = msgspec.structs.replace(model.card, name=f"{model.name}, read from left to right", block=1)
    return OpenModel(card, model.body, batch=model.batch)


def _timing(model: OpenModel, length: int, batch: int, steps: int, repeats: int) -> Timing:
    reader = as_reader(model)
    with peak(model.body.device) as most:
        evaluation = _of_evaluations(model, length, batch, steps, repeats)
        token = _of_tokens(reader, length, batch, repeats)
    arithmetic = model.body.flops(length, length), reader.body.flops(1, length // 2)
    return timing(length, batch, steps, (evaluation, token), arithmetic, most(), model.body.device)


def _of_evaluations(model: OpenModel, length: int, batch: int, steps: int, repeats: int) -> Estimate:
    """Milliseconds of a round: an evaluation, and the tokens that it reveals."""
    revealed = max(1, round(length / needed(length, steps)))
    rounds = max(1, min(TOGETHER[_kind(model)], length // revealed))
    luck = torch.Generator().manual_seed(0)
    places = torch.rand((batch, length), generator=luck).argsort(1)[:, : rounds * revealed]
    start = torch.randint(model.vocabulary, (batch, length), generator=luck)
    start.scatter_(1, places, model.vocabulary)
    rows = torch.arange(batch).repeat_interleave(revealed)

    def run() -> None:
        tokens = start.clone()
        engine = model.engine(tokens, start)
        for part in places.split(revealed, 1):
            positions = part.sort(1).values.flatten()
            mine = rows[: len(positions)]
            tokens[mine, positions] = _drawn(as_marginals(engine.at(mine, positions, None)), luck)
            engine.renew(mine, positions)

    times = measure(run, model.body.device, repeats)
    return middle([1000 * seconds / rounds for seconds in times])


def _of_tokens(model: OpenModel, length: int, batch: int, repeats: int) -> Estimate:
    """Milliseconds of a token, over distances of the start as for networks."""
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
    """So many tokens, behind those that have been read."""
    luck = torch.Generator().manual_seed(0)
    reader.rewind(torch.full((batch,), begin))
    current = torch.randint(vocabulary, (batch, 1), generator=luck)
    for _ in range(count):
        said = as_marginals(reader.extend(current, None, torch.ones((batch, 1), dtype=torch.bool)))
        current = _drawn(said, luck).unsqueeze(1) if len(said) else current


def _drawn(said: Marginals, luck: torch.Generator) -> Tensor:
    return said.draw(torch.rand(len(said), generator=luck, dtype=torch.float64))


def _kind(model: OpenModel) -> str:
    return "cuda" if model.body.device.type == "cuda" else "cpu"
