"""Loops that came with open models, written here from their rules, on small random checkpoints."""

from __future__ import annotations

import pytest
import torch

from tests.models.open.small import CONFIGS, MASK, V, card, load, published
from unmask import UnmaskError, generate
from unmask.samplers import SAMPLERS

BLOCK, PART, LENGTH = 8, 4, 32
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]  # of checkpoints
PROMPTS = [[3], [7, 1, 4], [5, 6, 7, 8, 9], [*range(7)], [*range(9)], [*range(5, 17)], [*range(2, 18)], [*range(24)]]


@pytest.fixture(scope="module", params=SEEDS)
def model(request, tmp_path_factory):
    directory = published(tmp_path_factory.mktemp("shifted"), "qwen2", CONFIGS["qwen2"], seed=request.param)
    return load(directory, card("qwen2", block=BLOCK, prediction="shifted"))


@torch.no_grad()
def columns(model, row):
    """(L, V): what each column says of the position behind it. It sees its block, and the blocks before."""
    place = torch.arange(len(row)) // BLOCK
    seen = place.unsqueeze(1) >= place
    logits = model.body.logits(model.body.states(torch.tensor([row]), None, seen, None))[0]
    logits[:, MASK] = -torch.inf
    return logits.softmax(-1)


def fast_dllm_v2(model, prompt, threshold):
    """(row, calls): a full block first says the token behind it, and each part then takes what is sure enough."""
    row, calls = list(prompt), 0
    while len(row) < LENGTH:
        if len(row) % BLOCK == 0:
            row.append(int(columns(model, row)[-1].argmax()))
            calls += 1
        row += [MASK] * (-len(row) % BLOCK)
        for start in range(len(row) - BLOCK, len(row), PART):
            while hidden := [j for j in range(start, start + PART) if row[j] == MASK]:
                said = columns(model, row)
                calls += 1
                sure = {j: float(said[j - 1].max()) for j in hidden}
                for j in hidden:
                    if sure[j] > threshold or j == max(sure, key=sure.__getitem__):
                        row[j] = int(said[j - 1].argmax())
    return row, calls


@pytest.mark.sampled(6)
@pytest.mark.parametrize("threshold", [0.08, 0.12, 0.2, 0.9])
def test_every_token_and_call_is_that_of_fast_dllm_v2(model, threshold):
    """32 rows of each checkpoint: 4 thresholds, 8 prompts, three of which end with a block."""
    inner = f"threshold(threshold={threshold}, temperature=0)"
    given = [[*prompt, *[V] * (LENGTH - len(prompt))] for prompt in PROMPTS]
    sampler = f"blocks(block_length={PART}, first={BLOCK}, inner='{inner}')"
    made = generate(model, sampler=sampler, given=given)
    found = list(zip(made.tokens.tolist(), made.model_calls.tolist(), strict=True))
    assert found == [fast_dllm_v2(model, prompt, threshold) for prompt in PROMPTS]


def test_a_first_token_is_the_likeliest_and_alone_at_any_temperature(model):
    sampler = f"blocks(block_length={PART}, first={BLOCK}, inner='threshold(threshold=0.08)')"
    made = generate(model, sampler=sampler, length=LENGTH, rows=10, seed=5)
    for row, order in zip(made.tokens.tolist(), made.order.tolist(), strict=True):
        for head in range(BLOCK, LENGTH, BLOCK):
            assert row[head] == int(columns(model, row[:head])[-1].argmax())
            assert order.count(order[head]) == 1
            assert max(order[:head]) < order[head] < min(order[head + 1 :])


@pytest.fixture(scope="module", params=SEEDS)
def free(request, tmp_path_factory):
    return load(published(tmp_path_factory.mktemp("free"), "llada", CONFIGS["llada"], request.param), card("llada"))


def d3llm(model, prompt, new, block, threshold, join):
    """(row, calls): each round takes all joined places of low entropy, the surest of these in any case, and the surest
    of the first unfinished block where nothing of that block is among them."""
    row, calls, joined = [*prompt, *[MASK] * new], 0, 1
    blocks = [range(len(prompt) + start, len(prompt) + start + block) for start in range(0, new, block)]
    while MASK in row:
        left = sum(row[j] == MASK for j in blocks[joined - 1])
        if joined < len(blocks) and (1 - left / block >= join or not left):
            joined += 1
        with torch.no_grad():
            logits = model.body.logits(model.body.states(torch.tensor([row]), None, None, None))[0]
        logits[:, MASK] = -torch.inf
        said = logits.double().softmax(-1)
        calls += 1
        doubt = [float(-torch.xlogy(p, p).sum()) for p in said]
        hidden = [j for part in blocks[:joined] for j in part if row[j] == MASK]
        taken = {j for j in hidden if doubt[j] <= threshold} | {min(hidden, key=doubt.__getitem__)}
        unfinished = [j for j in next(part for part in blocks if MASK in [row[j] for j in part]) if row[j] == MASK]
        if not taken & set(unfinished):
            taken.add(min(unfinished, key=doubt.__getitem__))
        for j in taken:
            row[j] = int(said[j].argmax())
    return row, calls


