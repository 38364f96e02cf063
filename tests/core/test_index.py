"""The module of each built-in name is found without an import (core/registry.py), and finding one imports no other."""

from __future__ import annotations

import json
import subprocess
import sys

from tests import index
from unmask.core.registry import PLACES, modules


def test_it_is_true():
    """In a process of its own: names that other tests register do not count."""
    script = "import json; from tests import index; print(json.dumps(index.found()))"
    ran = subprocess.run([sys.executable, "-c", script], cwd=index.ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == {noun: modules(noun) for noun in PLACES}


def test_a_name_imports_its_module_alone():
    script = (
        "import sys; from unmask.samplers import SAMPLERS; before = {*sys.modules}; SAMPLERS.make('fixed-size');"
        "print([name for name in sys.modules.keys() - before if name.startswith('unmask.samplers.rules.')])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['unmask.samplers.rules.fixed_orders']"
