"""A sampler in a foreign loop: the tokens of `generate`, by logits that come from elsewhere."""

from __future__ import annotations

import pytest
import torch
from foreign_loop import Fed

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.samplers import SAMPLERS

pytestmark = pytest.mark.long
LANGUAGE = languages.load("paper-2gram")
V, MASK = LANGUAGE.vocabulary, LANGUAGE.vocabulary  # ids are those of the language, with a mask token behind them


def logits(ids):
    """(B, L, V + 1), the mask the most likely: loops have to exclude it."""
    exact = LANGUAGE.posterior(ids).log().clamp(min=-1e4)
    return torch.cat([exact, torch.full_like(exact[..., :1], 3.0)], -1)


REFUSED = ("another context", "needs a language", "needs the exact denoiser")  # some ask for more than logits
FEDS = [name for name in SAMPLERS.names() if not SAMPLERS.make(name).implements("run")]


def fed(sampler, ids, steps, **options):
    """(ids, number of forward passes) of a foreign loop."""
    loop, passes = Fed(sampler, ids, MASK, V + 1, steps=steps, **options), 0
    while not loop.done:
        ids = loop.feed(logits(ids))
        passes += 1
    return ids, passes


@pytest.mark.parametrize("sampler", FEDS)
def test_the_tokens_are_those_of_generate(sampler):
    given = torch.full((3, 10), MASK)
    given[:, 2], given[1, 5:7] = 1, 0
    free = SAMPLERS.make(sampler).pace == "free"
    try:
        ids, passes = fed(sampler, given, 5, seed=7, rows=[4, 9, 5])
    except UnmaskError as error:
        assert any(words in str(error) for words in REFUSED)  # noqa: PT017
        return
    hidden = torch.where(given == MASK, V, given)
    made = generate(LANGUAGE, sampler=sampler, given=hidden, steps=5, seed=7, first_row=[4, 9, 5])
    assert ids.tolist() == made.tokens.tolist()
    assert passes == int(made.model_calls.max()) or (free and passes >= int(made.model_calls.max()))


def test_most_samplers_need_no_other_context():
    refused = []
    for sampler in FEDS:
        try:
            fed(sampler, torch.full((1, 10), MASK), 5)
        except UnmaskError:
            refused.append(sampler)
    assert len(refused) < len(FEDS) / 4, refused


def test_what_is_refused():
    with pytest.raises(UnmaskError, match=r"has its own loop; expected one that orders or chooses\. Blocks are"):
        Fed("blocks", torch.full((1, 4), MASK), MASK, V + 1)
    loop = Fed("threshold", torch.zeros((1, 4), dtype=torch.int64), MASK, V + 1)
    assert loop.done
    assert loop.feed(logits(loop.ids)).tolist() == [[0] * 4]
