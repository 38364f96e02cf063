"""unmask diff."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Model, Named, refuse
from unmask.core.run import Amount, Loading, Sampling, changed

if TYPE_CHECKING:
    from unmask.samplers.trace import Trace


def command(
    a: Annotated[Path, "A"],
    b: Annotated[Path | None, "B"] = None,
    /,
    *,
    language: Named = None,
    model: Model = None,
    causal_model: Model = None,
    sampling: Sampling = Sampling(),
    length: Count = None,
    seed: int = 0,
    row: Count = None,
    ends: Annotated[tuple[int, ...], "TOKEN"] = (),
    loading: Loading = Loading(),
) -> Answer:
    """Find where two traces begin to differ, and whether rounding explains it.

    Examples:
        unmask diff a.json b.json
        unmask diff a.json b.json --row 3 --json
        unmask diff a.json --model llada-8b-instruct --steps 64 \\
            --sampler "llada(block_length=32)"
        unmask diff a.json --language paper-2gram --sampler entropy --seed 1

    A trace is a file of `unmask play`, with x.json as its output, or of your own
    loop (docs/player.md). Without B, our sampler generates the second trace from
    the given tokens of A, on the same weights (docs/diff.md).

    Exit codes: 0 equal; 1 different; 2 a wrong argument or file.

    Args:
        a: First trace.
        b: Second trace.
        language: Language of A: a preset (see `unmask show language`), or a file.
        model: Model of A: a directory of `unmask train`, or an open model (`unmask show model`).
        causal_model: AR model for samplers that need one.
        length: Number of positions of the canvas, if the rows of A were cut at their ends.
        seed: Random seed of our sampler.
        row: Number of the only row to compare, from 0; of a trace with one row, that one.
        ends: End-of-text tokens at which our sampler stops.
    """
    from unmask.core.errors import UnmaskError, cut
    from unmask.diagnosis.difference import difference
    from unmask.models.loading import begin
    from unmask.samplers.trace import read

    ours = read(a)
    of_model = {"model": model, "causal_model": causal_model} | changed(loading)
    if b is not None:
        made_here = {"length": length, "language": language, "ends": ends or None} | of_model | changed(sampling)
        refuse(made_here, f"does not apply to two traces. Leave it out, or leave out {cut(str(b))}")
        theirs = read(b)
    elif language is None and model is None:
        refuse(of_model, "needs --model. Add it")
        raise UnmaskError("no second trace. Add its file, or --model or --language to generate one")
    else:
        source = begin(language, model, Amount(), loading=loading, causal_model=causal_model).source
        theirs = _generated(ours, source, sampling, length, seed, ends)
    result = difference(*(_chosen(trace, row) for trace in (ours, theirs)))
    return Answer(result.to_dict(), result.lines(), status=int(not result.equal))


def _generated(
    trace: Trace, source: Any, sampling: Sampling, length: int | None, seed: int, ends: tuple[int, ...]
) -> Trace:
    """Return the trace of our sampler from the given tokens of this one, with the same number of steps by default."""
    from unmask import generate
    from unmask.core import arguments
    from unmask.core.errors import UnmaskError
    from unmask.samplers.stopping import AtToken
    from unmask.samplers.trace import LONGEST

    if trace.vocabulary != source.vocabulary:
        problem = f"the trace has {trace.vocabulary} symbols, the model has {source.vocabulary}"
        raise UnmaskError(f"{problem}; expected the model of the trace")
    longest = max(row.length for row in trace.rows)
    size = None if length is None else arguments.whole("length", length, longest, LONGEST)
    given = []
    for row in trace.rows:
        tokens = dict(row.given)
        given.append([tokens.get(at, trace.vocabulary) for at in range(row.length if size is None else size)])
    last = max((event[0] for row in trace.rows for event in row.events), default=1)
    options: dict[str, Any] = asdict(sampling) | {"steps": last if sampling.steps is None else sampling.steps}
    stop = AtToken(ends) if ends else None
    return generate(source, **options, given=given, seed=seed, stop=stop, trace=True).trace()


def _chosen(trace: Trace, row: int | None) -> Trace:
    """Return the trace of this row; a trace with one row has no other."""
    from unmask.core import arguments

    if row is None or len(trace.rows) == 1:
        return trace
    return trace.of([arguments.whole("row", row, 0, len(trace.rows) - 1)])
