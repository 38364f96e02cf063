"""unmask judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Switch

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate

Texts = Annotated[Path, "TEXTS"]


def command(
    texts: Texts,
    /,
    *,
    by: Annotated[str, "MODEL"] = "smollm2-135m-instruct",
    card: Annotated[str | None, "CARD"] = None,
    draws: int = 64,
    device: str = "auto",
    seed: int = 0,
    json: Switch = False,
) -> None:
    """Say how likely an open model finds texts, and how varied their tokens are.

    Examples:
        unmask judge written.txt
        unmask judge written.jsonl --by Qwen/Qwen2.5-1.5B --json
        unmask judge story.txt --by llada-8b-base --draws 128

    An AR model says exactly how likely a text is. A masked model says a bound, of
    which sets of places are drawn: its standard error is that of the draws alone,
    the interval that of the texts.

    The generative perplexity is low for whoever repeats himself: read the entropy
    of a text's own tokens beside it, and hold both against a text of the same
    length that somebody has written.

    Args:
        texts: A file: .txt, texts with a line of a form feed between them; .jsonl, a text a line, or {"text": ..}.
        by: A name of `unmask list models`, or the directory of a checkpoint.
        card: Which model that directory holds, if it does not say so itself.
        draws: Sets of places of each text, for a masked model.
        device: auto, cpu or cuda.
        seed: Of these sets.
        json: Print one JSON object instead of a table.
    """
    import math

    import torch

    from unmask.cli.output import show
    from unmask.core.estimates import mean
    from unmask.core.samples import read_texts
    from unmask.diagnosis.judge import judge, tokens_of
    from unmask.diagnosis.texts import token_entropy
    from unmask.hub.loading import load_model

    read = read_texts(texts)
    model = load_model(by, card=card, device=device)
    found = judge(model, read, draws=draws, seed=seed)
    there = found.tokens > 0
    entropy = torch.cat([token_entropy(row[None]) for row in tokens_of(model, read) if len(row)])
    nats = float((found.nats * found.tokens)[there].sum())
    about = {
        "texts": int(there.sum()),
        "tokens": int(found.tokens.sum()),
        "judge": model.name,
        "kind": "exact" if model.card.causal else "bound",
        "perplexity": _told(mean(found.nats[there]).map(math.exp), json),
        "draws_standard_error": float((found.error[there] ** 2).sum().sqrt() / there.sum()),
        "bits_a_character": nats / math.log(2) / sum(map(len, read)),
        "token_entropy_nats": _told(mean(entropy), json),
    }
    show(about, json)


def _told(estimate: Estimate, as_json: bool) -> Estimate | dict[str, Any]:
    return estimate.to_dict() if as_json else estimate
