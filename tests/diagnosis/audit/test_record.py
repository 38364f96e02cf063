"""The audit sees the order: what the record of an oracle says of 200 rows. Seeds are fixed.

An audit of a correct loop raises a false alarm with probability 1e-4: the 24 of them here one with less than 0.3%.
"""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from tests.diagnosis.audit.loops import dream, llada, mdlm
from tests.diagnosis.audit.planted import LOOPS, PLANTED, run
from tests.diagnosis.audit.remembering import remembered
from unmask import UnmaskError, audit, generate, languages, oracle
from unmask.denoisers import Ideal
from unmask.denoisers.record import Run
from unmask.diagnosis.audit import verdict
from unmask.diagnosis.audit.observed import Observed, predictions
from unmask.diagnosis.audit.specimens import Meant
from unmask.samplers.contract import as_sampler
from unmask.samplers.schedules import deltas

LANGUAGE = languages.load("paper-2gram")
EXACT = Ideal(LANGUAGE)
ROWS = 200


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(verdict, "Bench", remembered)


SMALL = ("p^1.02 instead of p",)  # which 200 rows do not show


@pytest.mark.sampled(11)
@pytest.mark.parametrize("name", [name for name in PLANTED if name not in SMALL])
def test_a_planted_fault_is_named_in_200_rows(name):
    fault = PLANTED[name]
    samples, model = run(fault, ROWS)
    found = audit(samples, model, sampler=fault.sampler, steps=LOOPS[fault.sampler][2])
    assert found.fault == fault.named, found.sentence
    assert fault.detail in found.detail
    assert found.verdict == ("no difference found" if fault.named == "ties" else "differs")


RIGHT = {
    "ancestral": lambda model: mdlm(model, 100, 32, 16),
    "low-confidence(ties=topk)": lambda model: llada(model, 100, 16, 8),
    "dream(alg=entropy)": lambda model: dream(model, 100, 16, 8),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("sampler", RIGHT)
@pytest.mark.parametrize("seed", range(8))
def test_a_right_loop_is_not_accused(sampler, seed):
    torch.manual_seed(500 + seed)
    model = oracle(LANGUAGE)
    samples = torch.cat([RIGHT[sampler](model) for _ in range(ROWS // 100)])
    found = audit(samples, model, sampler=sampler, steps=16 if sampler == "ancestral" else 8)
    assert (found.verdict, found.fault) == ("no difference found", None), found.sentence
    assert found.compared_with.endswith("the record of the oracle")


def seen(made, sampler="ancestral", steps=8):
    run = Run.of_order(made.order, made.tokens)
    return Observed.of([run], made.order, made.tokens, meant(sampler, steps))


def meant(sampler, steps):
    return Meant(as_sampler(sampler), "linear", deltas("linear", steps), EXACT)


def test_a_small_power_is_seen_in_many_draws():
    """p^1.02 is not to be seen in 200 rows of 32 tokens; in 400,000 tokens it is, by the test of draws."""
    torch.manual_seed(7)
    model = oracle(LANGUAGE)
    tokens = mdlm(model, 2000, 200, 2, temperature=1 / 1.02)
    order = model.record.order(tokens)
    found = Observed.of(model.record.runs, order, tokens, meant("ancestral", 2))
    p_values = {finding.test: finding.p_value for finding in found.findings(order)}
    assert p_values["draws"] < 1e-6 < p_values["counts"]
    assert abs(found.temperature.value - 1 / 1.02) < 3 * (found.temperature.high - found.temperature.low)


def test_a_temperature_is_measured():
    torch.manual_seed(7)
    model = oracle(LANGUAGE)
    samples = torch.cat([mdlm(model, 100, 32, 16, temperature=1 / 1.15) for _ in range(2)])
    found = audit(samples, model, steps=16)
    assert (found.verdict, found.fault) == ("differs", "temperature"), found.sentence
    assert abs(found.temperature.value - 1 / 1.15) < 3 * (found.temperature.high - found.temperature.low)


def test_the_tests_of_a_record_are_exact():
    """150 records of 200 rows: the p-values are uniform (Kolmogorov-Smirnov at 1e-4)."""
    made = generate(LANGUAGE, steps=8, length=16, rows=150 * ROWS, seed=1)
    p_values = {"draws": [], "counts": []}
    whole = seen(made)
    for first in range(0, len(made.tokens), ROWS):
        part = slice(first, first + ROWS)
        told = type(whole.predictions)(*(values[part] for values in vars(whole.predictions).values()))
        runs = [Run.of_order(made.order[part], made.tokens[part])]
        one = Observed(made.tokens[part], made.order[part], runs, told, whole.meant)
        for finding in one.findings(made.order):
            if finding.test in p_values:
                p_values[finding.test].append(finding.p_value)
    for test, found in p_values.items():
        assert stats.kstest(found, "uniform").pvalue > 1e-4, test


def test_what_was_said_is_the_posterior_of_each_context():
    made = generate(LANGUAGE, steps=4, length=10, rows=30, seed=2)
    told = predictions(EXACT, made.tokens, made.order)
    for number in range(1, 5):
        context = torch.where(made.order < number, made.tokens, LANGUAGE.vocabulary)
        p = LANGUAGE.posterior(context)
        bits = -p.clamp(min=1e-300).log()
        now = made.order == number
        of = bits.gather(2, made.tokens.unsqueeze(2)).squeeze(2)
        mean = (p * bits).sum(2)
        torch.testing.assert_close(told.surprise[now], of[now])
        torch.testing.assert_close(told.expected[now], mean[now])
        torch.testing.assert_close(told.variance[now], ((p * bits**2).sum(2) - mean**2)[now])


def test_a_loop_that_leaves_out_calls_is_not_accused_of_it():
    """One row at a time, with a cache: a step in which nothing is revealed asks nothing."""

    class Caching:
        def __init__(self, model):
            self.model, self.config, self.before = model, model.config, None

        def __call__(self, x, *_):
            if self.before is None or not torch.equal(x, self.before):
                self.before, self.said = x.clone(), self.model(x)
            return self.said

    torch.manual_seed(4)
    model = oracle(LANGUAGE)
    samples = torch.cat([mdlm(Caching(model), 1, 12, 8) for _ in range(ROWS)])
    assert model.calls < 8 * ROWS
    found = audit(samples, model, steps=8)
    assert (found.verdict, found.fault) == ("no difference found", None), found.sentence
    assert "record: draws" in found.p_values
    assert "record: counts" not in found.p_values


def test_dreams_shift_is_undone():
    model = oracle(LANGUAGE, shift=True)
    x = torch.full((2, 5), model.mask_id)
    x[:, 0] = model.config.bos_token_id
    model(x)
    x[:, 2] = 3
    model(x)
    tokens = torch.tensor([[1, 3, 1, 1]] * 2)
    assert torch.equal(model.record.order(tokens), torch.tensor([[2, 1, 2, 2]] * 2))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda model, samples: (model, samples[:-1].repeat(2, 1)), "called for 200 rows, but there are 398 samples"),
        (lambda model, samples: (model, samples.flip(0)), "row 0, position .*the token differs from batch 1"),
        (lambda model, samples: (model, samples[:, :-1]), "has 12 positions, a sample 11"),
        (lambda model, samples: (oracle(LANGUAGE), samples), "called for 0 rows"),
    ],
)
def test_a_record_of_other_rows(spoil, words):
    torch.manual_seed(4)
    model = oracle(LANGUAGE)
    samples = mdlm(model, ROWS, 12, 4)
    model, samples = spoil(model, samples)
    with pytest.raises(UnmaskError, match=words):
        audit(samples, model, steps=4)
