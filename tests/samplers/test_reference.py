"""Adaptive samplers, token for token, against one row at a time in plain Python with the same randomness.

The reference knows no batch, no canvas and no messages: contexts are evaluated from scratch, scores are compared in
lists, tokens are drawn by walking along a cumulative sum.
"""

from __future__ import annotations

import math

import pytest
import torch

from unmask import UnmaskError, generate
from unmask.core.chance import Stream, uniform
from unmask.denoisers import Ideal, Logits, Perturbed, Table
from unmask.languages import Language, load, random_ngram
from unmask.samplers.rules.remdm import ReMDM

LENGTH, STEPS, ROWS, SEED = 14, 4, 5, 9
SOURCES = {
    "hmm": load("sparse-hmm"),
    "interval": load("interval-5"),
    "leak": Perturbed(random_ngram(2, 3, temperature=2.0, threshold=0.15, seed=2), "leak", 0.1),
}


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


def surest_first(row, turn, scores, ties="chance", noise=0.0):
    """Hidden positions, the highest score first; scores: {position: score}."""

    def key(position):
        chance = rng(Stream.TIE, row, position, turn)
        score = scores[position] - (noise * math.log(-math.log(chance)) if noise else 0)
        return -round(score * 1e9), position if ties == "position" else chance

    return sorted(scores, key=key)


def pick(name, row, turn, marginals, tokens, count, o):
    """The positions that a sampler reveals."""
    if name == "low-confidence":
        last = o.get("last", ())  # left out of the softmax that scores, as LLaDA's confidence_eos_eot_inf has it
        rest = {j: 1 - sum(p[token] for token in last) for j, p in marginals.items()}
        scores = {j: 0.0 if tokens[j] in last else marginals[j][tokens[j]] / rest[j] for j in marginals}
    else:
        how = {"top-probability": "confidence", "margin": "margin", "entropy": "entropy", "entropy-bounded": "entropy"}
        how |= {"threshold": "confidence", "factor": "confidence", "entropy-sum": "chance"}
        scores = {j: SCORES[o.get("proxy", how[name])](p) for j, p in marginals.items()}
    ranked = surest_first(row, turn, scores, o.get("ties", "chance"), o.get("noise", 0))
    sure = [max(marginals[j]) for j in ranked]
    h = [entropy(marginals[j]) for j in ranked]
    sizes = range(1, len(ranked) + 1)
    match name:
        case "threshold":
            count = max(o.get("least", 1), sum(c > o["threshold"] for c in sure))
        case "factor":
            count = max([1, *(n for n in sizes if (n + 1) * (1 - sure[n - 1]) < o["factor"])])
        case "entropy-bounded":
            count = max(n for n in sizes if sum(h[:n]) - max(h[:n]) <= o["gamma"] + 1e-9)
        case "entropy-sum":
            count = max(n for n in sizes if sum(h[: n - 1]) <= o["threshold"] + 1e-9)
    return ranked[:count]


def reference(denoiser, name, row, **o):
    mask, temperature = denoiser.vocabulary, o.get("temperature", 1.0)
    context, visits, turn = [mask] * LENGTH, [0] * LENGTH, 0
    first = name == "low-confidence" or temperature != 1  # draw everywhere, then choose
    while mask in context:
        turn += 1
        count = LENGTH // STEPS + (turn <= LENGTH % STEPS)
        p = denoiser.posterior(torch.tensor([context]))[0].tolist()
        marginals = {j: p[j] for j in range(LENGTH) if context[j] == mask}
        tokens = {}

        def write(j, p=p, tokens=tokens):
            tokens[j] = draw(heat(p[j], temperature), rng(Stream.TOKEN, row, j, visits[j]))
            visits[j] += 1

        for j in marginals if first else ():
            write(j)
        for j in pick(name, row, turn, marginals, tokens, count, o):
            if not first:
                write(j)
            context[j] = tokens[j]
    return context


