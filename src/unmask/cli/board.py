"""unmask board run|compare."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Counts, Directory, Engine, Grid, Languages, Measuring, Switch, engine_on

if TYPE_CHECKING:
    from unmask.experiments.board import Settings

Sampler = Annotated[str, "SAMPLER"]


@dataclass(frozen=True)
class Ground:
    """Languages, network and number of sequences of a comparison.

    Args:
        languages: Presets or language files. (default: six presets; with --quick, three)
        model: Directory of a network of `unmask train`; it replaces the languages by the one it was trained on.
        causal_model: Directory of an AR network, for samplers that need one.
        lengths: Sequence lengths in tokens; each language uses its nearest length below. (default: 128, or the
            model's)
        rows: Number of sequences for each budget and seed. (default: 400; with --quick, 100)
        seeds: Number of seeds. (default: 3; with --quick, 2)
        quick: Use fewer languages, sequences, seeds and budgets: about a minute.
        seed: First random seed, of samples and of random presets without a seed.
        device: Device of a model: auto, cpu or cuda.
    """

    languages: Languages = ()
    model: Directory = None
    causal_model: Directory = None
    lengths: Counts = ()
    rows: Count = None
    seeds: Count = None
    quick: Switch = False
    seed: int = 0
    device: str = "auto"

    def settings(self, **more: Any) -> Settings:
        from unmask.core.errors import UnmaskError
        from unmask.experiments.board import Settings, quick
        from unmask.models.trained.checkpoints import read_shape

        given = {name: value for name, value in asdict(self).items() if name != "quick" and value not in ((), None)}
        if self.model is not None:
            if self.languages:
                raise UnmaskError("--model has its own language. Leave --languages out")
            given = {"lengths": (read_shape(self.model).length,)} | given | {"model": str(self.model)}
            given |= {} if self.causal_model is None else {"causal_model": str(self.causal_model)}
        elif self.causal_model is not None:
            raise UnmaskError("--causal-model needs --model. Add it, or leave --causal-model out")
        return (quick if self.quick else Settings)(**given, **{name: one for name, one in more.items() if one != ()})

    @property
    def place(self) -> str:
        return "cpu" if self.model is None else self.device


def run(
    *,
    samplers: Annotated[tuple[str, ...], "SAMPLER"] = (),
    ground: Ground,
    against: Sampler = "ancestral",
    steps: Counts = (),
    out: Path = Path("board"),
    by: Measuring = Measuring(),
) -> Answer:
    """Rank samplers on languages with exactly known probabilities.

    Examples:
        unmask board run --quick
        unmask board --samplers ancestral strided --languages sparse-hmm
        unmask board --model mdm --causal-model ar --quick
        unmask board --samplers "speculative(draft_length=[2, 4])" mine:Sampler

    The board shows the model calls that each sampler needs for an SER of 50%, 10%
    and 1%, and for the TER of the language; its accuracy under parallelism (AUP);
    and its diversity. All samplers use the same random numbers, row by row.

    Each sampler runs at several budgets: numbers of steps N, or values of another
    option. A list of values makes an option the budget.

    After an interruption, the same command resumes. OUT/sweep is a store of `unmask
    sweep`. Measurements of other versions of unmask are made again.

    Args:
        samplers: Samplers with options, package.module:Name or file.py:Name. (default: all registered by unmask)
        against: Sampler to compare all others with, row by row.
        steps: Numbers of steps N of samplers that have a number of steps. (default: from L/32 to 8 L)
        out: Directory of the page, board.json, .csv and the store; created if missing.
    """
    from dataclasses import asdict

    from unmask.experiments.board.table import HOW_TO_READ, tables
    from unmask.report.publishing import BOARD, left_out, publish
    from unmask.report.results import STORE

    settings = ground.settings(samplers=samplers, against=against, steps=steps)
    published = publish(BOARD, settings, out, **by.options(ground.place))
    board = published.measured
    files = [str(path) for path in published.files]
    text: list[Grid | str] = [
        Grid(table.title, table.head, [[name, *(value for value, _ in cells)] for name, cells in table.rows])
        for table in tables(board)
    ]
    text += [*HOW_TO_READ.format(against=against).splitlines(), *left_out(board), ""]
    each = f"{board.settings.seeds} seeds with {board.settings.rows} sequences per budget"
    text.append(f"{each}; {board.seconds:.0f} s of compute.")
    if any(failure.value is None for failure in board.failures):
        text.append(f"`unmask sweep retry {out / STORE}` measures the skipped samplers again.")
    about: dict[str, Any] = {"seconds": board.seconds, "files": files}
    about |= {"failures": [asdict(failure) for failure in board.failures]}
    about |= {"standings": [record for record in board.records if record["budget"] is None]}
    return Answer(about, [*text, *files])


def compare(
    first: Sampler,
    second: Sampler,
    /,
    *,
    ground: Ground,
    store: Path = Path("board", "sweep"),
    engine: Engine = None,
) -> Answer:
    """Test which of two samplers writes more correct sequences for the same cost.

    Examples:
        unmask board compare strided ancestral --languages paper-2gram
        unmask board compare entropy-bounded threshold --quick
        unmask board compare mine:Sampler ancestral

    The verdict compares whole curves, at fixed budgets and with the same random
    numbers: the fraction of correct sequences, averaged over log2 of model calls.
    Two equal samplers are called different in at most 5% of comparisons, for each
    language (docs/samplers.md).

    STORE keeps all measurements. A later comparison or board reuses them.

    Args:
        first: Sampler with its options.
        second: Another sampler, or the same with other options.
        store: Store of the sweep, created if missing; a board in OUT has OUT/sweep.
        engine: local, ray or here, as in `unmask sweep run`.
    """
    from unmask.experiments.board.compare import versus

    verdicts = versus(first, second, ground.settings(), store=store, engine=engine_on(ground.place, engine))
    text = [verdict.sentence(first, second) for verdict in verdicts]
    each = [verdict.budgets for verdict in verdicts if verdict.budgets is not None]
    for name, budgets in zip((first, second), zip(*each, strict=True), strict=True):
        text.append(f"Fixed budgets of {name}: {'; '.join(dict.fromkeys(budgets))}.")
    return Answer({"first": first, "second": second, "languages": [verdict.to_dict() for verdict in verdicts]}, text)


command = {"run": run, "compare": compare}
