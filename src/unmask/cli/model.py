"""unmask model time|judge|learning."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.options import Answer, Count, Counts, Grid, Model, Named, Word
from unmask.core.entries import chosen

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.diagnosis.learning import Blame
    from unmask.models.trained import Network

USUAL = "HuggingFaceTB/SmolLM2-135M-Instruct"  # judge
UNIFORM = "geometric(last=0.000001)"  # schedule of uniform noise
STEPS = (4, 8, 16, 32, 64)


def time(
    *,
    preset: str = "quick",
    model: Model = None,
    card: Word = None,
    causal_model: Model = None,
    lengths: Counts = (),
    batch: Counts = (),
    steps: int = 512,
    vocabulary: int = 8,
    layers: Count = None,
    hidden: Count = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    dtype: Literal["float32", "bfloat16"] | None = None,
    threads: Count = None,
    repeats: int = 5,
) -> Answer:
    """Measure the time of MDM model calls and of AR tokens with a KV cache.

    Examples:
        unmask model time --preset quick --lengths 32 128 --batch 1 16
        unmask model time --preset paper --lengths 512 1024 2048 --steps 512 \\
            --batch 1 16 --device cuda
        unmask model time --model llada-8b-instruct --lengths 512 --batch 1 8

    Both models have the same size and untrained weights. The break-even is the
    number of model calls that take as long as AR. An open model is compared with
    --causal-model, or else with its own layers under a causal mask.

    Args:
        preset: Size of both networks: quick, small or paper.
        model: Open model to time instead of a preset: a name of `unmask show model`, or a checkpoint's directory.
        causal_model: AR model to compare with, of the same tokenizer.
        lengths: Sequence lengths in tokens. (default: the preset's own)
        batch: Batch sizes. (default: 1 16)
        steps: Number of sampling steps N of the MDM.
        vocabulary: Number of symbols of the language.
        layers: Number of layers. (default: the preset's own)
        hidden: Width of a layer. (default: the preset's own)
        device: Device; auto uses CUDA if available.
        dtype: Data type of weights and activations. (default: float32, or an open model's own)
        threads: CPU threads of torch. (default: all cores)
        repeats: Repeats of each measurement.
    """
    import torch

    from unmask.core.arguments import MOST_THREADS, whole
    from unmask.core.errors import UnmaskError
    from unmask.core.threads import torch_threads
    from unmask.models.trained import PRESETS
    from unmask.models.trained import preset as shaped
    from unmask.planning.clock import Timing, clock

    if threads is not None:
        whole("--threads", threads, 1, MOST_THREADS)
    settings: dict[str, Any]
    with torch_threads(threads or torch.get_num_threads()):
        if model is None:
            shape = shaped(preset, "mdm", vocabulary, layers=layers, hidden=hidden)
            sizes, dtype = lengths or (PRESETS[preset]["length"],), dtype or "float32"
            settings = {"preset": preset, "vocabulary": vocabulary, "dtype": dtype, "shape": shape.to_dict()}
            results = clock(shape, sizes, batch or (1, 16), steps, device, getattr(torch, dtype), repeats)
        else:
            from unmask.models.open.loading import load_model
            from unmask.planning.clock import open_clock

            opened = load_model(model, card=card, device=device, dtype=dtype, causal_model=causal_model)
            settings = {"model": opened.source()}
            results = open_clock(opened, lengths or (min(512, opened.length - 1),), batch or (1, 16), steps, repeats)
    timings = [timing for timing in results if isinstance(timing, Timing)]
    failures = [str(error) for error in results if isinstance(error, UnmaskError)]
    if not timings:
        raise UnmaskError(failures[0])
    first = timings[0]
    where = first.device
    if where == "cpu":
        where = f"cpu, {first.threads} threads"
    head = [
        "L",
        "batch",
        "ms per call",
        "calls",
        "MDM, s",
        "ms per token",
        "AR, s",
        "MDM / AR",
        "break-even",
        "N",
        "GFLOP/s",
        "MB",
    ]
    title = f"An MDM with {first.steps} steps compared with AR with a KV cache, on {where}"
    text: list[Grid | str] = [
        Grid(title, head, list(map(_timed, timings))),
        "Times are for a whole batch: medians with quartiles. GFLOP/s: for a model call, and for an AR token.",
    ]
    text += map("left out: {}".format, failures)
    return Answer(settings | {"timings": list(map(Timing.to_dict, timings)), "failures": failures}, text)


def _timed(timing: Any) -> list[str]:
    rates, memory = timing.to_dict(), "-"
    if timing.peak_bytes is not None:
        memory = f"{timing.peak_bytes / 1e6:.0f}"

    return [
        str(timing.length),
        str(timing.batch),
        spread(timing.model_call_ms),
        f"{timing.model_calls:.4g}",
        f"{timing.mdm_seconds:.3g}",
        spread(timing.token_ms),
        f"{timing.ar_seconds:.3g}",
        f"{timing.mdm_seconds / timing.ar_seconds:.3g}",
        f"{timing.break_even_model_calls:.3g}",
        str(chosen(timing.break_even_steps, "any")),
        " ".join(f"{rates[f'{name}_flop_per_second'] / 1e9:.3g}" for name in ("evaluation", "token")),
        memory,
    ]


def spread(estimate: Estimate, form: str = ".3g") -> str:
    """Return a value with its interval: 1.23 [1.2, 1.26]."""
    return f"{estimate.value:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def judge(
    texts: Annotated[Path, "TEXTS"],
    /,
    *,
    by: Annotated[str, "MODEL"] = USUAL,
    card: Word = None,
    draws: int = 64,
    device: str = "auto",
    seed: int = 0,
) -> Answer:
    """Measure perplexity and token entropy of texts with an open model.

    Examples:
        unmask model judge written.txt
        unmask model judge written.jsonl --by Qwen/Qwen2.5-1.5B --json

    An AR model gives the exact likelihood of a text, a masked model an upper bound
    on its perplexity, from random masks. Repetitive text also has a low perplexity:
    compare its token entropy too, with human text.

    Args:
        texts: File of texts: .txt with a form feed line between texts, or .jsonl with a text or {"text": ..} per line.
        by: Model that judges: a name of `unmask show model`, a repository, or the directory of a checkpoint.
        draws: Random masks per text (masked models only).
        seed: Random seed of the masks.
    """
    import math

    import torch

    from unmask.core.means import mean
    from unmask.core.samples import read_texts
    from unmask.models.open.loading import load_model
    from unmask.planning.judge import judge, token_entropy, tokens_of

    read = read_texts(texts)
    model = load_model(by, card=card, device=device)
    judged = judge(model, read, draws=draws, seed=seed)
    there = judged.tokens > 0
    entropy = torch.cat([token_entropy(row[None]) for row in tokens_of(model, read) if len(row)])
    nats = float((judged.nats * judged.tokens)[there].sum())
    about: dict[str, Any] = {
        "texts": int(there.sum()),
        "tokens": int(judged.tokens.sum()),
        "judge": model.name,
        "kind": "exact" if model.card.causal else "bound",
        "perplexity": mean(judged.nats[there]).map(math.exp).to_dict(),
        "draws_standard_error": float((judged.error[there] ** 2).sum().sqrt() / there.sum()),
        "bits_a_character": nats / math.log(2) / sum(map(len, read)),
        "token_entropy_nats": mean(entropy).to_dict(),
        "model_calls": int(judged.model_calls.sum()),
    }
    return Answer(about)


def learning(
    model: Annotated[Path, "MODEL"],
    /,
    *,
    language: Named = None,
    length: Count = None,
    steps: Counts = (),
    rows: int = 1000,
    contexts: int = 200,
    seed: int = 0,
    device: str = "auto",
) -> Answer:
    """Measure the learning error of a trained network, and the SER and TER it adds.

    Examples:
        unmask model learning mdm
        unmask model learning mdm --steps 8 32 --rows 2000 --json
        unmask model learning ar --language paper-2gram

    The learning error at a hidden position is KL(exact || network) in nats. SER and
    TER at each number of steps have two parts: the sampling error, which the exact
    denoiser has too, and the learning error (docs/networks.md). For a network of
    uniform noise only SER is divided.

    Args:
        model: Directory of a network of `unmask train`.
        language: Language to compare with. (default: the language that the network was trained on)
        length: Sequence length in tokens. (default: the network's own)
        steps: Numbers of sampling steps N. (default: 4 8 16 32 64)
        rows: Sequences generated at each N.
        contexts: Sequences used to estimate the learning error.
        device: Device of the network: auto, cpu or cuda.
    """
    from unmask.core.memory import PLACE_BYTES, fits
    from unmask.diagnosis.learning import Blame, blame, blame_ar, of_language, of_sampler
    from unmask.models.loading import studied
    from unmask.models.trained import Network

    trunk, exact, label, size = studied(model, device, language, length)
    about: dict[str, Any] = {"model": str(model), "kind": trunk.shape.kind, "language": label, "length": size}
    steps, text = steps or STEPS, list[Grid | str]()
    if trunk.shape.noise == "uniform":
        network: Network = Network(trunk)
        errors = blame(network, exact, size, UNIFORM, steps, learning=None, rows=rows, seed=seed)
        about["kind"] = "uniform noise"
    else:
        fits(rows, f"rows of {size} tokens", PLACE_BYTES * size)  # here, since the contexts take minutes
        causal = trunk.shape.causal
        network = Network(ar=trunk) if causal else Network(trunk)
        how: dict[str, Any] = {"rows": contexts, "seed": seed, "causal": causal}
        known, visited = of_language(network, exact, size, **how), of_sampler(network, exact, size, **how)
        if causal:
            errors = [blame_ar(network, exact, size, learning=known, rows=rows, seed=seed)]
        else:
            errors = blame(network, exact, size, "linear", steps, learning=known, rows=rows, seed=seed)
        about["learning"] = [known.to_dict(), visited.to_dict()]
        for one, share in zip(about["learning"], (known, visited), strict=True):
            of = f"{trunk.shape.kind.upper()} on {label}"
            title = f"{of}: learning error in nats per hidden position, contexts {share.contexts}"
            cells = [[f"{row['low']:.0%} to {row['high']:.0%}", *_hidden(row)] for row in one["by_share"]]
            if one["mean"] is not None:
                cells.append(["all", *_hidden(one)])
            text.append(Grid(title, ["hidden", "mean", "99%", "maximum"], cells))
            if share.impossible:
                text.append(f"left out: {share.impossible:.1%} of the contexts, which are impossible")
    head = ["N", "model calls", "SER", "sampling", "learning", "TER: sampling", "learning"]
    parts = list(map(_parts, errors))
    what = "SER"
    if len(parts[0]) == len(head):
        what = "SER and TER"
    text.append(Grid(f"{what}: sampling error and learning error", head[: len(parts[0])], parts))
    return Answer(about | {"errors": list(map(Blame.to_dict, errors))}, text)


def _hidden(row: dict[str, Any]) -> list[str]:
    from unmask.core.estimates import Estimate

    return [spread(Estimate.of_record(row["mean"])), f"{row['quantile']:.3g}", f"{row['largest']:.3g}"]


def _parts(error: Blame) -> list[str]:
    columns = [
        str(chosen(error.steps, "AR")),
        f"{error.model_calls:.4g}",
        str(error.ser),
        f"{error.ser_sampling.value:.4g}",
        spread(error.ser_learning, "+.4f"),
    ]
    if error.ter_sampling is None or error.ter_learning is None:
        return columns
    return [*columns, f"x {error.ter_sampling.value:.4f}", f"x {spread(error.ter_learning, '.4f')}"]


command = {"time": time, "judge": judge, "learning": learning}
