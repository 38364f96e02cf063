"""The enumerated rules, and the comparison of a loop with them, without any engine: planted mistakes are found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.engines import __main__ as command
from benchmarks.engines import adapters, coarse, laws, read
from benchmarks.engines.cases import Case
from benchmarks.engines.finite import noise, race
from benchmarks.engines.found import Checkout, Missing, load
from benchmarks.engines.gated import Gated
from benchmarks.engines.measuring import ALARM, LENGTH, STEPS, counted, measure
from benchmarks.engines.networks import Cached, Filtered, Independent, NextToken, Tiny
from benchmarks.engines.rules import likeliest, plausible
from unmask import generate
from unmask.denoisers.ideal import Ideal
from unmask.diagnosis.audit.statistics import against_distribution
from unmask.metrics import output_distribution
from unmask.samplers.schedules import deltas

TINY = Tiny()
ROWS = 20_000
ROOT = Path(__file__).parents[2]
CARD = ROOT / "results/card-sdar.md"


def loop(mistake: str = ""):
    """LLaDA's rule, in our own words; the mistakes are those that the enumeration should see."""

    def run(network, rows, length, steps):
        mask = network.config.mask_token_id
        x = torch.full((rows, length), mask)
        for k in range(steps):
            p = network(x).logits.double().softmax(-1)
            if mistake == "warm":
                p = p.sqrt() / p.sqrt().sum(-1, keepdim=True)
            drawn = p.flatten(0, 1).multinomial(1).view(rows, length)
            if mistake == "argmax at the end" and k == steps - 1:
                drawn = p.argmax(-1)
            score = p.amax(-1) if mistake == "score" else p.gather(-1, drawn.unsqueeze(-1)).squeeze(-1)
            score = score.masked_fill(x != mask, -1)
            count = length // steps + (mistake == "counts" and k == 0)
            chosen = score.topk(min(count, int((x[0] == mask).sum()))).indices
            x = x.scatter(1, chosen, drawn.gather(1, chosen))
        return x

    return run


def p_value(run, law) -> float:
    torch.manual_seed(1)
    counts, done = counted(Case("", run, "-", law, rows=ROWS), TINY, 60, ROWS)
    assert done == ROWS
    return against_distribution(counts, law(TINY, LENGTH, STEPS))


@pytest.mark.parametrize("mistake", ["", "warm", "argmax at the end", "score", "counts"])
def test_a_loop_agrees_with_its_rule_until_a_mistake_is_planted(mistake):
    """One fixed seed; a correct loop would fail for one seed in 10,000."""
    assert (p_value(loop(mistake), laws.evenly()) >= ALARM) == (not mistake)


def test_the_rules_are_the_samplers_of_this_package():
    """Ancestral exactly; the others by 20,000 rows, false alarms 1 in 10,000."""
    exact = output_distribution(Ideal(TINY.language), LENGTH, deltas("linear", STEPS))
    assert torch.allclose(laws.ancestral(TINY, LENGTH, STEPS), exact, atol=1e-12)
    assert torch.allclose(laws.remasked(0.0, eps=0)(TINY, LENGTH, STEPS), exact, atol=1e-12)
    pairs = [
        ("llada(temperature=1)", laws.evenly()),
        ("fixed-size", laws.at_random),
        ("remdm(strategy=cap, eta=0.3)", laws.remasked(0.3, eps=0)),
        ("remdm(strategy=rescale, eta=0.3)", laws.remasked(0.3, rescale=True, eps=0)),
        ("threshold(threshold=0.6)", laws.gated(0.6, likeliest)),
        (Gated(0.6), laws.gated(0.6)),
        (Gated(0.6, relative=True), laws.gated(0.6, plausible)),
        (Gated(0.6, slack=0.1), laws.gated(0.6, slack=0.1)),
    ]
    for sampler, law in pairs:
        made = generate(TINY.language, sampler=sampler, steps=STEPS, length=LENGTH, rows=ROWS, seed=3).tokens
        counts = torch.bincount(made @ 3 ** torch.arange(LENGTH - 1, -1, -1), minlength=81)
        assert against_distribution(counts, law(TINY, LENGTH, STEPS)) >= ALARM, sampler


