"""Training objectives: an unbiased estimate of the NELBO of each row, in nats per sequence (theory.md 1).

MDM, one position at a time in random order:

    NELBO(x) = L E_n E_{|M|=n} [ mean_{j in M} -log p(x_j | x_R) ],   n uniform in 1..L, M uniform, R the rest

This equals int (1/t) E_M[sum] dt. Here the number of hidden positions is drawn in proportion to its weight times
itself, so every estimate is L times a mean. 1/t times a sum would have infinite variance near t = 0. Given n, the time
is Beta(n, L-n+1): the n-th smallest of L uniforms; M holds the n smallest.

AR model: -log p(x) = sum_j -log p(x_j | x_<j), exactly.

Soft targets replace the sampled token by its exact distribution, if the language knows it:

    grad E_{x_j ~ q(. | x_R)} [-log p(x_j | x_R)]  =  grad -sum_v q(v | x_R) log p(v | x_R)

The minimiser and the expected gradient are the same, without the noise of sampling x_j.

A prompt, c tokens at the beginning, is always shown and not learned: everything is conditional on it, L becomes L - c,
and M lies after the prompt.

A language with an end symbol pads after it. Both kinds fill all L positions and are trained on the padding too, which
adds almost nothing to the loss. Nats per token are nats over |x|, the tokens up to and including the first end.

Uniform noise: from noisy tokens y at level a (denoisers/noise.py) a network predicts the clean ones.

    loss(x) = L E_a E_y [ mean_i -log p_i(x_i | y, a) ],    log(1 - a) uniform between log LEAST_NOISE and 0

Cross-entropy is proper at every level, so the minimiser is the full posterior p_i = q(x_i | y), whatever the weights of
the levels. These are the levels of a sampler whose noise falls geometrically. r follows by division (`without_own`),
exactly. A network whose outputs are r would have to learn log r ~ log(1 - a) of a wrong token; q(x_i | y) hardly
depends on a there.

Soft targets replace x_i by its exact distribution q(x_i | y), with the same expected gradient.

Validation is the NELBO of infinitely many steps, in nats like the NELBO of masks and above the same entropy. With
a = e^-t each token jumps at rate 1 to a random symbol, and backwards to b at rate s_i(b) / V:

    NELBO(x) = E int dt sum_i sum_b [ s_i(b) - u_i(b) log s_i(b) + u_i(b) (log u_i(b) - 1) ] / V
    s_i(b) = (a r_i(b) + (1 - a) / V) / (a r_i(y_i) + (1 - a) / V),    u_i(b) = E_a(x_i, b) / E_a(x_i, y_i)

The integral omits 1 - a < LEAST_NOISE, about LEAST_NOISE nats per token; dt = (1 - a) / a dlog(1 - a).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core.chance import Randomness, Stream
from unmask.core.entries import chosen
from unmask.core.memory import fits
from unmask.denoisers import Ideal, UniformIdeal
from unmask.denoisers.marginals import as_marginals
from unmask.denoisers.noise import without_own
from unmask.languages import Language
from unmask.models.trained.memory import sent
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import LEAST_NOISE

OWN = 2  # visit of the uniforms that a row has besides those of its positions
KEPT, FRESH = 3, 4  # visits for whether a token is kept, and for the symbol that replaces it
PERIOD = 6  # largest period of spread masks with runs of length 1
Network = Callable[..., Tensor]  # a trunk, or a function with its signature


class Masks(NamedTuple):
    """Hidden positions of an MDM: in each row the first `counts` of `order`."""

    order: Tensor  # (B, L)
    counts: Tensor  # (B), at least 1
    time: Tensor  # (B): the corresponding time, for networks that have it as an input

    def select(self, rows: Tensor | slice) -> Masks:
        return Masks(*(part[rows] for part in self))

    def to(self, device: torch.device) -> Masks:
        return Masks(*(part.to(device, non_blocking=True) for part in self))

    def hide(self, tokens: Tensor, mask: int) -> Tensor:
        """Tokens (B, L) with the mask at hidden positions."""
        ranks = torch.empty_like(self.order).scatter_(1, self.order, self._places.expand_as(self.order))
        return torch.where(ranks < self.counts.unsqueeze(1), mask, tokens)

    def mean(self, losses: Tensor) -> Tensor:
        """(B): mean over hidden positions of losses (B, A) at the first A positions of the order."""
        counted = self._places[: losses.shape[1]] < self.counts.unsqueeze(1)
        return torch.where(counted, losses, 0.0).sum(1) / self.counts

    @property
    def _places(self) -> Tensor:
        return torch.arange(self.order.shape[1], device=self.order.device)


def draw_masks(rng: Randomness, batch: int, length: int, prompt: int = 0) -> Masks:
    """Draw masks for the NELBO, after a prompt.

    Low discrepancy: row r draws its number of hidden positions from the (r mod batch)-th of `batch` equal parts of its
    distribution. Every batch thus covers the distribution, in increasing order of rows.
    """
    left = length - prompt
    labels = rng.grid(Stream.ORDER, length)
    labels[:, :prompt] = torch.inf
    own = rng.grid(Stream.ORDER, 1, OWN).squeeze(1)
    quantile = (rng.row_ids % batch + own) / batch
    counts = 1 + (quantile * left).long().clamp(max=left - 1)
    ordered = labels.sort(1)
    return Masks(ordered.indices, counts, ordered.values.gather(1, counts.unsqueeze(1) - 1).squeeze(1))


def spread_out(masks: Masks, rng: Randomness, share: float, run: int = 1, prompt: int = 0) -> Masks:
    """Let a fraction `share` of the rows hide w neighbouring positions of every s: a curriculum.

    s is from 2 to 6 or to twice the longest run, if that is more; w is from 1 to `run`, at most s/2. The context next
    to a hidden position is the most useful, and here it is complete. Random masks of few positions also show it, but
    teach fewer positions; with many hidden positions it is rarely complete. At the ends of a run only one side is
    known. If a symbol occurs twice, as the result of a sum and the next operand, only a run forces the network to
    compute it. Use this at the start of a training only: the loss is not the NELBO.
    """
    own = rng.grid(Stream.ORDER, 4, OWN)
    period = 2 + (own[:, :1] * (max(PERIOD, 2 * run) - 1)).long()
    first = (own[:, 1:2] * period).long()
    wide = 1 + (own[:, 3:] * (period // 2).clamp(max=run)).long()

    places = torch.arange(masks.order.shape[1])
    apart = (((places - first) % period >= wide) | (places < prompt)).long()
    order = apart.argsort(dim=1, stable=True)
    counts = (1 - apart).sum(1)
    chosen = (own[:, 2] < share) & (counts > 0)

    return Masks(
        torch.where(chosen.unsqueeze(1), order, masks.order),
        torch.where(chosen, counts, masks.counts),
        torch.where(chosen, counts.double() / (len(places) - prompt), masks.time),
    )


def masked_nats(
    network: Network,
    mask: int,
    tokens: Tensor,
    masks: Masks,
    most: int,
    distributions: Tensor | None = None,
    prompt: int = 0,
) -> Tensor:
    """(B): L without the prompt times the mean of -log p(x_j | x_R) over hidden positions, at most `most` per row.

    With distributions (B, most, V) at the hidden positions, its expectation over x_j.
    """
    columns = masks.order[:, :most]
    logits = network(masks.hide(tokens, mask), columns, masks.time.float())  # a network without time ignores it

    targets = chosen(distributions, tokens.gather(1, columns))
    return (tokens.shape[1] - prompt) * masks.mean(surprise(logits, targets))


def causal_nats(
    network: Network, start: int, tokens: Tensor, distributions: Tensor | None = None, prompt: int = 0
) -> Tensor:
    """(B): sum of -log p(x_j | x_<j) after the prompt; with distributions (B, L, V), its expectation over x_j."""
    nats = surprise(network(follows(tokens, start)), chosen(distributions, tokens))
    return nats[:, prompt:].sum(1)


def follows(tokens: Tensor, start: int) -> Tensor:
    """(B, L): input of an AR model, the start and all tokens but the last."""
    return torch.cat([torch.full_like(tokens[:, :1], start), tokens[:, :-1]], 1)


def hidden_distributions(language: Language, tokens: Tensor, masks: Masks, most: int) -> Tensor:
    """(B, most, V) float32: q(x_j | x_R) at the first positions of the order, one-hot if revealed."""
    return language.posterior(masks.hide(tokens, language.vocabulary), masks.order[:, :most]).float()


def next_distributions(language: Language, tokens: Tensor) -> Tensor:
    """(B, L, V) float32: q(x_j | x_<j)."""
    rows, length = tokens.shape
    marginals = Ideal(language).causal(rows, length).extend(follows(tokens, language.vocabulary))
    return as_marginals(marginals).dense().view(rows, length, -1).to(torch.float32)


def surprise(logits: Tensor, truth: Tensor) -> Tensor:
    """-log p(truth) (B, A) from logits (B, A, V), at least in float32; its expectation if truth is (B, A, V)."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return functional.cross_entropy(logits.flatten(0, 1), truth.flatten(0, 1), reduction="none").view(truth.shape[:2])


