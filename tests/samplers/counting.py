"""Denoisers that count for themselves: what they are asked is what a generation must say that it has spent."""

from __future__ import annotations

import torch

from unmask import generate
from unmask.denoisers import Cost, Denoiser, Engine
from unmask.languages import random_ngram
from unmask.samplers import SAMPLERS

LANGUAGE = random_ngram(2, 4, seed=1)
OPTIONED = {"blocks": "blocks(block_length=4)", "llada": "llada(block_length=4, temperature=1)"}
LOOKING_BACK = ["token-editing", "p2", "wino"]
SAMPLED = [OPTIONED.get(name, name) for name in SAMPLERS.makers if SAMPLERS.make(name).removes == "mask"]


class Asked(Denoiser):
    """Writes `posterior` alone, and counts its calls, their rows and the tokens of these rows."""

    ideal = True

    def __init__(self, language=LANGUAGE):
        self.language, self.vocabulary = language, language.vocabulary
        self.counted = Cost()

    def posterior(self, tokens, positions=None, time=None):
        self.counted = self.counted + Cost(1, len(tokens), tokens.numel())
        return self.language.posterior(tokens, positions)


class Computing(Denoiser):
    """Writes `engine` alone."""

    ideal = True

    def __init__(self, language=LANGUAGE):
        self.language, self.vocabulary = language, language.vocabulary
        self.counted = Cost()

    def engine(self, tokens, given=None, valid=None):
        if valid is not None:
            return super().engine(tokens, given, valid)
        return Counting(tokens, self)


class Hollow(Computing):
    """The same, which may be asked about revealed positions too: what is said of one is given all the others."""

    def engine(self, tokens, given=None, valid=None):
        return super().engine(tokens, given, valid) if valid is not None else HollowCounting(tokens, self)


class Counting(Engine):
    """Evaluates each row in which it is asked anything, every time."""

    def __init__(self, tokens, denoiser):
        super().__init__(tokens)
        self.denoiser = denoiser

    def at(self, rows, positions, time):
        denoiser, which = self.denoiser, rows.unique()
        if len(which):
            denoiser.counted = denoiser.counted + Cost(1, len(which), len(which) * self.tokens.shape[1])
        self.spend_on(rows)
        return denoiser.language.posterior(self.tokens)[rows, positions]


class HollowCounting(Counting):
    """Each position by a context of its own, which hides it; but one evaluation for all that stands as it does."""

    hollow = True

    def __init__(self, tokens, denoiser):
        super().__init__(tokens, denoiser)
        self.changed = torch.ones(len(tokens), dtype=torch.bool)

    def renew(self, rows, positions):
        self.changed[rows] = True

    def at(self, rows, positions, time):
        which = rows.unique()
        which = which[self.changed[which]]
        self.changed[which] = False
        cost = Cost(int(len(which) > 0), len(which), len(which) * self.tokens.shape[1])
        self.denoiser.counted = self.denoiser.counted + cost
        self.spend_on(which)
        contexts = self.tokens[rows]
        contexts[torch.arange(len(rows)), positions] = self.denoiser.vocabulary
        said = self.denoiser.language.posterior(contexts, positions.unsqueeze(1))
        return said[:, 0]


def counts(source=Asked, **options):
    """A line for every registered sampler: its model calls a row, the rows computed, the forwards."""
    lines = [f"{'sampler':<42}{'model_calls':>12}{'rows':>8}{'forwards':>10}"]
    for name in SAMPLED:
        made = generate(source(), sampler=name, **options)
        needed = float(made.model_calls.double().mean())
        lines.append(f"{name:<42}{needed:>12.2f}{made.spent.rows:>8}{made.spent.forwards:>10}")
    return "\n".join(lines)


def given_patterns(length, rows=5):
    """Blank canvases, prompts of several lengths, and infilling."""
    drawn = LANGUAGE.sample(rows, length, seed=3)
    row, place = torch.arange(rows).unsqueeze(1), torch.arange(length)
    return {
        "blank": torch.full((rows, length), LANGUAGE.vocabulary),
        "ragged prompts": torch.where(place < 2 * row, drawn, LANGUAGE.vocabulary),
        "infilling": torch.where((place + row) % 3 == 1, drawn, LANGUAGE.vocabulary),
    }
