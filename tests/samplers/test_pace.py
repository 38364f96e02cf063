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

import numpy as np
import pytest
import torch

from tests.brute import distribution
from tests.samplers.test_distributions import CASES as CHAINS
from tests.samplers.test_distributions import passes
from tests.samplers.test_reference import SEED, SOURCES, draw, entropy, heat, rng, surest_first, written
from unmask import UnmaskError, generate
from unmask.core.chance import Stream, uniform
from unmask.denoisers import Denoiser, Table
from unmask.ideal import Ideal
from unmask.languages import Language
from unmask.samplers import SAMPLERS, Sampler
from unmask.samplers.blocks import Blocks

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


def settled(s):
    mean, run, m = s.memory.setdefault("mean", {}), s.memory.setdefault("run", {}), s.o.get("momentum", 0.0)
    for j, p in s.p.items():
        mean[j] = m * mean[j] + (1 - m) * max(p) if j in mean else max(p)
        symbol, steps = run.get(j, (None, 0))
        run[j] = (s.best(j), steps + 1 if symbol == s.best(j) else 1)
    ready = [j for j in s.p if run[j][1] >= s.o.get("agree", 2) and mean[j] >= s.o["threshold"] - EXACT]
    return ready or s.surest({j: mean[j] for j in s.p})


def credit(s):
    strength, fused = s.o.get("strength", 0.7), {}
    for j, p in s.p.items():
        held = s.memory.setdefault(j, {})
        for v in held:
            held[v] *= s.o.get("decay", 0.65)
        held[s.best(j)] = held.get(s.best(j), 0.0) + max(p) ** s.o.get("power", 0.5)
        weights = [x * (1 + held.get(v, 0.0)) ** strength for v, x in enumerate(p)]
        fused[j] = [x / sum(weights) for x in weights]
    chosen = s.enough({j: max(q) for j, q in fused.items()}, s.o["threshold"])
    return (chosen, {j: q.index(max(q)) for j, q in fused.items()}) if s.o.get("temperature") == 0 else chosen


def slowfast(s):
    first, m, o = s.block[0], s.memory, {"sure": 0.9, "explore": 0.3, "slow_steps": 6, "window": 2, "spread": 1.0} | s.o
    m.setdefault("start", 0)
    if m.get("fast") and not [j for j in s.p if m["start"] <= j - first < m["end"]]:
        m.update(start=m["end"], fast=False, seen=[], end=None)
    seen = m.setdefault("seen", [])
    inside = [j for j in s.p if j - first >= m["start"]]
    if m.get("fast"):
        inside = [j for j in inside if j - first < m["end"]]
    else:
        far = [j - first + 1 for j in inside if max(s.p[j]) >= o["explore"] - EXACT]
        seen.append(min(max(far) if far else m["start"] + 1, s.block[-1] - first + 1))
        recent = seen[-o["window"] :]
        if m.get("end") is None:
            if len(recent) == o["window"] and np.std(recent) < o["spread"]:
                m["end"] = recent[-1]
            elif len(seen) == o["slow_steps"]:
                m["end"] = sum(recent) // len(recent)
        m["fast"] = m.get("end") is not None and (not o.get("published") or len(seen) >= o["slow_steps"])
    sure = [j for j in inside if max(s.p[j]) >= o["sure"] - EXACT]
    return sure if len(sure) > 1 else s.surest(s.confident(inside))


def sched(s):
    o = {"gap": 7.5, "last": 1 / 3, "shape": "cosine", "rate": 4.0} | s.o
    ranked = [sorted(p) for p in s.p.values()]
    mean = sum(math.log(p[-1] / max(p[-2], 1e-9)) for p in ranked) / len(ranked)
    high, low, x = o["gap"], o["gap"] * o["last"], (s.k - 1) / (s.steps - 1)
    tau = {
        "cosine": low + (high - low) * (1 + math.cos(math.pi * x)) / 2,
        "linear": high + (low - high) * x,
        "exponential": low + (high - low) * math.exp(-o["rate"] * x),
        "phases": high if s.k / s.steps < 1 / 3 else (high + low) / 2 if s.k / s.steps < 2 / 3 else low,
    }[o["shape"]]
    before, s.memory["best"] = s.memory.get("best", {}), {j: s.best(j) for j in s.p}
    same = all(before.get(j) == s.best(j) for j in s.p) or not o.get("agreed")
    if mean >= tau - EXACT and same:
        return s.hidden
    return s.surest({j: -entropy(p) for j, p in s.p.items()}, s.count)


