"""The difference of two traces: where it begins, and rounding is named where it is the cause and only there."""

from __future__ import annotations

import math
import random

import pytest
import torch

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from unmask import difference, generate, languages
from unmask.denoisers import Perturbed
from unmask.samplers.trace import Row, Trace, check

ROWS, LENGTH, PROMPT, BLOCK, STEPS = 8, 32, 6, 8, 13
LANGUAGE = languages.load("sparse-hmm")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return published(tmp_path_factory.mktemp("diff"), "llada", CONFIGS["llada"])


@pytest.fixture(scope="module")
def model(checkpoint):
    return load(checkpoint, card("llada"), torch.float32)


@pytest.fixture(scope="module")
def base(model):
    """Our trace of LLaDA's rule in float32."""
    return ours(model)


def prompts(lengths):
    rng = torch.Generator().manual_seed(0)
    return [torch.randint(0, MASK - 7, (PROMPT,), generator=rng).tolist() + [V] * (n - PROMPT) for n in lengths]


def ours(model, lengths=(LENGTH,) * ROWS, **options):
    return generate(
        model, **{"sampler": f"llada(block_length={BLOCK})", "steps": STEPS, "given": prompts(lengths)} | options
    ).trace()


class Recorder:
    """The trace of rows of ids (B, L), V where hidden, which have these lengths."""

    def __init__(self, ids, lengths, vocabulary):
        self.rows, self.lengths, self.step, self.before = [[] for _ in ids], lengths, 0, ids.clone()
        self.given, self.vocabulary = ids.clone(), vocabulary

    def look(self, ids, probability):
        self.step += 1
        for row, at in (ids != self.before).nonzero().tolist():
            if at < self.lengths[row]:
                self.rows[row].append((self.step, at, int(ids[row, at]), float(probability[row, at])))
        self.before = ids.clone()

    def trace(self):
        rows = []
        for events, length, given in zip(self.rows, self.lengths, self.given.tolist(), strict=True):
            start = [(at, token) for at, token in enumerate(given[:length]) if token != self.vocabulary]
            rows.append(Row(length=length, given=start, events=events))
        trace = Trace(vocabulary=self.vocabulary, rows=rows)
        check(trace)
        return trace


@torch.no_grad()
def llada(logits, rows, steps, *, block=LENGTH, vocabulary=V, dtype=torch.float64):
    """LLaDA's published loop at temperature 0, for `logits(ids)` (B, L, V): even counts, the first ones larger."""
    lengths = [len(row) for row in rows]
    x = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in rows])
    recorder = Recorder(x, lengths, vocabulary)
    prompt = int((x[0] == vocabulary).int().argmax())
    blocks = (max(lengths) - prompt) // block or 1
    for number in range(blocks):
        end = prompt + (number + 1) * block if blocks > 1 else max(lengths)
        turns = steps // blocks + (number < steps % blocks)
        size = ((x == vocabulary) & (torch.arange(x.shape[1]) < end)).sum(1)
        for step in range(turns):
            hidden = (x == vocabulary) & (torch.arange(x.shape[1]) < end)
            count = size // turns + (step < size % turns)
            p = logits(x).to(dtype).softmax(-1)
            probability, tokens = p.max(-1)
            score = torch.where(hidden, probability, -torch.inf)
            chosen = torch.zeros_like(hidden)
            for row in range(len(x)):
                chosen[row, score[row].topk(int(count[row])).indices] = True
            x = torch.where(chosen & hidden, tokens, x)
            recorder.look(x, probability)
    return recorder.trace()


def of_model(model, masked=None):
    """The logits of a checkpoint for ids with V where hidden; without a mask every column sees every other one."""

    def logits(x):
        ids = torch.where(x == V, MASK, x)
        found = model.body.logits(model.body.states(ids, None, masked, None)).float()
        found[..., MASK] = -torch.inf
        return found

    return logits


def rounding(a, b):
    return difference(a, b).rounding


def test_the_published_loop_differs_from_ours_by_rounding_only(model):
    """Its probabilities are computed in float64 from the same logits, for one row at a time or all together."""
    steps = 12
    theirs = llada(of_model(model), prompts([PROMPT + 24] * ROWS), steps, block=BLOCK)
    made = difference(ours(model, [PROMPT + 24] * ROWS, steps=steps), theirs)
    assert set(made.kinds) <= {"probabilities"}
    assert made.equal or made.rounding == "float32"


def test_bfloat16_differs_by_more_than_float32_rounds(checkpoint, base):
    made = difference(base, ours(load(checkpoint, card("llada"), torch.bfloat16)))
    assert (made.rounding, made.ulps) == (None, None)
    assert made.verdict.startswith("different, by more than float32 rounds")