@pytest.mark.sampled(2)
@pytest.mark.parametrize("law", [laws.uniform_ancestral(False), laws.diffusion_gemma(0.8, 0.4)])
def test_the_laws_of_noise_are_distributions_and_one_is_the_samplers(law):
    network = Tiny(noise=True)
    written = law(network, LENGTH, STEPS)
    assert float(written.sum()) == pytest.approx(1, abs=1e-12)
    made = generate(TINY.language, sampler="uniform-ancestral", steps=STEPS, length=LENGTH, rows=ROWS, seed=3).tokens
    counts = torch.bincount(made @ 3 ** torch.arange(LENGTH - 1, -1, -1), minlength=81)
    ancestral = laws.uniform_ancestral(False)(network, LENGTH, STEPS)
    assert (against_distribution(counts, written) >= ALARM) == torch.equal(written, ancestral)


@pytest.mark.parametrize("rare", [0.1, 0.2, 0.3])
@pytest.mark.parametrize("score", [plausible, laws.drawn])
def test_one_of_the_best_draws_at_a_time_is_rare_with_a_closed_form(rare, score):
    """Below the threshold one position a step is revealed: the rare token only if all L' positions left drew it.

    (r + r^2 + .. + r^L) / L; 32 positions and r = .3, .2, .1 give .013, .008, .003.
    """
    length = 5
    written = laws.gated(0.95, score)(Independent(rare), length, length)
    tokens = torch.cartesian_prod(*[torch.arange(2)] * length).double()
    fraction = float(written @ tokens.mean(1))
    assert fraction == pytest.approx(sum(rare**k for k in range(1, length + 1)) / length, abs=1e-12)
    kept = laws.gated(0.95, likeliest)(Independent(rare), length, length)  # without the gate nothing is lost
    assert float(kept @ tokens.mean(1)) == pytest.approx(rare, abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_coarse_race_is_enumerated(dtype):
    """Against the enumeration of `finite` exactly, and 40,000 races with Gumbel noise; the exact one fails."""
    p = torch.tensor([0.5, 0.3, 0.15, 0.0496, 0.0004], dtype=torch.float64)
    assert torch.allclose(coarse.winners(coarse.quotients(p.log().float(), dtype), noise(dtype)[1]), race(p, dtype))
    torch.manual_seed(2)
    gumbel = -torch.log(-torch.log(torch.rand((40_000, 5), dtype=dtype)))
    counts = torch.bincount((p.log().to(dtype) + gumbel).argmax(1), minlength=5)
    written = coarse.winners(coarse.gumbels(p.log(), dtype), noise(dtype)[1])
    assert against_distribution(counts, written / written.sum()) >= ALARM
    assert against_distribution(counts, p) < ALARM or dtype == torch.float16


def test_rules_that_are_read_are_distributions():
    for pair in read.READ.values():
        for law in pair:
            assert float(law(TINY, LENGTH, STEPS).sum()) == pytest.approx(1, abs=1e-12)


def test_a_filtered_network_keeps_the_token_that_crosses():
    """.8, .2 and .7: the first crosses, so it is alone."""
    hidden = torch.full((1, 2), 2)
    assert Filtered(Independent(0.2), 0.7).answers(hidden, None)[0, 0].tolist() == [1, 0]
    assert torch.allclose(
        Filtered(Independent(0.2), 0.85).answers(hidden, None)[0, 0], torch.tensor([0.8, 0.2]).double()
    )


def test_networks_are_exact_in_every_shape():
    canvas = torch.tensor([[3, 1, 3, 2], [0, 3, 3, 3]])
    logits = TINY(canvas).logits
    assert torch.allclose(logits[..., :3].exp().double(), TINY.language.posterior(canvas), atol=1e-6)
    shifted = NextToken(TINY)(torch.cat([torch.zeros(2, 1, dtype=torch.long), canvas], 1)).logits
    assert torch.equal(torch.cat([shifted[:, :1], shifted[:, :-1]], 1)[:, 1:], logits)
    cached = Cached(TINY, "store")
    cached(canvas[:, :2], store=True)
    assert torch.equal(cached(canvas[:, 2:]).logits, logits[:, 2:])


def test_noise_is_answered_by_bayes():
    """Independent positions, the level unknown and one of 19: by summation."""
    seen, levels = torch.tensor([[0, 1, 1]]), torch.linspace(0, 1, 21, dtype=torch.float64)[1:-1]
    clean = torch.cartesian_prod(*[torch.arange(2)] * 3)
    prior = torch.tensor([0.8, 0.2])[clean].double().prod(1)
    emitted = [(torch.where(clean == seen, level, 0.0) + (1 - level) / 2).prod(1) for level in levels]
    mass = sum(prior * e for e in emitted)
    expected = torch.stack([mass[(clean[:, i] == 1)].sum() for i in range(3)]) / mass.sum()
    assert torch.allclose(Independent(0.2, noise=True).answers(seen, None)[0, :, 1], expected, atol=1e-12)


@pytest.mark.long
def test_a_case_is_confirmed_only_if_the_rows_agree_with_what_it_states(monkeypatch):
    monkeypatch.setattr("benchmarks.engines.measuring.RARE_ROWS", 40)
    correct = Case("T = 1", loop(), "llada(temperature=1)", laws.evenly(), rows=2000)
    result = measure(correct, 30, ROWS)
    assert result.confirmed
    assert not result.differs
    assert result.fault is None
    planted = replace(correct, loop=loop("argmax at the end"))
    assert not measure(planted, 30, ROWS).confirmed  # stated as correct
    assert not measure(replace(planted, code=laws.evenly(greedy=True), audited=False), 30, ROWS).confirmed


def test_one_file_is_loaded_with_stubs_and_nothing_else_changes(tmp_path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part/loop.py").write_text(
        "import heavy.kernels as k, torch\nfrom .types import Shape\nfrom heavy.base import Base\n"
        "@k.fast('x')\ndef draw(p: Shape['b']):\n    return p.argmax(-1)\nclass Sampler(Base):\n    pass\n"
    )
    module = load(tmp_path / "part/loop.py", {"heavy": {}, "heavy.base": {"Base": dict}})
    assert module.draw(torch.tensor([0.1, 0.9])) == 1
    assert issubclass(module.Sampler, dict)
    with pytest.raises(ModuleNotFoundError):
        __import__("heavy")
    with pytest.raises(Missing, match="does not exist; expected a file of this engine"):
        load(tmp_path / "other.py")


def test_an_engine_that_is_not_here_says_how_to_get_it(tmp_path, capsys):
    with pytest.raises(Missing, match=r"no checkout of github.com/a/b. Clone it as b into"):
        Checkout(tmp_path, "b", "github.com/a/b")
    assert command.main(["--only", "LLaDA generate", "--checkouts", str(tmp_path), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)["engines"]
    assert record["not_run"].startswith("no checkout of github.com/ML-GSAI/LLaDA")


def test_an_adapter_has_at_most_40_lines():
    lines = {path.name: path.read_text().split("\n") for path in Path(adapters.__path__[0]).glob("*.py")}
    assert max(sum(map(bool, text)) for text in lines.values()) <= 40


def test_the_kept_results_are_confirmed_and_documented():
    kept = json.loads((ROOT / "results/engines.json").read_text())["engines"]
    page = (ROOT / "docs/engines.md").read_text()
    assert "\n".join(command.table(kept)) in page
    assert "\n".join(command.cards([one for one in kept if one["engine"] == "SDAR generate"])) == CARD.read_text()
    assert "\n".join(coarse.table(json.loads((ROOT / "results/coarse-noise.json").read_text())["races"])) in page
    audited = [one for one in kept if one.get("verdict", "").startswith("differs")]
    assert all(one["differs"] for one in audited)  # an audit that differs where the enumeration agrees had a wrong rule
    run = [SimpleNamespace(**record) for record in kept if "not_run" not in record]
    assert len({record.engine for record in run}) >= 9
    assert all(record.confirmed for record in run)
    assert all(r["low"] <= r["value"] <= r["high"] for record in run if (r := record.rare) is not None)
