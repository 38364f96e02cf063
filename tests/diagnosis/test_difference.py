"""The difference of two traces: each planted cause is named, and no cause is named that is not there."""

from __future__ import annotations

import random

import msgspec
import pytest
import torch

from tests.hub.small import CONFIGS, MASK, V, card, load, published
from unmask import UnmaskError, difference, generate, languages
from unmask.generation.trace import Row, Trace, check, read
from unmask.ideal import Perturbed, as_denoiser

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
def llada(logits, rows, steps, *, block=LENGTH, vocabulary=V, together=False, stable=0, dtype=torch.float64):
    """LLaDA's published loop at temperature 0, for `logits(ids)` (B, L, V): even counts of a block, first ones larger.

    together: the most confident positions of all rows, not of each. stable: commit all that is left once this number
    of predictions are equal, as DiffusionGemma does.
    """
    lengths = [len(row) for row in rows]
    x = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in rows])
    recorder = Recorder(x, lengths, vocabulary)
    prompt = int((x[0] == vocabulary).int().argmax())
    blocks = (max(lengths) - prompt) // block or 1
    history = []
    for number in range(blocks):
        end = prompt + (number + 1) * block if blocks > 1 else max(lengths)
        turns = steps // blocks + (number < steps % blocks)
        size = ((x == vocabulary) & (torch.arange(x.shape[1]) < end)).sum(1)
        for step in range(turns):
            hidden = (x == vocabulary) & (torch.arange(x.shape[1]) < end)
            count = size // turns + (step < size % turns)
            p = logits(x).to(dtype).softmax(-1)
            probability, tokens = p.max(-1)
            history.append(torch.where(x == vocabulary, tokens, x))
            score = torch.where(hidden, probability, -torch.inf)
            chosen = torch.zeros_like(hidden)
            if together:
                chosen.view(-1)[score.view(-1).topk(int(count.sum())).indices] = True
            else:
                for row in range(len(x)):
                    chosen[row, score[row].topk(int(count[row])).indices] = True
            if stable:
                same = len(history) >= stable and all(torch.equal(history[-1], old) for old in history[-stable:])
                chosen = hidden if same else chosen
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


def named(a, b, **options):
    cause = difference(a, b, **options).cause
    return None if cause is None else cause.name


def without_source(trace):
    return msgspec.structs.replace(trace, source=None)


def test_equal_traces_are_equal(model, base, tmp_path):
    trace = base
    same = difference(trace, ours(model))
    assert (same.equal, same.differing, same.tokens, same.first) == (True, 0, ROWS * (LENGTH - PROMPT), None)
    assert same.verdict.startswith("equal: 8 rows, 208 tokens")
    trace.write(tmp_path / "t.json")
    assert difference(trace, read(tmp_path / "t.json")).equal


def test_the_published_loop_differs_from_ours_by_rounding_only(model):
    """Its probabilities are computed in float64 from the same logits, for one row at a time or all together."""
    steps = 12
    theirs = llada(of_model(model), prompts([PROMPT + 24] * ROWS), steps, block=BLOCK)
    made = difference(ours(model, [PROMPT + 24] * ROWS, steps=steps), theirs)
    assert set(made.kinds) <= {"probabilities"}
    assert made.equal or (made.cause.name, made.cause.numbers["dtype"]) == ("rounding", "float32")


def test_the_published_loop_orders_ties_in_another_way():
    """Most tokens of the interval language are equally likely: torch.topk takes others than the leftmost."""
    language = languages.load("interval-5")
    oracle = as_denoiser(language)
    rows = language.sample(4, 40, seed=1)
    rows[:, [at for at in range(40) if at not in (0, 2, 4, 20, 22, 39)]] = language.vocabulary
    rows = rows.tolist()
    theirs = llada(lambda x: oracle.probabilities(x).log(), rows, 20, block=40, vocabulary=language.vocabulary)
    options = "llada(block_length=40, ties=position)"
    made = difference(generate(language, sampler=options, given=rows, steps=20).trace(), theirs)
    assert made.cause.name == "tie"
    assert (made.first["kind"], made.probabilities["differing"]) == ("positions", 0)
    same = generate(language, sampler="llada(block_length=40)", given=rows, steps=20).trace()
    assert difference(same, theirs).equal


