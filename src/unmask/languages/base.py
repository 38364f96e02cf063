"""The class of languages q: exact samples, likelihoods, support, posteriors, entropies and lengths."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from unmask.core import arguments
from unmask.core.arguments import MOST, whole
from unmask.core.chance import Stream, categorical, check_seed, uniform
from unmask.core.errors import UnmaskError, shown
from unmask.core.estimates import Estimate, exactly
from unmask.core.files import origin, write_json
from unmask.core.means import mean
from unmask.core.memory import fits
from unmask.core.registry import Registry
from unmask.languages.closed_form import ClosedForm
from unmask.languages.kernels.local import Chain
from unmask.languages.kernels.machine import Machine

UNKNOWN = "<unk>"  # the name of the token for all symbols outside the vocabulary
LONGEST_NAME = 256  # characters of a token's name
MOST_REACH = 64  # times a length: the limit of the search for a possible length
MESSAGE_BYTES = 2**25  # the messages of one block of rows: large enough to amortize a call, small enough for a cache

Tokens = Tensor | ArrayLike | Sequence[Sequence[int]]  # or texts, if tokens have names


def as_tokens(tokens: Tokens, what: str = "tokens") -> Tensor:
    """Integers of any shape, from a tensor, an array or lists, as int64 on the host."""
    if isinstance(tokens, np.ma.MaskedArray):
        raise UnmaskError(f"{what} are a masked array; expected an array without a mask. Fill the masked entries.")
    if not isinstance(tokens, Tensor):
        try:
            array = np.asarray(tokens)
        except (ValueError, TypeError, RuntimeError) as error:  # rows of several lengths
            raise UnmaskError(f"{what} are not a table of tokens: {error}") from error
        if array.dtype.kind not in "iu" or (array.size and int(array.max()) > np.iinfo(np.int64).max):
            raise UnmaskError(f"{what} are {array.dtype}; expected integers of at most 64 bits with a sign")
        return torch.from_numpy(array.astype(np.int64))
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise UnmaskError(f"{what} are {str(tokens.dtype).removeprefix('torch.')}; expected integers")
    if tokens.layout != torch.strided or tokens.is_quantized or tokens.is_meta:
        raise UnmaskError(f"{what} are a sparse or quantized tensor, or one without data; expected a dense one")
    return tokens.long().cpu().contiguous()


def codes(tokens: Tensor, vocabulary: int, size: int) -> Tensor:
    """(B, L - size + 1): the index of each window of tokens (B, L) among all V^size, in lexicographic order."""
    return tokens.unfold(1, size, 1) @ (vocabulary ** torch.arange(size - 1, -1, -1))


@final  # so that it is always true
@dataclass(frozen=True)
class Steps:
    """The reasoning steps of B rows, each with at most E steps.

    A step is incorrect if its tokens do not follow from the previous tokens of the row, correct or not. The answer
    is correct if the last result answers the question, whatever the steps are. So an incorrect step makes the answer
    incorrect, unless another step compensates for it or the answer does not come from the steps.
    """

    wrong: Tensor  # Bool (B, E): incorrect; only the first, in a row that cannot be read
    count: Tensor  # (B): number of steps
    answer: Tensor  # Bool (B): correct; False for a row that cannot be read

    @property
    def wrong_share(self) -> Tensor:
        """(B) the fraction of incorrect steps in each row."""
        return self.wrong.sum(1) / self.count.double()


class Language(ABC):
    """A distribution q over sequences of one length at a time; tokens are 0..V-1 and V means hidden.

    `given` is a sequence (L), or one per row (B, L), with V at hidden positions; all methods can condition on it.
    """

    kind: ClassVar[str]
    vocabulary: int
    names: tuple[str, ...] | None = None  # the text of each token
    end: int | None = None  # the token that ends a sequence of variable length; padding follows it
    width: int | None = None  # l of the interval language, which theorem 4.4 is about

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Plain values that define this language: its JSON form without the kind."""

    @abstractmethod
    def log_evidence(self, tokens: Tensor) -> Tensor:
        """log q(x_R) of the revealed part of tokens (B, L), float64 (B); exactly -inf if it is impossible."""

    def _sample(self, row_ids: Tensor, given: Tensor, seed: int) -> Tensor:
        """Draw x ~ q(. | given) for these rows; by default, one token after another."""
        tokens = given.expand(len(row_ids), -1).clone()
        for j in range(tokens.shape[1]):
            hidden = (tokens[:, j] == self.vocabulary).nonzero().squeeze(1)
            if len(hidden):
                u = uniform(seed, Stream.LANGUAGE, row_ids[hidden], torch.tensor(j))
                marginals = self._posterior(tokens[hidden], torch.full((len(hidden), 1), j))[:, 0]
                tokens[hidden, j] = categorical(marginals, u)
        return tokens

    def _posterior(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """q(x_j | x_R) (B, K, V) at positions (B, K); by default, from the evidence of every token.

        In contexts of probability zero the result is uniform; see theory.md 7.1.
        """
        every = torch.arange(self.vocabulary)
        rows = torch.arange(len(tokens)).unsqueeze(1).expand(positions.shape)
        contexts = tokens[rows].unsqueeze(2).repeat(1, 1, self.vocabulary, 1)  # (B, K, V, L)
        places = positions[:, :, None, None].expand(-1, -1, self.vocabulary, 1)
        contexts.scatter_(3, places, every.view(1, 1, -1, 1).expand(*positions.shape, -1, 1))

        evidence = self.log_evidence(contexts.flatten(0, 2)).view(*positions.shape, self.vocabulary)
        dead = (evidence == -torch.inf).all(-1, keepdim=True)
        distribution = torch.softmax(torch.where(dead, 0.0, evidence), -1)
        shown = tokens.gather(1, positions).unsqueeze(-1)
        return torch.where(shown == self.vocabulary, distribution, (every == shown).double())

    def _entropy(self, given: Tensor) -> float | None:
        """H(X | given) in nats for one pattern (L); None if it must be estimated from samples."""
        return None

    @property
    def endless(self) -> bool:
        """Whether the distribution of a prefix is the same for every length."""
        return False

    def local_form(self, length: int) -> tuple[Chain, None] | tuple[None, int] | None:
        """(chain, None) or (None, width) for kernels/local.py if only the nearest tokens matter, else None."""
        return None

    @property
    def machine(self) -> Machine | None:
        """The weighted automaton that equals this language, if there is one."""
        return None

    @property
    def closed_form(self) -> ClosedForm | None:
        """Formulas for ancestral sampling of this language, if there are any."""
        return None

    def steps(self, tokens: Tokens) -> Steps | None:
        """The reasoning steps in each row of tokens (B, L), and whether its answer is correct; None without steps."""
        return None

    def window_distribution(self, size: int, length: int) -> Tensor:
        """(V^size) the distribution of `size` consecutive tokens at a uniformly random position, oldest digit first."""
        self.check_length(length)
        whole("size", size, 1, length)
        fits(self.vocabulary**size, f"windows of {size} tokens", 8, "the size of the windows")
        return self._window_distribution(size, length)

    def _window_distribution(self, size: int, length: int) -> Tensor:
        """By default, the mean over positions of the evidence of every window alone."""
        windows = torch.cartesian_prod(*[torch.arange(self.vocabulary)] * size).view(-1, size)
        distribution = torch.zeros(len(windows), dtype=torch.float64)
        for part in torch.arange(len(windows)).split(max(MESSAGE_BYTES // (8 * length), 1)):
            for place in range(length - size + 1):
                pattern = self.blank(len(part), length)
                pattern[:, place : place + size] = windows[part]
                distribution[part] += self.log_evidence(pattern).exp()
        return distribution / (length - size + 1)

    def facts(self) -> dict[str, Any]:
        """Additional entries of `describe`."""
        return {}

    def source(self) -> dict[str, str]:
        """The identity of the language: its kind, and a digest of its JSON form."""
        return {"kind": self.kind, "digest": self._digest}

    @cached_property
    def _digest(self) -> str:
        form = json.dumps({"kind": self.kind} | self.parameters(), sort_keys=True)
        return hashlib.sha256(form.encode()).hexdigest()[:16]

    def check_origin(self, source: Mapping[str, Any] | None, where: str) -> None:
        """Raise an error if sequences come from another language, by the `source` that their file names."""
        other = (source or {}).get("language")
        if isinstance(other, Mapping) and "digest" in other and other != (own := self.source()):
            of, this = (f"{one.get('kind')} with the digest {one['digest']}" for one in (other, own))
            raise UnmaskError(
                f"{where} is of another language: {of}; this is {this}",
                "Pass the language that wrote it, or remove the record of its source",
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self.vocabulary} symbols, digest {self.source()['digest']}>"

    def possible_lengths(self, longest: int) -> np.ndarray:
        """(longest+1) booleans: whether sequences of each length exist."""
        fits(arguments.whole("longest", longest, 0) + 1, "lengths", 8, "the longest length")
        return np.arange(longest + 1) > 0

    def sample(
        self, rows: int, length: int, *, seed: int = 0, first_row: int = 0, given: Tokens | None = None
    ) -> Tensor:
        """Draw x ~ q(. | given), (rows, length) int64; row r depends only on the seed and first_row + r."""
        self.check_length(length)
        rows = whole("rows", rows)
        first_row = whole("first_row", first_row, 0, MOST - rows)
        fits(rows, f"rows of {length} tokens", 16 * length)
        pattern = self.check_given(given, rows, length)
        return self._sample(torch.arange(first_row, first_row + rows), pattern, check_seed(seed))

    def log_prob(self, tokens: Tokens, given: Tokens | None = None) -> Tensor:
        """log q(x | given) in nats, float64 (B); exactly -inf if `supports` is False."""
        tokens = self.check_tokens(tokens)
        whole = self.log_evidence(tokens)
        if given is None:
            return whole
        pattern = self.check_given(given, *tokens.shape)
        agrees = ((pattern == self.vocabulary) | (pattern == tokens)).all(1)
        return torch.where(agrees, whole - self.log_evidence(pattern), -torch.inf)

    def supports(self, tokens: Tokens) -> Tensor:
        """q(x) > 0, bool (B)."""
        return ~self.impossible(self.check_tokens(tokens))

    def impossible(self, tokens: Tensor) -> Tensor:
        """q(x_R) = 0, bool (B), of tokens with V where hidden."""
        return self.log_evidence(tokens) == -torch.inf

    def posterior(self, tokens: Tokens, positions: Tokens | None = None) -> Tensor:
        """q(x_j | x_R) from scratch, (B, K, V) float64; positions (K) or (B, K), all by default; revealed: one-hot."""
        tokens = self.check_tokens(tokens, hidden=True)
        rows, length = tokens.shape
        positions = torch.arange(length) if positions is None else as_tokens(positions, "positions")
        if ((positions < 0) | (positions >= length)).any():
            raise UnmaskError(f"positions are not all in 0..{length - 1}, the positions of {length} tokens")
        if positions.dim() not in (1, 2) or (positions.dim() == 2 and len(positions) != rows):
            raise UnmaskError(f"positions have shape {tuple(positions.shape)}; expected (K) or ({rows}, K)")
        return self._posterior(tokens, positions.expand(rows, -1).contiguous())

    def entropy(self, length: int, *, given: Tokens | None = None, rows: int = 2000, seed: int = 0) -> Estimate:
        """H(X | given) in nats: exact if a sequence determines its path, else the mean of -log q over x ~ q."""
        self.check_length(length)
        whole("rows", rows)
        check_seed(seed)
        pattern = self.check_given(given, 1, length)
        value = self._entropy(pattern[0])
        if value is not None:
            return exactly(value)
        drawn = self.sample(rows, length, seed=seed, given=given)
        return mean(-self.log_prob(drawn, given), method="monte carlo")

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "vocabulary": self.vocabulary} | self.facts()

    def to_dict(self) -> dict[str, Any]:
        content = {"kind": self.kind} | self.parameters()
        if self.names:
            content["names"] = list(self.names)
        return content

    def save(self, path: str | Path) -> None:
        """Write its JSON form and origin to a file, which `languages.load` reads."""
        write_json(arguments.path("path", path), self.to_dict() | {"origin": origin()})

    def encode(self, texts: Sequence[str]) -> Tensor:
        """(B, L) tokens of texts of one length, by the names of the tokens; `render` is the inverse."""
        if self.names is None:
            raise UnmaskError(f"{self.kind} has no names of tokens, so it cannot read text; pass numbers (B, L)")
        arguments.texts("texts", texts, "a list of strings, one per row")

        rows = [self._read(text, f"text {row}") for row, text in enumerate(texts)]
        for row, tokens in enumerate(rows):
            if len(tokens) != len(rows[0]):
                raise UnmaskError(
                    f"text {row} has {len(tokens)} tokens, but text 0 has {len(rows[0])}",
                    "expected rows of one length",
                    "Cut or pad them.",
                )
        return torch.tensor(rows, dtype=torch.int64).view(len(rows), -1)

    def _read(self, text: str, what: str) -> list[int]:
        """The tokens of a text: words if each name is a word and a space, else the longest matching names."""
        assert self.names is not None
        known = {name: token for token, name in reversed(list(enumerate(self.names)))}

        if all(name.endswith(" ") for name in self.names):
            pieces = [f"{word} " for word in text.split()]
        else:
            longest = sorted(filter(None, known), key=len, reverse=True)
            pieces = re.findall("|".join([*map(re.escape, longest), "."]), text, flags=re.DOTALL)

        strange = [piece for piece in pieces if piece not in known]
        rest = known.get(UNKNOWN, known.get(f"{UNKNOWN} "))
        if rest is None and strange:
            raise UnmaskError(f"{what} contains {shown(strange[0])}, which is not a token of {self.kind}")
        return [known.get(piece, rest or 0) for piece in pieces]

    def render(self, tokens: Tokens) -> str:
        """One sequence (L) as text; tokens after the end are omitted."""
        tokens = as_tokens(tokens)
        if tokens.dim() != 1:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected one sequence, (length)")
        values = tokens[: int(self.sizes(tokens.unsqueeze(0))[0])].tolist()
        name = str if self.names is None else self.names.__getitem__
        between = " " if self.names is None else ""
        return between.join("_" if v == self.vocabulary else name(v) for v in values)

    def sizes(self, tokens: Tokens) -> Tensor:
        """|x| of each row (B): tokens up to and including the first end, the whole length without one."""
        tokens = as_tokens(tokens)
        if tokens.dim() != 2:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected (rows, length)")
        if self.end is None:
            return torch.full((len(tokens),), tokens.shape[1])
        ended = tokens == self.end
        return torch.where(ended.any(1), ended.int().argmax(1) + 1, tokens.shape[1])

    def named(self, names: Sequence[str]) -> Self:
        """This language with a name of each token, for `render` and for files."""
        arguments.of_kind("names", names, list | tuple, "a list of names, one per token")
        if len(names) != self.vocabulary:
            raise UnmaskError(f"there are {len(names)} names; expected {self.vocabulary}, one per token")
        if (longest := max(map(len, map(str, names)), default=0)) > LONGEST_NAME:
            raise UnmaskError(f"a name has {longest:,} characters; expected at most {LONGEST_NAME}")
        language = copy(self)
        language.names = tuple(map(str, names))
        return language

    def blank(self, rows: int, length: int) -> Tensor:
        return torch.full((rows, length), self.vocabulary)

    def nearest_lengths(self, length: int) -> list[int]:
        """The nearest possible lengths from below and from above, without duplicates."""
        reach = arguments.length(length)
        while not (possible := self.possible_lengths(reach))[length:].any() and reach < MOST_REACH * length + 4096:
            reach *= 2
        lengths = np.flatnonzero(possible)
        near = np.concatenate([lengths[lengths <= length][-1:], lengths[lengths >= length][:1]])
        return np.unique(near).tolist()

    def check_length(self, length: int) -> None:
        whole("length", length, 1, arguments.MOST_LENGTH)
        if not self.possible_lengths(length)[length]:
            near = " and ".join(map(str, self.nearest_lengths(length))) or "none"
            raise UnmaskError(f"{self.kind} has no sequence of length {length}; the nearest lengths: {near}")

    def check_tokens(self, tokens: Tokens, hidden: bool = False) -> Tensor:
        """Tokens, or texts, as int64 (B, L); the error names the first bad position."""
        if isinstance(tokens, list | tuple) and tokens and isinstance(tokens[0], str):
            tokens = self.encode(tokens)
        tokens = as_tokens(tokens)
        if tokens.dim() != 2 or tokens.numel() == 0:
            raise UnmaskError(f"tokens have shape {tuple(tokens.shape)}; expected (rows, length)")

        top = self.vocabulary - 1 + hidden  # the mask is V
        bad = (tokens < 0) | (tokens > top)
        if bad.any():
            row, position = bad.nonzero()[0].tolist()
            value = int(tokens[row, position])
            mask = " (that is the mask: the position was never revealed)" if value == self.vocabulary else ""
            raise UnmaskError(f"row {row}, position {position}: token {value}{mask} is not in 0..{top}")
        return tokens

    def check_given(self, given: Tokens | None, rows: int, length: int) -> Tensor:
        """Given tokens as (1, L) or (B, L), none as a blank row; an error if no sequence contains them."""
        if given is None:
            return self.blank(1, length)
        given = as_tokens(given, "given tokens")
        if given.dim() == 1:
            given = given.unsqueeze(0)
        given = self.check_tokens(given, hidden=True)
        if given.shape[1] != length or len(given) not in (1, rows):
            raise UnmaskError(f"given has shape {tuple(given.shape)}; expected ({length},) or ({rows}, {length})")

        impossible = self.impossible(given)
        if impossible.any():
            raise UnmaskError(f"given row {int(impossible.int().argmax())} has probability zero: no sequence fits it")
        return given


def check_kind(kind: type, label: str) -> None:
    """Raise an error unless this is a complete class of languages."""
    if not issubclass(kind, Language):
        raise UnmaskError(f"{label} is {kind.__name__}, not a language; derive it from unmask.languages.Language")
    missing = sorted(kind.__abstractmethods__)
    if not hasattr(kind, "kind"):
        missing.append("kind")
    if missing:
        raise UnmaskError(f"{label} has no {' and '.join(missing)}; expected kind, parameters and log_evidence")


# The kinds by name. A language file names one of them; it contains only numbers, so it cannot cause an import.
LANGUAGES: Registry[Language] = Registry("kind of language", "unmask.languages", check_kind, (Language,))
