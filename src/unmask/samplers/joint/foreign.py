"""A joint draw for a loop that is not ours: plain tensors in, tokens out."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Denoiser
from unmask.denoisers.marginals import Table
from unmask.languages.automata import Automaton
from unmask.samplers.joint.drawing import Joint, Together

SEEDS = 2**62


class Known(Denoiser):
    """Marginals (B, L, V) that a model has computed already."""

    def __init__(self, marginals: Tensor) -> None:
        self.marginals, self.vocabulary = marginals, marginals.shape[2]

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        return self.marginals[torch.arange(len(tokens)).unsqueeze(1), positions.expand(len(tokens), -1)]


def joint(
    marginals: Tensor,
    tokens: Tensor,
    constraint: Automaton,
    *,
    mask: int,
    reveal: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Tokens (B, L) with masked positions drawn together, so that the constraint can still be met.

    The whole rows must meet the constraint in the end: cut prompts off. One step draws
    x_S ~ prod_i p_i(x_i) P(constraint | x_S), where P is of the product of the other marginals (draw `coupled`).

    marginals: (B, L, V) probabilities, such as `logits.softmax(-1)`; those of other positions are not read.
    tokens: (B, L); mask: the token that hides a position.
    constraint: such as `unmask.languages.regex(pattern, V, names)`.
    reveal: Bool (B, L), the positions of this step. (default: every masked one)
    generator: random numbers, as in torch. (default: torch's own)
    """
    arguments.of_kind("constraint", constraint, Automaton, "an automaton, such as unmask.languages.regex(..)")
    if marginals.dim() != 3 or marginals.shape[:2] != tokens.shape or not marginals.is_floating_point():
        raise UnmaskError(
            f"marginals are {shown(marginals)}, and tokens {shown(tokens)}",
            "expected probabilities (B, L, V) and (B, L)",
        )
    if constraint.vocabulary != marginals.shape[2]:
        raise UnmaskError(
            f"the constraint has {constraint.vocabulary} tokens, and the marginals {marginals.shape[2]}",
            "expected the same",
            "Give the tokens beyond the tokenizer an empty text.",
        )

    place, hidden = tokens.device, (tokens == mask).cpu()
    now = hidden if reveal is None else hidden & reveal.cpu()
    seed = int(torch.randint(SEEDS, (), generator=generator, device=None if generator is None else generator.device))
    start = torch.where(hidden, constraint.vocabulary, tokens.cpu())
    canvas = Canvas(Known(marginals), start, Randomness(seed, torch.arange(len(tokens))))
    rows, positions = now.nonzero(as_tuple=True)
    out = tokens.clone()
    if len(rows):
        together = Together(Joint(constraint, 0, single=False), canvas)
        together.know(Table(marginals[hidden.to(marginals.device)].cpu()), hidden)
        drawn, _ = together.draw(rows, positions)
        out[rows, positions] = drawn.to(place)
    return out
