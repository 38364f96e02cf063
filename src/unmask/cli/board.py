"""unmask board run|compare|ranks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.options import Count, Counts, Directory, Languages, Number, Switch

if TYPE_CHECKING:
    from unmask.experiments.board import Board, Settings

BoardFile = Annotated[Path, "BOARD"]
BoardFiles = Annotated[tuple[Path, ...], "BOARD"]
Sampler = Annotated[str, "SAMPLER"]
Samplers = Annotated[tuple[str, ...], "SAMPLER"]


@dataclass(frozen=True)
class Ground:
    """Where samplers are measured, and on how much.

    Args:
        languages: Presets or files; six presets unless told otherwise, three if quick.
        model: In place of languages, the directory of a network that `unmask train` has made, on its own language.
        causal_model: The directory of an AR network beside an MDM.
        lengths: Tokens a sequence, or the nearest below that the language has; 128, or the model's, if not given.
        rows: Sequences a budget and seed; 400 unless told otherwise, 100 if quick.
        seeds: How many seeds; 3 unless told otherwise, 2 if quick.
        steps: The numbers of rounds N; from L/32 to 8 L unless told otherwise.
        quick: Fewer languages, budgets, rows and seeds: a minute.
        seed: The first seed of the luck; the next seeds are those that follow it.
        language_seed: The first seed of random presets, each seed of the luck having one of its own.
        device: Where a model runs: auto, cpu or cuda.
    """

    languages: Languages = ()
    model: Directory = None
    causal_model: Directory = None
    lengths: Counts = ()
    rows: Count = None
    seeds: Count = None
    steps: Counts = ()
    quick: Switch = False
    seed: int = 0
    language_seed: int = 0
    device: str = "auto"

    def settings(self, samplers: tuple[str, ...], **more: Any) -> Settings:
        from unmask.core.errors import UnmaskError
        from unmask.experiments.board import Settings
        from unmask.experiments.board import quick as brief
        from unmask.networks.model.checkpoints import read_shape

        lengths = self.lengths
        if self.model is not None:
            if self.languages:
                raise UnmaskError("a model is measured on the language that it was trained on; leave --languages out")
            lengths = lengths or (read_shape(self.model).length,)
        elif self.causal_model is not None:
            raise UnmaskError("--causal-model stands beside --model; give both")
        given: dict[str, Any] = {"samplers": samplers, "languages": self.languages, "lengths": lengths}
        given |= {"rows": self.rows, "seeds": self.seeds, "model": self.model and str(self.model)}
        given |= {"causal_model": self.causal_model and str(self.causal_model)}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value not in ((), None)}
        places: dict[str, Any] = {
            "seed": self.seed,
            "language_seed": self.language_seed,
            "device": self.device,
            "steps": self.steps,
        }
        return (brief if self.quick else Settings)(**chosen, **places, **more)

    @property
    def engine(self) -> Literal["here", "local"]:
        """A device takes one process at a time."""
        from unmask.networks.model.checkpoints import choose_device

        return "here" if self.model is not None and choose_device(self.device).type != "cpu" else "local"


def run(
    *,
    samplers: Samplers = (),
    ground: Ground,
    against: Sampler = "ancestral",
    out: Path = Path("board"),
    json: Switch = False,
) -> None:
    """Compare samplers on languages that are known exactly.

    Examples:
        unmask board run --quick
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
        against: The sampler that accuracy is compared to, row by row.
        out: A directory for a page, board.json, .csv, .svg, .png and the store; made if it is not there.
        json: Print one JSON object instead of tables.
    """
    from dataclasses import asdict

    from unmask.cli.output import show
    from unmask.experiments.board.standings import summary
    from unmask.report.board import PAGE
    from unmask.report.publishing import publish
    from unmask.report.results import STORE

    published = publish(PAGE, ground.settings(samplers, against=against), out, engine=ground.engine)
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


def compare(
    first: Sampler,
    second: Sampler,
    /,
    *,
    ground: Ground,
    evaluations: Number = None,
    out: Path = Path("board"),
    json: Switch = False,
) -> None:
    """Say which of two samplers is right more often for the same evaluations.

    Examples:
        unmask board compare strided ancestral --languages paper-2gram
        unmask board compare entropy-bounded threshold --evaluations 32 --quick
        unmask board compare "ancestral(steps=[64])" "first-hitting(steps=[64])"

    Both write the same rows with the same luck. Between two of its budgets a
    sampler is the mixture of both that takes as many evaluations: each row is
    written with the dearer one by chance, so that its SER lies on the straight line
    between theirs. Without EVALUATIONS a sampler that has one budget alone sets
    them; two that have one each are compared as they are; and two that have several
    are compared in the mean over log2 of the evaluations that both can take.

    A verdict at a level of 5%: by McNemar's exact test where each row is right or
    wrong, else by the interval of the mean difference over rows (Gaffke's). The
    draw of a random language is not in it: by seed says how much they differ.

    What is measured is kept in OUT/sweep; what a board of the same settings has
    measured there is not measured again.

    Args:
        first: A sampler, with options; a list in place of an option makes it the knob.
        second: Another, or the same with other options.
        evaluations: At how many evaluations a row.
        out: The directory of a board, whose store is OUT/sweep; made if it is not there.
        json: Print one JSON object instead of sentences.
    """
    from unmask.cli.output import say, show
    from unmask.experiments.board.versus import versus
    from unmask.report.results import STORE

    settings = ground.settings(())
    found = versus(first, second, settings, evaluations, store=out / STORE, engine=ground.engine)
    if json:
        show({"first": first, "second": second, "languages": [one.to_dict() for one in found]}, True)
        return
    for one in found:
        say(one.sentence(first, second))


def ranks(
    first: BoardFile,
    others: BoardFiles,
    /,
    *,
    out: Directory = None,
    json: Switch = False,
) -> None:
    """Say whether samplers that are better on one board are better on others.

    Examples:
        unmask board ranks ideal/board.json learned/board.json --out ranks

    The first may be the board of a language, and another that of a network that
    has learned it, at the length and the language seed of the network. Samplers are
    ranked by accuracy under parallelism (AUP) on each language and length that both
    have. Kendall's tau is 1 where both rank them alike, 0 where one says nothing of
    the other; p is by permutation. A pair of samplers is turned where their
    intervals are apart on both boards, the other way round.

    Args:
        first: A file board.json.
        others: More of them, as of networks that have learned its languages.
        out: A directory for ranks.svg, .png, .json and .csv; made if it is not there.
        json: Print one JSON object instead of tables.
    """
    from unmask.cli.output import say, show, show_grid
    from unmask.experiments.board.ranks import ranks
    from unmask.report import ranks as report

    if out is not None:
        report.check(out)
    rankings = [made for other in others for made in ranks(first, other)]
    files = [str(path) for path in report.publish(out, rankings, [first, *others])] if out is not None else []
    if json:
        show({"rankings": [made.to_dict() for made in rankings], "files": files}, True)
        return
    for made in rankings:
        rows = [
            [one.sampler, f"{one.first[0]:.3f}", f"{one.second[0]:.3f}", f"{one.first_rank:g}", f"{one.second_rank:g}"]
            for one in made.standings
        ]
        title = f"{made.language}, {made.length} tokens: the first board, and another"
        show_grid(title, ["sampler", "AUP", "other AUP", "rank", "other rank"], rows)
    for made in rankings:
        say(made.sentence())
    print("\n".join(files), end="\n" if files else "")


def _print(made: Board) -> None:
    from unmask.cli.output import say, show_tables
    from unmask.experiments.board.table import HOW_TO_READ, tables
    from unmask.report.board import left_out

    show_tables(tables(made))
    for line in HOW_TO_READ.format(against=made.settings.against).splitlines():
        say(line)
    for line in left_out(made):
        say(line)
    s = made.settings
    print(f"\n{s.seeds} seeds of {s.rows} rows a budget; {made.seconds:.0f} s of work.")


command = {"run": run, "compare": compare, "ranks": ranks}
