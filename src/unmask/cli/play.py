"""unmask play."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Count, File, Model, Named, Switch, Text, Word
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.generation.trace import Trace
    from unmask.languages import Language
    from unmask.report.player.run import Chosen
    from unmask.text import Tokenizer

Recorded = Annotated[Path | None, "TRACE"]
PAGE = Path("play.html")
SUFFIXES = (".html", ".svg", ".gif", ".json")
LENGTH, ROWS, STEPS = 64, 50, 8  # unless told otherwise


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
    json: Switch = False,
) -> None:
    """Look at a sequence being written, and see where it goes wrong.

    Examples:
        unmask play --language paper-2gram --steps 8
        unmask play --language interval-5 --against autoregressive --open
        unmask play --language sparse-hmm --sampler gibbs --out x.gif
        unmask play --model runs/mdm --causal-model runs/ar --against autoregressive
        unmask play trace.json --language paper-2gram
        unmask play --language paper-3gram --terminal

    The player steps through the rounds: what each has written, which of its tokens
    depend on each other (the thicker the arc, the more), the nats that are lost by
    drawing them together, and, where no sequence of the language is left, which
    tokens cannot stand together, and why. Of rows it begins with the first that
    goes wrong.

    OUT is a page that asks nobody for anything (.html), a moving picture (.svg, or
    .gif), or the trace itself (.json). How to record one of a loop of your own:
    docs/player.md.

    Args:
        trace: A trace, of a loop of yours or of `--out x.json`, instead of samples that are made here.
        language: A preset (see `unmask list languages`), or a language file, whose exact denoiser is used; of a model
            or a trace, what its rows are held against.
        model: The directory of a network that `unmask train` has made, or an open model (`unmask list models`).
        causal_model: An AR model beside an MDM, for samplers that read from left to right.
        against: A second sampler, shown beside it, with the same luck.
        length: Tokens a sequence; 64 if not given, what a network was made for, or what an open model writes.
        rows: Sequences to look for an error in; 50 if not given, one of an open model.
        row: The number of the row to begin with; the first that goes wrong if not given.
        prompt: A text that each row begins with, for a model that has learned one.
        seed: The seed of the luck.
        out: The file to write: .html, .svg, .gif or .json; play.html if not given, and none for --terminal.
        open: Open it in the browser.
        terminal: Play in the terminal, with space, arrows and q; where nobody looks at one, print the end.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show, show_lines
    from unmask.core.errors import UnmaskError, cut
    from unmask.core.files import check_writable
    from unmask.generation import trace as traces
    from unmask.report.player import chosen

    file = out if out is not None or terminal else PAGE
    _check(file, against, open)
    if file is not None:
        check_writable(file)
    known = None if language is None else languages.load(language)
    if trace is not None:
        made_here = {
            "--model": model,
            "--card": loading.card,
            "--causal-model": causal_model,
            "--against": against,
            "--steps": sampling.steps,
        }
        made_here |= {"--length": length, "--rows": rows, "--prompt": prompt}
        for name, value in made_here.items():
            if value is not None:
                raise UnmaskError(f"{name} is for samples that are made here; leave it out, or {cut(str(trace))}")
        found = traces.read(trace)
        recorded = {found.sampler or trace.name: found}
    else:
        samplers = [sampling.sampler] if against is None else [sampling.sampler, against]
        steps = STEPS if sampling.steps is None else sampling.steps
        runs = [replace(sampling, sampler=sampler, steps=steps) for sampler in samplers]
        recorded, known = _recorded(known, model, loading, causal_model, length, rows, prompt, runs, seed)
    picked = chosen(recorded, known, row)
    if file is not None:
        _write(file, picked)
    if terminal:
        from unmask.report.player.terminal import show as play

        play(picked.runs, picked.row)
    if json:
        show(_told(picked, file), True)
    elif not terminal:
        show_lines(_seen(picked, file))
    if open and file is not None:
        import webbrowser

        webbrowser.open(file.resolve().as_uri())


