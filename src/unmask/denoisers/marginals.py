"""What a denoiser says of K places, p(v) over V symbols each, kept where it was computed until something is asked.

A sampler asks for little: how sure a place is, how probable a token, which symbol a uniform draws. So two kinds stand
behind one set of questions: `Table`, probabilities on the host, which is what exact denoisers and small vocabularies
have; and `Logits` of 150,000 symbols and more, which stay on the device of the network and are gone through in pieces
that fit its caches, so that no probabilities (K, V) are made that nobody asks for. Answers are on the host, in float64.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import BLOCK, by_block, categorical, search
from unmask.core.errors import UnmaskError

EXACT, FLOAT32, BFLOAT16 = 1e-9, 1e-6, 1e-3  # how close two probabilities are that count as equal
PIECE = {"cpu": 2**20, "cuda": 2**26}  # logits that are gone through at once
IMPOSSIBLE = -1e4  # a logit so low that the difference to another one is certain, and yet a number
KEPT = 2**28  # logits that are kept from one question to the next, rather than computed again


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
        """(K): the probability of one token each (K)."""

    @abstractmethod
    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        """p^(1/T), of which the fewest likeliest symbols that hold top_p are kept, and of these the first top_k.

        At T = 0 all is on the best. Equal symbols are taken lowest first, and what is kept sums to 1.
        """

    @abstractmethod
    def beyond(self, other: Marginals) -> Marginals:
        """(p - other)+, normalised: the mass that no accepted draft of `other` has delivered (theory.md 10)."""

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
        return self.probabilities.gather(1, tokens.unsqueeze(1)).squeeze(1).double()

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

    def beyond(self, other: Marginals) -> Table:
        excess = (self.probabilities - other.dense()).clamp(min=0)
        return self._with(excess / excess.sum(1, keepdim=True))

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
        found = self._scan.at(tokens.to(self._scan.device).unsqueeze(1), self._numbers).squeeze(1)
        return ((found - self._mine(self._scan.highest)).double().exp() / self._mine(self._scan.total)).cpu()

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Marginals:
        if temperature == 0:
            return Few(self.best.unsqueeze(1), torch.ones((len(self), 1), dtype=torch.float64), self)
        kept = self if temperature == 1 else self._like(Scaled(self._scan, self._numbers, 1 / temperature))
        few = top_p < 1 or (top_k is not None and top_k < self.vocabulary)
        return kept._likeliest(top_p, top_k) if few else kept

    def beyond(self, other: Marginals) -> Logits:
        return self._against(other, lambda ours, theirs: (ours.softmax(-1) - theirs.softmax(-1)).clamp(min=0).log())

    def guided(self, other: Marginals, scale: float) -> Logits:
        def away(ours: Tensor, theirs: Tensor) -> Tensor:
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

    def _against(self, other: Marginals, combine: Callable[[Tensor, Tensor], Tensor]) -> Logits:
        """Logits that are combined from these and others at the same places, whenever they are asked for."""
        if not isinstance(other, Logits):
            raise UnmaskError(f"logits are held against {type(other).__name__}; expected logits of the same symbols")
        return self._like(Combined((self._scan, other._scan), (self._numbers, other._numbers), combine))

    @cached_property
    def _numbers(self) -> Tensor:
        """(K): which of the scan's places these are."""
        return torch.arange(len(self._scan), device=self._scan.device) if self._places is None else self._places

    def _mine(self, values: Tensor) -> Tensor:
        return values if self._places is None else values[self._places]

    def _host(self, values: Tensor) -> Tensor:
        found = self._mine(values)
        return (found.double() if found.is_floating_point() else found).cpu()


def lowest_first(values: Tensor, number: int) -> Tensor:
    """(K, number): where the highest of values (K, n) in float32 are, the first of those that are equal."""
    bits = (values + 0.0).view(torch.int32)
    rank = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).long()  # in the order of the floats
    last = values.shape[1] - 1
    return (rank * 2**24 + last - torch.arange(last + 1, device=values.device)).topk(number, dim=1).indices


