"""The sampler contract: a small class that implements exactly one of `order`, `choose` and `run`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_origin, get_type_hints

from torch import Tensor

from unmask.core import arguments
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError, shown
from unmask.core.registry import Registry
from unmask.core.specs import called
from unmask.denoisers import Denoiser, Noise
from unmask.samplers.session import Session
from unmask.samplers.view import View

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64, Int

WAYS = ("order", "choose", "run")
Distribution = Literal["order", "causal", "language"] | Callable[[Denoiser, int, Tensor], Tensor]
Pace = Literal["counts", "steps", "free"]
Reads = Literal["canvas", "causal"]
CANVAS: frozenset[Reads] = frozenset(["canvas"])
CAUSAL: frozenset[Reads] = frozenset(["causal"])


# types of options, each with its check: a function of the option's name and value
Fraction = Annotated[float, partial(arguments.number, most=1.0)]  # from 0 to 1
Nats = Annotated[float, partial(arguments.number, what=" of nats")]
Some = Annotated[int, partial(arguments.whole, most=arguments.MOST_LENGTH)]  # positions, at least one
Places = Annotated[int, partial(arguments.whole, least=0, most=arguments.MOST_LENGTH)]
Flag = Annotated[bool, arguments.flag]


@cache
def checks(kind: Any) -> list[tuple[str, Callable[[str, Any], Any]]]:
    """The name and the check of each option of a sampler class whose type has one."""
    try:
        hints = get_type_hints(kind, include_extras=True).items()
    except NameError:  # of a plug-in, whose types only a type checker imports
        return []
    return [(name, hint.__metadata__[0]) for name, hint in hints if get_origin(hint) is Annotated]


class Choice(NamedTuple):
    """Decision of an adaptive sampler in one step."""

    reveal: Tensor  # Bool (B, L), among `hidden`; where `hide` is also set, the token is replaced
    tokens: Tensor | None = None  # (B, L): tokens to write; None: draw from the denoiser's marginals
    hide: Tensor | None = None  # Bool (B, L), among `revealed`: to be decided again
    done: Tensor | None = None  # Bool (B): finished sequences; the rest is filled without a model call
    stay: Tensor | None = None  # Bool (B): another step in the block although it is full; only with pace "free"
    odds: Tensor | None = None  # (B, L) float64: probabilities of the tokens that replace others


class Sampler:
    """One way to fill a canvas: an order fixed in advance, a choice in each step (choose), or its own loop (run)."""

    pace: Pace = "counts"
    """How it follows the schedule. "counts": `choose` reveals view.count positions per step. `"steps"`: any number
    in a step, all by step N. "free": N is not used, each step reveals at least one position; an `order` that is free
    has at most one step per hidden position."""

    removes: Noise = "mask"
    """The kind of noise. "uniform": an own loop, `run`, that starts from random tokens and replaces them
    (samplers/rules/uniform.py); only for denoisers of uniform noise."""

    def __post_init__(self) -> None:
        """Check the fields of a dataclass whose type has a check, such as Fraction."""
        kind: Any = type(self)  # hashable, which the type of a class with __eq__ does not say
        for name, checked in checks(kind):
            checked(name, getattr(self, name))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.spec}>"

    @property
    def distribution(self) -> Distribution | None:
        """The claimed distribution of its output, tested by `unmask.diagnosis.conformance`.

        order     each token is drawn from the denoiser's marginal given the positions revealed in earlier steps, and
                  positions are chosen before their tokens; with one position per step this is q
        causal    prod_j p(x_j | x_<j), for any number of steps
        language  the distribution of the ideal denoiser's language, for any number of steps
        or a function of (denoiser, length, delta): the probability of every x of `metrics.sequences`, (V^L)"""
        return "order" if self.implements("order") else None

    @property
    def chooses_before_drawing(self) -> bool:
        """Whether it chooses the positions of a step before it draws their tokens, each from its own marginal.

        Then the loss by drawing them at once is a KL divergence (diagnosis/gap), and a sampler that never revises has
        a likelihood along one path (diagnosis/likelihood.py)."""
        return self.distribution == "order"

    @property
    def reads(self) -> frozenset[Reads]:
        """Model types that it calls: a canvas (masked model), a causal reader (AR model), or both."""
        return CANVAS

    @property
    def draws_steps(self) -> bool:
        """Whether each position draws its step independently from the schedule, as in Theorems 4.2 and 4.4."""
        return False

    @property
    def revises(self) -> bool:
        """Whether it may re-mask tokens, so that a sequence is final only when the loop ends."""
        return False

    @property
    def spec(self) -> str:
        """Its name, or the path of its class, and the options that differ from their defaults, to create it again:
        "blocks(block_length=16, inner='margin')"."""
        kind = type(self)
        name = SAMPLERS.name_of(kind) or f"{kind.__module__}:{kind.__qualname__}"
        known: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()

        options: list[str] = []
        for option in known:
            value = getattr(self, option.name)
            if value == option.default:
                continue

            if isinstance(value, Sampler):
                text = repr(value.spec)
            elif callable(value) and hasattr(value, "__qualname__"):
                text = f"{value.__module__}:{value.__qualname__}"
            elif callable(value):
                text = type(value).__name__
            else:
                text = repr(value)
            options.append(f"{option.name}={text}")

        return called(name, options)

    def order(self, delta: Float[Tensor, " N"], hidden: Bool[Tensor, "B L"], rng: Randomness) -> Int[Tensor, "B L"]:
        """Steps 1..N (B, L) of every hidden position (B, L), 0 elsewhere; independent of the tokens."""
        raise NotImplementedError

    def times(self, delta: Float[Tensor, " N"], order: Int[Tensor, "B L"], rng: Randomness) -> Float64[Tensor, "B L"]:
        """Times (B, L) of the model calls for an order (B, L), from 1 down; for denoisers that use the time."""
        last = order.amax(1, keepdim=True).clamp(min=1) if self.pace == "free" else len(delta)
        return 1 - (order.double() - 1) / last

    def choose(self, view: View) -> Choice:
        """Choose the positions to reveal in this step from the model's marginals."""
        raise NotImplementedError

    def run(self, session: Session) -> None:
        """Fill the session's rows with its own loop; all model calls go through its canvas and causal reader."""
        raise NotImplementedError

    @property
    def memory(self) -> dict[str, Any]:
        """Always an error: one sampler object serves many sequences at once and keeps no state."""
        raise UnmaskError(
            f"{type(self).__name__} reads self.memory",
            "expected no state in a sampler",
            "To use earlier steps, implement choose and read view.memory.",
        )

    def implements(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Sampler, method)


