"""The oracle's logits are the exact posterior, whatever it is dressed as; and loops of others run on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.brute import distribution, posterior, sequences, tiny_languages
from unmask import UnmaskError, languages, oracle
from unmask.denoisers import Ideal
from unmask.denoisers.oracles import APART, FLOOR, untied

V = 8
MASK = 126336  # LLaDA's
LANGUAGE = languages.load("paper-2gram")


def contexts(language, length, rows=60, seed=0):
    """Partly hidden sequences of the language."""
    tokens = language.sample(rows, length, seed=seed)
    hidden = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(seed)) < 0.5
    return torch.where(hidden, language.vocabulary, tokens)


@pytest.mark.parametrize("name", ["2-gram, pruned", "hmm, sparse", "hmm, final", "interval 3", "brackets, 1 kind"])
def test_logits_are_the_posterior_by_enumeration(name):
    language, length = tiny_languages()[name]
    x = contexts(language, length)
    logits = oracle(language, dtype=torch.float64)(x).logits
    strings = sequences(language.vocabulary, length)
    expected = posterior(distribution(language, length), strings, x.numpy(), language.vocabulary)
    np.testing.assert_allclose(logits.exp()[..., : language.vocabulary].numpy(), expected, atol=1e-12)
    assert bool((logits[..., language.vocabulary] == FLOOR).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask_id", [V, 20, 1000])
def test_what_loops_do_with_logits_works(dtype, mask_id):
    """Probabilities, argmax, entropy, guidance: no not-a-number, and nothing impossible has any mass."""
    x = contexts(LANGUAGE, 24)
    p = LANGUAGE.posterior(x)
    model = oracle(LANGUAGE, dtype=dtype, mask_id=mask_id)
    logits = model(torch.where(x == V, mask_id, x)).logits
    assert (logits.dtype, logits.shape[-1]) == (dtype, mask_id + 1)
    shown = logits.softmax(-1)
    assert bool((shown[..., V:] == 0).all())
    assert bool((shown[..., :V][p == 0] == 0).all())
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    assert float((shown[..., :V].double() - p).abs().max()) < tolerance
    assert bool((logits.argmax(-1)[x != V] == x[x != V]).all())
    for value in (shown * logits.log_softmax(-1), logits + 2 * (logits - logits), logits.float() / 0.5, logits.exp()):
        assert bool(torch.isfinite(value).all())


def test_dream_undoes_its_shift():
    x = contexts(LANGUAGE, 16)
    model = oracle(LANGUAGE, shift=True, dtype=torch.float64)
    assert (model.config.mask_token_id, model.config.bos_token_id, model.config.vocab_size) == (V, V + 1, V + 2)
    rows = torch.cat([torch.full((len(x), 1), model.config.bos_token_id), x], 1)
    logits = model(rows, "full", None).logits
    undone = torch.cat([logits[:, :1], logits[:, :-1]], 1)[:, 1:]
    torch.testing.assert_close(undone, oracle(LANGUAGE, dtype=torch.float64, mask_id=V + 1)(_masked(x, V + 1)).logits)
    with pytest.raises(UnmaskError, match=r"row 0 begins with .*expected 9"):
        model(x)


def _masked(x, mask_id):
    return torch.where(x == V, mask_id, x)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("shape", [2, 4])
def test_padding_is_left_out(side, shape):
    x, sizes = contexts(LANGUAGE, 12, rows=4), [12, 9, 9, 5]
    padded, kept = torch.zeros_like(x), torch.zeros_like(x)
    places = [slice(12 - n, 12) if side == "left" else slice(0, n) for n in sizes]
    for row, (n, place) in enumerate(zip(sizes, places, strict=True)):
        padded[row, place], kept[row, place] = x[row, :n], 1
    mask = kept if shape == 2 else (kept.unsqueeze(1) & kept.unsqueeze(2)).unsqueeze(1)
    logits = oracle(LANGUAGE)(padded, attention_mask=mask).logits
    for row, (n, place) in enumerate(zip(sizes, places, strict=True)):
        torch.testing.assert_close(logits[row, place], oracle(LANGUAGE)(x[row : row + 1, :n]).logits[0])


def test_padding_in_the_middle_is_refused():
    with pytest.raises(UnmaskError, match="row 0 has 2 separate parts"):
        oracle(LANGUAGE)(torch.full((1, 3), V), torch.tensor([[1, 0, 1]]))


def test_time_and_cache_arguments_are_taken():
    model, x = oracle(LANGUAGE), contexts(LANGUAGE, 8, rows=3)
    expected = model(x).logits
    for arguments, options in [
        ((torch.rand(3),), {}),
        ((torch.rand(3, 1),), {}),
        ((), {"timesteps": torch.rand(3), "use_cache": True, "past_key_values": None}),
        (("full", torch.arange(8)), {}),
    ]:
        assert torch.equal(model(x, *arguments, **options).logits, expected)


def test_it_is_a_module():
    model = oracle(LANGUAGE, mask_id=MASK).eval()
    assert next(model.parameters()).device == model.device == torch.device("cpu")
    assert not any(p.requires_grad for p in model.parameters())
    assert (model.config.mask_token_id, model.config.vocab_size) == (MASK, MASK + 1)
    assert model.to(torch.bfloat16)(torch.full((1, 2), MASK)).logits.dtype == torch.bfloat16
    assert model(torch.full((1, 2), MASK))[0].shape == (1, 2, MASK + 1)


def test_calls_are_counted():
    model, x = oracle(LANGUAGE), contexts(LANGUAGE, 8, rows=5)
    model(x)
    model(x)
    x[2, 3] = 1 if x[2, 3] != 1 else 2
    logits = model(x).logits
    assert (model.calls, model.rows, model.needed) == (3, 15, 6)
    assert torch.equal(logits, oracle(LANGUAGE)(x).logits)
    model(x[:2])
    assert model.needed == 8
    model.reset()
    assert (model.calls, model.rows, model.needed) == (0, 0, 0)


def test_an_impossible_context_is_answered_as_by_the_denoiser():
    pair = (LANGUAGE.window_distribution(2, 4).view(V, V) == 0).nonzero()[0]
    x = torch.tensor([[int(pair[0]), int(pair[1]), V, V]])
    logits = oracle(LANGUAGE, dtype=torch.float64)(x).logits
    torch.testing.assert_close(logits[..., :V].exp(), Ideal(LANGUAGE).posterior(x))


@pytest.mark.parametrize("name", ["2-gram, pruned", "hmm, sparse", "hmm, final", "interval 3"])
def test_the_causal_twin_reads_from_left_to_right(name):
    language, length = tiny_languages()[name]
    v = language.vocabulary
    x = language.sample(30, length, seed=1)
    ids = torch.cat([torch.full((30, 1), v), x], 1)
    logits = oracle(language, causal=True, dtype=torch.float64, length=length)(ids).logits
    strings = sequences(v, length)
    for i in range(length):
        prefix = torch.where(torch.arange(length) < i, x, v)
        expected = posterior(distribution(language, length), strings, prefix.numpy(), v)[:, i]
        np.testing.assert_allclose(logits[:, i, :v].exp().numpy(), expected, atol=1e-12)
    assert bool((logits[..., v] == FLOOR).all())
    torch.testing.assert_close(logits[:, length, :v].exp(), torch.full((30, v), 1 / v, dtype=torch.float64))


def test_the_causal_twin_without_a_length():
    model = oracle("interval-5", causal=True)
    ids = torch.cat([torch.full((2, 1), 16), languages.load("interval-5").sample(2, 7)], 1)
    torch.testing.assert_close(model(ids[:, :4]).logits, model(ids).logits[:, :4])
    with pytest.raises(UnmaskError, match="pass length="):
        oracle("modular-sum", causal=True)
    with pytest.raises(UnmaskError, match="expected at most 11"):
        oracle("modular-sum", causal=True, length=11)(torch.tensor([[13, *[0] * 12]]))


def test_a_preset_has_a_seed_and_a_file_is_a_language(tmp_path):
    x = torch.full((1, 5), V)
    assert not torch.equal(oracle("paper-2gram")(x).logits, oracle("paper-2gram(seed=1)")(x).logits)
    LANGUAGE.save(tmp_path / "language.json")
    torch.testing.assert_close(oracle(tmp_path / "language.json")(x).logits, oracle(LANGUAGE)(x).logits)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (torch.tensor([[1, 9, 2]]), "row 0, position 1 is 9; expected a token in 0..7, or the mask 8"),
        (torch.tensor([[1, -1, 2]]), "position 1 is -1"),
        (torch.tensor([1, 2]), r"shape \(2,\)"),
        (torch.tensor([[0.5]]), "are float32; expected integers"),
        (torch.empty(0, 3).long(), "expected \\(rows, length\\)"),
    ],
)
def test_bad_ids(ids, words):
    with pytest.raises(UnmaskError, match=words):
        oracle(LANGUAGE)(ids)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask_id": 7}, "mask_id is 7, but 0..7 are tokens"),
        ({"dtype": torch.int64}, "expected one of torch.float64"),
        ({"causal": True, "shift": True}, "Leave out mask_id and shift"),
        ({"causal": True, "mask_id": 9}, "Leave out mask_id and shift"),
        ({"length": 5}, "length needs causal=True"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(UnmaskError, match=words):
        oracle(LANGUAGE, **options)


def test_a_length_that_the_language_has_not():
    with pytest.raises(UnmaskError, match="no sequence of length 6"):
        oracle("modular-sum")(torch.full((1, 6), 13))


def kept(logits, rule, k=3):
    """Bool (.., V): the tokens that a rule of ties leaves of the k most likely."""
    if rule == "keep all":
        return logits >= logits.topk(k, -1).values[..., -1:]
    if rule == "topk":
        chosen = logits.topk(k, -1).indices
    else:
        chosen = torch.sort(logits, dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros(logits.shape, dtype=torch.bool).scatter(-1, chosen, True)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("name", "length"), [("sparse-hmm", 32), ("interval-5", 20)])
def test_every_rule_of_ties_keeps_the_same_tokens(name, length, dtype):
    """Of an ordered oracle; and not of another one, where the third and the fourth token are equal."""
    language = languages.load(name)
    x = contexts(language, length, rows=40)
    x[:20, torch.arange(length) != length // 2] = language.vocabulary
    logits, plain = (
        oracle(language, dtype=dtype, ordered=ordered)(x).logits[..., : language.vocabulary]
        for ordered in (True, False)
    )
    hidden = x == language.vocabulary
    rules = ("keep all", "topk", "lowest")

    def different(scores):
        first, *others = (kept(scores, rule) & (scores > FLOOR / 2) & hidden.unsqueeze(-1) for rule in rules)
        return sum(int((first != other).sum()) for other in others)

    assert different(logits) == 0
    assert different(plain) > 0


def test_only_equal_tokens_are_moved():
    p = torch.tensor([[0.3, 0.3, 0.0, 0.25, 0.15, 0.0], [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]], dtype=torch.float64)
    moved = untied(p) - p.log().clamp(min=FLOOR)
    expected = torch.tensor([[0, 1, 0, 0, 0, 1], [0, 0, 1, 2, 3, 4]], dtype=torch.float64)
    assert torch.allclose(moved, -APART * expected, atol=1e-11)
