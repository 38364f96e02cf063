"""What the commands do, against the same thing done in Python."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.commands import every
from unmask import generate, languages, metrics, score
from unmask.cli.main import COMMANDS
from unmask.cli.options import show
from unmask.core.files import code
from unmask.core.samples import read_tokens
from unmask.languages.presets import varied
from unmask.samplers import SAMPLERS

ALL = every()
EXAMPLES = 4  # at most, in the help of a command
TOP = 17  # commands of `unmask --help`


def test_there_are_few_commands():
    assert len(COMMANDS) <= TOP


@pytest.mark.parametrize("command", ALL)
def test_help_teaches_by_example(run, command):
    ran = run(*command.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"usage: unmask {command} ")
    flags, _, rest = ran.out.partition("\nExample")
    rest = re.sub(r"torchrun --\S+", "torchrun", rest)  # which is not ours
    assert f"\n    unmask {command.removesuffix(' run')}" in rest
    assert 1 <= len(re.findall(rf"(?m)^    (?:torchrun .*)?unmask {command.partition(' ')[0]}", rest)) <= EXAMPLES
    if command == "eval lm-eval":
        return  # whose flags are another program's
    for flag in re.findall(r" (--[a-z-]+)", rest):
        assert flag in flags
    assert "{None}" not in ran.out
    assert "(default: False)" not in ran.out


@pytest.mark.parametrize("command", ALL)
def test_help_fits_a_terminal(run, command):
    """All but the usage line."""
    lines = run(*command.split(), "--help").out.splitlines()[1:]
    assert max(map(len, lines)) <= 80


def test_a_group_alone_shows_its_help(run):
    ran = run("theory")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == run("theory", "--help").out
    assert all(f"\n  {name} " in ran.err for name in ("exact", "list"))


SMALL = ("--length", 20, "--rows", 30, "--steps", 4, "--seed", 3)


@pytest.mark.parametrize("suffix", ["npy", "jsonl"])
def test_generate_and_score_agree_with_python(run, suffix):
    made = run("generate", "--language", "interval-5", *SMALL, "--out", f"samples.{suffix}", "--json")
    assert (made.code, made.err) == (0, "")
    ours = generate(languages.load("interval-5"), length=20, rows=30, steps=4, seed=3)
    assert torch.equal(read_tokens(f"samples.{suffix}"), ours.tokens)
    clock = {name: made.result[name] for name in ("seconds", "tokens_per_second")}
    assert made.result == ours.summary() | {"file": f"samples.{suffix}"} | clock

    scored = run("score", f"samples.{suffix}", "--language", "interval-5", "--json")
    assert (scored.code, scored.err) == (0, "")
    expected = score(ours, languages.load("interval-5")).to_dict()
    account = json.loads(Path(f"samples.{suffix}.json").read_text())
    named = {"language": languages.load("interval-5").source(), "source": account["source"]}
    named |= {"made_by_code": code(), "scored_by_code": code()}
    assert named["source"] == {"denoiser": "ideal", "language": named["language"]}
    assert scored.result == expected | {"ser_rao_blackwell": None} | named  # which needs the order
    impossible = scored.result["impossible_rows"]
    assert impossible == made.result["impossible_rows"] == round(30 * scored.result["ser"]["value"])
    relied_on = {"rows", "length", "ser", "generative_perplexity", "nll_bits_per_token", "impossible_rows"}
    assert relied_on <= scored.result.keys()
    assert {"value", "low", "high", "n"} <= scored.result["ser"].keys()


def test_the_table_says_the_same(run):
    run("generate", "--language", "interval-5", *SMALL, "--out", "samples.npy")
    result = run("score", "samples.npy", "--language", "interval-5", "--json").result
    table = run("score", "samples.npy", "--language", "interval-5", "--verbose").out
    assert re.search(rf"(?m)^impossible rows +{result['impossible_rows']}$", table)
    assert re.search(rf"(?m)^ser +{result['ser']['value']:.4g} \[", table)
    assert max(map(len, table.splitlines())) <= 80


def test_samples_without_a_valid_row(run):
    """No perplexity, and JSON without NaN."""
    Path("samples.jsonl").write_text("[0, 15]\n" * 3)
    result = run("score", "samples.jsonl", "--language", "interval-5", "--json").result
    assert (result["ser"]["value"], result["generative_perplexity"], result["nll_bits_per_token"]) == (1.0, None, None)


def test_an_open_interval_is_null(run):
    """One row has no spread: infinity is no JSON."""
    Path("samples.jsonl").write_text("[0, 0]\n")
    result = run("score", "samples.jsonl", "--language", "interval-5", "--json").result
    assert result["generative_perplexity"]["high"] is None


def test_the_account_lies_beside_the_samples(run):
    ran = run("generate", "--language", "interval-5", *SMALL, "--out", "samples.npy", "--json")
    account = json.loads(Path("samples.npy.json").read_text())
    assert account["model_calls"] == ran.result["model_calls"]
    assert account["origin"]["configuration"]["seed"] == 3
    assert account["origin"]["configuration"]["steps"] == 4
    assert sorted(str(path) for path in Path(".").iterdir()) == ["samples.npy", "samples.npy.json"]


def test_the_account_of_other_samples_is_not_used(run):
    run("generate", "--language", "interval-5", *SMALL, "--out", "samples.npy")
    tokens = np.load("samples.npy")
    np.save("samples.npy", tokens[::-1])
    result = run("score", "samples.npy", "--language", "interval-5", "--json").result
    assert result["source"] is None
    np.save("samples.npy", tokens.astype(np.int64))  # the same tokens in another type are the same samples
    result = run("score", "samples.npy", "--language", "interval-5", "--json").result
    assert result["source"] is not None


@pytest.mark.sampled(10)
@pytest.mark.parametrize("sampler", sorted(SAMPLERS.makers))
def test_blocks_of_rows_join_to_the_same_bytes(run, sampler):
    def rows(first, count):
        name = f"{first}-{count}.jsonl"
        options = ("--sampler", sampler, "--steps", 5, "--length", 12, "--seed", 7)
        ran = run(
            *("generate", "--language", "interval-5", *options),
            *("--first-row", first, "--rows", count, "--out", name),
        )
        assert ran.code == 0
        return Path(name).read_bytes()

    assert rows(0, 3) + rows(3, 5) + rows(8, 2) == rows(0, 10)


def test_threads_do_not_matter(run, monkeypatch):
    made = []
    for threads in ("1", "3"):
        monkeypatch.setenv("UNMASK_THREADS", threads)
        run("generate", "--language", "paper-3gram", *SMALL, "--out", "samples.npy")
        made.append(Path("samples.npy").read_bytes())
    assert made[0] == made[1]


def test_a_schedule_as_a_list(run):
    run("generate", "--language", "interval-5", *SMALL[:4], "--schedule", "[.25, 0.75]", "--out", "samples.npy")
    ours = generate(languages.load("interval-5"), length=20, rows=30, schedule=[0.25, 0.75])
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)


def test_the_defaults_are_those_of_the_library(run):
    run("generate", "--language", "interval-5", "--rows", 2, "--length", 512, "--out", "samples.npy")
    assert torch.equal(read_tokens("samples.npy"), generate(languages.load("interval-5"), rows=2).tokens)


def test_seed_and_pruned_choose_the_language(run):
    run("generate", "--language", "paper-2gram(seed=5, pruned=False)", *SMALL, "--out", "samples.npy")
    language = languages.load("paper-2gram(seed=5, pruned=False)")
    ours = generate(language, length=20, rows=30, steps=4, seed=3)
    assert torch.equal(read_tokens("samples.npy"), ours.tokens)
    unpruned = ("--language", "paper-2gram(seed=5, pruned=False)", "--json")
    options = ("--language", "paper-2gram(seed=5)", "--json")
    assert run("score", "samples.npy", *unpruned).result["impossible_rows"] == 0
    Path("samples.npy.json").unlink()  # the record says which language wrote them
    pruned = score(ours, languages.load("paper-2gram(seed=5)")).impossible_rows
    assert run("score", "samples.npy", *options).result["impossible_rows"] == pruned > 0


def test_language_list(run):
    result = run("show", "language", "--json").result
    assert result.keys() == {"presets", "kinds"}
    assert result["kinds"].keys() == set(languages.LANGUAGES.names())
    assert result["kinds"]["interval"]["needed"] == ["width"]
    result = result["presets"]
    assert result.keys() == languages.PRESETS.makers.keys()
    assert result["paper-2gram"]["options"] == {"seed": 0, "pruned": True}
    assert result["interval-5"]["options"] == {}
    table = run("show", "language").out
    assert all(re.search(rf"(?m)^{name} ", table) for name in languages.PRESETS.makers)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", languages.PRESETS.makers)
def test_new_and_show(run, name):
    spec = varied(name, seed=3)
    written = run("show", "language", spec, "--out", "language.json", "--json")
    assert (written.code, written.err) == (0, "")
    language = languages.load(spec)
    assert languages.load("language.json").to_dict() == language.to_dict()
    assert written.result == json.loads(json.dumps({"file": "language.json"} | language.describe()))

    length = language.nearest_lengths(64)[-1]
    shown = run("show", "language", spec, "--json").result
    assert shown["length"] == length
    assert shown["kind"] == language.kind
    assert shown["entropy_bits"]["value"] == pytest.approx(language.entropy(length).value / np.log(2))
    assert shown["ter"]["value"] == pytest.approx(metrics.ter_autoregressive(language, length).value)
    example = language.sample(1, length)[0, :60]
    assert shown["example"] == language.render(example)
    again = run("show", "language", "language.json", "--json").result
    assert again == shown


def test_show_of_a_variable_length(run):
    """2^(H/L) would be no TER where |x| varies, and is not printed as one."""
    Path("language.json").write_text('{"kind": "brackets", "stop": 0.2}')
    assert run("show", "language", "language.json", "--json").result["ter"] is None
    assert re.search(r"(?m)^ter +-$", run("show", "language", "language.json").out)


def test_new_normalises_only_when_asked(run):
    rows = np.random.default_rng(0).random((3, 3)).astype(np.float32)
    exported = (rows / rows.sum(1, keepdims=True)).astype(np.float64) * (1 + 1e-6)
    content = {"kind": "ngram", "order": 2, "initial": exported[0].tolist(), "transition": exported.tolist()}
    Path("exported.json").write_text(json.dumps(content))
    refused = run("show", "language", "exported.json", "--out", "language.json")
    assert refused.code == 2
    assert "--normalise" in refused.err
    assert run("show", "language", "exported.json", "--normalise", "--out", "language.json").code == 0
    transition = np.array(languages.load("language.json").to_dict()["transition"])
    np.testing.assert_allclose(transition, exported / exported.sum(1, keepdims=True), rtol=1e-12)


def test_tables_wrap_to_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    show({"a": "word " * 40, "nested": {"b": 1.0, "c_d": None}, "empty": ""}, False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 50
    assert lines[0] == "a            " + "word word word word word word word"
    assert lines[1].startswith("             word")
    assert lines[-3:] == ["nested: b    1", "nested: c d  -", "empty"]


def test_a_percentage_is_printed_once(run):
    assert "%%" not in run("plan", "--help").out
    assert "--target 10%" in run("plan", "--help").out
