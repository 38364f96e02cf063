"""Rules that take back, token for token, against plain Python; drafts; and published loops.

As in test_reference: one row at a time, every context evaluated from scratch, the same randomness.
"""

from __future__ import annotations

import math

import pytest
import torch

from tests.diagnosis.audit.loops import dream as published_dream
from tests.diagnosis.audit.loops import llada as published_llada
from tests.samplers.counting import LOOKING_BACK
from tests.samplers.test_reference import LENGTH, SEED, SOURCES, draw, heat, rng, surest_first, written
from unmask import UnmaskError, generate, oracle
from unmask.core.chance import Stream
from unmask.denoisers import Denoiser, Ideal
from unmask.diagnosis import conformance
from unmask.languages import Language, load
from unmask.samplers import SAMPLERS
from unmask.samplers.rules.dream import SCORED, fractions
from unmask.samplers.rules.p2 import PathPlanning

STEPS, ROWS = 4, 5


class Row:
    """One row on its way, in plain Python."""

    def __init__(self, denoiser, number):
        self.denoiser, self.number, self.mask = denoiser, number, denoiser.vocabulary
        self.context, self.visits, self.turn = [self.mask] * LENGTH, [0] * LENGTH, 0

    @property
    def hidden(self):
        return [j for j in range(LENGTH) if self.context[j] == self.mask]

    @property
    def standing(self):
        return [j for j in range(LENGTH) if self.context[j] != self.mask]

    def said(self, context=None):
        return self.denoiser.posterior(torch.tensor([context or self.context]))[0].tolist()

    def around(self, j, context=None):
        """What is said of j given all others."""
        shown = list(context or self.context)
        shown[j] = self.mask
        return self.said(shown)[j]

    def drawn(self, j, p, temperature=1.0):
        self.visits[j] += 1
        return draw(heat(p, temperature), rng(Stream.TOKEN, self.number, j, self.visits[j] - 1))

    def best(self, scores, ties="chance"):
        return surest_first(self.number, self.turn, scores, ties)

    def round(self, temperature=1.0):
        """(tokens drawn at every hidden position, the probability of each)."""
        self.turn += 1
        p = self.said()
        tokens = {j: self.drawn(j, p[j], temperature) for j in self.hidden}
        return tokens, {j: p[j][v] for j, v in tokens.items()}

    def write(self, places, tokens):
        for j in places:
            self.context[j] = tokens[j]

    def hide(self, places):
        for j in places:
            self.context[j] = self.mask


def wino(row, threshold=0.6, back=0.9, capped=True, temperature=1.0, ties="chance"):
    earlier = 0
    while row.hidden:
        tokens, sure = row.round(temperature)
        wide = [j for n, j in enumerate(row.best(sure, ties)) if n == 0 or sure[j] > threshold]
        wide = wide[: min(max(int(0.7 * len(sure)), 5), 20)] if capped else wide
        now = {j: row.around(j)[row.context[j]] for j in row.standing}
        fewer = len(wide) - 1
        if capped:
            fewer = (earlier or 30) - 1 if len(wide) > 1 else 0
        doubted = [j for j in row.best({j: -x for j, x in now.items()}, ties) if now[j] < back]
        row.write(wide, tokens)
        row.hide(doubted[:fewer])
        earlier = len(wide)


def editing(row, threshold=0.95, editing=0.9, to="token", trigger="other", least=1, post=16):
    again = 0
    while True:
        full = not row.hidden
        again += full
        tokens, sure = row.round()
        new = [j for n, j in enumerate(row.best(sure)) if n < least or sure[j] > threshold]
        said = {j: row.around(j) for j in row.standing}
        other = {j: row.drawn(j, p) for j, p in said.items()} if trigger == "other" else {}
        wrong = [j for j in other if other[j] != row.context[j] and said[j][other[j]] > editing]
        if trigger == "own":
            wrong = [j for j, p in said.items() if p[row.context[j]] < 1 - editing]
        own = {j: -said[j][row.context[j]] for j in said}
        row.write(new, tokens)
        if to == "token":
            row.write(wrong, other)
        else:
            row.hide([j for j in row.best(own) if j in wrong][: len(wrong) if full else max(len(new) - 1, 0)])
        if not row.hidden and (again >= post or (full and not wrong)):
            return


def p2(row, eta=1.0, temperature=1.0):
    for k in range(STEPS):
        was, standing = row.hidden, row.standing
        tokens, sure = row.round(temperature)
        said = sure | {j: row.around(j)[row.context[j]] for j in standing}
        scores = {j: math.log(max(q, 1e-300)) * (eta if j in standing else 1) for j, q in said.items()}
        kept = row.best(scores)[: LENGTH - math.floor((1 - (k + 1) / STEPS) * LENGTH + 1e-9)]
        row.write([j for j in was if j in kept], tokens)
        row.hide([j for j in standing if j not in kept])


