"""Checkpoints in their published layout say what transformers' own Llama, Qwen2 and Qwen3 say, seeing both sides."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import load_file

from tests.models.open.small import CONFIGS, MASK, V, card, load, published, tokens
from tests.needs import needs
from unmask.models.open.families import llada_sources


def native(family, directory, config, attention):
    """The class of transformers, in float64, with these weights."""
    import transformers

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        weights = load_file(directory / "model.safetensors")
        if family == "llada":
            kind, names = "Llama", {"d_model": "hidden_size", "n_layers": "num_hidden_layers"}
            names |= {"n_heads": "num_attention_heads", "mlp_hidden_size": "intermediate_size"}
            names |= {"embedding_size": "vocab_size", "rms_norm_eps": "rms_norm_eps", "rope_theta": "rope_theta"}
            config = {theirs: config[ours] for ours, theirs in names.items()}
        else:
            kind = "Qwen3" if family == "qwen3" else "Qwen2"
            config = {name: value for name, value in config.items() if name != "model_type"}
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": config.pop("rope_theta")}
        made = getattr(transformers, f"{kind}Config")(**config, attn_implementation="eager")
        made.is_causal = attention == "causal"
        model = getattr(transformers, f"{kind}ForCausalLM")(made).double().eval()
        if family == "llada":
            sources = llada_sources(model, frozenset(weights))
            weights = {name: weights[sources[name].names[0]] for name in model.state_dict()}
        elif made.tie_word_embeddings:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        model.load_state_dict(weights)
    return model


@needs("hub")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", CONFIGS)
def test_logits_are_those_of_transformers(tmp_path, family):
    directory = published(tmp_path, family, CONFIGS[family])
    model = load(directory, card(family))
    rows = tokens(3, 11)
    read = torch.where(rows == V, MASK, rows)
    with torch.no_grad():
        theirs = native(family, directory, CONFIGS[family], "bidirectional")(read, use_cache=False).logits
        ours = model.body.logits(model.body.states(read, None, None, None))
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-6)  # theirs norms in float32
