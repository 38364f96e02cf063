"""Samplers of uniform noise against enumeration, and the mistakes that must show."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import unmask
from tests.brute import ALARM, p_value
from tests.uniform import CHAIN3, ZERO3, chain, divergence, every, path, posteriors, reversed_step
from unmask import UnmaskError, generate
from unmask.denoisers import Ideal, Perturbed, UniformIdeal
from unmask.denoisers.noise import reverse, without_own
from unmask.diagnosis import conformance
from unmask.diagnosis.audit.changes import EarlyLevels, PlugIn
from unmask.languages import HMM
from unmask.samplers import Sampler
from unmask.samplers.rules.uniform import UniformAncestral, begin
from unmask.samplers.schedules import Schedule, deltas
from unmask.samplers.session import Breach


def levels(grid, steps):
    return [*Schedule(deltas(grid, steps)).alpha[:-1].tolist(), 1.0]


def exact(sampler, language, steps, length=4):
    """(KL(q || p), the probability of impossible sequences) in nats, as the sampler claims."""
    q = language.log_prob(every(3, length)).exp()
    p = sampler.enumerated(UniformIdeal(language), length, deltas("linear", steps))
    assert float(p.sum()) == pytest.approx(1, abs=1e-12)
    return divergence(q, p), float(p[q == 0].sum())


# theory-2026.md E6: chain3 has full support, zero3 has impossible pairs
TABLE = [  # grid, steps, KL and path KL of chain3, KL and SER of zero3
    ("linear", 2, 0.3294, 0.497, 0.652, 0.468),
    ("linear", 4, 0.1033, 0.262, 0.280, 0.237),
    ("linear", 8, 0.0271, 0.133, 0.114, 0.104),
    ("sqrt", 2, 0.2119, 0.400, 0.436, 0.343),
    ("sqrt", 4, 0.0506, 0.198, 0.149, 0.133),
    ("sqrt", 8, 0.0118, 0.098, 0.055, 0.052),
]


@pytest.mark.parametrize(("grid", "steps", "nats", "along", "zero_nats", "zero_ser"), TABLE)
def test_the_distribution_is_that_of_matrix_products(grid, steps, nats, along, zero_nats, zero_ser):
    sampler, language = UniformAncestral(grid), chain(CHAIN3)
    p, paid = path(language, 4, levels(grid, steps))
    claimed = sampler.enumerated(UniformIdeal(language), 4, deltas("linear", steps))
    assert float((p - claimed).abs().max()) < 1e-12
    assert exact(sampler, language, steps)[0] == pytest.approx(nats, abs=5.1e-5)
    assert paid == pytest.approx(along, abs=5.1e-4)
    assert exact(sampler, chain(ZERO3), steps) == pytest.approx((zero_nats, zero_ser), abs=5.1e-4)


def test_the_best_grids_crowd_near_the_end():
    few = UniformAncestral("beta(a=1.4, b=0.6)")
    assert exact(few, chain(CHAIN3), 4)[0] == pytest.approx(0.0460, abs=5.1e-5)
    assert exact(few, chain(CHAIN3), 8)[0] == pytest.approx(0.0108, abs=5.1e-5)
    half = [divergence(q, path(chain(CHAIN3), 4, [0, a, 1])[0]) for a in (0.78, 0.8) for q in [true(chain(CHAIN3))]]
    assert min(half) == pytest.approx(0.1982, abs=3e-4)  # one level decides: of two steps
    many = UniformAncestral("beta(a=3, b=0.6)")
    assert exact(many, chain(ZERO3), 4) == pytest.approx((0.068, 0.059), abs=1e-3)
    assert exact(many, chain(ZERO3), 8) == pytest.approx((0.016, 0.013), abs=1e-3)


def true(language, length=4):
    return language.log_prob(every(language.vocabulary, length)).exp()


def test_full_posteriors_plugged_in_have_a_floor():
    language = chain(CHAIN3)
    assert [0.415, 0.357, 0.343] <= [exact(PlugIn(), language, steps)[0] for steps in (2, 4, 8)] <= [0.58, 0.43, 0.38]
    assert exact(PlugIn(), language, 64)[0] > 0.3
    p, _ = path(language, 4, levels("linear", 4), plug=True)
    assert float((p - PlugIn().enumerated(UniformIdeal(language), 4, deltas("linear", 4))).abs().max()) < 1e-12


def test_one_step_draws_the_marginals_and_many_steps_the_language():
    language = chain(CHAIN3)
    blank = language.posterior(language.blank(1, 4))[0]
    product = torch.stack([blank[j, every(3, 4)[:, j]] for j in range(4)]).prod(0)
    one = UniformAncestral().enumerated(UniformIdeal(language), 4, deltas("linear", 1))
    assert float((one - product).abs().max()) < 1e-12
    assert exact(UniformAncestral("sqrt"), language, 1)[0] == pytest.approx(0.8028, abs=5.1e-5)  # its TC
    assert exact(UniformAncestral("sqrt"), language, 128)[0] < 1e-4
    assert exact(UniformAncestral("beta(a=3, b=.6)"), chain(ZERO3), 128)[1] < 3e-4


def test_the_step_plugs_in_leave_one_out_posteriors():
    y = torch.randint(0, 3, (30, 4), generator=torch.Generator().manual_seed(1))
    for before, after in ((0.0, 0.3), (0.2, 0.5), (0.5, 1.0), (0.9, 0.95)):
        alone, full, _ = posteriors(chain(ZERO3), y, torch.full(y.shape, before, dtype=torch.float64))
        mu = reverse(alone.flatten(0, 1), y.flatten(), before, after).view_as(alone)
        assert float((mu - reversed_step(alone, y, before, after)).abs().max()) < 1e-12
        back = without_own(full.flatten(0, 1), y.flatten(), before).view_as(alone)
        assert float((back - alone).abs().max()) < 1e-12


def passes(p, sampler, steps, language=None, length=4, given=None):
    language = language or chain(CHAIN3)
    made = generate(language, sampler=sampler, steps=steps, rows=20_000, length=length, seed=3, given=given)
    return p_value(made.tokens.numpy(), every(3, length).numpy(), p.numpy()) > ALARM


def test_law_is_the_enumerated_one_and_that_of_mutants_is_not():
    claimed = UniformAncestral("sqrt").enumerated(UniformIdeal(chain(CHAIN3)), 6, deltas("linear", 4))
    assert passes(claimed, UniformAncestral("sqrt"), 4, length=6)
    for mutant in (PlugIn("sqrt"), EarlyLevels("sqrt"), UniformAncestral("linear")):
        assert not passes(claimed, mutant, 4, length=6)


def test_a_prompt_has_no_noise():
    language = chain(CHAIN3)
    given = [3, 0, 3, 3]
    x, p = every(3, 4), torch.zeros(81, dtype=torch.float64)
    p[x[:, 1] == 0] = 1 / 27
    for before, after in zip(levels("sqrt", 3)[:-1], levels("sqrt", 3)[1:], strict=True):
        at = torch.full(x.shape, before, dtype=torch.float64)
        at[:, 1] = 1.0
        mu = reversed_step(posteriors(language, x, at)[0], x, before, after)
        mu[:, 1] = torch.nn.functional.one_hot(x[:, 1], 3).double()
        p = p @ torch.stack([mu[:, j, x[:, j]] for j in range(4)]).prod(0)
    sampler = UniformAncestral("sqrt")
    assert passes(p, sampler, 3, given=given)
    elsewhere = sampler.enumerated(UniformIdeal(language), 4, deltas("linear", 3))
    unaware = torch.where(x[:, 1] == 0, elsewhere, 0.0)
    assert not passes(unaware / unaware.sum(), sampler, 3, given=given)


@dataclass(frozen=True)
class PromptRedrawn(UniformAncestral):
    def run(self, session):
        session.hidden = session.valid.clone()
        begin(session)
        rows, positions = session.hidden.nonzero(as_tuple=True)
        session.canvas.hide((rows, positions))
        session.write(rows, positions, torch.zeros_like(rows), torch.ones(len(rows)).double(), 1)
        session.hidden = session.given == 3


@dataclass(frozen=True)
class PromptHidden(UniformAncestral):
    def run(self, session):
        super().run(session)
        session.hide(torch.tensor([0]), torch.tensor([1]), 9)


@pytest.mark.parametrize("sampler", [PromptRedrawn(), PromptHidden()])
def test_a_sampler_that_redraws_its_prompt_is_stopped(sampler):
    with pytest.raises(Breach, match="given token"):
        generate(chain(CHAIN3), sampler=sampler, steps=2, rows=40, given=[3, 1, 3])


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["uniform-ancestral", "renoise"])
def test_samplers_of_uniform_noise_keep_the_contract(sampler):
    report = conformance.check(sampler)
    assert (report["distribution"].outcome == "passed") == (sampler != "renoise")


@dataclass(frozen=True)
class FalseClaim(PlugIn):
    """Claims the distribution of the exact step."""

    def enumerated(self, denoiser, length, delta):
        return UniformAncestral().enumerated(denoiser, length, delta)


def test_the_kit_finds_a_false_claim():
    report = conformance.examine(FalseClaim())
    assert [check.name for check in report.failed] == ["distribution"]


def test_rows_do_not_depend_on_batch_or_threads(monkeypatch):
    how = {"sampler": "uniform-ancestral(grid='geometric(last=.01)')", "steps": 5, "length": 20, "seed": 4}
    whole = generate("paper-2gram", rows=90, **how)
    assert torch.equal(whole.tokens[70:], generate("paper-2gram", rows=20, first_row=70, **how).tokens)
    monkeypatch.setenv("UNMASK_THREADS", "3")
    assert torch.equal(whole.tokens, generate("paper-2gram", rows=90, **how).tokens)


def test_a_changed_token_is_hidden_and_written_in_the_same_step():
    given = torch.full((9,), 8)
    given[2] = 3
    made = generate("paper-2gram", sampler="uniform-ancestral", steps=6, rows=4, seed=1, given=given, trace=True)
    assert (made.model_calls == 6).all()
    trace = made.trace()
    for row, tokens in zip(trace.rows, made.tokens.tolist(), strict=True):
        assert [row.final[j] for j in range(9)] == tokens
        assert row.given == [(2, 3)]
        for step in row.steps():
            assert set(step.hidden) <= set(step.revealed)
            assert step.number > 1 or set(step.revealed) == set(range(9)) - {2}
            assert step.number <= 6
    assert any(step.hidden for row in trace.rows for step in row.steps())


def test_rows_of_several_lengths_and_gaps():
    given = [[8, 8, 3, 8, 8, 8, 8], [8, 8, 8], [0, 8, 8, 8, 8]]
    made = generate("paper-2gram", sampler="uniform-ancestral", steps=4, given=given, seed=2)
    assert made.lengths.tolist() == [7, 3, 5]
    assert (int(made.tokens[0, 2]), int(made.tokens[2, 0])) == (3, 0)
    alone = generate("paper-2gram", sampler="uniform-ancestral", steps=4, given=[given[1]], seed=2, first_row=1)
    assert torch.equal(alone.tokens[0], made.tokens[1, :3])


def pairs():
    """Two positions that show the same one of two symbols."""
    import numpy as np

    return HMM(np.array([0.5, 0.5]), np.eye(2), np.eye(2))


@pytest.mark.parametrize(("steps", "within"), [(2, 0.01), (4, 0.01), (8, 0.25)])
def test_a_wrong_pair_is_repaired_in_every_second_step(steps, within):
    sampler = UniformAncestral("geometric(last=1e-9)")  # the fewer the steps, the farther apart are the levels
    p = sampler.enumerated(UniformIdeal(pairs()), 2, deltas("linear", steps))
    assert float(p[1] + p[2]) == pytest.approx(2.0**-steps, rel=within)


def test_steps_that_reveal_nothing_cost_nothing():
    how = {"sampler": "uniform-ancestral", "length": 6, "rows": 30, "seed": 2}
    few = generate(chain(ZERO3), schedule=[0.5, 0.5], **how)
    more = generate(chain(ZERO3), schedule=[0.5, 0.0, 0.5, 0.0], **how)
    assert torch.equal(few.tokens, more.tokens)
    assert (more.model_calls == 2).all()
    assert generate(chain(ZERO3), schedule=[0.0, 0.0, 1.0], **how).model_calls.tolist() == [2] * 30


SPARSE = {  # theory-2026.md E10: SER of zero3 at L = 32, N = 8, of 1,500 rows
    "ancestral": 0.644,
    "uniform-ancestral(grid='beta(a=3, b=.4)')": 0.051,
    "uniform-ancestral(grid='geometric(last=0.003125)')": 0.046,
    "uniform-ancestral(grid='geometric(last=0.03125)')": 0.210,
}


@pytest.mark.parametrize(("sampler", "ser"), SPARSE.items())
def test_uniform_noise_repairs_long_sequences(sampler, ser):
    rows = 3000
    language = chain(ZERO3)
    made = generate(language, sampler=sampler, steps=8, length=32, rows=rows, seed=1)
    error = math.sqrt(ser * (1 - ser) * (1 / rows + 1 / 1500))
    assert abs(1 - float(language.supports(made.tokens).double().mean()) - ser) < 7 * error  # 7 sd: 3e-12


def ser(source, language, **options):
    tokens = generate(source, **options).tokens
    return 1 - float(language.supports(tokens).double().mean())


def test_a_learning_error_ends_the_repair():
    how = {"sampler": "uniform-ancestral(grid='geometric(last=.0005)')", "steps": 16, "length": 128, "rows": 300}
    language = chain(ZERO3)
    exact = UniformIdeal(language)
    assert ser(exact, language, **how) < 0.2 < 0.4 < ser(Perturbed(exact, "mix", 0.01), language, **how)


def test_renoise_trades_variety_for_errors():
    """More steps make fewer impossible sequences, but the distribution moves away from the language's."""
    language = chain(ZERO3)
    q = true(language)
    ser, nats = [], []
    for steps in (2, 16):
        made = generate(language, sampler="renoise(entropy_bound=1.0)", steps=steps, length=4, rows=5000, seed=1)
        p = torch.bincount(made.tokens @ 3 ** torch.arange(3, -1, -1), minlength=81).double() / 5000
        ser.append(float(p[q == 0].sum()))
        nats.append(float((p[p > 0] * p[p > 0].log()).sum()))
    assert ser[1] < 0.5 * ser[0]
    assert nats[1] > nats[0] + 0.05  # less entropy
    entropy = -float((q[q > 0] * q[q > 0].log()).sum())
    assert -nats[1] < entropy - 0.2


