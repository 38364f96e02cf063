"""The table of samplers: a row for each, and for its options. A new sampler is one row, and has all of test_table.py.

The first row of a name has all tests; further rows, with other options, those of their laws, rules, calls and ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.samplers import laws, plain
from unmask.core.specs import parse
from unmask.samplers import SAMPLERS

ALL = tuple(laws.CASES)
SOME = ("2-gram", "interval", "final", "leak")
FREE = (None,)  # steps of a sampler that has a pace of its own


class Row(NamedTuple):
    sampler: str
    law: Callable[[str, Any], Any] | None = None
    """p(x) of every string, (V^L), of (the name of a source in laws.CASES, the number of steps)."""

    on: Sequence[str] = ("2-gram",)
    steps: Sequence[int | None] = (1, 2, 4)
    """The sources and the numbers of steps on which it must have its law."""

    order: Callable[[int, int], list[tuple[float, tuple[int, ...]]]] | None = None
    """The distribution of its order, of (steps, length), if tokens do not matter; its law follows from that."""

    rule: Callable[[plain.Step], Any] | None = None
    loop: Callable[..., None] | None = None
    """The same in plain Python: a choice in each step, or a row as a whole; with equal tokens and model calls."""

    calls: Callable[[int, int], int] | None = None
    """Model calls of a row, of (steps, length)."""

    strict: bool | None = None
    """Whether it reveals what is above 1/2, not what is equal to it (True), or both (False)."""

    looks: bool = False
    """Whether it asks what is said of revealed positions, each of which is then a context of its own."""

    alone: str = ""
    """The same with a cost that does not depend on other rows, if it does."""

    @property
    def name(self) -> str:
        return self.sampler.partition("(")[0]

    @property
    def options(self) -> dict[str, Any]:
        return options(self.sampler)

    @property
    def expected(self) -> Callable[[str, Any], Any]:
        return self.law or laws.planned(self.order)


def options(sampler: str) -> dict[str, Any]:
    return parse("sampler", sampler)[1]


def steps(n, length):
    return n


def length(n, length):
    return length


CHECKED_ELSEWHERE = {  # names without a law and a plain version, and where they are tested
    "uniform-ancestral": "test_uniform.py, by products of matrices",
    "renoise": "test_uniform.py: its law is not known",
    "dream": "test_published.py, by its published loop",
}

SWITCH = "remdm(strategy='switch', eta=0.4, t_switch=0.6)"
LOOP = "remdm(strategy='loop', eta=0.4, t_on=0.75, t_off=0.25, alpha_on=0.6)"
PUBLISHED = (
    "remdm(strategy='loop', eta=0.04, t_on=0.55, t_off=0.05, alpha_on=0.9, published=True)"  # as its authors ran
)

TABLE = [
    # orders that are fixed in advance
    Row("ancestral", order=laws.independent, on=ALL, steps=(1, 2, 3, 4)),
    Row("fixed-size", order=laws.shuffled, on=ALL, steps=(1, 2, 3, 4), calls=steps),
    Row("left-to-right", order=laws.leftmost, on=ALL, steps=(1, 2, 3, 4), calls=steps),
    Row("strided", order=laws.strided, on=ALL, steps=(1, 2, 3, 4), calls=steps),
    Row("dyadic", order=laws.dyadic, on=ALL, steps=(1, 2, 3, 4)),
    Row("first-hitting", order=laws.one_by_one, on=ALL, steps=(1, 2, 3, 4), calls=length),
    Row("blocks(block_length=4)", calls=steps),
    Row("blocks(block_length=2)", order=laws.halves, on=ALL, steps=(2, 3, 4)),
    Row("as-published-mdlm", laws.ANCESTRAL, ("2-gram", "leak"), (1, 3), alone="as-published-mdlm(batch=1)"),
    Row("as-published-mdlm(batch=20)", calls=lambda n, length: n + 1, alone="as-published-mdlm(batch=1)"),
    # one token at a time, whatever the drafts are
    Row("autoregressive", order=laws.causal, on=ALL, steps=FREE, calls=length),
    Row("speculative", laws.planned(laws.causal), ALL, FREE),
    Row("speculative(draft_length=2)", laws.planned(laws.causal), ALL, FREE),
    Row("self-speculative", laws.planned(laws.one_by_one), ALL, FREE),
    Row("self-speculative(draft_length=1)", calls=length),
    Row("self-speculative(order_by=position)", laws.planned(laws.causal), ALL, FREE),
    # the surest positions, as many as the schedule gives
    Row("top-probability", laws.by_schedule("confidence"), rule=plain.by("confidence"), calls=steps),
    Row("top-probability(noise=0.1)", rule=plain.by("confidence")),
    Row("margin", laws.by_schedule("margin"), ("interval", "leak"), calls=steps),
    Row("margin(ties='position')", rule=plain.by("margin")),
    Row("margin(temperature=0.0)", rule=plain.by("margin")),
    Row("entropy", laws.by_schedule("entropy"), rule=plain.by("entropy"), calls=steps),
    Row("entropy(noise=0.3, temperature=0.7)", rule=plain.by("entropy")),
    Row("low-confidence", laws.low_confidence(1.0), SOME, rule=plain.low_confidence, calls=steps),
    Row("low-confidence(temperature=0.5)", laws.low_confidence(0.5), SOME, rule=plain.low_confidence),
    Row("low-confidence(temperature=0.0)", laws.low_confidence(0.0), SOME),
    Row("low-confidence(temperature=0.0, ties='position')", rule=plain.low_confidence),
    Row("low-confidence(noise=0.2)", rule=plain.low_confidence),
    Row("low-confidence(last=(1,))", rule=plain.low_confidence),
    Row("low-confidence(last=(0,), temperature=0.0, ties='position')", rule=plain.low_confidence),
    Row("llada(block_length=4, temperature=1)"),
    Row("llada(remasking=random, temperature=1)", laws.planned(laws.shuffled)),
    Row("dream"),
    # a pace of their own
    Row("threshold(threshold=0.5)", strict=True),
    Row("threshold(threshold=0.6)", laws.while_("confidence", lambda p, n: max(p[n - 1]) > 0.6), rule=plain.threshold),
    Row("threshold(threshold=0.9, temperature=0.0)", rule=plain.threshold),
    Row("threshold(threshold=0.6, least=3)", rule=plain.threshold),
    Row("threshold(threshold=0.99, least=4, temperature=0.0, ties='position')", rule=plain.threshold),
    Row("threshold(threshold=1)", calls=length),
    Row("threshold(threshold=0)", calls=lambda n, length: 1),
    Row("factor(factor=1.2)", rule=plain.factor),
    Row("factor(factor=1.3)", laws.while_("confidence", laws.under(1.3))),
    Row("factor(factor=1.3, published=True)", laws.while_("confidence", laws.under_published(1.3))),
    Row("factor(factor=3.0, ties='position')", rule=plain.factor),
    Row("entropy-bounded(gamma=0.8)", laws.while_("entropy", laws.nats(0.8)), ("2-gram", "final")),
    Row("entropy-bounded(gamma=0.8, proxy=margin)", laws.while_("margin", laws.nats(0.8, but_largest=True))),
    Row("entropy-bounded(gamma=0.0)", rule=plain.entropy_bounded),
    Row("entropy-bounded(gamma=1.5)", rule=plain.entropy_bounded),
    Row("entropy-bounded(gamma=1.0, proxy='margin')", rule=plain.entropy_bounded),
    Row("entropy-bounded(gamma=2.5, proxy='confidence')", rule=plain.entropy_bounded),
    Row("entropy-bounded(gamma=1000)", calls=lambda n, length: 1),
    Row("entropy-sum(threshold=1.1)", laws.while_("chance", laws.nats(1.1))),
    Row("entropy-sum(threshold=1.5)", rule=plain.entropy_sum),
    Row("entropy-sum(threshold=0.5, proxy='entropy')", rule=plain.entropy_sum),
    Row("klass(threshold=0.3)", rule=plain.klass),
    Row("klass(threshold=0.4, kl=0.1)", rule=plain.klass),
    Row("klass(threshold=0.3, kl=0.3, history=3, least=2)", rule=plain.klass),
    Row("klass(threshold=0.6, kl=1.0, history=1, temperature=0.0)", rule=plain.klass),
    Row("klass(threshold=0.5, history=0)", strict=True),
    Row("localleap(threshold=0.3)", rule=plain.localleap),
    Row("localleap(threshold=0.6, relief=0.3, radius=2)", rule=plain.localleap),
    Row("localleap(threshold=0.5, relief=0.4, radius=1, ties='position')", rule=plain.localleap),
    Row("localleap(threshold=0.5, relief=0)", strict=False),
    # what is revealed may be hidden again
    Row("remdm", laws.remdm("cap", eta=0.04), loop=plain.remdm),
    Row("remdm(strategy='cap', eta=0.3)", laws.remdm("cap", eta=0.3), ("3-gram", "interval"), loop=plain.remdm),
    Row("remdm(strategy='rescale', eta=0.5)", laws.remdm("rescale", eta=0.5), ("3-gram",), loop=plain.remdm),
    Row(SWITCH, laws.remdm("switch", eta=0.4, t_switch=0.6), ("3-gram",), loop=plain.remdm),
    Row(LOOP, laws.remdm(**options(LOOP)), ("3-gram",), (1, 8), loop=plain.remdm),
    Row(PUBLISHED, laws.remdm(**options(PUBLISHED)), steps=(8,), loop=plain.remdm),
    Row("remdm(strategy='conf')", laws.remdm("conf"), ("3-gram",), loop=plain.remdm),
    Row("remdm(strategy='cap', eta=0.3, nucleus=0.6)", loop=plain.remdm),
    Row(f"{PUBLISHED[:-1]}, nucleus=0.8)", loop=plain.remdm),
    Row("p2", loop=plain.p2, looks=True),
    Row("p2(eta=0.3, temperature=0.5)", loop=plain.p2),
    Row("p2(eta=2.0)", loop=plain.p2),
    Row("token-editing(threshold=0.4, editing=0.5)", loop=plain.editing, looks=True),
    Row("token-editing(threshold=0.3, editing=0.6, to='mask', least=3)", loop=plain.editing),
    Row("token-editing(threshold=0.3, to='mask', trigger='own', post=2)", loop=plain.editing),
    Row("wino(threshold=0.3)", loop=plain.wino, looks=True),
    Row("wino(threshold=0.05, back=1.0, ties='position')", loop=plain.wino),
    Row("wino(threshold=0.2, capped=False, temperature=0.7)", loop=plain.wino),
    Row("wino(threshold=0.15)", loop=plain.wino),
    Row("wino(threshold=0.5)", strict=True),
    Row("gibbs", laws.gibbs(laws.ANCESTRAL, 1), steps=(2,)),
    Row("gibbs(sweeps=2)", laws.gibbs(laws.ANCESTRAL, 2), ("2-gram", "interval"), (2,)),
    Row("gibbs(sweeps=2, stride=2)", laws.gibbs(laws.ANCESTRAL, 2, 2), ("interval", "leak"), (2,)),
    Row(
        "gibbs(inner=left-to-right, sweeps=2)",
        laws.language,
        ("2-gram", "hmm"),
        (4,),
        calls=lambda n, length: n + 2 * length,
    ),
    Row("gibbs(inner=left-to-right, stride=4)", calls=lambda n, length: n + 4),
    # uniform noise
    Row("uniform-ancestral"),
    Row("renoise"),
]
ROWS = {row.sampler: row for row in TABLE}
FIRST = [*{row.name: row for row in reversed(TABLE)}.values()][::-1]
MASKED = [row for row in FIRST if SAMPLERS.make(row.sampler).removes == "mask"]
