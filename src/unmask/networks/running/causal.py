"""An AR network as a causal reader: it keeps what it has read, reads several tokens at once, and draws to the end."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial

import torch
from torch import Tensor

from unmask.core.chance import Luck, Stream, categorical
from unmask.denoisers import Causal, Marginals
from unmask.denoisers.contracts import Cost
from unmask.denoisers.stateless import followed
from unmask.networks.model.cache import Memory
from unmask.networks.running.evaluation import Evaluator, fitted, probabilities


class NetworkCausal(Causal):
    """p(x_j | x_<j) of rows whose keys and values are kept; a row begins with the start, which is V."""

    def __init__(self, evaluator: Evaluator, rows: int, length: int) -> None:
        super().__init__(rows)
        self.evaluator, self.trunk, self.length = evaluator, evaluator.trunk, length
        about = self.trunk.device, self.trunk.dtype
        what, memory = (
            f"of {length} tokens read",
            partial(Memory, self.trunk.shape, length=length, device=about[0], dtype=about[1]),
        )
        self.memory = fitted(memory, rows, what, self.trunk.device)

    @torch.no_grad()
    def extend(self, tokens: Tensor, counts: Tensor | None = None, asked: Tensor | None = None) -> Marginals:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        answered = followed(self.memory.lengths - 1, counts, tokens.shape[1], self.length, asked)
        read = (counts > 0).nonzero().squeeze(1)
        states = [self.trunk.embed.weight[:0]]
        for rows in read.split(self.evaluator.batch or max(len(read), 1)):
            width = int(counts[rows].max())
            given = tokens[rows, :width].to(self.trunk.device)
            found = self.trunk.states(given, memory=self.memory, rows=None if len(rows) == len(tokens) else rows)
            states.append(found[answered[rows, :width].to(self.trunk.device)])
            self.spend(Cost(1, len(rows), int(counts[rows].sum())))
        self.memory.lengths = self.memory.lengths + counts
        self.need(counts > 0)
        return self.evaluator.said(torch.cat(states))

    def rewind(self, lengths: Tensor) -> None:
        self.memory.lengths = torch.minimum(self.memory.lengths, lengths + 1)

    @torch.no_grad()
    def finish(self, last: Tensor, tokens: Tensor, luck: Luck) -> Tensor:
        """One place of all rows after another: a row joins in at the first place that it has not read.

        So rows stand at the same place whatever they were given, and those that have begun are the first ones.
        """
        read = self.memory.lengths
        rows = read.argsort(stable=True)
        begins = read[rows].tolist()
        even = begins[0] == begins[-1]
        kept = self.memory.kept if even else self.memory.kept[:, :, rows.to(self.trunk.device)]
        positions = torch.arange(begins[0], self.length)
        uniforms = luck.uniform(Stream.TOKEN, rows, positions.unsqueeze(1)).to(self.trunk.device)  # (places, B)
        current = last[rows].to(self.trunk.device)
        filled = current.new_zeros(uniforms.shape)
        chances = torch.zeros_like(uniforms)
        compiled = even and self.evaluator.compiled  # else shapes change on the way
        places = positions.to(self.trunk.device)
        if compiled:
            torch._dynamo.mark_static_address(kept)
        for index, place in enumerate(positions.tolist()):
            begun = bisect_right(begins, place)
            if compiled:
                logits = self.evaluator.step(current, places[index : index + 1], kept)
            else:
                logits = self.trunk.step(current[:begun], place, kept[:, :, :begun])
            marginals = probabilities(logits)
            new = categorical(marginals, uniforms[index, :begun])
            filled[index, :begun] = current[:begun] = new
            chances[index, :begun] = marginals.gather(1, new.unsqueeze(1)).squeeze(1)
        probability = torch.ones(tokens.shape, dtype=torch.float64)
        for mine, found in ((tokens, filled), (probability, chances)):
            mine[rows, begins[0] :] = torch.where(
                positions >= read[rows].unsqueeze(1), found.T.cpu(), mine[rows, begins[0] :]
            )
        left = self.length - read
        self.need(left)
        total = int(left.sum())
        self.spend(Cost(int(left.max()), total, total))
        return probability
