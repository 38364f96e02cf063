"""SMDM: fused rows head by head, rotary positions in bfloat16, a mask that is read and never written."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.agreement import agree
from tests.models.open.plain import angles, canonical, decoder
from tests.models.open.small import V, card, load, write
from tests.needs import needs
from unmask import UnmaskError, generate
from unmask.models.open.card import Tokens

pytestmark = pytest.mark.filterwarnings("ignore")  # those of transformers
WIDTH, HEADS, HIDDEN, LENGTH = 8, 4, 32, 12
CONFIG = {
    "model_type": "smdm",
    "n_layer": 2,
    "n_head": HEADS,
    "n_embd": HIDDEN,
    "intermediate_size": 48,
    "vocab_size": V,
    "block_size": 32,
    "norm_eps": 1e-5,
}
CARD = {"tokens": Tokens(mask=V, eos=2, bos=1)}
NAMES = {"ln1": "norm_1", "ln2": "norm_2", "o": "attn.proj", "gate": "mlp.swiglu.w1", "up": "mlp.swiglu.w2"}


def checkpoint(directory, groups=HEADS, **config):
    own = canonical(symbols=V + 1, rows=V, kv_heads=groups)
    made = {"transformer.wte.weight": own["embed"], "transformer.ln_f.weight": own["norm"]}
    made["lm_head.weight"] = own["head"]
    for n in range(2):
        at = f"transformer.h.{n}."
        for ours, theirs in (NAMES | {"down": "mlp.swiglu.w3"}).items():
            made[f"{at}{theirs}.weight"] = own[f"{n}.{ours}"]
        rows, share = [], HEADS // groups
        for group in range(groups):
            for head in range(group * share, (group + 1) * share):
                rows.append(own[f"{n}.q"][head * WIDTH : (head + 1) * WIDTH])
            rows += [own[f"{n}.{part}"][group * WIDTH : (group + 1) * WIDTH] for part in "kv"]
        made[f"{at}attn.attn.weight"] = torch.cat(rows)
    write(directory, CONFIG | {"n_query_groups": groups} | config, made)
    return own


@needs("open")
@pytest.mark.parametrize("groups", [HEADS, 2])
def test_it_says_what_the_published_arithmetic_says(tmp_path, groups):
    own = checkpoint(tmp_path, groups)
    model = load(tmp_path, card("smdm", **CARD))
    row = torch.randint(0, V + 1, (LENGTH,), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours = model.body.logits(model.body.states(row[None], None, None, None))[0]
    table = angles(LENGTH, WIDTH, 1e4)
    plain = decoder(own, row, table.cos().bfloat16(), table.sin().bfloat16(), eps=1e-5)
    assert ours.shape == (LENGTH, V)
    torch.testing.assert_close(ours.double(), plain, rtol=0, atol=3e-6)  # norms of transformers are in float32
    finer = decoder(own, row, table.cos(), table.sin(), eps=1e-5)
    assert (finer - plain).abs().max() > 1e-4  # the rounding is no matter of taste


@needs("open")
def test_batches_change_nothing_and_the_mask_is_never_written(tmp_path):
    checkpoint(tmp_path)
    model = load(tmp_path, card("smdm", **CARD))
    agree(model)
    assert model.vocabulary == V
    assert int(generate(model, length=LENGTH, rows=40, steps=4).tokens.max()) < V


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"n_query_groups": 3}, "3 of keys and values"),
        pytest.param({"n_layer": 3}, "do not fit its config.json", marks=needs("open")),
    ],
)
def test_sizes_that_do_not_fit_are_refused(tmp_path, config, words):
    checkpoint(tmp_path, **{"groups": 2} | ({} if "n_query_groups" in config else config))
    if "n_query_groups" in config:
        checkpoint(tmp_path)
        write(tmp_path, CONFIG | config, {})
    with pytest.raises(UnmaskError, match=words):
        load(tmp_path, card("smdm", **CARD))
