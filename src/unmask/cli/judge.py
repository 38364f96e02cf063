"""unmask model judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from unmask.cli.options import Answer, Count, Word

Texts = Annotated[Path, "TEXTS"]
WIDE = 0.1  # nats per token between the bounds


def command(
    texts: Texts,
    /,
    *,
    by: Annotated[str, "MODEL"] = "HuggingFaceTB/SmolLM2-135M-Instruct",
    card: Annotated[str | None, "CARD"] = None,
    draws: int = 64,
    device: str = "auto",
    seed: int = 0,
    likelihood: Literal["bound", "chain", "duel", "drawn", "bracket"] = "bound",
    sampler: Word = None,
    steps: Count = None,
    schedule: Word = None,
) -> Answer:
    """Measure perplexity and token entropy of texts with an open model.

    Examples:
        unmask model judge written.txt
        unmask model judge written.jsonl --by Qwen/Qwen2.5-1.5B --json
        unmask model judge story.txt --by llada-8b-base --draws 128
        unmask model judge story.txt --by llada-8b-base --likelihood duel \\
            --sampler "blocks(inner='top-probability(ties=\"position\")')" --steps 64

    An AR model gives the exact likelihood of a text. A masked model gives an upper
    bound on its perplexity, from random masks: the standard error is that of the
    masks alone, the interval that of the texts.

    With --likelihood duel, drawn or bracket, it is the likelihood of the text under
    a sampler with its steps: how likely it writes exactly this text. See
    docs/metrics.md.

    Repetitive text also has a low perplexity. Compare its token entropy too, and
    compare both with human text of the same length.

    Args:
        texts: File of texts: .txt with a form feed line between texts, or .jsonl with a text or {"text": ..} per line.
        by: Model that judges: a name of `unmask list models`, a repository, or the directory of a checkpoint.
        card: Model card, if the directory does not identify its model.
        draws: Random masks per text, or random choices per text of a bracket (masked models only).
        device: Device: auto, cpu or cuda.
        seed: Random seed of the masks.
        likelihood: Likelihood of a masked model: a bound, the chain from left to right, or that of a sampler: exact if
            it chooses by the text alone (duel) or by drawn tokens (drawn), or between two bounds (bracket).
        sampler: Sampler of that likelihood (see `unmask list samplers`).
        steps: Number of sampling steps N. (default: one per token)
        schedule: Schedule of the steps (see `unmask list schedules`). (default: linear)
    """
    import math

    import torch

    from unmask.core import progress
    from unmask.core.estimates import Estimate, mean
    from unmask.core.samples import read_texts
    from unmask.core.tables import rows_of
    from unmask.diagnosis.judge import judge, tokens_of
    from unmask.diagnosis.texts import token_entropy
    from unmask.hub.loading import load_model

    read = read_texts(texts)
    model = load_model(by, card=card, device=device)
    given = {"sampler": sampler, "steps": steps, "schedule": schedule}
    options = {name: value for name, value in given.items() if value is not None}
    judged = judge(model, read, draws=draws, seed=seed, likelihood=likelihood, **options)
    there = judged.tokens > 0
    entropy = torch.cat([token_entropy(row[None]) for row in tokens_of(model, read) if len(row)])
    nats = float((judged.nats * judged.tokens)[there].sum())
    about: dict[str, Any] = {
        "texts": int(there.sum()),
        "tokens": int(judged.tokens.sum()),
        "judge": model.name,
        "kind": "exact" if model.card.causal else likelihood,
        "perplexity": mean(judged.nats[there]).map(math.exp),
        "draws_standard_error": float((judged.error[there] ** 2).sum().sqrt() / there.sum()),
        "bits_a_character": nats / math.log(2) / sum(map(len, read)),
        "token_entropy_nats": mean(entropy),
    }
    if likelihood == "bracket":
        about["perplexity_at_least"] = mean(judged.least[there]).map(math.exp)
        if (wide := float((judged.nats - judged.least)[there].mean())) > WIDE:
            progress.note(f"The bracket is {wide:.2g} nats per token wide. Pass more --draws, or use shorter blocks")
    about["model_calls"] = int(judged.model_calls.sum())
    plain = {name: value.to_dict() if isinstance(value, Estimate) else value for name, value in about.items()}
    return Answer(plain, rows_of(about))