def test_renoise_ends_when_its_answer_is_stable():
    certain = HMM(torch.tensor([1.0, 0.0]).numpy(), [[0, 1], [1, 0]], [[1, 0], [0, 1]])
    made = generate(certain, sampler="renoise", steps=30, length=6, rows=5)
    assert made.reasons == ("done",) * 5
    assert made.tokens.tolist() == [[0, 1, 0, 1, 0, 1]] * 5
    assert made.model_calls.tolist() == [2] * 5


@pytest.mark.parametrize(
    ("source", "sampler", "said"),
    [
        (UniformIdeal, "ancestral", "sampler ancestral removes mask noise, and .* removes uniform noise; expected the"),
        (Ideal, "uniform-ancestral", "removes uniform noise, and .* removes mask noise; .* such as ancestral"),
        (UniformIdeal, "gibbs", "removes mask noise, and .* removes uniform noise"),
        (Ideal, "renoise", "sampler renoise removes uniform noise, and"),
    ],
)
def test_samplers_and_denoisers_of_different_noise_do_not_meet(source, sampler, said):
    with pytest.raises(UnmaskError, match=said) as refusal:
        generate(source(chain(CHAIN3)), sampler=sampler, steps=2, rows=2, length=4)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampler": "uniform-ancestral(grid='geometric(last=2)')"}, "last is 2; expected a fraction between 0 and 1"),
        ({"sampler": "uniform-ancestral(grid='lin')"}, "unknown schedule 'lin'; did you mean linear"),
        ({"sampler": "uniform-ancestral", "schedule": [1.2, -0.2]}, "delta_2 of the schedule is -0.2; expected 0 or"),
    ],
)
def test_levels_that_do_not_end_clean_are_refused(options, said):
    steps = {} if "schedule" in options else {"steps": 3}
    with pytest.raises(UnmaskError, match=said):
        generate(chain(CHAIN3), rows=2, length=4, **steps, **options)


def test_too_many_sequences_are_not_enumerated():
    with pytest.raises(UnmaskError, match=r"there are 8\^5 sequences; expected at most 4,096 to list. Use shorter"):
        UniformAncestral().enumerated(UniformIdeal(unmask.load("paper-2gram")), 5, deltas("linear", 2))


def test_its_gap_and_its_likelihood_are_not_those_of_masks():
    made = generate("paper-2gram", sampler="uniform-ancestral", steps=3, rows=3, length=6, trace=True)
    for written in (made, made.trace()):
        with pytest.raises(UnmaskError, match="removes uniform noise, whose gap is not known; expected a sampler of"):
            unmask.gap("paper-2gram", written)
    other = generate("paper-2gram", sampler="uniform-ancestral", steps=3, rows=3, length=6, trace=True, seed=1).trace()
    assert unmask.difference(made.trace(), other).differing == 3


def test_a_sampler_removes_masks_by_default():
    assert (Sampler.removes, UniformAncestral.removes) == ("mask", "uniform")