def test_bfloat16_against_float32(checkpoint, base):
    low = ours(load(checkpoint, card("llada"), torch.bfloat16))
    for first, second in ((base, low), (without_source(base), without_source(low))):
        made = difference(first, second)
        assert (made.cause.name, made.cause.numbers["dtype"]) == ("rounding", "bfloat16")
        assert 1 < made.cause.numbers["ulps"] < 16
    assert "float32 and bfloat16" in difference(base, low).cause.text


def test_batch_1_against_8(checkpoint, model, base):
    alone = ours(load(checkpoint, card("llada"), torch.float32, batch=1))
    made = difference(base, alone)
    assert set(made.kinds) <= {"probabilities"}
    assert made.equal or (made.cause.name, made.cause.numbers["dtype"]) == ("rounding", "float32")
    rows = prompts([LENGTH] * ROWS)
    each, together = (llada(of_model(model), rows, STEPS, together=flag) for flag in (False, True))
    assert named(each, together) == "one choice for the batch"


@pytest.mark.parametrize("cache", ["prefix(block=8)", "dual(block=8)"])
def test_a_cache_against_none(checkpoint, base, cache):
    cached = ours(load(checkpoint, card("llada"), torch.float32, cache=cache))
    assert named(base, cached) == "cache"
    assert named(without_source(base), without_source(cached)) == "cache"


def test_a_canvas_is_committed_a_step_early(model):
    """vllm#45965: a window of one prediction is always stable; two equal ones were meant."""
    rows = prompts([LENGTH] * ROWS)
    runs = [[llada(of_model(model), [row], STEPS, stable=window).rows[0] for row in rows] for window in (1, 2, 3)]
    first, second, third = (Trace(vocabulary=V, rows=one) for one in runs)
    for late, early in ((second, first), (third, second)):
        made = difference(late, early)
        assert (made.cause.name, made.cause.numbers["trace"]) == ("commits early", "B")
        assert difference(early, late).cause.numbers["trace"] == "A"


def test_a_canvas_attends_to_padding(model):
    """tt-metal#48291: rows of several lengths in one batch against each alone."""
    lengths = [32, 20, 32, 26, 14, 32, 23, 29]
    rows = prompts(lengths)
    alone = Trace(vocabulary=V, rows=[llada(of_model(model), [row], STEPS).rows[0] for row in rows])
    padded = llada(of_model(model), rows, STEPS)
    assert named(alone, padded) == "padding"
    assert named(alone.of([0, 2, 5]), padded.of([0, 2, 5])) in (None, "rounding")
    ragged = ours(model, lengths, sampler="low-confidence(temperature=0, ties=topk)")
    assert named(ragged, alone) in (None, "rounding")


@pytest.mark.parametrize("temperature", [0.8, 0.9, 1.2])
@pytest.mark.parametrize("sampler", ["ancestral", "entropy"])
def test_temperature(sampler, temperature):
    asked = {"sampler": sampler, "length": 40, "rows": 12, "steps": 20}
    usual, other = (generate(LANGUAGE, **asked, temperature=t).trace() for t in (1, temperature))
    colder = "B" if temperature < 1 else "A"
    for first, second in ((usual, other), (other, usual)):
        made = difference(first, second).cause
        low, high = made.numbers["ratio"]
        assert (made.name, made.numbers["lower"]) == (
            "temperature",
            colder if first is usual else {"A": "B", "B": "A"}[colder],
        )
        assert low - 1e-3 < min(temperature, 1 / temperature) < high + 1e-3
    known = difference(usual, other, as_denoiser(LANGUAGE)).cause.numbers
    assert (known["a"], known["b"]) == (pytest.approx(1, abs=1e-3), pytest.approx(temperature, abs=1e-3))


