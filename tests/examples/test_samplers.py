"""The plug-ins in examples/samplers: each is its plain rule token for token or has its distribution, and conforms.

Each rule is written once more for one row, in lists, as its paper says it; a wrong version is seen by the same
comparison. Tests of distributions have fixed seeds and a false-alarm rate of 1e-6 each.
"""

from __future__ import annotations

import ast
import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.brute import distribution
from tests.samplers.laws import CASES as CHAINS
from tests.samplers.laws import passes
from tests.samplers.plain import EXACT, LENGTH, SEED, SOURCES, STEPS, alike, changed, entropy, matches, rng
from tests.samplers.plain import nats as divergence
from unmask import UnmaskError, generate
from unmask.core.chance import Stream, uniform
from unmask.core.registry import imports
from unmask.core.specs import written
from unmask.denoisers import Ideal, Logits, Table
from unmask.diagnosis import conformance
from unmask.languages import random_ngram
from unmask.samplers import SAMPLERS

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2] / "examples" / "samplers"
PLUGINS = {
    "adaptive-blocks": "adaptive_blocks.py:AdaptiveBlocks",
    "apd": "apd.py:AdaptiveParallel",
    "best-order": "best_order.py:BestOrder",
    "block-strided": "far_apart.py:BlockStrided",
    "credit": "credit.py:Credit",
    "deferred": "deferred.py:Deferred",
    "dilated": "far_apart.py:Dilated",
    "info-gain": "info_gain.py:InfoGain",
    "informed-corrector": "informed_corrector.py:InformedCorrector",
    "multi-block": "multi_block.py:MultiBlock",
    "particle-gibbs": "particle_gibbs.py:ParticleGibbs",
    "pc-sampler": "pc_sampler.py:PCSampler",
    "punt": "punt.py:Punt",
    "restart": "restart.py:Restart",
    "saber": "saber.py:Saber",
    "sched": "sched.py:EarlyCommit",
    "settled": "settled.py:Settled",
    "slowfast": "slow_fast.py:SlowFast",
    "uniform-corrector": "uniform_corrector.py:UniformCorrector",
}


def plugin(name, **options):
    """The specification of a plug-in, by its file."""
    return written(str(ROOT / PLUGINS[name]), options)


def module(name):
    """The module of a plug-in, which its file becomes."""
    SAMPLERS.find(plugin(name))
    return sys.modules[str(ROOT / PLUGINS[name].partition(":")[0])]


# ---------------------------------------------------------------------------------------------------------- all of them


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plug_in_conforms(name):
    report = conformance.examine(plugin(name))
    assert not report.failed, report
    assert report["contract"].outcome == "passed"
    if SAMPLERS.make(plugin(name)).distribution is not None:
        assert report["distribution"].outcome == "passed"


def test_each_file_is_a_plug_in_and_the_readme_lists_them():
    assert {path.name for path in ROOT.glob("*.py")} == {path.partition(":")[0] for path in PLUGINS.values()}
    text = (ROOT / "README.md").read_text()
    assert all(f"`{path}`" in text for path in PLUGINS.values())


@pytest.mark.parametrize("name", PLUGINS)
def test_a_plug_in_imports_what_is_public(name):
    """Names of the packages' own lists, or the two modules of core that docs/write-a-sampler.md names."""
    tree = ast.parse((ROOT / PLUGINS[name].partition(":")[0]).read_text())
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "unmask" in str(node.module)]
    for node in found:
        imported = {alias.name for alias in node.names}
        if node.module == "unmask.core":
            assert imported == {"arguments"}
        elif node.module != "unmask.core.chance":
            assert imported <= set(dir(importlib.import_module(node.module))), node.module
    assert found


def test_a_plug_in_is_named_by_its_file_and_a_file_needs_consent(monkeypatch):
    monkeypatch.chdir(ROOT.parents[1])
    name = "examples/samplers/punt.py:Punt"
    sampler = SAMPLERS.make(f"{name}(epsilon=0.5)")
    assert sampler.spec == f"{name}(epsilon=0.5)"
    assert SAMPLERS.make(sampler.spec) == sampler
    with imports(()), pytest.raises(UnmaskError, match=r"--allow-imports examples/samplers/punt\.py"):
        SAMPLERS.make(name)
    with imports(("examples/samplers/punt.py",)):
        assert SAMPLERS.make(f"blocks(block_length=4, inner='{name}')").inner == SAMPLERS.make(name)