class Noisy(NamedTuple):
    """Rows under noise; a prompt has none."""

    tokens: Tensor  # (B, L): y
    level: Tensor  # (B) float64: a
    prompt: int = 0

    def select(self, rows: Tensor | slice) -> Noisy:
        return Noisy(self.tokens[rows], self.level[rows], self.prompt)

    def to(self, device: torch.device) -> Noisy:
        tokens = self.tokens.to(device, non_blocking=True)
        return Noisy(tokens, self.level.to(device, non_blocking=True), self.prompt)

    @property
    def known(self) -> Tensor:
        """Bool (B, L): positions without noise."""
        return (torch.arange(self.tokens.shape[1]) < self.prompt).expand(self.tokens.shape)


def draw_noise(rng: Randomness, batch: int, tokens: Tensor, vocabulary: int, prompt: int = 0) -> Noisy:
    """Draw the noise of tokens (B, L). Levels have low discrepancy, like the numbers of masks (`draw_masks`)."""
    own = rng.grid(Stream.ORDER, 1, OWN).squeeze(1)
    level = 1 - LEAST_NOISE ** ((rng.row_ids % batch + own) / batch)
    keep = rng.grid(Stream.ORDER, tokens.shape[1], KEPT)
    fresh = rng.grid(Stream.ORDER, tokens.shape[1], FRESH)
    keep[:, :prompt] = -1.0
    return Noisy(torch.where(keep < level.unsqueeze(1), tokens, (fresh * vocabulary).long()), level, prompt)