def localleap(s):
    sure = s.confident()
    anchors = [j for j in sure if sure[j] >= s.o["threshold"] - EXACT]
    lowered = s.o["threshold"] - s.o.get("relief", 0.15) - EXACT
    near = [j for j in sure if any(abs(i - j) <= s.o.get("radius", 4) for i in anchors) and sure[j] >= lowered]
    return near or s.surest(sure)


def pc_sampler(s):
    if "blank" not in s.memory:
        s.memory["blank"] = s.ask(None)
    scores = {}
    for j, p in s.p.items():
        rare = -max(p) * math.log(max(s.memory["blank"][j][s.best(j)], 1e-9))
        score = math.exp(-s.o.get("decay", 0.25) * (j - s.block[0])) * min(rare, s.o.get("most", 10.0))
        scores[j] = math.log(max(score, 1e-300))
    return s.surest(scores, s.count)


def punt(s):
    tokens, ranked = s.draw(), s.surest(s.confident(), LENGTH)
    left, digits = list(ranked), max(len(ranked) - 1, 0).bit_length()
    for digit in reversed(range(digits)):
        anchors = [j for j in left if not ranked.index(j) >> digit & 1]
        tested = [j for j in left if j not in anchors]
        if tested:
            after = s.ask({j: tokens[j] for j in anchors})
            left = [j for j in left if j in anchors or nats(s.p[j], after[j]) <= s.o["epsilon"] + EXACT]
    return left, tokens


def info_gain(s):
    o, candidates = {"candidates": 4, "noise": 0.1} | s.o, []
    for c in range(o["candidates"]):
        tokens, scores = s.draw(), s.confident()
        if c:
            place = torch.tensor(list(s.p))
            u = uniform(SEED, Stream.ACCEPT, torch.tensor(s.row), place, s.turn * o["candidates"] + c).tolist()
            noise = dict(zip(s.p, u, strict=True))
            scores = {j: p[tokens[j]] - o["noise"] * math.log(-math.log(noise[j])) for j, p in s.p.items()}
        taken = set(s.surest(scores, s.count))
        if taken not in [other for other, _ in candidates]:
            candidates.append((taken, tokens))

    def value(candidate):
        taken, tokens = candidate
        left = [j for j in s.p if j not in taken]
        after = s.ask({j: tokens[j] for j in taken})
        return -sum(entropy(s.p[j]) for j in taken) - sum(entropy(after[j]) for j in left) / len(left)

    if len(candidates) == 1 or len(candidates[0][0]) == len(s.p):
        return sorted(candidates[0][0]), candidates[0][1]
    taken, tokens = max(candidates, key=lambda candidate: round(value(candidate) / EXACT))
    return sorted(taken), tokens


def deferred(s):
    inside = [j for j in s.hidden[: s.o.get("window", 16)] if j < s.hidden[0] + s.o.get("longest", 64)]
    return s.enough(s.confident(inside), s.o["threshold"])


def adaptive_blocks(s):
    least, most = s.o.get("least", 4), s.o.get("most", 32)
    if not [j for j in s.memory.get("block", []) if j in s.p]:
        doubt = [entropy(p) if s.o.get("border", "entropy") == "entropy" else -max(p) for p in s.p.values()]
        ends = range(least, min(most, len(doubt) - 1) + 1)
        size = max(ends, key=lambda n: round((doubt[n] - doubt[n - 1]) / EXACT)) if ends else min(most, len(doubt))
        s.memory["block"] = s.hidden[:size]
    return s.enough(s.confident([j for j in s.memory["block"] if j in s.p]), s.o["threshold"])


def multi_block(s):
    size, m = s.o.get("block_length", 32), s.memory
    blocks = [s.block[i : i + size] for i in range(0, len(s.block), size)]
    m.setdefault("flying", 1)
    if m["flying"] <= len(blocks):
        newest = blocks[m["flying"] - 1]
        share = 1 - sum(j in s.p for j in newest) / len(newest)
        m["flying"] += share >= s.o.get("join", 0.1) or share == 1
    doubt = {j: entropy(p) for j, p in s.p.items()}
    first = next(block for block in blocks if set(block) & set(s.p))
    joined = [j for block in blocks[: m["flying"]] for j in block if j in s.p]
    chosen = [j for j in joined if doubt[j] <= s.o["threshold"] + EXACT]
    if s.o.get("published"):
        chosen = list({*chosen, *s.surest({j: -doubt[j] for j in joined})})
    return chosen + ([] if set(chosen) & set(first) else s.surest({j: -doubt[j] for j in first if j in s.p}))


