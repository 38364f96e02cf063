"""What a sampler is: a small class that implements exactly one of `order`, `choose` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor

from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.core.registry import Registry
from unmask.denoisers import Denoiser
from unmask.samplers.session import Session
from unmask.samplers.view import View

WAYS = ("order", "choose", "run")


Law = Literal["order", "causal", "language"] | Callable[[Denoiser, int, Tensor], Tensor]
Pace = Literal["counts", "rounds", "free"]
Reads = Literal["canvas", "causal"]
CANVAS: frozenset[Reads] = frozenset(["canvas"])
CAUSAL: frozenset[Reads] = frozenset(["causal"])


class Choice(NamedTuple):
    """What an adaptive sampler decides in a round."""

    reveal: Tensor  # Bool (B, L), among the hidden, and among what `hide` takes back: there another token is written
    tokens: Tensor | None = None  # (B, L): what to write there; None: draw now from what the denoiser says
    hide: Tensor | None = None  # Bool (B, L), among the `revealed`: to be decided again
    done: Tensor | None = None  # Bool (B): what is left of the row is settled, and is filled without being looked at
    stay: Tensor | None = None  # Bool (B): another round in the block, though nothing is hidden; where pace is "free"
    odds: Tensor | None = None  # (B, L) float64: the probabilities of tokens that are written where others stood


class Sampler:
    """One way to fill a canvas: fixed before looking (order), chosen each round (choose), or its own flow (run)."""

    pace: Pace = "counts"
    """How it keeps to the schedule. `choose` reveals view.count positions in each round; or as many as it likes, and
    all by round N; or it goes on until nothing is hidden, revealing at least one in each round. An `order` has rounds
    1..N; where its pace is free N is not used, and a row has at most as many rounds as hidden positions."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.spec}>"

    @property
    def law(self) -> Law | None:
        """Which law its output claims to follow, for `unmask.diagnosis.conformance`; what orders claims the first.

        order     each token is a draw from what the denoiser says of the places revealed in earlier rounds, and where
                  is decided before what: given the order the law is known, and it is q's at one position a round
        causal    prod_j p(x_j | x_<j), whatever the number of rounds
        language  that of the language, of whose ideal denoiser it is asked, whatever the number of rounds
        or a function of (denoiser, length, delta): the probability of every x of `metrics.sequences`, (V^L)"""
        return "order" if self.implements("order") else None

    @property
    def reads(self) -> frozenset[Reads]:
        """What it asks: a canvas, which a masked model fills; a causal reader, which is an AR model; or both."""
        return CANVAS

    @property
    def draws_rounds(self) -> bool:
        """Whether each position draws its round from the schedule by itself: Theorem 4.2's and 4.4's sampler."""
        return False

    @property
    def revises(self) -> bool:
        """Whether it may take back what it has written: whoever shows a row before it is done waits for its end."""
        return False

    @property
    def spec(self) -> str:
        """Its name with its options, which makes it again: "blocks(block_length=16, inner='margin')"."""
        return specification(self)

    def order(self, delta: Tensor, hidden: Tensor, luck: Luck) -> Tensor:
        """Rounds 1..N (B, L) of every hidden position (B, L), 0 elsewhere: nothing depends on the tokens."""
        raise NotImplementedError

    def times(self, delta: Tensor, order: Tensor, luck: Luck) -> Tensor:
        """When each place of an order (B, L) is looked at, from 1 down: for denoisers that are not time-free."""
        last = order.amax(1, keepdim=True).clamp(min=1) if self.pace == "free" else len(delta)
        return 1 - (order.double() - 1) / last

    def choose(self, view: View) -> Choice:
        """What to reveal in this round, after looking."""
        raise NotImplementedError

    def run(self, session: Session) -> None:
        """Fill the session's rows by any flow; every evaluation goes through its canvas and its causal reader."""
        raise NotImplementedError

    @property
    def memory(self) -> dict[str, Any]:
        """None of its own: samplers are used for many rows at once."""
        what = f"{type(self).__name__} asks for a memory, which an order has not: it is fixed before anything is said"
        raise UnmaskError(f"{what}. To decide by earlier rounds write choose, whose view has it: view.memory")

    def implements(self, method: str) -> bool:
        return method in ways(type(self))


def ways(kind: type[Sampler]) -> list[str]:
    """Which of the three methods a class of samplers implements."""
    return [method for method in WAYS if getattr(kind, method) is not getattr(Sampler, method)]


def check_kind(kind: type, label: str) -> None:
    """An error unless this is a class of samplers that implements exactly one of the three."""
    if not issubclass(kind, Sampler):
        raise UnmaskError(f"{label} is no sampler but {kind.__name__}; derive it from unmask.samplers.Sampler")
    if len(found := ways(kind)) != 1:
        what = f"implements {' and '.join(found) or 'none of its methods'}"
        raise UnmaskError(f"{label} {what}; a sampler implements exactly one of order, choose and run")


SAMPLERS: Registry[Sampler] = Registry("sampler", "unmask.samplers", check_kind, (Sampler,), package="unmask.samplers")


def as_sampler(sampler: object) -> Sampler:
    """A sampler as it is, of a name the one that it stands for; an error where it is neither."""
    if isinstance(sampler, str):
        return SAMPLERS.make(sampler)
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        raise UnmaskError(f"the sampler is the class {sampler.__name__}; give one of it, {sampler.__name__}()")
    check_kind(type(sampler), f"sampler {type(sampler).__name__}")
    assert isinstance(sampler, Sampler)
    return sampler


def specification(sampler: Sampler) -> str:
    """The registered name of a sampler, or where its class is, with the options that are not as they are by default."""
    kind = type(sampler)
    name = SAMPLERS.name_of(kind) or f"{kind.__module__}:{kind.__qualname__}"
    options: list[str] = []
    known: tuple[Field[Any], ...] = fields(sampler) if is_dataclass(sampler) else ()
    for option in known:
        value = getattr(sampler, option.name)
        if value == option.default:
            continue
        if isinstance(value, Sampler):
            shown = repr(value.spec)
        elif callable(value):
            shown = (
                f"{value.__module__}:{value.__qualname__}" if hasattr(value, "__qualname__") else type(value).__name__
            )
        else:
            shown = repr(value)
        options.append(f"{option.name}={shown}")
    return f"{name}({', '.join(options)})" if options else name
