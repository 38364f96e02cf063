"""unmask gap: of a language, a network, an open model and a trace; refusals in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import unmask
from unmask.models.trained.checkpoints import save
from unmask.models.trained.trunk import Trunk

SMALL = ["--length", 12, "--rows", 30, "--steps", 4]


def test_a_language_prints_the_verdict_and_json_has_all_numbers(run):
    ran = run("gap", "--language", "sparse-hmm(pruned=False)", *SMALL)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("verdict")
    for name in ("sequences that change, at most", "mean pairwise identity", "steps for 0.01 nats per token"):
        assert any(line.startswith(name) for line in lines)
    result = run("gap", "--language", "sparse-hmm(pruned=False)", *SMALL, "--json").result
    assert result["claim"] == "divergence"
    assert result["model_calls"] <= 2 * result["model_calls_of_generation"]
    assert result["nats_per_sequence"]["low"] <= result["nats_per_sequence"]["value"]
    assert result["nats_per_sequence"]["n"] == 30
    assert result["impossible"]["value"] == 0
    assert result["rejected_sequences"] is None
    assert result["reference"]["variety"]["distinct"] <= result["reference"]["rows"] == 20
    assert run("gap", "--language", "paper-2gram", *SMALL, "--reference", 0, "--json").result["reference"] is None


@pytest.mark.parametrize("calls", ["one", "chain"])
def test_the_estimate_is_the_users(run, calls):
    result = run("gap", "--language", "sparse-hmm(pruned=False)", *SMALL, "--calls", calls, "--json").result
    assert result["estimator"] == calls
    assert (result["rejected_sequences"] is not None) == (calls == "chain")


@pytest.mark.needs("pages")
def test_the_page_has_the_printed_numbers(run):
    ran = run("gap", "--language", "paper-2gram", *SMALL, "--out", "gap.html", "--json")
    page = Path("gap.html").read_text()
    assert ran.result["verdict"] in page
    assert "The sequences that lose most" in page
    assert run("gap", "--language", "paper-2gram", *SMALL, "--json").result == ran.result  # a page changes no number

    wrong = run("gap", "--language", "paper-2gram", *SMALL, "--out", "gap.png")
    assert (wrong.code, "expected the name of a page" in wrong.err) == (2, True)
    alone = run("gap", "--language", "paper-2gram", *SMALL, "--open")
    assert (alone.code, "needs --out FILE" in alone.err) == (2, True)


def test_a_trace_is_measured(run):
    made = run("play", "--language", "sparse-hmm(pruned=False)", *SMALL, "--sampler", "entropy", "--out", "x.json")
    assert made.code == 0
    trace = ["gap", "--language", "sparse-hmm(pruned=False)", "--trace", "x.json", "--calls", "one", "--json"]
    assert run(*trace).result["claim"] == "divergence"
    assert run(*trace, "--sampler", "low-confidence").result["claim"] == "ratio"
    made = run(
        "play", "--language", "sparse-hmm(pruned=False)", *SMALL, "--sampler", "low-confidence", "--out", "y.json"
    )
    assert made.code == 0
    chosen = ["gap", "--language", "sparse-hmm(pruned=False)", "--trace", "y.json", "--calls", "one", "--json"]
    assert run(*chosen).result["claim"] == "ratio"
    assert run(*chosen, "--sampler", "ancestral").result["claim"] == "divergence"
    assert run(*trace, "--temperature", 0).code == 2
    for ignored in (("--top-p", 0.9), ("--steps", 8), ("--rows", 3), ("--rows-per-prompt", 2), ("--prompt", "a")):
        refused = run(*trace, *ignored)
        assert refused.code == 2
        assert "only --sampler and --temperature apply" in refused.err


def test_greedy_decoding_counts_flips(run):
    ran = run("gap", "--language", "sparse-hmm(pruned=False)", *SMALL, "--temperature", 0)
    assert "first flips per sequence" in ran.out


def test_a_network_of_ours(run, tmp_path):
    network = Trunk(unmask.models.trained.preset("quick", "mdm", 8, length=12))
    save(network, tmp_path / "net")
    result = run("gap", "--model", "net", "--rows", 25, "--steps", 3, "--sampler", "low-confidence", "--json").result
    assert result["claim"] == "ratio"
    save(Trunk(unmask.models.trained.preset("quick", "ar", 8, length=12)), tmp_path / "ar")
    refused = run("gap", "--model", "ar", "--rows", 25, "--steps", 3)
    assert refused.code == 2
    assert "AR model" in refused.err


def event_file(path, vocabulary, token, probability):
    rows = [{"length": 2, "events": [[1, 0, token, probability], [1, 1, token, probability]]}] * 3
    path.write_text(json.dumps({"format": "unmask-trace", "version": 1, "vocabulary": vocabulary, "rows": rows}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected either --language for an exact denoiser, or --model"),
        (["--language", "paper-2gram", "--model", "net"], "expected either --language"),
        (["--language", "paper-2gram", "--trace", "other.json"], "the rows have 9 symbols"),
        (["--language", "paper-2gram", "--trace", "high.json"], "token is 8; expected 0 to 7"),
        (["--language", "paper-2gram", "--trace", "cold.json"], "differ by a factor of"),
        (["--language", "paper-2gram", "--trace", "none.json"], "none.json"),
        (["--language", "paper-2gram", "--calls", "many"], "'many'"),
        (["--language", "paper-2gram", "--calls", "pair"], "'pair'"),
        (["--language", "paper-2gram", "--sampler", "autoregressive", *SMALL], "uses an AR model"),
        (["--language", "paper-2gram", "--prompt", "x"], "--prompt needs --model"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(run, tmp_path, words, said):
    event_file(tmp_path / "other.json", 9, 1, 0.5)
    event_file(tmp_path / "high.json", 8, 8, 0.5)
    event_file(tmp_path / "cold.json", 8, 1, 1.0)
    ran = run("gap", *words)
    assert ran.code == 2
    assert said in ran.err
    assert ran.err.count("\n") == 1
