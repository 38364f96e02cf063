"""unmask gap."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal

from unmask.cli.generate import begin
from unmask.cli.options import Answer, Count, File, Model, Named, Switch, browse, refuse
from unmask.core.entries import given
from unmask.core.run import Amount, Loading, Prompting, Sampling

if TYPE_CHECKING:
    from unmask import Generation
    from unmask.samplers.trace import Trace

USUAL = (500, 64)  # rows and length
NO_SAMPLER = Sampling(sampler="")  # that of the trace, or ancestral


def command(
    *,
    language: Named = None,
    model: Model = None,
    trace: File = None,
    calls: Literal["one", "chain"] = "one",
    reference: int = 20,
    sampling: Sampling = NO_SAMPLER,
    length: Count = None,
    rows: Count = None,
    prompting: Prompting = Prompting(),
    rows_per_prompt: int = 1,
    seed: int = 0,
    loading: Loading = Loading(),
    batch: Count = None,
    out: File = None,
    open: Switch = False,
) -> Answer:
    """Measure the loss of a model that samples several tokens in one step.

    Examples:
        unmask gap --model runs/mdm --steps 16
        unmask gap --model runs/mdm --sampler entropy --out gap.html --open
        unmask gap --model llada-8b-instruct --trace trace.json --temperature 0
        unmask gap --language paper-2gram --steps 8 --reference 0

    How to read it, in this order:
        impossible   sequences with probability 0 under the model, token by token
        variety      identity and entropy: do not choose a sampler that repeats
                     itself for its small loss
        order        loss of the sampler's order, one token at a time, against
                     random orders; 0 for a model that does not contradict itself
        nats         loss by parallel decoding; 0.1 per token: each token is written
                     1.1 times as often as one at a time
        steps        steps that suffice for 0.1, 0.01 and 0.001 nats per token,
                     predicted for random positions: measure again with this number

    With --temperature 0 it counts tokens that change (docs/gap.md).

    Args:
        language: Preset with options, "sparse-hmm(seed=3)", or a language file; its exact denoiser is measured.
        model: Network of `unmask train`, or an open model (see `unmask show model`).
        trace: File of recorded sequences, instead of new ones. Without --sampler, its own
            sampler is used; new sequences are ancestral.
        calls: Estimate: one more context of each step, or chain: its tokens one by one.
        reference: Sequences that are also written one token at a time, for variety, order and steps; 0: none.
        length: Sequence length in tokens; for open models, new tokens per prompt. (default: 64, the network's, or 128)
        rows: Number of sequences. (default: 500; for open models 1, or one for each prompt)
        rows_per_prompt: Number of sequences for each prompt.
        seed: Random seed of the sequences and of the estimate.
        batch: Largest number of sequences in one forward pass. (default: chosen by the device's memory)
        out: Page to write (.html): the numbers, where the loss is, and the sequences that lose most, step by step.
    """
    import shlex
    import sys

    from unmask import gap, generate
    from unmask.core.errors import UnmaskError, cut
    from unmask.core.files import atomic, check_writable
    from unmask.denoisers import as_denoiser
    from unmask.samplers.generation import reshaped
    from unmask.samplers.trace import read

    refuse({"open": open or None} if out is None else {}, "needs --out FILE. Add it, or leave --open out")
    if out is not None:
        if out.suffix != ".html":
            raise UnmaskError(f"--out is {cut(str(out))}; expected the name of a page, such as gap.html")
        check_writable(out)
        from unmask.report.losses import page  # before the measurement: it may be missing
    amount = Amount(rows=rows, length=length, rows_per_prompt=rows_per_prompt)
    limits = (Amount(), Prompting()) if trace is not None else (amount, prompting)
    source, start, _ = begin(language, model, *limits, loading, batch=batch, usual=USUAL)
    written: Generation | Trace
    if trace is None:
        chosen = asdict(replace(sampling, sampler=sampling.sampler or Sampling().sampler)) | start
        written = generate(source, seed=seed, trace=True, **given(chosen))
        how: dict[str, Any] = {}
    elif (amount, prompting) != limits or replace(sampling, sampler="", temperature=1.0) != NO_SAMPLER:
        raise UnmaskError(
            "--trace has its sequences, so only --sampler and --temperature apply of the sampling options",
            "Leave the others out",
        )
    else:
        written = read(trace)
        how = {"sampler": sampling.sampler or None, "temperature": sampling.temperature}
    result = gap(source, written, calls=calls, reference=reference, seed=seed, **how)

    lines = result.table()
    if out is not None:
        own = sampling.temperature or 1.0, sampling.top_p, sampling.top_k, sampling.guidance
        with atomic(out) as file:
            file.write(
                page(result, written, reshaped(as_denoiser(source), *own), shlex.join(["unmask", *sys.argv[1:]]))
            )
        lines.append(("page", str(out)))
        browse(out, open)
    return Answer(result.to_dict(), lines)
