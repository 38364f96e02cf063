"""unmask play."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Model, Named, Switch, Text, Word, refuse
from unmask.core.run import Amount, Loading, Prompting, Sampling

if TYPE_CHECKING:
    from unmask.models.loading import Begun
    from unmask.report.player import Chosen
    from unmask.samplers.trace import Trace

PAGE = Path("play.html")
SUFFIXES = (".html", ".json")
USUAL, STEPS = (50, 64), 8  # rows and length, steps


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
        against: Second sampler, shown next to the first with the same random numbers.
        length: Sequence length in tokens. (default: 64, or the model's own)
        rows: Number of sequences to search for an error. (default: 50; for open models 1)
        row: Number of the first sequence to show. (default: the first with an error)
        prompt: Text at the beginning of each sequence, for models of text.
        out: File to write: .html or .json.
        open: Open the file in the browser.
        gap: Take arcs and losses from the model's own probabilities, not from a language: two model calls per token.
            A trace also needs its --model.
    """
    from unmask import languages
    from unmask.core.errors import UnmaskError, cut
    from unmask.core.files import check_writable
    from unmask.denoisers import as_denoiser
    from unmask.models.loading import begin, load_model
    from unmask.report.player import chosen
    from unmask.samplers import trace as traces
    from unmask.samplers.making import reshaped

    if out.suffix not in SUFFIXES:
        raise UnmaskError(f"--out is {cut(str(out))}; expected {' or '.join(SUFFIXES)}")
    if out.suffix == ".json" and against is not None:
        raise UnmaskError("a trace has one sampler. Leave out --against, or use --out with .html")
    check_writable(out)
    if trace is not None:
        made_here: dict[str, object] = {"against": against, "steps": sampling.steps, "length": length, "rows": rows}
        made_here |= {"causal_model": causal_model, "prompt": prompt}
        made_here |= {} if gap else {"model": model, "card": loading.card}
        refuse(made_here, f"does not apply to a trace. Leave it out, or leave out {cut(str(trace))}")
        if gap and model is None and language is None:
            raise UnmaskError("--gap needs the model that wrote the trace. Add --model, or --language")
        read = traces.read(trace)
        recorded = {read.sampler or trace.name: read}
        known = None if language is None else languages.load(language)
        if known is not None:
            known.check_origin(read.source, str(trace))
        source: Any = known if model is None else load_model(model, loading)
    else:
        if language is None and model is None:
            raise UnmaskError("no source of sequences. Add --language, --model, or the file of a trace")
        amount, prompts = Amount(rows=rows, length=length, seed=seed), Prompting(prompt=prompt)
        of_language = language if model is None else None
        begun = begin(of_language, model, amount, prompts, loading, causal_model, usual=USUAL)
        source = begun.source
        known = languages.load(language) if language is not None else as_denoiser(source).language
        samplers = [sampling.sampler] if against is None else [sampling.sampler, against]
        steps = STEPS if sampling.steps is None else sampling.steps
        symbols = None if known is None else known.names
        recorded = _recorded(begun, [replace(sampling, sampler=one, steps=steps) for one in samplers], seed, symbols)
    own = sampling.temperature or 1.0, sampling.top_p, sampling.top_k, sampling.guidance
    judge = reshaped(as_denoiser(source), *own) if gap else None
    picked = chosen(recorded, None if gap else known, row, model=judge)
    _write(out, picked)
    if open:
        import webbrowser

        webbrowser.open(out.resolve().as_uri())
    about = "those of independent draws of these tokens. Use samplers.joint.divergence for those of --draw"
    return Answer(_summary(picked, out), _lines(picked, out) + [("nats lost", about)] * (sampling.draw != "product"))


def _recorded(begun: Begun, runs: list[Sampling], seed: int, names: Any) -> dict[str, Trace]:
    """Return a trace of each sampler by its name and its steps."""
    from unmask import generate

    reader = begun.tokenizer
    symbols: Callable[[int], str] | Any = names if reader is None else lambda token: reader.written([token])
    recorded = {}
    for run in runs:
        generation = generate(begun.source, **asdict(run), **begun.start, seed=seed, trace=True)
        steps = int(generation.order.max())
        recorded[f"{run.sampler}, {steps} step{'' if steps == 1 else 's'}"] = generation.trace(symbols=symbols)
    return recorded


def _write(file: Path, picked: Chosen) -> None:
    """Write the player in the format of the file's suffix."""
    import shlex
    import sys

    from unmask.core.files import atomic
    from unmask.report.player import page

    if file.suffix == ".json":
        picked.runs[0].trace.write(file)
        return
    command = shlex.join(["unmask", *sys.argv[1:]])
    with atomic(file) as out:
        out.write(page(picked.runs, " and ".join(run.name for run in picked.runs), command, picked.row))


def _lines(picked: Chosen, file: Path) -> list[tuple[str, str]]:
    """Return the first sequence to show and its error, for people."""
    lines = [("row", f"{picked.runs[0].number(picked.row)} of {picked.rows}")]
    for run in picked.runs:
        reading, steps = run.readings[picked.row], run.steps[picked.row]
        if reading is None:
            lines.append((run.name, "not scored: add --language or --gap"))
        elif run.model is not None:
            lines.append((run.name, f"{round(reading.lost, 2) + 0.0:.2f} nats lost, by {run.model.name} itself"))
        elif reading.impossible is None:
            lines.append((run.name, f"possible, {round(reading.lost, 2) + 0.0:.2f} nats lost"))
        else:
            step = steps[reading.impossible].number
            repaired = f" (repaired later, {reading.lost:.2f} nats lost)" if reading.lost < math.inf else ""
            lines.append((run.name, f"impossible from step {step} on{repaired}: {reading.why}"))
    if picked.wrong is not None:
        counts = " and ".join(str(count) for count in picked.wrong)
        lines.append(("impossible", f"{counts} of {picked.rows} sequences"))
    return [*lines, ("file", str(file))]


def _summary(picked: Chosen, file: Path) -> dict[str, Any]:
    """Return the same for programs."""
    summary: dict[str, Any] = {"file": str(file), "row": picked.runs[0].number(picked.row)}
    for number, run in enumerate(picked.runs):
        reading, steps = run.readings[picked.row], run.steps[picked.row]
        about: dict[str, Any] = {"steps": len(steps), "rows": picked.rows}
        if reading is not None and run.model is not None:
            about |= {"nats_lost": reading.lost, "measured_by": run.model.name}
        elif reading is not None and picked.wrong is not None:
            step = reading.impossible
            about |= {"wrong_rows": picked.wrong[number]}
            about |= {"impossible_in_step": None if step is None else steps[step].number}
            about |= {"why": reading.why or None, "nats_lost": reading.lost}
        summary[run.name] = about
    return summary
