"""Marginals: predictions p(v) over V symbols for K entries, which stay on the device that computed them.

A sampler needs few numbers of them: a confidence, the probability of a token, the symbol that a uniform draws. Two
classes provide them. `Table` has probabilities on the host, for exact denoisers and small vocabularies. `Logits`, for
vocabularies of 150,000 symbols and more, stay on the device of the network and are processed in pieces that fit its
caches, without probabilities (K, V). Results are on the host, in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import BLOCK, categorical, search
from unmask.core.errors import UnmaskError
from unmask.denoisers.scan import FLOAT32, IMPOSSIBLE, Combine, Combined, Scaled, Scan, Stored, lowest_first

if TYPE_CHECKING:
    from jaxtyping import Float, Float64, Int

EXACT = 1e-9  # probabilities in float64 that differ by less count as equal


class Marginals(ABC):
    """p(v) of K entries; indexing selects entries, as in a tensor (K, V)."""

    vocabulary: int
    resolution: float  # probabilities that differ by less count as equal

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def __getitem__(self, entries: Tensor) -> Marginals:
        """Select entries by index, or by Bool (K)."""

    @property
    @abstractmethod
    def confidence(self) -> Float64[Tensor, " K"]:
        """(K): max_v p(v)."""

    @property
    @abstractmethod
    def margin(self) -> Float64[Tensor, " K"]:
        """(K): p_(1) - p_(2)."""

    @property
    @abstractmethod
    def entropy(self) -> Float64[Tensor, " K"]:
        """(K): -sum_v p log p, in nats, 0 or more."""

    @property
    @abstractmethod
    def best(self) -> Int[Tensor, " K"]:
        """(K): the most likely symbol, the lowest of equally likely ones."""

    @abstractmethod
    def of(self, tokens: Int[Tensor, "K ..."]) -> Float64[Tensor, "K ..."]:
        """(K) or (K, n): the probability of one token each (K), or of n (K, n)."""

    @abstractmethod
    def divergence(self, other: Marginals) -> Float64[Tensor, " K"]:
        """(K) nats: sum_v p log(p / other), 0 or more; infinite if other excludes a possible symbol."""

    @abstractmethod
    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        """p^(1/T), restricted to the fewest most likely symbols with mass top_p, and of these to the first top_k.

        T = 0 leaves only the best symbol. Of equal symbols the lowest come first. The result sums to 1.
        """

    def nucleus(self, most: float) -> Table:
        """The most likely symbols with probabilities that sum to at most `most`, at least one, normalized.

        The symbol that crosses `most` is dropped; `sharpened` keeps it. Of equal symbols the lowest come first.
        """
        table = Table(self.dense().double(), self.resolution)
        symbols = table._descending()
        beyond = table.probabilities.gather(1, symbols).cumsum(1) > most + self.resolution
        beyond[:, 0] = False
        rest = table._without(symbols, beyond).probabilities
        return Table(rest / rest.sum(1, keepdim=True), self.resolution)

    @abstractmethod
    def beyond(self, other: Marginals, factor: Float[Tensor, " K"] | None = None) -> Marginals:
        """(c p - other)+, normalized: the mass that accepted drafts of `other` do not cover (theory.md 10).

        c = factor (K). (default: 1)
        """

    @abstractmethod
    def excess(self, other: Marginals, factor: Float[Tensor, " K"]) -> Float64[Tensor, " K"]:
        """(K): the sum of (c p - other)+ over all symbols, c = factor (K)."""

    @abstractmethod
    def guided(self, other: Marginals, scale: float) -> Marginals:
        """p^(1+w) / other^w, normalized: classifier-free guidance with w = scale, away from `other`."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "K V"]:
        """(K, V): the probabilities themselves."""

    @abstractmethod
    def draw(self, u: Float[Tensor, " K"]) -> Int[Tensor, " K"]:
        """(K): the symbol of each uniform (K), by inverse CDF in the order of symbols."""


