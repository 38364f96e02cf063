"""Figure 2 as a sweep: records are what the networks write, what is kept is not made again, the page says it all."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from tests.sparing import undrawn
from unmask import UnmaskError, generate
from unmask.core.means import mean
from unmask.models.text import Text, read
from unmask.models.trained import Network, load, loop
from unmask.models.trained.checkpoints import read_tokenizer
from unmask.planning.judge import Judges
from unmask.report.metrics import METRICS
from unmask.report.publishing import Context, Selection, page_of, publish
from unmask.report.verdict import Shown, verdict

PAGE = page_of("figure-2")
SIZE = ("tokenizer=bpe:270", "length=12", "layers=1", "hidden=24", "training_steps=4")
SIZE += ("steps=[2,8]", "rows=24", "batch=2")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("text") / "words.txt"
    made.write_text("\n\n".join(f"the cat number {number} sat on the mat, and the rat ran" for number in range(600)))
    return made


def settings_of(path, *changes):
    return Selection("figure-2-quick", (f"text={path}", *SIZE, *changes), device="cpu")


def measure(out, settings):
    """What the networks write, without a page."""
    return publish(replace(PAGE, contents=lambda *_: {}), settings, out).shown.results


@pytest.fixture(scope="module")
def made(path, tmp_path_factory):
    out = tmp_path_factory.mktemp("figure")
    return out, measure(out, settings_of(path))


def places(results):
    return {name.rpartition(", ")[2].lower(): place for name, place in results.networks.items()}


def test_the_records_are_what_the_networks_write(made, path):
    _, results = made
    found = {(p["measure"], p["kind"], p["steps"]): p for p in results.points}
    directories, examples = places(results), results.examples
    mdm, ar = (load(directories[kind], "cpu") for kind in ("mdm", "ar"))
    text = Text(read(path), read_tokenizer(directories["mdm"]))
    judges = Judges(text, ar)
    for who, steps in (("mdm", 2), ("mdm", 8), ("ar", None)):
        how = {"sampler": "autoregressive"} if steps is None else {"steps": steps}
        drawn = generate(Network(mdm, ar), **how, length=12, rows=24, seed=0)
        said = judges(drawn.tokens)
        for measure_, values, scale in (
            ("generative_perplexity", said.twin, lambda x: x.exp()),
            ("ngram_perplexity", said.ngram, lambda x: x.exp()),
            ("token_entropy", said.entropy, lambda x: x),
        ):
            expected = scale(values.mean())
            assert found[measure_, who, steps]["value"] == pytest.approx(float(expected)), (measure_, who, steps)
        assert found["token_entropy", who, steps]["low"] == pytest.approx(mean(said.entropy).low)
        assert found["rows_with_unknown_words", who, steps]["value"] == float(said.wrong.double().mean())
        assert examples["AR" if steps is None else f"MDM, {steps} steps"] == text.tokenizer.decode(
            drawn.tokens[0].tolist()
        )
    assert found["generative_perplexity", "mdm", 2]["model_calls"] <= 2
    assert found["generative_perplexity", "ar", None]["model_calls"] == 12
    assert found["unknown_words", "text", None]["value"] == 0
    times = {key[1:]: record for key, record in found.items() if key[0] == "seconds"}
    assert times.keys() == {("mdm", 2), ("mdm", 8), ("ar", None)}  # of AR once: it has no steps
    for key, model_calls in ((("mdm", 2), 2 * (1 - 2.0**-12)), (("ar", None), 12)):
        assert times[key]["model_calls"] == pytest.approx(model_calls)
        assert 0 < times[key]["low"] <= times[key]["value"] <= times[key]["high"]
    account = json.loads((directories["mdm"] / "training.json").read_text())
    loss = found["loss_nats_per_token", "mdm", None]
    assert loss["value"] == pytest.approx(account["journal"][-1]["validation"])
    assert found["bits_per_character", "mdm", None]["value"] == pytest.approx(
        account["journal"][-1]["bits_per_character"]
    )
    own, wrote = (found["generative_perplexity", *who]["value"] for who in (("text", None), ("mdm", 8)))
    assert found["generative_perplexity_ratio", "mdm", 8]["value"] == pytest.approx(wrote / own)
    assert found["generative_perplexity_ratio", "text", None]["value"] == 1.0


def test_a_text_that_changed_is_another(made, path, tmp_path):
    _, results = made
    path.write_text(path.read_text() + "\n\nand more of it")
    with pytest.raises(UnmaskError, match="has changed"):
        loop.resume(places(results)["mdm"])


@pytest.mark.long
def test_the_page_judges_perplexity_relative_to_the_text(made, path):
    """An absolute perplexity has no fixed target; the page shows what both models wrote."""
    _, results = made
    shown = Shown(results, PAGE.view)
    with undrawn():
        about = Context({"command": ["unmask", "page"]}, shown)
        contents = PAGE.contents(None, about)
    text = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", text)
    assert shown.metric.name == "generative_perplexity"
    assert "relative generative perplexity of at most 1.05" in shown.verdict.sentence
    assert len(shown.view.cards(results, shown.state)) == 3
    best = min(p["value"] for p in results.of("generative_perplexity") if p["kind"] == "mdm")
    words = verdict(results, METRICS["generative_perplexity_absolute"], shown.state).sentence
    assert f"generative perplexity of at most {1.05 * best:.4g}" in words
    assert all(words.split()[0] in text for words in results.examples.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("tokenizer=bpe", "expected a whole number"),
        ("text=/nowhere", "No such file"),
        ("training_steps=0", "steps is 0"),
        ("hidden=7", "multiple of 2 x heads"),
        ("steps=[0]", "at least 1"),
    ],
)
def test_mistakes_leave_nothing(tmp_path, path, change, said):
    with pytest.raises(UnmaskError, match=said):
        measure(tmp_path, settings_of(path, change))
    assert not list(tmp_path.iterdir())
