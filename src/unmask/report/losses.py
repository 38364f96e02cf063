"""A page of a gap: its verdict, where the loss is, and the sequences that lose most, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import torch
from torch import Tensor

from unmask.core.entries import given
from unmask.core.errors import needed
from unmask.denoisers import Denoiser
from unmask.diagnosis.gap import Gap
from unmask.report.charts import PAPER, Definition, Drawn, Row, Sentence, across, base, finished, up
from unmask.report.metrics import Card
from unmask.report.page import cards, document, repeated, section
from unmask.report.player import Run, assets, created, embedded
from unmask.samplers import Generation
from unmask.samplers.trace import Trace

with needed("pages", "a page"):
    import altair as alt

BARS = 24  # of a histogram
SHOWN = 3  # sequences of the player
GOAL = 0.01  # nats per token, of the steps in a card
TICKS = 8  # of an axis of steps
OF_SEQUENCES = {  # by whether decoding is greedy: title, unit, definition, and the sentence
    False: (
        "Loss of each sequence",
        "nats",
        "an estimate of each sequence is noisy, and can be below 0; their mean is not biased",
        "Half of the possible sequences lose at most {:.3g} nats, and one in twenty more than {:.3g}.",
    ),
    True: (
        "Flips in each sequence",
        "flips",
        "a flip: a token that is not the most likely any more, given others of its step",
        "Half of the sequences have at most {:.3g} flips, and one in twenty more than {:.3g}.",
    ),
}
ARCS = "Arcs join tokens of one step that depend on each other, by the model's own probabilities."


def page(gap: Gap, written: Generation | Trace, model: Denoiser, made_by: str = "") -> bytes:
    """written: the measured rows. model: gives the losses of the player. made_by: the command that created it."""
    numbers, shown = worst(gap, written)
    run = Run(shown.sampler or "recorded", shown, model=model, numbers=tuple(numbers))
    rows = repeated("<tr><th scope='row'>{}</th><td>{}</td></tr>", gap.table())

    parts = [
        "<h1>What parallel decoding costs</h1>",
        f"<p class='lead'>Model: {escape(model.name)}. Sampler: {escape(run.name)}. Sequences: {len(gap.nats)}.</p>",
        f"<p class='verdict'>{escape(gap.verdict)}</p>",
        cards(messages(gap)),
        section(given({"sequences": by_sequence(gap), "steps": by_step(gap)})),
        f"<h2>The sequences that lose most</h2><p class='note'>{ARCS}</p>{assets()}{embedded([run], 0)}",
        f"<details open><summary>All numbers</summary><table class='words'>{rows}</table></details>",
        created(made_by),
    ]
    return document(f"unmask gap: {model.name}", "\n".join(parts))


def messages(gap: Gap) -> list[Card]:
    """The impossible sequences, the loss, and the steps that suffice."""
    every = []
    if gap.infinite.value:
        every.append(
            (f"{gap.infinite.value:.3g}", f"of the sequences are impossible, one token at a time: {gap.infinite}")
        )
    for unit, one in (("nats per sequence", gap.sequence), ("nats per token", gap.token)):
        if one is not None:
            every.append((f"{one.value:.3g} {unit}", f"lost by parallel decoding: {one}"))
    if (flips := gap.flips) is not None:
        every.append((f"{flips.value:.3g} tokens", f"of a sequence stop being the most likely, given others: {flips}"))
    if gap.reference is not None and GOAL in gap.reference.steps:
        most = gap.reference.steps[GOAL][1]
        every.append(
            (f"{most} steps", f"suffice in random order for {GOAL:g} nats per token. Measure again with them.")
        )
    return every


def by_sequence(gap: Gap) -> Drawn | None:
    """A histogram of the loss of each sequence; in greedy decoding, of its flips."""
    greedy = gap.claim == "greedy"
    own = (gap.changed if greedy else gap.nats[gap.finite]).double()
    if len(own) < 2:
        return None

    counts, edges = torch.histogram(own, BARS)
    rows = bars_of(edges[:-1], counts, float(edges[1] - edges[0]))
    half, most = own.quantile(torch.tensor([0.5, 0.95], dtype=torch.float64)).tolist()

    title, unit, under, words = OF_SEQUENCES[greedy]
    x = across(f"{unit} of a sequence", log=False)
    return Drawn(title, under, bars(rows, x, "sequences", title), rows, [Sentence(words.format(half, most))])


def by_step(gap: Gap) -> Drawn | None:
    """The loss in each step: which steps take too many tokens."""
    lost = gap.lost
    if lost is None or len(lost) < 2 or gap.claim == "greedy":
        return None

    rows = bars_of(torch.arange(len(lost)) + 0.5, lost, 1.0)
    most = int(lost.argmax())
    words = f"Step {most + 1} loses most: {lost[most]:.3g} of the {lost.sum():.3g} nats of a possible sequence."
    title = "Loss in each step"
    under = "a step that loses much draws tokens together that depend on each other"
    ticks = sorted({1, *range(0, len(lost) + 1, max(1, len(lost) // TICKS))} - {0})
    x = across("step", log=False, values=ticks, format="d")
    return Drawn(title, under, bars(rows, x, "nats per sequence", title), rows, [Sentence(words)])


def bars_of(starts: Tensor, heights: Tensor, width: float) -> list[Row]:
    pairs = zip(starts.tolist(), heights.tolist(), strict=True)
    return [{"x": x, "to": x + width, "value": value} for x, value in pairs]


def bars(rows: Sequence[Row], x: alt.X, name: str, words: str) -> Definition:
    y = up(name, scale=alt.Scale(nice=False, zero=True)).axis(format="~r", tickCount=6)
    own = base(rows, keyed=False).mark_bar(color="var(--c0)", stroke=PAPER)
    return finished([own.encode(x=x, x2="to:Q", y=y, y2=alt.datum(0))], words)


def worst(gap: Gap, written: Generation | Trace) -> tuple[list[int], Trace]:
    """The rows that lose most, with their numbers."""
    own = gap.nats
    if gap.claim == "greedy":
        own = gap.changed
    numbers = own.argsort(descending=True)[:SHOWN].tolist()
    if isinstance(written, Trace):
        return numbers, written.of(numbers)
    return numbers, written.trace(numbers)
