"""unmask eval parallel run from the command line, with small random models of three families."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from tests.cli.test_families import FAMILIES
from tests.needs import needs
from tests.tasks.evaluation.models import kept

RUN = ("eval", "parallel", "run", "--model", "m", "--card", "m.json", "--engine", "here", "--quick", "--items", 2)
TASK = "lists(operation=shuffle, low=3, high=3, shots=0)"


@pytest.mark.rotates(3)
@needs("open")
@pytest.mark.parametrize("family", ["llada", "dream", "sdar"])
def test_a_random_model_stands_beside_its_ceilings(run, family):
    place = Path("m")
    place.mkdir()
    card = FAMILIES[family](place)
    config = json.loads((place / "config.json").read_text())
    config |= {name: 512 for name in ("max_sequence_length", "max_position_embeddings") if name in config}
    (place / "config.json").write_text(json.dumps(config))
    kept(place, msgspec.structs.replace(card, template=None, context=512))
    options = ("--tasks", TASK, "--samplers", "fixed-size(steps=[2, 64])", "--json")
    ran = run(*RUN, *options, "--out", "page")
    assert ran.code == 0, ran.err
    (suite,) = ran.result["suites"]
    assert suite["model"] == card.name
    numbers = {one["setting"]: one["tasks"]["shuffle(low=3, high=3, shots=0)"] for one in suite["settings"]}
    assert {cell["accuracy"]["value"] for cell in numbers.values()} == {0.0}
    assert numbers["k1"]["ceiling"] == 100.0
    assert Path(ran.result["page"]).is_file()