RULES = {
    f.__name__.replace("_", "-"): f
    for f in (klass, settled, credit, slowfast, sched, localleap, pc_sampler, punt, info_gain, deferred)
} | {"adaptive-blocks": adaptive_blocks, "multi-block": multi_block}


def reference(denoiser, name, row, blocks=1, steps=6, **o):
    """(tokens, model calls) of one row, in so many equal blocks."""
    mask, context, visits, looks = denoiser.vocabulary, [denoiser.vocabulary] * LENGTH, [0] * LENGTH, 0
    pace, size, turn = SAMPLERS.make(written(name, o)).pace, LENGTH // blocks, 0
    for number in range(blocks):
        block, memory, k = list(range(number * size, (number + 1) * size)), {}, 0
        while mask in (context[j] for j in block):
            k, turn = k + 1, (number * size + k + 1 if pace == "free" else turn + 1)
            p = said(denoiser, tuple(context))
            marginals = {j: p[j] for j in block if context[j] == mask}
            count = size // steps + (k <= size % steps)
            s = Step(denoiser, row, turn, k, steps, count, block, list(context), marginals, memory, visits, o)
            found = RULES[name](s)
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
    ("settled", {"threshold": 0.3, "agree": 3}),
    ("settled", {"threshold": 0.4, "agree": 1, "momentum": 0.7, "ties": "position"}),
    ("credit", {"threshold": 0.6}),
    ("credit", {"threshold": 0.5, "temperature": 0.0, "decay": 0.9, "power": 1.0, "strength": 2.0}),
    ("slowfast", {"sure": 0.5, "explore": 0.4, "slow_steps": 4}),
    ("slowfast", {"sure": 0.5, "explore": 0.4, "slow_steps": 5, "spread": 3.0, "published": True}),
    ("sched", {"gap": 1.5}),
    ("sched", {"gap": 3.0, "last": 0.1, "shape": "phases"}),
    ("sched", {"gap": 6.0, "last": 0.0, "shape": "linear", "agreed": True}),
    ("sched", {"gap": 8.0, "last": 0.0, "shape": "exponential", "temperature": 0.5}),
    ("localleap", {"threshold": 0.6, "relief": 0.3, "radius": 2}),
    ("localleap", {"threshold": 0.5, "relief": 0.4, "radius": 1, "ties": "position"}),
    ("pc-sampler", {}),
    ("pc-sampler", {"decay": 0.0, "most": 0.4}),
    ("punt", {"epsilon": 0.05}),
    ("punt", {"epsilon": 0.5, "temperature": 0.7}),
    ("info-gain", {"candidates": 3}),
    ("info-gain", {"candidates": 4, "noise": 1.0, "temperature": 0.5}),
    ("deferred", {"threshold": 0.4, "window": 4, "longest": 6}),
    ("adaptive-blocks", {"threshold": 0.4, "least": 2, "most": 6}),
    ("adaptive-blocks", {"threshold": 0.5, "least": 1, "most": 9, "border": "confidence"}),
    ("multi-block", {"threshold": 1.5, "block_length": 3, "join": 0.7}),
    ("multi-block", {"threshold": 1.0, "block_length": 3, "join": 0.0}),
    ("multi-block", {"threshold": 0.3, "block_length": 3, "join": 0.3, "published": True}),
]
BLOCKED = [case for case in CASES if case[0] not in ("sched", "info-gain")][::2]