def noisy_nats(network: Network, tokens: Tensor, noisy: Noisy, distributions: Tensor | None = None) -> Tensor:
    """(B): sum of -log p_i(x_i | y) after the prompt; with distributions (B, L, V), its expectation over x_i."""
    logits = network(noisy.tokens, None, noisy.level)
    return surprise(logits, chosen(distributions, tokens))[:, noisy.prompt :].sum(1)


def clean_distributions(language: Language, noisy: Noisy) -> Tensor:
    """(B, L, V) float32: q(x_i | y)."""
    return UniformIdeal(language).full().posterior(noisy.tokens, time=noisy.level, known=noisy.known).float()


def alone(full: Tensor, noisy: Noisy) -> Tensor:
    """(B, L, V) float64: r, from q(x_i | y) (B, L, V)."""
    level = noisy.level.repeat_interleave(full.shape[1])
    return without_own(full.double().flatten(0, 1), noisy.tokens.flatten(), level).view_as(full)


def nelbo(alone: Tensor, tokens: Tensor, noisy: Noisy) -> Tensor:
    """(B): an unbiased estimate of the NELBO of tokens (B, L), in nats, from r (B, L, V); one level for each row."""
    vocabulary = alone.shape[2]
    level = noisy.level.repeat_interleave(tokens.shape[1])
    own = noisy.tokens.reshape(-1)
    clean = functional.one_hot(tokens.reshape(-1), vocabulary).double()

    def ratios(r: Tensor) -> Tensor:
        shown = level.unsqueeze(1) * r + (1 - level.unsqueeze(1)) / vocabulary
        return shown / shown.gather(1, own.unsqueeze(1))

    guess, truth = ratios(alone.flatten(0, 1)), ratios(clean)
    rates = (guess - truth - truth * (guess / truth).log()).sum(1).view(tokens.shape) / vocabulary
    return rates[:, noisy.prompt :].sum(1) * -math.log(LEAST_NOISE) * (1 - noisy.level) / noisy.level


class Objective(NamedTuple):
    """The loss of networks of a shape; prompt: tokens that are always shown, and not learned."""

    shape: Shape
    prompt: int = 0

    def draw(self, rng: Randomness, batch: int, tokens: Tensor) -> Masks | Noisy | None:
        """Draw masks or noise for tokens (B, L); None for an AR model. batch: rows that cover the distribution."""
        if self.shape.noise == "uniform":
            return draw_noise(rng, batch, tokens, self.shape.vocabulary, self.prompt)
        return None if self.shape.causal else draw_masks(rng, batch, tokens.shape[1], self.prompt)

    def distributions(self, language: Language, tokens: Tensor, hidden: Masks | Noisy | None) -> Tensor:
        """The exact distribution of each target, (B, .., V)."""
        symbols = language.vocabulary
        fits(tokens.numel(), f"distributions of {symbols} symbols", 24 * symbols, "the batch size")
        if hidden is None:
            return next_distributions(language, tokens)
        if isinstance(hidden, Noisy):
            return clean_distributions(language, hidden)
        return hidden_distributions(language, tokens, hidden, int(hidden.counts.max()))

    def nats(
        self,
        network: Network,
        device: torch.device,
        tokens: Tensor,
        hidden: Masks | Noisy | None,
        distributions: Tensor | None = None,
    ) -> Tensor:
        """(B): the loss on a device of tokens (B, L) on the host."""
        clean = tokens.to(device, non_blocking=True)
        soft = sent(distributions, device)

        if hidden is None:
            return causal_nats(network, self.shape.vocabulary, clean, soft, self.prompt)
        if isinstance(hidden, Noisy):
            return noisy_nats(network, clean, hidden.to(device), soft)
        most = int(hidden.counts.max())  # on the host, which would otherwise wait
        return masked_nats(network, self.shape.vocabulary, clean, hidden.to(device), most, soft, self.prompt)
