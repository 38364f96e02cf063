"""Nemotron-Labs-Diffusion: a decoder whose rotary positions are stretched."""

from __future__ import annotations

import pytest
import torch

from tests.hub.plain import as_llama, canonical, decoder, sight
from tests.hub.small import MASK, V, card, load, write
from tests.needs import needs
from unmask import UnmaskError, generate
from unmask.hub.card import Tokens
from unmask.hub.rotary import Yarn

WIDTH, LENGTH = 8, 12
ROTARY = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 16.0,
    "original_max_position_embeddings": 64,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}
CONFIG = {
    "model_type": "nemotron_labs_diffusion",
    "architectures": ["NemotronLabsDiffusionModel"],
    "vocab_size": V,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": WIDTH,
    "intermediate_size": 48,
    "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "rope_parameters": ROTARY,
    "rope_scaling": ROTARY,  # once more, as published
    "attention_bias": False,
    "mlp_bias": False,
    "sliding_window": None,
    "block_size": 4,
    "mask_token_id": 37,
    "dlm_paradigm": "block_diff",
}


def checkpoint(directory, **changed):
    own = canonical(symbols=V)
    made = {
        name.replace("model.", "encoder.", 1): value for name, value in as_llama(own).items() if "_norm." not in name
    }
    made["diffusion_head.weight"] = made.pop("lm_head.weight")
    write(directory, CONFIG | changed, made)
    return own


def turns(length):
    """(L, width / 2): pairs that turn 32 times and more in 64 positions as they are, those that turn once or less by a
    sixteenth, in between by the share of their number; of 8 numbers a head the corrected pairs are 0 to 2."""
    import math

    places = [WIDTH * math.log(64 / (often * 2 * math.pi)) / (2 * math.log(1e4)) for often in (32, 1)]
    low, high = max(math.floor(places[0]), 0), min(math.ceil(places[1]), WIDTH - 1)
    periods = 10000.0 ** (torch.arange(0, WIDTH, 2).float() / WIDTH)
    stretched = torch.tensor([min(max((pair - low) / (high - low), 0.0), 1.0) for pair in range(WIDTH // 2)])
    kept = 1 - stretched
    return torch.outer(torch.arange(length).float(), 1.0 / (16.0 * periods) * (1 - kept) + 1.0 / periods * kept)


@pytest.mark.parametrize("block", [1, 4, None])
def test_it_says_what_the_published_arithmetic_says(tmp_path, block):
    own = checkpoint(tmp_path)
    model = load(tmp_path, card("nemotron", block=block, prediction="shifted" if block == 1 else "same"))
    row = torch.randint(0, V, (LENGTH,), generator=torch.Generator().manual_seed(1))
    seen = sight(LENGTH, block)
    with torch.no_grad():
        ours = model.body.logits(model.body.states(row[None], None, seen[None, None], None))[0]
    table = turns(LENGTH)
    plain = decoder(own, row, table.cos(), table.sin(), eps=1e-5, seen=seen)
    torch.testing.assert_close(ours, plain, rtol=0, atol=1e-9)
    assert model.body.context == 64  # beyond it queries are scaled


def test_what_is_settled_is_read_from_left_to_right(tmp_path):
    """Rows of unequal lengths, block after block, each against one look at the whole row by itself."""
    own = checkpoint(tmp_path)
    model = load(tmp_path, card("nemotron", block=4, past="causal"))
    lengths = (12, 7, 10)
    rng = torch.Generator().manual_seed(3)
    truth = torch.randint(0, MASK, (3, 12), generator=rng)
    tokens = truth.clone()
    valid = torch.arange(12) < torch.tensor(lengths).unsqueeze(1)
    tokens[:, 2:] = V
    tokens[~valid] = 0
    engine = model.engine(tokens, tokens.clone(), valid)
    steps = 0
    while bool((left := (tokens == V) & valid).any()):
        rows, places = (left & (left.cumsum(1) <= 3)).nonzero(as_tuple=True)
        said = engine.at(rows, places, None).dense()
        for row, length in enumerate(lengths):
            settled = int(left[row].int().argmax()) // 4 * 4 if left[row].any() else length
            seen = sight(length, 4)
            seen[:settled] = sight(length, 1)[:settled]
            table = turns(length)
            read = torch.where(tokens[row, :length] == V, MASK, tokens[row, :length])
            plain = decoder(own, read, table.cos(), table.sin(), eps=1e-5, seen=seen)
            plain[:, MASK] = -torch.inf
            mine = rows == row
            torch.testing.assert_close(said[mine].double(), plain[places[mine]].softmax(-1), rtol=0, atol=1e-9)
        filled = left & (left.cumsum(1) <= 2)
        rows, places = filled.nonzero(as_tuple=True)
        tokens[rows, places] = truth[rows, places]
        engine.renew(rows, places)
        steps += 1
    assert steps == 5


def test_it_reads_and_writes_with_one_set_of_weights(tmp_path):
    checkpoint(tmp_path)
    reader = load(tmp_path, card("nemotron", block=1, prediction="shifted", tokens=Tokens(eos=2, bos=1)))
    writer = load(tmp_path, card("nemotron", block=4, past="causal"), causal=reader)
    made = generate(writer, sampler="speculative(draft_length=3)", length=10, rows=6, seed=2)
    assert (made.tokens < V).all()
    assert generate(reader, sampler="autoregressive", length=10, rows=6, seed=2).tokens.shape == (6, 10)


@needs("hub")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("changed", [{}, {"mscale": None, "mscale_all_dim": None}, {"factor": 1.0}, {"beta_fast": 4.0}])
@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_stretched_turns_are_those_of_transformers(changed, theta):
    from transformers import Ministral3Config
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    said = ROTARY | {"rope_theta": theta, "original_max_position_embeddings": 16384} | changed
    config = Ministral3Config(hidden_size=256, num_attention_heads=2, head_dim=128, rope_parameters=dict(said))
    theirs, scale = ROPE_INIT_FUNCTIONS["yarn"](config, None)
    ours = Yarn(**{name: value for name, value in said.items() if name in Yarn.__struct_fields__})
    assert torch.equal(ours.turns(128), theirs)
    assert ours.scale == pytest.approx(scale)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rope_parameters": ROTARY | {"rope_type": "llama3"}}, "rope_type is 'llama3'; expected 'yarn'"),
        ({"sliding_window": 128}, "sliding_window is 128"),
        ({"mlp_bias": True}, "mlp_bias is True"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "factor"),
        ({"rope_parameters": ROTARY | {"factor": 0.0}}, "factor"),
        ({"rope_parameters": ROTARY | {"original_max_position_embeddings": 0}}, "original_max_position_embeddings"),
        ({"rope_parameters": ROTARY | {"rope_theta": 1.0}}, "rope_theta"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, changed, message):
    checkpoint(tmp_path, **changed)
    with pytest.raises(UnmaskError, match=message):
        load(tmp_path, card("nemotron"))