RULES = {"wino": wino, "token-editing": editing, "p2": p2}
CASES = [
    ("wino", {"threshold": 0.3}),
    ("wino", {"threshold": 0.05, "back": 1.0, "ties": "position"}),
    ("wino", {"threshold": 0.2, "capped": False, "temperature": 0.7}),
    ("token-editing", {"threshold": 0.4, "editing": 0.5}),
    ("token-editing", {"threshold": 0.3, "editing": 0.6, "to": "mask", "least": 3}),
    ("token-editing", {"threshold": 0.3, "to": "mask", "trigger": "own", "post": 2}),
    ("p2", {}),
    ("p2", {"eta": 0.3, "temperature": 0.5}),
    ("p2", {"eta": 2.0}),
]


def references(source, name, options):
    plain = Ideal(source) if isinstance(source, Language) else source
    rows = [Row(plain, number) for number in range(ROWS)]
    for row in rows:
        RULES[name](row, **options)
    return [row.context for row in rows]


def tokens_of(source, name, options):
    settings = {"steps": STEPS, "length": LENGTH, "rows": ROWS, "seed": SEED}
    return generate(source, sampler=written(name, options), **settings).tokens.tolist()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("case", range(len(CASES)), ids=[written(*case) for case in CASES])
def test_every_token_is_that_of_the_reference(case):
    name, options = CASES[case]
    source = SOURCES["hmm" if case % 2 else "leak"]
    assert tokens_of(source, name, options) == references(source, name, options)


WRONG = [  # the reference with a subtle fault, each of which some row shows
    ("wino", {"threshold": 0.15}, {"back": 0.2}),
    ("wino", {"threshold": 0.3}, {"capped": False}),
    ("token-editing", {"threshold": 0.3, "editing": 0.5}, {"post": 0}),
    ("token-editing", {"threshold": 0.3, "editing": 0.5}, {"to": "mask"}),
    ("p2", {"eta": 2.0}, {"eta": 1.0}),
]


def test_who_takes_back_says_so():
    assert all(SAMPLERS.make(name).revises for name in LOOKING_BACK)


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "options", "fault"), WRONG)
def test_a_reference_that_is_a_little_wrong_is_seen(name, options, fault):
    assert tokens_of(SOURCES["hmm"], name, options) != references(SOURCES["hmm"], name, options | fault)


def test_a_look_back_that_sees_the_token_itself_is_seen(monkeypatch):
    """Mutant: what stands is scored in its own sight, where it is certain."""
    options = {"threshold": 0.3}
    monkeypatch.setattr(Row, "around", lambda row, j, context=None: row.said(context)[j])
    assert tokens_of(SOURCES["hmm"], "wino", options) != references(SOURCES["hmm"], "wino", options)


# ------------------------------------------------------------------------------------------------ AR helpers and laws


ONLY_LAWS = tuple(name for name in conformance.checks.CHECKS if name not in ("contract", "distribution"))


@pytest.mark.parametrize("sampler", ["self-speculative(order_by=position)"])
def test_lossless_is_a_law(sampler):
    report = conformance.check(sampler, skip=ONLY_LAWS)
    assert report["distribution"].outcome == "passed"


class Flat(Denoiser):
    """The same of every position, whatever stands elsewhere; another one reads."""

    vocabulary = 2

    def __init__(self, first, reader=None):
        self.distribution, self.reader = torch.tensor([first, 1 - first], dtype=torch.float64), reader

    def posterior(self, tokens, positions=None, time=None):
        places = torch.arange(tokens.shape[1]) if positions is None else positions
        return self.distribution.expand(*places.expand(len(tokens), -1).shape, 2)

    def causal(self, rows, length, valid=None):
        return super().causal(rows, length, valid) if self.reader is None else self.reader.causal(rows, length, valid)


def test_of_two_drafts_as_many_are_kept_as_the_paper_says():
    """The example of arXiv 2403.10444: the draft says a with 2/3, the target b."""
    denoiser = Flat(2 / 3, Flat(1 / 3))
    made = generate(denoiser, sampler="speculative(draft_length=2)", length=3, rows=20_000, seed=4)
    assert float((made.order == 1).sum(1).double().mean() - 1) == pytest.approx(10 / 9, abs=0.03)


# -------------------------------------------------------------------------------------------------- published loops


def prompted(language, rows, length, shown):
    """(rows, length): as many tokens given in each row, at positions of its own."""
    drawn = language.sample(rows, length, seed=4)
    place = torch.arange(length) + 3 * torch.arange(rows).unsqueeze(1)
    return torch.where(5 * place % length < shown, drawn, language.vocabulary)


