"""unmask gap."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Literal

from unmask.cli.options import Answer, Count, File, Model, Named, Switch
from unmask.core.run import Amount, Loading, Prompting, Sampling

USUAL = (500, 64)  # rows and length
NO_SAMPLER = Sampling(sampler="")  # that of the trace, or ancestral


def command(
    *,
    language: Named = None,
    model: Model = None,
    trace: File = None,
    calls: Literal["one", "chain"] = "one",
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

    The gap compares the sequences with the same model, one token at a time, in nats
    per sequence: 0 means that parallel decoding loses nothing. With --temperature 0
    it counts tokens that would change (docs/gap.md).

    Args:
        language: Preset with options, "sparse-hmm(seed=3)", or a language file; its exact denoiser is measured.
        model: Network of `unmask train`, or an open model (see `unmask show model`).
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
    from unmask import UnmaskError, gap, generate
    from unmask.models.loading import begin

    amount = Amount(rows=rows, length=length, rows_per_prompt=rows_per_prompt)
    limits = (Amount(), Prompting()) if trace is not None else (amount, prompting)
    source, start, _ = begin(language, model, *limits, loading, batch=batch, usual=USUAL)
    if trace is None:
        used = asdict(replace(sampling, sampler=sampling.sampler or Sampling().sampler))
        result = gap(source, generate(source, **used, **start, seed=seed, trace=True), calls=calls, seed=seed)
    else:
        if (amount, prompting) != limits or replace(sampling, sampler="", temperature=1.0) != NO_SAMPLER:
            problem = "--trace has its sequences, so only --sampler and --temperature apply of the sampling options"
            raise UnmaskError(f"{problem}. Leave the others out")
        how: dict[str, Any] = {"sampler": sampling.sampler or None, "temperature": sampling.temperature}
        result = gap(source, trace, **how, calls=calls, seed=seed)
    return Answer(result.to_dict(), None if verbose else result.table())
