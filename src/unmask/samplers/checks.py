"""A sampler within a sampler: the option `inner`."""

from __future__ import annotations

from typing import Any

from unmask.core.errors import UnmaskError, shown
from unmask.samplers.contract import SAMPLERS, Sampler


def inner(holder: Any) -> None:
    """The field `inner` of a frozen dataclass: a sampler, made here where it is a name."""
    if isinstance(holder.inner, str):
        object.__setattr__(holder, "inner", SAMPLERS.make(holder.inner))
    elif not isinstance(holder.inner, Sampler):
        raise UnmaskError(f"inner is {shown(holder.inner)}; expected a sampler, or the name of one")


def made(sampler: str | Sampler) -> Sampler:
    """The field that `inner` has made sure of, as what it is."""
    assert isinstance(sampler, Sampler)
    return sampler