def check_sharpening(temperature: float, top_p: float, top_k: int | None) -> None:
    """Check a temperature, a fraction of the mass and a number of symbols."""
    arguments.number("temperature", temperature)
    arguments.number("top_p", top_p, 0, 1, above=True)
    if top_k is not None:
        arguments.whole("top_k", top_k)


def columns(tokens: Tensor) -> Tensor:
    """(K, n) of tokens (K) or (K, n)."""
    return tokens if tokens.dim() == 2 else tokens.unsqueeze(1)


class Table(Marginals):
    """Probabilities (K, V) on the host."""

    def __init__(self, probabilities: Float[Tensor, "K V"], resolution: float | None = None) -> None:
        self.probabilities = probabilities
        self.vocabulary = probabilities.shape[-1]
        self.resolution = resolution or (EXACT if probabilities.dtype == torch.float64 else FLOAT32)

    def __len__(self) -> int:
        return len(self.probabilities)

    def __getitem__(self, entries: Tensor) -> Table:
        return self._with(self.probabilities[entries])

    @property
    def confidence(self) -> Float64[Tensor, " K"]:
        return self.probabilities.amax(-1).double()

    @property
    def margin(self) -> Float64[Tensor, " K"]:
        if self.probabilities.shape[1] == 1:
            return self.confidence
        first, second = self.probabilities.topk(2, dim=-1).values.double().unbind(-1)
        return first - second

    @property
    def entropy(self) -> Float64[Tensor, " K"]:
        return -torch.xlogy(self.probabilities, self.probabilities).sum(-1).double()

    @property
    def best(self) -> Int[Tensor, " K"]:
        return self._rounded.argmax(-1)  # the first of equal ones

    def of(self, tokens: Int[Tensor, "K ..."]) -> Float64[Tensor, "K ..."]:
        return self.probabilities.gather(1, columns(tokens)).view_as(tokens).double()

    def divergence(self, other: Marginals) -> Float64[Tensor, " K"]:
        p, q = self.probabilities.double(), self._same(other).double()
        return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1).clamp(min=0)

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Table:
        p = self.probabilities
        if (temperature, top_p, top_k) == (1, 1, None):
            return self
        if temperature == 0:
            return self._with(torch.zeros_like(p).scatter_(1, self._rounded.argmax(-1, keepdim=True), 1.0))
        table = self
        if temperature != 1:
            table = self._with(torch.softmax(p.log() / temperature, -1))

        if top_p < 1:
            by_mass = table._descending()
            before = table.probabilities.gather(1, by_mass).cumsum(1).roll(1, 1)
            before[:, 0] = 0
            table = table._without(by_mass, (before > 0) & (before >= top_p - self.resolution))
        if top_k is not None and top_k < p.shape[1]:
            by_mass = table._descending()
            table = table._without(by_mass, (torch.arange(p.shape[1]) >= top_k).expand(p.shape))

        return self._with(table.probabilities / table.probabilities.sum(1, keepdim=True))

    def beyond(self, other: Marginals, factor: Float[Tensor, " K"] | None = None) -> Table:
        excess = self._above(other, factor)
        return self._with(excess / excess.sum(1, keepdim=True))

    def excess(self, other: Marginals, factor: Float[Tensor, " K"]) -> Float64[Tensor, " K"]:
        return self._above(other, factor).sum(1).double()

    def _above(self, other: Marginals, factor: Float[Tensor, " K"] | None) -> Float[Tensor, "K V"]:
        scaled = self.probabilities if factor is None else factor.unsqueeze(1) * self.probabilities
        return (scaled - self._same(other)).clamp(min=0)

    def guided(self, other: Marginals, scale: float) -> Table:
        floor = torch.finfo(self.probabilities.dtype).tiny
        log = self.probabilities.log() * (1 + scale) - scale * self._same(other).clamp(min=floor).log()
        return self._with(torch.softmax(log, -1))

    def dense(self) -> Float[Tensor, "K V"]:
        return self.probabilities

    def draw(self, u: Float[Tensor, " K"]) -> Int[Tensor, " K"]:
        return categorical(self.probabilities, u)

    def _same(self, other: Marginals) -> Float[Tensor, "K V"]:
        """(K, V): the probabilities of the same symbols under another prediction."""
        return other.dense()

    @property
    def _rounded(self) -> Tensor:
        return torch.round(self.probabilities / self.resolution)

    def _descending(self) -> Int[Tensor, "K V"]:
        """(K, V): the symbols from the most to the least likely, equal ones from the lowest."""
        return self._rounded.argsort(dim=1, descending=True, stable=True)

    def _without(self, order: Tensor, ranked: Tensor) -> Table:
        """Set the probability of symbols order (K, V) to zero at ranks marked in ranked, Bool (K, V)."""
        return self._with(self.probabilities.masked_fill(torch.empty_like(ranked).scatter_(1, order, ranked), 0))

    def _with(self, probabilities: Float[Tensor, "K V"]) -> Table:
        return Table(probabilities, self.resolution)


