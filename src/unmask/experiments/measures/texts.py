"""The metrics of networks that have learned a text: of its truth nothing is known, so judges are asked.

    text_training   an MDM or an AR model learns a text: nats a token and bits a character of what is held out
    written         what they write, as the judges of diagnosis/texts.py find it; the AR network is one of them
    original        what the same judges say of windows of the text, each of some that it has not seen
    text_clock      seconds of a batch that an MDM fills in N rounds, or that an AR model writes with its cache

All are named by what a training consists of, and need it. An MDM and an AR model of one cell are twins (training/
twins.py). A training stays what it is when the code changes; a text that changes is another cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core.errors import UnmaskError
from unmask.experiments.measures.catalogue import Arguments, Output, Record, Tally, metric
from unmask.experiments.measures.sources import record, unchanged
from unmask.experiments.measures.training import (
    AR_PASSES,
    STEP_PASSES,
    check_same,
    kinds_of,
    milliseconds,
    speed,
    trained_trunk,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.estimates import Estimate
    from unmask.diagnosis.texts import Judges, Written
    from unmask.networks import Shape
    from unmask.networks.training.recipe import Recipe

OF_TRAINING = ("text", "tokenizer", "preset", "length", "layers", "hidden", "training_steps", "device", "seed")
SYMBOLS = {"chars": 100, "gpt2": 50257, "smollm2": 49152}  # about, before a tokenizer is made
EXAMPLE = "example.txt"  # what is kept of what was written
JUDGED = {  # what a number of a row is called, and how its mean is shown
    "twin": ("generative_perplexity", math.exp),
    "ngram": ("ngram_perplexity", math.exp),
    "smollm2": ("smollm2_perplexity", math.exp),
    "entropy": ("token_entropy", float),
    "unknown": ("unknown_words", lambda share: min(max(share, 0.0), 1.0)),  # nothing else is in its interval
}


def _symbols(tokenizer: str) -> int:
    name, _, size = tokenizer.partition(":")
    return int(size) if name == "bpe" and size.isdecimal() and len(size) < 8 else SYMBOLS.get(name, 1000)


def _shape(kind: str, vocabulary: int, cell: Arguments) -> Shape:
    from unmask.networks import preset

    size = {name: cell[name] for name in ("length", "layers", "hidden")}
    return preset(cell["preset"], kind, vocabulary, **size)


def _recipe(kind: str, cell: Arguments) -> Recipe:
    from unmask.networks.training.recipe import recipe

    return recipe(cell["preset"], kind, steps=cell["training_steps"], seed=cell["seed"])


@lru_cache(maxsize=2)
def _corpus(text: str, digest: str) -> Any:
    from unmask.text import read

    return read(text)


def _check(cells: Sequence[Arguments]) -> None:
    """Names, sizes and packages, before hours of work."""
    from unmask.core import arguments
    from unmask.diagnosis import judge as outsider
    from unmask.schedules import deltas
    from unmask.text import tokenizers

    for cell in cells:
        _corpus(cell["text"], cell["digest"])
        tokenizers.check(cell["tokenizer"])
        shape = _shape(cell.get("kind", "mdm"), _symbols(cell["tokenizer"]), cell)
        _recipe(shape.kind, cell)
        if cell.get("smollm2"):
            outsider.check()
        if "schedule" in cell:
            kinds_of(cell["sampler"])
            deltas(cell["schedule"], cell["steps"])
        if "batch" in cell:
            deltas("linear", cell["steps"])
            arguments.whole("batch", cell["batch"], 1, arguments.MOST_LENGTH)


def _about(cell: Arguments) -> Record:
    """Which text it was."""
    return {"text_digest": _corpus(cell["text"], cell["digest"]).digest}


def _evaluation(cell: Arguments) -> float:
    """Seconds of one sequence, about."""
    from unmask.cost.flops import evaluation

    shape = _shape("mdm", _symbols(cell["tokenizer"]), cell)
    return evaluation(shape, shape.length) / speed(cell)


def _cost_of_training(cell: Arguments) -> float:
    wanted = _recipe(cell["kind"], cell)
    return STEP_PASSES * _evaluation(cell) * wanted.batch * wanted.steps


@metric("text_training", check=_check, cost=_cost_of_training, about=_about, lasts=True)
def text_training(
    *,
    text: str,
    tokenizer: str = "chars",
    digest: str = "",
    preset: str = "text",
    kind: str = "mdm",
    length: int | None = None,
    layers: int | None = None,
    hidden: int | None = None,
    training_steps: int | None = None,
    device: str = "auto",
    seed: int = 0,
    place: Path,
) -> list[Record]:
    """The loss of a network on what is held out of a text; it is trained, or trained on, or found complete.

    preset: of `unmask train`; length, layers, hidden, training_steps: in the place of what it says.
    """
    from unmask.core.estimates import exactly
    from unmask.networks.model import checkpoints
    from unmask.networks.training.conditions import Conditions
    from unmask.networks.training.loop import resume, train
    from unmask.text import Text, load, make

    unchanged(digest, text)
    cell = {"preset": preset, "length": length, "layers": layers, "hidden": hidden}
    cell |= {"training_steps": training_steps, "seed": seed}
    wanted, conditions = _recipe(kind, cell), Conditions(device)
    if (place / checkpoints.STATE).exists():
        if (symbols := load(place)) is not None:
            check_same(place, _shape(kind, symbols.vocabulary, cell), wanted)
        made = resume(place, conditions=conditions)
    else:
        corpus = _corpus(text, digest)
        whole = Text(corpus, make(tokenizer, corpus.training))
        made = train(whole, _shape(kind, whole.vocabulary, cell), wanted, place, conditions=conditions)
    loss = made.validation.loss
    found = {"loss_nats_per_token": loss, "training_steps": exactly(float(made.steps))}
    for name, bits in made.bits.items():
        each = bits / loss.value
        found[name] = loss.map(lambda nats, each=each: nats * each)
    return [record(name, estimate, None) for name, estimate in found.items()]


def _training(cell: Arguments, kind: str) -> Arguments:
    return {"metric": "text_training", "kind": kind} | {name: cell[name] for name in OF_TRAINING}


def _needs(cell: Arguments) -> list[Arguments]:
    """The judge first, then what writes."""
    writers = kinds_of(cell["sampler"])
    return [_training(cell, kind) for kind in ("ar", *(kind for kind in writers if kind != "ar"))]


def _needs_judge(cell: Arguments) -> list[Arguments]:
    return [_training(cell, "ar")]


def _cost_of_written(cell: Arguments) -> float:
    shape = _shape("mdm", _symbols(cell["tokenizer"]), cell)
    passes = AR_PASSES if kinds_of(cell["sampler"]) == ("ar",) else min(cell["steps"], shape.length)
    return (1 + passes) * _evaluation(cell) * cell["rows"]


@lru_cache(maxsize=2)
def _judges(text: str, digest: str, directory: Path, device: str) -> Judges:
    from unmask.diagnosis.texts import Judges
    from unmask.networks.model.checkpoints import read_tokenizer
    from unmask.text import Text

    symbols = read_tokenizer(directory)
    if symbols is None:
        raise UnmaskError(f"{directory} holds no tokenizer; put it back, or name another store")
    return Judges(Text(_corpus(text, digest), symbols), trained_trunk(directory, device))


def _sums(found: Mapping[str, Tensor]) -> Tally:
    from unmask.experiments.measures.tallies import sums

    tally: Tally = {}
    for name, values in found.items():
        tally |= sums(name, values[~values.isnan()])
    return tally


def _tally(found: Written, others: Mapping[str, Tensor]) -> Tally:
    from unmask.experiments.measures.tallies import counts

    own = {"twin": found.twin, "ngram": found.ngram, "entropy": found.entropy, "unknown": found.unknown}
    return _sums(own | dict(others)) | counts("wrong", found.wrong)


def _records(tally: Tally, **cell: Any) -> list[Record]:
    from unmask.experiments.measures.tallies import mean, share

    needed = mean("evaluations", tally) if "evaluations_count" in tally else None
    evaluations = None if needed is None else needed.value
    found: dict[str, Estimate | None] = {"rows_with_unknown_words": share("wrong", tally)}
    for name, (measure, scale) in JUDGED.items():
        estimate = mean(name, tally) if f"{name}_count" in tally else None
        found[measure] = None if estimate is None else estimate.map(scale)
    return [record(name, estimate, evaluations) for name, estimate in found.items() if estimate is not None]


def _outsider(smollm2: bool, judges: Judges, tokens: Tensor) -> dict[str, Tensor]:
    if not smollm2:
        return {}
    from unmask.diagnosis.judge import judge, usual

    return {"smollm2": judge(usual(), [judges.text.tokenizer.decode(row) for row in tokens.tolist()]).nats}


def _example(judges: Judges, tokens: Tensor) -> dict[str, bytes]:
    """The first row, for people."""
    return {EXAMPLE: judges.text.tokenizer.decode(tokens[0].tolist()).encode()}


@metric("written", records=_records, check=_check, cost=_cost_of_written, needs=_needs, about=_about)
def written(
    *,
    text: str,
    tokenizer: str = "chars",
    digest: str = "",
    preset: str = "text",
    length: int | None = None,
    layers: int | None = None,
    hidden: int | None = None,
    training_steps: int | None = None,
    device: str = "auto",
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: int = 64,
    smollm2: bool = False,
    rows: int = 200,
    first_row: int = 0,
    seed: int = 0,
    needed: tuple[Path, ...],
) -> Output:
    """What rows that networks have written are to judges: perplexities, entropy, words that the text does not have.

    sampler: of an MDM, or `autoregressive`. smollm2: whether that model judges, too, where it is installed.
    """
    from unmask.generation import generate
    from unmask.networks import Network

    unchanged(digest, text)
    judges, trunks = _judges(text, digest, needed[0], device), {"ar": trained_trunk(needed[0], device)}
    if "mdm" in kinds_of(sampler):
        trunks["mdm"] = trained_trunk(needed[1], device)
    network = Network(trunks.get("mdm"), trunks["ar"])
    how: dict[str, Any] = {"sampler": sampler, "schedule": schedule, "steps": steps, "length": network.length}
    made = generate(network, **how, rows=rows, first_row=first_row, seed=seed)
    others = _outsider(smollm2, judges, made.tokens) | {"evaluations": made.evaluations.double()}
    return Output(_tally(judges(made.tokens), others), {} if first_row else _example(judges, made.tokens))


@metric("original", check=_check, needs=_needs_judge, about=_about)
def original(
    *,
    text: str,
    tokenizer: str = "chars",
    digest: str = "",
    preset: str = "text",
    length: int | None = None,
    layers: int | None = None,
    hidden: int | None = None,
    training_steps: int | None = None,
    device: str = "auto",
    smollm2: bool = False,
    rows: int = 200,
    seed: int = 0,
    needed: tuple[Path, ...],
) -> Output:
    """What the judges say of windows of the text: of those held out, and the n-gram, which has read them, of others."""
    from unmask.text.windows import tiles

    unchanged(digest, text)
    judges = _judges(text, digest, needed[0], device)
    size = judges.twin.shape.length
    held_out = tiles(judges.text.held_out, rows, size)
    tally = _tally(judges(held_out), _outsider(smollm2, judges, held_out))
    tally |= _sums({"ngram": judges.by_ngram(tiles(judges.text.training, rows, size))})
    return Output(_records(tally), _example(judges, held_out))


@metric("text_clock", check=_check, needs=_needs_judge, about=_about)
def text_clock(
    *,
    text: str,
    tokenizer: str = "chars",
    digest: str = "",
    preset: str = "text",
    kind: str = "mdm",
    length: int | None = None,
    layers: int | None = None,
    hidden: int | None = None,
    training_steps: int | None = None,
    device: str = "auto",
    steps: int = 64,
    batch: int = 16,
    seed: int = 0,
    needed: tuple[Path, ...],
) -> list[Record]:
    """Seconds of a batch, on one thread where that is a CPU: a median with quartiles, as `unmask time` has it.

    kind: mdm, filled in so many steps, or ar, written token by token, whatever the steps. One shape is both.
    """
    from unmask.cost.clock import needed as evaluations
    from unmask.networks.model.checkpoints import read_shape

    shape = read_shape(needed[0])
    each = milliseconds(shape, kind, batch, device, steps)
    count = evaluations(shape.length, steps) if kind == "mdm" else float(shape.length)
    return [record("seconds", each.map(lambda ms: count * ms / 1000), count)]
