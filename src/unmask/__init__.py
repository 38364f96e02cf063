"""The measuring instrument for masked diffusion language models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import denoisers as denoisers
    from unmask import languages as languages
    from unmask import metrics as metrics
    from unmask import samplers as samplers
    from unmask import schedules as schedules
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.generation import Generation as Generation
    from unmask.generation import generate as generate
    from unmask.metrics import Score as Score
    from unmask.metrics import score as score

_LAZY = {  # imported on first use, so that `import unmask` costs nothing
    "UnmaskError": "unmask.errors",
    "Generation": "unmask.generation",
    "generate": "unmask.generation",
    "Score": "unmask.metrics",
    "score": "unmask.metrics",
}
_ROOMS = ("languages", "metrics", "samplers", "denoisers", "schedules")

__all__ = [
    "Generation",
    "Score",
    "UnmaskError",
    "denoisers",
    "generate",
    "languages",
    "metrics",
    "samplers",
    "schedules",
    "score",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"unmask.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")
