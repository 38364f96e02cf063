"""The ideal denoiser of a language: its posterior, updated while a canvas is filled.

For a table of answers its state is the number of revealed tokens that contradict each answer:

    q(x_j = v | x_R)  ~  sum over answers m of  w_m [m_j = v] [m contradicts no token of R other than that at j]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.core.chance import Randomness, Stream
from unmask.denoisers.contracts import Causal, Cost, Engine, all_of
from unmask.denoisers.denoiser import ByLength, Denoiser, PrefixCausal, StatelessEngine, checked, followed
from unmask.denoisers.noise import Noise
from unmask.languages import Language, LanguageLike, load
from unmask.languages.answers import Answers, normalised
from unmask.languages.base import MESSAGE_BYTES
from unmask.languages.kernels import local, messages, paths
from unmask.languages.kernels.local import Chain
from unmask.languages.kernels.machine import Floats, aligned
from unmask.languages.machine import MachineLanguage

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int

LEAST_ROWS, MOST_ROWS = 8, 4096  # at once
LOCAL_BYTES = 64  # per position, if only tokens are stored


class ListedEngine(Engine):
    """A change of one token costs one comparison per answer. The own token of a position is left out, so the engine is
    hollow."""

    hollow = True

    def __init__(self, language: Answers, tokens: Int[Tensor, "B L"]) -> None:
        super().__init__(tokens)
        self.language = language
        self.vocabulary = language.vocabulary
        self.seen = torch.full_like(tokens, self.vocabulary)  # the tokens that are counted
        self.against = torch.zeros(len(tokens), len(language.answers), dtype=torch.int16)  # (B, M)
        rows, positions = (tokens != self.vocabulary).nonzero(as_tuple=True)
        self.renew(rows, positions)

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        for position in positions.unique().tolist():
            own = rows[positions == position].unique()
            new = self.tokens[own, position]
            before = self._contradicts(self.seen[own, position], position)
            self.against[own] += self._contradicts(new, position) - before
            self.seen[own, position] = new

    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Float[Tensor, "K V"]:
        self.spend_on(rows)
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        agreeing = torch.where(self.against == 0, self.language.weights, 0.0)  # (B, M), for hidden positions
        for position in positions.unique().tolist():
            entries = (positions == position).nonzero().squeeze(1)
            which = rows[entries]
            held = agreeing[which]
            own = self.tokens[which, position]
            if bool((own != self.vocabulary).any()):
                others = self.against[which] - self._contradicts(own, position)
                held = torch.where(others == 0, self.language.weights, 0.0)
            out[entries] = held @ self.language.one_hot(position)
        return normalised(out, torch.full_like(rows, self.vocabulary))

    def dead(self) -> Bool[Tensor, " B"]:
        return (self.against > 0).all(1)

    def _contradicts(self, tokens: Tensor, position: int) -> Tensor:
        """(K, M), 1 where a revealed token (K) contradicts an answer."""
        shown = tokens.unsqueeze(1)
        differs = (shown != self.vocabulary) & (shown != self.language.answers[:, position])
        return differs.to(torch.int16)


class Ideal(Denoiser):
    """p(x_j | x_R) = q(x_j | x_R) for a language (theory.md 7.1).

    For a language with a closed form over its tokens, a machine, or a table of answers, the engine updates its state
    with each reveal. For other languages it computes the posterior of each changed row from scratch.
    """

    concurrent = True
    ideal = True
    language: Language

    def __init__(self, language: Language) -> None:
        self.language = language
        self.vocabulary = language.vocabulary

    @property
    def name(self) -> str:
        return f"the ideal denoiser of {self.language.kind}"

    def source(self) -> dict[str, Any]:
        return {"denoiser": "ideal", "language": self.language.source()}

    def engine(
        self,
        tokens: Int[Tensor, "B L"],
        given: Int[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Engine:
        if valid is not None:
            return ByLength(self, tokens, given, valid)
        self.language.check_length(tokens.shape[1])

        if (form := self.language.local_form(tokens.shape[1])) is not None:
            return LocalEngine(self.language, tokens, *form)
        if isinstance(self.language, MachineLanguage):
            return MessageEngine(self.language, tokens)
        if isinstance(self.language, Answers):
            return ListedEngine(self.language, tokens)
        return StatelessEngine(self, tokens)

    def causal(self, rows: int, length: int, valid: Bool[Tensor, "B L"] | None = None) -> Causal:
        if isinstance(self.language, MachineLanguage) and (valid is None or self.language.endless):
            self.language.check_length(length)
            return FilterCausal(self.language, rows, length)
        return PrefixCausal(self, rows, length, valid)

    def posterior(
        self, tokens: Int[Tensor, "B L"], positions: Tensor | None = None, time: Tensor | None = None
    ) -> Tensor:
        return self.language.posterior(tokens, positions)

    def rows_at_once(self, length: int) -> int:
        """The number of rows whose messages fit into a cache."""
        each = LOCAL_BYTES * length
        if self.language.local_form(length) is None and isinstance(self.language, MachineLanguage):
            each = 16 * length * (self.language.machine.states + self.vocabulary)
        elif isinstance(self.language, Answers):
            each = 2 * len(self.language.answers)
        return min(max(MESSAGE_BYTES // each, LEAST_ROWS), MOST_ROWS)


@lru_cache(maxsize=8)
def _blank_messages(language: MachineLanguage, length: int) -> Floats:
    """Both messages (2, L*S) of a canvas without revealed tokens."""
    return messages.blank(language.machine, length)


class MessageEngine(Engine):
    """Forward and backward messages (B, L, S), updated outwards from changes (languages/kernels/messages.py).

    The messages at a position do not depend on its own token, so the engine is hollow.
    """

    hollow = True

    def __init__(self, language: MachineLanguage, tokens: Int[Tensor, "B L"]) -> None:
        super().__init__(tokens)
        self.language = language
        self.machine, self.vocabulary = language.machine, language.vocabulary
        self._dead = torch.zeros(len(tokens), dtype=torch.bool)
        self._messages: tuple[Floats, Floats, NDArray[np.bool_]] | None = None

    @property
    def messages(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """(forward, backward, restarts), computed at the first use."""
        if self._messages is None:
            shape = (*self.tokens.shape, self.machine.states)
            forward, backward, restarts = aligned(shape), aligned(shape), np.zeros(self.tokens.shape, bool)
            if bool((self.tokens == self.vocabulary).all()):
                forward[:], backward[:] = _blank_messages(self.language, shape[1]).reshape(2, *shape[1:])
            else:
                messages.fill_rows(self.machine, self.tokens.numpy(), forward, backward, restarts)
            self._messages = forward, backward, restarts
            self._dead = torch.from_numpy(restarts.any(1))
        return self._messages

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        if self._messages is None:
            return
        length = self.tokens.shape[1]
        keys = rows * length + positions

        if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):  # each once, in ascending order
            keys = keys.unique()
            rows, positions = keys // length, keys % length

        distinct, counts = rows.unique_consecutive(return_counts=True)
        which = distinct.numpy()
        starts = np.concatenate([[0], np.cumsum(counts.numpy())])
        messages.sweep_rows(self.machine, self.tokens.numpy(), *self._messages, which, starts, positions.numpy())
        self._dead[which] = torch.from_numpy(self._messages[2][which].any(1))

    def follow(
        self, order: Int[Tensor, "B L"], rng: Randomness, visits: Int[Tensor, "B L"]
    ) -> tuple[Float64[Tensor, "B L"], Int[Tensor, " B"], Int[Tensor, " B"]]:
        self._messages = None
        length = self.tokens.shape[1]
        blank = _blank_messages(self.language, length)
        scratch = messages.scratch(self.machine, length)
        return _follow(self, partial(messages.fill, self.machine, blank, scratch), order, rng, visits)

    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Float[Tensor, "K V"]:
        self.spend_on(rows)
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        forward, backward, _ = self.messages
        messages.marginals_at(self.machine, forward, backward, rows.numpy(), positions.numpy(), out.numpy())
        return out

    def dead(self) -> Bool[Tensor, " B"]:
        _ = self.messages  # sets _dead
        return self._dead


def _follow(
    engine: Engine, fill: Callable[..., None], order: Tensor, rng: Randomness, visits: Int[Tensor, "B L"]
) -> tuple[Tensor, Tensor, Tensor]:
    tokens = engine.tokens
    steps, positions = order.sort(dim=1, stable=True)
    begins = (order == 0).sum(1)
    probability = torch.ones(tokens.shape, dtype=torch.float64)
    model_calls = torch.zeros_like(begins)
    impossible = torch.zeros_like(begins)

    keys = np.uint64(rng.seed), int(Stream.TOKEN), rng.row_ids.numpy()
    results = [t.numpy() for t in (visits, probability, model_calls, impossible)]
    fill(tokens.numpy(), (steps.numpy(), positions.numpy()), begins.numpy(), keys, *results)
    engine.spend_on_steps(model_calls)
    return probability, model_calls, impossible


class LocalEngine(Engine):
    """A closed form over the tokens themselves; the only state is the set of contradictory rows.

    It is a chain, in which only the nearest revealed neighbours matter, or the interval language of a width, in which
    the bits of revealed partners are copied (languages/kernels/local.py). The marginal at a position does not depend on
    its own token, so the engine is hollow.
    """

    hollow = True

    def __init__(self, language: Language, tokens: Int[Tensor, "B L"], chain: Chain | None, width: int | None) -> None:
        super().__init__(tokens)
        self.language = language
        self.vocabulary = language.vocabulary
        self.form = chain, width
        self._dead = torch.zeros(len(tokens), dtype=torch.bool)
        if not bool((tokens == self.vocabulary).all()):
            self._dead = language.impossible(tokens)

    def renew(self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"]) -> None:
        if bool((self.tokens[rows, positions] == self.vocabulary).any()):  # hiding may undo a contradiction
            which = rows.unique()
            self._dead[which] = self.language.impossible(self.tokens[which])
        else:
            arrays = (t.contiguous().numpy() for t in (self.tokens, rows, positions, self._dead))
            local.contradictions(*self.form, *arrays)

    def at(
        self, rows: Int[Tensor, " K"], positions: Int[Tensor, " K"], time: Float[Tensor, " B"] | None
    ) -> Float[Tensor, "K V"]:
        self.spend_on(rows)
        out = torch.empty((len(rows), self.vocabulary), dtype=torch.float64)
        arrays = (t.contiguous().numpy() for t in (self.tokens, rows, positions, out))  # compiled for one layout
        local.marginals_at(*self.form, *arrays)
        return out

    def follow(
        self, order: Int[Tensor, "B L"], rng: Randomness, visits: Int[Tensor, "B L"]
    ) -> tuple[Float64[Tensor, "B L"], Int[Tensor, " B"], Int[Tensor, " B"]]:
        scratch = self._dead.numpy(), np.empty(self.vocabulary), np.empty_like(self.tokens[0].numpy())
        return _follow(self, partial(local.fill, *self.form, scratch), order, rng, visits)

    def dead(self) -> Bool[Tensor, " B"]:
        return self._dead


class FilterCausal(Causal):
    """The exact AR model of a machine: only forward messages, stored for every length so that it can rewind.

    q(x_j = v | x_<j) ~ sum_s predicted_j(s) E(s, v) ahead_j(s), with ahead the backward message of a blank canvas.
    """

    def __init__(self, language: MachineLanguage, rows: int, length: int) -> None:
        super().__init__(rows)
        self.machine, self.passes = language.machine, language.passes
        self.ahead = _blank_messages(language, length)[1].reshape(length, -1)  # (L, S)
        self.lengths = torch.full((rows,), -1)

    @cached_property
    def predicted(self) -> Floats:
        """(B, L, S): the forward messages so far; allocated at the first use."""
        return np.empty((len(self.lengths), *self.ahead.shape))

    def extend(
        self,
        tokens: Int[Tensor, "B K"],
        counts: Int[Tensor, " B"] | None = None,
        selected: Bool[Tensor, "B K"] | None = None,
    ) -> Tensor:
        counts = all_of(tokens, counts)
        marginals = torch.zeros((*tokens.shape, self.machine.vocabulary), dtype=torch.float64)
        arrays = (t.numpy() for t in (self.lengths, tokens.contiguous(), counts, marginals))
        paths.filter_rows(self.machine, self.ahead, self.predicted, *arrays)

        returned = followed(self.lengths, counts, tokens.shape[1], len(self.ahead), selected)
        self.lengths += counts
        self.need(counts > 0)
        self._account += Cost(1, int((counts > 0).sum()), int(counts.sum()))
        return marginals[returned]

    def rewind(self, lengths: Int[Tensor, " B"]) -> None:
        self.lengths = torch.minimum(self.lengths, lengths)

    def finish(self, last: Int[Tensor, " B"], tokens: Int[Tensor, "B L"], rng: Randomness) -> Float64[Tensor, "B L"]:
        unread = self.lengths < 0
        end = self.lengths.clamp(min=0)
        message = np.tile(self.machine.initial, (len(end), 1))
        if not bool(unread.all()):
            read = (~unread).numpy()
            message[read] = self.predicted[read, end.numpy()[read]]

        known = torch.where(unread, self.machine.vocabulary, last)
        probability = torch.ones(tokens.shape, dtype=torch.float64)
        prefixes = paths.Prefixes(end.numpy(), message, known.numpy())
        self.passes.draw(self.ahead, rng, prefixes, tokens.numpy(), probability.numpy())

        left = len(self.ahead) - 1 - self.lengths
        self.need(left)
        self._account += Cost(int(left.max()), int(left.sum()), int(left.sum()))
        return probability


def as_denoiser(source: LanguageLike | Denoiser, noise: Noise = "mask") -> Denoiser:
    """The denoiser itself, or the ideal denoiser of a language or its spec for this noise."""
    if not isinstance(source, Language | str | Path):
        return checked(source)
    if noise == "mask":
        return Ideal(load(source))
    denoiser: Denoiser = import_module("unmask.denoisers.uniform").UniformIdeal(load(source))  # it is made of this file
    return denoiser
