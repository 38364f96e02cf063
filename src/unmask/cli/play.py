"""unmask play, unmask diff."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from unmask.cli.generate import begin
from unmask.cli.options import Answer, Count, Model, Named, Switch, Text, Word, browse, refuse
from unmask.core.entries import given, perhaps
from unmask.core.run import Amount, Loading, Prompting, Sampling

PAGE = Path("play.html")
SUFFIXES = (".html", ".json")
USUAL = 50, 64  # rows and length


def command(
    trace: Annotated[Path | None, "TRACE"] = None,
    /,
    *,
    language: Named = None,
    model: Model = None,
    causal_model: Model = None,
    sampling: Sampling = Sampling(),
    against: Word = None,
    length: Count = None,
    rows: Count = None,
    row: Count = None,
    prompt: Text = None,
    seed: int = 0,
    loading: Loading = Loading(),
    out: Path = PAGE,
    open: Switch = False,
    gap: Switch = False,
) -> Answer:
    """Animate the generation of one sequence and find its first error.

    Examples:
        unmask play --language interval-5 --against autoregressive --open
        unmask play --model runs/mdm --gap
        unmask play trace.json --language paper-2gram

    The player shows for each step the new tokens, their dependence, the nats lost
    by sampling them in the same step, and the first error. docs/player.md explains
    how to record your own loop as TRACE.

    Args:
        trace: Trace to play, of your own loop or of `--out x.json`, instead of new samples.
        language: Preset (see `unmask show language`) or language file. It samples with its exact denoiser, or checks
            the sequences of a model or a trace.
        model: Directory of a network of `unmask train`, or an open model (`unmask show model`).
        causal_model: AR model for samplers that need one, for example `autoregressive`.
        against: Second sampler, shown next to the first with the same random numbers; or a joint draw of it, such as
            fitted.
        length: Sequence length in tokens. (default: 64, or the model's own)
        rows: Number of sequences to search for an error. (default: 50; for open models 1)
        row: Number of the first sequence to show. (default: the first with an error)
        prompt: Text at the beginning of each sequence, for models of text.
        out: File to write: .html or .json.
        open: Open the file in the browser.
        gap: Take arcs and losses from the model's own probabilities, not from a language: two model calls per token.
            A trace also needs its --model.
    """
    import shlex
    import sys

    from unmask.core.errors import UnmaskError, cut
    from unmask.core.files import check_writable

    if out.suffix not in SUFFIXES:
        raise UnmaskError(f"--out is {cut(str(out))}; expected {' or '.join(SUFFIXES)}")
    if out.suffix == ".json" and against is not None:
        raise UnmaskError("a trace has one sampler. Leave out --against, or use --out with .html")
    check_writable(out)
    if trace is not None and not trace.exists():
        raise UnmaskError(
            f"there is no file {cut(str(trace))}",
            "expected a trace, written by `unmask play --out x.json`",
            "For new samples, write --language NAME or --model NAME",
        )
    if trace is None and language is None and model is None:
        raise UnmaskError("no source of sequences. Add --language, --model, or the file of a trace")

    from unmask import languages
    from unmask.denoisers import as_denoiser
    from unmask.models.loading import of_command
    from unmask.report.player import chosen, play
    from unmask.samplers import trace as traces
    from unmask.samplers.generation import reshaped

    known = perhaps(languages.load, language)
    if trace is not None:
        made_here: dict[str, object] = {
            "against": against,
            "steps": sampling.steps,
            "length": length,
            "rows": rows,
            "causal_model": causal_model,
            "prompt": prompt,
        }
        if not gap:
            made_here |= {"model": model, "card": loading.card}
        refuse(made_here, f"does not apply to a trace. Leave it out, or leave out {cut(str(trace))}")
        if gap and model is None and language is None:
            raise UnmaskError("--gap needs the model that wrote the trace. Add --model, or --language")
        read = traces.read(trace)
        if known is not None:
            known.check_origin(read.source, str(trace))
        source: Any = known if model is None else of_command(model, loading)
        own = sampling.temperature or 1.0, sampling.top_p, sampling.top_k, sampling.guidance
        judge = reshaped(as_denoiser(source), *own) if gap else None
        player = chosen({read.sampler or trace.name: read}, None if gap else known, row, model=judge)
    else:
        amount, prompts = Amount(rows=rows, length=length, seed=seed), Prompting(prompt=prompt)
        of_language = language if model is None else None
        loaded, start, reader = begin(of_language, model, amount, prompts, loading, causal_model, usual=USUAL)
        how = {"language": known, "gap": gap, "row": row, "seed": seed} | start
        how |= given(asdict(sampling))
        if reader is not None:
            how["symbols"] = lambda token: reader.written([token])
        player = play(loaded, against=against, **how)
    player.write(out, shlex.join(["unmask", *sys.argv[1:]]))
    browse(out, open)
    return Answer({"file": str(out)} | player.to_dict(), [*player.table(), ("file", str(out))])


def diff(a: Annotated[Path, "A"], b: Annotated[Path, "B"], /, *, row: Count = None) -> Answer:
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
    for number, trace in enumerate(traces):
        if row is not None and len(trace.rows) > 1:
            traces[number] = trace.of([arguments.whole("row", row, 0, len(trace.rows) - 1)])
    result = difference(*traces)
    return Answer(result.to_dict(), result.lines(), status=int(not result.equal))
