"""Engines and readers for any denoiser that can only answer from scratch: a row is evaluated when it has changed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from unmask.core.errors import UnmaskError, shown
from unmask.denoisers.contracts import Causal, Cost, Engine
from unmask.denoisers.marginals import Marginals, Table, as_marginals, joined

SUMS, ROUGH_SUMS = 1e-3, 0.05  # how far from 1 probabilities may sum, in 32 bits and more, and in fewer


class Answering(Protocol):
    """The part of a denoiser that these engines use."""

    vocabulary: int
    time_free: bool

    @property
    def name(self) -> str: ...
    def posterior(
        self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals: ...
    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine: ...


class StatelessEngine(Engine):
    """Evaluates rows that have changed at the places that are asked for, and keeps what was said of them last.

    An unchanged row is evaluated again only where it is asked about other places than before.
    """

    def __init__(self, denoiser: Answering, tokens: Tensor) -> None:
        super().__init__(tokens)
        self.denoiser = denoiser
        self._said: Marginals | None = None
        self._kept = torch.full(tokens.shape, -1)  # (B, L): which of what was said a place still has; -1: nothing

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self._kept[rows] = -1

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        kept = self._kept[rows, positions]
        unknown = torch.zeros(len(self.tokens), dtype=torch.bool)
        unknown[rows] = not self.denoiser.time_free
        unknown[rows[kept < 0]] = True
        new = unknown[rows]
        if not bool(new.any()):
            assert self._said is not None
            return self._said[kept]
        said = self._evaluate(rows[new], positions[new], time)
        if not bool(new.all()):
            assert self._said is not None
            where = torch.empty_like(kept)
            where[~new], where[new] = torch.arange(len(kept)).split([int((~new).sum()), int(new.sum())])
            said = joined([self._said[kept[~new]], said])[where]
        self._said = said
        self._kept.fill_(-1)
        self._kept[rows, positions] = torch.arange(len(rows))
        return said

    def _evaluate(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        which, index = rows.unique_consecutive(return_inverse=True)
        asked, valid = layout(index, positions)
        self.spend_on(which)
        said = self.denoiser.posterior(self.tokens[which], asked, None if time is None else time[which])
        shape = (*asked.shape, self.denoiser.vocabulary)
        if isinstance(said, Marginals) and len(said) == asked.numel():
            return said[valid]
        probabilities = table_of(said, shape, self.denoiser.name).view(-1, shape[2])[valid]
        check_sums(probabilities, rows, positions, self.denoiser.name)
        return Table(probabilities)


def table_of(said: object, shape: tuple[int, int, int], name: str) -> Tensor:
    """Probabilities (B, K, V) as somebody's denoiser has returned them, or an error that says what they are instead."""
    expected = f"expected probabilities {shape}, a tensor of floating point, or Marginals of these places"
    if not isinstance(said, Tensor):
        raise UnmaskError(f"the posterior of {name} is {shown(said)}; {expected}")
    if said.shape != shape or not said.is_floating_point() or said.layout != torch.strided or said.is_meta:
        kind = "meta " if said.is_meta else "" if said.layout == torch.strided else "sparse "
        kind += f"{str(said.dtype).removeprefix('torch.')} {tuple(said.shape)}"
        raise UnmaskError(f"the posterior of {name} is {kind}; {expected}")
    return said.contiguous()


def check_sums(probabilities: Tensor, rows: Tensor, positions: Tensor, name: str) -> None:
    """An error where what is said of a place (K), probabilities (K, V), is no distribution."""
    if not len(probabilities):
        return
    sums, exact = probabilities.sum(-1), probabilities.dtype in (torch.float64, torch.float32)
    good = (sums - 1).abs() <= (SUMS if exact else ROUGH_SUMS)  # false for not-a-number too
    if not (bool(good.all()) and float(probabilities.min()) >= 0):
        good &= (probabilities >= 0).all(-1)
        at = int((~good).int().argmax())
        where = f"position {int(positions[at])} of row {int(rows[at])}"
        what = f"there they sum to {float(sums[at]):.6g}, the least is {float(probabilities[at].min()):.6g}"
        raise UnmaskError(f"{name} gives no usable probabilities at {where}: {what}; expected a sum of 1, none below 0")


