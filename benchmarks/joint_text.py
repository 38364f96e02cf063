"""Joint draws on text, as cells of benchmarks/joint.py: characters of the King James Bible, a network, two judges.

`soft` fits an n-gram of the training documents to the network's marginals. `unfitted` multiplies the same weights in,
and the marginals are lost. The true distribution of text is unknown, so each cell has, in nats per token:

    gap         KL divergence of the draw from the same network, one token at a time (unmask.gap)
    text        -log p of held-out text under the draw in a random order: its mean exceeds the entropy of the text by
                the KL divergence from the text to the draw, at least
    ar, ngram   -log p of the rows under an AR network, and under a 5-gram of one half of the held-out documents; the
                held-out text is of the other half
    entropy     of the frequencies of characters within a row
    distinct    fraction of the windows of four characters that differ, in six rows
    unknown     fraction of words that the text does not have
    bigrams     total variation of the bigrams from those of the training documents

Rare characters are one class, whose members are drawn from their marginals, so that a 3-gram has 110,592 edges.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unmask import gap, generate, train
from unmask.core.chance import Randomness
from unmask.core.estimates import Estimate
from unmask.core.means import mean
from unmask.languages.automata import Automaton, of_windows
from unmask.languages.kernels.machine import Floats, Ints
from unmask.models import trained
from unmask.models.text import Lexicon, NGramJudge, Text
from unmask.models.text.corpus import tiles
from unmask.models.trained.loop import resume
from unmask.models.trained.objectives import Objective
from unmask.models.trained.recipe import recipe
from unmask.models.trained.validation import HeldOut
from unmask.planning.judge import token_entropy
from unmask.samplers.contract import as_sampler
from unmask.samplers.joint import Joint, log_paths
from unmask.samplers.schedules import deltas

LENGTH, ROWS, TOGETHER = 64, 120, 6  # rows whose windows are compared
STEPS = (4, 8, 16, 32)
TRAINING = {"mdm": 900, "ar": 400}  # steps
KEPT = 47  # the most frequent characters; all others are one class
DRAWS = ("product", "soft(2)", "soft(3)", "unfitted(2)", "unfitted(3)")
SPANS = ("gap", "text", "ar", "ngram", "entropy", "distinct")
Record = dict[str, Any]


class Setting(NamedTuple):
    text: Text
    network: trained.Network
    twin: trained.Trunk  # an AR network
    ngram: NGramJudge
    words: Lexicon
    tiles: Tensor  # (B, L) of held-out text
    joints: dict[str, Joint | None]


@cache
def setting(out: Path) -> Setting:
    """The networks are trained in this directory, unless they are there."""
    text = Text.of("kjv", "chars")
    mdm, ar = (learnt(text, kind, out / f"kjv-{kind}") for kind in TRAINING)
    line = text.training.numpy().astype(np.int64)
    joints: dict[str, Joint | None] = {"product": None}
    for order in (2, 3):
        automaton = dependence(line, text.vocabulary, order)
        joints |= {f"soft({order})": Joint(automaton), f"unfitted({order})": Joint(automaton, 0, single=False)}
    judge, other = (text.corpus.held_out[half::2] for half in (0, 1))
    shown = torch.from_numpy(np.concatenate([text.tokenizer.encode(document) for document in other]))
    words = Lexicon(text.corpus.documents)
    return Setting(text, trained.Network(mdm), ar, NGramJudge(judge), words, tiles(shown, ROWS, LENGTH), joints)


def learnt(text: Text, kind: str, path: Path) -> trained.Trunk:
    if (path / "training.json").exists():
        resume(path)
    else:
        shape = trained.preset("text", kind, text.vocabulary, length=LENGTH)
        train(text, shape, recipe("text", kind, steps=TRAINING[kind]), path)
    return trained.load(path)


def dependence(line: Ints, vocabulary: int, order: int) -> Automaton:
    """Weights of the n-gram of a text (T) over classes of its tokens."""
    often = np.argsort(-np.bincount(line, minlength=vocabulary), kind="stable")[:KEPT]
    classes = np.full(vocabulary, len(often))
    classes[often] = np.arange(len(often))
    return replace(of_windows(pooled(classes[line], len(often) + 1, order)), merged=classes)


def pooled(line: Ints, size: int, order: int) -> Floats:
    """(V^(n-1), V): probabilities of windows, interpolated over shorter contexts (models/text/ngrams.py)."""
    joint, p = np.ones((1, 1)), np.full((1, size), 1 / size)
    for count in range(1, order + 1):
        seen = np.bincount(windows(line, size, count), minlength=size**count).reshape(-1, size)
        total, kinds = seen.sum(1, keepdims=True), (seen > 0).sum(1, keepdims=True)
        below = np.tile(p, (len(seen) // len(p), 1))  # of the context without its oldest token
        p = np.where(total > 0, (seen + kinds * below) / np.maximum(total + kinds, 1), below)
        joint = joint.reshape(-1, 1) * p
    return joint


def windows(tokens: Ints, size: int, count: int) -> Ints:
    """The numbers (.., L - n + 1) of the windows of n tokens in (.., L)."""
    width = tokens.shape[-1] - count + 1
    return np.sum([tokens[..., k : k + width] * size ** (count - 1 - k) for k in range(count)], axis=0)


def judged(tokens: Tensor, known: Setting) -> Record:
    size, rows, line = known.text.vocabulary, tokens.numpy(), known.text.training.numpy()
    documents = [known.text.tokenizer.documents(row) for row in tokens.tolist()]
    characters, words = (
        torch.tensor([one(row) for row in documents]).T for one in (known.ngram.nats, known.words.unknown)
    )
    pieces = windows(rows, size, 4).reshape(len(rows) // TOGETHER, -1)
    spans = {
        "ar": HeldOut(tokens, 0, Objective(known.twin.shape)).nats(known.twin) / LENGTH,
        "ngram": characters[0] / characters[1],
        "entropy": token_entropy(tokens),
        "distinct": torch.tensor([len(np.unique(part)) / part.size for part in pieces]),
        "unknown": (words[0] / words[1])[words[1] > 0],
    }
    pairs = [np.bincount(windows(part, size, 2).ravel(), minlength=size**2) for part in (rows, line)]
    apart = abs(pairs[0] / pairs[0].sum() - pairs[1] / pairs[1].sum()).sum() / 2
    return {name: span(mean(values)) for name, values in spans.items()} | {"rows": len(rows), "bigrams": float(apart)}


def span(estimate: Estimate | None) -> list[float]:
    """Its value, and the ends of its 95% interval."""
    assert estimate is not None
    return [estimate.value, estimate.low, estimate.high]


def measured(out: Path, draw: str, steps: int) -> Record:
    known = setting(out)
    if draw == "text":
        return judged(known.tiles, known)
    joint = known.joints[draw]
    how = {"steps": steps, "length": LENGTH, "rows": ROWS, "seed": 1, "trace": True}
    made = generate(known.network, **how, draw=joint or "product")
    loss = gap(known.network, made, draw=joint or "product", reference=0, seed=2)
    order = as_sampler("ancestral").order(deltas("linear", steps), known.tiles >= 0, Randomness(2, torch.arange(ROWS)))
    nats = -log_paths(known.network, known.tiles, order, joint) / LENGTH
    return judged(made.tokens, known) | {"gap": span(loss.token), "text": span(mean(nats))}


def cells(out: Path) -> Iterator[tuple[Record, Callable[[], Record]]]:
    """Held-out text, one token at a time, and the draws."""
    for draw, steps in [("text", 1), ("product", LENGTH), *itertools.product(DRAWS, STEPS)]:
        yield {"part": "text", "draw": draw, "steps": steps}, partial(measured, out, draw, steps)


def table(made: Record) -> str:
    """A line for each cell; perplexities per character, with half the width of each interval."""
    lines = [
        "| draw | N | gap | held-out text | perplexity: AR | 5-gram | entropy | distinct | unknown words | bigrams |"
    ]
    lines.append("|---" * 10 + "|")
    for record in (one for one in made["records"] if one["cell"]["part"] == "text"):
        words = [shown(record[name], name in ("ar", "ngram")) if name in record else "" for name in SPANS]
        draw, steps = record["cell"]["draw"], record["cell"]["steps"]
        rest = f"{record['unknown'][0]:.0%} | {record['bigrams']:.3f}"
        lines.append(f"| {draw} | {'' if draw == 'text' else steps} | {' | '.join(words)} | {rest} |")
    return "\n".join(lines)


def shown(ends: list[float], perplexity: bool) -> str:
    value, low, high = (math.exp(end) for end in ends) if perplexity else ends
    return f"{value:.3g} ± {(high - low) / 2:.1g}"
