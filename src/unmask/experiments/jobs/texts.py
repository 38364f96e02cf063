"""The jobs of networks that learn a text: its true distribution is unknown, so scoring models judge the samples.

    text_training   an MDM or an AR model learns a text: nats per token and bits per character on held-out text
    written         samples of the networks, scored by the judges of diagnosis/texts.py; the AR network is one of them
    original        windows of the text, scored by the same judges, each on windows it was not trained on
    text_clock      seconds of a batch: an MDM with N steps, or an AR model with its cache

All have the parameters of a training, and need it. An MDM and an AR model of one cell are twins. A training stays valid
when the code changes; a changed text is another cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.experiments.jobs.catalogue import JOBS, Arguments, Output, Record, Tally
from unmask.experiments.jobs.sources import Generated, record, unchanged
from unmask.experiments.jobs.training import (
    AR_PASSES,
    STEP_PASSES,
    Learner,
    check_same,
    kinds_of,
    milliseconds,
    trained_trunk,
)

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.estimates import Estimate
    from unmask.diagnosis.texts import Judges, Written
    from unmask.models.trained import Shape

SYMBOLS = {"chars": 100}  # approximate, before a tokenizer is trained
EXAMPLE = "example.txt"  # the stored example of the samples
MEASURES = {  # the measure of a number of a row, and the scale of its mean
    "twin": ("generative_perplexity", math.exp),
    "ngram": ("ngram_perplexity", math.exp),
    "smollm2": ("smollm2_perplexity", math.exp),
    "entropy": ("token_entropy", float),
    "unknown": ("unknown_words", lambda fraction: min(max(fraction, 0.0), 1.0)),  # also clips its interval
}


def _symbols(tokenizer: str) -> int:
    name, _, size = tokenizer.partition(":")
    return int(size) if name == "bpe" and size.isdecimal() and len(size) < 8 else SYMBOLS.get(name, 50000)


@dataclass(frozen=True, kw_only=True)
class OfText(Learner):
    """text: a name or a file. tokenizer: its tokens. hidden: a width, instead of the preset's."""

    text: str
    tokenizer: str = "chars"
    digest: str = ""
    preset: str = "text"
    hidden: int | None = None

    @property
    def corpus(self) -> Any:
        return _corpus(self.text, self.digest)

    def shape(self, kind: str, vocabulary: int | None = None) -> Shape:
        """vocabulary: its size (default: an estimate, before the tokenizer is trained)."""
        from unmask.models.trained import preset

        size = {name: getattr(self, name) for name in ("length", "layers", "hidden")}
        return preset(self.preset, kind, _symbols(self.tokenizer) if vocabulary is None else vocabulary, **size)

    def check(self) -> None:
        """Names, sizes and packages, before hours of work."""
        from unmask.models.text import tokenizers

        _ = self.corpus
        tokenizers.check(self.tokenizer)
        kind = getattr(self, "kind", "mdm")
        self.shape(kind)
        self.recipe(kind)

    def about(self) -> Record:
        return {"text_digest": self.corpus.digest}

    def needs(self) -> Sequence[Arguments]:
        """The training of the judge."""
        return [self.training("ar")]

    def training(self, kind: str) -> Arguments:
        """The cell of a training."""
        own = {one.name: getattr(self, one.name) for one in fields(OfText) if one.name != "digest"}
        return {"job": "text_training", "kind": kind} | own

    @property
    def evaluation(self) -> float:
        """Estimated seconds of a forward pass for one sequence."""
        from unmask.diagnosis.flops import evaluation

        shape = self.shape("mdm")
        return evaluation(shape, shape.length) / self.speed


@dataclass(frozen=True, kw_only=True)
class Judged(OfText):
    """rows: sequences. smollm2: also judge with this model."""

    smollm2: bool = False
    rows: int = 200

    def check(self) -> None:
        from unmask.diagnosis import judge

        super().check()
        if self.smollm2:
            judge.check()

    def judges(self, place: Path) -> Judges:
        unchanged(self.digest, self.text)
        return _judges(self.text, self.digest, place, self.device)

    def outsider(self, judges: Judges, tokens: Tensor) -> dict[str, Tensor]:
        if not self.smollm2:
            return {}
        from unmask.diagnosis.judge import judge, usual

        return {"smollm2": judge(usual(), [judges.text.tokenizer.decode(row) for row in tokens.tolist()]).nats}


@lru_cache(maxsize=2)
def _corpus(text: str, digest: str) -> Any:
    from unmask.models.text import read

    return read(text)


@JOBS.register("text_training")
@dataclass(frozen=True, kw_only=True)
class TextTraining(OfText):
    """The loss of a network on held-out text; it is trained from the start or resumed."""

    lasts = True

    kind: str = "mdm"

    def needs(self) -> Sequence[Arguments]:
        return ()

    def cost(self) -> float:
        recipe = self.recipe(self.kind)
        return STEP_PASSES * self.evaluation * recipe.batch * recipe.steps

    def measure(self, *, place: Path) -> list[Record]:
        from unmask.core.estimates import exactly
        from unmask.models.text import Text, load, make
        from unmask.models.trained import checkpoints
        from unmask.models.trained.conditions import Conditions
        from unmask.models.trained.loop import resume, train

        unchanged(self.digest, self.text)
        recipe, conditions = self.recipe(self.kind), Conditions(self.device)
        if (place / checkpoints.STATE).exists():
            if (symbols := load(place)) is not None:
                check_same(place, self.shape(self.kind, symbols.vocabulary), recipe)
            trained = resume(place, conditions=conditions)
        else:
            whole = Text(self.corpus, make(self.tokenizer, self.corpus.training))
            trained = train(whole, self.shape(self.kind, whole.vocabulary), recipe, place, conditions=conditions)
        loss = trained.validation.loss
        estimates = {"loss_nats_per_token": loss, "training_steps": exactly(float(trained.steps))}
        for name, bits in trained.bits.items():
            each = bits / loss.value
            estimates[name] = loss.map(lambda nats, each=each: nats * each)
        return [record(name, estimate, None) for name, estimate in estimates.items()]


