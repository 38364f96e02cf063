"""Sizes of a network, and the presets."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeVar, get_args

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, unknown
from unmask.core.memory import fits
from unmask.core.reading import fit
from unmask.denoisers.noise import Noise

KINDS = ("mdm", "ar")
MOST = {"vocabulary": 2**24, "length": arguments.MOST_LENGTH, "hidden": 2**17, "layers": 2**12, "heads": 2**12}
MOST_NEIGHBOURS, MOST_STATES = 8, 1024
MOST_ENTRIES = 2_000_000  # of a table of a preset: five neighbours of 8 symbols, four of 16
MOST_MOVES = 40_000  # of a chain of a preset: two neighbours and 8 states of 8 symbols, one neighbour of 24
PARAMETER_BYTES = 8  # a weight and one copy of it
UNNAMED = ("noise", "mask"), ("neighbours", 0), ("states", 0)  # so that a shape without them keeps its digest
Kind = TypeVar("Kind")

FAST = {"hidden": 64, "layers": 4, "heads": 4, "neighbours": 5}  # about 200,000 weights, and the memory
PRESETS: dict[str, dict[str, int]] = {
    "paper": {"hidden": 512, "layers": 8, "heads": 8, "length": 512},  # section 5; 10 layers for the 4-gram
    "small": {"hidden": 128, "layers": 4, "heads": 8, "length": 128},
    "quick": FAST | {"length": 64, "neighbours": 3},
    "thorough": FAST | {"length": 64},  # more neighbours, trained longer
    "chain": FAST
    | {"length": 64, "neighbours": 2, "states": 8},  # the memory is a chain, which learns n-grams and HMMs
    "sums": FAST | {"length": 65},  # the same, for modular-sum
    # For modular-sum(terms=4), whose answers are sums and no n-grams: with a memory it answers one question in eight.
    "questions": FAST | {"length": 19, "neighbours": 0},
    "text": {"hidden": 128, "layers": 4, "heads": 4, "length": 128},  # a million weights, for a text of some megabytes
}


@dataclass(frozen=True)
class Shape:
    """Sizes of a transformer for sequences of up to `length` tokens of V symbols.

    Symbol V is the mask of an MDM and the start symbol of an AR model; an MDM of uniform noise never reads it.
    """

    kind: str
    vocabulary: int
    length: int
    hidden: int = 512
    layers: int = 8
    heads: int = 8
    time_free: bool = True  # False: an MDM with time as an input, whose outputs cannot be cached
    noise: str = "mask"  # that an MDM removes (denoisers/noise.py); the time of uniform noise is its level a
    neighbours: int = 0  # of a position in the windows of the n-gram memory (windows.py); 0: no memory
    states: int = 0  # hidden ones of a chain over windows of `neighbours` tokens, the memory in its place (chain.py)

    def __post_init__(self) -> None:
        arguments.word("kind of network", self.kind, KINDS)
        arguments.flag("time_free", self.time_free)
        for name, most in MOST.items():
            arguments.whole(name, getattr(self, name), 1, most)
        arguments.whole("neighbours", self.neighbours, 0, MOST_NEIGHBOURS)
        arguments.whole("states", self.states, 0, MOST_STATES)
        if self.hidden % (2 * self.heads):
            raise UnmaskError(
                f"hidden is {self.hidden} with {self.heads} heads",
                "expected a multiple of 2 x heads, since each head needs an even width",
            )
        arguments.word("noise", self.noise, get_args(Noise))
        if self.kind == "ar" and self.noise != "mask":
            raise UnmaskError(f"noise is {self.noise!r}; an AR model removes no noise. Leave noise out")
        if self.states and (self.kind == "ar" or not self.neighbours):
            raise UnmaskError(
                f"states is {self.states} for an {self.title} with {self.neighbours} neighbours",
                "expected an MDM with at least one neighbour, whose memory can be a chain. Leave states out",
            )
        if self.kind == "ar" and not self.time_free:
            raise UnmaskError("time_free is False; an AR model has no time. Leave time_free out")

    @property
    def causal(self) -> bool:
        return self.kind == "ar"

    @property
    def title(self) -> str:
        """Its kind, for titles."""
        return "model of uniform noise" if self.noise == "uniform" else self.kind.upper()

    @property
    def wide(self) -> int:
        """Width of the gated MLP: including its gate it has as many weights as a plain MLP of width 4 x hidden."""
        return 8 * math.ceil(self.hidden / 3)

    @property
    def outside(self) -> int:
        """The symbol that a window of the memory reads outside of the sequence; an AR model reads starts there."""
        return self.vocabulary + (self.kind == "mdm" and self.noise == "mask")

    @property
    def windows(self) -> list[int]:
        """Neighbours in the windows of each table of the memory."""
        return [width for width in (self.neighbours, self.neighbours - 2) if width > 0]

    @property
    def width(self) -> int:
        """Numbers that a position carries: its hidden state, and the logits of the memory."""
        return self.hidden + (self.vocabulary if self.neighbours else 0)

    @property
    def parameters(self) -> int:
        """Approximate number of weights."""
        a_layer = self.hidden * (4 * self.hidden + 3 * self.wide)
        tables = moves(self.vocabulary, self.neighbours, self.states)
        if not self.states:
            tables = sum((self.outside + 1) ** (width + 1) for width in self.windows)
        return self.layers * a_layer + (2 * self.vocabulary + self.length) * self.hidden + tables

    def check_memory(self) -> None:
        """Raise an error if a network of this shape does not fit into memory."""
        lower = "the number of layers, the hidden size or the neighbours"
        fits(self.parameters, "parameters and one copy of them", PARAMETER_BYTES, lower)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values; masks and a missing memory are not named."""
        return {name: value for name, value in asdict(self).items() if (name, value) not in UNNAMED}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Shape:
        return strict(given, cls, "field of a network's shape", "the shape of a network")


def strict(given: dict[str, Any], kind: type[Kind], noun: str, where: str) -> Kind:
    """The dataclass with these fields, and no others."""
    known = entries.column(fields(kind), "name")  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise unknown(noun, name, known)
    value: Kind = fit(given, kind, where)
    return value


def preset(name: str, kind: str, vocabulary: int, **changes: Any) -> Shape:
    """Shape of a preset; a change of None keeps the value of the preset.

    The more symbols, the fewer neighbours: no table of a preset has more than MOST_ENTRIES, and no chain more than
    MOST_MOVES. AR models of presets have no memory, because they learn n-grams within seconds.
    """
    arguments.word("preset of a network", name, PRESETS)
    sizes: dict[str, Any] = {"kind": kind, "vocabulary": vocabulary, "neighbours": 0, "states": 0, **PRESETS[name]}
    if kind == "ar":
        sizes |= {"neighbours": 0, "states": 0}

    while sizes["neighbours"] and (vocabulary + 2) ** (sizes["neighbours"] + 1) > MOST_ENTRIES:
        sizes["neighbours"] -= 1
    while moves(vocabulary, sizes["neighbours"], sizes["states"]) > MOST_MOVES:
        if sizes["neighbours"] > 1:
            sizes["neighbours"] -= 1
        else:
            sizes["states"] //= 2

    sizes |= entries.given(changes)
    if not sizes["neighbours"] and changes.get("states") is None:
        sizes["states"] = 0
    return Shape.from_dict(sizes)


def moves(vocabulary: int, neighbours: int, states: int) -> int:
    """Entries in the table of a chain."""
    return vocabulary ** (neighbours + 1) * states**2