def test_temperature_of_greedy_tokens_needs_the_weights(model):
    """All are more likely than 1 / V, which other changes of a model can do too; the weights decide."""
    warm, cold = (ours(model, sampler="low-confidence", temperature=t) for t in (1, 0.9))
    assert named(warm, cold) is None
    known = difference(warm, cold, model)
    assert known.cause.numbers == {"a": pytest.approx(1, abs=1e-3), "b": pytest.approx(0.9, abs=1e-3)}
    asked = {"sampler": "low-confidence(temperature=0)", "length": 32, "rows": 8, "steps": 16}
    near = [generate(LANGUAGE, **asked, temperature=t).trace() for t in (1, 0.99)]
    assert named(*near) is None
    assert named(*near, denoiser=as_denoiser(LANGUAGE)) == "temperature"


@pytest.mark.parametrize("temperature", [0.95, 1.05])
def test_a_temperature_near_1_is_not_called_rounding(temperature):
    for name in ("sparse-hmm", "paper-2gram"):
        for sampler in ("ancestral", "low-confidence"):
            asked = {"sampler": sampler, "length": 40, "rows": 6, "steps": 12}
            usual, other = (generate(name, **asked, temperature=t).trace() for t in (1, temperature))
            assert named(usual, other) in (None, "temperature")


@pytest.mark.parametrize("kind", ["tilt", "leak"])
def test_other_errors_of_a_model_are_no_temperature(kind):
    for name in ("sparse-hmm", "paper-2gram"):
        language = languages.load(name)
        for sampler in ("low-confidence(temperature=0)", "ancestral"):
            asked = {"sampler": sampler, "length": 40, "rows": 6, "steps": 12}
            exact = generate(language, **asked).trace()
            for epsilon in (0.003, 0.03):
                assert named(exact, generate(Perturbed(language, kind, epsilon), **asked).trace()) is None


def test_end_handling():
    """A row that stops at its first end, and one that goes on; cut there, or filled with the end."""
    asked = {"sampler": "left-to-right", "length": 24, "steps": 24, "rows": 12, "seed": 1}
    on = generate(LANGUAGE, **asked).trace()
    stopped = generate(LANGUAGE, **asked, stop=2).trace()
    assert min(row.length for row in stopped.rows) < 24
    made = difference(on, stopped)
    assert (made.cause.name, made.cause.numbers) == ("end handling", {"end": 2})
    filled = []
    for row in stopped.rows:
        last = row.events[-1][0]
        rest = [(last, at, 2, 1.0) for at in range(row.length, 24)]
        filled.append(Row(length=24, events=[*row.events, *rest]))
    assert named(on, Trace(vocabulary=on.vocabulary, rows=filled)) == "end handling"
    assert named(on, Trace(vocabulary=on.vocabulary, rows=filled), ends=(2,)) == "end handling"
    assert named(on, Trace(vocabulary=on.vocabulary, rows=filled), ends=(3,)) != "end handling"


@pytest.mark.parametrize("shift", [1, 3])
def test_step_numbers(base, shift):
    trace = base
    moved = [Row(length=r.length, given=r.given, events=[(e[0] + shift, *e[1:]) for e in r.events]) for r in trace.rows]
    late = Trace(vocabulary=V, rows=moved)
    assert difference(trace, late).cause.numbers == {"shift": shift}
    assert named(late, trace) == ("off by one step" if shift == 1 else "shifted steps")


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
def test_random_edits_are_unexplained(name, edit):
    """Of some rows, for five seeds; the model does not explain them, either."""
    language = languages.load(name)
    trace = generate(language, sampler="low-confidence(temperature=0)", length=24, rows=6, steps=12).trace()
    for seed in range(5):
        rng = random.Random(seed)
        rows = [list(row.events) for row in trace.rows]
        for number in rng.sample(range(6), rng.choice([1, 3, 6])):
            edit(rows[number], rng)
        edited = [Row(length=24, events=sorted(events, key=lambda e: e[:2])) for events in rows]
        other = Trace(vocabulary=trace.vocabulary, rows=edited)
        made = difference(trace, other, as_denoiser(language) if seed == 0 else None)
        if made.equal:
            assert edit is positions_exchanged
            continue
        assert made.cause is None, (seed, made.cause)
        assert made.verdict.startswith("different: unexplained")


