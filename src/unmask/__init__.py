"""The measuring instrument for masked diffusion language models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unmask.adding import ADDING

if TYPE_CHECKING:
    from unmask import auditing as auditing
    from unmask import conformance as conformance
    from unmask import denoisers as denoisers
    from unmask import languages as languages
    from unmask import metrics as metrics
    from unmask import samplers as samplers
    from unmask import schedules as schedules
    from unmask.auditing import Audit as Audit
    from unmask.auditing import audit as audit
    from unmask.denoisers import oracle as oracle
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.generation import Generation as Generation
    from unmask.generation import generate as generate
    from unmask.generation import prompts as prompts
    from unmask.metrics import Score as Score
    from unmask.metrics import score as score
    from unmask.sweeps import sweep as sweep

_LAZY = {  # imported on first use, so that `import unmask` costs nothing
    "Audit": "unmask.auditing",
    "audit": "unmask.auditing",
    "oracle": "unmask.denoisers",
    "UnmaskError": "unmask.errors",
    "Generation": "unmask.generation",
    "generate": "unmask.generation",
    "prompts": "unmask.generation",
    "Score": "unmask.metrics",
    "score": "unmask.metrics",
    "sweep": "unmask.sweeps",
}
_ROOMS = ("languages", "metrics", "samplers", "denoisers", "schedules", "auditing", "conformance")

ADDING |= {  # imported when a name is asked for that the registry of a lower room does not have itself
    "schedule": ("unmask.theory.schedules",),
    "metric": ("unmask.sweeps.standard", "unmask.sweeps.rounds", "unmask.sweeps.training", "unmask.board.curves"),
}

__all__ = [
    "Audit",
    "Generation",
    "Score",
    "UnmaskError",
    "audit",
    "auditing",
    "conformance",
    "denoisers",
    "generate",
    "languages",
    "metrics",
    "oracle",
    "prompts",
    "samplers",
    "schedules",
    "score",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"unmask.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")
