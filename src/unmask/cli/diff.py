"""unmask diff."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Model, Named
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.denoisers import Denoiser
    from unmask.samplers.trace import Trace

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
    """Find where two traces begin to differ, and whether rounding explains it.

    Examples:
        unmask diff a.json b.json
        unmask diff a.json b.json --row 3 --json
        unmask diff a.json --model llada-8b-instruct --steps 64 \\
            --sampler "llada(block_length=32)"
        unmask diff a.json --language paper-2gram --sampler entropy --seed 1

    A trace is a file of `unmask play`, with x.json as its output, or of your own
    loop (docs/player.md). Without B, our sampler generates the second trace from
    the given tokens of A, on the same weights.

    The verdict shows whether rounding explains the difference: probabilities differ
    by a few ulp of one dtype, and rows split only there.

    Exit codes: 0 equal; 1 different; 2 a wrong argument or file.

    Args:
        a: First trace.
        b: Second trace.
        language: Language of A: a preset (see `unmask list languages`), or a file.
        model: Model of A: a directory of `unmask train`, or an open model (`unmask list models`).
        causal_model: AR model for samplers that need one.
        length: Number of positions of the canvas, if the rows of A were cut at their ends.
        seed: Random seed of our sampler.
        row: Number of the only row to compare, from 0; of a trace with one row, that one.
        ends: End-of-text tokens at which our sampler stops.
    """
    from unmask.core.errors import UnmaskError, cut
    from unmask.diagnosis.difference import difference
    from unmask.samplers.trace import read

    ours = read(a)
    if b is not None:
        changed = {"--length": length, "--language": language, "--model": model, "--ends": ends or None}
        option = next((name for name, value in changed.items() if value is not None), None)
        if option is not None or sampling != Sampling() or loading != Loading() or causal_model is not None:
            problem = f"{option or 'an option of the sampler or the model'} does not apply to two traces"
            raise UnmaskError(f"{problem}. Leave it out, or leave out {cut(str(b))}")
        theirs = read(b)
    else:
        denoiser = _denoiser(language, model, causal_model, loading, sampling.sampler)
        if denoiser is None:
            raise UnmaskError("no second trace. Add its file, or --model or --language to generate one")
        theirs = _generated(ours, denoiser, sampling, length, seed, ends)
    result = difference(*(_chosen(trace, row) for trace in (ours, theirs)))
    return Answer(result.to_dict(), result.lines(), status=int(not result.equal))


def _denoiser(
    language: str | None, model: str | None, causal_model: str | None, loading: Loading, sampler: str
) -> Denoiser | None:
    """Return the denoiser of the traces, if it is given."""
    from unmask import languages
    from unmask.core.errors import UnmaskError
    from unmask.denoisers import as_denoiser
    from unmask.models.loading import load_model
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
    from unmask.core.errors import UnmaskError
    from unmask.samplers.stopping import AtToken
    from unmask.samplers.trace import LONGEST

    if trace.vocabulary != denoiser.vocabulary:
        problem = f"the trace has {trace.vocabulary} symbols, {denoiser.name} has {denoiser.vocabulary}"
        raise UnmaskError(f"{problem}; expected the model of the trace")
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
