"""What generations cost and denoisers are told: custom denoisers, guidance, times, temperatures, shared calls."""

from __future__ import annotations

import math

import pytest
import torch

from tests.doubles import LANGUAGE, Asked, Computing, Everywhere, Flat, Timed
from tests.samplers.test_table import given_patterns, row_alike
from unmask import UnmaskError, generate
from unmask.core.chance import Randomness, Stream
from unmask.denoisers import Canvas, Cost, Denoiser, Guided, Ideal, Perturbed, Sharpened, Table
from unmask.languages import load
from unmask.samplers import schedules
from unmask.samplers.rules.fixed_orders import FirstHitting, Strided
from unmask.samplers.rules.gibbs import Gibbs

V = LANGUAGE.vocabulary


def test_blocks_of_ragged_prompts_cost_one_forward_a_step():
    """Prompts of 0 to 14 of 16, blocks of 4 and 8 steps: a row's k-th block is its own, and 8 forwards serve all."""
    given = LANGUAGE.sample(6, 16, seed=3)
    given[torch.arange(16) >= torch.tensor([0, 3, 5, 8, 11, 14]).unsqueeze(1)] = V
    options = {"sampler": "blocks(block_length=4, inner=low-confidence)", "steps": 8, "seed": 6}
    denoiser = Asked()
    made = generate(denoiser, given=given, **options)
    assert made.spent.forwards == denoiser.counted.forwards == 8
    assert made.model_calls.tolist() == [8, 7, 8, 8, 5, 2]  # a last block of one position is one step
    for row in range(6):
        row_alike(made, row, generate(Asked(), given=given[row : row + 1], first_row=row, **options))


def test_gibbs_costs_a_call_a_position_besides_its_base():
    how = {"steps": 8, "length": 16, "rows": 20}
    base, made = (generate(Asked(), sampler=sampler, **how).model_calls for sampler in ("ancestral", "gibbs"))
    assert torch.equal(made, base + 16)


def test_what_stands_inside_is_a_sampler():
    assert Gibbs("strided") == Gibbs(Strided())
    with pytest.raises(UnmaskError, match="inner is 3; expected a sampler, or the name of one"):
        Gibbs(3)


# -------------------------------------------------------------------------------------------------- half a denoiser


class Half(Denoiser):
    """What is said of a hidden position: its neighbour's token half of the time. Writes `engine` alone."""

    vocabulary = 3

    def answer(self, tokens, rows, positions):
        before = torch.where(positions > 0, tokens[rows, positions - 1], self.vocabulary)
        shown = torch.nn.functional.one_hot(before, self.vocabulary + 1)[:, :-1].double()
        return (shown + 1 / 3) / (shown.sum(1, keepdim=True) + 1)

    def engine(self, tokens, given=None, valid=None):
        if valid is not None:
            return super().engine(tokens, given, valid)
        inner = Computing().engine(tokens)
        inner.at = lambda rows, positions, time: inner.spend_on(rows) or self.answer(inner.tokens, rows, positions)
        return inner


class Other(Everywhere):
    """The same, that only writes `posterior`."""

    vocabulary = 3

    def marginals(self, tokens):
        rows, positions = torch.ones_like(tokens, dtype=torch.bool).nonzero(as_tuple=True)
        return Half().answer(tokens, rows, positions).view(*tokens.shape, 3)


