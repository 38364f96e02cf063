"""What a ground truth q can say of itself: draws, likelihoods, support, posteriors, entropies, lengths."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import arguments
from unmask.core.arguments import MOST, whole
from unmask.core.chance import Stream, categorical, check_seed, uniform
from unmask.core.errors import Missing, UnmaskError, shown
from unmask.core.estimates import Estimate, exactly, mean
from unmask.core.files import origin, write_json
from unmask.core.memory import fits
from unmask.kernels.chain import Chain
from unmask.kernels.machine import Machine
from unmask.languages.closed_form import ClosedForm
from unmask.languages.steps import Steps

UNKNOWN = "<unk>"  # the name of what stands for all tokens that have none of their own
LONGEST_NAME = 256  # characters of a token's name
MOST_REACH = 64  # times a length: how far a possible one is looked for
MESSAGE_BYTES = 2**25  # the messages of one block of rows: large enough to amortise a call, small enough for a cache

Tokens = Tensor | ArrayLike | Sequence[Sequence[int]]  # or texts, where tokens have names


def as_tokens(tokens: Tokens, what: str = "tokens") -> Tensor:
    """Whole numbers of any shape as int64 on the host, whatever they come in: a tensor, an array, lists."""
    if isinstance(tokens, np.ma.MaskedArray):
        raise UnmaskError(f"{what} are a masked array; fill what is masked, or leave it out")
    if not isinstance(tokens, Tensor):
        try:
            array = np.asarray(tokens)
        except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths
            raise UnmaskError(f"{what} are no table of tokens: {error}") from error
        if array.dtype.kind not in "iu" or (array.size and int(array.max()) > np.iinfo(np.int64).max):
            raise UnmaskError(f"{what} are {array.dtype}; expected integers of at most 64 bits with a sign")
        return torch.from_numpy(array.astype(np.int64))
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise UnmaskError(f"{what} are {str(tokens.dtype).removeprefix('torch.')}; expected integers")
    if tokens.layout != torch.strided or tokens.is_quantized or tokens.is_meta:
        raise UnmaskError(f"{what} are a tensor that is sparse, quantized or without data; expected a dense one")
    return tokens.long().cpu().contiguous()


class Language(ABC):
    """A distribution q over sequences of one length at a time; tokens are 0..V-1 and V means hidden.

    `given` is a sequence (L), or one a row (B, L), in which hidden positions hold V: everything here can be asked
    conditionally on it.
    """

    kind: ClassVar[str]
    vocabulary: int
    names: tuple[str, ...] | None = None  # what the tokens look like to a reader
    end: int | None = None  # the token that ends a sequence of variable length; what follows it is padding
    width: int | None = None  # l, of the language of intervals, which theorem 4.4 is about

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Plain values that make this language again: its JSON form without the kind."""

    @abstractmethod
    def log_evidence(self, tokens: Tensor) -> Tensor:
        """log q(x_R) of the revealed part of tokens (B, L), float64 (B); -inf exactly where it is impossible."""

    def _sample(self, row_ids: Tensor, given: Tensor, seed: int) -> Tensor:
        """x ~ q(. | given) of these rows: unless a language knows better, one token after another."""
        tokens = given.expand(len(row_ids), -1).clone()
        for j in range(tokens.shape[1]):
            hidden = (tokens[:, j] == self.vocabulary).nonzero().squeeze(1)
            if len(hidden):
                u = uniform(seed, Stream.LANGUAGE, row_ids[hidden], torch.tensor(j))
                tokens[hidden, j] = categorical(
                    self._posterior(tokens[hidden], torch.full((len(hidden), 1), j))[:, 0], u
                )
        return tokens

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """q(x_j | x_R) (B, K, V) at positions (B, K): unless a language knows better, from the evidence of every token.

        Contexts of probability zero are answered by the backward half alone, uniformly; see theory.md 7.1.
        """
        rows, columns = torch.arange(len(tokens)).unsqueeze(1).expand(positions.shape), positions
        every = torch.arange(self.vocabulary)
        contexts = tokens[rows].unsqueeze(2).repeat(1, 1, self.vocabulary, 1)  # (B, K, V, L)
        contexts.scatter_(
            3,
            columns[:, :, None, None].expand(-1, -1, self.vocabulary, 1),
            every.view(1, 1, -1, 1).expand(*columns.shape, -1, 1),
        )
        evidence = self.log_evidence(contexts.flatten(0, 2)).view(*columns.shape, self.vocabulary)
        dead = (evidence == -torch.inf).all(-1, keepdim=True)
        law = torch.softmax(torch.where(dead, 0.0, evidence), -1)
        shown = tokens.gather(1, columns).unsqueeze(-1)
        return torch.where(shown == self.vocabulary, law, (every == shown).double())

    def _entropy(self, given: Tensor) -> float | None:
        """H(X | given) in nats of one pattern (L), or None where only sampling can tell."""
        return None

    @property
    def endless(self) -> bool:
        """Whether the law of a beginning is the same at every length, so that it can be read without knowing it."""
        return False

    def local_form(self, length: int) -> tuple[Chain | None, int] | None:
        """Where the nearest tokens are all that counts, what kernels/neighbours.py reads: the tables of a first-order
        chain, or none and the width of an interval; None elsewhere."""
        return None

    @property
    def machine(self) -> Machine | None:
        """The weighted automaton that it is; None where it is none."""
        return None

    @property
    def closed_form(self) -> ClosedForm | None:
        """What it knows of its own sampling by formulas; None where it has none."""
        return None

    def steps(self, tokens: Tokens) -> Steps | None:
        """What each of tokens (B, L) says step by step, and whether its answer is right; None where the language has no
        steps."""
        return None

    def independent(self, tokens: Tensor, hidden: Tensor, gamma: float) -> Tensor:
        """Bool (B, L): among the hidden, Bool (B, L), from left to right each that depends on none before it by more
        than gamma, I(X_i; X_j | x_R) <= gamma nats, by the language itself."""
        what = f"{self.kind} does not say how its positions depend on each other, which clairvoyant asks"
        raise UnmaskError(f"{what}; write its method `independent`, or take a language that is a machine")

    def best_order(self, hidden: Tensor, rounds: int) -> Tensor:
        """(B, L) the rounds 1..N of the hidden, Bool (B, L), with the least KL(q || p_order) of all orders of N rounds,
        0 elsewhere; on average over what may stand where nothing is hidden."""
        what = f"the best order of {self.kind} is not known; those of first-order chains and of intervals are"
        raise Missing(f"{what}. Take strided or block-strided, or write its method `best_order`")

    def window_law(self, size: int, length: int) -> Tensor:
        """(V^size) law of `size` consecutive tokens at a uniformly chosen place of a sequence, oldest digit first."""
        self.check_length(length)
        whole("size", size, 1, length)
        fits(self.vocabulary**size, f"windows of {size} tokens", 8)
        return self._window_law(size, length)

    def _window_law(self, size: int, length: int) -> Tensor:
        """Unless a language knows better, the mean over places of the evidence of every window alone."""
        windows = torch.cartesian_prod(*[torch.arange(self.vocabulary)] * size).view(-1, size)
        law = torch.zeros(len(windows), dtype=torch.float64)
        for part in torch.arange(len(windows)).split(max(MESSAGE_BYTES // (8 * length), 1)):
            for place in range(length - size + 1):
                pattern = self.blank(len(part), length)
                pattern[:, place : place + size] = windows[part]
                law[part] += self.log_evidence(pattern).exp()
        return law / (length - size + 1)

    def facts(self) -> dict[str, Any]:
        """What `describe` adds to the common part."""
        return {}

    def source(self) -> dict[str, str]:
        """Which language this is: its kind, and a digest of its JSON form."""
        form = json.dumps({"kind": self.kind} | self.parameters(), sort_keys=True)
        return {"kind": self.kind, "digest": hashlib.sha256(form.encode()).hexdigest()[:16]}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.vocabulary} symbols, digest {self.source()['digest']}>"

    def possible_lengths(self, longest: int) -> np.ndarray:
        """(longest+1) booleans: which lengths this language has."""
        fits(arguments.whole("longest", longest, 0) + 1, "lengths", 8)
        return np.arange(longest + 1) > 0

    def sample(
        self, rows: int, length: int, *, seed: int = 0, first_row: int = 0, given: Tokens | None = None
    ) -> Tensor:
        """x ~ q(. | given), (rows, length) int64; row r depends on the seed and first_row + r alone."""
        self.check_length(length)
        rows = whole("rows", rows)
        first_row = whole("first_row", first_row, 0, MOST - rows)
        fits(rows, f"rows of {length} tokens", 16 * length)
        pattern = self.blank(1, length) if given is None else self.check_given(given, rows, length)
        return self._sample(torch.arange(first_row, first_row + rows), pattern, check_seed(seed))

    def log_prob(self, tokens: Tokens, given: Tokens | None = None) -> Tensor:
        """log q(x | given) in nats, float64 (B); -inf exactly where `supports` is False."""
        tokens = self.check_tokens(tokens)
        whole = self.log_evidence(tokens)
        if given is None:
            return whole
        pattern = self.check_given(given, *tokens.shape)
        agrees = ((pattern == self.vocabulary) | (pattern == tokens)).all(1)
        return torch.where(agrees, whole - self.log_evidence(pattern), -torch.inf)

    def supports(self, tokens: Tokens) -> Tensor:
        """q(x) > 0, bool (B)."""
        return self.log_prob(tokens) > -torch.inf

    def posterior(self, tokens: Tokens, positions: Tokens | None = None) -> Tensor:
        """q(x_j | x_R) from scratch, (B, K, V) float64; positions (K) or (B, K), all by default; revealed: one-hot."""
        tokens = self.check_tokens(tokens, hidden=True)
        rows, length = tokens.shape
        positions = torch.arange(length) if positions is None else as_tokens(positions, "positions")
        if ((positions < 0) | (positions >= length)).any():
            raise UnmaskError(f"positions must lie in 0..{length - 1}, the places of {length} tokens")
        if positions.dim() not in (1, 2) or (positions.dim() == 2 and len(positions) != rows):
            raise UnmaskError(f"positions have shape {tuple(positions.shape)}; expected (K) or ({rows}, K)")
        return self._posterior(tokens, positions.expand(rows, -1).contiguous())

    def entropy(self, length: int, *, given: Tokens | None = None, rows: int = 2000, seed: int = 0) -> Estimate:
        """H(X | given) in nats: exact where a sequence determines its path, else the mean of -log q over x ~ q."""
        self.check_length(length)
        whole("rows", rows)
        check_seed(seed)
        pattern = self.blank(1, length) if given is None else self.check_given(given, 1, length)
        value = self._entropy(pattern[0])
        if value is not None:
            return exactly(value)
        drawn = self.sample(rows, length, seed=seed, given=given)
        return mean(-self.log_prob(drawn, given), method="monte carlo")

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "vocabulary": self.vocabulary} | self.facts()

    def to_dict(self) -> dict[str, Any]:
        content = {"kind": self.kind} | self.parameters()
        return content | ({"names": list(self.names)} if self.names else {})

    def save(self, path: str | Path) -> None:
        """Its JSON form and where it came from; `languages.load` reads it."""
        write_json(arguments.path("path", path), self.to_dict() | {"origin": origin()})

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(B, L) tokens of texts of one length, by the names that the tokens have; `render` is the way back."""
        if self.names is None:
            raise UnmaskError(f"{self.kind} has no names of tokens, and no text can be read; give numbers (B, L)")
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            arguments.refuse("texts", texts, "a list of strings, one a row")
        rows = [self._read(text, f"text {row}") for row, text in enumerate(texts)]
        for row, tokens in enumerate(rows):
            if len(tokens) != len(rows[0]):
                what = f"text {row} has {len(tokens)} tokens, and text 0 has {len(rows[0])}"
                raise UnmaskError(f"{what}; rows are of one length: cut or pad them")
        return torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)

    def _read(self, text: str, what: str) -> list[int]:
        """The tokens of a text: words where names are words with a space behind each, else the longest names first."""
        assert self.names is not None
        known = {name: token for token, name in reversed(list(enumerate(self.names)))}
        if all(name.endswith(" ") for name in self.names):
            pieces = [f"{word} " for word in text.split()]
        else:
            longest = sorted(filter(None, known), key=len, reverse=True)
            pieces = re.findall("|".join([*map(re.escape, longest), "."]), text, flags=re.DOTALL)
        rest = known.get(UNKNOWN, known.get(f"{UNKNOWN} "))
        if rest is None and (strange := next((piece for piece in pieces if piece not in known), None)) is not None:
            raise UnmaskError(f"{what} holds {shown(strange)}, which is no token of {self.kind}")
        return [known[piece] if piece in known else int(rest or 0) for piece in pieces]

    def render(self, tokens: Tokens) -> str:
        """One sequence (L) as text; what lies behind the end is left out."""
        tokens = as_tokens(tokens)
        if tokens.dim() != 1:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected one sequence, (length)")
        values = tokens[: int(self.sizes(tokens.unsqueeze(0))[0])].tolist()
        if self.names is None:
            return " ".join("_" if v == self.vocabulary else str(v) for v in values)
        return "".join("_" if v == self.vocabulary else self.names[v] for v in values)

    def sizes(self, tokens: Tokens) -> Tensor:
        """|x| of each row (B): tokens up to and including the first end, the whole length without one."""
        tokens = as_tokens(tokens)
        if tokens.dim() != 2:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected (rows, length)")
        if self.end is None:
            return torch.full((len(tokens),), tokens.shape[1])
        ended = tokens == self.end
        return torch.where(ended.any(1), ended.int().argmax(1) + 1, tokens.shape[1])

    def name_tokens(self, names: Sequence[str] | None) -> None:
        """Give the tokens names for `render` and for files, one each."""
        if names is not None:
            if not isinstance(names, list | tuple):
                arguments.refuse("names", names, "a list of names, one a token")
            if len(names) != self.vocabulary:
                raise UnmaskError(f"there are {len(names)} names; expected {self.vocabulary}, one a token")
        self.names = None if names is None else tuple(str(name) for name in names)
        if (longest := max(map(len, self.names or ()), default=0)) > LONGEST_NAME:
            raise UnmaskError(
                f"a name has {longest:,} characters; expected at most {LONGEST_NAME}: rows are shown in them"
            )

    def blank(self, rows: int, length: int) -> Tensor:
        return torch.full((rows, length), self.vocabulary)

    def nearest_lengths(self, length: int) -> list[int]:
        """The nearest possible length from below, if any, and the nearest from above, if any; once where they agree."""
        reach = arguments.length(length)
        while not (possible := self.possible_lengths(reach))[length:].any() and reach < MOST_REACH * length + 4096:
            reach *= 2
        lengths = np.flatnonzero(possible)
        return sorted({int(n) for n in (*lengths[lengths <= length][-1:], *lengths[lengths >= length][:1])})

    def check_length(self, length: int) -> None:
        arguments.length(length)
        if not self.possible_lengths(length)[length]:
            near = " and ".join(str(n) for n in self.nearest_lengths(length)) or "none"
            raise UnmaskError(f"{self.kind} has no sequence of length {length}; the nearest it has: {near}")

    def check_tokens(self, tokens: Tokens, hidden: bool = False) -> Tensor:
        """tokens, or texts, as int64 (B, L), or an error that names the first bad place."""
        if isinstance(tokens, list | tuple) and tokens and isinstance(tokens[0], str):
            tokens = self.encode(tokens)
        tokens = as_tokens(tokens)
        if tokens.dim() != 2 or tokens.numel() == 0:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected (rows, length)")
        top = self.vocabulary if hidden else self.vocabulary - 1
        bad = (tokens < 0) | (tokens > top)
        if bad.any():
            row, position = (int(i) for i in bad.nonzero()[0])
            value = int(tokens[row, position])
            mask = " (that is the mask: the position was never revealed)" if value == self.vocabulary else ""
            raise UnmaskError(f"row {row}, position {position}: token {value}{mask} is not in 0..{top}")
        return tokens

    def check_given(self, given: Tokens, rows: int, length: int) -> Tensor:
        """A given pattern as (1, L) or (B, L), or an error that says why no sequence can start from it."""
        given = as_tokens(given, "given tokens")
        given = given.unsqueeze(0) if given.dim() == 1 else given
        given = self.check_tokens(given, hidden=True)
        if given.shape[1] != length or len(given) not in (1, rows):
            raise UnmaskError(f"given has shape {tuple(given.shape)}; expected ({length},) or ({rows}, {length})")
        impossible = self.log_evidence(given) == -torch.inf
        if impossible.any():
            raise UnmaskError(f"given row {int(impossible.int().argmax())} has probability zero: no sequence fits it")
        return given
