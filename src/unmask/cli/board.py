"""unmask board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Count, Counts, Directory, Languages, Switch

if TYPE_CHECKING:
    from unmask.experiments.board import Board

Sampler = Annotated[str, "SAMPLER"]
Samplers = Annotated[tuple[str, ...], "SAMPLER"]


def command(
    *,
    samplers: Samplers = (),
    languages: Languages = (),
    model: Directory = None,
    causal_model: Directory = None,
    lengths: Counts = (),
    rows: Count = None,
    seeds: Count = None,
    steps: Counts = (),
    quick: Switch = False,
    against: Sampler = "ancestral",
    out: Path = Path("board"),
    seed: int = 0,
    language_seed: int = 0,
    device: str = "auto",
    json: Switch = False,
) -> None:
    """Compare samplers on languages that are known exactly.

    Examples:
        unmask board --quick
        unmask board --samplers ancestral strided --languages sparse-hmm
        unmask board --model mdm --causal-model ar --quick
        unmask board --samplers "speculative(draft_length=[2, 4])" mine:Sampler

    How many evaluations each needs until at most half, a tenth, a hundredth of its
    sequences are wrong (SER), and until it is as fluent as the language (TER); its
    accuracy under parallelism; whether it repeats itself. All samplers meet the
    same rows with the same luck, and are compared row by row.

    Each sampler runs at several budgets: numbers of rounds N, or values of its own
    knob where it keeps its own pace. A list in place of an option makes that option
    the knob. A budget that a sampler cannot do is reported and left out.

    After an interruption the same command goes on where it was. What is measured is
    kept in OUT/sweep, a store that `unmask sweep status` and `export` read; numbers
    of another version of unmask are measured again.

    Args:
        samplers: Names with options, or package.module:Name; all of ours unless told otherwise.
        languages: Presets or files; six presets unless told otherwise, three if quick.
        model: In place of languages, the directory of a network that `unmask train` has made, on its own language.
        causal_model: The directory of an AR network beside an MDM.
        lengths: Tokens a sequence, or the nearest below that the language has; 128, or the model's, if not given.
        rows: Sequences a budget and seed; 400 unless told otherwise, 100 if quick.
        seeds: How many seeds; 3 unless told otherwise, 2 if quick.
        steps: The numbers of rounds N; from L/32 to 8 L unless told otherwise.
        quick: Fewer languages, budgets, rows and seeds: a minute.
        against: The sampler that accuracy is compared to, row by row.
        out: A directory for board.json, board.csv, board.svg, board.png and the store; made if it is not there.
        seed: The first seed of the luck; the next seeds are those that follow it.
        language_seed: The first seed of random presets, each seed of the luck having one of its own.
        device: Where a model runs: auto, cpu or cuda.
        json: Print one JSON object instead of tables.
    """
    from dataclasses import asdict

    from unmask.cli.output import show
    from unmask.core.errors import UnmaskError
    from unmask.experiments.board import Settings
    from unmask.experiments.board import quick as brief
    from unmask.experiments.board.standings import summary
    from unmask.networks.model.checkpoints import choose_device, read_shape
    from unmask.report.board import PAGE
    from unmask.report.publishing import STORE, publish

    if model is not None:
        if languages:
            raise UnmaskError("a model is measured on the language that it was trained on; leave --languages out")
        lengths = lengths or (read_shape(model).length,)
    elif causal_model is not None:
        raise UnmaskError("--causal-model stands beside --model; give both")
    given: dict[str, Any] = {
        "samplers": samplers,
        "languages": languages,
        "lengths": lengths,
        "rows": rows,
        "seeds": seeds,
    }
    given |= {"model": model and str(model), "causal_model": causal_model and str(causal_model)}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value not in ((), None)}
    settings = (brief if quick else Settings)(
        **chosen, seed=seed, language_seed=language_seed, device=device, steps=steps, against=against
    )
    on_a_device = model is not None and choose_device(device).type != "cpu"  # which takes one process at a time
    published = publish(PAGE, settings, out, engine="here" if on_a_device else "local")
    made = published.measured
    files = [str(path) for path in published.files]
    if json:
        failures = [asdict(failure) for failure in made.failures]
        show({"seconds": made.seconds, "files": files, "failures": failures, "standings": summary(made.records)}, True)
        return
    _print(made)
    if any(failure.value is None for failure in made.failures):
        print(f"`unmask sweep retry {out / STORE}` measures again what was left out altogether.")
    print("\n".join(files))


def _print(made: Board) -> None:
    from unmask.cli.output import say, show_tables
    from unmask.experiments.board.table import HOW_TO_READ, tables

    show_tables(tables(made))
    for line in HOW_TO_READ.format(against=made.settings.against).splitlines():
        say(line)
    reasons: dict[str, list[str]] = {}
    for f in made.failures:
        what = f.sampler if f.value is None else f"{f.sampler} at {f.knob} = {f.value}"
        reasons.setdefault(f"{what}: {f.message}", []).append(f.language)
    for reason, languages in reasons.items():
        say(f"left out: {reason} ({', '.join(dict.fromkeys(languages))})")
    s = made.settings
    print(f"\n{s.seeds} seeds of {s.rows} rows a budget; {made.seconds:.0f} s of work.")
