"""unmask gap."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, File, Model, Named, Switch
from unmask.cli.prompts import Prompting
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.cli.prompts import OpenPrompts, Start

Calls = Annotated[str, "ESTIMATE"]
ROWS, LENGTH = 500, 64  # defaults
NO_SAMPLER = Sampling(sampler="")  # that of the trace, or ancestral


def command(
    *,
    language: Named = None,
    model: Model = None,
    trace: File = None,
    calls: Calls = "one",
    sampling: Sampling = NO_SAMPLER,
    length: Count = None,
    rows: Count = None,
    prompting: Prompting = Prompting(),
    rows_per_prompt: int = 1,
    seed: int = 0,
    loading: Loading = Loading(),
    batch: Count = None,
    verbose: Switch = False,
) -> Answer:
    """Measure the loss of a model that samples several tokens in one step.

    Examples:
        unmask gap --language paper-2gram --steps 8
        unmask gap --model runs/mdm --sampler entropy --steps 16 --calls chain
        unmask gap --model llada-8b-instruct --chat --prompts asked.jsonl \\
            --sampler llada --steps 32 --length 128
        unmask gap --model llada-8b-instruct --trace trace.json --temperature 0

    The gap compares the sequences with the same model, one token at a time. It
    needs no correct answers. It is a KL divergence in nats per sequence: 0 means
    that parallel decoding loses nothing. With --temperature 0 it counts tokens that
    would change, and how much the model prefers the others (regret).

    A trace is a file of `unmask play` or of another program (docs/player.md). Model
    and temperature must be those that wrote it.

    Args:
        language: Preset with options, "sparse-hmm(seed=3)", or a language file; its exact denoiser is measured.
        model: Network of `unmask train`, or an open model (see `unmask list models`).
        trace: File of recorded sequences, instead of new ones. Without --sampler, its own
            sampler is used; new sequences are ancestral.
        calls: Estimate: one more context of each step, or chain: its tokens one by one.
        length: Sequence length in tokens; for open models, new tokens per prompt. (default: 64, the network's, or 128)
        rows: Number of sequences. (default: 500; for open models 1, or one for each prompt)
        rows_per_prompt: Number of sequences for each prompt.
        seed: Random seed of the sequences and of the estimate.
        batch: Largest number of sequences in one forward pass. (default: chosen by the device's memory)
        verbose: Print all numbers, also by distance.
    """
    from unmask import UnmaskError, gap, generate, languages
    from unmask.cli.prompts import OpenPrompts
    from unmask.models.loading import is_open, load_model

    if (model is None) == (language is None):
        raise UnmaskError("expected either --language for an exact denoiser, or --model. Pass one of the two")
    how: dict[str, Any] = {"seed": seed, "calls": calls}
    opened = model is not None and is_open(model)
    prompts = OpenPrompts.of(prompting) if opened and trace is None else None
    source = languages.load(str(language)) if model is None else load_model(model, loading, batch=batch)
    if trace is not None:
        used = Sampling(sampler=sampling.sampler, temperature=sampling.temperature)
        if sampling != used or prompting != Prompting() or (length, rows) != (None, None) or rows_per_prompt != 1:
            problem = "--trace has its sequences, so only --sampler and --temperature apply of the sampling options"
            raise UnmaskError(f"{problem}. Leave the others out")
        result = gap(source, trace, sampler=sampling.sampler or None, temperature=sampling.temperature, **how)
    else:
        used = replace(sampling, sampler=sampling.sampler or Sampling().sampler)
        start = _start(source, model, prompts, prompting, rows, length, rows_per_prompt, seed)
        begin: dict[str, Any] = {"length": start.length, "rows": start.rows, "given": start.given, "stop": start.stop}
        result = gap(source, generate(source, **asdict(used), **begin, seed=seed, trace=True), **how)
    return Answer(result.to_dict(), None if verbose else result.table())


def _start(
    source: Any,
    model: str | None,
    prompts: OpenPrompts | None,
    prompting: Prompting,
    rows: int | None,
    length: int | None,
    each: int,
    seed: int,
) -> Start:
    """Return the given tokens of the sequences, their number and their length."""
    from unmask.cli.prompts import Prompts
    from unmask.models.trained.checkpoints import read_tokenizer

    if prompts is not None:
        return prompts.start(source, rows, length, each)
    if prompting.given is None:
        rows = ROWS if rows is None else rows
        length = source.nearest_lengths(LENGTH)[-1] if model is None and length is None else length
    tokenizer = None if model is None else read_tokenizer(model)
    return Prompts(prompting.given, prompting.prompt, tokenizer, None, each).start(source, rows, length, seed, 0)