def matches(source, sampler, name, options, blocks=1, steps=6):
    denoiser = SOURCES[source]
    given = {"steps": steps * blocks, "length": LENGTH, "rows": ROWS, "seed": SEED}
    made = generate(denoiser, sampler=sampler if blocks == 1 else Blocks(LENGTH // blocks, sampler), **given)
    plain = PLAIN[source]
    wanted = [reference(plain, name, row, blocks, steps, **options) for row in range(ROWS)]
    return list(zip(made.tokens.tolist(), made.model_calls.tolist(), strict=True)) == wanted


PLAIN = {name: Ideal(source) if isinstance(source, Language) else source for name, source in SOURCES.items()}


@pytest.mark.rotates(4)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[written(*case) for case in CASES])
def test_every_token_and_evaluation_is_that_of_the_plain_rule(name, options):
    for source in SOURCES:
        assert matches(source, written(name, options), name, options), source


@pytest.mark.parametrize(("name", "options"), BLOCKED, ids=[written(*case) for case in BLOCKED])
def test_each_block_begins_with_no_memory(name, options):
    assert matches("leak", SAMPLERS.make(written(name, options)), name, options, blocks=2, steps=3)


# ------------------------------------------------------------------------------------------------ subtly wrong versions

MUTANTS = {  # module, what stands there, what stands there instead, the case that tells them apart, in how many blocks
    "one round too few": ("klass", "settled >= self.history", "settled >= self.history - 1", 0, 1),
    "settled for ever": ("klass", "torch.where(calm, settled + 1, 0)", "settled + calm.long()", 1, 1),
    "a bound too tight": ("klass", "(self.history - 1)", "(self.history - 3)", 1, 1),
    "the other divergence": (
        "memory",
        "view.marginals[now[known] - 1].divergence(earlier[before[known] - 1])",
        "earlier[before[known] - 1].divergence(view.marginals[now[known] - 1])",
        0,
        1,
    ),
    "the mean begins at zero": ("settled", "torch.where(known,", "torch.where(known | True,", 4, 1),
    "changes are forgotten": ("memory", "view.hidden.long())", "view.memory.get('held', nothing))", 3, 1),
    "a first time that gives none": ("credit", "0.0) + earned", "-earned) + earned", 5, 1),
    "credit that does not fade": ("credit", " * self.decay", "", 5, 1),
    "the cycle is found again": ("slow_fast", "slow & (end == 0)", "slow", 8, 1),
    "the text and not the code": ("slow_fast", "not self.published", "True", 8, 1),
    "progress by k / N": ("early_commit", "(view.step - 1) / (view.steps - 1)", "view.step / view.steps", 9, 1),
    "one that agrees is enough": ("early_commit", "== view.hidden.sum(1)", "> 0", 11, 1),
    "the radius is off by one": ("local_leap", "place - self.radius)", "place - self.radius + 1)", 13, 1),
    "surer neighbours": ("local_leap", "near & view.hidden", "view.hidden", 13, 1),
    "how rare alone": ("pc_sampler", "view.confidence * -self", "-self", 15, 1),
    "digits from the lowest": ("punt", "digits - 1 - step", "torch.where(digits > step, step, -1)", 17, 1),
    "what was pruned disturbs": ("punt", "tokens, left & low, test", "tokens, view.hidden & low, test", 17, 1),
    "all that is left": ("info_gain", "after / contexts.bincount(minlength=len(index))", "after", 19, 1),
    "costs nothing": ("info_gain", "-cost - mean", "-mean", 19, 1),
    "a window of positions": (
        "deferred",
        "(view.hidden.cumsum(1) <= self.window) & (place",
        "(place < first + self.window) & (place",
        21,
        1,
    ),
    "where doubt falls": ("adaptive_blocks", ".diff(dim=1)", ".diff(dim=1).neg()", 22, 1),
    "the rule without its code": ("multi_block", "if self.published:", "if False:", 26, 1),
    "one block too far": ("multi_block", "((fraction >= self.join) | full)", "((fraction > 0) | full)", 24, 1),
}


def changed(module, old, new):
    """What a module defines with one line of its source changed."""
    found, made = importlib.import_module(f"unmask.samplers.{module}"), {}
    source = inspect.getsource(found)
    assert source.count(old) == 1
    made["__name__"] = found.__name__
    exec(re.sub(r"@SAMPLERS.register.*", "", source.replace(old, new)), made)
    return made


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_rule_is_seen(what, monkeypatch):
    module, old, new, case, blocks = MUTANTS[what]
    name, options = CASES[case]
    maker = SAMPLERS.makers[name]
    made = changed(module, old, new)
    if module == "memory":
        for function in ("divergence", "agreement"):
            monkeypatch.setattr(f"{maker.__module__}.{function}", made[function], raising=False)
    sampler = made.get(maker.__name__, maker)(**options)
    assert not all(matches(source, sampler, name, options, blocks, 6 // blocks) for source in SOURCES)


# -------------------------------------------------------------------------------- what they are where nothing is new

SAME = {
    "klass(threshold=0.4, history=0)": "threshold(threshold=0.4)",
    "settled(threshold=0.4, agree=1)": "threshold(threshold=0.4)",
    "credit(threshold=0.4, strength=0)": "threshold(threshold=0.4)",
    "localleap(threshold=0.4, radius=0)": "threshold(threshold=0.4)",
    "localleap(threshold=0.4, relief=0)": "threshold(threshold=0.4)",
    "deferred(threshold=0.4, window=99)": "threshold(threshold=0.4)",
    "deferred(threshold=0.4, longest=1)": "left-to-right",
    "adaptive-blocks(threshold=0.4, least=4, most=4)": "blocks(block_length=4, inner='threshold(threshold=0.4)')",
    "multi-block(threshold=0.0, block_length=4, join=1.0)": "blocks(block_length=4, inner='entropy')",
    "sched(gap=99)": "entropy",
    "pc-sampler(decay=50.0)": "left-to-right",
}


@pytest.mark.parametrize("name", SAME)
def test_a_rule_without_what_is_its_own_is_one_that_is_known(name):
    language = SOURCES["leak"]
    steps = 4 if name.startswith("sched") else 12
    made = [generate(language, sampler=s, length=12, rows=9, seed=4, steps=steps) for s in (name, SAME[name])]
    assert torch.equal(made[0].tokens, made[1].tokens)


def test_tokens_that_disturb_nothing_are_the_languages():
    """PUNT at epsilon = 0 on a chain, where what a set disturbs each part does; the marginals alone are far off."""
    language, length = CHAINS["2-gram"]
    q = distribution(language, length)
    assert passes("2-gram", q, sampler="punt(epsilon=0)", seed=5)
    assert not passes("2-gram", q, sampler="punt(epsilon=3)", seed=5)


def test_little_is_compared_with_what_was_said_before(monkeypatch):
    """KLASS compares those positions alone that may yet end a run; all of them are the same sampler."""
    counts = []
    ask = Table.divergence
    monkeypatch.setattr(Table, "divergence", lambda one, other: counts.append(len(one)) or ask(one, other))
    sampler = "klass(threshold=0.6, kl=0.01)"
    few = generate(SOURCES["leak"], sampler=sampler, length=LENGTH, rows=20, seed=1)
    compared, counts[:] = sum(counts), []
    monkeypatch.setattr("unmask.samplers.adaptive.math.sqrt", lambda kl: 9.0)
    every = generate(SOURCES["leak"], sampler=sampler, length=LENGTH, rows=20, seed=1)
    assert torch.equal(few.tokens, every.tokens)
    assert 0 < compared < sum(counts) / 2


def test_frequencies_come_from_a_file_too(tmp_path):
    """Those that the denoiser says of a blank row make the same choice; others another one."""
    language, path = SOURCES["interval"], tmp_path / "counts.npy"
    made = {"said": generate(language, sampler="pc-sampler", length=LENGTH, rows=4, seed=1, steps=LENGTH)}
    for name, counts in (("even", np.ones(16)), ("odd", np.arange(1, 17) ** 4)):
        np.save(path.with_stem(name), counts)
        sampler = f"pc-sampler(frequencies='{path.with_stem(name)}')"
        made[name] = generate(language, sampler=sampler, length=LENGTH, rows=4, seed=1, steps=LENGTH)
    assert torch.equal(made["said"].tokens, made["even"].tokens)
    assert torch.equal(made["said"].model_calls, made["even"].model_calls + 1)
    assert not torch.equal(made["said"].order, made["odd"].order)
    with pytest.raises(UnmaskError, match=r"even.npy has 16 counts; expected 3"):
        generate(SOURCES["leak"], sampler=f"pc-sampler(frequencies='{path.with_stem('even')}')", length=4, rows=1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("klass(threshold=1.5)", "threshold is 1.5; expected a number from 0 to 1"),
        ("klass(kl=0)", "kl is 0; expected a positive number of nats"),
        ("klass(history=-1)", "history is -1; expected at least 0"),
        ("klass(least=0)", "least is 0; expected at least 1"),
        ("settled(agree=0)", "agree is 0; expected at least 1"),
        ("settled(momentum=1)", "momentum is 1; expected a number from 0 to below 1"),
        ("credit(decay=1.0)", "decay is 1.0; expected a number from 0 to below 1"),
        ("slowfast(slow_steps=0)", "slow_steps is 0; expected at least 1"),
        ("sched(shape=square)", "unknown shape 'square'"),
        ("sched(last=2)", "last is 2; expected a number from 0 to 1"),
        ("localleap(threshold=0.1)", "relief is 0.15; expected a number from 0 to 0.1, the threshold"),
        ("pc-sampler(most=0)", "most is 0; expected a positive number"),
        (
            "pc-sampler(frequencies='none.npy')",
            "none.npy has no counts: .*; expected an .npy file",
        ),
        ("punt(score=sure)", "unknown score 'sure'"),
        ("punt(epsilon=-1)", "epsilon is -1; expected 0 or a positive number of nats"),
        ("info-gain(candidates=0)", "candidates is 0; expected at least 1"),
        ("deferred(window=0)", "window is 0; expected at least 1"),
        ("adaptive-blocks(least=9, most=8)", "least is 9; expected 1 to 8"),
        ("multi-block(join=2)", "join is 2; expected a number from 0 to 1"),
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
