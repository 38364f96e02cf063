"""What came out of a generation, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.core.files import origin, write_json
from unmask.core.samples import account_path, digest, given_path, write_tokens
from unmask.core.shown import Shown
from unmask.denoisers import Cost
from unmask.generation.trace import MOST_ROWS, MOST_SYMBOLS, Event, Row, Symbols, Trace, check
from unmask.languages import Language
from unmask.samplers import Session
from unmask.samplers.session import REASONS, Taken

if TYPE_CHECKING:
    from unmask.text import Tokenizer


@dataclass(frozen=True, repr=False)
class Generation(Shown):
    """What came out, and what it cost; B rows of up to L tokens."""

    tokens: Tensor  # (B, L); behind a row's length: what it was filled with, or padding
    order: Tensor  # (B, L): the round that revealed each token, 0 where it was given
    probability: Tensor  # (B, L): of each token when it was revealed, 1 where it was given or filled
    lengths: Tensor  # (B): how many tokens each row has, up to where it has ended
    reasons: tuple[str, ...]  # (B): why nothing more was decided: "filled", "stopped" by the stop rule, "done"
    evaluations_of: dict[str, Tensor]  # (B) evaluations that each row needed, of each: "denoiser", "causal"
    spent: Cost  # what was computed for it, as the denoiser itself says
    impossible: Tensor  # (B): the evaluation at which the context had probability zero for the first time, or 0
    seconds: float
    planned: bool  # whether the order was fixed before any token was seen
    vocabulary: int  # V
    source: dict[str, Any] = field(default_factory=dict)  # the denoiser: a digest of its language or weights, or an id
    configuration: dict[str, Any] = field(default_factory=dict)
    ideal: Language | None = None  # the language whose ideal denoiser filled it, if that is what did
    taken: Taken | None = None  # tokens that were taken back; None where some were, and `trace` was not asked for

    @property
    def evaluations(self) -> Tensor:
        """(B): of all denoisers together."""
        return sum(self.evaluations_of.values(), torch.zeros_like(self.impossible))

    @property
    def given(self) -> Tensor:
        """(B, L): what there was to start from, V where it was hidden; `generate` takes it again."""
        return torch.where(self.order == 0, self.tokens, self.vocabulary)

    @property
    def written(self) -> Tensor:
        """(B): tokens of each row that were not given, up to where it has ended."""
        return ((self.order > 0) & (torch.arange(self.order.shape[1]) < self.lengths.unsqueeze(1))).sum(1)

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """What was written of each row: from its first place that was not given to its last, up to where it has ended;
        between the gaps of a template also what stood there."""
        found = []
        for tokens, order, length in zip(self.tokens, self.order, self.lengths.tolist(), strict=True):
            places = (order[:length] > 0).nonzero()
            part = tokens[int(places[0]) : int(places[-1]) + 1] if len(places) else tokens[:0]
            found.append(tokenizer.written(part.tolist()))
        return found

    def trace(self, rows: Sequence[int] | None = None, symbols: Symbols | None = None) -> Trace:
        """What was written when, of these rows, all by default, to be kept and looked at (generation/trace.py).

        symbols: what tokens look like, a name each or a function of the token; those of the language unless told
        otherwise."""
        if self.taken is None:
            what = "tokens were taken back on the way, and nobody kept them"
            raise UnmaskError(f"{what}; generate(.., trace=True) does, and its trace can be made")
        if symbols is None and self.ideal is not None:
            symbols = self.ideal.names
        return _recorded(self, range(len(self.tokens)) if rows is None else rows, symbols)

    def summary(self) -> dict[str, Any]:
        rows, length = self.tokens.shape
        written = int(self.written.sum())
        return {
            "rows": rows,
            "length": length,
            "tokens_written": written,  # what was given is not, nor what stands behind a row's end
            "evaluations": float(self.evaluations.double().mean()),
            "evaluations_of": {name: float(count.double().mean()) for name, count in self.evaluations_of.items()},
            "forwards": self.spent.forwards,
            "rows_computed": self.spent.rows,
            "tokens_computed": self.spent.tokens,
            "impossible_rows": int((self.impossible > 0).sum()),
            "seconds": self.seconds,
            "tokens_per_second": written / max(self.seconds, 1e-9),  # of all rows together
        }

    def __repr__(self) -> str:
        rows, length = self.tokens.shape
        needed = float(self.evaluations.double().mean())
        how = self.configuration.get("sampler", "several samplers")
        return (
            f"<Generation of {rows} x {length} tokens by {how}: {needed:.4g} evaluations a row, {self.seconds:.2f} s>"
        )

    def save(self, path: str | Path, texts: Sequence[str] | None = None) -> None:
        """Tokens as .npy, or as .jsonl with one list a line; what made them in PATH.json beside it.

        texts: what each row says, where tokens are those of a text (`Tokenizer.decode`, or `texts`); they go into
        .jsonl too, beside why each row has ended, or alone into .txt. What rows were given goes beside them, where it
        is anything: samples.npy has its samples.given.npy.
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
    """Blocks of rows as one generation: the same as if they had been made together."""
    rows: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])
        for name in ("tokens", "order", "probability", "lengths", "impossible")
    }
    names = {name: None for part in parts for name in part.evaluations_of}
    firsts = accumulate((len(part.tokens) for part in parts[:-1]), initial=0)
    taken = [
        None if part.taken is None else part.taken._replace(rows=part.taken.rows + first)
        for part, first in zip(parts, firsts, strict=True)
    ]
    kept = [part for part in taken if part is not None]
    nothing = [torch.zeros_like(part.impossible) for part in parts]
    return replace(
        parts[0],
        **rows,
        reasons=tuple(chain.from_iterable(part.reasons for part in parts)),
        evaluations_of={
            name: torch.cat([part.evaluations_of.get(name, none) for part, none in zip(parts, nothing, strict=True)])
            for name in names
        },
        spent=sum((part.spent for part in parts), Cost()),
        taken=Taken._make(map(torch.cat, zip(*kept, strict=True))) if len(kept) == len(parts) else None,
        seconds=sum(part.seconds for part in parts),
    )


