"""Rules with memory and rules of pace, token for token and evaluation for evaluation, against plain Python.

Each rule is written once more for one row, in lists, as its paper says it: it knows no batch, no canvas and no memory
but a dictionary that is empty where a block begins. A wrong version of each is seen by the same comparison.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch

from tests.samplers.test_reference import SEED, SOURCES, draw, heat, rng, surest_first, written
from unmask import UnmaskError, generate
from unmask.core.chance import Stream
from unmask.denoisers import Denoiser, Ideal, Table
from unmask.languages import Language
from unmask.samplers import SAMPLERS, Sampler
from unmask.samplers.contract import as_sampler
from unmask.samplers.rules.blocks import Blocks

LENGTH, ROWS, EXACT = 14, 3, 1e-9


@dataclass
class Step:
    """What a plain rule sees: one row, one step."""

    denoiser: Denoiser
    row: int
    turn: int
    k: int  # 1.. within the block
    steps: int
    count: int
    block: list
    context: list
    p: dict  # position: probabilities
    memory: dict
    visits: list
    o: dict
    asked: list = field(default_factory=list)

    @property
    def hidden(self):
        return list(self.p)

    def best(self, j):
        return heat(self.p[j], 0).index(1.0)

    def surest(self, scores, number=1):
        return surest_first(self.row, self.turn, scores, self.o.get("ties", "chance"))[:number]

    def enough(self, scores, threshold):
        return [j for j in scores if scores[j] >= threshold - EXACT] or self.surest(scores)

    def confident(self, among=None):
        return {j: max(self.p[j]) for j in (self.p if among is None else among)}

    def draw(self):
        """A token at every hidden position."""
        tokens = {}
        for j, p in self.p.items():
            tokens[j] = draw(heat(p, self.o.get("temperature", 1.0)), rng(Stream.TOKEN, self.row, j, self.visits[j]))
            self.visits[j] += 1
        return tokens

    def ask(self, tokens):
        """What is said where these tokens stand besides: one evaluation."""
        self.asked.append(tokens)
        mask = self.denoiser.vocabulary
        context = [mask] * LENGTH if tokens is None else [tokens.get(j, x) for j, x in enumerate(self.context)]
        return said(self.denoiser, tuple(context))


@cache
def said(denoiser, context):
    return denoiser.posterior(torch.tensor([context]))[0].tolist()


def nats(p, q):
    return sum(x * (math.log(x / y) if y > 0 else math.inf) for x, y in zip(p, q, strict=True) if x > 0)


def klass(s):
    before, run = s.memory.get("p", {}), s.memory.setdefault("run", {})
    for j, p in s.p.items():
        run[j] = run.get(j, 0) + 1 if j in before and nats(p, before[j]) < s.o.get("kl", 0.01) else 0
    s.memory["p"] = s.p
    sure = s.confident()
    ready = [j for j in sure if sure[j] > s.o["threshold"] + EXACT and run[j] >= s.o.get("history", 2)]
    return ready or s.surest(sure, s.o.get("least", 1))


def localleap(s):
    sure = s.confident()
    anchors = [j for j in sure if sure[j] >= s.o["threshold"] - EXACT]
    lowered = s.o["threshold"] - s.o.get("relief", 0.15) - EXACT
    near = [j for j in sure if any(abs(i - j) <= s.o.get("radius", 4) for i in anchors) and sure[j] >= lowered]
    return near or s.surest(sure)


RULES = {"klass": klass, "localleap": localleap}


def reference(denoiser, rule, row, pace, blocks=1, steps=6, **o):
    """(tokens, model calls) of one row, in so many equal blocks."""
    mask, context, visits, looks = denoiser.vocabulary, [denoiser.vocabulary] * LENGTH, [0] * LENGTH, 0
    size, turn = LENGTH // blocks, 0
    for number in range(blocks):
        block, memory, k = list(range(number * size, (number + 1) * size)), {}, 0
        while mask in (context[j] for j in block):
            k, turn = k + 1, (number * size + k + 1 if pace == "free" else turn + 1)
            p = said(denoiser, tuple(context))
            marginals = {j: p[j] for j in block if context[j] == mask}
            count = size // steps + (k <= size % steps)
            s = Step(denoiser, row, turn, k, steps, count, block, list(context), marginals, memory, visits, o)
            found = rule(s)
            looks += 1 + len(s.asked)
            chosen, tokens = found if isinstance(found, tuple) else (found, None)
            if tokens is None and o.get("temperature", 1) != 1:
                tokens = s.draw()
            for j in chosen:
                if tokens is None:
                    context[j] = draw(p[j], rng(Stream.TOKEN, row, j, visits[j]))
                    visits[j] += 1
                else:
                    context[j] = tokens[j]
    return context, looks


CASES = [
    ("klass", {"threshold": 0.4, "kl": 0.1}),
    ("klass", {"threshold": 0.3, "kl": 0.3, "history": 3, "least": 2}),
    ("klass", {"threshold": 0.6, "kl": 1.0, "history": 1, "temperature": 0.0}),
    ("localleap", {"threshold": 0.6, "relief": 0.3, "radius": 2}),
    ("localleap", {"threshold": 0.5, "relief": 0.4, "radius": 1, "ties": "position"}),
]
BLOCKED = CASES[::2]


def matches(source, sampler, rule, options, blocks=1, steps=6):
    denoiser, sampler = SOURCES[source], as_sampler(sampler)
    given = {"steps": steps * blocks, "length": LENGTH, "rows": ROWS, "seed": SEED}
    made = generate(denoiser, sampler=sampler if blocks == 1 else Blocks(LENGTH // blocks, sampler), **given)
    plain = PLAIN[source]
    wanted = [reference(plain, rule, row, sampler.pace, blocks, steps, **options) for row in range(ROWS)]
    return list(zip(made.tokens.tolist(), made.model_calls.tolist(), strict=True)) == wanted


PLAIN = {name: Ideal(source) if isinstance(source, Language) else source for name, source in SOURCES.items()}


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[written(*case) for case in CASES])
def test_every_token_and_evaluation_is_that_of_the_plain_rule(name, options):
    for source in SOURCES:
        assert matches(source, written(name, options), RULES[name], options), source


@pytest.mark.parametrize(("name", "options"), BLOCKED, ids=[written(*case) for case in BLOCKED])
def test_each_block_begins_with_no_memory(name, options):
    assert matches("leak", written(name, options), RULES[name], options, blocks=2, steps=3)


# ------------------------------------------------------------------------------------------------ subtly wrong versions

MUTANTS = {  # module, what stands there, what stands there instead, the case that tells them apart, in how many blocks
    "one round too few": ("adaptive", "stable >= self.history", "stable >= self.history - 1", 0, 1),
    "settled for ever": ("adaptive", "torch.where(calm, stable + 1, 0)", "stable + calm.long()", 1, 1),
    "a bound too tight": ("adaptive", "(self.history - 1)", "(self.history - 3)", 1, 1),
    "the other divergence": (
        "view",
        "view.marginals[now[known] - 1].divergence(earlier[before[known] - 1])",
        "earlier[before[known] - 1].divergence(view.marginals[now[known] - 1])",
        0,
        1,
    ),
    "the radius is off by one": ("adaptive", "place - self.radius)", "place - self.radius + 1)", 3, 1),
    "surer neighbours": ("adaptive", "near & at_least", "view.hidden & at_least", 3, 1),
}


def changed(module, old, new):
    """What a module defines with one line of its source changed."""
    source, made = inspect.getsource(module), {"__name__": module.__name__}
    assert source.count(old) == 1
    exec(re.sub(r"@SAMPLERS.register.*", "", source.replace(old, new)), made)
    return made


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_rule_is_seen(what, monkeypatch):
    module, old, new, case, blocks = MUTANTS[what]
    name, options = CASES[case]
    maker = SAMPLERS.find(name)
    made = changed(importlib.import_module(f"unmask.samplers.{'' if module == 'view' else 'rules.'}{module}"), old, new)
    if module == "view":
        monkeypatch.setattr(f"{maker.__module__}.divergence", made["divergence"])
    sampler = made.get(maker.__name__, maker)(**options)
    assert not all(matches(source, sampler, RULES[name], options, blocks, 6 // blocks) for source in SOURCES)


# -------------------------------------------------------------------------------- what they are where nothing is new

SAME = {
    "klass(threshold=0.4, history=0)": "threshold(threshold=0.4)",
    "localleap(threshold=0.4, radius=0)": "threshold(threshold=0.4)",
    "localleap(threshold=0.4, relief=0)": "threshold(threshold=0.4)",
}


@pytest.mark.parametrize("name", SAME)
def test_a_rule_without_what_is_its_own_is_one_that_is_known(name):
    language = SOURCES["leak"]
    made = [generate(language, sampler=s, length=12, rows=9, seed=4, steps=12) for s in (name, SAME[name])]
    assert torch.equal(made[0].tokens, made[1].tokens)


def test_little_is_compared_with_what_was_said_before(monkeypatch):
    """KLASS compares those positions alone that may yet end a run; all of them are the same sampler."""
    counts = []
    ask = Table.divergence
    monkeypatch.setattr(Table, "divergence", lambda one, other: counts.append(len(one)) or ask(one, other))
    sampler = "klass(threshold=0.6, kl=0.01)"
    few = generate(SOURCES["leak"], sampler=sampler, length=LENGTH, rows=20, seed=1)
    compared, counts[:] = sum(counts), []
    monkeypatch.setattr("unmask.samplers.rules.adaptive.math.sqrt", lambda kl: 9.0)
    every = generate(SOURCES["leak"], sampler=sampler, length=LENGTH, rows=20, seed=1)
    assert torch.equal(few.tokens, every.tokens)
    assert 0 < compared < sum(counts) / 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("klass(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("klass(kl=0)", "kl is 0; expected a positive number of nats"),
        ("klass(history=-1)", "history is -1; expected at least 0"),
        ("klass(least=0)", "least is 0; expected at least 1"),
        ("localleap(threshold=0.1)", "relief is 0.15; expected a number from 0 to 0.1, the threshold"),
    ],
)
def test_options_out_of_range_are_one_clear_line(name, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        SAMPLERS.make(name)
    assert "\n" not in str(caught.value)


class Remembers(Sampler):
    def order(self, delta, hidden, rng):
        return self.memory["order"]


def test_an_order_has_no_memory():
    with pytest.raises(UnmaskError, match=r"reads self.memory; expected no state in a sampler"):
        generate(SOURCES["leak"], sampler=Remembers(), length=4, rows=1)
