"""Infilling: the parts, values that are known, and the AR model that sees the left side alone."""

from __future__ import annotations

import math

import pytest
import torch

from unmask import UnmaskError, languages
from unmask.denoisers import Ideal
from unmask.experiments.jobs import infilling as jobs
from unmask.experiments.jobs.sources import Amount, Sampling, Source
from unmask.models.trained.shape import preset
from unmask.models.trained.trunk import Trunk

AR = Sampling("autoregressive")
PARTS = [(3, 5), (8, 10)]


def interval(records, measure):
    record = next(record for record in records if record["measure"] == measure)
    return record["low"], record["value"], record["high"]


def test_parts():
    assert jobs.parts_of(64, 16, "middle") == [(24, 40)]
    assert jobs.parts_of(64, 16, "two") == [(16, 24), (40, 48)]
    assert jobs.parts_of(64, 16, "end") == [(48, 64)]
    assert jobs.parts_of(11, 3, "two") == [(3, 4), (6, 8)]
    with pytest.raises(UnmaskError, match="span is 7; expected"):
        jobs.parts_of(8, 7, "middle")
    with pytest.raises(UnmaskError, match="unknown where 'left'"):
        jobs.parts_of(8, 2, "left")


def test_ar_guesses_a_token_whose_partner_is_on_the_right():
    """Pairs share a bit. Of 10 positions 4, 5 and 6 are hidden: 7 decides 6, which AR guesses; it loses log 2 nats."""
    pairs, amount = Source("interval(width=2)", length=10), Amount(500)
    records = jobs.infilling(pairs, AR, amount, "middle", 3)
    low, _, high = interval(records, "infill_ser")
    assert low <= 0.5 <= high
    assert interval(records, "infill_divergence_nats") == pytest.approx((math.log(2),) * 3)
    assert interval(jobs.infilling(pairs, Sampling(steps=400), amount, "middle", 3), "infill_ser")[1] < 0.02
    one_step = jobs.infilling(pairs, Sampling(steps=1), amount, "middle", 3)
    low, _, high = interval(one_step, "infill_ser")  # 4 and 5 are a pair, drawn apart
    assert low <= 0.5 <= high
    assert interval(one_step, "infill_divergence_nats")[1] == pytest.approx(math.log(2), rel=0.05)


@pytest.mark.parametrize("where", ["two", "end"])
def test_ar_reads_its_own_earlier_part(where):
    """At the end it misses nothing; in two parts a row that its first part has broken stays impossible."""
    records = jobs.infilling(Source("paper-2gram", length=24), AR, Amount(200), where, 8)
    assert (interval(records, "infill_ser")[1] == 0) == (where == "end")
    assert (interval(records, "infill_divergence_nats")[1] == pytest.approx(0, abs=1e-9)) == (where == "end")


def test_the_chain_rule_of_an_exact_denoiser_is_the_evidence():
    q = languages.load("paper-2gram")
    whole = q.sample(40, 14, seed=1)
    around = jobs.hidden_in(whole, PARTS, q.vocabulary)
    assert (around == q.vocabulary).sum(1).eq(4).all()
    expected = q.log_evidence(around) - q.log_evidence(whole)
    assert torch.allclose(jobs.chain_nats(Ideal(q), whole, PARTS), expected)


def test_the_loss_of_an_ar_network_reads_nothing_behind_a_part():
    torch.manual_seed(0)
    trunk = Trunk(preset("quick", "ar", 8, length=14, hidden=16, heads=2, layers=1)).eval()
    for weight in trunk.parameters():
        torch.nn.init.normal_(weight, std=0.5)  # a new head is zero
    whole = torch.randint(8, (6, 14))
    changed = whole.clone()
    changed[:, PARTS[-1][1] :] = (whole[:, PARTS[-1][1] :] + 1) % 8
    own = jobs.left_nats(trunk, whole, PARTS)
    assert torch.equal(own, jobs.left_nats(trunk, changed, PARTS))
    changed[:, PARTS[0][0] - 1] = (whole[:, PARTS[0][0] - 1] + 1) % 8
    assert (own > 0).all()
    assert not torch.equal(own, jobs.left_nats(trunk, changed, PARTS))
