"""transformers loads what we save, and we what it saves, with equal logits."""

from __future__ import annotations

import json

import pytest
import torch

from tests.models.trained.small import L, V, every_context, trunk
from tests.needs import needs
from unmask import UnmaskError
from unmask.models import trained
from unmask.models.trained import checkpoints

pytestmark = [needs("hub"), pytest.mark.filterwarnings("ignore")]  # those of transformers


@pytest.fixture(scope="module", autouse=True)
def hub():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        import unmask.models.trained.huggingface

        yield unmask.models.trained.huggingface


@pytest.fixture(params=["mdm", "ar", "told the time", "uniform noise"])
def made(request):
    kind, noise = "ar" if request.param == "ar" else "mdm", "uniform" if request.param == "uniform noise" else "mask"
    return trunk(kind, time_free=request.param in ("mdm", "ar"), noise=noise, dtype=torch.float32).eval()


def auto(kind):
    import transformers

    return getattr(transformers, {"mdm": "AutoModelForMaskedLM", "ar": "AutoModelForCausalLM"}[kind])


def test_there_and_back(tmp_path, made):
    trained.save(made, tmp_path / "ours")
    theirs, report = auto(made.shape.kind).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report.values())
    context = every_context()
    told = {} if made.shape.time_free else {"time": torch.linspace(0, 1, len(context))}
    assert theirs(context, **told).logits.equal(made(context, **told))
    theirs.save_pretrained(tmp_path / "theirs")
    assert trained.load(tmp_path / "theirs", "cpu")(context, **told).equal(made(context, **told))
    again = auto(made.shape.kind).from_pretrained(tmp_path / "theirs")
    assert again(context, **told).logits.equal(made(context, **told))


def test_the_config_has_their_names(tmp_path, made):
    trained.save(made, tmp_path)
    config = auto(made.shape.kind).from_pretrained(tmp_path).config
    assert config.shape == made.shape
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (16, 2, 2)
    assert (config.max_position_embeddings, config.vocab_size) == (L, V + 1)


def test_generate_begins_with_the_start(tmp_path):
    made = trunk("ar", dtype=torch.float32).eval()
    trained.save(made, tmp_path)
    theirs = auto("ar").from_pretrained(tmp_path)
    drawn = theirs.generate(max_new_tokens=L, do_sample=True, num_return_sequences=5)
    assert drawn.shape == (5, L + 1)
    assert (drawn[:, 0] == V).all()
    assert (drawn[:, 1:] < V).all()
    greedy = theirs.generate(torch.tensor([[V]]), max_new_tokens=L, do_sample=False)[0]
    for place in range(L):
        assert int(made(greedy[None, : place + 1])[0, -1].argmax()) == int(greedy[place + 1])


def test_losses_are_those_of_their_labels(tmp_path):
    context = every_context()[:7]
    mdm, ar = trunk(dtype=torch.float32), trunk("ar", dtype=torch.float32)
    for made, shift in ((mdm, 0), (ar, 1)):
        directory = tmp_path / made.shape.kind
        trained.save(made, directory)
        labels = torch.where(context < V, context, -100)
        found = auto(made.shape.kind).from_pretrained(directory)(context, labels=labels).loss
        surprise = -torch.log_softmax(made(context), -1)[:, : L - shift]
        told = labels[:, shift:]
        losses = surprise.gather(2, told.clamp(min=0).unsqueeze(2)).squeeze(2)[told >= 0]
        torch.testing.assert_close(found, losses.mean())


def test_the_wrong_class_says_which(tmp_path):
    trained.save(trunk("ar", dtype=torch.float32), tmp_path)
    with pytest.raises(UnmaskError, match="Use AutoModelForCausalLM"):
        auto("mdm").from_pretrained(tmp_path)


def test_padding_cannot_be_masked(hub):
    model = hub.UnmaskForMaskedLM(hub.UnmaskConfig(kind="mdm", vocabulary=V, length=L, hidden=16, layers=1, heads=2))
    context = every_context()[:2]
    assert model(context, attention_mask=torch.ones(2, L)).logits.shape == (2, L, V)
    with pytest.raises(UnmaskError, match="no padding"):
        model(context, attention_mask=torch.zeros(2, L))


def test_what_they_write_is_what_we_write(tmp_path, made):
    trained.save(made, tmp_path / "ours")
    auto(made.shape.kind).from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    ours, theirs = (json.loads((tmp_path / who / checkpoints.CONFIG).read_text()) for who in ("ours", "theirs"))
    for name in ("model_type", "architectures", *made.shape.to_dict()):
        assert theirs[name] == ours[name]