class Logits(Marginals):
    """softmax of head(states) (K, V), with states (K, ..) on their device; -inf means impossible.

    One scan computes the highest logit of each block of symbols, and the block's mass relative to the highest logit of
    all. Everything except entropies and other temperatures follows from these. Selected entries share the scan.
    """

    def __init__(
        self, states: Tensor, head: Callable[[Tensor], Tensor] | None = None, vocabulary: int | None = None
    ) -> None:
        self._scan: Scan = Stored(states, head, vocabulary or states.shape[-1])
        self._entries: Tensor | None = None  # of the scan, on its device; None: all
        self.vocabulary, self.resolution = self._scan.vocabulary, self._scan.resolution

    def _like(self, scan: Scan, entries: Tensor | None = None) -> Logits:
        logits = type(self).__new__(type(self))
        logits._scan, logits._entries = scan, entries
        logits.vocabulary, logits.resolution = self.vocabulary, self.resolution
        return logits

    def __len__(self) -> int:
        return len(self._scan) if self._entries is None else len(self._entries)

    def __getitem__(self, entries: Tensor) -> Logits:
        return self._like(self._scan, self._numbers[entries.to(self._scan.device)])

    @property
    def confidence(self) -> Float64[Tensor, " K"]:
        return self._host(1 / self._scan.total)

    @property
    def margin(self) -> Float64[Tensor, " K"]:
        return self._host(self._scan.margin)

    @property
    def entropy(self) -> Float64[Tensor, " K"]:
        return self._host(self._scan.entropy)

    @property
    def best(self) -> Int[Tensor, " K"]:
        return self._host(self._scan.best)

    def of(self, tokens: Int[Tensor, "K ..."]) -> Float64[Tensor, "K ..."]:
        logits = self._scan.at(columns(tokens.to(self._scan.device)), self._numbers)
        masses = (logits - self._selected(self._scan.highest).unsqueeze(1)).double().exp()
        return (masses / self._selected(self._scan.total).unsqueeze(1)).view_as(tokens).cpu()

    def divergence(self, other: Marginals) -> Float64[Tensor, " K"]:
        """sum_v e^(x - X) (x - y) / Z_x - log Z_x + log Z_y with logits x below X and y below Y, in one pass."""
        scans = self, _logits(other)
        tops = [each._selected(each._scan.highest) for each in scans]
        total, other_total = (each._selected(each._scan.total) for each in scans)
        if not len(self):
            return total.cpu()

        sums = []
        pieces = [each._scan.pieces(each._numbers) for each in scans]
        parts = [top.split(self._scan._piece) for top in tops]
        for x, y, top, other_top in zip(*pieces, *parts, strict=True):
            x = (x - top.unsqueeze(1)).clamp_(min=IMPOSSIBLE)
            y = (y - other_top.unsqueeze(1)).clamp_(min=IMPOSSIBLE)
            sums.append(torch.linalg.vecdot(x.exp(), x - y).double())

        nats = torch.cat(sums) / total - total.log() + other_total.log()
        return nats.clamp(min=0).cpu()

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        if temperature == 0:
            return Few(self.best.unsqueeze(1), torch.ones((len(self), 1), dtype=torch.float64), self)
        logits = self
        if temperature != 1:
            logits = self._like(Scaled(self._scan, self._numbers, 1 / temperature))
        if top_p == 1 and (top_k is None or top_k >= self.vocabulary):
            return logits
        return logits._most_likely(top_p, top_k)

    def beyond(self, other: Marginals, factor: Float[Tensor, " K"] | None = None) -> Logits:
        def above(x: Tensor, y: Tensor, factor: Tensor) -> Tensor:
            return (factor * x.softmax(-1) - y.softmax(-1)).clamp(min=0).log()

        return self._combined(other, above, factor)

    def excess(self, other: Marginals, factor: Float[Tensor, " K"]) -> Float64[Tensor, " K"]:
        rest = self.beyond(other, factor)
        highest = rest._scan.highest.double()
        return rest._host(torch.where(highest > -torch.inf, highest.exp() * rest._scan.total, 0.0))

    def guided(self, other: Marginals, scale: float) -> Logits:
        def away(x: Tensor, y: Tensor, _: Tensor) -> Tensor:
            guided = (1 + scale) * x - scale * y.clamp(min=IMPOSSIBLE)
            return guided.masked_fill(x == -torch.inf, -torch.inf)

        return self._combined(other, away)

    def dense(self) -> Float[Tensor, "K V"]:
        return torch.cat([logits.softmax(-1) for logits in self._scan.pieces(self._numbers)]).cpu()

    def logits(self) -> Float[Tensor, "K V"]:
        """(K, V), on their device."""
        return self._scan.rows(self._numbers)

    def draw(self, u: Float[Tensor, " K"]) -> Int[Tensor, " K"]:
        scan, entries = self._scan, self._numbers
        highest = self._selected(scan.highest).unsqueeze(1)
        masses = self._selected(scan.masses).double()

        def inside(block: Tensor) -> Tensor:
            weights = (scan.inside(block, entries) - highest).exp().double()
            # the float32 mass of a block loses rare symbols next to a likely one; rescaling keeps their proportion
            return weights * (masses.gather(1, block.unsqueeze(1)) / weights.sum(1, keepdim=True))

        return search(masses, inside, u.to(scan.device)).cpu()

    def _most_likely(self, top_p: float, top_k: int | None) -> Few:
        """The fewest symbols with mass top_p, and of these the first top_k."""

        size = min(top_k or 64, self.vocabulary)
        while True:
            logits, symbols = self._highest(size)
            mass = (logits - self._selected(self._scan.highest).unsqueeze(1)).double().exp()
            mass = mass / self._selected(self._scan.total).unsqueeze(1)
            before = mass.cumsum(1) - mass
            if top_k is not None or size == self.vocabulary or bool((before[:, -1] >= top_p).all()):
                break
            size = min(8 * size, self.vocabulary)

        inside = torch.where(before < top_p - self.resolution, mass, 0.0)
        inside[:, :1] = mass[:, :1]
        return Few(symbols.cpu(), (inside / inside.sum(1, keepdim=True)).cpu(), self)

    def _highest(self, number: int) -> tuple[Tensor, Tensor]:
        """The highest logits (K, number) and their symbols, which are in at most `number` blocks of highest logits."""
        tops = self._selected(self._scan.tops)
        blocks = lowest_first(tops, min(number, tops.shape[1])).sort(1).values
        symbols = (blocks.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=blocks.device)).flatten(1)
        logits = self._scan.at(symbols.clamp(max=self.vocabulary - 1), self._numbers)
        ranked = lowest_first(logits.masked_fill(symbols >= self.vocabulary, -torch.inf), number)
        return logits.gather(1, ranked), symbols.gather(1, ranked)

    def _combined(self, other: Marginals, combine: Combine, factors: Tensor | None = None) -> Logits:
        """Logits that are computed on demand from these and others of the same entries, and a factor each (K)."""
        other = _logits(other)
        if factors is None:
            factors = torch.ones(len(self))
        return self._like(Combined((self._scan, other._scan), (self._numbers, other._numbers), combine, factors))

    @cached_property
    def _numbers(self) -> Tensor:
        """(K): indices of the entries in the scan."""
        return torch.arange(len(self._scan), device=self._scan.device) if self._entries is None else self._entries

    def _selected(self, values: Tensor) -> Tensor:
        return values if self._entries is None else values[self._entries]

    def _host(self, values: Tensor) -> Tensor:
        selected = self._selected(values)
        if selected.is_floating_point():
            selected = selected.double()
        return selected.cpu()


