"""Samplers of others: a package that pip installs, a module that is named, and packages that are broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.needs import needs
from unmask import UnmaskError, generate
from unmask.core.registry import imports
from unmask.diagnosis import conformance
from unmask.languages import load
from unmask.samplers import SAMPLERS
from unmask.samplers.rules.blocks import Blocks
from unmask.samplers.rules.fixed_orders import Strided

EXAMPLE = Path(__file__).parent / "unmask_example_sampler"
LANGUAGE = load("interval-5")


@pytest.fixture
def door(tmp_path, monkeypatch):
    """A directory of installed packages; what is imported from it is forgotten afterwards."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def offer(door, package, **names):
    """What the installation of a package leaves: its entry points."""
    metadata = door / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name.replace('_', '-')} = {value}\n" for name, value in names.items()]
    (metadata / "entry_points.txt").write_text("".join(["[unmask.samplers]\n", *lines]))


@pytest.mark.long
@needs("setuptools")
def test_an_installed_package_is_found_by_name(door):
    """pip builds and installs it, offline; then its sampler is one of many, in code and in the kit."""
    source = shutil.copytree(EXAMPLE, door / "source")
    options = ["--quiet", "--no-build-isolation", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, "--target", door, source], check=True)
    assert "unmask_example_sampler" not in sys.modules
    made = generate(LANGUAGE, sampler="ends-first", steps=4, length=8, rows=3)
    assert made.order.tolist() == [[1, 2, 3, 4, 4, 3, 2, 1]] * 3
    left = generate(LANGUAGE, sampler="blocks(block_length=4, inner=ends-first(ends=left))", steps=8, length=8, rows=3)
    assert left.order.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]] * 3
    assert SAMPLERS.about()["ends-first"] == "The outermost hidden positions first, `ends` or both at once."
    with pytest.raises(UnmaskError, match="unknown sampler 'endsfirst'; did you mean ends-first"):
        generate(LANGUAGE, sampler="endsfirst")
    with pytest.raises(UnmaskError, match="unknown option of sampler 'ends-first': 'end'; did you mean ends"):
        generate(LANGUAGE, sampler="ends-first(end=left)")
    assert conformance.check("ends-first")["distribution"].outcome == "passed"


def test_nothing_is_imported_before_it_is_named(door):
    (door / "loud.py").write_text("raise RuntimeError('imported')\n")
    offer(door, "loud-package", loud="loud:Loud")
    assert SAMPLERS.make("strided") == Strided()
    with pytest.raises(UnmaskError, match="unknown sampler 'lout'; did you mean loud"):
        SAMPLERS.make("lout")
    assert "loud" not in sys.modules
    with pytest.raises(
        UnmaskError, match="sampler 'loud' cannot be loaded: importing 'loud' fails with RuntimeError: imp"
    ):
        SAMPLERS.make("loud")


def test_a_broken_package_is_told_and_breaks_no_other(door):
    (door / "fine.py").write_text(
        "from unmask.samplers.rules.fixed_orders import Strided\nclass Fine(Strided):\n    '''Works.'''\n"
    )
    (door / "syntax.py").write_text("def :\n")
    offer(door, "many", fine="fine:Fine", gone="fine:Gone", none="nowhere.at:All", syntax="syntax:Any", text="no value")
    about = SAMPLERS.about()
    assert about["fine"] == "Works."
    assert about["strided"] == SAMPLERS.about()["strided"]
    assert "unknown name in module 'fine': 'Gone'; known: Fine" in about["gone"]
    assert "broken: there is no module 'nowhere' for sampler 'none'; install its package" in about["none"]
    assert "SyntaxError" in about["syntax"]
    assert about["text"].startswith("broken: ")


def test_names_of_ours_come_first_and_two_offers_must_be_told_apart(door):
    text = "from unmask.samplers.rules.fixed_orders import Strided\nclass Fine(Strided):\n    pass\n"
    (door / "fine.py").write_text(text)
    offer(door, "one", strided="fine:Fine", both="fine:Fine", same="fine:Fine")
    offer(door, "two", both="fine:Other", same="fine:Fine")
    assert type(SAMPLERS.make("strided")) is Strided
    assert type(SAMPLERS.make("same")).__name__ == "Fine"
    with pytest.raises(UnmaskError, match="2 installed packages offer a sampler 'both'; expected fine:Fine or fine"):
        SAMPLERS.make("both")


OWN = """
from dataclasses import dataclass
from unmask.samplers.rules.fixed_orders import Ancestral
from unmask.samplers import Sampler

@dataclass(frozen=True)
class Mine(Ancestral):
    share: float = 0.5

class Group:
    class Inner(Ancestral):
        pass

def make(share: float = 0.5) -> Mine:
    return Mine(share)

def needs(share) -> Sampler:
    return Mine(share)

def wrong() -> Sampler:
    return 7

def undeclared():
    raise RuntimeError("was called")

def other() -> int:
    raise RuntimeError("was called")

class None_(Sampler):
    pass

class Two(Ancestral):
    def run(self, session):
        pass

class Stranger:
    def __init__(self):
        raise RuntimeError("was made")

number = 3
"""