@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "entropy"])
def test_dream_is_its_own_loop(alg):
    """Greedy, where all that counts is how many are revealed and which: the published rounding, eps, ties, float32."""
    language = load("paper-2gram")
    model = oracle(language)
    given = prompted(language, 24, 20, 3)
    assert len((given == language.vocabulary).sum(1).unique()) == 1
    for steps in (3, 8, 17, 34):
        options = {"alg": alg, "temperature": 0, "given": given}
        made = generate(language, sampler=f"dream(alg={alg}, temperature=0)", steps=steps, given=given)
        assert torch.equal(made.tokens, published_dream(model, 24, 20, steps, **options))
        assert not torch.equal(made.tokens, published_dream(model, 24, 20, steps, bug="evenly", **options))


def test_equal_scores_are_those_of_topk():
    """Of intervals all are equal at first: torch.topk takes neither the first nor the last. Mutant: the first."""
    language = load("interval-5")
    blank = language.blank(1, 20)
    options = {"alg": "entropy", "temperature": 0.0, "given": blank}
    made = generate(language, sampler="dream(alg=entropy, temperature=0)", steps=8, given=blank)
    assert torch.equal(made.tokens, published_dream(oracle(language), 1, 20, 8, **options))
    orders = [
        generate(language, sampler=f"dream(alg=entropy, temperature=0, ties={ties})", steps=8, given=blank).order
        for ties in ("topk", "position", "chance")
    ]
    assert not any(torch.equal(orders[0], other) for other in orders[1:])


@pytest.mark.parametrize("alg", ["maskgit_plus", "topk_margin", "entropy", "low_confidence"])
def test_scores_in_bfloat16_are_those_of_the_loop(alg):
    """Eight bits make equals of what float32 tells apart, and of the difference of two that are rounded another."""
    language = load("sparse-hmm")
    given = prompted(language, 24, 20, 3 if alg in SCORED else 0)
    name = f"dream(alg={alg}, temperature=0" if alg in SCORED else "llada(block_length=20"
    for dtype in ("float32", "bfloat16"):
        made = generate(language, sampler=f"{name}, dtype={dtype})", steps=8, given=given).tokens
        options = {"temperature": 0.0, "scored": torch.bfloat16}
        if alg in SCORED:
            theirs = published_dream(oracle(language), 24, 20, 8, alg=alg, given=given, **options)
        else:
            theirs = published_llada(oracle(language), 24, 20, 8, **options)
        assert torch.equal(made, theirs) == (dtype == "bfloat16")


def test_dream_rounds_down():
    """As many steps as positions: nothing in the first, two in the last; at half as many three in the last."""
    for steps, last in ((16, 2), (8, 3), (4, 5)):
        made = generate(SOURCES["hmm"], sampler="dream(alg=entropy)", steps=steps, length=16, rows=3)
        counts = torch.bincount(made.order[0], minlength=steps + 1)[1:]
        assert counts[-1] == last
        assert (counts[0] == 0) == (steps == 16)
    assert fractions(1, 1e-3).tolist() == [1.0]


@pytest.mark.parametrize("remasking", [1, 2, 4])
def test_llada_is_its_own_loop(remasking):
    """Greedy, in blocks: the counts of a block, and equal scores as torch.topk has them over the whole row."""
    language, blocks = load("interval-5"), remasking
    made = generate(
        language, sampler=f"llada(block_length={20 // blocks})", steps=3 * blocks, length=20, rows=1, temperature=1.0
    )
    theirs = published_llada(oracle(language), 1, 20, 3, temperature=0.0, blocks=blocks)
    assert torch.equal(made.tokens, theirs)


# ---------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ("wino(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("token-editing(trigger=own)", "trigger=own gives no replacement token; .* Or pass to=mask"),
        ("dream(dtype=bfloat16)", "alg=origin has no scores; expected no alg_temp, dtype"),
    ],
)
def test_options_out_of_range(sampler, message):
    with pytest.raises(UnmaskError, match=message):
        generate(SOURCES["hmm"], sampler=sampler, length=4)


def test_a_planner_of_ones_own():
    """Scores by position are an order from the left; what is no score is one line; what was given is never hidden."""
    language = SOURCES["hmm"]
    given = prompted(language, 4, 12, 5)
    places = torch.arange(12.0)
    made = generate(language, sampler=PathPlanning(lambda view, tokens: -places.expand(tokens.shape)), given=given)
    ours = generate(language, sampler="left-to-right", given=given)
    assert torch.equal(made.order.argsort(stable=True), ours.order.argsort(stable=True))
    hides = PathPlanning(lambda view, tokens: torch.where(given < language.vocabulary, -torch.inf, 0.0))
    assert torch.equal(generate(language, sampler=hides, given=given).tokens[given < 8], given[given < 8])
    with pytest.raises(UnmaskError, match=r"the planner of p2 returns .*; expected scores \(4, 12\)"):
        generate(language, sampler=PathPlanning(lambda view, tokens: None), given=given)
