"""Estimate the memory and time of an open model before anything of it is fetched or loaded; and measure the peak.

    weights           parameters x bytes of their type
    keys and values   2 x layers x heads x width x rows x (L + 1), with a cache
    states            rows x (L + 1) x hidden
    arithmetic        model calls x that of all columns; savings by caches and early ends are not subtracted

Without its files only the number of parameters is known, from the card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from unmask.core import arguments
from unmask.core.arguments import cores, size
from unmask.core.errors import UnmaskError
from unmask.core.run import Amount, Loading, Prompting, Sampling
from unmask.diagnosis.flops import flop_per_second
from unmask.models.open import Card, OpenModel
from unmask.models.open.loading import DTYPES, here, outline
from unmask.models.open.prompted import NEW, Query, begun, queries_of
from unmask.models.trained.checkpoints import choose_device, free_on

USUAL = "bfloat16"  # of published weights
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK = "5"  # the high-water mark of resident memory, in the words of the Linux kernel


def look(source: str | Path, card: str | None, cache: str | None) -> tuple[Card, OpenModel | None]:
    """Return the card of a model and, if its files are here, the model without its weights."""
    directory, named = here(source, card)
    model = None if directory is None else outline(directory, named, cache)
    known = named if model is None else model.card
    if known is None:
        problem = "only transformers knows its shape. Load it, or pass a card"
        raise UnmaskError(f"cannot compute the memory and the FLOPs of {source}: {problem}")
    return known, model


def needs(
    card: Card,
    model: OpenModel | None,
    device: str,
    dtype: str | None,
    rows: int,
    length: int,
    model_calls: int,
) -> dict[str, Any]:
    """Return memory and time for `rows` sequences of `length` tokens with at most `model_calls` model calls each."""
    arguments.word("dtype", kind := dtype or USUAL, DTYPES)
    place, each = choose_device(device), DTYPES[kind].itemsize
    parameters = _parameters(card) if model is None else sum(weight.numel() for weight in model.body.parameters())
    parts = {"weights": parameters * each}
    if model is not None:
        if model.body.sizes is not None and (model.cache is not None or card.block is not None):
            layers, heads, width = model.body.sizes
            parts["keys_and_values"] = 2 * layers * heads * width * rows * (length + 1) * each
        parts["states"] = rows * (length + 1) * model.body.hidden * each
    room = free_on(place)
    total = sum(parts.values())
    about: dict[str, Any] = {"model": card.name, "files": "not here" if model is None else "here"}
    about |= {"parameters": parameters, "dtype": kind, "device": str(place)}
    about["memory"] = {name: size(number) for name, number in (parts | {"all": total}).items()}
    about |= {"there_is": size(room), "fits": "yes"}
    if total >= room:
        less = max(parts["weights"] - parameters * DTYPES[USUAL].itemsize, 0)
        smaller = f"with --dtype {USUAL} it does" if total - less < room else "a smaller model, or fewer rows"
        about["fits"] = f"no; {smaller}"
    about |= {"rows": rows, "length": length, "model_calls_at_most": model_calls}
    if model is not None:
        flops = float(model_calls * rows * model.body.flops(length, length))
        speed = flop_per_second(place, DTYPES[kind] if place.type == "cuda" else torch.float32, cores())
        about |= {"flops_at_most": flops, "seconds_about": flops / speed}
    return about


def _parameters(card: Card) -> int:
    if card.billions is None:
        raise UnmaskError(f"the files of {card.name} are not here, and its card has no size")
    return round(card.billions * 1e9)


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
    for line in STATUS.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "VmHWM":
            return 1024 * int(rest.split()[0])
    return None


def needs_of_prompts(
    model: str, prompting: Prompting, amount: Amount, loading: Loading, sampling: Sampling
) -> dict[str, Any]:
    """Return memory and time of the answers of a command, without loading the model."""
    card, shape = look(model, loading.card, loading.cache)
    queries = queries_of(prompting)
    rows, longest, new = _upper(card, shape, queries, prompting, amount)
    steps = new if sampling.steps is None else min(sampling.steps, new)
    calls = steps * (2 if sampling.guidance else 1)
    return needs(card, shape, loading.device, loading.dtype, rows, longest, calls)


def _upper(
    card: Card, model: OpenModel | None, queries: list[Query], how: Prompting, amount: Amount
) -> tuple[int, int, int]:
    """Return upper limits: (rows, tokens per row, new tokens per row). Without the model's tokenizer, a byte of a
    prompt counts as a token."""
    if model is not None:
        start = begun(model, queries, how, amount)
        if start["given"] is None:
            return start["rows"], start["length"], start["length"]
        new = max(int((row == model.vocabulary).sum()) for row in start["given"])
        return max(start["rows"] or 1, len(start["given"])), max(map(len, start["given"])), new
    new = min(NEW if amount.length is None and queries else amount.length or card.context, card.context)
    texts = [one.prompt or one.template or "".join(m.content for m in one.messages or ()) for one in queries]
    longest = max((len(text.encode()) for text in texts), default=0)
    rows = (amount.rows or 1) if len(texts) < 2 else len(texts) * amount.rows_per_prompt
    return rows, min(longest + new, card.context), new
