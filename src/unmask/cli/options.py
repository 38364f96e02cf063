"""The kinds of options that commands share; what an option means stands in the docstring of its command.

The text beside a type is how its value is written in help: "FILE", "N".
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

Name = Annotated[str, "LANGUAGE"]
Switch = bool  # off, unless it is there
Count = int | None
Number = float | None
Word = Annotated[str | None, "NAME"]
Named = Annotated[str | None, "LANGUAGE"]
File = Annotated[Path | None, "FILE"]
Directory = Annotated[Path | None, "DIR"]
Counts = tuple[int, ...]
Languages = Annotated[tuple[str, ...], "LANGUAGE"]
Samples = Annotated[Path, "SAMPLES"]
Model = Annotated[str | None, "MODEL"]  # a directory, or the name of an open model
Text = Annotated[str | None, "TEXT"]
Texts = Annotated[tuple[str, ...], "TEXT"]