def check_kind(kind: type, label: str) -> None:
    """Raise an error unless this is a sampler class that implements exactly one of the three methods."""
    if not issubclass(kind, Sampler):
        raise UnmaskError(
            f"{label} is of class {kind.__name__}; expected one sampler: its name, or a class derived from"
            " unmask.samplers.Sampler."
        )
    methods = [method for method in WAYS if getattr(kind, method) is not getattr(Sampler, method)]
    if len(methods) != 1:
        count = " and ".join(methods) or "none of its methods"
        raise UnmaskError(f"{label} implements {count}; expected exactly one of order, choose and run")


SAMPLERS: Registry[Sampler] = Registry("sampler", "unmask.samplers", check_kind, (Sampler,))


def as_sampler(sampler: object) -> Sampler:
    """Return a sampler unchanged, or create the one with this name."""
    if isinstance(sampler, str):
        return SAMPLERS.make(sampler)
    if isinstance(sampler, type) and issubclass(sampler, Sampler):
        name = sampler.__name__
        raise UnmaskError(f"the sampler is the class {name}; expected an instance. Pass {name}().")
    check_kind(type(sampler), f"sampler {type(sampler).__name__}")
    assert isinstance(sampler, Sampler)
    return sampler


def named_in_file(name: str | None) -> Sampler | None:
    """The sampler that a file names; None if it is not one of this package. A file imports no module."""
    if name is None or ":" in name:
        return None
    try:
        return as_sampler(name)
    except UnmaskError:
        return None


def check_inner(outer: Any) -> None:
    """Replace a name in the field `inner` of a frozen dataclass by the sampler, and refuse other types."""
    if isinstance(outer.inner, str):
        object.__setattr__(outer, "inner", SAMPLERS.make(outer.inner))
    elif not isinstance(outer.inner, Sampler):
        raise UnmaskError(f"inner is {shown(outer.inner)}; expected a sampler, or the name of one")


def inner_of(outer: Any) -> Sampler:
    """The field `inner` after `check_inner`."""
    assert isinstance(outer.inner, Sampler)
    return outer.inner
