"""The model card of a network: its training, its losses, and how to load it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unmask.networks.model.shape import Shape
from unmask.networks.training.data import training_size
from unmask.networks.training.recipe import Recipe

KINDS = {"mdm": "masked diffusion model", "ar": "autoregressive model"}
UNIFORM = "diffusion model of uniform noise"
OPTIMISERS = {"adamw": "AdamW", "muon": "Muon for the matrices, AdamW for the rest"}
AUTO = {"mdm": "AutoModelForMaskedLM", "ar": "AutoModelForCausalLM"}

LANGUAGE = """\
a language whose likelihood, support and posterior are known exactly, so
that its learning error can be measured. `training.json` holds the language and all training options."""
TEXT = """\
a text. 5% of its documents, chosen by their contents, are held out.
`training.json` names the text and all training options; `tokenizer.json` is the tokenizer."""
CARD = """\
---
library_name: unmask
tags:
- unmask
- {tag}
---

# {kind}: {label}

A {long_kind} trained on {source}

{table}
{losses}
## Usage

```python
from unmask import networks

network = networks.load("DIRECTORY")
```

With transformers:

```python
import unmask.networks.model.huggingface
from transformers import {auto}

network = {auto}.from_pretrained("DIRECTORY")
```
"""


def card(
    label: str,
    shape: Shape,
    recipe: Recipe,
    parameters: int,
    entropy: float | None,
    entries: Sequence[Mapping[str, Any]],
) -> str:
    """Markdown, with the header for model hubs; `entries` is the journal, `entropy` None for a text."""
    is_text = entropy is None
    rows = {"text" if is_text else "language": label, "length": f"{shape.length} tokens of {shape.vocabulary} symbols"}
    rows |= {"trunk": f"{shape.layers} layers, {shape.heads} heads, hidden size {shape.hidden}"}
    rows |= {"parameters": f"{parameters:,}", "objective": _objective(shape, recipe)}
    rows |= {"examples": "windows anywhere in the text" if is_text else _examples(recipe)}
    rows |= {"steps": f"{entries[-1]['step'] if entries else 0} of {recipe.steps}, {recipe.batch} sequences each"}
    decay = f"weight decay {recipe.weight_decay:g}, gradients clipped at {recipe.clip:g}"
    rate = f"rate {recipe.rate:g}, warm-up {recipe.warm_up:g} of the steps, a cosine over the last {recipe.fall:g}"
    rows |= {OPTIMISERS[recipe.optimiser]: f"{rate}, {decay}"}
    rows |= {"weights": f"moving average, decay {recipe.average:g}" if recipe.average else "last step"}
    rows |= {"seed": str(recipe.seed)}
    return CARD.format(
        tag="autoregressive" if shape.causal else {"mask": "masked-diffusion"}.get(shape.noise, "uniform-diffusion"),
        kind=shape.title[0].upper() + shape.title[1:],
        long_kind=KINDS[shape.kind] if shape.noise == "mask" else UNIFORM,
        source=TEXT if is_text else LANGUAGE,
        label=label,
        table=_table(("", ""), [(name, value) for name, value in rows.items()]),
        losses=_losses(entropy, entries),
        auto=AUTO[shape.kind],
    )


def _objective(shape: Shape, recipe: Recipe) -> str:
    exact = ", in expectation over the exact distribution of each token" if recipe.targets == "posterior" else ""
    runs = f", in runs of up to {recipe.run}" if recipe.run > 1 else ""
    begins = f"; in the first {recipe.spread:g} of the steps some masks are evenly spread{runs}, ever fewer"
    shown = f", after prompts of {recipe.prompt_length} tokens" if recipe.prompt_length else ""
    return _loss(shape, recipe) + shown + exact + (begins if recipe.spread and not shape.causal else "")


def _loss(shape: Shape, recipe: Recipe) -> str:
    if shape.kind == "ar":
        return "the next token"
    if shape.noise == "uniform":
        return f"cross-entropy of clean tokens at levels of noise{'' if shape.time_free else ', which are an input'}"
    timed = "" if shape.time_free else ", with time as an input"
    if recipe.sampling_steps is None:
        return f"NELBO in continuous time{timed}"
    return f"NELBO of {recipe.sampling_steps} steps, schedule {recipe.schedule}{timed}"


def _examples(recipe: Recipe) -> str:
    if recipe.samples is None:
        return "new samples of the language"
    return f"a fixed set of {recipe.samples:,}, {training_size(recipe.samples):,} of them for training"


def _losses(entropy: float | None, entries: Sequence[Mapping[str, Any]]) -> str:
    if not entries:
        return ""
    columns = {"step": ("step", ""), "loss": ("loss", ".5f"), "validation": ("validation", ".5f")}
    if entropy is None:
        about = "In nats per token; validation on the held-out documents, also in bits per character.\n\n"
        columns["bits_per_character"] = ("bits per character", ".4f")
    else:
        about = f"In nats per token; the entropy of the language, {entropy:.5f}, is the lower limit.\n\n"
        columns["excess_percent"] = ("% above the entropy", ".3f")
    rows = [[format(entry[name], form) for name, (_, form) in columns.items()] for entry in entries]
    return "\n## Loss\n\n" + about + _table([head for head, _ in columns.values()], rows) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