@pytest.mark.parametrize(
    "sampler", ["ancestral", "margin", "autoregressive", "speculative", "self-speculative", "gibbs"]
)
def test_a_denoiser_writes_one_half_and_has_the_other(sampler):
    options = {"sampler": sampler, "steps": 4, "length": 7, "rows": 30, "seed": 2}
    one, other = generate(Half(), **options), generate(Other(), **options)
    for name in ("tokens", "order", "probability", "model_calls"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert one.spent.rows == other.spent.rows
    tokens = one.tokens.clone()
    tokens[:, ::2] = 3
    torch.testing.assert_close(Half().posterior(tokens), Other().posterior(tokens))
    torch.testing.assert_close(Half().probabilities(tokens, torch.tensor([2, 1])), Other().posterior(tokens)[:, [2, 1]])


def test_a_denoiser_that_predicts_nothing_is_refused():
    with pytest.raises(UnmaskError, match="Empty predicts nothing; write posterior"):

        class Empty(Denoiser):
            vocabulary = 3


def test_of_two_drafts_as_many_are_kept_as_the_paper_says():
    """The example of arXiv 2403.10444: the draft says a with 2/3, the target b."""
    denoiser = Flat(2 / 3, Flat(1 / 3))
    made = generate(denoiser, sampler="speculative(draft_length=2)", length=3, rows=20_000, seed=4)
    assert float((made.order == 1).sum(1).double().mean() - 1) == pytest.approx(10 / 9, abs=0.03)


# ----------------------------------------------------------------------------------------------------------- guidance


@pytest.mark.parametrize("sampler", ["fixed-size", "low-confidence", "self-speculative", "gibbs"])
def test_guidance_costs_two_evaluations_an_answer(sampler):
    options = {"sampler": sampler, "given": given_patterns(12)["ragged prompts"], "steps": 6, "seed": 4}
    counted = Asked()
    alone, made = generate(Asked(), **options), generate(counted, **options, guidance=0.8)
    assert int(made.model_calls.sum()) == made.spent.rows
    assert made.spent == counted.counted
    if sampler != "self-speculative":
        assert torch.equal(made.model_calls, 2 * alone.model_calls)
        assert made.spent == Cost(2 * alone.spent.forwards, 2 * alone.spent.rows, 2 * alone.spent.tokens)


@pytest.mark.parametrize("scale", [0.0, 0.5, 2.0])
def test_guidance_is_by_what_was_given(scale):
    """p(v | x)^(1+w) / p(v | x without the prompt)^w at every hidden position, in every context; what is written counts
    on both sides. Mutant: the prompt hidden nowhere."""
    given = torch.full((6, 6), V)
    given[:, :2] = LANGUAGE.sample(6, 6, seed=1)[:, :2]
    tokens = given.clone()
    canvas = Canvas(Guided(Ideal(LANGUAGE), scale), tokens, None)
    drawn = LANGUAGE.sample(6, 6, seed=2)
    for place in (4, 3, 5):
        rows, positions = canvas.hidden.nonzero(as_tuple=True)
        said = canvas.at(rows, positions).dense()
        p = LANGUAGE.posterior(tokens)[rows, positions]
        bare = torch.where(given < V, V, tokens)
        p0 = LANGUAGE.posterior(bare)[rows, positions].clamp(min=torch.finfo(torch.float64).tiny)
        weights = torch.where(p > 0, p, 0.0) ** (1 + scale) / p0**scale
        torch.testing.assert_close(said, weights / weights.sum(1, keepdim=True), atol=1e-10, rtol=0)
        if scale:
            assert float((said - p).abs().max()) > 1e-3
        canvas.reveal((torch.arange(6), torch.full((6,), place)), drawn[:, place])
    assert canvas.model_calls.tolist() == [3 * (2 if scale else 1)] * 6


# -------------------------------------------------------------------------------------------------------------- times


def test_first_hitting_tells_the_hitting_times():
    """Position j is revealed when alpha reaches its uniform u_j, under any schedule."""
    timed = Timed()
    made = generate(timed, sampler="first-hitting", schedule="linear", steps=7, length=6, rows=1, seed=2)
    u = Randomness(2, torch.arange(1)).grid(Stream.ORDER, 6)[0]
    torch.testing.assert_close(torch.cat(timed.times), 1 - u.sort().values)
    assert made.order[0].argsort().tolist() == u.argsort().tolist()
    delta = schedules.deltas("cosine", 2000)
    times = FirstHitting().times(delta, torch.ones(1, 6, dtype=torch.int64), Randomness(2, torch.arange(1)))
    torch.testing.assert_close(torch.cos(math.pi / 2 * times[0]), u, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("sampler", "times"),
    [
        ("left-to-right", [1, 0.75, 0.5, 0.25]),
        ("margin", [1, 0.75, 0.5, 0.25]),
        ("self-speculative(draft_length=1)", [n / 8 for n in range(8, 0, -1)]),
        ("gibbs(inner=left-to-right, stride=2)", [1, 0.75, 0.5, 0.25, 1 / 8, 1 / 8]),
    ],
)
def test_other_samplers_tell_even_times(sampler, times):
    timed = Timed()
    generate(timed, sampler=sampler, steps=4, length=8, rows=1)
    assert torch.cat(timed.times).tolist() == pytest.approx(times)


# --------------------------------------------------------------------------------------- temperature, top-p and top-k


def sharp(p, temperature, top_p, top_k):
    """By hand: heat, the nucleus, the k best; the lower token first where two are alike."""
    if temperature == 0:
        return [float(v == p.index(max(p))) for v in range(len(p))]
    p = [x ** (1 / temperature) for x in p]
    p = [x / sum(p) for x in p]
    kept, mass = [], 0.0
    for v in sorted(range(len(p)), key=lambda v: (-round(p[v] * 1e9), v)):
        if mass < top_p - 1e-9 and len(kept) < (top_k or len(p)):
            kept.append(v)
        mass += p[v]
    return [x / sum(p[v] for v in kept) if v in kept else 0.0 for v, x in enumerate(p)]


@pytest.mark.parametrize("temperature", [0, 0.5, 1, 2.0])
@pytest.mark.parametrize(("top_p", "top_k"), [(1.0, None), (0.6, None), (1.0, 2), (0.9, 3), (1e-6, None), (0.5, 1)])
def test_sharpened_marginals(temperature, top_p, top_k):
    generator = torch.Generator().manual_seed(0)
    p = torch.rand(40, 5, generator=generator, dtype=torch.float64)
    p[:20] = torch.round(3 * p[:20])  # equal ones, and zeros
    p[:, 0] += 0.1
    p /= p.sum(1, keepdim=True)
    ours = Sharpened(Ideal(load("paper-2gram")), temperature, top_p, top_k)
    ours.vocabulary = 5
    expected = torch.tensor([sharp(row, temperature, top_p, top_k) for row in p.tolist()], dtype=torch.float64)
    torch.testing.assert_close(
        ours.reshape(Table(p), torch.zeros(40, dtype=torch.int64)).dense(), expected, atol=1e-9, rtol=0
    )


def test_sharpening_adds_nothing_where_nothing_is_asked():
    language = load("paper-2gram")
    assert generate(language, rows=3, length=8, temperature=1.0, top_p=1.0).ideal is language
    tokens = torch.full((2, 6), 8)
    tokens[:, 2] = 3
    plain = Ideal(language).posterior(tokens)
    torch.testing.assert_close(Sharpened(Ideal(language)).posterior(tokens), plain)
    nested = Sharpened(Perturbed(language, "leak", 0.1), top_k=1).posterior(tokens, torch.tensor([0, 2]))
    assert nested.sum(-1).tolist() == [[1, 1], [1, 1]]
    assert nested[:, 1, 3].tolist() == [1, 1]
