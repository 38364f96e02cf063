"""An AR network as a causal reader: it has a KV cache, reads several tokens at once, and samples to the end."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial

import torch
from torch import Tensor

from unmask.core.chance import Randomness, Stream, categorical
from unmask.denoisers import Causal, Marginals
from unmask.denoisers.contracts import Cost
from unmask.denoisers.denoiser import followed
from unmask.models.trained.cache import Memory
from unmask.models.trained.evaluation import Evaluator, fitted, probabilities


class NetworkCausal(Causal):
    """p(x_j | x_<j) of rows whose keys and values are cached; each row begins with the start symbol V."""

    def __init__(self, evaluator: Evaluator, rows: int, length: int) -> None:
        super().__init__(rows)
        self.evaluator, self.trunk, self.length = evaluator, evaluator.trunk, length
        device, dtype = self.trunk.device, self.trunk.dtype
        memory = partial(Memory, self.trunk.shape, length=length, device=device, dtype=dtype)
        self.memory = fitted(memory, rows, f"of {length} tokens in a KV cache", device)

    @torch.no_grad()
    def extend(self, tokens: Tensor, counts: Tensor | None = None, selected: Tensor | None = None) -> Marginals:
        counts = torch.full((len(tokens),), tokens.shape[1]) if counts is None else counts
        answered = followed(self.memory.lengths - 1, counts, tokens.shape[1], self.length, selected)
        read = (counts > 0).nonzero().squeeze(1)
        states = [self.trunk.embed.weight[:0]]
        for rows in read.split(self.evaluator.batch or max(len(read), 1)):
            width = int(counts[rows].max())
            given = tokens[rows, :width].to(self.trunk.device)
            computed = self.trunk.states(given, memory=self.memory, rows=None if len(rows) == len(tokens) else rows)
            states.append(computed[answered[rows, :width].to(self.trunk.device)])
            self.spend(Cost(1, len(rows), int(counts[rows].sum())))
        self.memory.lengths = self.memory.lengths + counts
        self.need(counts > 0)
        return self.evaluator.marginals(torch.cat(states))

    def rewind(self, lengths: Tensor) -> None:
        self.memory.lengths = torch.minimum(self.memory.lengths, lengths + 1)

    @torch.no_grad()
    def finish(self, last: Tensor, tokens: Tensor, rng: Randomness) -> Tensor:
        """Sample one position of all rows after another; a row joins at the first position that it has not read.

        So all active rows are at the same position. Rows are sorted: the active rows come first.
        """
        read = self.memory.lengths
        rows = read.argsort(stable=True)
        begins = read[rows].tolist()
        even = begins[0] == begins[-1]
        cache = self.memory.cache if even else self.memory.cache[:, :, rows.to(self.trunk.device)]
        positions = torch.arange(begins[0], self.length)
        uniforms = rng.uniform(Stream.TOKEN, rows, positions.unsqueeze(1)).to(self.trunk.device)  # (positions, B)
        current = last[rows].to(self.trunk.device)
        filled = current.new_zeros(uniforms.shape)
        chances = torch.zeros_like(uniforms)
        compiled = even and self.evaluator.compiled  # otherwise the shapes change
        places = positions.to(self.trunk.device)
        if compiled:
            torch._dynamo.mark_static_address(cache)
        for index, place in enumerate(positions.tolist()):
            begun = bisect_right(begins, place)
            if compiled:
                logits = self.evaluator.step(current, places[index : index + 1], cache)
            else:
                logits = self.trunk.step(current[:begun], place, cache[:, :, :begun])
            marginals = probabilities(logits)
            new = categorical(marginals, uniforms[index, :begun])
            filled[index, :begun] = current[:begun] = new
            chances[index, :begun] = marginals.gather(1, new.unsqueeze(1)).squeeze(1)
        probability = torch.ones(tokens.shape, dtype=torch.float64)
        for mine, values in ((tokens, filled), (probability, chances)):
            mine[rows, begins[0] :] = torch.where(
                positions >= read[rows].unsqueeze(1), values.T.cpu(), mine[rows, begins[0] :]
            )
        left = self.length - read
        self.need(left)
        total = int(left.sum())
        self.spend(Cost(int(left.max()), total, total))
        return probability
