"""Training on a text: resumed as if nothing had been, twins alike in all but what they look at, bad input in a line."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
import torch

from tests.models.trained.test_training import OFTEN, assert_same, stop_at
from unmask import UnmaskError
from unmask.models import trained
from unmask.models.text import Text, tokenizer
from unmask.models.trained import Shape, checkpoints, loop, read_network
from unmask.models.trained.loop import resume, train
from unmask.models.trained.objectives import Objective
from unmask.models.trained.recipe import Recipe
from unmask.models.trained.validation import HeldOut

TINY = {"hidden": 16, "layers": 1, "heads": 2}
BRIEF = Recipe(steps=20, batch=8, rate=3e-3, average=0.9, seed=4)
LENGTH = 12


def documents(seed=0):
    rng = torch.Generator().manual_seed(seed)
    words = ("the", "cat", "sat", "on", "a", "mat", "and", "rat")
    lines = [" ".join(words[w] for w in torch.randint(8, (30,), generator=rng)) for _ in range(60)]
    return "\n\n".join(lines)


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "words.txt"
    made.write_text(documents())
    return made


@pytest.fixture
def text(path):
    return Text.of(path, "chars")


def shape(text, kind="mdm", **changes):
    return Shape(kind, text.vocabulary, LENGTH, **(TINY | changes))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("tokenizer", ["chars", "bpe:270"])
@pytest.mark.parametrize("kind", ["mdm", "ar"])
def test_interrupted_and_resumed_is_undisturbed(tmp_path, path, kind, tokenizer):
    text = Text.of(path, tokenizer)
    train(text, shape(text, kind), BRIEF, tmp_path / "undisturbed")
    with pytest.raises(KeyboardInterrupt):
        train(text, shape(text, kind), BRIEF, tmp_path / "out", conditions=replace(OFTEN, say=stop_at(12)))
    found = resume(tmp_path / "out")
    assert found.steps == 20
    assert_same(tmp_path / "undisturbed", tmp_path / "out")


def test_it_learns_the_text(tmp_path, text):
    made = replace(BRIEF, steps=150, batch=32, rate=1e-2)
    found = train(text, shape(text, "ar", hidden=32, heads=4), made, tmp_path / "out")
    assert found.validation.loss.value < 0.6 * math.log(text.vocabulary)
    assert found.bits["bits_per_character"] == pytest.approx(found.validation.loss.value / math.log(2))
    assert found.validation.excess_percent is None


@pytest.fixture
def pair(tmp_path, text):
    for kind in ("mdm", "ar"):
        train(text, shape(text, kind), BRIEF, tmp_path / kind)
    return tmp_path / "mdm", tmp_path / "ar"


def test_twins_see_equal_data_in_the_same_order(tmp_path, text, monkeypatch):
    seen, nats = {"mdm": [], "ar": []}, loop.Training._nats

    def noted(self, part):
        seen[self.shape.kind].append(part.tokens)
        return nats(self, part)

    monkeypatch.setattr(loop.Training, "_nats", noted)
    for kind in seen:
        train(text, shape(text, kind), BRIEF, tmp_path / kind)
    mdm, ar = (torch.cat(parts) for parts in seen.values())
    assert len(mdm) == 20 * 8
    assert mdm.equal(ar)
    assert mdm.equal(text.windows(0, 160, LENGTH, seed=4))
    assert not mdm.equal(text.windows(0, 160, LENGTH, seed=5))
    assert len({tuple(row) for row in mdm.tolist()}) > 100
    for row in mdm.tolist():  # each is a window of the line of training
        assert text.tokenizer.decode(row) in "".join(f"{one}\n\n" for one in text.corpus.training)


def test_any_part_of_a_training_is_the_same(text):
    whole = text.windows(0, 100, LENGTH, seed=3)
    for first, count in ((90, 10), (37, 3), (0, 1)):
        assert text.windows(first, count, LENGTH, seed=3).equal(whole[first : first + count])


def test_held_out_windows_have_nothing_in_common(text):
    tiles = text.tiles(10**6, LENGTH)
    assert len(tiles) == len(text.held_out) // LENGTH
    counted = torch.zeros(len(text.held_out))
    for begin in torch.arange(len(tiles)) * (len(text.held_out) - LENGTH) // (len(tiles) - 1):
        assert text.held_out[begin : begin + LENGTH].tolist() in tiles.tolist()
        counted[begin : begin + LENGTH] += 1
    assert counted.max() == 1
    assert len(text.tiles(3, LENGTH)) == 3
    assert text.tiles(1, LENGTH)[0].equal(text.held_out[:LENGTH].long())


def test_the_loss_is_that_of_the_held_out_text(pair, text):
    """Of the AR twin by itself, one token after another."""
    trunk = trained.load(pair[1], "cpu").double()
    tokens = text.tiles(50, LENGTH)
    with torch.no_grad():
        read = torch.cat([torch.full((len(tokens), 1), text.vocabulary), tokens[:, :-1]], 1)
        paid = -trunk(read).log_softmax(-1).gather(2, tokens.unsqueeze(2)).sum((1, 2))
    torch.testing.assert_close(HeldOut(tokens, 0, Objective(trunk.shape)).nats(trunk), paid)


def test_a_text_that_has_changed_is_refused(pair, path):
    path.write_text(path.read_text() + "\n\nmore of it")
    with pytest.raises(UnmaskError, match=r"words\.txt has changed since the start of this training"):
        resume(pair[0])
    path.unlink()
    with pytest.raises(UnmaskError, match="No such file"):
        resume(pair[0])


def test_a_pair_of_two_tokenizers_is_refused(pair, tmp_path, text):
    same_size = "".join(sorted(chr(ord(c) + 1) for c in text.tokenizer.symbols))
    tokenizer.Chars(same_size).save(pair[1])
    with pytest.raises(UnmaskError, match="have different tokenizers"):
        read_network(*pair)
    text.tokenizer.save(pair[1])
    assert read_network(*pair).vocabulary == text.vocabulary


def test_a_text_is_no_language(pair):
    with pytest.raises(UnmaskError, match=r"was trained on a text \(words\.txt, chars\), so exact"):
        checkpoints.read_language(pair[0])


@pytest.mark.parametrize(
    ("size", "changes", "words"),
    [
        ({"length": 10**4}, {}, "chars tokens to"),
        ({}, {"samples": 10}, "a text has a fixed size"),
        ({}, {"targets": "posterior"}, "a text does not have"),
        ({"vocabulary": 9}, {}, "for 9 symbols"),
    ],
)
def test_mistakes_are_told(tmp_path, text, size, changes, words):
    sizes = {"kind": "mdm", "vocabulary": text.vocabulary, "length": LENGTH} | TINY | size
    with pytest.raises(UnmaskError, match=re.escape(words)) as caught:
        train(text, Shape(**sizes), replace(BRIEF, **changes), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()
