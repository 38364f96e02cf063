"""The result of generate(): a `Generation` of sequences, with their cost, their texts and their trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError, needed
from unmask.core.files import origin, write_json
from unmask.core.samples import account_path, digest, given_path, write_tokens
from unmask.denoisers import Cost
from unmask.languages import Language
from unmask.samplers import Session
from unmask.samplers.session import REASONS, Taken
from unmask.samplers.trace import MOST_ROWS, MOST_SYMBOLS, Event, Row, Symbols, Trace, check

if TYPE_CHECKING:
    from typing import Protocol

    import pandas

    class Tokenizer(Protocol):
        def written(self, tokens: list[int]) -> str: ...


@dataclass(frozen=True, repr=False)
class Generation:
    """Generated sequences and their cost; B rows of up to L tokens."""

    tokens: Tensor  # (B, L); behind a row's length: fill tokens or padding
    order: Tensor  # (B, L): the step that revealed each token, 0 for given tokens
    probability: Tensor  # (B, L): of each token when it was revealed, 1 for given and fill tokens
    lengths: Tensor  # (B): number of tokens of each row, up to its end
    reasons: tuple[str, ...]  # (B): why it ended: "filled", "stopped" by the stop rule, "done" by the sampler
    model_calls_of: dict[str, Tensor]  # (B) model calls of each row, for each model: "denoiser", "causal"
    spent: Cost  # computation, as counted by the denoiser
    impossible: Tensor  # (B): the model call at which the context first had probability zero, or 0
    seconds: float
    planned: bool  # whether the order was fixed before any token was drawn
    vocabulary: int  # V
    source: dict[str, Any] = field(default_factory=dict)  # the denoiser: a digest of its language or weights, or an id
    configuration: dict[str, Any] = field(default_factory=dict)
    ideal: Language | None = None  # the language, if its ideal denoiser was used
    fallbacks: Tensor | None = None  # (B) with a joint draw: steps whose marginals excluded every allowed string
    chosen_among: int = 1  # consecutive rows that were chosen among each other; only such groups are independent
    taken: Taken | None = None  # re-masked tokens; None if there are any but `trace` was off

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def shape(self) -> torch.Size:  # (B, L)
        return self.tokens.shape

    @property
    def model_calls(self) -> Tensor:
        """(B): model calls of all denoisers together."""
        return sum(self.model_calls_of.values(), torch.zeros_like(self.impossible))

    @property
    def given(self) -> Tensor:
        """(B, L): the tokens at the start, V where hidden; can be passed to `generate` again."""
        return torch.where(self.order == 0, self.tokens, self.vocabulary)

    @property
    def written(self) -> Tensor:
        """(B): tokens of each row that were not given, up to its end."""
        return ((self.order > 0) & (torch.arange(self.order.shape[1]) < self.lengths.unsqueeze(1))).sum(1)

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a line for each sequence: its tokens, the step of each, why it ended, and its cost.

        impossible: whether the language forbids it; None where no language is known."""
        with needed("pages", "a generation as a DataFrame"):
            import pandas

        columns = {
            "tokens": [row[:end].tolist() for row, end in zip(self.tokens, self.lengths, strict=True)],
            "step": [row[:end].tolist() for row, end in zip(self.order, self.lengths, strict=True)],
            "length": self.lengths.tolist(),
            "reason": self.reasons,
            "model_calls": self.model_calls.tolist(),
            "impossible": None if self.ideal is None else self.ideal.impossible(self.tokens).tolist(),
        }
        return pandas.DataFrame(columns)

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The generated text of each row, from its first to its last position that was not given.

        It includes given tokens in between, such as the fixed parts of a template, and ends where the row ends."""
        texts = []
        for tokens, order, length in zip(self.tokens, self.order, self.lengths.tolist(), strict=True):
            places = (order[:length] > 0).nonzero()
            part = tokens[int(places[0]) : int(places[-1]) + 1] if len(places) else tokens[:0]
            texts.append(tokenizer.written(part.tolist()))
        return texts

    def trace(self, rows: Sequence[int] | None = None, symbols: Symbols | None = None) -> Trace:
        """The trace of these rows, to be saved and shown (samplers/trace.py). (default: all rows)

        symbols: texts of tokens, a list or a function of the token. (default: the names in the language)"""
        if self.taken is None:
            raise UnmaskError(
                "tokens were re-masked, but not recorded",
                "expected a generation with a trace",
                "Call generate(.., trace=True).",
            )
        if symbols is None and self.ideal is not None:
            symbols = self.ideal.names
        if rows is None:
            rows = range(len(self.tokens))
        return _recorded(self, rows, symbols)

    def summary(self) -> dict[str, Any]:
        rows, length = self.shape
        written = int(self.written.sum())
        impossible = None if self.ideal is None else int(self.ideal.impossible(self.tokens).sum())

        drawn: dict[str, Any] = {}  # of a joint draw
        if self.fallbacks is not None:
            drawn["fallback_steps"] = int(self.fallbacks.sum())
        if self.chosen_among > 1:
            drawn["chosen_among"] = self.chosen_among

        return drawn | {
            "rows": rows,
            "length": length,
            "tokens_written": written,  # without given tokens and fill tokens
            "model_calls": float(self.model_calls.double().mean()),
            "model_calls_of": {name: float(count.double().mean()) for name, count in self.model_calls_of.items()},
            "forwards": self.spent.forwards,
            "rows_computed": self.spent.rows,
            "tokens_computed": self.spent.tokens,
            "impossible_rows": impossible,
            "seconds": self.seconds,
            "tokens_per_second": written / max(self.seconds, 1e-9),  # of all rows together
        }

    def __repr__(self) -> str:
        rows, length = self.shape
        calls = float(self.model_calls.double().mean())
        sampler = self.configuration.get("sampler", "several samplers")
        cost = f"{calls:.4g} model calls per sequence, {self.seconds:.2f} s"
        return f"<Generation of {rows} x {length} tokens by {sampler}: {cost}>"

    def save(self, path: str | Path, texts: Sequence[str] | None = None) -> None:
        """Save tokens as .npy, or as .jsonl with one list per line, and their origin as PATH.json.

        texts: the text of each row, for tokens of a text (`Tokenizer.decode`, or `texts`). They go into .jsonl too,
        with the reason why each row ended, or alone into .txt. Given tokens, if there are any, go into another file:
        samples.npy has its samples.given.npy.
        """
        path = arguments.path("path", path)
        write_tokens(path, self.tokens, texts, self.reasons)
        account = self.summary() | {"tokens_sha256": digest(self.tokens), "source": self.source}
        account |= {"origin": origin(**self.configuration)}

        if bool((self.lengths < self.tokens.shape[1]).any()):
            account |= {"lengths": self.lengths.tolist(), "reasons": list(self.reasons)}
        if bool((self.order == 0).any()):
            write_tokens(given_path(path), self.given)
            account["given_sha256"] = digest(self.given)

        write_json(account_path(path), account)


def join(parts: Sequence[Generation]) -> Generation:
    """Join blocks of rows into one generation, the same as if they were made together."""
    if len(parts) == 1:
        return parts[0]

    rows: dict[str, Any] = {}
    for name in ("tokens", "order", "probability", "lengths", "impossible"):
        rows[name] = torch.cat([getattr(part, name) for part in parts])

    calls: dict[str, Tensor] = {}  # of all models that any part used
    for name in {name: None for part in parts for name in part.model_calls_of}:
        calls[name] = torch.cat([part.model_calls_of.get(name, torch.zeros_like(part.impossible)) for part in parts])

    taken: list[Taken] = []
    firsts = accumulate((len(part.tokens) for part in parts[:-1]), initial=0)
    for part, first in zip(parts, firsts, strict=True):
        if part.taken is not None:
            taken.append(part.taken._replace(rows=part.taken.rows + first))
    fallbacks = [part.fallbacks for part in parts if part.fallbacks is not None]

    return replace(
        parts[0],
        **rows,
        fallbacks=torch.cat(fallbacks) if len(fallbacks) == len(parts) else None,
        reasons=tuple(chain.from_iterable(part.reasons for part in parts)),
        model_calls_of=calls,
        spent=sum((part.spent for part in parts), Cost()),
        taken=_concatenated(taken) if len(taken) == len(parts) else None,
        seconds=sum(part.seconds for part in parts),
    )


def _concatenated(taken: Sequence[Taken]) -> Taken:
    return Taken._make(map(torch.cat, zip(*taken, strict=True)))


def finished(session: Session, seconds: float, about: dict[str, Any]) -> Generation:
    """The generation of a finished session."""
    account = session.account()
    taken = None
    if session.trace or not bool(session.revised.any()):
        nothing = torch.zeros(0, dtype=torch.int64)
        none = Taken(nothing, nothing, nothing, nothing, nothing.double(), nothing)
        taken = _concatenated([none, *session.taken])

    fallbacks, group = None, 1
    if session.joint is not None:
        fallbacks, group = session.together.fallbacks, session.joint.particles

    return Generation(
        tokens=session.tokens,
        order=session.order,
        probability=session.probability,
        lengths=session.lengths,
        reasons=tuple(REASONS[reason] for reason in session.reasons.tolist()),
        model_calls_of=account.model_calls_of,
        spent=account.spent,
        impossible=account.impossible,
        seconds=seconds,
        planned=session.planned,
        vocabulary=session.denoiser.vocabulary,
        ideal=session.denoiser.language if session.denoiser.ideal else None,
        fallbacks=fallbacks,
        chosen_among=group,
        taken=taken,
        **about,
    )


def _recorded(generation: Generation, rows: Sequence[int], symbols: Symbols | None) -> Trace:
    arguments.whole("the number of rows of a trace", len(rows), 1, MOST_ROWS)
    for row in rows:
        arguments.whole("row", row, 0, len(generation.tokens) - 1)

    records = list(map(partial(_row, generation), rows))
    texts: list[str] | dict[str, str] | None = None
    if symbols is not None:
        name = symbols if callable(symbols) else symbols.__getitem__
        if generation.vocabulary <= MOST_SYMBOLS:
            texts = [name(token) for token in range(generation.vocabulary)]
        else:
            used = {token for row in records for _, token in row.given}
            used |= {token for row in records for _, _, token, _ in row.events if token is not None}
            texts = {str(token): name(token) for token in sorted(used)}

    trace = Trace(
        vocabulary=generation.vocabulary,
        rows=records,
        symbols=texts,
        sampler=generation.configuration.get("sampler"),
        source=generation.source,
    )
    check(trace)
    return trace


def _row(generation: Generation, row: int) -> Row:
    """The events of a row: for one position in the order in which they happened, for several by step."""
    assert generation.taken is not None
    length = int(generation.lengths[row])
    order = generation.order[row, :length].tolist()
    tokens = generation.tokens[row, :length].tolist()
    probability = generation.probability[row, :length].tolist()

    past: list[list[Event]] = [[] for _ in range(length)]
    taken = generation.taken.select(generation.taken.rows == row)
    for position, turn, token, p, hidden in zip(*(part.tolist() for part in taken[1:]), strict=True):
        if position < length:
            past[position] += [(turn, position, token, min(p, 1.0)), (hidden, position, None, None)]
    for position, turn in enumerate(order):
        if turn:
            past[position].append((turn, position, tokens[position], min(probability[position], 1.0)))

    # by step, then by the number of the event at its position, then by position
    events = [(event[0], number, event[1], event) for one in past for number, event in enumerate(one)]
    events.sort(key=lambda one: one[:3])
    given = [(position, tokens[position]) for position in range(length) if order[position] == 0]
    return Row(length=length, given=given, events=[event for *_, event in events])
