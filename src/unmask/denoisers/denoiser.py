"""The base class of denoisers: the same samplers run on exact denoisers, networks and open models.

B rows, L positions, V symbols; tokens are 0..V-1, and V is the mask.

Its engine and reader predict from scratch: each changed row takes a model call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.core.arguments import whole
from unmask.core.errors import UnmaskError, shown
from unmask.denoisers.contracts import Causal, Cost, Engine, all_of, of_rows
from unmask.denoisers.marginals import Marginals, Table, as_marginals, joined
from unmask.denoisers.noise import Noise
from unmask.languages import Language

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int

SUMS, ROUGH_SUMS = 1e-3, 0.05  # the largest error of a sum of probabilities, for 32 bits and more, and for fewer


class StatelessEngine(Engine):
    """Evaluates changed rows at the requested positions, and caches the last predictions.

    An unchanged row is evaluated again only for positions that are not in the cache.
    """

    def __init__(self, denoiser: Denoiser, tokens: Int[Tensor, "B L"]) -> None:
        super().__init__(tokens)
        self.denoiser = denoiser
        self._last: Marginals | None = None
        self._index = torch.full(tokens.shape, -1)  # (B, L): the entry of `_last` for each position; -1: none

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        self._index[rows] = -1

    def at(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None) -> Marginals:
        index = self._index[rows, positions]
        unknown = torch.zeros(len(self.tokens), dtype=torch.bool)
        unknown[rows] = not self.denoiser.time_free
        unknown[rows[index < 0]] = True
        new = unknown[rows]

        if not bool(new.any()):
            assert self._last is not None
            return self._last[index]

        marginals = self._evaluate(rows[new], positions[new], time)
        if not bool(new.all()):
            assert self._last is not None
            where = torch.empty_like(index)
            size = int((~new).sum())
            where[~new] = torch.arange(size)
            where[new] = torch.arange(size, len(index))
            marginals = joined([self._last[index[~new]], marginals])[where]

        self._last = marginals
        self._index.fill_(-1)
        self._index[rows, positions] = torch.arange(len(rows))
        return marginals

    def _evaluate(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Marginals:
        which, index = rows.unique_consecutive(return_inverse=True)
        padded, valid = layout(index, positions)
        self.spend_on(which)

        answer = self.denoiser.posterior(self.tokens[which], padded, of_rows(time, which))
        shape = (*padded.shape, self.denoiser.vocabulary)
        if isinstance(answer, Marginals) and len(answer) == padded.numel():
            return answer[valid]

        probabilities = table_of(answer, shape, self.denoiser.name).view(-1, shape[2])[valid]
        check_sums(probabilities, rows, positions, self.denoiser.name)
        return Table(probabilities)


def table_of(answer: object, shape: tuple[int, int, int], name: str) -> Tensor:
    """Check the probabilities (B, K, V) that a denoiser has returned."""
    expected = f"expected probabilities {shape}, a floating-point tensor, or Marginals of that number of entries"
    if not isinstance(answer, Tensor):
        raise UnmaskError(f"the posterior of {name} is {shown(answer)}; {expected}")
    if answer.shape != shape or not answer.is_floating_point() or answer.layout != torch.strided or answer.is_meta:
        kind = f"{str(answer.dtype).removeprefix('torch.')} {tuple(answer.shape)}"
        if answer.is_meta:
            kind = f"meta {kind}"
        elif answer.layout != torch.strided:
            kind = f"sparse {kind}"
        raise UnmaskError(f"the posterior of {name} is {kind}; {expected}")
    return answer.contiguous()


def check_sums(
    probabilities: Float[Tensor, "K V"],
    rows: Int[Tensor, " K"],
    positions: Int[Tensor, " K"],
    name: str,
    off: float | None = None,
) -> None:
    """Raise an error unless probabilities (K, V) are distributions. off: by which a sum may differ from 1."""
    if not len(probabilities):
        return

    if off is None:
        off = SUMS if probabilities.dtype in (torch.float64, torch.float32) else ROUGH_SUMS
    sums = probabilities.sum(-1)
    good = (sums - 1).abs() <= off  # also false for NaN
    if not (bool(good.all()) and float(probabilities.min()) >= 0):
        good &= (probabilities >= 0).all(-1)
        at = int((~good).int().argmax())
        where = f"position {int(positions[at])} of row {int(rows[at])}"
        problem = f"probabilities of {name} at {where} sum to {float(sums[at]):.6g}"
        least = f"the least is {float(probabilities[at].min()):.6g}"
        raise UnmaskError(f"{problem} and {least}; expected a sum of 1, none below 0")


def layout(rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> tuple[Int[Tensor, "R A"], Int[Tensor, " K"]]:
    """Positions (R, A), padded, of K entries whose rows 0..R-1 ascend; and the index (K) of each entry in them."""
    counts = torch.bincount(rows)
    width = int(counts.max()) if len(counts) else 0
    column = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
    valid = rows * width + column
    return positions.new_zeros(len(counts) * width).index_copy_(0, valid, positions).view(len(counts), width), valid


class ByLength(Engine):
    """A separate engine for the rows of each length, for denoisers that do not support padding."""

    def __init__(
        self,
        denoiser: Denoiser,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None,
        valid: Bool[Tensor, "B L"],
    ) -> None:
        super().__init__(tokens)
        lengths, self._part = valid.sum(1).unique(return_inverse=True)  # (B): the engine of each row
        self._row = torch.empty_like(self._part)  # (B): the index of each row in its engine
        self._engines = []

        for part, length in enumerate(lengths.tolist()):
            rows = (self._part == part).nonzero().squeeze(1)
            self._row[rows] = torch.arange(len(rows))
            its_given = None if given is None else given[rows, :length]
            self._engines.append((rows, denoiser.engine(tokens[rows, :length], its_given)))

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        for part, (_, engine) in enumerate(self._engines):
            inside = self._part[rows] == part
            if bool(inside.any()):
                entries = self._row[rows[inside]], positions[inside]
                engine.tokens[entries] = self.tokens[rows[inside], positions[inside]]
                engine.renew(*entries)

    def at(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None) -> Marginals:
        marginals: list[Marginals] = []
        where: list[Tensor] = []
        for part, (its_rows, engine) in enumerate(self._engines):
            inside = (self._part[rows] == part).nonzero().squeeze(1)
            if len(inside):
                answer = engine.at(self._row[rows[inside]], positions[inside], of_rows(time, its_rows))
                marginals.append(as_marginals(answer))
                where.append(inside)
        return joined(marginals)[torch.cat(where).argsort()]

    @property
    def hollow(self) -> bool:
        return all(engine.hollow for _, engine in self._engines)

    @property
    def spent(self) -> Cost:
        return sum((engine.spent for _, engine in self._engines), Cost())

    def dead(self) -> Bool[Tensor, " B"] | None:
        impossible = torch.zeros(len(self.tokens), dtype=torch.bool)
        for rows, engine in self._engines:
            dead = engine.dead()
            if dead is None:
                return None
            impossible[rows] = dead
        return impossible


class PrefixCausal(Causal):
    """Any denoiser as a causal reader: it predicts the first hidden position, with one model call per prefix."""

    def __init__(self, denoiser: Denoiser, rows: int, length: int, valid: Bool[Tensor, "B L"] | None = None) -> None:
        super().__init__(rows)
        self.tokens = torch.full((rows, length), denoiser.vocabulary)
        self.lengths = torch.full((rows,), -1)
        self._ends = torch.full((rows,), length) if valid is None else valid.sum(1)
        self._engine = denoiser.engine(self.tokens, None, valid)
        self.vocabulary = denoiser.vocabulary

    def extend(
        self,
        tokens: Int[Tensor, "B K"],
        counts: Int[Tensor, " B"] | None = None,
        selected: Bool[Tensor, "B K"] | None = None,
    ) -> Marginals:
        width = tokens.shape[1]
        counts = all_of(tokens, counts)
        self.need(counts > 0)

        marginals: list[Marginals] = []
        order: list[Tensor] = []
        for k in range(width):
            reading = (counts > k).nonzero().squeeze(1)
            positions = self.lengths[reading]
            written = positions >= 0
            self._write(reading[written], positions[written], tokens[reading[written], k])
            self.lengths[reading] += 1

            followed = reading[self.lengths[reading] < self._ends[reading]]
            if selected is not None:
                followed = followed[selected[followed, k]]
            if len(followed):
                marginals.append(as_marginals(self._engine.at(followed, self.lengths[followed], None)))
                order.append(followed * width + k)

        if not marginals:
            return Table(torch.empty((0, self.vocabulary), dtype=torch.float64))
        return joined(marginals)[torch.cat(order).argsort()]

    @property
    def spent(self) -> Cost:
        return self._engine.spent

    def rewind(self, lengths: Int[Tensor, " B"]) -> None:
        beyond = torch.arange(self.tokens.shape[1]) >= lengths.unsqueeze(1)
        rows, positions = (beyond & (self.tokens != self.vocabulary)).nonzero(as_tuple=True)
        self._write(rows, positions, self.vocabulary)
        self.lengths = torch.minimum(self.lengths, lengths)

    def _write(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], tokens: Tensor | int) -> None:
        self.tokens[rows, positions] = tokens
        self._engine.renew(rows, positions)


def followed(
    lengths: Int[Tensor, " B"], counts: Int[Tensor, " B"], width: int, length: int, selected: Bool[Tensor, "B K"] | None
) -> Bool[Tensor, "B K"]:
    """Bool (B, K): the tokens after which `Causal.extend` predicts, of K tokens.

    A row reads its first counts (B) tokens after lengths (B) of the `length` tokens of a sequence.
    """
    steps = torch.arange(width)
    predicted = (steps < counts.unsqueeze(1)) & (lengths.unsqueeze(1) + 1 + steps < length)
    if selected is not None:
        predicted &= selected
    return predicted


def checked(denoiser: object) -> Denoiser:
    """Check that this is a denoiser, and return it."""
    if not isinstance(denoiser, Denoiser):
        raise UnmaskError(
            f"{type(denoiser).__name__} is not a denoiser",
            "expected one derived from unmask.denoisers.Denoiser",
            "For a language pass ideal.Ideal(language).",
        )
    whole(f"vocabulary of {denoiser.name}", getattr(denoiser, "vocabulary", None))
    return denoiser


def removing(denoiser: Denoiser, noise: Noise, what: str) -> None:
    """Check that a denoiser removes this kind of noise, which `what` is about."""
    if denoiser.removes != noise:
        problem = (
            f"{what} needs a denoiser that removes {noise} noise; {denoiser.name} removes {denoiser.removes} noise"
        )
        raise UnmaskError(f"{problem}. Pass another denoiser")


class Denoiser:
    """p_theta(x_j | x_R): predicts hidden positions from the revealed ones.

    Derive from it, set `vocabulary` and write `posterior` or `engine`; the other one follows.
    """

    vocabulary: int  # V
    removes: Noise = "mask"  # the kind of noise (denoisers/noise.py); samplers of the other kind refuse it
    time_free: bool = True  # False: predictions depend on the time, so every step needs a model call
    calls: int = 1  # model calls of one prediction: 2 with guidance
    grid: int | None = None  # block size of a model that sees one block and those before it; samplers follow it
    concurrent: bool = False  # whether threads may fill several blocks of rows at once
    language: Language | None = None  # the underlying language, also if predictions are modified
    ideal: bool = False  # whether predictions are the posterior of the language

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.posterior is Denoiser.posterior and cls.engine is Denoiser.engine:
            raise UnmaskError(f"{cls.__name__} predicts nothing; write posterior(tokens, positions, time), or engine")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.name}, {self.vocabulary} symbols>"

    @property
    def name(self) -> str:
        """Its name in results and errors."""
        return type(self).__name__

    def source(self) -> dict[str, Any]:
        """Plain values that identify it in files: a digest, or an id."""
        return {"denoiser": f"{type(self).__module__}.{type(self).__qualname__}"}

    def engine(
        self,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Engine:
        """Return the engine for a canvas with these tokens (B, L).

        given (B, L): the tokens at the start, V if hidden. (default: the tokens)
        valid, Bool (B, L): False at padding, which follows the positions of a row and is never read. (default: no
        padding)
        """
        if valid is None:
            return StatelessEngine(self, tokens)
        return ByLength(self, tokens, given, valid)

    def causal(self, rows: int, length: int, valid: Bool[Tensor, "B L"] | None = None) -> Causal:
        """Return a reader that runs the denoiser from left to right, for rows of known length; valid: see `engine`."""
        return PrefixCausal(self, rows, length, valid)

    def posterior(
        self, tokens: Int[Tensor, "B L"], positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor | Marginals:
        """Predict from scratch, for tokens (B, L) at positions (K) or (B, K). (default: all)

        Return probabilities (B, K, V), one-hot if revealed; or, for large vocabularies, Marginals of the B K entries,
        row by row.
        """
        return self._from_engine(tokens, positions, time, None)

    def _from_engine(
        self, tokens: Int[Tensor, "B L"], positions: Tensor | None, time: Tensor | None, given: Tensor | None
    ) -> Tensor:
        """`posterior` by a new engine, of a canvas that started with these given tokens (B, L)."""
        if positions is None:
            positions = torch.arange(tokens.shape[1])
        positions = positions.expand(len(tokens), -1)

        content = tokens.gather(1, positions)
        rows, columns = (content == self.vocabulary).nonzero(as_tuple=True)
        out = torch.nn.functional.one_hot(content.clamp(max=self.vocabulary - 1), self.vocabulary).double()
        marginals = as_marginals(self.engine(tokens.clone(), given).at(rows, positions[rows, columns], time))
        out[rows, columns] = marginals.dense().double()
        return out

    def probabilities(
        self,
        tokens: Int[Tensor, "B L"],
        positions: Tensor | None = None,
        time: Tensor | None = None,
        given: Int[Tensor, "B L"] | None = None,
    ) -> Float64[Tensor, "B K V"]:
        """`posterior` (B, K, V) as a tensor, for small vocabularies.

        given: as in `engine`; guidance depends on it. Pass it for contexts that a sampler has written a part of.
        """
        of_tokens = type(self).posterior is not Denoiser.posterior  # and of nothing else
        answer = (
            self.posterior(tokens, positions, time) if of_tokens else self._from_engine(tokens, positions, time, given)
        )

        if not isinstance(answer, Marginals):
            count = tokens.shape[1] if positions is None else positions.shape[-1]
            return table_of(answer, (len(tokens), count, self.vocabulary), self.name).double()
        return answer.dense().double().view(len(tokens), -1, self.vocabulary)

    def time_at(self, level: float | Tensor, rows: int) -> Tensor | None:
        """(B) the time of each row, or the same for all; None if predictions do not depend on it."""
        return None if self.time_free else torch.as_tensor(level, dtype=torch.float64).expand(rows).contiguous()

    def rows_at_once(self, length: int) -> int | None:
        """The fastest number of rows of this length to fill together; None: all."""
        return None
