"""The measuring instrument for masked diffusion language models."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unmask import languages as languages
    from unmask.errors import UnmaskError as UnmaskError
    from unmask.generation import Generation as Generation
    from unmask.generation import generate as generate

_LAZY = {  # imported on first use, so that `import unmask` costs nothing
    "UnmaskError": "unmask.errors",
    "Generation": "unmask.generation",
    "generate": "unmask.generation",
}
_ROOMS = ("languages",)

__all__ = ["Generation", "UnmaskError", "generate", "languages"]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"unmask.{name}")
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'unmask' has no attribute {name!r}")