def test_batch_1_against_8(checkpoint, model, base):
    alone = ours(load(checkpoint, card("llada"), torch.float32, batch=1))
    made = difference(base, alone)
    assert set(made.kinds) <= {"probabilities"}
    assert made.equal or made.rounding == "float32"


@pytest.mark.parametrize("temperature", [0.8, 0.95, 1.05])
def test_a_temperature_is_not_called_rounding(temperature):
    for name in ("sparse-hmm", "paper-2gram"):
        for sampler in ("ancestral", "low-confidence"):
            asked = {"sampler": sampler, "length": 40, "rows": 6, "steps": 12}
            usual, other = (generate(name, **asked, temperature=t).trace() for t in (1, temperature))
            made = difference(usual, other)
            assert made.rounding is None
            ratios = [abs(math.log(q / p)) for p, q in first_pairs(usual, other)]
            assert made.log_ratio * (1 + 1e-9) >= max(ratios) > 0


def first_pairs(a, b):
    """The probabilities of equal tokens in the first step of each row."""
    for one, other in zip(a.rows, b.rows, strict=True):
        first = {event[:3]: event[3] for event in other.events if event[0] == 1}
        yield from ((p, first[step, at, token]) for step, at, token, p in one.events if (step, at, token) in first)


@pytest.mark.parametrize("kind", ["tilt", "leak"])
def test_errors_of_a_model_are_no_rounding(kind):
    for name in ("sparse-hmm", "paper-2gram"):
        language = languages.load(name)
        for sampler in ("low-confidence(temperature=0)", "ancestral"):
            asked = {"sampler": sampler, "length": 40, "rows": 6, "steps": 12}
            exact = generate(language, **asked).trace()
            for epsilon in (0.003, 0.03):
                assert rounding(exact, generate(Perturbed(language, kind, epsilon), **asked).trace()) is None


def tokens_edited(events, rng):
    for at in rng.sample(range(len(events)), 2):
        step, place, token, p = events[at]
        events[at] = (step, place, (token + 1 + rng.randrange(7)) % 8, p)


def probabilities_edited(events, rng):
    for at in rng.sample(range(len(events)), 5):
        *entry, p = events[at]
        events[at] = (*entry, p * rng.uniform(0.4, 0.9))


def all_probabilities_edited(events, rng):
    for at, (*entry, p) in enumerate(events):
        events[at] = (*entry, min(p * rng.uniform(0.4, 1.8), 0.999))


def positions_exchanged(events, rng):
    early, late = sorted(rng.sample(range(len(events)), 2))
    (first, one, *a), (second, other, *b) = events[early], events[late]
    events[early], events[late] = (first, other, *b), (second, one, *a)


EDITS = [tokens_edited, probabilities_edited, all_probabilities_edited, positions_exchanged]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ["sparse-hmm", "paper-2gram"])
def test_random_edits_are_no_rounding(name, edit):
    """Of some rows, for five seeds."""
    language = languages.load(name)
    trace = generate(language, sampler="low-confidence(temperature=0)", length=24, rows=6, steps=12).trace()
    for seed in range(5):
        rng = random.Random(seed)
        rows = [list(row.events) for row in trace.rows]
        for number in rng.sample(range(6), rng.choice([1, 3, 6])):
            edit(rows[number], rng)
        edited = [Row(length=24, events=sorted(events, key=lambda e: e[:2])) for events in rows]
        other = Trace(vocabulary=trace.vocabulary, rows=edited)
        made = difference(trace, other)
        if made.equal:
            assert edit is positions_exchanged
            continue
        assert made.rounding is None, (seed, made.verdict)
        assert made.verdict.startswith("different, by more than float32 rounds")


def test_where_it_begins():
    events = [(1, 2, 5, 0.25), (2, 1, 0, 0.5), (2, 3, 7, 0.5), (3, 0, 1, 0.5)]
    a = Trace(vocabulary=8, rows=[Row(length=4, events=events)])
    b = Trace(vocabulary=8, rows=[Row(length=4, events=[*events[:2], (2, 3, 6, 0.4), (3, 0, 1, 0.5)])])
    made = difference(a, b)
    assert made.first["a"] == "reveals 'h' at 4 (p = 0.5)"
    assert made.first["b"] == "reveals 'g' at 4 (p = 0.4)"
    assert (made.first["row"], made.first["step"], made.first["kind"]) == (0, 2, "tokens")
    assert made.before == {"steps": 1, "tokens": 1}
    assert (made.probabilities, made.log_ratio, made.rounding) == (0, 0.0, None)
