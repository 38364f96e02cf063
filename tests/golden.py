"""Golden digests: what the front door gives, small and everywhere, so that a change of structure can show it kept it.

`python -m tests.golden --write` records golden.json; tests/samplers/test_golden.py compares. A deliberate
difference is recorded anew, in the commit that makes it. What is refused is recorded as refused; numbers are kept as a
few weighted sums, so that the last bit of a float is free and everything else is not.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from zlib import crc32

import torch

import unmask
from unmask.theory import sampled

FILE = Path(__file__).with_suffix(".json")
ROWS = 7
PARTS = ("tokens", "order", "evaluations", "impossible")

OPTIONED = (
    "as-published-mdlm(batch=1)",
    "as-published-mdlm(batch=4)",
    "blocks(block_length=4)",
    "blocks(block_length=5, inner='ancestral')",
    "blocks(block_length=6, inner='low-confidence(temperature=0)')",
    "blocks(block_length=7, inner='threshold(threshold=0.5)')",
    "blocks(block_length=8, inner='entropy-bounded(gamma=0.5)')",
    "blocks(block_length=4, inner='remdm')",
    "blocks(block_length=8, inner='strided')",
    "gibbs(inner='low-confidence', sweeps=2)",
    "gibbs(stride=3)",
    "gibbs(inner='blocks(block_length=4)', stride=2)",
    "verify-and-restart(most=3)",
    "verify-and-restart(inner='threshold(threshold=0.3)', most=4)",
    "verify-and-restart(inner='gibbs', most=2, strict=True)",
    "verify-and-restart(inner='blocks(block_length=4)', most=3)",
    "clairvoyant(gamma=0.5)",
    *(
        f"{name}({options})"
        for name in ("low-confidence", "top-probability", "margin", "entropy")
        for options in ("temperature=0", "temperature=0.7, ties='position'", "noise=0.5")
    ),
    "dream(temperature=0)",
    "dream(alg='maskgit_plus')",
    "dream(alg='maskgit_plus', temperature=0)",
    "dream(alg='topk_margin', alg_temp=0.3)",
    "dream(alg='entropy', temperature=0)",
    "entropy-bounded(gamma=1.0, temperature=0)",
    "entropy-bounded(gamma=0.7, proxy='confidence', ties='position')",
    "entropy-bounded(gamma=0.7, proxy='margin', temperature=0.7)",
    "entropy-bounded(gamma=0.7, proxy='chance')",
    "entropy-sum(threshold=3.0, temperature=0)",
    "entropy-sum(threshold=2.0, proxy='confidence', ties='position')",
    "entropy-sum(threshold=2.0, proxy='margin', temperature=0.7)",
    "entropy-sum(threshold=2.0, proxy='entropy')",
    "llada(block_length=4)",
    "llada(block_length=8, temperature=0.7)",
    "llada(block_length=6, remasking='random', temperature=1.0)",
    *(f"remdm(strategy='{strategy}', eta=0.3)" for strategy in ("cap", "rescale", "switch", "loop", "conf")),
    "speculative(draft_length=1)",
    "speculative(draft_length=3)",
    "self-speculative(draft_length=1)",
    "self-speculative(draft_length=7)",
    "block-strided(block_length=3)",
    "dilated(base=3)",
    "threshold(threshold=0.4, ties='position')",
    "threshold(threshold=0.6, temperature=0)",
    "factor(factor=0.3, ties='position')",
    "factor(factor=2.0, temperature=0.7)",
    "remdm(strategy='loop', eta=0.3, published=True)",
    "remdm(eta=0.3, nucleus=0.7)",
    "factor(factor=1.2, published=True)",
    "best-order",
    "blocks(block_length=5, inner='best-order')",
    "wino(threshold=0.3)",
    "blocks(block_length=6, inner='wino(threshold=0.2, capped=False)')",
    "saber",
    "saber(least=4, published=True)",
    "token-editing(threshold=0.4, editing=0.5)",
    "blocks(block_length=6, inner='token-editing(threshold=0.3, editing=0.5)')",
    "token-editing(threshold=0.3, to='mask', trigger='own')",
    "p2",
    "p2(planner='language', eta=2.0)",
    "informed-corrector",
    "apd",
    "speculative(verify='block')",
    "self-speculative(order_by='position')",
    "low-confidence(ties='topk')",
    "particle-gibbs(particles=3)",
)
NAMED = (  # in the order in which the cases were dealt out
    "ancestral",
    "as-published-mdlm",
    "autoregressive",
    "blocks",
    "clairvoyant",
    "top-probability",
    "margin",
    "entropy",
    "low-confidence",
    "dream",
    "entropy-bounded",
    "entropy-sum",
    "first-hitting",
    "fixed-size",
    "gibbs",
    "left-to-right",
    "llada",
    "remdm",
    "speculative",
    "self-speculative",
    "strided",
    "dyadic",
    "block-strided",
    "dilated",
    "threshold",
    "factor",
    "verify-and-restart",
)
SAMPLED = (*NAMED, *OPTIONED)
LATER = (  # whose cases are dealt out by their names, wherever they stand
    "klass(threshold=0.4, kl=0.1)",
    "settled(threshold=0.4)",
    "settled(threshold=0.5, agree=1, momentum=0.5, ties='position')",
    "credit(threshold=0.6)",
    "credit(threshold=0.6, temperature=0)",
    "slowfast(sure=0.5)",
    "slowfast(sure=0.5, published=True)",
    "sched(gap=2.0)",
    "sched(gap=3.0, shape='phases', agreed=True)",
    "localleap(threshold=0.6, relief=0.2, radius=2)",
    "pc-sampler",
    "punt(epsilon=0.1)",
    "info-gain(candidates=3)",
    "deferred(threshold=0.5, window=4)",
    "adaptive-blocks(threshold=0.5, border='confidence')",
    "multi-block(threshold=1.0, block_length=5)",
    "blocks(block_length=6, inner='klass(threshold=0.4, kl=0.1)')",
    "blocks(block_length=7, inner='pc-sampler')",
)

LANGUAGES: dict[str, tuple[Callable[[], unmask.languages.Language], int]] = {  # what makes it, and the length L
    "paper-2gram": (lambda: unmask.languages.load("paper-2gram"), 16),
    "paper-3gram": (lambda: unmask.languages.load("paper-3gram(seed=1)"), 14),
    "sparse-hmm": (lambda: unmask.languages.load("sparse-hmm"), 13),
    "dense-hmm": (lambda: unmask.languages.random_hmm(states=5, vocabulary=3, seed=2), 12),
    "random-ngram": (lambda: unmask.languages.random_ngram(2, vocabulary=3, threshold=0.1, seed=3), 15),
    "interval-5": (lambda: unmask.languages.load("interval-5"), 15),
    "interval-5 longer": (lambda: unmask.languages.load("interval-5"), 20),
    "modular-sum": (lambda: unmask.languages.load("modular-sum"), 17),
    "brackets": (lambda: unmask.languages.load("brackets"), 12),
}
SCHEDULED = (
    *product(("linear", "cosine", "optimal"), (1, 3, 5, 64)),
    ([0.5, 0.2, 0.2, 0.1], None),
    ("theorem-4.2", 9),
    ("geometric-tc", 6),
)
GIVEN = ("prompt", "ragged prompts", "infilling", "ragged infilling", "everything")
OPTIONS = (
    {"temperature": 0.7},
    {"temperature": 0.0},
    {"top_p": 0.8},
    {"top_k": 2},
    {"temperature": 1.5, "top_p": 0.9, "top_k": 3},
)
PERTURBED = (("tilt", 0.1), ("leak", 0.1))


@cache
def language(name: str) -> unmask.languages.Language:
    return LANGUAGES[name][0]()


@cache
def pattern(name: str, kind: str) -> torch.Tensor:
    """(L) or (ROWS, L): sequences of the language, V where hidden."""
    source, length = language(name), LANGUAGES[name][1]
    drawn = source.sample(ROWS, length, seed=77)
    row, position = torch.arange(ROWS).unsqueeze(1), torch.arange(length)
    match kind:
        case "prompt":
            return torch.where(position < 4, drawn[0], source.vocabulary)
        case "ragged prompts":
            return torch.where(position < row % 5, drawn, source.vocabulary)
        case "infilling":
            return torch.where(position % 3 == 1, drawn[0], source.vocabulary)
        case "ragged infilling":
            return torch.where((7 * row + 5 * position) % (3 + row % 3) == 0, drawn, source.vocabulary)
    return drawn


def cases() -> Iterator[tuple[str, str, Callable[[], object]]]:
    """(sampler or what else is asked, the rest of the case's name, what answers it)."""
    dealt = [(i, sampler, 1 if sampler in NAMED else 3) for i, sampler in enumerate(SAMPLED)]
    for i, sampler, every in (*dealt, *((crc32(sampler.encode()) % 90, sampler, 3) for sampler in LATER)):
        for j, name in list(enumerate(LANGUAGES))[i % every :: every]:  # with options in every third language
            shift = i + 4 * j  # with other rounds and other given tokens in each
            plans = [SCHEDULED[(shift + 5 * k) % len(SCHEDULED)] for k in range(1 + (i + j) % 2)]
            for schedule, steps in plans:
                yield made(sampler, name, schedule, steps)
            kind = GIVEN[shift % len(GIVEN)]
            yield made(sampler, name, *plans[-1], given=kind)
            if j % 3 == i % 3:
                yield made(sampler, name, "linear", 5, **OPTIONS[shift % len(OPTIONS)])
            if j == i % len(LANGUAGES):
                yield made(sampler, name, "cosine", 3, perturbed=PERTURBED[i % 2], given=GIVEN[i // 2 % 4])
    for kind, name in product(("sample", "posterior", "log_prob", "entropy", "yardsticks"), LANGUAGES):
        yield f"language {kind}", name, partial(asked, kind, name)


def made(sampler: str, name: str, schedule: object, steps: int | None, **options: object) -> tuple:
    told = "".join(f" | {option}={value}" for option, value in options.items())
    return sampler, f"{name} | {schedule} {steps}{told}", partial(generated, sampler, name, schedule, steps, **options)


def generated(
    sampler: str,
    name: str,
    schedule: object,
    steps: int | None,
    given: str | None = None,
    perturbed: tuple[str, float] | None = None,
    **options: object,
) -> str:
    """The digests of PARTS, in their order."""
    source = language(name)
    out = unmask.generate(
        source if perturbed is None else unmask.ideal.Perturbed(source, *perturbed),
        sampler=sampler,
        schedule=schedule,
        steps=steps,
        length=LANGUAGES[name][1],
        rows=ROWS,
        seed=5,
        first_row=11,
        given=None if given is None else pattern(name, given),
        **options,
    )
    return " ".join(digest(getattr(out, part)) for part in PARTS)


def asked(kind: str, name: str) -> list[float] | str:
    """The digests or the sums of what a language says."""
    source, length = language(name), LANGUAGES[name][1]
    drawn = source.sample(ROWS, length, seed=3)
    shown = pattern(name, "ragged infilling")
    match kind:
        case "sample":
            return f"{digest(drawn)} {digest(source.sample(ROWS, length, seed=3, given=shown))}"
        case "posterior":
            return sums(torch.cat([source.posterior(shown), source.posterior(source.blank(1, length))]))
        case "log_prob":
            nats = source.log_prob(torch.cat([drawn, drawn.roll(1, 0).roll(3, 1)]))
            return sums(nats.clamp(min=-1e4))
        case "entropy":
            return sums(torch.tensor([source.entropy(length).value]))
    out = unmask.generate(source, steps=8, length=length, rows=40, seed=9)
    said = unmask.score(out, source)
    curve = sampled.information_curve(source, length, rows=40, seed=2)
    numbers = [said.ser, said.generative_perplexity, said.ser_rao_blackwell, curve.ter_upper("linear", 4)]
    ends = [x for number in numbers if number is not None for x in (number.value, number.low, number.high)]
    return sums(torch.tensor(ends, dtype=torch.float64))


def digest(tokens: torch.Tensor) -> str:
    whole = tokens.long().contiguous()
    return hashlib.sha256(str(tuple(whole.shape)).encode() + whole.numpy().tobytes()).hexdigest()[:12]


def sums(numbers: torch.Tensor) -> list[float]:
    """Three weighted sums of float64 numbers, whose order they see, and the share that is exactly 0."""
    flat = numbers.double().flatten()
    place = torch.arange(1, len(flat) + 1, dtype=torch.float64)
    weights = [torch.ones_like(place), torch.cos(place), torch.sin(place.sqrt() * 3)]
    return [*(float((weight * flat).sum()) for weight in weights), float((flat == 0).double().mean())]


def answer(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except unmask.UnmaskError:
        return "refused"


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        sys.exit("python -m tests.golden --write")
    recorded: dict[str, dict[str, object]] = {}
    for what, case, ask in cases():
        recorded.setdefault(what, {})[case] = answer(ask)
    FILE.write_text(json.dumps(recorded, indent=0) + "\n")


if __name__ == "__main__":
    main()
