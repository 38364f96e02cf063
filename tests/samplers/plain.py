"""Rules of samplers once more in plain Python: one row at a time, contexts from scratch, scores in lists.

They know no batch, no canvas and no messages; tokens are drawn by walking along a cumulative sum, with the same random
numbers as the samplers. A `rule` chooses positions in each step of a Step; a `loop` fills a Row by itself.
"""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, field
from functools import cache

import torch

from unmask import generate
from unmask.core.chance import Stream, uniform
from unmask.denoisers import Denoiser, Ideal, Perturbed
from unmask.languages import Language, load, random_ngram
from unmask.samplers.contract import as_sampler
from unmask.samplers.rules.blocks import Blocks

LENGTH, STEPS, ROWS, SEED, EXACT = 14, 4, 5, 9, 1e-9
SOURCES = {
    "hmm": load("sparse-hmm"),
    "interval": load("interval-5"),
    "leak": Perturbed(random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), "leak", 0.1),
}
PLAIN = {name: Ideal(source) if isinstance(source, Language) else source for name, source in SOURCES.items()}


def entropy(p):
    return -sum(x * math.log(x) for x in p if x > 0)


SCORES = {
    "confidence": max,
    "margin": lambda p: sorted(p)[-1] - sorted(p)[-2],
    "entropy": lambda p: -entropy(p),
    "chance": lambda p: 0.0,
}


def rng(stream, row, position, visit):
    return float(uniform(SEED, stream, torch.tensor(row), torch.tensor(position), visit))


def heat(p, temperature):
    if temperature == 0:
        best = max(round(x * 1e9) for x in p)
        first = next(v for v, x in enumerate(p) if round(x * 1e9) == best)
        return [float(v == first) for v in range(len(p))]
    powers = [x ** (1 / temperature) for x in p]
    return [x / sum(powers) for x in powers]


def draw(p, u):
    reached, threshold = 0.0, u * sum(p)
    for v, x in enumerate(p):
        reached += x
        if x > 0 and reached > threshold:
            return v
    return max(v for v, x in enumerate(p) if x > 0)


def nucleus(p, most):
    """The likeliest whose running sum is no more than this, and the first: without the one that crosses it."""
    if most == 1:
        return p
    ranked, total, kept = sorted(range(len(p)), key=lambda v: -round(p[v] * 1e9)), 0.0, [0.0] * len(p)
    for place, v in enumerate(ranked):
        total += p[v]
        kept[v] = p[v] if place == 0 or total <= most + 1e-9 else 0.0
    return [x / sum(kept) for x in kept]


def nats(p, q):
    """KL(p || q)."""
    return sum(x * (math.log(x / y) if y > 0 else math.inf) for x, y in zip(p, q, strict=True) if x > 0)


def surest_first(row, turn, scores, ties="chance", noise=0.0):
    """Hidden positions, the highest score first; scores: {position: score}."""

    def key(position):
        chance = rng(Stream.TIE, row, position, turn)
        score = scores[position] - (noise * math.log(-math.log(chance)) if noise else 0)
        return -round(score * 1e9), position if ties == "position" else chance

    return sorted(scores, key=key)


@cache
def said(denoiser, context):
    return denoiser.posterior(torch.tensor([context]))[0].tolist()


# ----------------------------------------------------------------------------------- rules that choose in each of steps


@dataclass
class Step:
    """What a rule sees: one row, one step."""

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

    def surest(self, scores, number=1, noise=0.0):
        return surest_first(self.row, self.turn, scores, self.o.get("ties", "chance"), noise)[:number]

    def enough(self, scores, threshold):
        return [j for j in scores if scores[j] >= threshold - EXACT] or self.surest(scores)

    def scores(self, score):
        return {j: SCORES[score](p) for j, p in self.p.items()}

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


def low_confidence(s):
    """`last` is left out of the softmax that scores, as LLaDA's confidence_eos_eot_inf has it."""
    tokens, last = s.draw(), s.o.get("last", ())
    rest = {j: 1 - sum(p[token] for token in last) for j, p in s.p.items()}
    scores = {j: 0.0 if tokens[j] in last else p[tokens[j]] / rest[j] for j, p in s.p.items()}
    return s.surest(scores, s.count, s.o.get("noise", 0)), tokens


def by(score):
    """The surest positions, as many as the schedule gives."""
    return lambda s: s.surest(s.scores(score), s.count, s.o.get("noise", 0))


def most(score, fits):
    """The most of the surest positions that fit(s, their probabilities, their number); one in any case."""

    def rule(s):
        ranked = s.surest(s.scores(s.o.get("proxy", score)), LENGTH)
        return ranked[: max([1, *(n for n in range(1, len(ranked) + 1) if fits(s, [s.p[j] for j in ranked], n))])]

    return rule


threshold = most("confidence", lambda s, p, n: n <= s.o.get("least", 1) or max(p[n - 1]) > s.o["threshold"])
factor = most("confidence", lambda s, p, n: (n + 1) * (1 - max(p[n - 1])) < s.o["factor"])
entropy_sum = most("chance", lambda s, p, n: sum(map(entropy, p[: n - 1])) <= s.o["threshold"] + 1e-9)


def but_largest(s, p, n):
    h = [*map(entropy, p[:n])]
    return sum(h) - max(h) <= s.o["gamma"] + 1e-9


entropy_bounded = most("entropy", but_largest)


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