CASES = [
    ("low-confidence", {}),
    ("low-confidence", {"temperature": 0.5}),
    ("low-confidence", {"temperature": 0.0, "ties": "position"}),
    ("low-confidence", {"noise": 0.2}),
    ("low-confidence", {"last": (1,)}),
    ("low-confidence", {"last": (0,), "temperature": 0.0, "ties": "position"}),
    ("top-probability", {}),
    ("top-probability", {"noise": 0.1}),
    ("margin", {"ties": "position"}),
    ("margin", {"temperature": 0.0}),
    ("entropy", {}),
    ("entropy", {"noise": 0.3, "temperature": 0.7}),
    ("threshold", {"threshold": 0.6}),
    ("threshold", {"threshold": 0.9, "temperature": 0.0}),
    ("threshold", {"threshold": 0.6, "least": 3}),
    ("threshold", {"threshold": 0.99, "least": 4, "temperature": 0.0, "ties": "position"}),
    ("factor", {"factor": 1.2}),
    ("factor", {"factor": 3.0, "ties": "position"}),
    ("entropy-bounded", {"gamma": 0.0}),
    ("entropy-bounded", {"gamma": 1.5}),
    ("entropy-bounded", {"gamma": 1.0, "proxy": "margin"}),
    ("entropy-bounded", {"gamma": 2.5, "proxy": "confidence"}),
    ("entropy-sum", {"threshold": 1.5}),
    ("entropy-sum", {"threshold": 0.5, "proxy": "entropy"}),
]


def written(name, options):
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})" if options else name


@pytest.mark.rotates(4)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[written(*case) for case in CASES])
def test_every_token_is_that_of_the_reference(source, name, options):
    denoiser = SOURCES[source]
    sampler = written(name, options)
    made = generate(denoiser, sampler=sampler, steps=STEPS, length=LENGTH, rows=ROWS, seed=SEED).tokens.tolist()
    plain = Ideal(denoiser) if isinstance(denoiser, Language) else denoiser
    assert made == [reference(plain, name, row, **options) for row in range(ROWS)]


REMASKING = {
    "cap": {"eta": 0.3},
    "rescale": {"eta": 0.5},
    "switch": {"eta": 0.4, "t_switch": 0.6},
    "loop": {"eta": 0.4, "t_on": 0.75, "t_off": 0.25, "alpha_on": 0.6},
    "conf": {},
}
OWN = {"eta": 0.04, "t_on": 0.55, "t_off": 0.05, "alpha_on": 0.9}  # the published settings: no round ends there
PUBLISHED = OWN | {"published": True}


@pytest.mark.parametrize("steps", [5, 14, 30])
@pytest.mark.parametrize("temperature", [0.0, 0.4])
def test_greddy_is_the_loop_of_smdm_for_one_row(steps, temperature):
    """Its rule: times from 1 to 1e-5 evenly; of M hidden positions step k writes int(M (1 - s / t)) of the highest
    probability at T = 1, drawn at T, and the last step all. A call is counted where something is written."""
    sampler = f"dream(alg=greddy, eps=1e-5, temperature={temperature}, ties=position)"
    made = generate(SOURCES["leak"], sampler=sampler, steps=steps, length=LENGTH, rows=ROWS, seed=SEED)
    times = torch.linspace(1, 1e-5, steps + 1)
    for row in range(ROWS):
        context, calls = [3] * LENGTH, 0
        for k in range(steps):
            hidden = [j for j in range(LENGTH) if context[j] == 3]
            number = int(len(hidden) * (1 - times[k + 1] / times[k])) if k < steps - 1 else len(hidden)
            if not number:
                continue
            p = SOURCES["leak"].posterior(torch.tensor([context]))[0].tolist()
            tokens = {j: draw(heat(p[j], temperature), rng(Stream.TOKEN, row, j, k)) for j in hidden}
            scores = {j: p[j][tokens[j]] for j in hidden}
            for j in surest_first(row, k + 1, scores, "position")[:number]:
                context[j] = tokens[j]
            calls += 1
        assert (made.tokens[row].tolist(), int(made.model_calls[row])) == (context, calls)


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


def nucleus(p, most):
    """The likeliest whose running sum is no more than this, and the first: without the one that crosses it."""
    if most == 1:
        return p
    ranked, total, kept = sorted(range(len(p)), key=lambda v: -round(p[v] * 1e9)), 0.0, [0.0] * len(p)
    for place, v in enumerate(ranked):
        total += p[v]
        kept[v] = p[v] if place == 0 or total <= most + 1e-9 else 0.0
    return [x / sum(kept) for x in kept]


