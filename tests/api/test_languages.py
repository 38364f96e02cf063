"""Languages of others: what a file may name, and a language that says no more than its likelihood."""

from __future__ import annotations

import itertools
import json
import math
import sys
from typing import ClassVar

import numpy as np
import pytest
import torch

from unmask import UnmaskError, generate, languages, load, score
from unmask.languages import LANGUAGES, Language, from_dict
from unmask.samplers import SAMPLERS

PALINDROMES = '''
import math
import torch
from unmask.languages import Language

print("palindromes was imported")

class Palindromes(Language):
    """Sequences that read the same from both ends, where `skew` is the chance of a pair of ones."""

    kind = "palindromes"
    vocabulary = 2

    def __init__(self, skew: float = 0.5) -> None:
        self.skew = skew

    def parameters(self):
        return {"skew": self.skew}

    def log_evidence(self, tokens):
        """Each pair from the outside in: both hidden 1, else the chance of what is seen, nothing where they differ."""
        left, right = tokens, tokens.flip(1)
        seen = torch.where(left == 2, right, left)
        law = torch.tensor([1 - self.skew, self.skew, 1.0], dtype=torch.float64).log()
        differ = (left != 2) & (right != 2) & (left != right)
        half = (tokens.shape[1] + 1) // 2
        return torch.where(differ, -math.inf, law[seen])[:, :half].sum(1)

class Misnamed(Palindromes):
    kind = "another"

class Vague(Language):
    kind = "vague"
    vocabulary = 2
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """What the installation of a package with languages leaves."""
    (tmp_path / "palindromes.py").write_text(PALINDROMES)
    metadata = tmp_path / "palindromes-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: palindromes\nVersion: 1.0\n")
    names = {"palindromes": "Palindromes", "misnamed": "Misnamed", "vague": "Vague"}
    offers = "".join(f"{name} = palindromes:{kind}\n" for name, kind in names.items())
    (metadata / "entry_points.txt").write_text("[unmask.languages]\n" + offers)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("palindromes", None)


def test_a_kind_of_an_installed_package_is_read_from_a_file(installed, tmp_path):
    assert "palindromes" in LANGUAGES.names()
    assert "palindromes" not in sys.modules
    (tmp_path / "mine.json").write_text('{"kind": "palindromes", "skew": 0.25}')
    language = load(tmp_path / "mine.json")
    assert language.kind == "palindromes"
    assert from_dict(language.to_dict()).to_dict() == {"kind": "palindromes", "skew": 0.25}
    assert load("palindromes(skew=0.25)").source() == language.source() != load("palindromes").source()
    with pytest.raises(UnmaskError, match="a language of kind 'palindromes': unknown key 'skw'; did you mean skew"):
        from_dict({"kind": "palindromes", "skw": 1})
    with pytest.raises(UnmaskError, match="unknown kind of language 'palindrome'; did you mean palindromes"):
        from_dict({"kind": "palindrome"})
    with pytest.raises(UnmaskError, match="'misnamed' has the attribute kind 'another'; use one name"):
        from_dict({"kind": "misnamed"})
    with pytest.raises(UnmaskError, match="'vague' has no log_evidence and parameters"):
        from_dict({"kind": "vague"})


@pytest.mark.parametrize("kind", ["palindromes:Palindromes", "os:system", "os:getcwd", "builtins:print"])
def test_a_file_names_no_code(installed, tmp_path, kind, capsys):
    """Not even where it would be a language: whoever opens a file has not agreed to run it."""
    (tmp_path / "bad.json").write_text(json.dumps({"kind": kind}))
    with pytest.raises(UnmaskError, match="unknown kind of language"):
        load(tmp_path / "bad.json")
    assert "palindromes" not in sys.modules
    assert capsys.readouterr().out == ""


def test_a_program_names_a_class_of_its_own(installed):
    assert load("palindromes:Palindromes(skew=0.25)").to_dict() == {"kind": "palindromes", "skew": 0.25}
    with pytest.raises(UnmaskError, match="is not declared to return a model"):
        load("os:system(command='exit 3')")


class Equal(Language):
    """As many of the symbol 1 as of 0, all such sequences being equally likely: no machine, but a count."""

    kind: ClassVar[str] = "equal"
    vocabulary = 2

    def parameters(self):
        return {}

    def log_evidence(self, tokens):
        length = tokens.shape[1]
        free, ones = (tokens == 2).sum(1), (tokens == 1).sum(1)
        ways = [
            math.comb(int(f), length // 2 - int(o)) if o <= length // 2 else 0 for f, o in zip(free, ones, strict=True)
        ]
        total = math.comb(length, length // 2)
        return torch.tensor([math.log(way / total) if way else -math.inf for way in ways], dtype=torch.float64)

    def possible_lengths(self, longest):
        return np.arange(longest + 1) % 2 == 0 & (np.arange(longest + 1) > 0)


LANGUAGE, LENGTH = Equal(), 6
EVERY = torch.tensor(list(itertools.product(range(2), repeat=LENGTH)))
HELD_BYTES = {tuple(x): 1 / math.comb(LENGTH, LENGTH // 2) for x in EVERY.tolist() if sum(x) == LENGTH // 2}


def test_what_a_language_says_follows_from_its_likelihood():
    assert LANGUAGE.supports(EVERY).tolist() == [tuple(x) in HELD_BYTES for x in EVERY.tolist()]
    for pattern in itertools.product(range(3), repeat=LENGTH):
        fits = {x: p for x, p in HELD_BYTES.items() if all(a in (2, b) for a, b in zip(pattern, x, strict=True))}
        if not fits:
            continue
        said = LANGUAGE.posterior(torch.tensor([pattern]))[0]
        for j in range(LENGTH):
            for v in range(2):
                expected = sum(p for x, p in fits.items() if x[j] == v) / sum(fits.values())
                assert float(said[j, v]) == pytest.approx(expected, abs=1e-12), (pattern, j, v)
    assert LANGUAGE.entropy(LENGTH).low <= math.log(len(HELD_BYTES)) * (1 + 1e-9)
    drawn = LANGUAGE.sample(2000, LENGTH, seed=1)
    counts = {x: 0 for x in HELD_BYTES}
    for x in drawn.tolist():
        counts[tuple(x)] += 1  # a KeyError is a draw that q cannot have made
    expected = len(drawn) / len(HELD_BYTES)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 70.4  # chi^2_19, 1e-7


@pytest.mark.parametrize(
    "sampler", ["autoregressive", "first-hitting", "low-confidence", "blocks", "gibbs", "speculative"]
)
def test_samplers_run_on_it(sampler):
    """At one token at a time all of them draw from q, or from a part of it."""
    made = generate(LANGUAGE, sampler=sampler, steps=LENGTH, length=LENGTH, rows=300, seed=2)
    found = score(made, LANGUAGE)
    assert found.impossible_rows == sum(tuple(x) not in HELD_BYTES for x in made.tokens.tolist())
    if SAMPLERS.make(sampler).distribution is not None and sampler != "low-confidence":
        assert found.impossible_rows == 0
    assert made.source == {"denoiser": "ideal", "language": LANGUAGE.source()}


@pytest.mark.parametrize("size", [1, 2, 3])
def test_windows(size):
    """By enumeration; and what follows from the likelihood is what a machine computes by messages."""
    distribution = torch.zeros(2**size, dtype=torch.float64)
    for x, p in HELD_BYTES.items():
        for place in range(LENGTH - size + 1):
            distribution[int("".join(map(str, x[place : place + size])), 2)] += p / (LENGTH - size + 1)
    torch.testing.assert_close(LANGUAGE.window_distribution(size, LENGTH), distribution, rtol=0, atol=1e-12)
    known = languages.load("modular-sum(modulus=2)")
    said = known.window_distribution(size, known.nearest_lengths(9)[-1])
    torch.testing.assert_close(
        Language._window_distribution(known, size, known.nearest_lengths(9)[-1]), said, rtol=0, atol=1e-9
    )


def test_parallel_errors_are_counted():
    """In one step every position is a fair coin: SER = 1 - 20/64."""
    made = generate(LANGUAGE, steps=1, length=LENGTH, rows=4000, seed=3)
    found = score(made, LANGUAGE)
    assert found.ser.value == pytest.approx(1 - 20 / 64, abs=0.04)  # 5.4 standard deviations
    assert found.generative_perplexity.value == pytest.approx(20 ** (1 / LENGTH))


def test_it_can_be_given_a_beginning():
    given = torch.tensor([1, 1, 1, 2, 2, 2])
    made = generate(LANGUAGE, given=given, rows=20, steps=3)
    assert made.tokens.tolist() == [[1, 1, 1, 0, 0, 0]] * 20
    with pytest.raises(UnmaskError, match="given row 0 has probability zero"):
        generate(LANGUAGE, given=torch.tensor([1, 1, 1, 1, 2, 2]), rows=2)
    with pytest.raises(UnmaskError, match="equal has no sequence of length 5; the nearest lengths: 4 and 6"):
        generate(LANGUAGE, length=5, rows=2)


@pytest.mark.parametrize("kind", [list, np.array, lambda x: np.array(x, np.uint8), torch.tensor])
def test_tokens_come_in_whatever_holds_whole_numbers(kind):
    language = languages.load("interval-5")
    rows, one = kind([[0, 1, 2, 3], [0, 0, 0, 0]]), kind([0, 1, 16, 3])
    tensor = torch.tensor([[0, 1, 2, 3], [0, 0, 0, 0]])
    assert torch.equal(language.log_prob(rows), language.log_prob(tensor))
    assert torch.equal(language.supports(rows), language.supports(tensor))
    assert torch.equal(language.posterior(rows), language.posterior(tensor))
    assert torch.equal(language.sizes(rows), language.sizes(tensor))
    assert language.render(one) == "0 1 _ 3"
    assert score(rows, language) == score(tensor, language)
    given = kind([0, 16, 16, 16])
    assert language.sample(3, 4, given=given)[:, 0].tolist() == [0] * 3
    assert generate(language, given=given, rows=3).tokens[:, 0].tolist() == [0] * 3


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([[0, 1], [0]], "tokens are not a table of tokens"),
        ([["a", "b"]], "tokens are <U1; expected integers"),
        ([[0.5]], "tokens are float64; expected integers"),
        ([[True, False]], "tokens are bool; expected integers"),
        (np.array([[2**63]], np.uint64), "expected integers of at most 64 bits with a sign"),
        ([], "tokens are float64"),
        ([[99]], "row 0, position 0: token 99 is not in 0..15"),
    ],
)
def test_what_holds_no_tokens_is_refused(tokens, message):
    with pytest.raises(UnmaskError) as caught:
        languages.load("interval-5").log_prob(tokens)
    assert message in str(caught.value)