def finished(session: Session, seconds: float, about: dict[str, Any]) -> Generation:
    """What is kept of a finished session: its messages are not."""
    account = session.account()
    return Generation(
        tokens=session.tokens,
        order=session.order,
        probability=session.probability,
        lengths=session.lengths,
        reasons=tuple(REASONS[reason] for reason in session.reasons.tolist()),
        evaluations_of=account.evaluations_of,
        spent=account.spent,
        impossible=account.impossible,
        seconds=seconds,
        planned=session.planned,
        vocabulary=session.denoiser.vocabulary,
        ideal=session.denoiser.language if session.denoiser.ideal else None,
        taken=session.taken(),
        **about,
    )


def _recorded(made: Generation, rows: Sequence[int], symbols: Symbols | None) -> Trace:
    """The trace of these rows of a generation."""
    assert made.taken is not None
    arguments.whole("the number of rows of a trace", len(rows), 1, MOST_ROWS)
    for row in rows:
        arguments.whole("row", row, 0, len(made.tokens) - 1)
    found = [_row(made, row) for row in rows]
    used = {token for row in found for _, token in row.given}
    used |= {token for row in found for _, _, token, _ in row.events if token is not None}
    texts: list[str] | dict[str, str] | None = None
    if symbols is not None:
        name = symbols if callable(symbols) else symbols.__getitem__
        if made.vocabulary <= MOST_SYMBOLS:
            texts = [name(token) for token in range(made.vocabulary)]
        else:
            texts = {str(token): name(token) for token in sorted(used)}
    sampler = made.configuration.get("sampler")
    trace = Trace(vocabulary=made.vocabulary, rows=found, symbols=texts, sampler=sampler, source=made.source)
    check(trace)
    return trace


def _row(made: Generation, row: int) -> Row:
    """Its events: of one place in the order in which they happened, of several by round."""
    assert made.taken is not None
    length = int(made.lengths[row])
    order, tokens = made.order[row, :length].tolist(), made.tokens[row, :length].tolist()
    probability = made.probability[row, :length].tolist()
    past: list[list[Event]] = [[] for _ in range(length)]
    mine = made.taken.of(made.taken.rows == row)
    for position, turn, token, p, hidden in zip(*(part.tolist() for part in mine[1:]), strict=True):
        if position < length:
            past[position] += [(turn, position, token, min(p, 1.0)), (hidden, position, None, None)]
    for position, turn in enumerate(order):
        if turn:
            past[position].append((turn, position, tokens[position], min(probability[position], 1.0)))
    events = [(event[0], number, event[1], event) for one in past for number, event in enumerate(one)]
    given = [(position, tokens[position]) for position in range(length) if order[position] == 0]
    return Row(length=length, given=given, events=[event for *_, event in sorted(events, key=lambda one: one[:3])])