def layout(rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Places (K), rows 0..R-1 ascending, as columns (R, A), padded, and which (K) of the R x A they are."""
    counts = torch.bincount(rows)
    width = int(counts.max()) if len(counts) else 0
    column = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
    valid = rows * width + column
    return positions.new_zeros(len(counts) * width).index_copy_(0, valid, positions).view(len(counts), width), valid


class ByLength(Engine):
    """Rows of each length in an engine of their own: for denoisers that cannot tell padding from text."""

    def __init__(self, denoiser: Answering, tokens: Tensor, given: Tensor | None, valid: Tensor) -> None:
        super().__init__(tokens)
        lengths, self._part = valid.sum(1).unique(return_inverse=True)  # (B): which engine has a row
        self._row = torch.empty_like(self._part)  # (B): and as which of its rows
        self._engines = []
        for part, length in enumerate(lengths.tolist()):
            rows = (self._part == part).nonzero().squeeze(1)
            self._row[rows] = torch.arange(len(rows))
            cut = None if given is None else given[rows, :length]
            self._engines.append((rows, denoiser.engine(tokens[rows, :length], cut)))

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        for part, (_, engine) in enumerate(self._engines):
            mine = self._part[rows] == part
            if bool(mine.any()):
                places = self._row[rows[mine]], positions[mine]
                engine.tokens[places] = self.tokens[rows[mine], positions[mine]]
                engine.renew(*places)

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        said, where = [], []
        for part, (its_rows, engine) in enumerate(self._engines):
            mine = (self._part[rows] == part).nonzero().squeeze(1)
            if len(mine):
                its_time = None if time is None else time[its_rows]
                said.append(as_marginals(engine.at(self._row[rows[mine]], positions[mine], its_time)))
                where.append(mine)
        return joined(said)[torch.cat(where).argsort()]

    @property
    def hollow(self) -> bool:
        return all(engine.hollow for _, engine in self._engines)

    @property
    def spent(self) -> Cost:
        return sum((engine.spent for _, engine in self._engines), Cost())

    def dead(self) -> Tensor | None:
        found = torch.zeros(len(self.tokens), dtype=torch.bool)
        for rows, engine in self._engines:
            dead = engine.dead()
            if dead is None:
                return None
            found[rows] = dead
        return found


class PrefixCausal(Causal):
    """Any denoiser as a causal reader: what it says of the first hidden position, one evaluation a read prefix."""

    def __init__(self, denoiser: Answering, rows: int, length: int, valid: Tensor | None = None) -> None:
        super().__init__(rows)
        self.tokens = torch.full((rows, length), denoiser.vocabulary)
        self.lengths = torch.full((rows,), -1)
        self._ends = torch.full((rows,), length) if valid is None else valid.sum(1)
        self._engine = denoiser.engine(self.tokens, None, valid)
        self.vocabulary = denoiser.vocabulary

    def extend(self, tokens: Tensor, counts: Tensor | None = None, asked: Tensor | None = None) -> Marginals:
        rows, width = tokens.shape
        counts = torch.full((rows,), width) if counts is None else counts
        self.need(counts > 0)
        said, order = [], []
        for k in range(width):
            reading = (counts > k).nonzero().squeeze(1)
            places = self.lengths[reading]
            written = places >= 0
            self._write(reading[written], places[written], tokens[reading[written], k])
            self.lengths[reading] += 1
            followed = reading[self.lengths[reading] < self._ends[reading]]
            if asked is not None:
                followed = followed[asked[followed, k]]
            if len(followed):
                said.append(as_marginals(self._engine.at(followed, self.lengths[followed], None)))
                order.append(followed * width + k)
        if not said:
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        return joined(said)[torch.cat(order).argsort()]

    @property
    def spent(self) -> Cost:
        return self._engine.spent

    def rewind(self, lengths: Tensor) -> None:
        positions = torch.arange(self.tokens.shape[1])
        rows, places = ((positions >= lengths.unsqueeze(1)) & (self.tokens != self.vocabulary)).nonzero(as_tuple=True)
        self._write(rows, places, self.vocabulary)
        self.lengths = torch.minimum(self.lengths, lengths)

    def _write(self, rows: Tensor, positions: Tensor, tokens: Tensor | int) -> None:
        self.tokens[rows, positions] = tokens
        self._engine.renew(rows, positions)


def followed(lengths: Tensor, counts: Tensor, width: int, places: int, asked: Tensor | None) -> Tensor:
    """Bool (B, K): of K tokens, of which a row reads its first counts (B) after lengths (B), the start not counted,
    those that something follows within `places` positions; and that are asked for, if anyone says."""
    steps = torch.arange(width)
    found = (steps < counts.unsqueeze(1)) & (lengths.unsqueeze(1) + 1 + steps < places)
    return found if asked is None else found & asked
