"""The settings of a board and of a comparison: options of commands, and arguments of `board`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from unmask.core import arguments
from unmask.core.errors import UnmaskError

QUICK_LANGUAGES = ("paper-2gram", "sparse-hmm", "interval-5")
LANGUAGES = (*QUICK_LANGUAGES, "paper-3gram", "modular-sum", "brackets")


@dataclass(frozen=True, kw_only=True)
class Comparing:
    """Languages, network and number of sequences of a comparison of samplers.

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

    languages: Annotated[tuple[str, ...], "LANGUAGE"] = ()
    model: Annotated[str | None, "DIR"] = None
    causal_model: Annotated[str | None, "DIR"] = None
    lengths: tuple[int, ...] = ()
    rows: int | None = None
    seeds: int | None = None
    quick: bool = False
    seed: int = 0
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Settings(Comparing):
    """Samplers, languages and sizes of a board; those that are not given get their usual values."""

    rows: Any = None  # of each seed; a number once it is made
    seeds: Any = None  # each has its own random language, unless its spec has a seed
    samplers: tuple[str, ...] = ()  # all registered ones if empty
    steps: tuple[int, ...] = ()  # N, if that is the knob
    against: str = "ancestral"  # the sampler for comparisons, row by row
    ter_share: Any = None  # true sequences for TER, as a fraction of rows; 0 leaves TER out

    def __post_init__(self) -> None:
        from unmask.core.chance import MAX_SEED  # here, since the help of a command imports this module
        from unmask.models.trained.checkpoints import read_shape
        from unmask.samplers import SAMPLERS

        for name in ("languages", "samplers", "lengths", "steps"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str | int) else tuple(value))
        if self.model and self.languages:
            raise UnmaskError("--model has its own language. Leave --languages out")
        if self.causal_model and not self.model:
            raise UnmaskError("--causal-model needs --model. Add it, or leave --causal-model out")

        usual: dict[str, Any] = {"rows": 400, "seeds": 3, "ter_share": 0.5, "languages": LANGUAGES, "lengths": (128,)}
        if self.quick:
            usual |= {"rows": 100, "seeds": 2, "ter_share": 0.25, "languages": QUICK_LANGUAGES}
        if self.model:
            usual["languages"] = ()
        if self.model and not self.lengths:
            usual["lengths"] = (read_shape(self.model).length,)

        for name, value in usual.items():
            if getattr(self, name) in (None, ()):
                object.__setattr__(self, name, value)

        arguments.whole("rows", self.rows, 1, arguments.MOST_ROWS)
        arguments.whole("seeds", self.seeds, 1, arguments.MOST_ROWS)
        arguments.whole("seed", self.seed, 0, MAX_SEED - self.seeds)
        for steps in self.steps:
            arguments.steps(steps)
        SAMPLERS.make(self.against)
