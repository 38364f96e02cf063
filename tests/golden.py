"""Golden digests: what the front door gives, small and everywhere, so that a change of structure can show it kept it.

`python -m tests.golden --write` records golden.json; tests/samplers/test_golden.py compares. A deliberate difference is
recorded again, in the commit that makes it. Samplers are those of the file and of the registry; `--write "NAME(..)"`
adds one with options. A refusal is recorded as refused. Numbers are kept as a few weighted sums, so that the last bit
of a float is free.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import count, product
from pathlib import Path
from zlib import crc32

import pytest
import torch

import unmask
from unmask.denoisers import as_denoiser
from unmask.samplers import SAMPLERS
from unmask.theory import sampled

FILE = Path(__file__).with_suffix(".json")
COMMAND = "python -m tests.golden --write"
ROWS = 7
PARTS = ("tokens", "order", "model_calls", "impossible")

PLACED = 27, 107  # the first 27 samplers in the file, and the first 107: their cases depend on their places in it
GONE = 4, 22, 23, 26, *range(39, 44), 81, 82, 90, 91, 94, 95, *range(100, 104), 106  # of samplers that left the file
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
    ("geometric(ratio=1.3)", 6),
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


def recorded() -> dict[str, dict[str, object]]:
    """The digests of each case, by sampler with its options, or by what else is asked."""
    return json.loads(FILE.read_text())


def samplers(added: Sequence[str] = ()) -> list[str]:
    """Samplers with their options: those in the file, those added, and every other one that is registered."""
    found = list(dict.fromkeys([*(name for name in recorded() if not name.startswith("language ")), *added]))
    named = {name.partition("(")[0] for name in found}
    return [*found, *sorted(set(SAMPLERS.about()) - named)]


def cases(added: Sequence[str] = ()) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """(sampler or what else is asked, the rest of the case's name, what answers it)."""
    names, placed = PLACED
    for place, sampler in zip((place for place in count() if place not in GONE), samplers(added), strict=False):
        i, every = place if place < placed else crc32(sampler.encode()) % 90, 1 if place < names else 3
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
    for kind, name in product(("sample", "posterior", "log_prob", "entropy", "metrics"), LANGUAGES):
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
    source, removed = language(name), SAMPLERS.make(sampler).removes
    out = unmask.generate(
        source if perturbed is None else unmask.denoisers.Perturbed(as_denoiser(source, removed), *perturbed),
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


def difference(was: object, now: object) -> str:
    """What differs between two answers, nothing where they agree; sums of floats may by 1e-11 of their size."""
    if was is None or "refused" in (was, now):
        return "" if was == now else f"{str(now)[:7]}, recorded as {str(was)[:7]}"
    if isinstance(was, str):
        return ", ".join(part for part, a, b in zip(PARTS, was.split(), now.split(), strict=False) if a != b)
    return "" if was == pytest.approx(now, rel=1e-11, abs=1e-11) else "numbers"


def main() -> None:
    if sys.argv[1:2] != ["--write"]:
        sys.exit(f"{COMMAND} [SAMPLER ..]")
    known, made = recorded(), dict[str, dict[str, object]]()
    for what, case, ask in cases(sys.argv[2:]):
        was, now = known.get(what, {}).get(case), answer(ask)
        made.setdefault(what, {})[case] = now if difference(was, now) else was
    FILE.write_text(json.dumps(made, indent=0) + "\n")


if __name__ == "__main__":
    main()
