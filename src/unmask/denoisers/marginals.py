"""What a denoiser says of K places, p(v) over V symbols each, kept where it was computed until something is asked.

A sampler asks for little: how sure a place is, how probable a token, which symbol a uniform draws. So two kinds stand
behind one set of questions: `Table`, probabilities on the host, which is what exact denoisers and small vocabularies
have; and `Logits` of 150,000 symbols and more, which stay on the device of the network and are gone through in pieces
that fit its caches, so that no probabilities (K, V) are made that nobody asks for. Answers are on the host, in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import BLOCK, categorical, search
from unmask.core.errors import UnmaskError
from unmask.denoisers.scan import FLOAT32, IMPOSSIBLE, Combine, Combined, Scaled, Scan, Stored, lowest_first

EXACT = 1e-9  # how close two probabilities in float64 are that count as equal


class Marginals(ABC):
    """p(v) of K places, which may be indexed like a tensor (K, V) by its first dimension."""

    vocabulary: int
    resolution: float  # what differs by less is equal: scores of float noise are no scores

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def __getitem__(self, places: Tensor) -> Marginals:
        """Those of some places, by number or Bool (K)."""

    @property
    @abstractmethod
    def confidence(self) -> Tensor:
        """(K): max_v p(v)."""

    @property
    @abstractmethod
    def margin(self) -> Tensor:
        """(K): p_(1) - p_(2)."""

    @property
    @abstractmethod
    def entropy(self) -> Tensor:
        """(K): -sum_v p log p, in nats, 0 or more."""

    @property
    @abstractmethod
    def best(self) -> Tensor:
        """(K): the most likely symbol, the lowest of those that are equally likely."""

    @abstractmethod
    def of(self, tokens: Tensor) -> Tensor:
        """(K) or (K, n): the probability of one token each (K), or of n (K, n)."""

    @abstractmethod
    def divergence(self, other: Marginals) -> Tensor:
        """(K) nats: sum_v p log(p / other), 0 or more; infinite where other excludes what may be."""

    @abstractmethod
    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        """p^(1/T), of which the fewest likeliest symbols that hold top_p are kept, and of these the first top_k.

        At T = 0 all is on the best. Equal symbols are taken lowest first, and what is kept sums to 1.
        """

    def nucleus(self, most: float) -> Table:
        """The likeliest symbols whose probabilities sum to at most this, and the first in any case, normalised.

        The symbol that crosses `most` is dropped, where `sharpened` keeps it. Equal symbols are taken lowest first.
        """
        table = Table(self.dense().double(), self.resolution)
        symbols = table._descending()
        beyond = table.probabilities.gather(1, symbols).cumsum(1) > most + self.resolution
        beyond[:, 0] = False
        kept = table._without(symbols, beyond).probabilities
        return Table(kept / kept.sum(1, keepdim=True), self.resolution)

    @abstractmethod
    def beyond(self, other: Marginals, share: Tensor | None = None) -> Marginals:
        """(c p - other)+, normalised: the mass that no accepted draft of `other` has delivered (theory.md 10).

        c = share (K), 1 unless told otherwise.
        """

    @abstractmethod
    def excess(self, other: Marginals, share: Tensor) -> Tensor:
        """(K): the sum of (c p - other)+ over all symbols, c = share (K)."""

    @abstractmethod
    def guided(self, other: Marginals, scale: float) -> Marginals:
        """p^(1+w) / other^w, normalised: classifier-free guidance by w = scale, away from what `other` says."""

    @abstractmethod
    def dense(self) -> Tensor:
        """(K, V): the probabilities themselves."""

    @abstractmethod
    def draw(self, u: Tensor) -> Tensor:
        """(K): the symbol of each uniform (K), by inverse CDF in the order of symbols."""


def check_sharpening(temperature: float, top_p: float, top_k: int | None) -> None:
    """An error unless these are a temperature, a share of the mass and a number of symbols."""
    arguments.number("temperature", temperature)
    arguments.number("top_p", top_p, 0, 1, above=True, what=": a share of the mass")
    if top_k is not None:
        arguments.whole("top_k", top_k)


def columns(tokens: Tensor) -> Tensor:
    """(K, n) of tokens (K) or (K, n)."""
    return tokens if tokens.dim() == 2 else tokens.unsqueeze(1)


class Table(Marginals):
    """Probabilities (K, V) on the host."""

    def __init__(self, probabilities: Tensor, resolution: float | None = None) -> None:
        self.probabilities = probabilities
        self.vocabulary = probabilities.shape[-1]
        self.resolution = resolution or (EXACT if probabilities.dtype == torch.float64 else FLOAT32)

    def __len__(self) -> int:
        return len(self.probabilities)

    def __getitem__(self, places: Tensor) -> Table:
        return self._with(self.probabilities[places])

    @property
    def confidence(self) -> Tensor:
        return self.probabilities.amax(-1).double()

    @property
    def margin(self) -> Tensor:
        if self.vocabulary == 1:
            return self.confidence
        first, second = self.probabilities.topk(2, dim=-1).values.double().unbind(-1)
        return first - second

    @property
    def entropy(self) -> Tensor:
        return -torch.xlogy(self.probabilities, self.probabilities).sum(-1).double()

    @property
    def best(self) -> Tensor:
        return self._rounded.argmax(-1)

    def of(self, tokens: Tensor) -> Tensor:
        return self.probabilities.gather(1, columns(tokens)).view_as(tokens).double()

    def divergence(self, other: Marginals) -> Tensor:
        p, q = self.probabilities.double(), other.dense().double()
        return (torch.xlogy(p, p) - torch.xlogy(p, q)).sum(-1).clamp(min=0)

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Table:
        p = self.probabilities
        if (temperature, top_p, top_k) == (1, 1, None):
            return self
        if temperature == 0:
            return self._with(torch.zeros_like(p).scatter_(1, self.best.unsqueeze(1), 1.0))
        kept = self._with(p if temperature == 1 else torch.softmax(p.log() / temperature, -1))
        if top_p < 1:
            by_mass = kept._descending()
            before = kept.probabilities.gather(1, by_mass).cumsum(1).roll(1, 1)
            before[:, 0] = 0
            kept = kept._without(by_mass, (before > 0) & (before >= top_p - self.resolution))
        if top_k is not None and top_k < self.vocabulary:
            by_mass = kept._descending()
            kept = kept._without(by_mass, (torch.arange(self.vocabulary) >= top_k).expand(p.shape))
        return self._with(kept.probabilities / kept.probabilities.sum(1, keepdim=True))

    def beyond(self, other: Marginals, share: Tensor | None = None) -> Table:
        excess = self._above(other, share)
        return self._with(excess / excess.sum(1, keepdim=True))

    def excess(self, other: Marginals, share: Tensor) -> Tensor:
        return self._above(other, share).sum(1).double()

    def _above(self, other: Marginals, share: Tensor | None) -> Tensor:
        mine = self.probabilities if share is None else share.unsqueeze(1) * self.probabilities
        return (mine - other.dense()).clamp(min=0)

    def guided(self, other: Marginals, scale: float) -> Table:
        floor = torch.finfo(self.probabilities.dtype).tiny
        log = self.probabilities.log() * (1 + scale) - scale * other.dense().clamp(min=floor).log()
        return self._with(torch.softmax(log, -1))

    def dense(self) -> Tensor:
        return self.probabilities

    def draw(self, u: Tensor) -> Tensor:
        return categorical(self.probabilities, u)

    @property
    def _rounded(self) -> Tensor:
        return torch.round(self.probabilities / self.resolution)

    def _descending(self) -> Tensor:
        """(K, V): the symbols from the most likely to the least, equal ones from the lowest."""
        return self._rounded.argsort(dim=1, descending=True, stable=True)

    def _without(self, order: Tensor, ranked: Tensor) -> Table:
        """Nothing for the symbols order (K, V) where ranked, Bool (K, V)."""
        return self._with(self.probabilities.masked_fill(torch.empty_like(ranked).scatter_(1, order, ranked), 0))

    def _with(self, probabilities: Tensor) -> Table:
        return Table(probabilities, self.resolution)


class Logits(Marginals):
    """softmax of what head(states) says (K, V), states (K, ..) staying on their device; -inf for what cannot be.

    One scan finds the highest logit of each block of symbols and the block's mass below the highest of all, from which
    all else follows but entropies and other temperatures. Places that are picked out share the scan of all.
    """

    def __init__(
        self, states: Tensor, head: Callable[[Tensor], Tensor] | None = None, vocabulary: int | None = None
    ) -> None:
        self._scan: Scan = Stored(states, head, vocabulary or states.shape[-1])
        self._places: Tensor | None = None  # of the scan's, on its device; None: all
        self.vocabulary, self.resolution = self._scan.vocabulary, self._scan.resolution

    def _like(self, scan: Scan, places: Tensor | None = None) -> Logits:
        made = type(self).__new__(type(self))
        made._scan, made._places, made.vocabulary, made.resolution = scan, places, self.vocabulary, self.resolution
        return made

    def __len__(self) -> int:
        return len(self._scan) if self._places is None else len(self._places)

    def __getitem__(self, places: Tensor) -> Logits:
        return self._like(self._scan, self._numbers[places.to(self._scan.device)])

    @property
    def confidence(self) -> Tensor:
        return self._host(1 / self._scan.total)

    @property
    def margin(self) -> Tensor:
        return self._host(self._scan.margin)

    @property
    def entropy(self) -> Tensor:
        return self._host(self._scan.entropy)

    @property
    def best(self) -> Tensor:
        return self._host(self._scan.best)

    def of(self, tokens: Tensor) -> Tensor:
        found = self._scan.at(columns(tokens.to(self._scan.device)), self._numbers)
        chances = (found - self._mine(self._scan.highest).unsqueeze(1)).double().exp()
        return (chances / self._mine(self._scan.total).unsqueeze(1)).view_as(tokens).cpu()

    def divergence(self, other: Marginals) -> Tensor:
        """sum_v e^(x - X) (x - y) / Z_x - log Z_x + log Z_y with logits x below X and y below Y, in one pass."""
        scans, found = (self, _logits(other)), []
        tops = [each._mine(each._scan.highest) for each in scans]
        pieces = [each._scan.pieces(each._numbers) for each in scans]
        parts = [top.split(self._scan._piece) for top in tops]
        for x, y, top, theirs in zip(*pieces, *parts, strict=True) if len(self) else ():
            x, y = ((logits - high.unsqueeze(1)).clamp_(min=IMPOSSIBLE) for logits, high in ((x, top), (y, theirs)))
            found.append(torch.linalg.vecdot(x.exp(), x - y).double())
        ours, other_total = (each._mine(each._scan.total) for each in scans)
        nats = torch.cat(found) / ours - ours.log() + other_total.log() if found else ours
        return nats.clamp(min=0).cpu()

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        if temperature == 0:
            return Few(self.best.unsqueeze(1), torch.ones((len(self), 1), dtype=torch.float64), self)
        kept = self if temperature == 1 else self._like(Scaled(self._scan, self._numbers, 1 / temperature))
        few = top_p < 1 or (top_k is not None and top_k < self.vocabulary)
        return kept._likeliest(top_p, top_k) if few else kept

    def beyond(self, other: Marginals, share: Tensor | None = None) -> Logits:
        def above(ours: Tensor, theirs: Tensor, factor: Tensor) -> Tensor:
            return (factor * ours.softmax(-1) - theirs.softmax(-1)).clamp(min=0).log()

        return self._against(other, above, torch.ones(len(self)) if share is None else share)

    def excess(self, other: Marginals, share: Tensor) -> Tensor:
        rest = self.beyond(other, share)
        highest = rest._scan.highest.double()
        return rest._host(torch.where(highest > -torch.inf, highest.exp() * rest._scan.total, 0.0))

    def guided(self, other: Marginals, scale: float) -> Logits:
        def away(ours: Tensor, theirs: Tensor, _: Tensor) -> Tensor:
            guided = (1 + scale) * ours - scale * theirs.clamp(min=IMPOSSIBLE)
            return guided.masked_fill(ours == -torch.inf, -torch.inf)

        return self._against(other, away)

    def dense(self) -> Tensor:
        return torch.cat([logits.softmax(-1) for logits in self._scan.pieces(self._numbers)]).cpu()

    def logits(self) -> Tensor:
        """(K, V), on their device."""
        return self._scan.rows(self._numbers)

    def draw(self, u: Tensor) -> Tensor:
        scan, places = self._scan, self._numbers
        highest, masses = self._mine(scan.highest).unsqueeze(1), self._mine(scan.masses).double()

        def inside(block: Tensor) -> Tensor:
            chances = (scan.inside(block, places) - highest).exp().double()
            # what is rare beside a likely symbol is lost in the float32 mass of their block, and keeps its share of it
            return chances * (masses.gather(1, block.unsqueeze(1)) / chances.sum(1, keepdim=True))

        return search(masses, inside, u.to(scan.device)).cpu()

    def _likeliest(self, top_p: float, top_k: int | None) -> Few:
        """The fewest symbols whose mass is top_p, of them the first top_k."""
        size = min(top_k or 64, self.vocabulary)
        while True:
            logits, symbols = self._highest(size)
            mass = (logits - self._mine(self._scan.highest).unsqueeze(1)).double().exp()
            mass = mass / self._mine(self._scan.total).unsqueeze(1)
            before = mass.cumsum(1) - mass
            if top_k is not None or size == self.vocabulary or bool((before[:, -1] >= top_p).all()):
                break
            size = min(8 * size, self.vocabulary)
        kept = torch.where(before < top_p - self.resolution, mass, 0.0)
        kept[:, :1] = mass[:, :1]
        return Few(symbols.cpu(), (kept / kept.sum(1, keepdim=True)).cpu(), self)

    def _highest(self, number: int) -> tuple[Tensor, Tensor]:
        """The highest logits (K, number) and their symbols: they lie in as many blocks at most, those that top."""
        tops = self._mine(self._scan.tops)
        blocks = lowest_first(tops, min(number, tops.shape[1])).sort(1).values
        symbols = (blocks.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=blocks.device)).flatten(1)
        logits = self._scan.at(symbols.clamp(max=self.vocabulary - 1), self._numbers)
        found = lowest_first(logits.masked_fill(symbols >= self.vocabulary, -torch.inf), number)
        return logits.gather(1, found), symbols.gather(1, found)

    def _against(self, other: Marginals, combine: Combine, factors: Tensor | None = None) -> Logits:
        """Logits that are combined from these and others at the same places, and a factor each (K), whenever they are
        asked for."""
        other = _logits(other)
        each = torch.ones(len(self)) if factors is None else factors
        return self._like(Combined((self._scan, other._scan), (self._numbers, other._numbers), combine, each))

    @cached_property
    def _numbers(self) -> Tensor:
        """(K): which of the scan's places these are."""
        return torch.arange(len(self._scan), device=self._scan.device) if self._places is None else self._places

    def _mine(self, values: Tensor) -> Tensor:
        return values if self._places is None else values[self._places]

    def _host(self, values: Tensor) -> Tensor:
        found = self._mine(values)
        return (found.double() if found.is_floating_point() else found).cpu()


