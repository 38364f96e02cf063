"""`unmask score --likelihood`: of the sampler that the samples' own record names, or of another one."""

from __future__ import annotations

import pytest

from unmask import languages
from unmask.core.samples import read_tokens

SCORE = ("score", "s.npy", "--language", "paper-2gram", "--json", "--likelihood")
SAMPLER = "top-probability(ties='position')"


@pytest.fixture
def samples(run):
    made = ("--rows", 40, "--length", 12, "--steps", 12, "--sampler", SAMPLER)
    assert run("generate", "--language", "paper-2gram", *made, "--out", "s.npy").code == 0


def test_one_token_per_step_is_the_language(run, samples, tmp_path):
    exact = float(languages.load("paper-2gram").log_prob(read_tokens(tmp_path / "s.npy")).mean())
    found = run(*SCORE).result["likelihood"]
    assert found["sampler"] == SAMPLER
    assert found["steps"] == 12
    assert found["nats"]["value"] == pytest.approx(exact, abs=1e-9)
    assert found["model_calls"] == 40 * 12
    found = run(*SCORE, "--sampler", "left-to-right", "--steps", 12).result["likelihood"]
    assert found["nats"]["value"] == pytest.approx(exact, abs=1e-9)
    random = run(*SCORE, "--sampler", "ancestral", "--steps", 6, "--draws", 4).result["likelihood"]
    assert (random["exact"], random["left_out"] + random["nats"]["n"]) == (False, 40)
    assert "log-likelihood" in run(*(word for word in SCORE if word != "--json")).out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--steps", 3), "--steps applies to a likelihood"),
        (("--likelihood", "--sampler", "low-confidence"), "chooses positions by drawn tokens"),
    ],
)
def test_refusals(run, samples, options, message):
    ran = run("score", "s.npy", "--language", "paper-2gram", *options)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_samples_without_a_record_need_a_sampler(run, samples, tmp_path):
    (tmp_path / "s.npy.json").unlink()
    ran = run("score", "s.npy", "--language", "paper-2gram", "--likelihood")
    assert ran.code == 2
    assert "no record of their sampler" in ran.err
