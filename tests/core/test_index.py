"""The module of each built-in name is found without an import (core/registry.py), and finding one imports no other."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests import index
from unmask.core import registry
from unmask.core.errors import UnmaskError
from unmask.core.registry import PLACES, check_name, modules
from unmask.languages import LANGUAGES, PRESETS, load
from unmask.samplers import SAMPLERS


def test_it_is_true():
    """In a process of its own: names that other tests register do not count."""
    script = "import json; from tests import index; print(json.dumps(index.found()))"
    ran = subprocess.run([sys.executable, "-c", script], cwd=index.ROOT, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    found["language"] |= dict.fromkeys(("brackets", "modular-sum"), "unmask.languages.presets")  # kinds, named again
    assert found == {noun: modules(noun) for noun in PLACES}


def test_a_name_imports_its_module_alone():
    script = (
        "import sys; from unmask.samplers import SAMPLERS; before = {*sys.modules}; SAMPLERS.make('fixed-size');"
        "print([name for name in sys.modules.keys() - before if name.startswith('unmask.samplers.rules.')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['unmask.samplers.rules.fixed_orders']"


@pytest.mark.parametrize(
    "words", [["--language", "paper-9gram"], ["--language", "paper-2gram", "--sampler", "ancestrl(steps=3)"]]
)
def test_an_unknown_name_is_an_error_before_torch_is_imported(words):
    script = (
        "import sys; from unmask.cli.main import main; code = main(sys.argv[1:]); print(code, 'torch' in sys.modules)"
    )
    command = [sys.executable, "-c", script, "generate", *words, "--out", "a.npy"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "2 False"
    assert "did you mean" in ran.stderr


def test_known_names_pass_the_early_check(monkeypatch, tmp_path):
    """Every registered name, a name that a package offers, a path, and module:Name, which are looked up later."""
    for noun, names in {"sampler": SAMPLERS.names(), "language": [*PRESETS.names(), *LANGUAGES.names()]}.items():
        for name in names:
            check_name(noun, f"{name}(option=1)")
    for later in ("package.module:Name", "file.py:Name", "missing.json", "strided,ancestral", "two words"):
        check_name("sampler", later)

    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    check_name("language", "mine")
    with pytest.raises(UnmaskError, match="unknown sampler 'offered'"):
        check_name("sampler", "offered")
    offers = type("Offers", (), {"names": {"offered"}})
    monkeypatch.setattr(registry, "installed", lambda group: offers if group == "unmask.samplers" else None)
    check_name("sampler", "offered")


@pytest.mark.parametrize(("noun", "late"), [("sampler", SAMPLERS.find), ("language", load)])
def test_the_early_error_is_the_later_one(noun, late):
    errors = []
    for find in (late, lambda name: check_name(noun, name)):
        with pytest.raises(UnmaskError) as error:
            find("ancestrl")
        errors.append(str(error.value))
    assert errors[0] == errors[1]
