"""An independent enumeration: a dictionary of contexts, one at a time, for free tables of logits."""

from __future__ import annotations

import itertools

import torch


class Free(torch.nn.Module):
    """Free logits for each context of L positions and V symbols."""

    def __init__(self, vocabulary, length, seed=0, scale=1.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        shape = ((vocabulary + 1) ** length, length, vocabulary)
        self.table = torch.nn.Parameter(scale * torch.randn(shape, generator=generator, dtype=torch.float64))
        self.vocabulary, self.length = vocabulary, length
        self.digits = (vocabulary + 1) ** torch.arange(length).flip(0)

    def forward(self, contexts):
        return self.table[(contexts * self.digits).sum(-1)]

    def at(self, context):
        return self(torch.tensor([context]))[0].log_softmax(-1).exp()


def laws(model, counts, rule, kept=False):
    """p(x) of every text: steps that reveal counts of the positions by `random`, `surest` or `drawn`, ties to the left.

    kept: the gradient is that of the kept tokens of each path.
    """
    length, mask = model.length, model.vocabulary
    layer = {(mask,) * length: torch.tensor(1.0, dtype=torch.float64)}
    for count in counts:
        following = {}
        for context, mass in layer.items():
            p, hidden = model.at(context), [i for i in range(length) if context[i] == mask]
            for draw in itertools.product(range(mask), repeat=len(hidden)):
                token = dict(zip(hidden, draw, strict=True))
                chance = {i: p[i, token[i]] for i in hidden}
                for some, share in sets(rule, hidden, count, {i: float(c.detach()) for i, c in chance.items()}, p):
                    factor = mass * share
                    for i in hidden:
                        own = chance[i] if i in some or not kept else chance[i].detach()
                        factor = factor * own
                    after = tuple(token[i] if i in some else context[i] for i in range(length))
                    following[after] = following.get(after, 0.0) + factor
        layer = following
    return torch.stack([layer[x] for x in itertools.product(range(mask), repeat=length)])


def sets(rule, hidden, count, chance, p):
    if rule == "random":
        every = list(itertools.combinations(hidden, count))
        return [(some, 1 / len(every)) for some in every]
    score = chance if rule == "drawn" else {i: float(p[i].detach().max()) for i in hidden}
    return [(tuple(sorted(hidden, key=lambda i: (-score[i], i))[:count]), 1.0)]
