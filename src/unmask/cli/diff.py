"""unmask diff."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from unmask.cli.options import Answer, Count


def command(a: Annotated[Path, "A"], b: Annotated[Path, "B"], /, *, row: Count = None) -> Answer:
    """Find where two traces begin to differ, and whether rounding explains it.

    Examples:
        unmask diff a.json b.json
        unmask diff a.json b.json --row 3 --json

    A trace is a file of `unmask play`, with x.json as its output, or of your own
    loop (docs/diff.md).

    Exit codes: 0 equal; 1 different; 2 a wrong argument or file.

    Args:
        a: First trace.
        b: Second trace.
        row: Number of the only row to compare, from 0; of a trace with one row, that one.
    """
    from unmask.core import arguments
    from unmask.diagnosis.difference import difference
    from unmask.samplers.trace import read

    traces = [read(a), read(b)]
    if row is not None:
        many = [len(trace.rows) > 1 for trace in traces]
        traces = [
            trace.of([arguments.whole("row", row, 0, len(trace.rows) - 1)]) if several else trace
            for trace, several in zip(traces, many, strict=True)
        ]
    result = difference(*traces)
    return Answer(result.to_dict(), result.lines(), status=int(not result.equal))
