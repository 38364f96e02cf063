"""How much the demo measures."""

from __future__ import annotations

from dataclasses import dataclass

from unmask.core import arguments

LARGE = ("paper-3gram", "paper-4gram")  # where a row is dear


@dataclass(frozen=True)
class Settings:
    """How much is measured; the defaults are the demo's, and those of recipes/demo.yaml."""

    rows: int = 2000
    small_rows: int = 500  # of the larger languages, and of each point of the length panel
    seed: int = 0  # of the luck
    language_seed: int = 0
    generative_perplexity: bool = False
    lengths: tuple[str, ...] = ()  # languages of the length panel beside the standard two
    languages: tuple[str, ...] = ("paper-2gram", "paper-3gram", "paper-4gram", "sparse-hmm", "interval-5")
    steps: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024, 2048)
    length: int = 512
    panel_languages: tuple[str, ...] = ("paper-2gram", "interval-5")
    panel_lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    profile_rows: int = 100
    perplexity_rows: int = 200
    excess: float = 0.01  # of TER, in the length panel
    ser: float = 0.5
    samplers: tuple[str, ...] = (
        "ancestral",
        "low-confidence",
        "entropy",
        "strided",
        "clairvoyant",
        "gibbs(stride=8)",
        "speculative",
    )
    sampler_languages: tuple[str, ...] = ("paper-2gram", "sparse-hmm", "interval-5")
    sampler_length: int = 128
    sampler_rows: int = 100  # of all seeds together

    def __post_init__(self) -> None:
        for name in ("rows", "small_rows"):
            arguments.whole(name, getattr(self, name), 1, arguments.MOST_ROWS)

    @property
    def panel(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.panel_languages + self.lengths))

    @property
    def shown(self) -> tuple[str, ...]:
        """All that have a place in a figure against N or L."""
        return tuple(dict.fromkeys(self.languages + self.panel))