# ------------------------------------------------------------------------ rules of pace, token for token, call for call


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
            left = [j for j in left if j in anchors or divergence(s.p[j], after[j]) <= s.o["epsilon"] + EXACT]
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


def adaptive_blocks(s):
    least, most = s.o.get("least", 4), s.o.get("most", 32)
    if not [j for j in s.memory.get("block", []) if j in s.p]:
        doubt = [entropy(p) if s.o.get("border", "entropy") == "entropy" else -max(p) for p in s.p.values()]
        ends = range(least, min(most, len(doubt) - 1) + 1)
        size = max(ends, key=lambda n: round((doubt[n] - doubt[n - 1]) / EXACT)) if ends else min(most, len(doubt))
        s.memory["block"] = s.hidden[:size]
    return s.enough(s.confident([j for j in s.memory["block"] if j in s.p]), s.o["threshold"])


def settled(s):
    mean, run, m = s.memory.setdefault("mean", {}), s.memory.setdefault("run", {}), s.o.get("momentum", 0.0)
    for j, p in s.p.items():
        mean[j] = m * mean[j] + (1 - m) * max(p) if j in mean else max(p)
        symbol, steps = run.get(j, (None, 0))
        run[j] = (s.best(j), steps + 1 if symbol == s.best(j) else 1)
    ready = [j for j in s.p if run[j][1] >= s.o.get("agree", 2) and mean[j] >= s.o["threshold"] - EXACT]
    return ready or s.surest({j: mean[j] for j in s.p})


def deferred(s):
    inside = [j for j in s.hidden[: s.o.get("window", 16)] if j < s.hidden[0] + s.o.get("longest", 64)]
    return s.enough(s.confident(inside), s.o["threshold"])


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
    "credit": credit,
    "slowfast": slowfast,
    "sched": sched,
    "pc-sampler": pc_sampler,
    "punt": punt,
    "info-gain": info_gain,
    "adaptive-blocks": adaptive_blocks,
    "settled": settled,
    "deferred": deferred,
    "multi-block": multi_block,
}
CASES = [
    ("credit", {"threshold": 0.6}),
    ("credit", {"threshold": 0.5, "temperature": 0.0, "decay": 0.9, "power": 1.0, "strength": 2.0}),
    ("slowfast", {"sure": 0.5, "explore": 0.4, "slow_steps": 4}),
    ("slowfast", {"sure": 0.5, "explore": 0.4, "slow_steps": 5, "spread": 3.0, "published": True}),
    ("sched", {"gap": 1.5}),
    ("sched", {"gap": 3.0, "last": 0.1, "shape": "phases"}),
    ("sched", {"gap": 6.0, "last": 0.0, "shape": "linear", "agreed": True}),
    ("sched", {"gap": 8.0, "last": 0.0, "shape": "exponential", "temperature": 0.5}),
    ("pc-sampler", {}),
    ("pc-sampler", {"decay": 0.0, "most": 0.4}),
    ("punt", {"epsilon": 0.05}),
    ("punt", {"epsilon": 0.5, "temperature": 0.7}),
    ("info-gain", {"candidates": 3}),
    ("info-gain", {"candidates": 4, "noise": 1.0, "temperature": 0.5}),
    ("adaptive-blocks", {"threshold": 0.4, "least": 2, "most": 6}),
    ("adaptive-blocks", {"threshold": 0.5, "least": 1, "most": 9, "border": "confidence"}),
    ("settled", {"threshold": 0.3, "agree": 3}),
    ("settled", {"threshold": 0.4, "agree": 1, "momentum": 0.7, "ties": "position"}),
    ("deferred", {"threshold": 0.4, "window": 4, "longest": 6}),
    ("multi-block", {"threshold": 1.5, "block_length": 3, "join": 0.7}),
    ("multi-block", {"threshold": 1.0, "block_length": 3, "join": 0.0}),
    ("multi-block", {"threshold": 0.3, "block_length": 3, "join": 0.3, "published": True}),
]
BLOCKED = [case for case in CASES if case[0] not in ("sched", "info-gain")][::2]


