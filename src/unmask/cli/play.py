"""unmask play."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, File, Model, Named, Switch, Text, Word, refuse
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.models.text import Tokenizer
    from unmask.report.player.run import Chosen
    from unmask.samplers.trace import Trace

Recorded = Annotated[Path | None, "TRACE"]
PAGE = Path("play.html")
SUFFIXES = (".html", ".json")
LENGTH, ROWS, STEPS = 64, 50, 8  # defaults


def command(
    trace: Recorded = None,
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
    out: File = None,
    open: Switch = False,
    terminal: Switch = False,
    gap: Switch = False,
) -> Answer:
    """Animate the generation of one sequence and find its first error.

    Examples:
        unmask play --language paper-2gram --steps 8
        unmask play --language interval-5 --against autoregressive --open
        unmask play --language sparse-hmm --sampler gibbs --out gibbs.html
        unmask play --model runs/mdm --causal-model runs/ar --against autoregressive
        unmask play trace.json --language paper-2gram
        unmask play --language paper-3gram --terminal
        unmask play --model runs/mdm --gap

    The player shows for each step the new tokens, their dependence (a thicker arc
    is a stronger one), and the nats lost by sampling them in the same step. If no
    sequence of the language is possible any more, it shows which tokens contradict
    each other, and why. It begins with the first sequence that has an error.

    OUT is a page in one file (.html), or the trace (.json). docs/player.md explains
    how to record your own loop as TRACE.

    Args:
        trace: Trace to play, of your own loop or of `--out x.json`, instead of new samples.
        language: Preset (see `unmask list languages`) or language file. It samples with its exact denoiser, or checks
            the sequences of a model or a trace.
        model: Directory of a network of `unmask train`, or an open model (`unmask list models`).
        causal_model: AR model for samplers that need one, for example `autoregressive`.
        against: Second sampler, shown next to the first with the same random numbers.
        length: Sequence length in tokens. (default: 64, or the model's own)
        rows: Number of sequences to search for an error. (default: 50; for open models 1)
        row: Number of the first sequence to show. (default: the first with an error)
        prompt: Text at the beginning of each sequence, for models of text.
        out: File to write: .html or .json. (default: play.html; with --terminal none)
        open: Open the file in the browser.
        gap: Take arcs and losses from the model's own probabilities, not from a language: two model calls per token.
            A trace also needs its --model.
        terminal: Print the sequence after each step; without a terminal, after the last step.
    """
    from unmask import languages
    from unmask.core.errors import UnmaskError, cut
    from unmask.core.files import check_writable
    from unmask.denoisers import as_denoiser
    from unmask.models.loading import load_model
    from unmask.report.player import chosen
    from unmask.samplers import trace as traces
    from unmask.samplers.making import reshaped

    file = out if out is not None or terminal else PAGE
    _check(file, against, open)
    if file is not None:
        check_writable(file)
    known = None if language is None else languages.load(language)
    if trace is not None:
        made_here: dict[str, object] = {"against": against, "steps": sampling.steps, "length": length, "rows": rows}
        made_here |= {"causal_model": causal_model, "prompt": prompt}
        made_here |= {} if gap else {"model": model, "card": loading.card}
        refuse(made_here, f"does not apply to a trace. Leave it out, or leave out {cut(str(trace))}")
        read = traces.read(trace)
        recorded = {read.sampler or trace.name: read}
        if gap and model is None and known is None:
            raise UnmaskError("--gap needs the model that wrote the trace. Add --model, or --language")
        source: Any = known if model is None else load_model(model, loading)
    else:
        samplers = [sampling.sampler] if against is None else [sampling.sampler, against]
        steps = STEPS if sampling.steps is None else sampling.steps
        runs = [replace(sampling, sampler=sampler, steps=steps) for sampler in samplers]
        recorded, known, source = _recorded(known, model, loading, causal_model, length, rows, prompt, runs, seed)
    own = sampling.temperature or 1.0, sampling.top_p, sampling.top_k, sampling.guidance
    judge = reshaped(as_denoiser(source), *own) if gap else None
    picked = chosen(recorded, None if gap else known, row, model=judge)
    if file is not None:
        _write(file, picked)
    if terminal:
        from unmask.report.player.terminal import show as play

        play(picked.runs, picked.row)
    if open and file is not None:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())
    return Answer(_summary(picked, file), (lambda: None) if terminal else _lines(picked, file))


def _check(file: Path | None, against: str | None, open: bool) -> None:
    from unmask.core.errors import UnmaskError, cut

    if file is not None and file.suffix not in SUFFIXES:
        raise UnmaskError(f"--out is {cut(str(file))}; expected {' or '.join(SUFFIXES)}")
    if file is not None and file.suffix == ".json" and against is not None:
        raise UnmaskError("a trace has one sampler. Leave out --against, or use --out with .html")
    if open and file is None:
        raise UnmaskError("--open needs a file. Add --out, or leave out --terminal")


def _recorded(
    known: Language | None,
    model: str | None,
    loading: Loading,
    causal_model: str | None,
    length: int | None,
    rows: int | None,
    prompt: str | None,
    runs: Sequence[Sampling],
    seed: int,
) -> tuple[dict[str, Trace], Language | None, Any]:
    """Return a trace of each sampler by its name, the language to check them with, and the model that wrote them."""
    from unmask import generate
    from unmask.cli.prompts import OpenPrompts, Prompting, Prompts
    from unmask.core.errors import UnmaskError
    from unmask.denoisers import as_denoiser
    from unmask.models.loading import is_open, load_model
    from unmask.models.trained.checkpoints import read_tokenizer

    source: Any = known
    tokenizer: Any = None
    if known is not None and model is None:
        refuse({"card": loading.card, "causal_model": causal_model, "prompt": prompt}, "needs --model")
        size = known.nearest_lengths(LENGTH)[-1] if length is None else length
        start = Prompts(None, None, None, None, 1).start(known, ROWS if rows is None else rows, size, 0, 0)
    elif model is None:
        raise UnmaskError("no source of sequences. Add --language, --model, or the file of a trace")
    elif is_open(model):
        prompts = OpenPrompts.of(Prompting(prompt=prompt))
        source = load_model(model, loading, causal_model)
        start, tokenizer = prompts.start(source, rows, length, 1), source.tokenizer
    else:
        source, tokenizer = load_model(model, loading, causal_model), read_tokenizer(model)
        start = Prompts(None, prompt, tokenizer, None, 1).start(source, ROWS if rows is None else rows, length, 0, 0)
    known = as_denoiser(source).language if known is None else known
    names = None if known is None else known.names
    symbols = names if tokenizer is None else partial(_text, tokenizer)
    recorded = {}
    for run in runs:
        begin: dict[str, Any] = {"length": start.length, "rows": start.rows, "given": start.given, "stop": start.stop}
        generation = generate(source, **asdict(run), **begin, seed=seed, trace=True)
        steps = int(generation.order.max())
        recorded[f"{run.sampler}, {steps} step{'' if steps == 1 else 's'}"] = generation.trace(symbols=symbols)
    return recorded, known, source


def _text(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.written([token])


def _write(file: Path, picked: Chosen) -> None:
    """Write the player in the format of the file's suffix."""
    import shlex
    import sys

    from unmask.core.files import atomic
    from unmask.report.player import page

    runs, row = picked.runs, picked.row
    if file.suffix == ".json":
        runs[0].trace.write(file)
        return
    command = shlex.join(["unmask", *sys.argv[1:]])
    with atomic(file) as out:
        out.write(page(runs, " and ".join(run.name for run in runs), command, row))


def _lines(picked: Chosen, file: Path | None) -> list[tuple[str, str]]:
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
    return lines if file is None else [*lines, ("file", str(file))]


def _summary(picked: Chosen, file: Path | None) -> dict[str, Any]:
    """Return the same for programs."""
    runs, row = picked.runs, picked.row
    summary: dict[str, Any] = {"file": None if file is None else str(file), "row": runs[0].number(row)}
    for number, run in enumerate(runs):
        reading, steps = run.readings[row], run.steps[row]
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