def remdm_reference(denoiser, row, strategy, o):
    mask, steps = denoiser.vocabulary, 8
    context, psi, visits = [mask] * LENGTH, [0.0] * LENGTH, [0] * LENGTH
    for k in range(steps):
        p = [nucleus(q, o.get("nucleus", 1)) for q in denoiser.posterior(torch.tensor([context]))[0].tolist()]
        sigma, rate = remdm_rates(strategy, k, [1 / steps] * steps, o)
        weights = {j: math.exp(-psi[j]) for j in range(LENGTH) if context[j] != mask}
        before = list(context)
        for j in range(LENGTH):
            u = rng(Stream.ACCEPT, row, j, k + 1)
            if before[j] == mask and u < rate:
                context[j] = draw(p[j], rng(Stream.TOKEN, row, j, visits[j]))
                psi[j] = p[j][context[j]]
                visits[j] += 1
            elif before[j] != mask and u < sigma * (weights[j] / sum(weights.values()) if strategy == "conf" else 1):
                context[j] = mask
    return context


@pytest.mark.rotates(4)
@pytest.mark.parametrize("source", ["hmm", "leak"])
@pytest.mark.parametrize("strategy", REMASKING)
def test_every_token_of_remdm_is_that_of_the_reference(source, strategy):
    sampler = written("remdm", {"strategy": strategy} | REMASKING[strategy])
    made = generate(SOURCES[source], sampler=sampler, steps=8, length=LENGTH, rows=40, seed=SEED).tokens.tolist()
    plain = Ideal(SOURCES[source]) if isinstance(SOURCES[source], Language) else SOURCES[source]
    assert made == [remdm_reference(plain, row, strategy, REMASKING[strategy]) for row in range(40)]


@pytest.mark.parametrize("options", [PUBLISHED, {"eta": 0.3, "nucleus": 0.6}, PUBLISHED | {"nucleus": 0.8}])
def test_remdm_by_its_code(options):
    strategy = "loop" if "published" in options else "cap"
    source = next(iter(SOURCES.values()))
    sampler = written("remdm", {"strategy": strategy} | options)
    made = generate(source, sampler=sampler, steps=8, length=LENGTH, rows=40, seed=SEED).tokens.tolist()
    plain = Ideal(source) if isinstance(source, Language) else source
    assert made == [remdm_reference(plain, row, strategy, options) for row in range(40)]
    with pytest.raises(UnmaskError, match="with published=True; expected loop"):
        ReMDM(published=True)


@pytest.mark.parametrize("most", [0.9, 0.4, 0.0])
def test_a_nucleus_drops_what_crosses_it(most):
    """BD3-LM's rule: of .6, .35, .05 at .9 the first alone. Of equal symbols the lower one comes first."""
    p = torch.tensor([[0.6, 0.35, 0.05], [0.05, 0.6, 0.35], [0.2, 0.4, 0.4], [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0]])
    for made in (Table(p.double()), Logits(p.log(), lambda logits: logits, 3)):
        wanted = torch.tensor([nucleus(row, most) for row in p.tolist()])
        torch.testing.assert_close(made.nucleus(most).dense(), wanted.double(), rtol=0, atol=1e-6)
    assert Table(p[:1].double()).nucleus(0.9).dense().tolist() == [[1, 0, 0]]
    torch.testing.assert_close(Table(p[:1]).sharpened(top_p=0.9).dense(), torch.tensor([[12 / 19, 7 / 19, 0]]))


@pytest.mark.parametrize("source", ["hmm", "leak"])
@pytest.mark.parametrize("most", [0.9, 0.5])
def test_blocks_draw_from_the_published_nucleus(source, most):
    """Blocks of 4, one token a step in the order that was drawn: each token, and its probability, from the nucleus."""
    sampler = f"blocks(block_length=4, inner=first-hitting, nucleus={most})"
    made = generate(SOURCES[source], sampler=sampler, length=12, rows=20, seed=SEED)
    plain = Ideal(SOURCES[source]) if isinstance(SOURCES[source], Language) else SOURCES[source]
    for row in range(20):
        context, order = [plain.vocabulary] * 12, made.order[row].tolist()
        for turn in range(1, 13):
            j = order.index(turn)
            assert j // 4 == (turn - 1) // 4
            p = nucleus(plain.posterior(torch.tensor([context]))[0, j].tolist(), most)
            context[j] = draw(p, rng(Stream.TOKEN, row, j, 0))
            assert float(made.probability[row, j]) == pytest.approx(p[context[j]], abs=1e-9)
        assert made.tokens[row].tolist() == context