@pytest.mark.parametrize(("name", "options"), CASES, ids=[written(*case) for case in CASES])
def test_every_token_and_evaluation_is_that_of_the_plain_rule(name, options):
    for source in SOURCES:
        assert matches(source, plugin(name, **options), RULES[name], options), source


@pytest.mark.parametrize(("name", "options"), BLOCKED, ids=[written(*case) for case in BLOCKED])
def test_each_block_begins_with_no_memory(name, options):
    assert matches("leak", plugin(name, **options), RULES[name], options, blocks=2, steps=3)


MUTANTS = {  # what stands there, what stands there instead, the case that tells them apart
    "a first time that gives none": ("0.0) + earned", "-earned) + earned", 0),
    "credit that does not fade": (" * self.decay", "", 0),
    "the cycle is found again": ("slow & (end == 0)", "slow", 3),
    "the text and not the code": ("not self.published", "True", 3),
    "progress by k / N": ("(view.step - 1) / (view.steps - 1)", "view.step / view.steps", 4),
    "one that agrees is enough": ("== view.hidden.sum(1)", "> 0", 6),
    "how rare alone": ("view.confidence * -self", "-self", 9),
    "digits from the lowest": ("digits - 1 - step", "torch.where(digits > step, step, -1)", 10),
    "what was pruned disturbs": ("tokens, left & low, test", "tokens, view.hidden & low, test", 10),
    "all that is left": ("after / contexts.bincount(minlength=len(index))", "after", 12),
    "costs nothing": ("-cost - mean", "-mean", 12),
    "where doubt falls": (".diff(dim=1)", ".diff(dim=1).neg()", 14),
    "changes are forgotten": ("view.hidden.long())", "held)", 16),
    "the mean begins at zero": ("symbol > 0,", "symbol >= 0,", 17),
    "a window of positions": (
        "(view.hidden.cumsum(1) <= self.window) & (place",
        "(place < first + self.window) & (place",
        18,
    ),
    "one block too far": ("((fraction >= self.join) | full)", "((fraction > 0) | full)", 19),
    "the rule without its code": ("if self.published:", "if False:", 21),
}


@pytest.mark.parametrize("what", MUTANTS)
def test_a_wrong_rule_is_seen(what):
    old, new, case = MUTANTS[what]
    name, options = CASES[case]
    sampler = changed(module(name), old, new)[PLUGINS[name].partition(":")[2]](**options)
    assert not all(matches(source, sampler, RULES[name], options) for source in SOURCES)


SAME = {
    plugin("credit", threshold=0.4, strength=0): "threshold(threshold=0.4)",
    plugin(
        "adaptive-blocks", threshold=0.4, least=4, most=4
    ): "blocks(block_length=4, inner='threshold(threshold=0.4)')",
    plugin("sched", gap=99): "entropy",
    plugin("settled", threshold=0.4, agree=1): "threshold(threshold=0.4)",
    plugin("deferred", threshold=0.4, window=99): "threshold(threshold=0.4)",
    plugin("deferred", threshold=0.4, longest=1): "left-to-right",
    plugin("multi-block", threshold=0.0, block_length=4, join=1.0): "blocks(block_length=4, inner='entropy')",
    plugin("pc-sampler", decay=50.0): "left-to-right",
}


@pytest.mark.parametrize("name", SAME, ids=lambda name: Path(name).name)
def test_a_rule_without_what_is_its_own_is_one_that_is_known(name):
    steps = 4 if "sched" in name else 12
    made = [generate(SOURCES["leak"], sampler=s, length=12, rows=9, seed=4, steps=steps) for s in (name, SAME[name])]
    assert torch.equal(made[0].tokens, made[1].tokens)


def test_tokens_that_disturb_nothing_are_the_languages():
    """PUNT at epsilon = 0 on a chain, where what a set disturbs each part does; the marginals alone are far off."""
    language, length = CHAINS["2-gram"]
    q = distribution(language, length)
    assert passes("2-gram", q, sampler=plugin("punt", epsilon=0), seed=5)
    assert not passes("2-gram", q, sampler=plugin("punt", epsilon=3), seed=5)