def _check(file: Path | None, against: str | None, open: bool) -> None:
    from unmask.core.errors import UnmaskError, cut

    if file is not None and file.suffix not in SUFFIXES:
        raise UnmaskError(f"{cut(str(file))}: a player is written as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")
    if file is not None and file.suffix == ".json" and against is not None:
        raise UnmaskError("a trace is of one sampler; leave out --against, or write another kind of file")
    if open and file is None:
        raise UnmaskError("--open needs a file; give --out, or leave out --terminal")


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
) -> tuple[dict[str, Trace], Language | None]:
    """(a trace of each sampler by its name, the language that they are held against)."""
    from unmask import generate
    from unmask.cli.prompts import Prompting, Prompts, Spoken
    from unmask.core.errors import UnmaskError
    from unmask.ideal import as_denoiser
    from unmask.loading import is_open
    from unmask.networks import read_network
    from unmask.networks.model.checkpoints import read_tokenizer

    source: Any = known
    tokenizer: Any = None
    if known is not None and model is None:
        for name, value in {"--card": loading.card, "--causal-model": causal_model, "--prompt": prompt}.items():
            if value is not None:
                raise UnmaskError(f"{name} needs --model")
        size = known.nearest_lengths(LENGTH)[-1] if length is None else length
        start = Prompts(None, None, None, None, 1).start(known, ROWS if rows is None else rows, size, 0, 0)
    elif model is None:
        raise UnmaskError("give --language, whose exact denoiser is used, --model, or a trace to play")
    elif is_open(model):
        from unmask.hub import load_model

        spoken = Spoken.of(Prompting(prompt=prompt))
        source = load_model(model, **asdict(loading), causal_model=causal_model)
        start, tokenizer = spoken.start(source, rows, length, 1), source.tokenizer
    elif loading.card is not None:
        raise UnmaskError("--card is for an open model, and this is a network that `unmask train` has made")
    else:
        source, tokenizer = read_network(model, causal_model, loading.device), read_tokenizer(model)
        start = Prompts(None, prompt, tokenizer, None, 1).start(source, ROWS if rows is None else rows, length, 0, 0)
    known = as_denoiser(source).language if known is None else known
    names = None if known is None else known.names
    symbols = names if tokenizer is None else partial(_text, tokenizer)
    found = {}
    for run in runs:
        asked: dict[str, Any] = {"length": start.length, "rows": start.rows, "given": start.given, "stop": start.stop}
        made = generate(source, **asdict(run), **asked, seed=seed, trace=True)
        rounds = int(made.order.max())
        found[f"{run.sampler}, {rounds} round{'' if rounds == 1 else 's'}"] = made.trace(symbols=symbols)
    return found, known


def _text(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.written([token])


def _write(file: Path, picked: Chosen) -> None:
    """The player of a kind that the file's name says."""
    import shlex
    import sys

    from unmask.core.files import atomic
    from unmask.report.player import animation, gif, page

    runs, row = picked.runs, picked.row
    if file.suffix == ".json":
        runs[0].trace.write(file)
        return
    if file.suffix == ".html":
        command = shlex.join(["unmask", *sys.argv[1:]])
        content = page(runs, " and ".join(run.name for run in runs), command, row)
    else:
        content = animation(runs, row).encode() if file.suffix == ".svg" else gif(runs, row)
    with atomic(file) as out:
        out.write(content)


def _seen(picked: Chosen, file: Path | None) -> list[tuple[str, str]]:
    """Which row it begins with, and what is seen of it, for people."""
    lines = [("row", f"{picked.runs[0].number(picked.row)} of {picked.rows}")]
    for run in picked.runs:
        reading, rounds = run.readings[picked.row], run.rounds[picked.row]
        if reading is None:
            lines.append((run.name, "no language is known to hold it against (--language)"))
        elif reading.impossible is None:
            lines.append((run.name, f"a sequence of the language, {round(reading.lost, 2) + 0.0:.2f} nats lost"))
        else:
            turn = rounds[reading.impossible].number
            repaired = f" (it was repaired, {reading.lost:.2f} nats lost)" if reading.lost < math.inf else ""
            lines.append((run.name, f"impossible from round {turn} on{repaired}: {reading.why}"))
    if picked.wrong is not None:
        wrong = " and ".join(str(count) for count in picked.wrong)
        lines.append(("rows that go wrong", f"{wrong} of {picked.rows}"))
    return lines if file is None else [*lines, ("file", str(file))]


def _told(picked: Chosen, file: Path | None) -> dict[str, Any]:
    """The same for programs."""
    runs, row = picked.runs, picked.row
    said: dict[str, Any] = {"file": None if file is None else str(file), "row": runs[0].number(row)}
    for number, run in enumerate(runs):
        reading, rounds = run.readings[row], run.rounds[row]
        about: dict[str, Any] = {"rounds": len(rounds), "rows": picked.rows}
        if reading is not None and picked.wrong is not None:
            step = reading.impossible
            about |= {"wrong_rows": picked.wrong[number]}
            about |= {"impossible_in_round": None if step is None else rounds[step].number}
            about |= {"why": reading.why or None, "nats_lost": reading.lost}
        said[run.name] = about
    return said
