"""The front door: correct loops pass, planted faults are named, and a loop that does not work gets one sentence.

A correct loop fails with probability 1e-4, over its seeds: the runs here with less than 3% together, and seeds are
fixed. `python -m tests.diagnosis.audit.decoders 250` runs 2,000 of them.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch

from tests.diagnosis.audit.decoders import ANCESTRAL, CONFIDENT, CORRECT, PLANTED, SMALL, confident, transfer
from tests.diagnosis.audit.loops import causal, llada, mdlm
from tests.diagnosis.audit.remembering import remembered
from unmask.core.errors import UnmaskError
from unmask.diagnosis.audit import verdict
from unmask.testing import assert_conforms, assert_law, assert_same_law, assert_same_tokens


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(verdict, "Bench", remembered)


@pytest.mark.long
@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_loop_passes(name):
    loop, how = CORRECT[name]
    for seed in range(3):
        found = assert_law(loop, seed=1000 + seed, **how)
        assert found.rows == 400
        assert found.unseen_temperatures is not None


def three_most_likely(rule, length, model):
    """Ancestral sampling in 8 steps from the three most likely tokens, with one rule of ties."""
    mask = model.config.mask_token_id
    x = torch.full((100, length), mask)
    for step in range(8):
        logits = model(x).logits[..., :mask]
        if rule == "keep all":
            left = logits >= logits.topk(3, -1).values[..., -1:]
        else:
            left = torch.zeros(logits.shape, dtype=torch.bool).scatter(-1, logits.topk(3, -1).indices, True)
        tokens = torch.distributions.Categorical(logits=logits.masked_fill(~left, -torch.inf)).sample()
        reveals = (x == mask) & (torch.rand(x.shape) < 1 / (8 - step))
        x = torch.where(reveals, tokens, x)
    return x


@pytest.mark.long
@pytest.mark.parametrize("rule", ["keep all", "topk"])
@pytest.mark.parametrize(("language", "length"), [("sparse-hmm", 32), ("interval-5", 20)])
def test_a_rule_of_ties_is_no_fault(language, length, rule):
    for seed in range(2):
        how = {"sampler": "ancestral", "steps": 8, "language": language, "filters": {"top_k": 3}, "seed": seed}
        assert_law(partial(three_most_likely, rule, length), **how)


LEFT_OUT = [(0, 2), *(pytest.param(k, k + 18, marks=pytest.mark.long) for k in range(2, 200, 18))]


@pytest.mark.long
@pytest.mark.parametrize(("first", "end"), LEFT_OUT)
def test_calls_that_are_left_out_are_no_steps(first, end):
    """200 runs of binomial counts without their zeros, and 200 rows of a loop that skips for each row alone."""
    for seed in range(first, end):
        found = assert_law(partial(transfer, **SMALL), seed=seed, **ANCESTRAL)
        assert "record: counts" not in found.p_values


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize(("steps", "length"), [(4, 8), (2, 4)])
def test_a_loop_of_few_rows_passes_with_its_steps_alone(steps, length, rows):
    """In a batch of few rows some steps reveal nothing; then a batch ends early, or all of it in its last step."""
    how = {"sampler": "ancestral", "steps": steps, "rows": 200, "rare": False}
    extra = partial(mdlm, rows=rows, length=length)
    assert_law(partial(extra, steps=steps), **how)
    assert_law(lambda model: (model(torch.full((rows, length), model.mask_id)), extra(model, steps=steps))[1], **how)
    for number in (steps - 1, steps + 1):
        with pytest.raises(AssertionError, match=rf"miscounted steps \({number} steps instead of {steps}"):
            assert_law(partial(extra, steps=number), **how)


@pytest.mark.sampled(17)
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_named(name):
    loop, how, words = PLANTED[name]
    with pytest.raises(AssertionError, match="the loop differs from") as failed:
        assert_law(loop, **how)
    assert words in str(failed.value)
    assert "an alarm is below" in str(failed.value)


@pytest.mark.long
def test_a_small_filter_is_said_to_be_invisible():
    """top_p = .8 after the choice moves less than 400 sequences show: the test passes, and lists it."""
    found = assert_law(partial(confident, **SMALL, top_p=0.8, bug="late"), filters={"top_p": 0.8}, **CONFIDENT)
    assert "filter after the reveal (positions are chosen without it)" in found.unseen


def waits(model):
    while True:
        model(torch.full((2, 16), model.config.mask_token_id))


def swallows(model):
    while True:
        with suppress(Exception):
            waits(model)


def changed(change):
    return lambda model: change(mdlm(model, **SMALL))


def reseeds(model):
    torch.manual_seed(1)
    return mdlm(model, 50, 16, 8)


def hides(model):
    tokens = mdlm(model, **SMALL)
    return torch.where(torch.arange(16) == 3, model.config.mask_token_id, tokens)


def threaded(model):
    both = threading.Barrier(2)

    def half(_):
        both.wait()
        return mdlm(model, 200, 16, 8)

    with ThreadPoolExecutor(2) as pool:
        return torch.cat(list(pool.map(half, range(2))))


class Padded:
    """Two positions of padding to the left of every row, and a mask of the others."""

    def __init__(self, model):
        self.model, self.config = model, model.config

    def __call__(self, x, *_):
        wide = torch.cat([torch.zeros_like(x[:, :2]), x], 1)
        said = self.model(wide, (torch.arange(wide.shape[1]) >= 2).long().expand(wide.shape))
        return type(said)(said.logits[:, 2:])


class Timed(Padded):
    """The time of each position as floats (rows, length)."""

    def __call__(self, x, time):
        return self.model(x, time.expand(x.shape))


BAD = {  # loop, words of the message
    "raises": (lambda model: model(torch.zeros(2, 16).long()).logit, "raises an error after 1 model calls: Attribute"),
    "bad ids": (
        lambda model: model(torch.full((2, 16), 99)),
        "position 0 is 99; expected a token in 0..7, or the mask",
    ),
    "waits": (waits, "has returned 0 of 400 sequences after 0.5 seconds and"),
    "swallows": (swallows, "Give its while loop an end"),
    "sleeps": (lambda model: time.sleep(30), "has returned 0 of 400 sequences after 0.5 seconds and 0 model calls"),
    "never calls": (lambda model: torch.zeros(400, 16).long(), "never calls the model"),
    "nothing": (changed(lambda tokens: None), r"returns NoneType|returns shape \(\)|returns object"),
    "logits": (changed(lambda tokens: torch.zeros(400, 16, 8)), "Return tokens .rows, length., not logits"),
    "floats": (changed(lambda tokens: tokens.float()), "returns float32. Return whole numbers"),
    "one row": (changed(lambda tokens: tokens[0]), r"returns shape \(16,\)"),
    "hidden": (hides, "400 of 6400 positions are still hidden .id 8., first in row 0, position 3"),
    "other ids": (changed(lambda tokens: tokens + 100), "Draw only tokens 0 to 7"),
    "few rows": (changed(lambda tokens: tokens[:399]), "called for 800 rows, but there are 798 samples"),
    "other order": (changed(lambda tokens: tokens.flip(0)), "pass record=False"),
    "prompt": (changed(lambda tokens: torch.cat([tokens[:, :2], tokens], 1)), "has 16 positions, a sample 18"),
    "threads": (threaded, "calls the model from 2 threads. Use one thread, or pass record=False"),
    "padding": (
        lambda model: mdlm(Padded(model), **SMALL),
        "batch 1 of the oracle has 18 positions, a sample 16. Start from masks alone",
    ),
    "same again": (reseeds, "same sequences again in each call. Set the random seed outside"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_loop_that_does_not_work_gets_one_sentence(name):
    loop, words = BAD[name]
    with pytest.raises(AssertionError, match=words):
        assert_law(loop, limit=0.5 if name in ("waits", "swallows", "sleeps") else 60, **ANCESTRAL)


@pytest.mark.parametrize(
    ("loop", "how", "words"),
    [
        (3, {}, "loop is 3; expected a function"),
        (mdlm, {"rows": 0}, "rows is 0"),
        (mdlm, {"limit": -1}, "limit is -1"),
        (changed(lambda tokens: tokens), {"alarm": 2.0}, "alarm is 2"),
        (changed(lambda tokens: tokens), {"steps": None}, "needs a number of steps"),
        (mdlm, {"sampler": "ancestrel"}, "did you mean ancestral"),
    ],
)
def test_a_bad_argument_is_an_error_of_the_test_and_no_failure(loop, how, words):
    with pytest.raises(UnmaskError, match=words):
        assert_law(loop, **ANCESTRAL | how)


@pytest.mark.long
def test_loops_of_other_forms_are_correct():
    """Threads and padding without the record, times of each position, logits in bfloat16: the reference rounds too."""
    for loop in (threaded, lambda model: mdlm(Padded(model), **SMALL)):
        assert "record" not in assert_law(loop, record=False, **ANCESTRAL).compared_with
    assert_law(lambda model: mdlm(Timed(model), **SMALL), **ANCESTRAL)
    found = assert_law(partial(llada, **SMALL), dtype=torch.bfloat16, **CONFIDENT)
    assert "precision (logits in bfloat16)" in found.unseen


def test_lengths_are_those_that_were_asked_for():
    with pytest.raises(AssertionError, match="returns 16 positions, not 12"):
        assert_law(partial(mdlm, **SMALL), length=12, **ANCESTRAL)


@pytest.mark.long
def test_what_libraries_return_is_read():
    """numpy arrays, lists, an object with sequences, and a start id."""
    for change in (lambda t: t.numpy(), lambda t: t.tolist(), lambda t: type("Output", (), {"sequences": t})()):
        assert_law(changed(change), **ANCESTRAL)

    def whole(model):
        tokens = causal(model, 400, 16)
        return torch.cat([torch.full((400, 1), model.config.bos_token_id), tokens], 1)

    assert assert_law(whole, sampler="autoregressive").length == 16


def test_the_randomness_of_others_is_left_as_it_was():
    torch.manual_seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    one, two = (assert_law(partial(mdlm, **SMALL), seed=9, **ANCESTRAL).p_values for _ in range(2))
    assert one == two
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002


@pytest.mark.long
def test_two_loops_of_one_law():
    """By race, by binomial counts without zeros: one law. With fixed numbers, or a warmer one: another."""
    same = partial(mdlm, rows=500, length=16, steps=8)
    assert_same_law(same, partial(transfer, rows=500, length=16, steps=8))
    for other in (partial(llada, rows=500, length=16, steps=8), partial(same, temperature=0.8)):
        with pytest.raises(AssertionError, match=r"the loops differ in .*\n  impossible sequences, first and second"):
            assert_same_law(same, other)
    assert_same_law(partial(causal, rows=500, length=16), partial(causal, rows=500, length=16), kind="causal")


def test_two_loops_with_the_same_tokens():
    same = partial(mdlm, rows=20, length=16, steps=8)
    assert_same_tokens(same, same)
    with pytest.raises(AssertionError, match=r"first in step 8: .* writes \d in step 8, .*\n  \d+ of 20 rows differ"):
        assert_same_tokens(same, partial(same, bug="final argmax"))
    with pytest.raises(AssertionError, match="first in position"):
        assert_same_tokens(
            partial(causal, rows=9, length=8), partial(causal, rows=9, length=8, temperature=0.5), kind="causal"
        )
    with pytest.raises(AssertionError, match=r"returns \(20, 16\) tokens, the second \(20, 8\)"):
        assert_same_tokens(same, partial(same, length=8))


def test_a_sampler_of_ours_conforms():
    assert_conforms("fixed-size")


@pytest.mark.long
def test_a_test_needs_no_pages_and_no_recipes():
    """Neither the import nor a test loads what only pages, tables and networks need."""
    code = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {"altair", "pandas", "safetensors", "vl_convert"}:
            raise ImportError(name)
sys.meta_path.insert(0, Absent())
from unmask.testing import assert_law
from tests.diagnosis.audit.loops import causal
assert_law(lambda model: causal(model, 400, 16), sampler="autoregressive")
print(sorted(name for name in ("yaml", "unmask.core.yaml", "unmask.models.loading") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "unmask" not in done.stdout