def _logits(other: Marginals) -> Logits:
    if not isinstance(other, Logits):
        raise UnmaskError(f"logits are compared with {type(other).__name__}; expected logits of the same symbols")
    return other


class Few(Table):
    """Probabilities (K, M) of M symbols (K, M) each, zero for all other symbols; on the host."""

    def __init__(self, symbols: Int[Tensor, "K n"], probabilities: Float[Tensor, "K n"], source: Marginals) -> None:
        self.symbols, order = symbols.sort(1)
        super().__init__(probabilities.gather(1, order), source.resolution)
        self.vocabulary = source.vocabulary

    def __getitem__(self, entries: Tensor) -> Few:
        return Few(self.symbols[entries], self.probabilities[entries], self)

    @property
    def best(self) -> Int[Tensor, " K"]:
        return self._named(self._rounded.argmax(-1))

    def of(self, tokens: Int[Tensor, "K ..."]) -> Float64[Tensor, "K ..."]:
        matches = self.symbols.unsqueeze(1) == columns(tokens).unsqueeze(2)
        return torch.where(matches, self.probabilities.unsqueeze(1), 0.0).sum(2).view_as(tokens)

    def dense(self) -> Float[Tensor, "K V"]:
        out = torch.zeros((len(self), self.vocabulary), dtype=torch.float64)
        return out.scatter_add_(1, self.symbols, self.probabilities)

    def draw(self, u: Float[Tensor, " K"]) -> Int[Tensor, " K"]:
        return self._named(super().draw(u))

    def _same(self, other: Marginals) -> Float[Tensor, "K V"]:
        """See Table; only these symbols can have a probability, or an excess."""
        return other.of(self.symbols)

    def _named(self, columns: Tensor) -> Tensor:
        return self.symbols.gather(1, columns.unsqueeze(1)).squeeze(1)

    def _with(self, probabilities: Float[Tensor, "K V"]) -> Few:
        return Few(self.symbols, probabilities, self)


def as_marginals(values: Tensor | Marginals) -> Marginals:
    """Marginals, or probabilities (.., V) as a table, row by row."""
    if isinstance(values, Tensor):
        return Table(values.reshape(-1, values.shape[-1]))
    if not isinstance(values, Marginals):
        arguments.refuse("the prediction of a denoiser", values, "probabilities (.., V), a tensor, or Marginals")
    return values


def joined(parts: Sequence[Marginals]) -> Marginals:
    """The entries of several marginals, one after another."""
    if len(parts) == 1:
        return parts[0]
    logits = [part.logits() for part in parts if isinstance(part, Logits)]
    if len(logits) == len(parts):
        return Logits(torch.cat(logits))
    return Table(torch.cat([part.dense() for part in parts]), max(part.resolution for part in parts))
