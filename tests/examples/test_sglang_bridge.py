"""SGLang's two interfaces on stubs: our samplers as its algorithms, and traces of any algorithm. No server, no GPU."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from sglang_bridge import MOST_REQUESTS, Blocks, Bridge, Recorded, digest

from unmask import generate, languages
from unmask.core.errors import UnmaskError
from unmask.diagnosis.difference import difference
from unmask.samplers import trace as traces
from unmask.samplers.trace import check

pytestmark = pytest.mark.long
LANGUAGE = languages.load("paper-2gram")
V = MASK = LANGUAGE.vocabulary
L = 6


class Algorithm:
    """As DllmAlgorithm: it keeps the configuration."""

    def __init__(self, config):
        self.block_size, self.mask_id = config.block_size, config.mask_id

    def max_steps(self, block_size):
        return block_size + 1

    def init_step_state(self, forward_batch):
        return [None] * forward_batch.batch_size


class Joint(Algorithm):
    """Reveals the two most confident tokens, and edits the first position once it is full."""

    def step(self, forward_batch, logits, states):
        dense = logits if isinstance(logits, torch.Tensor) else logits.full_logits
        ids, dense = forward_batch.input_ids.view(-1, L), dense.view(-1, L, dense.shape[-1])[..., :V]
        done = []
        for row, p in zip(ids, dense.softmax(-1), strict=True):
            confidence, best = p.max(-1)
            hidden = row == MASK
            done.append(not bool(hidden.any()) and row[0] == 0)
            if bool(hidden.any()):
                first = confidence.masked_fill(~hidden, -1).topk(min(2, int(hidden.sum()))).indices
                row[first] = best[first]
            elif not done[-1]:
                row[0] = 0
        return done


class Ours(Bridge, Algorithm):
    pass


class Seen(Recorded, Joint):
    pass


class SeenOurs(Recorded, Ours):
    pass


def made(kind, tmp_path=None, **options):
    if tmp_path is not None:
        options["trace"] = str(tmp_path / "trace.jsonl")
    config = SimpleNamespace(algorithm_config=options or None, block_size=L, mask_id=MASK, max_running_requests=8)
    return kind(config)


def forward(batch, wrapped):
    """Logits of the blocks of a batch: a tensor (B L, V + 1), or the output object of newer versions."""
    exact = LANGUAGE.posterior(batch.input_ids.view(-1, L)).log().clamp(min=-1e4).flatten(0, 1)
    logits = torch.cat([exact, torch.full_like(exact[:, :1], 2.0)], -1)
    return SimpleNamespace(next_token_logits=None, full_logits=logits) if wrapped else logits


def synchronous(algorithm, blocks, rids, wrapped=False):
    """The loop of a batch that waits for its slowest block: (ids (B, L), forward passes)."""
    batch = SimpleNamespace(input_ids=blocks.flatten().clone(), batch_size=len(blocks), rids=rids)
    memory, passes = batch.input_ids.data_ptr(), 0
    states = algorithm.init_step_state(batch)
    for _ in range(algorithm.max_steps(L)):
        passes += 1
        before = batch.input_ids.clone()
        done = algorithm.step(batch, forward(batch, wrapped), states)
        assert batch.input_ids.data_ptr() == memory  # changed in place
        for row, ended in enumerate(done):
            assert not ended or torch.equal(batch.input_ids.view(-1, L)[row], before.view(-1, L)[row])
        if all(done):
            break
    return batch.input_ids.view(-1, L), passes


def first_done(algorithm, blocks, rids, order):
    """One forward pass for some requests at a time, with the state carried along."""
    ids, states = blocks.clone(), {}
    left = list(range(len(blocks)))
    for turn in range(1000):
        chosen = [row for row in left if (row + turn) % order] or left
        batch = SimpleNamespace(
            input_ids=ids[chosen].flatten(), batch_size=len(chosen), rids=[rids[row] for row in chosen]
        )
        for row, state in zip(chosen, algorithm.init_step_state(batch), strict=True):
            states.setdefault(row, state)
        done = algorithm.step(batch, forward(batch, turn % 2), [states[row] for row in chosen])
        ids[chosen] = batch.input_ids.view(-1, L)
        left = [row for row in left if row not in [one for one, ended in zip(chosen, done, strict=True) if ended]]
        if not left:
            return ids
    raise AssertionError("a block is never done")


@pytest.mark.parametrize("sampler", ["threshold(threshold=0.5)", "low-confidence", "ancestral", "remdm"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_bridge_writes_what_generate_does(sampler, wrapped):
    """With prompt tokens in the first block; each block takes one forward pass more than steps."""
    blocks = torch.full((3, L), MASK)
    blocks[1, :2] = torch.tensor([0, 1])
    rids = ["a", "b", "c"]
    algorithm = made(Ours, sampler=sampler, steps=4, seed=5)
    for number in range(2):  # the second block has other random numbers
        ids, passes = synchronous(algorithm, blocks, rids, wrapped)
        rows = [digest(rid, number) for rid in rids]
        expected = generate(LANGUAGE, sampler=sampler, given=blocks, steps=4, seed=5, first_row=rows)
        assert ids.tolist() == expected.tokens.tolist()
        assert passes == 1 + (4 if sampler == "remdm" else int(expected.model_calls.max()))  # it has all its steps


def test_blocks_and_requests_have_other_random_numbers():
    assert len({digest(rid, block) for rid in ("a", "b", "a/1") for block in range(3)}) == 9


def test_load_does_not_change_a_block():
    """First done, first out, in two orders, and alone: the same tokens."""
    blocks, rids = torch.full((4, L), MASK), ["a", "b", "c", "d"]
    found = [first_done(made(Ours, sampler="ancestral"), blocks, rids, order) for order in (2, 3)]
    alone = [synchronous(made(Ours, sampler="ancestral"), blocks[:1], [rid])[0][0] for rid in rids]
    assert found[0].tolist() == found[1].tolist() == torch.stack(alone).tolist()


def test_a_block_of_the_prompt_is_done_at_once():
    ids, passes = synchronous(made(Ours), torch.zeros((1, L), dtype=torch.int64), None)
    assert (ids.tolist(), passes) == ([[0] * L], 1)


def test_what_a_bridge_refuses():
    blocks = torch.full((1, L), MASK)
    with pytest.raises(UnmaskError, match="has its own loop"):
        synchronous(made(Ours, sampler="gibbs"), blocks, ["a"])
    batch = SimpleNamespace(input_ids=blocks.flatten(), batch_size=1, rids=["a"])
    algorithm = made(Ours)
    with pytest.raises(UnmaskError, match="without logits for each of 6 positions; expected a tensor"):
        algorithm.step(batch, SimpleNamespace(next_token_logits=torch.zeros(1, V)), algorithm.init_step_state(batch))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_trace_of_any_algorithm(tmp_path, wrapped):
    """It ends with the tokens of the blocks, and has their probabilities."""
    blocks = torch.full((2, L), MASK)
    blocks[0, 0] = 0  # the prompt, which the algorithm leaves alone
    algorithm = made(Seen, tmp_path)
    parts = [synchronous(algorithm, blocks, ["x", "y"], wrapped)[0].clone() for _ in range(2)]
    plain = [synchronous(made(Joint), blocks, ["x", "y"], wrapped)[0] for _ in range(2)]
    assert all(map(torch.equal, parts, plain))
    lines = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert [(line["rid"], line["length"], line["mask"]) for line in lines[:2]] == [("x", L, MASK), ("y", L, MASK)]
    trace = traces.read(tmp_path / "trace.jsonl")
    check(trace)
    assert (trace.vocabulary, trace.likely, [row.length for row in trace.rows]) == (V + 1, True, [2 * L] * 2)
    for row, ids in zip(trace.rows, torch.cat(parts, 1).tolist(), strict=True):
        assert [row.final[place] for place in range(2 * L)] == ids
    first = LANGUAGE.posterior(blocks)[1].max(-1).values
    scale = 1 / (1 + torch.tensor(2.0).exp())  # the mask has weight e^2
    for _, place, _, p in [event for event in trace.rows[1].events if event[0] == 1]:
        assert p == pytest.approx(float(first[place] * scale), rel=1e-6)


def test_a_recorded_bridge_is_the_trace_of_generate(tmp_path):
    blocks = torch.full((2, L), MASK)
    synchronous(made(SeenOurs, tmp_path, sampler="remdm", steps=4), blocks, ["x", "y"])
    trace = traces.read(tmp_path / "trace.jsonl")
    rows = [digest(rid, 0) for rid in ("x", "y")]
    expected = generate(LANGUAGE, sampler="remdm", given=blocks, steps=4, first_row=rows, trace=True).trace()
    expected = type(expected)(**{name: getattr(expected, name) for name in ("rows", "sampler")}, vocabulary=V + 1)
    assert difference(trace.bare(), expected).equal


def test_requests_are_forgotten():
    blocks = Blocks()
    assert [blocks.next("a"), blocks.next("b"), blocks.next("a")] == [0, 0, 1]
    for number in range(MOST_REQUESTS):
        blocks.next(f"x{number}")
    assert blocks.next("a") == 0
