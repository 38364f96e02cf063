"""A reader asks a denoiser about the contexts of a path, in batches, and counts the model calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from unmask.core.threads import over_blocks
from unmask.denoisers import Denoiser, Marginals, as_marginals
from unmask.diagnosis.gap.path import Path, spread

CONTEXTS = 2**18  # tokens of contexts that are evaluated together
NUMBERS = 2**23  # probabilities that are held together
DENSE = 2**12  # symbols above which marginals are computed in pieces

Result = TypeVar("Result")


class Reader:
    """c(. | context) of a denoiser for the steps of a path; temperature: of the sampler's own draws."""

    def __init__(self, denoiser: Denoiser, path: Path, temperature: float = 1.0) -> None:
        self.denoiser, self.path, self.temperature = denoiser, path, temperature
        self._asked: list[int] = []  # model calls, which threads append

    @property
    def model_calls(self) -> int:
        return sum(self._asked)

    def at(
        self, steps: Tensor, shown: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor]
    ) -> tuple[Marginals, Tensor]:
        """Marginals of wanted entries, and Bool (C): contexts that are known to be impossible.

        steps (C): the step of each context. shown: (context, entry) of tokens of the step that are also revealed.
        wanted: (context ascending, entry).
        """
        path, rows = self.path, self.path.row[steps]
        tokens = path.contexts(steps)
        tokens[shown[0], path.position[shown[1]]] = path.token[shown[1]]
        valid = path.valid[rows]
        engine = self.denoiser.engine(tokens, path.given[rows], None if bool(valid.all()) else valid)
        time = None if self.denoiser.time_free else path.time[steps]
        marginals = as_marginals(engine.at(wanted[0], path.position[wanted[1]], time))
        self._asked.append(len(steps) * self.denoiser.calls)
        dead = engine.dead()
        return marginals, torch.zeros(len(steps), dtype=torch.bool) if dead is None else dead

    def drawn(self, marginals: Marginals) -> Marginals:
        """The distribution that the sampler draws from: the marginals at its own temperature."""
        return marginals if self.temperature in (0, 1) else marginals.sharpened(self.temperature)

    def each(self, work: Callable[[slice], Result], steps: Tensor, contexts: int) -> Iterator[tuple[slice, Result]]:
        """`work` of slices of steps (C), in order, on all threads if the denoiser allows it.

        A step takes `contexts` contexts and predictions for all its tokens in each."""
        parts = list(self._batches(steps, contexts))
        if self.denoiser.concurrent:
            results = over_blocks(lambda one: work(parts[one.start]), len(parts), 1, 1)
        else:
            results = map(work, parts)
        return zip(parts, results, strict=True)

    def _batches(self, steps: Tensor, contexts: int) -> Iterator[slice]:
        length = self.path.given.shape[1]
        most = self.denoiser.rows_at_once(length) or CONTEXTS
        each = max(contexts * length / CONTEXTS, contexts / most)
        width = min(self.denoiser.vocabulary, DENSE)
        cost = each + self.path.size[steps].double() * contexts * width / NUMBERS
        part = cost.cumsum(0).floor().long()
        ends = torch.cat([(part[1:] != part[:-1]).nonzero().squeeze(1) + 1, torch.tensor([len(steps)])]).tolist()
        begin = 0
        for end in ends:
            if end > begin:
                yield slice(begin, end)
            begin = end

    def entries(self, steps: Tensor) -> tuple[Tensor, Tensor]:
        """(context, entry) of all entries of steps (C)."""
        return spread(self.path.first[steps], self.path.size[steps])
