"""`list` and `show`: what the registries hold, plug-ins included, and nothing kept by hand."""

from __future__ import annotations

import inspect
import re
import sys

import pytest

from unmask.experiments.cell import JOBS, find
from unmask.samplers import SAMPLERS
from unmask.samplers.schedules import SCHEDULES, deltas, is_fitted

REGISTRIES = {"sampler": SAMPLERS, "schedule": SCHEDULES, "job": JOBS}
PLUG_IN = """
from dataclasses import dataclass
from unmask.samplers.rules.fixed_orders import Strided

@dataclass(frozen=True)
class Plugged(Strided):
    '''A sampler of somebody else.'''

    spread: float = 0.5
"""


@pytest.fixture
def plugged(tmp_path_factory, monkeypatch):
    place = tmp_path_factory.mktemp("site")
    (place / "plugged.py").write_text(PLUG_IN)
    metadata = place / "plugged-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[unmask.samplers]\nplugged = plugged:Plugged\ngone = nowhere:Gone\n")
    monkeypatch.setattr(sys, "path", [str(place), *sys.path])
    yield
    sys.modules.pop("plugged", None)


@pytest.mark.parametrize("noun", REGISTRIES)
def test_everything_is_listed(run, noun):
    registry = REGISTRIES[noun]
    ran = run("show", noun, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.result.keys() == set(registry.names())
    assert {name: entry["about"] for name, entry in ran.result.items()} == registry.about()
    table = run("show", noun).out
    assert re.findall(r"(?m)^(\S+) ", table) == sorted(registry.names())
    assert max(map(len, table.splitlines())) <= 80


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("noun", "name"), [(noun, name) for noun, r in REGISTRIES.items() for name in r.names()])
def test_everything_is_shown(run, noun, name):
    registry = REGISTRIES[noun]
    maker = registry.find(name)
    result = run("show", noun, name, "--json").result
    assert result["name"] == name
    assert result["code"] == f"{maker.__module__}:{maker.__qualname__}"
    signature = {n: p.default for n, p in inspect.signature(maker).parameters.items()}
    signature = find(name).fields if noun == "job" else signature
    assert [*result["options"], *result["needed"]].sort() == [*signature].sort()
    assert all(signature[n] is inspect.Parameter.empty for n in result["needed"])
    assert inspect.getdoc(maker) in result["documentation"]
    text = run("show", noun, name)
    assert (text.code, text.err) == (0, "")
    assert text.out.startswith(registry.entry(name).specification + "\n")
    assert f"{maker.__module__}:" in text.out


def test_what_is_said_of_a_sampler(run):
    result = run("show", "sampler", "blocks", "--json").result
    assert result["options"].items() >= {"block_length": 32, "inner": "fixed-size"}.items()
    assert (result["way"], result["reads"]) == ("run", ["canvas"])
    result = run("show", "sampler", "speculative", "--json").result
    assert (result["distribution"], result["reads"]) == ("causal", ["canvas", "causal"])
    result = run("show", "sampler", "ancestral", "--json").result
    assert (result["way"], result["distribution"], result["draws_steps"]) == ("order", "order", True)
    result = run("show", "sampler", "low-confidence", "--json").result
    assert (result["way"], result["pace"]) == ("choose", "counts")


def test_what_is_said_of_a_schedule(run):
    result = run("show", "schedule", "polynomial(power=3)", "--steps", 4, "--json").result
    assert result["delta"] == deltas("polynomial(power=3)", 4).tolist()
    assert result["options"] == {"power": 2.0}
    assert run("show", "schedule", "optimal", "--json").result["delta"] is None
    assert [name for name in SCHEDULES.names() if is_fitted(name)] == [
        name for name in SCHEDULES.names() if run("show", "schedule", name, "--json").result["fitted"]
    ]


def test_what_is_said_of_a_metric(run):
    for name in JOBS.names():
        assert run("show", "job", name, "--json").result["merges"] == find(name).merges


def test_plug_ins_are_listed_and_shown(run, plugged):
    listed = run("show", "sampler", "--json").result
    assert listed["plugged"]["about"] == "A sampler of somebody else."
    assert listed["plugged"]["options"] == {"spread": 0.5}
    assert listed["gone"]["about"].startswith("broken: there is no module 'nowhere'")
    assert run("show", "sampler", "plugged", "--json").result["code"] == "plugged:Plugged"
    ran = run("show", "sampler", "gone")
    assert (ran.code, ran.out) == (2, "")
    assert "gone is broken" in ran.err


def test_a_kind_of_language_is_shown(run):
    assert run("show", "language", "hmm", "--json").result["needed"] == ["initial", "transition", "emission"]
    assert run("show", "language", "interval").out.startswith("interval(width)\n")


@pytest.mark.parametrize(("noun", "name"), [("sampler", "ancestrl"), ("schedule", "lineer"), ("job", "sampls")])
def test_unknown_names(run, noun, name):
    ran = run("show", noun, name)
    assert ran.code == 2
    assert "did you mean" in ran.err
