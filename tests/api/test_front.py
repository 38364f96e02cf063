"""The front door: everything that there is can be seen, and reached by its name."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

import unmask
from tests.models.open.speaking import spoken
from unmask.models.trained import Network, preset
from unmask.models.trained.checkpoints import save
from unmask.models.trained.trunk import Trunk

ROOMS = {
    "denoisers",
    "diagnosis",
    "planning",
    "experiments",
    "languages",
    "metrics",
    "models",
    "report",
    "samplers",
    "tasks",
    "theory",
}
WANTED = ROOMS | {
    "audit",
    "board",
    "check",
    "gap",
    "generate",
    "load",
    "oracle",
    "plan",
    "prompts",
    "score",
    "sweep",
    "train",
}


def test_dir_shows_what_there_is_and_nothing_else():
    assert set(dir(unmask)) >= WANTED
    assert dir(unmask) == sorted(unmask.__all__)
    for name in dir(unmask):
        assert getattr(unmask, name) is not None


def test_completion_imports_nothing_slow():
    program = "import sys, unmask; print(dir(unmask)); print('torch' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1] == "False False"


@pytest.mark.parametrize("room", ["theory", "diagnosis", "planning", "experiments"])
def test_rooms_show_what_their_users_need(room):
    package = getattr(unmask, room)
    assert dir(package)
    for name in dir(package):
        assert getattr(package, name) is not None


def test_an_unknown_name_is_told_with_the_nearest():
    with pytest.raises(AttributeError, match=r"module 'unmask' has no attribute 'thory': .*did you mean theory"):
        _ = unmask.thory  # type: ignore[attr-defined]
    assert not hasattr(unmask, "__path_of_nothing__")


@pytest.mark.parametrize(
    ("package", "name", "home"),
    [
        (unmask, "assert_law", "unmask.testing.assert_law"),
        (unmask, "Sampler", "unmask.samplers.Sampler"),
        (unmask.samplers, "gap", "unmask.gap"),
    ],
)
def test_a_name_of_another_package_is_told_with_its_place(package, name, home):
    with pytest.raises(AttributeError, match=f"; it is {home}$"):
        getattr(package, name)


def test_guesses_of_python_work_or_lead_on():
    assert re.fullmatch(r"\d+\.\d+\.\d+", unmask.__version__)
    assert "strided" in list(unmask.samplers.SAMPLERS)
    assert len(unmask.samplers.SAMPLERS) == len(unmask.samplers.SAMPLERS.names())
    made = unmask.generate("interval-5", rows=3, length=5, steps=2, seed=1, stop=4)
    assert (len(made), made.shape) == (3, (3, 5))
    table = made.to_pandas()
    assert table.length.tolist() == [len(tokens) for tokens in table.tokens] == made.lengths.tolist()
    assert table.tokens[0] == made.tokens[0, : made.lengths[0]].tolist()
    assert table.impossible.tolist() == unmask.languages.load("interval-5").impossible(made.tokens).tolist()
    score = unmask.score(made, "interval-5")
    with pytest.raises(AttributeError, match=r"whose TER `unmask\.board` measures"):
        _ = score.ter
    with pytest.raises(AttributeError, match="did you mean generative_perplexity"):
        _ = score.perplexity
    assert copy.deepcopy(score) == score


@pytest.mark.long
def test_load_takes_a_language_or_a_network(tmp_path):
    assert unmask.load("interval-5").to_dict() == unmask.languages.Interval(5).to_dict()
    assert unmask.load("paper-2gram(seed=3)").source() == unmask.languages.load("paper-2gram(seed=3)").source()
    (tmp_path / "mine.json").write_text(json.dumps({"kind": "interval", "width": 3}))
    assert unmask.load(tmp_path / "mine.json").vocabulary == 4
    save(Trunk(preset("quick", "mdm", 8)), tmp_path / "mdm")
    network = unmask.load(tmp_path / "mdm", device="cpu")
    assert isinstance(network, Network)
    assert network.vocabulary == 8
    (tmp_path / "open").mkdir()
    spoken(tmp_path / "open")
    model = unmask.load(tmp_path / "open", card=str(tmp_path / "open" / "card.json"))
    assert isinstance(model, unmask.models.open.OpenModel)
    assert model.name == "small"
    (tmp_path / "empty").mkdir()
    with pytest.raises(unmask.UnmaskError, match=r"contains no network; expected config\.json"):
        unmask.load(tmp_path / "empty")
    with pytest.raises(unmask.UnmaskError, match="did you mean interval-5"):
        unmask.load("intervl-5")


def test_reprs_are_a_line(tmp_path):
    made = unmask.generate(unmask.load("interval-5"), rows=3, length=5, steps=2)
    recipe = {"name": "r", "jobs": ["theory"], "fixed": {"language": "interval-5", "length": 8}}
    swept = unmask.sweep(recipe, store=tmp_path / "s", engine="here")
    assert repr(swept) == f"<Sweep of 1 cells in {tmp_path / 's'}>"
    registries = (unmask.samplers.SAMPLERS, unmask.samplers.schedules.SCHEDULES)
    for thing in (unmask.load("paper-2gram"), made, swept, *registries):
        assert "\n" not in repr(thing)
        assert " at 0x" not in repr(thing)


@pytest.mark.long
def test_a_spec_serves_wherever_a_language_does(tmp_path):
    spec = "paper-2gram(seed=3)"
    language = unmask.load(spec)
    made = unmask.generate(spec, rows=20, length=16, steps=4)
    assert torch.equal(made.tokens, unmask.generate(language, rows=20, length=16, steps=4).tokens)
    np.save(tmp_path / "rows.npy", made.tokens.numpy())
    assert unmask.score(tmp_path / "rows.npy", spec).ser == unmask.score(made, language).ser
    given = {"length": 16, "metric": "ser", "target": 0.5}
    assert unmask.plan(spec, **given).to_dict() == unmask.plan(language, **given).to_dict()
    assert torch.equal(unmask.prompts(spec, 5, 16, 4), unmask.prompts(language, 5, 16, 4))
    found = unmask.audit(unmask.generate(spec, rows=200, length=16, steps=4).tokens, spec, steps=4)
    assert found.verdict == "no difference found"
    x = torch.full((1, 4), 8)
    assert torch.equal(unmask.oracle(spec)(x).logits, unmask.oracle(language)(x).logits)


def test_results_show_their_advice_in_a_notebook():
    language = unmask.languages.Interval(3)
    made = unmask.generate(language, steps=2, length=6, rows=20)
    assert unmask.score(made, language)._repr_html_().count("<tr>") <= 6
    assert "<td" in (shown := unmask.plan(language, 6)._repr_html_())
    assert shown.index("AR") < shown.index("method")
    assert unmask.gap(language, steps=2, length=6, rows=20, reference=0)._repr_html_().count("<tr>") <= 6
    player = unmask.play(language, length=6, steps=2, rows=20)
    assert "<iframe" in player._repr_html_()
    assert "impossible" in repr(player)


@pytest.mark.parametrize(
    ("first", "given"),
    [
        ((), {"samplers": ("ancestral",), "languages": ("interval-5",), "lengths": (10,), "steps": (2,)}),
        (("interval-5",), {"samplers": ["ancestral"], "lengths": 10, "steps": 2}),
        ((["interval-5"],), {"samplers": "ancestral", "lengths": [10], "steps": [2]}),
    ],
)
def test_a_board_takes_its_settings(first, given):
    made = unmask.board(*first, **given, rows=20, seeds=1)
    assert {record["sampler"] for record in made.of("ser")} == {"ancestral"}
    assert made.settings.languages == ("interval-5",)


@pytest.mark.parametrize("name", ["languages", "samplers", "lengths", "steps"])
@pytest.mark.parametrize("nothing", [[], (), ""])
def test_a_board_of_nothing_is_not_the_usual_one(name, nothing):
    """An empty list is mostly one that a program has filtered; the usual board would run for an hour."""
    small = {"languages": "interval-5", "samplers": "nobody", "lengths": 10, "steps": 2}
    with pytest.raises(unmask.UnmaskError, match=rf"^{name} is (\[\]|\(\)|''); expected at least one\. Leave it out"):
        unmask.board(**small | {name: nothing}, rows=2, seeds=1)


def test_a_board_names_the_nearest_setting():
    with pytest.raises(unmask.UnmaskError, match="unknown argument of board: 'sampler'; did you mean samplers"):
        unmask.board("interval-5", sampler="ancestral")