class Scan(ABC):
    """Logits (K, V) gone through once by blocks of symbols, and what is remembered of it."""

    vocabulary: int
    device: torch.device
    resolution: float

    @abstractmethod
    def __len__(self) -> int:
        """K."""

    @abstractmethod
    def rows(self, places: Tensor) -> Tensor:
        """(K', V) logits at places (K')."""

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        """(K', n) float32 logits of symbols (K', n) at places (K')."""
        parts = zip(self.pieces(places), symbols.split(self._piece), strict=True)
        return torch.cat([x.gather(1, part) for x, part in parts])

    def inside(self, block: Tensor, places: Tensor) -> Tensor:
        """(K', BLOCK) logits of one block (K') each; -inf beyond the last symbol."""
        symbols = block.unsqueeze(1) * BLOCK + torch.arange(BLOCK, device=block.device)
        found = self.at(symbols.clamp(max=self.vocabulary - 1), places)
        return found.masked_fill(symbols >= self.vocabulary, -torch.inf)

    def pieces(self, places: Tensor) -> Iterator[Tensor]:
        """(piece, V) in float32, one after another."""
        return (self.rows(part).float() for part in places.split(self._piece))

    @property
    def _piece(self) -> int:
        return max(PIECE["cuda" if self.device.type == "cuda" else "cpu"] // self.vocabulary, 1)

    @cached_property
    def _all(self) -> Tensor:
        return torch.arange(len(self), device=self.device)

    @cached_property
    def _found(self) -> tuple[Tensor, Tensor]:
        """The highest logit of each block (K, blocks), and each block's mass below the highest of all."""
        tops = torch.empty((len(self), -(-self.vocabulary // BLOCK)), device=self.device)
        masses = torch.empty_like(tops)
        parts = zip(self.pieces(self._all), tops.split(self._piece), masses.split(self._piece), strict=True)
        for x, top, mass in parts if len(self) else ():
            top.copy_(by_block(x, lambda part: part.amax(-1)))
            mass.copy_(by_block((x - top.amax(1, keepdim=True)).exp_(), lambda part: part.sum(-1)))
        return tops, masses

    @property
    def tops(self) -> Tensor:
        return self._found[0]

    @property
    def masses(self) -> Tensor:
        return self._found[1]

    @cached_property
    def highest(self) -> Tensor:
        return self.tops.amax(1)

    @cached_property
    def total(self) -> Tensor:
        """(K) float64: the mass of all blocks."""
        return self.masses.sum(1, dtype=torch.float64)

    @cached_property
    def best(self) -> Tensor:
        block = self.tops.argmax(1)
        return block * BLOCK + self.inside(block, self._all).argmax(1)

    @cached_property
    def margin(self) -> Tensor:
        block = self.tops.argmax(1)
        second = self.inside(block, self._all).topk(2, dim=1).values[:, 1]
        elsewhere = self.tops.scatter(1, block.unsqueeze(1), -torch.inf).amax(1)
        return (1 - (torch.maximum(second, elsewhere) - self.highest).double().exp()) / self.total

    @cached_property
    def entropy(self) -> Tensor:
        """log Z - sum_v e^(x - top) (x - top) / Z, Z the total below the highest."""
        sums = torch.empty_like(self.highest)
        parts = zip(self.pieces(self._all), self.highest.split(self._piece), sums.split(self._piece), strict=True)
        for x, top, part in parts if len(self) else ():
            below = (x - top.unsqueeze(1)).clamp_(min=IMPOSSIBLE)  # a number, 0 times which is 0
            part.copy_(torch.linalg.vecdot(below.exp(), below))
        return (self.total.log() - sums.double() / self.total).clamp(min=0)


class Stored(Scan):
    """head(states), applied when something is asked, and once if its answer can be kept; no head: the states are it."""

    def __init__(self, states: Tensor, head: Callable[[Tensor], Tensor] | None, vocabulary: int) -> None:
        self.states, self.head, self.vocabulary, self.device = states, head, vocabulary, states.device
        self.resolution = BFLOAT16 if states.dtype in (torch.bfloat16, torch.float16) else FLOAT32

    def __len__(self) -> int:
        return len(self.states)

    def rows(self, places: Tensor) -> Tensor:
        if self._kept is not None:
            return self._kept[places]
        assert self.head is not None
        return self.head(self.states[places])

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        return super().at(symbols, places) if self._kept is None else self._kept[places.unsqueeze(1), symbols].float()

    @cached_property
    def _kept(self) -> Tensor | None:
        """(K, V), where they are not too many."""
        if self.head is None:
            return self.states
        return self.head(self.states) if len(self.states) * self.vocabulary <= KEPT else None


class Scaled(Scan):
    """The logits of some places (K) of another scan, times a factor: one over the temperature."""

    def __init__(self, scan: Scan, places: Tensor, factor: float) -> None:
        self.scan, self.places, self.factor = scan, places, factor
        self.vocabulary, self.device, self.resolution = scan.vocabulary, scan.device, scan.resolution

    def __len__(self) -> int:
        return len(self.places)

    def rows(self, places: Tensor) -> Tensor:
        return self.scan.rows(self.places[places]).float() * self.factor

    def at(self, symbols: Tensor, places: Tensor) -> Tensor:
        return self.scan.at(symbols, self.places[places]) * self.factor


class Combined(Scan):
    """What a function makes of the logits of two scans, at places (K) of each."""

    def __init__(
        self,
        scans: tuple[Scan, Scan],
        places: tuple[Tensor, Tensor],
        combine: Callable[[Tensor, Tensor], Tensor],
    ) -> None:
        self.scans, self.places, self.combine = scans, places, combine
        self.vocabulary, self.device, self.resolution = scans[0].vocabulary, scans[0].device, scans[0].resolution

    def __len__(self) -> int:
        return len(self.places[0])

    def rows(self, places: Tensor) -> Tensor:
        one, other = (
            scan.rows(numbers[places.to(scan.device)]).float().to(self.device)
            for scan, numbers in zip(self.scans, self.places, strict=True)
        )
        return self.combine(one, other)


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
        return torch.where(self.symbols == tokens.unsqueeze(1), self.table.probabilities, 0.0).sum(1)

    def sharpened(self, temperature: float = 1.0, top_p: float = 1.0, top_k: int | None = None) -> Few:
        return Few(self.symbols, self.table.sharpened(temperature, top_p, top_k).probabilities, self)

    def beyond(self, other: Marginals) -> Few:
        """Of these symbols alone, since only they have mass to spare."""
        places = torch.arange(len(self))
        theirs = torch.stack([other[places].of(column) for column in self.symbols.unbind(1)], 1)
        excess = (self.table.probabilities - theirs).clamp(min=0)
        return Few(self.symbols, excess / excess.sum(1, keepdim=True), self)

    def guided(self, other: Marginals, scale: float) -> Few:
        theirs = torch.stack([other.of(column) for column in self.symbols.unbind(1)], 1)
        log = self.table.probabilities.log() * (1 + scale) - scale * theirs.clamp(min=1e-300).log()
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
