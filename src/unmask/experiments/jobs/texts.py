"""The jobs of networks that learn a text: its true distribution is unknown, so scoring models judge the samples.

    text_training   an MDM or an AR model learns a text: nats per token and bits per character on held-out text
    written         samples of the networks, scored by the judges of planning/judge.py; the AR network is one of them
    original        windows of the text, scored by the same judges, each on windows it was not trained on
    text_clock      seconds of a batch: an MDM with N steps, or an AR model with its cache

All have the parameters of a training, and need it. An MDM and an AR model of one cell are twins. A training stays valid
when the code changes; a changed text is another cell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from torch import Tensor

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError
from unmask.core.estimates import Estimate, exactly
from unmask.experiments.cell import Place, Record, Tally, job
from unmask.experiments.jobs.sources import (
    Amount,
    Sampling,
    counts,
    generated,
    mean,
    mean_of_calls,
    record,
    records_of,
    share,
    sums,
    unchanged,
)
from unmask.experiments.jobs.training import kinds_of, milliseconds, train_at, trained_trunk
from unmask.models.text import Text, load, make, published, read
from unmask.models.text.corpus import tiles
from unmask.models.trained import Network, Shape, preset
from unmask.models.trained.checkpoints import read_shape, read_tokenizer
from unmask.models.trained.recipe import Recipe, recipe
from unmask.planning import clock as clocks
from unmask.planning.judge import Judges, Written
from unmask.samplers.schedules import deltas

SYMBOLS = {"chars": 100}  # approximate, before a tokenizer is trained
EXAMPLE = "example.txt"  # the stored example of the samples
MEASURES = {  # the measure of a number of a row, and the scale of its mean
    "twin": ("generative_perplexity", math.exp),
    "ngram": ("ngram_perplexity", math.exp),
    "entropy": ("token_entropy", float),
    "unknown": ("unknown_words", lambda fraction: min(max(fraction, 0.0), 1.0)),  # also clips its interval
}


@dataclass(frozen=True)
class Reader:
    """A network of a text: a name or a file. tokenizer: its tokens. preset: of `unmask train`.

    length, layers, hidden, training_steps: instead of the preset's.
    """

    text: str
    tokenizer: str = "chars"
    digest: str = ""
    preset: str = "text"
    hidden: int | None = None
    length: int | None = None
    layers: int | None = None
    training_steps: int | None = None
    device: str = "auto"
    seed: int = 0

    @property
    def corpus(self) -> Any:
        return _corpus(self.text, self.digest)

    def recipe(self, kind: str) -> Recipe:
        return recipe(self.preset, kind, "mask", steps=self.training_steps, seed=self.seed)

    def shape(self, kind: str, vocabulary: int | None = None) -> Shape:
        """vocabulary: its size (default: an estimate, before the tokenizer is trained)."""
        if vocabulary is None:
            name, _, size = self.tokenizer.partition(":")
            vocabulary = SYMBOLS.get(name, 50000)
            if name == "bpe" and size.isdecimal() and len(size) < 8:
                vocabulary = int(size)
        return preset(self.preset, kind, vocabulary, length=self.length, layers=self.layers, hidden=self.hidden)

    def training(self, kind: str) -> dict[str, Any]:
        """The cell of a training."""
        return {"job": "text_training", "kind": kind} | entries.without(vars(self), {"digest"})

    def judges(self, directory: Path) -> Judges:
        unchanged(self.digest, self.text)
        return _judges(self.text, self.digest, directory, self.device)

    def text_of(self, directory: Path) -> Text:
        """The text in the tokens of a network."""
        unchanged(self.digest, self.text)
        return _text(self.text, self.digest, directory)


def checked_text(reader: Reader, kind: str = "mdm") -> None:
    """Names and sizes, before hours of work."""
    _ = reader.corpus
    published.check(reader.tokenizer)
    reader.shape(kind)
    reader.recipe(kind)


def text_digest(reader: Reader) -> Record:
    return {"text_digest": reader.corpus.digest}


def _needs_judge(reader: Reader) -> list[dict[str, Any]]:
    return [reader.training("ar")]


@lru_cache(maxsize=2)
def _corpus(text: str, digest: str) -> Any:
    return read(text)


@lru_cache(maxsize=2)
def _judges(text: str, digest: str, directory: Path, device: str) -> Judges:
    return Judges(_text(text, digest, directory), trained_trunk(directory, device))


def _text(text: str, digest: str, directory: Path) -> Text:
    symbols = read_tokenizer(directory)
    if symbols is None:
        raise UnmaskError(f"{directory} holds no tokenizer. Put it back, or name another store")
    return Text(_corpus(text, digest), symbols)


@job(check=checked_text, about=text_digest, lasts=True)
def text_training(reader: Reader, place: Place, kind: str = "mdm") -> list[Record]:
    """The loss of a network on held-out text; it is trained from the start or resumed."""
    unchanged(reader.digest, reader.text)
    symbols = load(place.own) or make(reader.tokenizer, reader.corpus.training)
    whole = Text(reader.corpus, symbols)
    trained = train_at(place.own, whole, reader.shape(kind, whole.vocabulary), reader.recipe(kind), reader.device)
    loss = trained.validation.loss
    numbers = {"loss_nats_per_token": loss, "training_steps": exactly(float(trained.steps))}
    for name, bits in trained.bits.items():
        each = bits / loss.value
        numbers[name] = loss.map(lambda nats, each=each: nats * each)
    return records_of(numbers, None)


def _sums(name: str, values: Tensor) -> Tally:
    return sums(name, values[~values.isnan()])


def _tally(scores: Written) -> Tally:
    tally = counts("wrong", scores.wrong)
    for name in MEASURES:
        tally |= _sums(name, getattr(scores, name))
    return tally


def _records(tally: Tally) -> list[Record]:
    numbers: dict[str, Estimate | None] = {"rows_with_unknown_words": share("wrong", tally)}
    for name, (measure, scale) in MEASURES.items():
        if (estimate := mean(name, tally)) is not None:
            numbers[measure] = estimate.map(scale)
    return records_of(numbers, mean_of_calls(tally))


def _keep_example(judges: Judges, tokens: Tensor, place: Place) -> None:
    place.write(EXAMPLE, judges.text.tokenizer.decode(tokens[0].tolist()).encode())


def _check_written(reader: Reader, sampling: Sampling) -> None:
    checked_text(reader)
    kinds_of(sampling.sampler)
    deltas(sampling.schedule, sampling.steps)


def _needs_both(reader: Reader, sampler: str) -> list[dict[str, Any]]:
    """The training of the judge, then that of the sampled network."""
    return list(map(reader.training, dict.fromkeys(("ar", *kinds_of(sampler)))))


@job(records=_records, check=_check_written, needs=_needs_both, about=text_digest)
def written(reader: Reader, sampling: Sampling, place: Place, rows: int = 200, first_row: int = 0) -> Tally:
    """Judged samples of networks: perplexities, entropy, and words that the text does not have."""
    judges = reader.judges(place.needed[0])
    ar, *mdm = [trained_trunk(directory, reader.device) for directory in place.needed]
    network, amount = Network(next(iter(mdm), None), ar), Amount(rows, reader.seed)
    generation = generated(network, network.length, sampling, amount, first_row=first_row)
    if not first_row:
        _keep_example(judges, generation.tokens, place)
    return _tally(judges(generation.tokens)) | _sums("model_calls", generation.model_calls.double())


@job(check=checked_text, needs=_needs_judge, about=text_digest)
def original(reader: Reader, place: Place, rows: int = 200) -> list[Record]:
    """Judged windows of the text: held-out ones, and for the n-gram, a model of these, training ones."""
    judges = reader.judges(place.needed[0])
    size = judges.twin.shape.length
    held_out = tiles(judges.text.held_out, rows, size)
    _keep_example(judges, held_out, place)
    return _records(_tally(judges(held_out)) | _sums("ngram", judges.by_ngram(tiles(judges.text.training, rows, size))))


def _check_clock(reader: Reader, kind: str, steps: int, batch: int) -> None:
    checked_text(reader, kind)
    deltas("linear", steps)
    arguments.whole("batch", batch, 1, arguments.MOST_LENGTH)


@job(check=_check_clock, needs=_needs_judge, about=text_digest)
def text_clock(reader: Reader, place: Place, kind: str = "mdm", steps: int = 64, batch: int = 16) -> list[Record]:
    """Seconds of a batch, on one thread of a CPU: a median with quartiles, as in `unmask model time`.

    kind: mdm, with this number of steps, or ar, token by token, whatever the steps. Both have the same shape.
    """
    shape = read_shape(place.needed[0])
    each = milliseconds(shape, kind, batch, reader.device, steps)
    count = clocks.needed(shape.length, steps) if kind == "mdm" else float(shape.length)
    return [record("seconds", each.map(lambda ms: count * ms / 1000), count)]