@pytest.fixture
def own(door):
    (door / "my").mkdir()
    (door / "my" / "__init__.py").touch()
    (door / "my" / "samplers.py").write_text(OWN)
    (door / "my" / "lacking.py").write_text("import something_that_is_not_installed\n")
    (door / "my" / "leaving.py").write_text("raise SystemExit(3)\n")


def test_a_module_is_named(own):
    assert SAMPLERS.make("my.samplers:Mine").share == 0.5
    assert SAMPLERS.make("my.samplers:Mine(share=0.25)").share == 0.25
    assert SAMPLERS.make("my.samplers:make(share=0.75)").share == 0.75
    assert type(SAMPLERS.make("my.samplers:Group.Inner")).__name__ == "Inner"
    inner = SAMPLERS.make("blocks(block_length=3, inner='my.samplers:Mine(share=0.25)')")
    assert isinstance(inner, Blocks)
    assert inner.inner.share == 0.25
    options = {"steps": 3, "length": 6, "rows": 4}
    made = generate(LANGUAGE, sampler="my.samplers:Mine", **options)
    assert torch.equal(made.tokens, generate(LANGUAGE, **options).tokens)
    assert made.configuration["sampler"] == "my.samplers:Mine"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("my.nowhere:Mine", "there is no module 'my.nowhere' for sampler 'my.nowhere:Mine'; install its package, or"),
        ("my.leaving:Mine", "importing 'my.leaving' fails with SystemExit: 3"),
        ("my:Mine", "sampler 'my:Mine' does not exist: module 'my' has no 'Mine'"),
        ("my.samplers:Two", "'my.samplers:Two' implements order and run; expected exactly one of order"),
        (
            "my.samplers:undeclared",
            "is not declared to return a sampler; write def undeclared(...) ->",
        ),
        ("blocks(inner='os:system(command=3)')", "sampler 'os:system' is a function that is not declared to return a"),
        ("my.samplers:Mine(part=1)", "unknown option of sampler 'my.samplers:Mine': 'part'"),
    ],
)
def test_what_is_wrong_with_a_named_module_is_said(own, name, message):
    with pytest.raises(UnmaskError) as caught:
        SAMPLERS.make(name)
    assert message in str(caught.value)


def test_a_file_is_named(own, monkeypatch, tmp_path):
    """Its path is the name of its module, so that what it defines makes itself again, and a recipe allows it by it."""
    monkeypatch.chdir(tmp_path)
    sampler = SAMPLERS.make("my/samplers.py:Mine(share=0.25)")
    assert sampler.spec == "my/samplers.py:Mine(share=0.25)"
    assert SAMPLERS.make(sampler.spec) == sampler
    assert SAMPLERS.make("blocks(inner='my/samplers.py:Mine(share=0.25)')").inner == sampler
    for name, message in (
        ("my/sampler.py:Mine", "there is no file 'my/sampler.py' for sampler 'my/sampler.py:Mine'; expected the path"),
        ("my/samplers.py:Mien", "unknown name in module 'my/samplers.py': 'Mien'; known: Group, Mine"),
        ("my/leaving.py:Mine", "importing 'my/leaving.py' fails with SystemExit: 3"),
    ):
        with pytest.raises(UnmaskError, match=re.escape(message)):
            SAMPLERS.make(name)
    assert "my/leaving.py" not in sys.modules
    with imports(["my.samplers"]), pytest.raises(UnmaskError, match="trust it, pass --allow-imports my/samplers"):
        SAMPLERS.make("my/samplers.py:Mine")


def test_schedules_have_no_door():
    from unmask.samplers.schedules import SCHEDULES

    with pytest.raises(UnmaskError, match=r"unknown schedule 'my\.samplers:make'"):
        SCHEDULES.make("my.samplers:make", 3)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (Strided, "the sampler is the class Strided; expected an instance. Pass Strided()"),
        (7, "sampler int is of class int"),
        (None, "sampler NoneType is of class NoneType"),
    ],
)
def test_what_is_no_sampler(sampler, message):
    with pytest.raises(UnmaskError) as caught:
        generate(LANGUAGE, sampler=sampler)
    assert message in str(caught.value)


def test_a_module_in_the_working_directory(door, tmp_path_factory, monkeypatch):
    """The console script does not have it on its path."""
    here = tmp_path_factory.mktemp("work")
    (here / "lying_here.py").write_text(
        "from unmask.samplers.rules.fixed_orders import Strided\nclass Here(Strided):\n    pass\n"
    )
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert type(SAMPLERS.make("lying_here:Here")).__name__ == "Here"
    del sys.modules["lying_here"]
