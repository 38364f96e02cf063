"""The kinds of options that commands share; what an option means stands in the docstring of its command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

Name = Annotated[str, tyro.conf.arg(metavar="LANGUAGE")]
Switch = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]  # off, unless it is there


def _optional(metavar: str, kind: type) -> Any:
    """Something that need not be given."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=lambda words: kind(words[0]),
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


Count = Annotated[int | None, _optional("N", int), tyro.conf.arg(help_behavior_hint="")]
Number = Annotated[float | None, _optional("X", float), tyro.conf.arg(help_behavior_hint="")]
Named = Annotated[str | None, _optional("LANGUAGE", str), tyro.conf.arg(help_behavior_hint="")]
File = Annotated[Path | None, _optional("FILE", Path), tyro.conf.arg(help_behavior_hint="")]
Directory = Annotated[Path | None, _optional("DIR", Path), tyro.conf.arg(help_behavior_hint="")]
Counts = Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...", help_behavior_hint="")]
