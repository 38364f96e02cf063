"""The kinds of options that commands share; what an option means stands in the docstring of its command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.constructors import PrimitiveConstructorSpec

Name = Annotated[str, tyro.conf.arg(metavar="LANGUAGE")]
Switch = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]  # off, unless it is there
Count = Annotated[
    int | None,  # None, where the docstring says what happens without it, cannot be typed
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="N",
        instance_from_str=lambda words: int(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    ),
    tyro.conf.arg(help_behavior_hint=""),
]
Number = Annotated[
    float | None,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="X",
        instance_from_str=lambda words: float(words[0]),
        is_instance=lambda value: value is None or isinstance(value, float),
        str_from_instance=lambda value: [str(value)],
    ),
    tyro.conf.arg(help_behavior_hint=""),
]
File = Annotated[
    Path | None,
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="FILE",
        instance_from_str=lambda words: Path(words[0]),
        is_instance=lambda value: value is None or isinstance(value, Path),
        str_from_instance=lambda value: [str(value)],
    ),
    tyro.conf.arg(help_behavior_hint=""),
]
Counts = Annotated[tuple[int, ...], tyro.conf.arg(metavar="N ...", help_behavior_hint="")]