@pytest.mark.parametrize("sampler", ["ancestral", "fixed-size", "low-confidence", "entropy"])
def test_another_seed_is_unexplained(sampler):
    asked = {"sampler": sampler, "length": 24, "rows": 6, "steps": 12}
    for name in ("sparse-hmm", "paper-2gram", "interval-5"):
        language = languages.load(name)
        a, b = (generate(language, **asked | {"length": 40, "steps": 40}, seed=seed).trace() for seed in (0, 1))
        assert named(a, b) is None


def test_another_rule_and_another_model_are_unexplained(model, base, tmp_path):
    other = load(published(tmp_path, "llada", CONFIGS["llada"], seed=1), card("llada"), torch.float32)
    assert named(base, ours(other)) is None
    assert named(base, ours(model, sampler="entropy")) is None
    assert named(base, ours(model, sampler="llada(block_length=8)", guidance=1.0)) is None


def test_where_it_begins_and_what_it_costs():
    language = languages.load("paper-2gram")
    events = [(1, 2, 5, 0.25), (2, 1, 0, 0.5), (2, 3, 7, 0.5), (3, 0, 1, 0.5)]
    a = Trace(vocabulary=8, rows=[Row(length=4, events=events)])
    b = Trace(vocabulary=8, rows=[Row(length=4, events=[*events[:2], (2, 3, 6, 0.4), (3, 0, 1, 0.5)])])
    made = difference(a, b, as_denoiser(language))
    assert made.first["a"] == "reveals 'h' at 4 (p = 0.5)"
    assert made.first["b"] == "reveals 'g' at 4 (p = 0.4)"
    assert (made.first["row"], made.first["step"], made.first["kind"]) == (0, 2, "tokens")
    assert made.before == {"steps": 1, "tokens": 1}
    ideal = as_denoiser(language)
    costs = []
    for token in (7, 6):
        second, third = torch.tensor([[8, 8, 5, 8]]), torch.tensor([[8, 0, 5, token]])
        p = ideal.probabilities(second)[0]
        costs.append(float((p[1, 0] * p[3, token] * ideal.probabilities(third)[0, 0, 1]).log()))
    if all(cost > -torch.inf for cost in costs):
        assert made.cost.nats_per_row == pytest.approx(costs[0] - costs[1])
    else:
        assert made.cost.nats_per_row != made.cost.nats_per_row


ROW = Row(length=4, given=[(0, 1)], events=[(1, 1, 2, 0.5)])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary": 9}, "A has 8 symbols, B has 9; expected traces of one vocabulary"),
        ({"rows": [ROW, ROW]}, "A has 1 rows, B has 2; expected the same rows"),
        (
            {"rows": [msgspec.structs.replace(ROW, length=5)]},
            "row 0 has 4 positions in A, 5 in B; expected rows of the",
        ),
        (
            {"rows": [msgspec.structs.replace(ROW, given=[(0, 2)])]},
            "row 0 has given token 1 at position 1 in A, token 2 in B; expected the same given tokens",
        ),
        ({"rows": [msgspec.structs.replace(ROW, given=[])]}, "given token 1 at position 1 in A, no token in B"),
    ],
)
def test_traces_that_cannot_be_compared_are_refused(changes, message):
    a = Trace(vocabulary=8, rows=[ROW])
    with pytest.raises(UnmaskError, match=message):
        difference(a, msgspec.structs.replace(a, **changes))


def test_a_model_of_another_vocabulary_is_refused():
    a, b = (Trace(vocabulary=8, rows=[Row(length=1, events=[(1, 0, token, 0.5)])]) for token in (1, 2))
    with pytest.raises(UnmaskError, match="the traces have 8 symbols, the ideal denoiser of interval has 16"):
        difference(a, b, as_denoiser(languages.load("interval-5")))