def matches(source, sampler, rule, options, blocks=1, steps=6):
    """Whether tokens and model calls of each row are those of the rule."""
    sampler = as_sampler(sampler)
    given = {"steps": steps * blocks, "length": LENGTH, "rows": ROWS, "seed": SEED}
    made = generate(SOURCES[source], sampler=sampler if blocks == 1 else Blocks(LENGTH // blocks, sampler), **given)
    wanted = [reference(PLAIN[source], rule, row, sampler.pace, blocks, steps, **options) for row in range(ROWS)]
    return list(zip(made.tokens.tolist(), made.model_calls.tolist(), strict=True)) == wanted


def changed(module, old, new):
    """What a module defines with one line of its source changed."""
    source, made = inspect.getsource(module), {"__name__": module.__name__}
    assert source.count(old) == 1
    exec(re.sub(r"@SAMPLERS.register.*", "", source.replace(old, new)), made)
    return made


# --------------------------------------------------------------------------------- loops of their own, which take back


class Row:
    """One row on its way."""

    def __init__(self, denoiser, number, steps=STEPS):
        self.denoiser, self.number, self.mask, self.steps = denoiser, number, denoiser.vocabulary, steps
        self.context, self.visits, self.turn, self.calls = [self.mask] * LENGTH, [0] * LENGTH, 0, 0

    @property
    def hidden(self):
        return [j for j in range(LENGTH) if self.context[j] == self.mask]

    @property
    def standing(self):
        return [j for j in range(LENGTH) if self.context[j] != self.mask]

    def said(self, context=None):
        return said(self.denoiser, tuple(context or self.context))

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
    for k in range(row.steps):
        was, standing = row.hidden, row.standing
        tokens, sure = row.round(temperature)
        said = sure | {j: row.around(j)[row.context[j]] for j in standing}
        scores = {j: math.log(max(q, 1e-300)) * (eta if j in standing else 1) for j, q in said.items()}
        kept = row.best(scores)[: LENGTH - math.floor((1 - (k + 1) / row.steps) * LENGTH + 1e-9)]
        row.write([j for j in was if j in kept], tokens)
        row.hide([j for j in standing if j not in kept])


def greddy(row, eps, temperature, ties):
    """SMDM's rule: times from 1 to eps evenly; of M hidden positions step k writes int(M (1 - s / t)) of the highest
    probability at T = 1, drawn at T, and the last step all. A call is counted where something is written."""
    times = torch.linspace(1, eps, row.steps + 1)
    for k in range(row.steps):
        number = len(row.hidden)
        if k < row.steps - 1:
            number = int(number * (1 - times[k + 1] / times[k]))
        row.turn = k
        row.visits = [k] * LENGTH
        tokens, sure = row.round(temperature)
        row.write(row.best(sure, ties)[:number], tokens)
        row.calls += number > 0


def remdm_rates(strategy, k, delta, o):
    """(probability to be hidden again, to be revealed) in step k = 0.., from theory.md 10; for conf sigma_max."""
    steps = len(delta)
    t, s = 1 - k / steps, 1 - (k + 1) / steps
    before, after = sum(delta[:k]), sum(delta[: k + 1])
    if strategy == "loop" and o.get("published"):  # transcribed from the formulas of its authors' code
        on, move = o["alpha_on"], lambda t: 1 - (1 - t) * o["alpha_on"] / (1 - o["t_on"])
        if t > o["t_on"] or t <= o["t_off"]:
            of = move if t > o["t_on"] else lambda t: t * (1 - on) / o["t_off"]
            now, then = of(t), max(of(s), 0)
            return 0, 1 if s == 0 else (now - then) / now
        eta = min(o["eta"], (1 - on) / on)
        return (0, 1) if s == 0 else (eta, (on - (1 - eta) * on) / (1 - on))
    if strategy == "loop":

        def alpha(t):
            if t >= o["t_on"]:
                return o["alpha_on"] * (1 - t) / (1 - o["t_on"])
            return o["alpha_on"] if t >= o["t_off"] else 1 - (1 - o["alpha_on"]) * t / o["t_off"]

        before, after = alpha(t), alpha(s)
    top = min(1, (1 - after) / before) if before else 1
    sigma = {"cap": min(o.get("eta", 0), top), "rescale": o.get("eta", 0) * top, "conf": top}.get(strategy)
    if strategy == "switch":
        sigma = min(o["eta"], top) if t <= o["t_switch"] else 0
    if strategy == "loop":
        sigma = min(o["eta"], top) if t <= o["t_on"] and s >= o["t_off"] else 0
    used = 0 if strategy == "conf" else sigma
    return sigma, (after - (1 - used) * before) / (1 - before)


def remdm(row, strategy="cap", **o):
    o = {"eta": 0.04} | o
    psi = [0.0] * LENGTH
    for k in range(row.steps):
        p = [nucleus(q, o.get("nucleus", 1)) for q in row.said()]
        sigma, rate = remdm_rates(strategy, k, [1 / row.steps] * row.steps, o)
        hidden, weights = row.hidden, {j: math.exp(-psi[j]) for j in row.standing}
        for j in range(LENGTH):
            u = rng(Stream.ACCEPT, row.number, j, k + 1)
            if j in hidden and u < rate:
                row.context[j] = row.drawn(j, p[j])
                psi[j] = p[j][row.context[j]]
            elif j not in hidden and u < sigma * (weights[j] / sum(weights.values()) if strategy == "conf" else 1):
                row.hide([j])


def filled(source, loop, options, rows=ROWS, steps=STEPS):
    """Rows filled by a loop."""
    every = [Row(PLAIN[source], number, steps) for number in range(rows)]
    for row in every:
        loop(row, **options)
    return every


def alike(source, sampler, loop, options, rows=ROWS, steps=STEPS):
    """Whether the tokens of each row are those of the loop."""
    made = generate(SOURCES[source], sampler=sampler, steps=steps, length=LENGTH, rows=rows, seed=SEED)
    return made.tokens.tolist() == [row.context for row in filled(source, loop, options, rows, steps)]
