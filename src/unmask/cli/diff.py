"""unmask diff."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Model, Named
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.denoisers import Denoiser
    from unmask.generation.trace import Trace

First = Annotated[Path, "A"]
Second = Annotated[Path | None, "B"]
Ends = Annotated[tuple[int, ...], "TOKEN"]


def command(
    a: First,
    b: Second = None,
    /,
    *,
    language: Named = None,
    model: Model = None,
    causal_model: Model = None,
    sampling: Sampling = Sampling(),
    length: Count = None,
    seed: int = 0,
    row: Count = None,
    ends: Ends = (),
    loading: Loading = Loading(),
) -> Answer:
    """Find where two traces begin to differ, and why.

    Examples:
        unmask diff a.json b.json
        unmask diff a.json b.json --row 3 --json
        unmask diff a.json b.json --model llada-8b-instruct
        unmask diff a.json --model llada-8b-instruct --steps 64 \\
            --sampler "llada(block_length=32)"
        unmask diff a.json --language paper-2gram --sampler entropy --seed 1

    A trace is a file of `unmask play`, with x.json as its output, of your own loop,
    or a saved stream of a server (docs/player.md). Without B, our sampler generates
    the second trace from the given tokens of A, on the same weights.

    The verdict names a cause only if the traces show it for every row: rounding, a
    tie, temperature, padding, a cache, an early commit, step numbers, one choice
    for the whole batch, or end handling. Otherwise it is "unexplained". With a
    model, the report includes the cost in nats.

    Exit codes: 0 equal; 1 different; 2 a wrong argument or file.

    Args:
        a: First trace.
        b: Second trace.
        language: Language of the traces: a preset (see `unmask list languages`), or a file.
        model: Model of the traces: a directory of `unmask train`, or an open model (`unmask list models`).
        causal_model: AR model for samplers that need one.
        length: Number of positions of the canvas, if the rows of A were cut at their ends.
        seed: Random seed of our sampler.
        row: Number of the only row to compare, from 0; of a trace with one row, that one.
        ends: End-of-text tokens. (default: found by their effect)
    """
    from unmask.core.errors import UnmaskError, cut
    from unmask.diagnosis.difference import difference
    from unmask.generation.trace import read

    ours = read(a)
    denoiser = _denoiser(language, model, causal_model, loading, sampling.sampler)
    if b is not None:
        if sampling != Sampling() or length is not None:
            option = "--length" if length is not None else "an option of the sampler"
            raise UnmaskError(f"{option} does not apply to two traces. Leave it out, or leave out {cut(str(b))}")
        theirs = read(b)
    elif denoiser is None:
        raise UnmaskError("no second trace. Add its file, or --model or --language to generate one")
    else:
        theirs = _generated(ours, denoiser, sampling, length, seed, ends)
    ours, theirs = (_chosen(trace, row) for trace in (ours, theirs))
    replayed = None if denoiser is not None and denoiser.removes == "uniform" else denoiser  # it needs no time
    result = difference(ours, theirs, replayed, ends)
    return Answer(result.to_dict(), result.lines(), status=int(not result.equal))


def _denoiser(
    language: str | None, model: str | None, causal_model: str | None, loading: Loading, sampler: str
) -> Denoiser | None:
    """Return the denoiser of the traces, if it is given."""
    from unmask import languages
    from unmask.core.errors import UnmaskError
    from unmask.ideal import as_denoiser
    from unmask.loading import load_model
    from unmask.samplers.contract import as_sampler

    if language is not None and model is not None:
        raise UnmaskError("--language and --model exclude each other. Leave one of them out")
    if model is None:
        if loading != Loading() or causal_model is not None:
            raise UnmaskError("an option of the model is set, but no model. Add --model")
        return None if language is None else as_denoiser(languages.load(language), as_sampler(sampler).removes)
    return as_denoiser(load_model(model, loading, causal_model))


def _generated(
    trace: Trace, denoiser: Denoiser, sampling: Sampling, length: int | None, seed: int, ends: tuple[int, ...]
) -> Trace:
    """Return the trace of our sampler from the given tokens of this one, with the same number of steps by default."""
    from unmask import generate
    from unmask.core import arguments
    from unmask.diagnosis.difference.replay import check
    from unmask.generation.trace import LONGEST
    from unmask.samplers.stopping import AtToken

    check(trace, denoiser)
    last = max((event[0] for row in trace.rows for event in row.events), default=1)
    longest = max(row.length for row in trace.rows)
    given = []
    for row in trace.rows:
        size = row.length if length is None else arguments.whole("length", length, longest, LONGEST)
        tokens = dict(row.given)
        given.append([tokens.get(at, trace.vocabulary) for at in range(size)])
    options: dict[str, Any] = asdict(sampling) | {"steps": last if sampling.steps is None else sampling.steps}
    stop = AtToken(ends) if ends else None
    return generate(denoiser, **options, given=given, seed=seed, stop=stop, trace=True).trace()


def _chosen(trace: Trace, row: int | None) -> Trace:
    """Return the trace of this row; a trace with one row has no other."""
    from unmask.core import arguments

    if row is None or len(trace.rows) == 1:
        return trace
    return trace.of([arguments.whole("row", row, 0, len(trace.rows) - 1)])
