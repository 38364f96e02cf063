"""unmask train."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from unmask.cli.options import Answer, Count, Named, Number, Switch, Word, refuse


@dataclass(frozen=True)
class Size:
    """The size of a network.

    Args:
        length: Sequence length in tokens. (default of this and the next options: the preset's value)
        layers: Number of transformer layers; the paper uses 10 for its 4-gram.
        hidden: Width of a layer.
        heads: Number of attention heads.
        neighbours: Neighbors in the windows of the memory; 0: without memory.
        states: Hidden states of the chain that is the memory of the preset chain. (default: 8)
    """

    length: Count = None
    layers: Count = None
    hidden: Count = None
    heads: Count = None
    neighbours: Count = None
    states: Count = None


@dataclass(frozen=True)
class Change:
    """Fields of the recipe that differ from those of the preset.

    Args:
        steps: Number of training batches.
        batch: Sequences per batch.
        rate: Highest learning rate.
        weight_decay: Weight decay of matrices (AdamW).
        average: Decay of the weight average (EMA); 0 is off.
        samples: Train on a fixed set of N sequences, 1% of them for validation, instead of new ones.
        spread: Fraction of training batches with structured masks (every 2nd to 6th position).
        run: Longest block hidden by a structured mask. (default: 1)
        prompt_length: Tokens at the beginning that are always visible and not learned.
        targets: Training targets: tokens, as in the paper, or posterior, the exact distribution of each token.
        optimiser: Optimizer: adamw, or muon for matrices with AdamW for the rest.
        seed: Random seed of weights, sequences and masks. (default: 0)
    """

    steps: Count = None
    batch: Count = None
    rate: Number = None
    weight_decay: Number = None
    average: Number = None
    samples: Count = None
    spread: Number = None
    run: Count = None
    prompt_length: Count = None
    targets: Word = None
    optimiser: Word = None
    seed: Count = None


def command(
    *,
    out: Path,
    language: Named = None,
    text: Annotated[str | None, "TEXT"] = None,
    tokenizer: Word = None,
    model: Word = None,
    preset: Word = None,
    size: Size = Size(),
    noise: str = "mask",
    change: Change = Change(),
    resume: Switch = False,
    device: str = "auto",
    precision: str = "auto",
    accumulate: Count = None,
    threads: Count = None,
) -> Answer | None:
    """Train a network on a language or a text, and measure its learning error.

    Examples:
        unmask train --language paper-2gram --out mdm
        unmask train --out mdm --resume
        unmask train --text letters.txt --tokenizer bpe:4096 --model ar --out ar
        torchrun --nproc-per-node 2 -m unmask train --language paper-2gram --out mdm

    --resume continues after any interruption; on the CPU with the same number of
    threads, the result is the same to the bit. The excess of the loss over the
    entropy of the language is the learning error (docs/networks.md). The loss of a
    text is also in bits per character (docs/text.md).

    Presets:
        quick      200,000 parameters, length 64: a minute or two on one core. For
                   the paper's recipe: --targets tokens --optimiser adamw --spread 0
                   --neighbours 0.
        thorough   Like quick, in five to ten minutes: for languages that are hard
                   to learn.
        chain      Like quick, with a Markov chain in the network: it learns n-grams
                   and HMMs to .5 to 4% above the entropy in a minute.
        sums       Like quick, for modular-sum in five minutes.
        questions  Like quick, for modular-sum(terms=4) after a visible question.
        small      800,000 parameters, length 128.
        text       A million parameters with bpe:1024, length 128: 20 minutes.
        paper      25 million parameters, length 512, 20 epochs: for a GPU.

    Args:
        out: Directory of the network; created if missing.
        text: Text to train on instead of a language: a file, or kjv.
        tokenizer: Tokenizer of a text: chars, bpe:4096, or a file tokenizer.json. (default: chars)
        model: Kind of network: mdm, masked diffusion, or ar, autoregressive. (default: mdm)
        preset: Size and recipe: quick, thorough, chain, sums, questions, small, text or paper. (default: quick; for a
            text, text)
        noise: Noise that an MDM removes: mask; or uniform, which replaces tokens by random ones.
        resume: Continue the training in OUT with its own options.
        device: Device: cpu, cuda or auto.
        precision: Precision: float32, bfloat16 or auto; auto is bfloat16 on CUDA.
        accumulate: Split each batch into N parts, to save memory.
        threads: CPU threads of torch. (default: all cores; one for a narrow network, which is faster)
    """
    from unmask import languages
    from unmask.core import arguments, progress
    from unmask.core.errors import UnmaskError
    from unmask.models.text import Text
    from unmask.models.trained import parallel
    from unmask.models.trained import shape as shapes
    from unmask.models.trained.loop import Conditions, train
    from unmask.models.trained.loop import resume as continued
    from unmask.models.trained.recipe import recipe
    from unmask.planning import flops

    conditions = Conditions(device, precision, accumulate, threads, progress.note)
    if resume:
        given: dict[str, Any] = {
            "language": language,
            "text": text,
            "tokenizer": tokenizer,
            "model": model,
            "preset": preset,
            "noise": None if noise == "mask" else noise,
            **asdict(size),
            **asdict(change),
        }
        refuse(given, "does not apply to --resume, which uses the options of the first run. Leave it out")
        trained = continued(out, conditions=conditions)
    else:
        if language is None and text is None:
            raise UnmaskError(
                "--language is missing", "Add --language NAME, --text FILE, or --resume to continue a training"
            )
        arguments.at_most_one({"--language": language, "--text": text})
        arguments.at_most_one({"--language": language, "--tokenizer": tokenizer})
        source_of = languages.load(str(language)) if text is None else Text.of(text, tokenizer or "chars")
        label = str(language) if isinstance(source_of, languages.Language) else source_of.label
        chosen = preset or ("quick" if text is None else "text")
        if text is not None and change.targets is None:
            change = replace(change, targets="tokens")  # also if the preset differs: a text has no exact distribution
        free = noise != "uniform"
        shape = shapes.preset(chosen, model or "mdm", source_of.vocabulary, time_free=free, noise=noise, **asdict(size))
        how = recipe(chosen, shape.kind, shape.noise, **asdict(change))
        trained = train(source_of, shape, how, out, label=label, conditions=conditions)
    if parallel.rank():
        return None  # process 0 says it
    return Answer(trained.to_dict() | {"percent_of_matmul_peak": flops.percent(trained)})
