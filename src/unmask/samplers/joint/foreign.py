"""A joint draw for a loop that is not ours: plain tensors in, tokens out."""

from __future__ import annotations

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers import Canvas, Denoiser
from unmask.denoisers.denoiser import ROUGH_SUMS, check_sums
from unmask.denoisers.marginals import Table
from unmask.languages.automata import Automaton
from unmask.languages.base import as_tokens
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
    tokens: (B, L); mask: the token that hides a position; the constraint never writes it.
    constraint: such as `unmask.languages.regex(pattern, V, names)`.
    reveal: Bool (B, L), the positions of this step. (default: every masked one)
    generator: random numbers, as in torch. (default: torch's own)
    """
    start, hidden, now = _checked(marginals, tokens, constraint, mask, reveal)
    arguments.of_kind("generator", generator, torch.Generator | None, "a torch.Generator")

    seed = int(torch.randint(SEEDS, (), generator=generator, device=None if generator is None else generator.device))
    canvas = Canvas(Known(marginals), start, Randomness(seed, torch.arange(len(tokens))))
    rows, positions = now.nonzero(as_tuple=True)
    out = tokens.clone()
    if len(rows):
        table = marginals.detach()[hidden.to(marginals.device)].cpu()
        of, at = hidden.nonzero(as_tuple=True)
        check_sums(table, of, at, "the marginals", ROUGH_SUMS)  # they may have been coarser than they are now

        together = Together(Joint(constraint, 0, single=False), canvas)
        together.know(Table(table), hidden)
        drawn, _ = together.draw(rows, positions)
        out[rows, positions] = drawn.to(out)
    return out


def _checked(
    marginals: Tensor, tokens: Tensor, constraint: Automaton, mask: int, reveal: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """On the host: tokens (B, L), V where hidden; Bool (B, L), the hidden positions, and those of this step."""
    arguments.of_kind("constraint", constraint, Automaton, "an automaton, such as unmask.languages.regex(..)")
    tensors = isinstance(marginals, Tensor) and isinstance(tokens, Tensor)
    if not tensors or marginals.shape[:-1] != tokens.shape or tokens.dim() != 2 or not marginals.is_floating_point():
        raise UnmaskError(
            f"marginals are {shown(marginals)}, and tokens {shown(tokens)}",
            "expected tensors, probabilities (B, L, V) and (B, L)",
        )

    vocabulary = constraint.vocabulary
    if vocabulary != marginals.shape[2]:
        raise UnmaskError(
            f"the constraint has {vocabulary} tokens, and the marginals {marginals.shape[2]}",
            "expected the same",
            "Give the tokens beyond the tokenizer an empty text.",
        )

    # a written mask could not be told from a hidden position
    arguments.whole("mask", mask, -arguments.MOST)
    if 0 <= mask < vocabulary and bool((constraint.moves[:, constraint.classes[mask]] >= 0).any()):
        raise UnmaskError(
            f"mask is {mask}, a token that the constraint writes",
            "expected another",
            "Give the mask an empty text, or hide positions by a number that is not a token.",
        )

    known = as_tokens(tokens)
    hidden = known == mask
    start = known.masked_fill(hidden, vocabulary)
    foreign = ~hidden & ((known < 0) | (known >= vocabulary))
    if bool(foreign.any()):
        raise UnmaskError(
            f"a token is {int(known[foreign][0])}", f"expected 0 to {vocabulary - 1}, or {mask} where it is hidden"
        )

    if reveal is None:
        return start, hidden, hidden
    if not isinstance(reveal, Tensor) or reveal.dtype != torch.bool or reveal.shape != tokens.shape:
        kind = f"{reveal.dtype} {tuple(reveal.shape)}" if isinstance(reveal, Tensor) else shown(reveal)
        raise UnmaskError(f"reveal is {kind}; expected torch.bool {tuple(tokens.shape)}, as tokens")
    return start, hidden, hidden & reveal.cpu()