def test_frequencies_come_from_a_file_too(tmp_path):
    """Those that the denoiser says of a blank row make the same choice; others another one."""
    language, path = SOURCES["interval"], tmp_path / "counts.npy"
    made = {"said": generate(language, sampler=plugin("pc-sampler"), length=LENGTH, rows=4, seed=1, steps=LENGTH)}
    for name, counts in (("even", np.ones(16)), ("odd", np.arange(1, 17) ** 4)):
        np.save(path.with_stem(name), counts)
        sampler = plugin("pc-sampler", frequencies=str(path.with_stem(name)))
        made[name] = generate(language, sampler=sampler, length=LENGTH, rows=4, seed=1, steps=LENGTH)
    assert torch.equal(made["said"].tokens, made["even"].tokens)
    assert torch.equal(made["said"].model_calls, made["even"].model_calls + 1)
    assert not torch.equal(made["said"].order, made["odd"].order)
    with pytest.raises(UnmaskError, match=r"even.npy has 16 counts; expected 3"):
        generate(
            SOURCES["leak"], sampler=plugin("pc-sampler", frequencies=str(path.with_stem("even"))), length=4, rows=1
        )


# --------------------------------------------------------------------------- repair, and the rule that has an AR helper


def saber(row, least=2, published=False, temperature=1.0):
    before, revealed, ever = dict.fromkeys(range(LENGTH), 0.0), {}, {}
    while row.hidden:
        tokens, sure = row.round(temperature)
        asked = {j: row.around(j) for j in row.standing}
        now = sure | {j: max(p) if published else p[row.context[j]] for j, p in asked.items()}
        kept = ever if published else {j: revealed[j] for j in row.standing}
        mean = sum(kept.values()) / len(kept) if kept else 1.0
        new = [j for n, j in enumerate(row.best(sure)) if n < least or sure[j] > mean + 1e-9]
        ever |= {j: sure[j] for j in new}
        count = len(new)
        most = 0 if count == len(sure) else min(max(least // 2, math.ceil(count / 8)), count - 1)
        worst = row.best({j: before[j] - now[j] for j in [*row.standing, *new]})[:most]
        row.write(new, tokens)
        revealed |= {j: sure[j] for j in new}
        row.hide(worst)
        before |= now


def corrector(row, correctors=1, places=4, score="margin", noise=0.0):
    order = sorted(range(LENGTH), key=lambda j: rng(Stream.ORDER, row.number, j, 0))
    for k in range(STEPS):
        size = LENGTH // STEPS + (k < LENGTH % STEPS)
        now, order = order[:size], order[size:]
        row.turn += 1
        p = row.said()
        row.write(now, {j: row.drawn(j, p[j]) for j in now})
        for _ in range(correctors):
            row.turn += 1
            said, ranked = {j: row.around(j) for j in row.standing}, {}
            for j, p in said.items():
                u, x = rng(Stream.TIE, row.number, j, row.turn), row.context[j]
                c = math.log(max(p[x], 1e-300))
                if score == "margin":
                    c -= math.log(max(1e-300, *(q for v, q in enumerate(p) if v != x)))
                ranked[j] = round((c - noise * math.log(-math.log(u))) * 1e9), u
            worst = sorted(ranked, key=ranked.get)[:places]
            row.write(worst, {j: row.drawn(j, said[j]) for j in worst})


def mixed(d, a, weight):
    t = [x**weight * y ** (1 - weight) if x > 0 else 0.0 for x, y in zip(d, a, strict=True)]
    return [x / sum(t) for x in t]


def apd(row, weight=0.5, lookahead=32):
    start = 0
    while start < LENGTH:
        said, read = row.said(), list(row.context)
        places = range(start, min(start + lookahead, LENGTH))
        visits = list(row.visits)
        tokens = {j: row.drawn(j, said[j]) for j in places}
        for j in places:
            d, v = said[j], tokens[j]
            t = mixed(d, row.said(read)[j], weight)
            both = 1 / sum(max(x, y * d[v] / t[v]) for x, y in zip(d, t, strict=True)) if t[v] > 0 else 0
            if j > places[0] and rng(Stream.ACCEPT, row.number, j, visits[j]) >= both:
                break
            read[j] = v
            start += 1
        row.context = read


REPAIRS = {"saber": saber, "informed-corrector": corrector, "apd": apd}
REPAIRED = [
    ("saber", {}),
    ("saber", {"least": 5, "published": True}),
    ("informed-corrector", {}),
    ("informed-corrector", {"correctors": 2, "places": 1, "score": "confidence", "noise": 0.7}),
    ("apd", {}),
    ("apd", {"weight": 0.8, "lookahead": 5}),
]


@pytest.mark.parametrize("case", range(len(REPAIRED)), ids=[written(*case) for case in REPAIRED])
def test_every_token_is_that_of_the_reference(case):
    name, options = REPAIRED[case]
    assert alike("hmm" if case % 2 else "leak", plugin(name, **options), REPAIRS[name], options)


WRONG = [  # the reference with a subtle fault, each of which some row shows
    ("saber", {}, {"published": True}),
    ("informed-corrector", {}, {"score": "confidence"}),
    ("apd", {"weight": 0.8}, {"weight": 0.2}),
]


@pytest.mark.parametrize(("name", "options", "fault"), WRONG)
def test_a_reference_that_is_a_little_wrong_is_seen(name, options, fault):
    assert not alike("hmm", plugin(name, **options), REPAIRS[name], options | fault)


def test_who_takes_back_says_so():
    assert all(SAMPLERS.make(plugin(name)).revises for name in ("saber", "informed-corrector"))
    assert not SAMPLERS.make(plugin("particle-gibbs")).revises  # it writes once, at the end


def test_a_sweep_of_one_place_by_chance_keeps_the_law(monkeypatch):
    """Much noise and one place: a Gibbs step, after a perfect sample too. Mutant: drawn from what the token itself is
    scored by, the largest of the others."""
    source = random_ngram(2, 3, threshold=0.15, seed=2)
    perfect = source.log_prob(torch.cartesian_prod(*[torch.arange(3)] * 4)).exp()
    sampler = plugin("informed-corrector", places=1, noise=1e9, correctors=3)

    def p_value():
        tokens = generate(source, sampler=sampler, steps=4, length=4, rows=6000, seed=3).tokens
        counts = torch.bincount(tokens @ torch.tensor([27, 9, 3, 1]), minlength=81)
        return conformance.distributions.against_distributions(counts, perfect, torch.zeros(81, dtype=torch.long))

    assert p_value() > 1e-6
    corrector = module("informed-corrector").InformedCorrector
    worst = corrector._scores
    monkeypatch.setattr(corrector, "_scores", lambda self, said, tokens: 1e12 * worst(self, said, tokens))
    assert p_value() < 1e-6


def p_of_particles(**options):
    """How well six particles in two sweeps follow the distribution of the language."""
    source = random_ngram(2, 3, threshold=0.15, seed=2)
    distribution = source.log_prob(torch.cartesian_prod(*[torch.arange(3)] * 4)).exp()
    sampler = module("particle-gibbs").ParticleGibbs(particles=6, sweeps=2, **options)
    tokens = generate(source, sampler=sampler, steps=2, length=4, rows=2000, seed=3).tokens
    counts = torch.bincount(tokens @ torch.tensor([27, 9, 3, 1]), minlength=81)
    return conformance.distributions.against_distributions(counts, distribution, torch.zeros(81, dtype=torch.long))


def test_particles_come_to_the_law_of_the_language(monkeypatch):
    """Two steps, which alone are far from it. Mutants: what was paid is not subtracted; weights of nothing."""
    assert p_of_particles() > 1e-6
    kind = module("particle-gibbs").ParticleGibbs
    weights = kind._weights
    monkeypatch.setattr(kind, "_weights", lambda self, now, before, paid: weights(self, now, before, 0 * paid))
    assert p_of_particles() < 1e-6
    assert p_of_particles(reward=lambda tokens: torch.zeros(len(tokens))) < 1e-6


def test_particles_follow_a_reward():
    """Towards p(x) exp(r(x)), of one step of independent tokens: r counts the tokens 0."""
    source = random_ngram(2, 3, threshold=0.15, seed=2)
    p = Ideal(source).posterior(source.blank(1, 4))[0]
    bent = torch.where(torch.arange(3) == 0, p * math.e, p)
    bent = bent / bent.sum(1, keepdim=True)
    distribution = torch.einsum("i,j,k,l->ijkl", *bent).reshape(-1)
    sampler = module("particle-gibbs").ParticleGibbs(particles=24, reward=lambda tokens: (tokens == 0).sum(1))
    tokens = generate(source, sampler=sampler, steps=1, length=4, rows=2000, seed=3).tokens
    counts = torch.bincount(tokens @ torch.tensor([27, 9, 3, 1]), minlength=81)
    wrong = torch.einsum("i,j,k,l->ijkl", *p).reshape(-1)
    p_values = [
        conformance.distributions.against_distributions(counts, one, torch.zeros(81, dtype=torch.long))
        for one in (distribution, wrong)
    ]
    assert p_values[0] > 1e-6 > p_values[1]


def test_agreement_is_that_of_gumbel_noise():
    """The same noise on both distributions, 200,000 times, by the token that the first has drawn."""
    d, t = torch.tensor([0.5, 0.3, 0.2, 0.0]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    gumbel = -(-torch.rand((200_000, 4), generator=torch.Generator().manual_seed(1)).double().log()).log()
    first, second = ((distribution.double().log() + gumbel).argmax(1) for distribution in (d, t))
    for kind in (
        lambda distribution: Table(distribution.double().expand(3, 4)),
        lambda distribution: Logits(distribution.log().expand(3, 4)),
    ):
        found = module("apd").agreement(kind(d), kind(t), torch.arange(3))
        for v in range(3):
            drawn = first == v
            share, error = (second[drawn] == v).double().mean(), (0.25 / drawn.sum()) ** 0.5
            assert abs(float(found[v]) - float(share)) < 5 * error


def test_at_weight_one_all_is_kept():
    made = generate(SOURCES["hmm"], sampler=plugin("apd", weight=1), length=14, rows=5)
    assert made.order.max() == 1
    assert made.model_calls_of["denoiser"].tolist() == [1] * 5


def test_a_rule_that_reads_needs_somebody_to_read():
    with pytest.raises(UnmaskError, match="a guided denoiser cannot read from left to right"):
        generate(SOURCES["hmm"], sampler=plugin("apd"), length=4, guidance=1.0)


# ------------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("credit", {"decay": 1.0}, "decay is 1.0; expected a number from 0 to below 1"),
        ("slowfast", {"slow_steps": 0}, "slow_steps is 0; expected at least 1"),
        ("sched", {"shape": "square"}, "unknown shape 'square'"),
        ("sched", {"last": 2}, "last is 2; expected a number from 0 to 1"),
        ("pc-sampler", {"most": 0}, "most is 0; expected a positive number"),
        ("pc-sampler", {"frequencies": "none.npy"}, "none.npy has no counts: .*; expected an .npy file"),
        ("punt", {"score": "sure"}, "unknown score 'sure'"),
        ("punt", {"epsilon": -1}, "epsilon is -1; expected 0 or a positive number of nats"),
        ("info-gain", {"candidates": 0}, "candidates is 0; expected at least 1"),
        ("adaptive-blocks", {"least": 9, "most": 8}, "least is 9; expected 1 to 8"),
        ("saber", {"least": 0}, "least is 0"),
        ("informed-corrector", {"places": 0}, "places is 0"),
        ("particle-gibbs", {"particles": 0}, "particles is 0"),
        ("particle-gibbs", {"beta": 0}, "beta is 0"),
        ("apd", {"weight": 2}, "weight is 2; expected a number from 0 to 1"),
        ("apd", {"lookahead": 0}, "lookahead is 0"),
    ],
)
def test_options_out_of_range_are_one_clear_line(name, options, message):
    with pytest.raises(UnmaskError, match=message) as caught:
        SAMPLERS.make(plugin(name, **options))
    assert "\n" not in str(caught.value)
