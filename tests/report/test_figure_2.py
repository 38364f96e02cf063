"""Figure 2 as a sweep: records are what the networks write, what is kept is not made again, the page says it all."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.told import about
from tests.sparing import in_this_process, undrawn
from unmask import UnmaskError, generate
from unmask.cli.main import main
from unmask.core.estimates import mean
from unmask.experiments.jobs import read_recipe
from unmask.experiments.jobs.cells import cells_of
from unmask.experiments.jobs.status import status
from unmask.metrics.texts import Judges
from unmask.networks import Network, load
from unmask.networks.model.checkpoints import read_tokenizer
from unmask.networks.training import loop
from unmask.report import figure_2_page
from unmask.report.figure_2 import Settings, quick, recipe
from unmask.report.publishing import STORE, publish
from unmask.text import Text, read

SIZE = {"tokenizer": "bpe:270", "length": 12, "layers": 1, "hidden": 24, "training_steps": 4}
COMMAND = "--tokenizer bpe:270 --length 12 --layers 1 --hidden 24 --training-steps 2 --rows 12 --batch 2 --steps 2 8"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    made = tmp_path_factory.mktemp("text") / "words.txt"
    made.write_text("\n\n".join(f"the cat number {number} sat on the mat, and the rat ran" for number in range(600)))
    return made


def settings_of(path, **changes):
    return quick(**({"text": str(path), "steps": (2, 8), "rows": 24, "batch": 2} | SIZE | changes))


def measure(out, settings):
    """What the networks write, without a page."""
    return publish(replace(figure_2_page.page("cpu"), contents=lambda *_: {}), settings, out).measured


@pytest.fixture(scope="module")
def made(path, tmp_path_factory):
    out = tmp_path_factory.mktemp("figure")
    return out, measure(out, settings_of(path))


def places(out, made):
    return {r["who"]: out / r["network"] for r in made.records if r["measure"] == "bits_per_character"}


def test_the_records_are_what_the_networks_write(made, path):
    out, measured = made
    found = {(r["measure"], r["who"], r["steps"]): r for r in measured.records}
    directories = places(out, measured)
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
        example = next(e["text"] for e in measured.examples if (e["who"], e["steps"]) == (who, steps))
        assert example == text.tokenizer.decode(drawn.tokens[0].tolist())
    assert found["generative_perplexity", "mdm", 2]["evaluations"] <= 2
    assert found["generative_perplexity", "ar", None]["evaluations"] == 12
    assert found["unknown_words", "text", None]["value"] == 0
    times = {key[1:]: record for key, record in found.items() if key[0] == "seconds"}
    assert times.keys() == {("mdm", 2), ("mdm", 8), ("ar", None)}  # of AR once: it has no rounds
    for key, evaluations in ((("mdm", 2), 2 * (1 - 2.0**-12)), (("ar", None), 12)):
        assert times[key]["evaluations"] == pytest.approx(evaluations)
        assert 0 < times[key]["low"] <= times[key]["value"] <= times[key]["high"]
    account = json.loads((directories["mdm"] / "training.json").read_text())
    loss = found["loss_nats_per_token", "mdm", None]
    assert loss["value"] == pytest.approx(account["journal"][-1]["validation"])
    assert found["bits_per_character", "mdm", None]["value"] == pytest.approx(
        account["journal"][-1]["bits_per_character"]
    )
    assert loss["parameters"] == found["loss_nats_per_token", "ar", None]["parameters"] + 12 * 24


def test_what_is_kept_is_not_made_again(made, path, monkeypatch):
    out, measured = made
    monkeypatch.setattr("unmask.experiments.jobs.pools.attempt", lambda *a, **k: pytest.fail("made again"))
    assert measure(out, settings_of(path)) == measured


def test_other_rows_keep_the_networks(made, path, monkeypatch):
    out, measured = made
    monkeypatch.setattr(loop.Training, "_learn", lambda *a: pytest.fail("trained again"))
    more = measure(out, settings_of(path, rows=30))
    assert {r["n"] for r in more.records if r["measure"] == "token_entropy"} == {30}
    assert more.records != measured.records
    assert places(out, more) == places(out, measured)


def test_a_text_that_changed_is_another(made, path, tmp_path):
    out, measured = made
    path.write_text(path.read_text() + "\n\nand more of it")
    with pytest.raises(UnmaskError, match="has changed"):
        loop.resume(places(out, measured)["mdm"])


def test_the_page(made, path):
    out, measured = made
    settings = settings_of(path)
    contents = figure_2_page.contents(measured, settings, about(out))
    page = contents["index.html"].decode()
    assert not re.search(r"(src|href)=.https?:", page)
    assert json.loads(contents["data.json"])["records"] == json.loads(json.dumps(measured.records))
    written, learned = figure_2_page.tables(measured.records, settings)
    assert [heading for heading, _ in written.rows] == ["2", "8", "AR", "the text"]
    assert all(len(cells) == len(written.head) - 1 for _, cells in written.rows)
    assert [heading for heading, _ in learned.rows] == ["MDM", "AR"]
    assert len(figure_2_page.sentences(measured.records, settings)) == 4
    assert all(f'<a href="{place}/README.md">' in page for place in figure_2_page.networks(measured.records).values())
    assert "words.txt, bpe:270" in page
    for said in ("64 tokens, 128 for each N", "read 1.4 million", "128 tokens, 200 for each N", "read 6.6 million"):
        assert said in " ".join(page.split()), said
    times = {(r["who"], r["steps"]): r["value"] for r in measured.records if r["measure"] == "seconds"}
    fast = {n: times["ar", None] / times["mdm", n] for n in (2, 8)}
    assert figure_2_page.speed(measured.records) == fast
    assert [cells[-1][0] for _, cells in written.rows] == [f"{fast[2]:.2g}x", f"{fast[8]:.2g}x", "-", "-"]
    assert [cells[-2][0] == "-" for _, cells in written.rows] == [False, False, False, True]


def test_the_recipe_is_that_of_the_command():
    path = Path(__file__).parents[2] / "recipes" / "figure-2-quick.yaml"
    ours, theirs = ({cell.key for cell in cells_of(each)} for each in (recipe(quick()), read_recipe(path)))
    assert ours == theirs


def test_the_command(path, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["figure-2", "--quick", "--text", str(path), *COMMAND.split(), "--device", "cpu", "--out", str(out)]
    with in_this_process() as asked:
        assert main([*command, "--json"]) == 0
    assert asked
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert Path(said["page"]) == (out / "index.html").resolve()
    assert load(said["networks"]["MDM"], "cpu").shape.kind == "mdm"
    assert (status(out / STORE)["todo"], status(out / STORE)["failed"]) == (0, 0)
    with undrawn():
        assert main(command) == 0
    assert said["networks"]["AR"] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokenizer": "bpe"}, "expected a whole number"),
        ({"text": "/nowhere"}, "No such file"),
        ({"training_steps": 0}, "steps is 0"),
        ({"hidden": 7}, "multiple of 2 heads"),
    ],
)
def test_mistakes_leave_nothing(tmp_path, path, changes, said):
    with pytest.raises(UnmaskError, match=said):
        measure(tmp_path, settings_of(path, **changes))
    assert not list(tmp_path.iterdir())


def test_bad_settings():
    with pytest.raises(UnmaskError, match="numbers of sampling steps"):
        Settings(steps=())
    with pytest.raises(UnmaskError, match="at least 1"):
        quick(steps=(0,))
    with pytest.raises(UnmaskError, match="rows is 0"):
        quick(rows=0)