@lru_cache(maxsize=2)
def _judges(text: str, digest: str, directory: Path, device: str) -> Judges:
    from unmask.diagnosis.texts import Judges
    from unmask.models.text import Text
    from unmask.models.trained.checkpoints import read_tokenizer

    symbols = read_tokenizer(directory)
    if symbols is None:
        raise UnmaskError(f"{directory} holds no tokenizer. Put it back, or name another store")
    return Judges(Text(_corpus(text, digest), symbols), trained_trunk(directory, device))


def _sums(numbers: Mapping[str, Tensor]) -> Tally:
    from unmask.experiments.jobs.tallies import sums

    tally: Tally = {}
    for name, values in numbers.items():
        tally |= sums(name, values[~values.isnan()])
    return tally


def _tally(scores: Written, others: Mapping[str, Tensor]) -> Tally:
    from unmask.experiments.jobs.tallies import counts

    own = {name: getattr(scores, name) for name in ("twin", "ngram", "entropy", "unknown")}
    return _sums(own | dict(others)) | counts("wrong", scores.wrong)


def _records(tally: Tally) -> list[Record]:
    from unmask.experiments.jobs.tallies import mean, share

    needed = mean("model_calls", tally) if "model_calls_count" in tally else None
    model_calls = None if needed is None else needed.value
    estimates: dict[str, Estimate | None] = {"rows_with_unknown_words": share("wrong", tally)}
    for name, (measure, scale) in MEASURES.items():
        estimate = mean(name, tally) if f"{name}_count" in tally else None
        estimates[measure] = None if estimate is None else estimate.map(scale)
    return [record(name, estimate, model_calls) for name, estimate in estimates.items() if estimate is not None]


def _example(judges: Judges, tokens: Tensor) -> dict[str, bytes]:
    return {EXAMPLE: judges.text.tokenizer.decode(tokens[0].tolist()).encode()}


@JOBS.register("written")
@dataclass(frozen=True, kw_only=True)
class Writing(Judged, Generated):
    """Judged samples of networks: perplexities, entropy, and words that the text does not have.

    sampler: a sampler of an MDM, or `autoregressive`.
    """

    merges = True

    first_row: int = 0

    def check(self) -> None:
        from unmask.samplers.schedules import deltas

        super().check()
        kinds_of(self.sampler)
        deltas(self.schedule, self.steps)

    def needs(self) -> Sequence[Arguments]:
        """The training of the judge, then that of the sampled network."""
        return [self.training(kind) for kind in ("ar", *(kind for kind in kinds_of(self.sampler) if kind != "ar"))]

    def cost(self) -> float:
        passes = AR_PASSES if kinds_of(self.sampler) == ("ar",) else min(self.steps, self.shape("mdm").length)
        return (1 + passes) * self.evaluation * self.rows

    def measure(self, *, needed: tuple[Path, ...]) -> Output:
        from unmask.models.trained import Network

        judges, ar = self.judges(needed[0]), trained_trunk(needed[0], self.device)
        mdm = trained_trunk(needed[1], self.device) if "mdm" in kinds_of(self.sampler) else None
        network = Network(mdm, ar)
        generation = self.generate(network, network.length)
        tokens = generation.tokens
        others = self.outsider(judges, tokens) | {"model_calls": generation.model_calls.double()}
        return Output(_tally(judges(tokens), others), {} if self.first_row else _example(judges, tokens))

    def records(self, tally: Tally) -> list[Record]:
        return _records(tally)


@JOBS.register("original")
@dataclass(frozen=True, kw_only=True)
class Original(Judged):
    """Judged windows of the text: held-out ones, and for the n-gram, a model of these, training ones."""

    def measure(self, *, needed: tuple[Path, ...]) -> Output:
        from unmask.models.text.windows import tiles

        judges = self.judges(needed[0])
        size = judges.twin.shape.length
        held_out = tiles(judges.text.held_out, self.rows, size)
        tally = _tally(judges(held_out), self.outsider(judges, held_out))
        tally |= _sums({"ngram": judges.by_ngram(tiles(judges.text.training, self.rows, size))})
        return Output(_records(tally), _example(judges, held_out))


@JOBS.register("text_clock")
@dataclass(frozen=True, kw_only=True)
class TextClock(OfText):
    """Seconds of a batch, on one thread of a CPU: a median with quartiles, as in `unmask model time`.

    kind: mdm, with this number of steps, or ar, token by token, whatever the steps. Both have the same shape.
    """

    kind: str = "mdm"
    steps: int = 64
    batch: int = 16

    def check(self) -> None:
        from unmask.samplers.schedules import deltas

        super().check()
        deltas("linear", self.steps)
        arguments.whole("batch", self.batch, 1, arguments.MOST_LENGTH)

    def measure(self, *, needed: tuple[Path, ...]) -> list[Record]:
        from unmask.diagnosis.clock import needed as model_calls
        from unmask.models.trained.checkpoints import read_shape

        shape = read_shape(needed[0])
        each = milliseconds(shape, self.kind, self.batch, self.device, self.steps)
        count = model_calls(shape.length, self.steps) if self.kind == "mdm" else float(shape.length)
        return [record("seconds", each.map(lambda ms: count * ms / 1000), count)]
