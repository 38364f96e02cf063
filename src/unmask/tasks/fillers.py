"""The models that fill canvases, by name: ideal(tokens=..), ideal(of=DIR), or the directory of a network."""

from __future__ import annotations

from pathlib import Path

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.registry import parse
from unmask.networks.model.checkpoints import ACCOUNT
from unmask.tasks.exact import NAME, PATTERNS, Ideal
from unmask.tasks.filling import Filler
from unmask.tasks.letters import Letters

OPTIONS = {"tokens": f"{', '.join(PATTERNS)}, or an open model", "of": "the directory of a network"}


def is_ideal(model: str) -> bool:
    return model.partition("(")[0].strip() == NAME


def filler(model: str, device: str = "auto") -> Filler | None:
    """The model; None for an open model, which continues texts."""
    if not is_ideal(model):
        return Letters(model, device=device) if (Path(model) / ACCOUNT).exists() else None
    _, options = parse("model", model)
    for name, value in options.items():
        if name not in OPTIONS or len(options) > 1:
            raise UnmaskError(f"model {model!r} has wrong options; expected {NAME}(tokens=..) or {NAME}(of=DIR)")
        if not isinstance(value, str):
            arguments.refuse(name, value, OPTIONS[name])
    return Letters(options["of"], exact=True) if "of" in options else Ideal(**options)
