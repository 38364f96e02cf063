"""Every property of every row of the table of samplers; and wrong samplers, each of which its property must see."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import unmask.denoisers.ideal as exact
from tests.brute import ALARM, distribution, p_value
from tests.doubles import LANGUAGE, Asked, Choosing, Computing, Hollow, Ordering, Running, Watching
from tests.samplers import laws, plain
from tests.samplers.laws import ANCESTRAL, CASES, SHARP, follows, passes, strings
from tests.samplers.plain import SOURCES, alike, changed, matches
from tests.samplers.table import CHECKED_ELSEWHERE, FIRST, MASKED, ROWS, TABLE
from unmask import UnmaskError, generate
from unmask.core.chance import Stream
from unmask.denoisers import Canvas, Ideal
from unmask.languages import load
from unmask.metrics import output_distribution
from unmask.samplers import SAMPLERS, Choice, ranking, schedules, starting, walk
from unmask.samplers.contract import CANVAS
from unmask.samplers.ranking import ranks
from unmask.samplers.rules import adaptive
from unmask.samplers.rules.adaptive import EntropyBounded
from unmask.samplers.rules.autoregressive import Autoregressive
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers.rules.low_confidence import LowConfidence
from unmask.samplers.rules.speculative import Speculative

V = LANGUAGE.vocabulary


def named(value):
    return getattr(value, "sampler", getattr(value, "__name__", value))


def each(rows):
    return pytest.mark.parametrize("row", [*rows], ids=named)


def with_(part, rows=TABLE):
    """Rows that have this."""
    return [row for row in rows if getattr(row, part) not in (None, False)]


def test_every_sampler_has_a_row_with_a_law_or_a_plain_version():
    missing = {*SAMPLERS.names()} - {row.name for row in TABLE}
    assert not missing, f"add a row to tests/samplers/table.py for {missing}"
    judged = {row.name for row in TABLE if row.law or row.order or row.rule or row.loop}
    assert {*SAMPLERS.names()} - judged == {*CHECKED_ELSEWHERE}


# -------------------------------------------------------------------------------------------------------- distributions


@pytest.mark.parametrize(
    ("row", "name"),
    [(row, name) for row in TABLE if row.law or row.order for name in row.on],
    ids=named,
)
def test_law(row, name):
    for steps in row.steps:
        p = row.expected(name, steps)
        assert p.sum() == pytest.approx(1, abs=1e-9)
        assert passes(name, p, sampler=row.sampler, steps=steps, seed=steps or 3), steps


def order_passes(sampler, steps, expected):
    """Chi-square of the orders themselves, which see a wrong rate that few tokens betray."""
    language, length = CASES["interval"]
    made = generate(language, sampler=sampler, steps=steps, length=length, rows=60_000, seed=5)
    probabilities = {order: 0.0 for _, order in expected}
    for probability, order in expected:
        probabilities[order] += probability
    return p_value(made.order.numpy() - 1, np.array([*probabilities]), np.array([*probabilities.values()])) > ALARM


@each(with_("order"))
def test_law_of_orders(row):
    for steps in (2, 3, 4):
        assert order_passes(row.sampler, steps, row.order(steps, CASES["interval"][1]))


def one_at_a_time(row):
    """Whether it claims to be exact where each step has one position, and has such steps."""
    sampler = SAMPLERS.make(row.sampler)
    known = sampler.distribution in ("order", "causal", "language") and row.order is not laws.dyadic
    return known and (sampler.pace == "counts" or row.calls is not None)


@each(filter(one_at_a_time, FIRST))
def test_law_one_position_a_step_is_that_of_the_language_given_the_prompt(row):
    """q(. | given), of blank rows, a prompt, infilling and a suffix; and what was given stays.

    At N = 10^6 two of 4 positions share a step with probability 6e-6: far below what the test can see."""
    sampler = SAMPLERS.make(row.sampler)
    options = {"sampler": sampler, "steps": 10**6 if sampler.implements("order") else 4, "rows": laws.ROWS, "seed": 7}
    for name in CASES.keys() - {"leak"}:
        q, every = distribution(*CASES[name]), strings(name)
        for place in (None, 0, 1, 3) if name == "2-gram" else (None,):
            given, p = np.full(4, every.max() + 1), q
            if place is not None:
                given[place] = every[q.argmax()][place]
                p = np.where(every[:, place] == given[place], q, 0)
            try:
                made = generate(CASES[name][0], given=given, **options)
            except UnmaskError:
                assert "causal" in sampler.reads
                assert place
                continue
            assert follows(made.tokens, name, p / p.sum()), (name, place)
            assert place is None or bool((made.order[:, place] == 0).all())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["linear", "cosine", "geometric(ratio=3)", [0.5, 0.0, 0.3, 0.2]])
def test_law_that_is_enumerated_is_the_sum_over_all_labels(name, schedule):
    denoiser, length = laws.denoiser_of(name)
    for steps in (1, 2, 3, 4) if isinstance(schedule, str) else (4,):
        delta = schedules.deltas(schedule, steps)
        expected = laws.order_distribution(name, laws.labels(delta.tolist(), length))
        np.testing.assert_allclose(output_distribution(denoiser, length, delta).numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("sampler", ["left-to-right", "autoregressive", "speculative(draft_length=2)", "first-hitting"])
def test_law_at_a_temperature(sampler):
    """One distribution for the canvas, the causal reader and what is drawn; not that of the language."""
    p = laws.planned(laws.one_by_one if sampler == "first-hitting" else laws.causal)("sharp", 4)
    made = generate(CASES["2-gram"][0], sampler=sampler, steps=4, length=4, rows=laws.ROWS, seed=1, **SHARP)
    assert follows(made.tokens, "2-gram", p)
    assert not follows(made.tokens, "2-gram", distribution(*CASES["2-gram"]))
    assert made.ideal is None
    assert [made.configuration[name] for name in SHARP] == [*SHARP.values()]


# --------------------------------------------------------------------------------------------- mutants of distributions


def same_step_seen(session):
    """Positions of one step see each other."""
    order = Ancestral().order(session.delta, session.given == session.denoiser.vocabulary, session.rng)
    canvas = session.canvas
    for rows, positions, _ in walk(canvas, order):
        for place in range(order.shape[1]):
            now = positions == place
            if now.any():
                p = canvas.at(rows[now], positions[now])
                tokens = canvas.draw(p, rows[now], positions[now])
                session.write(rows[now], positions[now], tokens, p.of(tokens), 1)


def final_argmax(session):
    """What is left in the last step is filled by argmax (MDLM's noise removal)."""
    order = Ancestral().order(session.delta, session.given == session.denoiser.vocabulary, session.rng)
    canvas = session.canvas
    for rows, positions, p in walk(canvas, order):
        last = order[rows, positions] == len(session.delta)
        tokens = torch.where(last, p.best, canvas.draw(p, rows, positions))
        session.write(rows, positions, tokens, p.of(tokens), 1)


class ReusedUniform(LowConfidence):
    """LLaDA's rule, but every step draws a position from the same uniform."""

    def choose(self, view):
        view.canvas.visits.zero_()
        return super().choose(view)


class FlattenedTopK(LowConfidence):
    """One top-k over the whole batch, as in SMDM: rows trade positions with each other."""

    pace = "steps"

    def choose(self, view):
        tokens = view.draw()
        flat = [part.reshape(1, -1) for part in (view.of(tokens), view.hidden, view.rng(Stream.TIE))]
        return Choice((ranks(*flat) < view.count.sum()).view_as(view.hidden), tokens)


def wrong_rate(delta, hidden, rng):
    """Reveals with probability delta_k instead of rho_k at each step, and the rest at the end."""
    chances = torch.stack([rng.grid(Stream.ORDER, hidden.shape[1], k) for k in range(len(delta))], -1)
    revealed = chances < delta
    revealed[..., -1] = True
    return revealed.int().argmax(-1) + 1


@dataclass(frozen=True)
class SumOnly(EntropyBounded):
    """EB that bounds the sum of all entropies, the largest too."""

    def choose(self, view):
        place = ranking.in_order(view, ranking.SCORES[self.proxy](view), self.ties)
        total = ranking.arranged(view, view.entropy, place).cumsum(1).gather(1, place)
        return Choice(view.hidden & ((total <= self.gamma + 1e-9) | (place == 0)))


CAUSAL = laws.planned(laws.causal)
WRONG = {  # the mutant, what it is a mutant of, the law, the source, the number of steps
    "same step seen": (Running(same_step_seen), Ancestral(), ANCESTRAL, "2-gram", 3),
    "final argmax": (Running(final_argmax), Ancestral(), ANCESTRAL, "2-gram", 3),
    "reused uniform": (ReusedUniform(), LowConfidence(), laws.low_confidence(1.0), "leak", 4),
    "flattened top-k": (FlattenedTopK(), LowConfidence(), laws.low_confidence(1.0), "2-gram", 4),
    "sum of all entropies": (
        SumOnly(0.8, "margin"),
        EntropyBounded(0.8, "margin"),
        ROWS["entropy-bounded(gamma=0.8, proxy=margin)"].law,
        "2-gram",
        None,
    ),
    # sample-then-choose lets the order depend on what is drawn: a known bias, not a defect of ours
    "low confidence, one at a time": (LowConfidence(), Autoregressive(), laws.language, "2-gram", 4),
}


@pytest.mark.parametrize("what", WRONG)
def test_law_of_a_mutant(what):
    mutant, sampler, law, name, steps = WRONG[what]
    p = law(name, steps)
    assert passes(name, p, sampler=sampler, steps=steps)
    assert not passes(name, p, sampler=mutant, steps=steps)


def test_law_of_orders_of_a_mutant():
    assert not order_passes(Ordering(wrong_rate), 3, laws.independent(3, 4))


def test_a_row_reveals_what_its_own_schedule_gives():
    language, length = CASES["2-gram"]
    for sampler, own in ((LowConfidence(), True), (FlattenedTopK(), False)):
        order = generate(language, sampler=sampler, steps=4, length=length, rows=64).order
        assert bool((order.sort(1).values == torch.arange(1, 5)).all()) == own


@pytest.mark.parametrize("stale", ["forward", "backward", "both"])
def test_law_with_stale_messages(monkeypatch, stale):
    monkeypatch.setattr(Canvas, "follow", lambda canvas, order: None)
    sweep = exact.messages.sweep_rows

    def lazy(machine, tokens, forward, backward, *rest):
        forward = forward.copy() if stale != "backward" else forward
        backward = backward.copy() if stale != "forward" else backward
        sweep(machine, tokens, forward, backward, *rest)

    p = ANCESTRAL("hmm", 3)
    assert passes("hmm", p, sampler="ancestral", steps=3)
    monkeypatch.setattr(exact.messages, "sweep_rows", lazy)
    assert not passes("hmm", p, sampler="ancestral", steps=3)


def test_law_without_the_residual(monkeypatch):
    """After a refusal the target itself is drawn from, not what it has over the draft."""
    p = CAUSAL("leak", None)
    assert passes("leak", p, sampler=Speculative(4))
    monkeypatch.setattr("unmask.denoisers.marginals.Table.beyond", lambda target, draft: target)
    assert not passes("leak", p, sampler=Speculative(4))


@each([ROWS["gibbs(sweeps=2)"], ROWS["gibbs(sweeps=2, stride=2)"]])
def test_law_of_the_base_alone(row):
    """Sweeps are seen."""
    for name in row.on:
        assert not passes(name, ANCESTRAL(name, 2), sampler=row.sampler, steps=2, seed=2)


def test_law_of_a_perturbed_model_is_not_the_language():
    """Power: a KL of 0.1 nats a token is seen at once."""
    assert not passes("leak", distribution(laws.CHAIN, 4), sampler=Autoregressive())


# ------------------------------------------------------------------------------------------------------- plain versions


@pytest.mark.parametrize("source", SOURCES)
@each(with_("rule"))
def test_tokens_and_calls_are_those_of_the_plain_rule(row, source):
    assert matches(source, row.sampler, row.rule, row.options, steps=plain.STEPS)


@each(with_("rule")[::4])
def test_memory_is_empty_where_a_block_begins(row):
    assert matches("leak", row.sampler, row.rule, row.options, blocks=2, steps=3)


def size(row):
    """(rows, steps) that show all of a loop."""
    return (40, 8) if row.name == "remdm" else (plain.ROWS, plain.STEPS)


@pytest.mark.parametrize("source", SOURCES)
@each(with_("loop"))
def test_tokens_are_those_of_the_plain_loop(row, source):
    assert alike(source, row.sampler, row.loop, row.options, *size(row))


FAULTS = [  # the plain loop with a subtle fault, which some row shows
    ("wino(threshold=0.15)", {"back": 0.2}),
    ("wino(threshold=0.3)", {"capped": False}),
    ("token-editing(threshold=0.4, editing=0.5)", {"post": 0}),
    ("token-editing(threshold=0.4, editing=0.5)", {"to": "mask"}),
    ("p2(eta=2.0)", {"eta": 1.0}),
]


@pytest.mark.parametrize(("sampler", "fault"), FAULTS)
def test_tokens_of_a_wrong_loop(sampler, fault):
    row = ROWS[sampler]
    assert not alike("hmm", sampler, row.loop, row.options | fault)


def test_tokens_of_a_loop_that_sees_the_token_itself(monkeypatch):
    """What stands is scored in its own sight, where it is certain."""
    row = ROWS["wino(threshold=0.3)"]
    monkeypatch.setattr(plain.Row, "around", lambda row, j, context=None: row.said(context)[j])
    assert not alike("hmm", row.sampler, row.loop, row.options)


LINES = {  # the module, what stands there, what stands there instead, the row that tells them apart
    "one step too few": ("rules.adaptive", "stable >= self.history", "stable >= self.history - 1", "klass", 1),
    "settled for ever": ("rules.adaptive", "torch.where(calm, stable + 1, 0)", "stable + calm.long()", "klass", 2),
    "a bound too tight": ("rules.adaptive", "(self.history - 1)", "(self.history - 3)", "klass", 2),
    "the other divergence": (
        "view",
        "view.marginals[now[known] - 1].divergence(earlier[before[known] - 1])",
        "earlier[before[known] - 1].divergence(view.marginals[now[known] - 1])",
        "klass",
        1,
    ),
    "the radius is off by one": ("rules.adaptive", "place - self.radius)", "place - self.radius + 1)", "localleap", 1),
    "surer neighbours": ("rules.adaptive", "near & at_least", "view.hidden & at_least", "localleap", 1),
}


@pytest.mark.parametrize("what", LINES)
def test_tokens_of_a_wrong_rule(what, monkeypatch):
    module, old, new, name, number = LINES[what]
    row = [row for row in TABLE if row.name == name][number]
    maker = SAMPLERS.find(name)
    made = changed(importlib.import_module(f"unmask.samplers.{module}"), old, new)
    if module == "view":
        monkeypatch.setattr(f"{maker.__module__}.divergence", made["divergence"])
    sampler = made.get(maker.__name__, maker)(**row.options)
    assert not all(matches(source, sampler, row.rule, row.options) for source in SOURCES)


# -------------------------------------------------------------------------------------------------------- what it costs


def given_patterns(length, rows=5):
    """Blank canvases, prompts of several lengths, and infilling."""
    drawn = LANGUAGE.sample(rows, length, seed=3)
    row, place = torch.arange(rows).unsqueeze(1), torch.arange(length)
    return {
        "blank": torch.full((rows, length), V),
        "ragged prompts": torch.where(place < 2 * row, drawn, V),
        "infilling": torch.where((place + row) % 3 == 1, drawn, V),
    }


@pytest.mark.parametrize(
    ("row", "kind"),
    [(row, kind) for row in MASKED for kind in (Asked, Computing, Hollow) if row.looks or kind is not Hollow],
    ids=named,
)
def test_counts(row, kind):
    """Calls, rows and tokens are those that the denoiser counts, on blank canvases, ragged prompts and infilling.

    Of a sampler that looks back every place that stands is a context; of an exact denoiser none is, and of a hollow one
    a single evaluation says all: those that are counted are those that are computed."""
    reads = SAMPLERS.make(row.sampler).reads
    for what, given in given_patterns(12).items():
        denoiser, options = kind(), {"sampler": row.sampler, "given": given, "steps": 6, "seed": 4}
        try:
            made = generate(denoiser, **options)
        except UnmaskError:
            assert (what, "causal" in reads) == ("infilling", True)
            continue
        assert made.spent == denoiser.counted, what
        assert made.spent.rows > 0
        alone = generate(Ideal(LANGUAGE), **options)
        assert torch.equal(made.tokens, alone.tokens)
        assert torch.equal(made.order, alone.order)
        if row.alone:  # that one counts what the published code pays for
            continue
        needed = int(made.model_calls.sum())
        if row.looks and kind is not Hollow:
            assert bool((made.model_calls >= alone.model_calls).all())
        else:
            assert torch.equal(made.model_calls, alone.model_calls)
        if reads == CANVAS:  # a reader from scratch computes a row for each prefix of a call
            assert needed <= made.spent.rows if kind is Computing else needed == made.spent.rows  # it keeps nothing


def test_counts_of_a_canvas_that_forgets_what_was_looked_at_ahead(monkeypatch):
    """Mutant."""
    monkeypatch.setattr(Canvas, "spent", property(lambda canvas: canvas._engine.spent))
    denoiser = Asked()
    made = generate(denoiser, sampler="self-speculative", steps=6, length=12, rows=5)
    assert made.spent != denoiser.counted


@each(with_("calls"))
def test_calls(row):
    for source, length in ((load("sparse-hmm"), 32), (Asked(), 16)):
        made = generate(source, sampler=row.sampler, steps=8, length=length, rows=20, seed=3)
        calls = row.calls(8, length)
        assert made.model_calls.tolist() == [calls] * 20
        if not row.alone:  # that one counts what the published code pays for
            assert (made.spent.forwards, made.spent.rows) == (calls, 20 * calls)


# ----------------------------------------------------------------------------------------- rows do not depend on others

PARTS = ("tokens", "order", "probability", "model_calls", "impossible")
LENGTHS = [9, 1, 6, 9, 4]
PROMPTS = [0, 0, 2, 5, 4]  # the last one is complete


@each(FIRST)
@pytest.mark.parametrize("language", ["sparse-hmm", "paper-3gram", "interval-5"])
def test_threads(row, language, monkeypatch):
    """The same rows in blocks, which three threads share; alone and by first_row they are in the kit's own check."""
    options = {"sampler": row.alone or row.sampler, "steps": 8, "length": 24, "rows": 12, "seed": 4}
    whole = generate(load(language), **options)
    monkeypatch.setattr(exact.Ideal, "rows_at_once", lambda denoiser, length: 5)
    monkeypatch.setenv("UNMASK_THREADS", "3")
    made = generate(load(language), **options)
    assert all(torch.equal(getattr(whole, part), getattr(made, part)) for part in PARTS)


def row_alike(made, row, alone):
    """Whether a row of a generation is the only one of another, at its own length."""
    size = alone.tokens.shape[1]
    for name in ("tokens", "order"):
        assert torch.equal(getattr(made, name)[row, :size], getattr(alone, name)[0]), (name, row)
    torch.testing.assert_close(made.probability[row, :size], alone.probability[0], rtol=1e-12, atol=0)
    for name in ("lengths", "model_calls", "impossible"):
        assert torch.equal(getattr(made, name)[row], getattr(alone, name)[0]), (name, row)
    assert bool((made.order[row, size:] == 0).all())


def lines():
    drawn = LANGUAGE.sample(len(LENGTHS), max(LENGTHS), seed=5).tolist()
    return [[*row[:begun], *[V] * (size - begun)] for row, begun, size in zip(drawn, PROMPTS, LENGTHS, strict=True)]


def language():
    return LANGUAGE


@pytest.mark.parametrize(
    ("row", "kind"), [*((row, language) for row in FIRST), *((row, Asked) for row in MASKED)], ids=named
)
def test_ragged(row, kind, monkeypatch):
    """In one call, in small blocks, and whatever stands in the padding."""
    options = {"sampler": row.alone or row.sampler, "steps": 4, "seed": 6}
    made = generate(kind(), given=lines(), **options)
    assert made.lengths.tolist() == LENGTHS
    assert {*made.reasons} <= {"filled", "done"}
    for number, line in enumerate(lines()):
        row_alike(made, number, generate(kind(), given=[line], first_row=number, **options))
    for junk in (1, V, V + 7, -3):
        monkeypatch.setattr(starting, "PADDING", junk)
        other = generate(kind(), given=lines(), **options)
        for number, length in enumerate(LENGTHS):
            assert torch.equal(other.tokens[number, :length], made.tokens[number, :length]), junk
        assert torch.equal(other.order, made.order)
        assert torch.equal(other.model_calls, made.model_calls)


@each([row for row in MASKED if "causal" not in SAMPLERS.make(row.sampler).reads])
def test_ragged_infilling(row):
    drawn = LANGUAGE.sample(3, 9, seed=5).tolist()
    given = [[V, *drawn[0][1:3], V, V], [*drawn[1][:1], V, V, *drawn[1][3:8], V], [V, V]]
    options = {"sampler": row.alone or row.sampler, "steps": 4, "seed": 6}
    made = generate(LANGUAGE, given=given, **options)
    for number, line in enumerate(given):
        row_alike(made, number, generate(LANGUAGE, given=[line], first_row=number, **options))


# ----------------------------------------------------------------------------------------------------------------- ties


def at_one_half(sampler):
    """Of each step and row of brackets: what is equal to 1/2 but for noise, what is above it, and what is revealed."""
    inner, steps = SAMPLERS.make(sampler), []

    def choose(view):
        choice = inner.choose(view)
        known = view.confidence if choice.tokens is None else view.of(choice.tokens)
        equal = view.hidden & ((known - 0.5).abs() < 1e-12)
        above = view.hidden & ~equal & (known > 0.5)
        steps.append((equal, above, choice.reveal & view.hidden, view.hidden.any(1), known))
        return choice

    generate(load("brackets"), sampler=Choosing(choose, "free", revises=True), length=12, rows=40, seed=1)
    return [torch.cat(parts) for parts in zip(*steps, strict=True)]


def ties_hold(row):
    """Whether a step reveals what is above 1/2, what is equal to it unless the rule is strict, or else one position."""
    equal, above, revealed, going, _ = at_one_half(row.sampler)
    ready = above if row.strict else above | equal
    some = ready.any(1, keepdim=True)
    alone = (revealed.sum(1) == 1) | ~going
    return torch.equal(revealed & some, ready & some) and bool(alone[~some.squeeze(1)].all())


TIES = [row for row in TABLE if row.strict is not None]


@each(TIES)
def test_ties(row):
    """Every second confidence is equal to the threshold, but for noise of up to 3e-16, which decides nothing."""
    assert ties_hold(row)


def test_ties_that_noise_could_decide():
    equal, _, _, _, known = at_one_half("localleap(threshold=0.5, relief=0)")
    noise = known[equal] - 0.5
    assert len(noise) > 100
    assert bool((noise > 0).any())
    assert bool((noise <= 0).any())


@pytest.mark.parametrize(("name", "old"), [("above", "threshold"), ("at_least", "localleap")])
def test_ties_of_a_mutant_that_compares_floats(name, old, monkeypatch):
    wrong = {
        "above": lambda view, values, bound: values > bound,
        "at_least": lambda view, values, bound: values >= bound,
    }
    monkeypatch.setattr(adaptive, name, wrong[name])
    monkeypatch.setattr(ranking, name, wrong[name])
    assert not ties_hold(next(row for row in TIES if row.name == old))


@pytest.mark.parametrize(("factor", "together"), [(1.5, 1), (1.5 + 1e-6, 2)])
def test_ties_of_a_factor_that_is_reached_exactly(factor, together):
    """(n + 1)(1 - c_(n)) of two positions is 3 (1 - 1/2)."""
    equal, above, revealed, _, _ = at_one_half(f"factor(factor={factor!r})")
    here = (equal.sum(1) > 1) & ~above.any(1)
    assert int(here.sum()) > 10
    assert revealed[here].sum(1).unique().tolist() == [together]


# ---------------------------------------------------------------------------------------------- traces, names, revision


@each(FIRST)
def test_trace_ends_where_the_generation_ends(row):
    """The last reveal of each place, its step and its probability; and nobody's random numbers change."""
    asked = {"sampler": row.sampler, "steps": 4, "length": 12, "rows": 2, "seed": 5}
    made = generate("paper-2gram", **asked, trace=True)
    assert torch.equal(made.tokens, generate("paper-2gram", **asked).tokens)
    for number, found in enumerate(made.trace().rows):
        last = {position: (turn, token, p) for turn, position, token, p in found.events}
        assert [last[place][0] for place in range(12)] == made.order[number].tolist()
        assert [last[place][1] for place in range(12)] == made.tokens[number].tolist()
        assert [last[place][2] for place in range(12)] == pytest.approx(made.probability[number].tolist())


@pytest.mark.parametrize("name", sorted({*ROWS, *SAMPLERS.makers}))
def test_spec_makes_the_sampler_again(name):
    sampler = SAMPLERS.make(name)
    again = SAMPLERS.make(sampler.spec)
    assert type(again) is type(sampler)
    assert vars(again) == vars(sampler)
    assert again.spec == sampler.spec


REVISING = {"gibbs", "remdm", "p2", "token-editing", "wino", "renoise", "uniform-ancestral"}


@pytest.mark.parametrize("name", [*(row.sampler for row in FIRST), "blocks(block_length=4, inner=remdm)"])
def test_revises_what_has_been_decided(name):
    """It stays as it is, whoever looks on after each step; unless the sampler says that it revises."""
    sampler, before, changed = SAMPLERS.make(name), [], []

    def see(progress):
        if len(progress.tokens) == 8:
            if before:
                changed.append(bool((~before[-1][1] & (progress.tokens != before[-1][0])).any()))
            before.append((progress.tokens.clone(), progress.hidden.clone()))

    generate(LANGUAGE, sampler=sampler, steps=12, length=12, rows=8, seed=2, stop=Watching(see))
    assert before
    assert sampler.revises or not any(changed)
    assert sampler.revises == (name.partition("(")[0] in REVISING or "inner=remdm" in name)