@pytest.mark.sampled(12)
@pytest.mark.parametrize("threshold", [2.5, 2.9, 3.2])
@pytest.mark.parametrize(("block", "join"), [(4, 0.1), (8, 0.3), (6, 0.5), (4, 1.0)])
def test_every_token_and_call_is_that_of_d3llm(free, threshold, block, join):
    """60 rows of each checkpoint: 3 thresholds, 4 sizes with a fraction, 5 prompts."""
    options = f"block_length={block}, join={join}, threshold={threshold}, temperature=0, published=True"
    given = [[*prompt, *[V] * 24] for prompt in PROMPTS[:5]]
    made = generate(free, sampler=f"examples/samplers/multi_block.py:MultiBlock({options})", given=given)
    rows = [row[: len(asked)] for row, asked in zip(made.tokens.tolist(), given, strict=True)]
    found = list(zip(rows, made.model_calls.tolist(), strict=True))
    assert found == [d3llm(free, prompt, 24, block, threshold, join) for prompt in PROMPTS[:5]]


def counts(block, steps):
    """Even counts of a block, whose first steps take the remainder."""
    return tuple(block // steps + (step < block % steps) for step in range(steps))


def sdar(model, prompt, new, block, steps, threshold):
    """(row, calls): step s of a block takes all that is surer than the threshold, or n_s where these are fewer."""
    row, calls = list(prompt), 0
    for start in range(len(prompt), len(prompt) + new, block):
        row += [MASK] * block
        for number in counts(block, steps):
            hidden = [j for j in range(start, start + block) if row[j] == MASK]
            if not hidden:
                break
            place = torch.arange(len(row)) // block
            with torch.no_grad():
                states = model.body.states(torch.tensor([row]), None, place.unsqueeze(1) >= place, None)
                logits = model.body.logits(states)[0]
            logits[:, MASK] = -torch.inf
            said = logits.softmax(-1)
            calls += 1
            ranked = sorted(hidden, key=lambda j: -float(said[j].max()))
            sure = [j for j in ranked if float(said[j].max()) > threshold]
            for j in sure if len(sure) >= number else ranked[:number]:
                row[j] = int(said[j].argmax())
    return row, calls


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threshold", [0.1, 0.15, 0.2, 0.9])
@pytest.mark.parametrize(("block", "steps"), [(4, 2), (4, 3), (8, 3), (8, 5), (8, 6), (8, 8)])
def test_every_token_and_call_is_that_of_sdar_dynamic(tmp_path, threshold, block, steps, seed):
    """24 rows of each checkpoint: 6 numbers of steps, most of which do not divide the block, and 4 thresholds."""
    prompt = [3, 1, 4, 1, 5, 9, 2, 6]  # whole blocks
    model = load(published(tmp_path, "qwen2", CONFIGS["qwen2"], seed), card("qwen2", block=block))
    inner = f"threshold(threshold={threshold}, counts={counts(block, steps)}, temperature=0)"
    made = generate(model, sampler=f"blocks(block_length={block}, inner='{inner}')", given=[[*prompt, *[V] * 16]])
    wanted = sdar(model, prompt, 16, block, steps, threshold)
    assert (made.tokens[0].tolist(), int(made.model_calls[0])) == wanted


def test_first_is_refused_where_it_means_nothing():
    with pytest.raises(UnmaskError, match="first is 12; expected a multiple of block_length, 8"):
        SAMPLERS.make("blocks(block_length=8, first=12, inner=threshold)")
    with pytest.raises(UnmaskError, match="inner is fixed-size; expected a sampler that chooses"):
        SAMPLERS.make("blocks(block_length=8, first=16)")
    with pytest.raises(UnmaskError, match="a number of counts is 0"):
        SAMPLERS.make("threshold(counts=(2, 0))")
    with pytest.raises(UnmaskError, match="least is 2 and counts is"):
        SAMPLERS.make("threshold(counts=(2, 1), least=2)")