def _logits(other: Marginals) -> Logits:
    if not isinstance(other, Logits):
        raise UnmaskError(f"logits are held against {type(other).__name__}; expected logits of the same symbols")
    return other


class Few(Marginals):
    """Probabilities (K, M) of M symbols (K, M) each, all others having none; on the host."""

    def __init__(self, symbols: Tensor, probabilities: Tensor, source: Marginals) -> None:
        self.symbols, order = symbols.sort(1)
        self.table = Table(probabilities.gather(1, order), source.resolution)
        self.vocabulary, self.resolution = source.vocabulary, source.resolution

    def __len__(self) -> int:
        return len(self.symbols)

    def __getitem__(self, places: Tensor) -> Few:
        return Few(self.symbols[places], self.table.probabilities[places], self)

    @property
    def confidence(self) -> Tensor:
        return self.table.confidence

    @property
    def margin(self) -> Tensor:
        return self.table.margin

    @property
    def entropy(self) -> Tensor:
        return self.table.entropy

    @property
    def best(self) -> Tensor:
        return self._named(self.table.best)

    def of(self, tokens: Tensor) -> Tensor:
        asked = columns(tokens).unsqueeze(2)
        chances = torch.where(self.symbols.unsqueeze(1) == asked, self.table.probabilities.unsqueeze(1), 0.0)
        return chances.sum(2).view_as(tokens)

    def divergence(self, other: Marginals) -> Tensor:
        return self.table.divergence(Table(other.of(self.symbols)))

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Few:
        return Few(self.symbols, self.table.sharpened(temperature, top_p, top_k).probabilities, self)

    def beyond(self, other: Marginals, share: Tensor | None = None) -> Few:
        """Of these symbols alone, since only they have mass to spare."""
        excess = self._above(other, torch.ones(len(self)) if share is None else share)
        return Few(self.symbols, excess / excess.sum(1, keepdim=True), self)

    def excess(self, other: Marginals, share: Tensor) -> Tensor:
        return self._above(other, share).sum(1)

    def _above(self, other: Marginals, share: Tensor) -> Tensor:
        return (share.unsqueeze(1) * self.table.probabilities - other.of(self.symbols)).clamp(min=0)

    def guided(self, other: Marginals, scale: float) -> Few:
        log = self.table.probabilities.log() * (1 + scale) - scale * other.of(self.symbols).clamp(min=1e-300).log()
        return Few(self.symbols, torch.softmax(log, -1), self)

    def dense(self) -> Tensor:
        out = torch.zeros((len(self), self.vocabulary), dtype=torch.float64)
        return out.scatter_add_(1, self.symbols, self.table.probabilities)

    def draw(self, u: Tensor) -> Tensor:
        return self._named(self.table.draw(u))

    def _named(self, columns: Tensor) -> Tensor:
        return self.symbols.gather(1, columns.unsqueeze(1)).squeeze(1)


def as_marginals(said: Tensor | Marginals) -> Marginals:
    """Probabilities (.., V) as a table of their places, row by row; marginals as they are."""
    if isinstance(said, Tensor):
        return Table(said.reshape(-1, said.shape[-1]))
    wanted = "probabilities (.., V), a tensor, or Marginals"
    found: Marginals = arguments.of_kind("what a denoiser says", said, Marginals, wanted)
    return found


def joined(parts: Sequence[Marginals]) -> Marginals:
    """The places of several, one after another."""
    if len(parts) == 1:
        return parts[0]
    logits = [part.logits() for part in parts if isinstance(part, Logits)]
    if len(logits) == len(parts):
        return Logits(torch.cat(logits))
    return Table(torch.cat([part.dense() for part in parts]), max(part.resolution for part in parts))
