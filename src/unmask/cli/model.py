"""unmask model check|time|judge|learning|fit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unmask.cli.options import Answer, Count, Counts, Grid, Model, Named, Word

if TYPE_CHECKING:
    from unmask.diagnosis.learning import Blame
    from unmask.models.trained import Network

USUAL = "HuggingFaceTB/SmolLM2-135M-Instruct"  # judge
UNIFORM = "geometric(last=0.000001)"  # schedule of uniform noise
STEPS = (4, 8, 16, 32, 64)
POSTER = {512: (3.1, 1.7), 1024: (4.2, 3.3), 2048: (4.7, 7.0)}  # seconds of an MDM of 512 steps, and of AR
POSTER_STEPS = 512


def check(directory: Annotated[str, "DIR"], /, *, card: Word = None, device: str = "cpu") -> Answer:
    """Check the files of a checkpoint and list all their problems.

    Examples:
        unmask model check checkpoints/LLaDA-8B-Instruct
        unmask model check my-finetune --card llada-8b-instruct

    The check reads config.json, the names and shapes of the weights, the tokenizer
    and its special tokens. If all of them are ok, it loads the model and compares
    its attention, its output shift and its mask token with the card.

    Args:
        directory: Directory of a checkpoint, or a name of `unmask show model`, which is then downloaded.
        card: Model card, if the files do not identify the model: a name, or your own JSON file.
        device: Device of the loaded model: auto, cpu or cuda.
    """
    from unmask.core.errors import cut
    from unmask.models.open.loading import PARTS
    from unmask.models.open.loading import check as look

    result = look(directory, card, device)
    name = "not known" if result.card is None else result.card.name
    every = [problem for problems in result.problems.values() for problem in problems]
    rows = [("directory", cut(directory)), ("model", name)]
    for part in PARTS:
        problems = result.problems.get(part)
        states = problems or ["skipped, as another part has a problem" if problems is None else "ok"]
        rows += [(part, state) for state in states]
    more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
    failure = f"{cut(directory)} cannot be used: {every[0]}{more}" if every else ""
    about = {"directory": directory, "card": name, "sound": result.sound, "problems": result.problems}
    return Answer(about, rows, failure)


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

    Both models have the same size and untrained weights. A time is the median of
    several repeats with quartiles, for the whole batch, with sampling of the
    tokens. The break-even is the number of model calls that take as long as AR.

    An open model is compared with --causal-model, or else with its own layers under
    a causal mask. Presets: quick (hidden 64, 4 layers), small (128, 4), paper (512,
    8).

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
    from unmask.diagnosis.clock import Timing, clock
    from unmask.models.trained import PRESETS
    from unmask.models.trained import preset as shaped

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
            from unmask.diagnosis.clock import open_clock
            from unmask.models.open.loading import load_model

            opened = load_model(model, card=card, device=device, dtype=dtype, causal_model=causal_model)
            settings = {"model": opened.source()}
            results = open_clock(opened, lengths or (min(512, opened.length - 1),), batch or (1, 16), steps, repeats)
    timings = [timing for timing in results if isinstance(timing, Timing)]
    failures = [str(error) for error in results if isinstance(error, UnmaskError)]
    if not timings:
        raise UnmaskError(failures[0])
    known = model is None and preset == "paper" and steps == POSTER_STEPS and layers is hidden is None
    rows = [timing.to_dict() for timing in timings]
    first = timings[0]
    where = first.device if first.device != "cpu" else f"cpu, {first.threads} threads"
    head = ["L", "batch", "ms per call", "calls", "MDM, s", "ms per token", "AR, s", "MDM / AR"]
    head += ["break-even", "N", "GFLOP/s", "MB"]
    cells = [_timed(timing) for timing in timings]
    if known:
        for row, cell in zip(rows, cells, strict=True):
            seconds = POSTER.get(row["length"])
            row["poster"] = seconds and dict(zip(("mdm_seconds", "ar_seconds"), seconds, strict=True))
            cell += map(str, seconds or ("-", "-"))
        head += ["poster: MDM, s", "AR, s"]
    text: list[Grid | str] = [
        Grid(f"An MDM with {first.steps} steps compared with AR with a KV cache, on {where}", head, cells),
        "Times are for a whole batch: medians with quartiles. GFLOP/s: for a model call, and for an AR token.",
    ]
    text += ["The poster gives neither its machine nor its batch size."] if known else []
    text += [f"left out: {failure}" for failure in failures]
    return Answer(settings | {"timings": rows, "failures": failures}, text)


def _timed(timing: Any) -> list[str]:
    from unmask.cli.output import spread

    rates, steps = timing.to_dict(), timing.break_even_steps
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
        "any" if steps is None else str(steps),
        " ".join(f"{rates[f'{name}_flop_per_second'] / 1e9:.3g}" for name in ("evaluation", "token")),
        "-" if timing.peak_bytes is None else f"{timing.peak_bytes / 1e6:.0f}",
    ]


def judge(
    texts: Annotated[Path, "TEXTS"],
    /,
    *,
    by: Annotated[str, "MODEL"] = USUAL,
    card: Word = None,
    draws: int = 64,
    device: str = "auto",
    seed: int = 0,
    likelihood: Literal["bound", "chain", "path"] = "bound",
    sampler: Word = None,
    steps: Count = None,
    schedule: Word = None,
) -> Answer:
    """Measure perplexity and token entropy of texts with an open model.

    Examples:
        unmask model judge written.txt
        unmask model judge written.jsonl --by Qwen/Qwen2.5-1.5B --json
        unmask model judge story.txt --by llada-8b-base --likelihood path \\
            --sampler "blocks(inner='top-probability(ties=\"position\")')" --steps 64

    An AR model gives the exact likelihood of a text. A masked model gives an upper
    bound on its perplexity, from random masks: the standard error is that of the
    masks alone, the interval that of the texts. With --likelihood path, it is the
    likelihood of the text under a sampler with its steps: how likely it writes
    exactly this text. See docs/metrics.md.

    Repetitive text also has a low perplexity. Compare its token entropy too, and
    compare both with human text of the same length.

    Args:
        texts: File of texts: .txt with a form feed line between texts, or .jsonl with a text or {"text": ..} per line.
        by: Model that judges: a name of `unmask show model`, a repository, or the directory of a checkpoint.
        draws: Random masks per text, or random choices per text of a sampler (masked models only).
        seed: Random seed of the masks.
        likelihood: Likelihood of a masked model: a bound, the chain from left to right, or along the path of a
            sampler.
        sampler: Sampler of that likelihood (see `unmask show sampler`).
        steps: Number of sampling steps N. (default: one per token)
        schedule: Schedule of the steps (see `unmask show schedule`). (default: linear)
    """
    import math

    import torch

    from unmask.core.estimates import Estimate, mean
    from unmask.core.samples import read_texts
    from unmask.core.tables import rows_of
    from unmask.diagnosis.judge import judge, token_entropy, tokens_of
    from unmask.models.open.loading import load_model

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
        "model_calls": int(judged.model_calls.sum()),
    }
    plain = {name: value.to_dict() if isinstance(value, Estimate) else value for name, value in about.items()}
    return Answer(plain, rows_of(about))


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

    The learning error at a hidden position is KL(exact || network) in nats, for
    contexts from the language and for contexts that the sampler visits. SER and TER
    at each number of steps have two parts: the sampling error, which the exact
    denoiser has too, and the learning error (docs/networks.md).

    For a network of uniform noise only SER is divided, that of uniform-ancestral
    with the schedule geometric(last=0.000001).

    Args:
        model: Directory of a network of `unmask train`.
        language: Language to compare with. (default: the language that the network was trained on)
        length: Sequence length in tokens. (default: the network's own)
        steps: Numbers of sampling steps N. (default: 4 8 16 32 64)
        rows: Sequences generated at each N.
        contexts: Sequences used to estimate the learning error.
        device: Device of the network: auto, cpu or cuda.
    """
    from unmask.core.arguments import PLACE_BYTES, fits
    from unmask.diagnosis.learning import blame, blame_ar, of_language, of_sampler
    from unmask.models.loading import studied
    from unmask.models.trained import Network

    trunk, exact, label, size = studied(model, device, language, length)
    about: dict[str, Any] = {"model": str(model), "kind": trunk.shape.kind, "language": label, "length": size}
    steps = steps or STEPS
    seen: dict[str, Any] = {"rows": contexts, "seed": seed}
    text: list[Grid | str] = []
    if trunk.shape.noise == "uniform":
        network: Network = Network(trunk)
        errors = blame(network, exact, size, UNIFORM, steps, learning=None, rows=rows, seed=seed)
        about["kind"] = "uniform noise"
    else:
        fits(rows, f"rows of {size} tokens", PLACE_BYTES * size)  # here, since the contexts take minutes
        causal = trunk.shape.causal
        network = Network(ar=trunk) if causal else Network(trunk)
        known = of_language(network, exact, size, **seen, causal=causal)
        visited = of_sampler(network, exact, size, **seen, causal=causal)
        if causal:
            errors = [blame_ar(network, exact, size, learning=known, rows=rows, seed=seed)]
        else:
            errors = blame(network, exact, size, "linear", steps, learning=known, rows=rows, seed=seed)
        about["learning"] = [known.to_dict(), visited.to_dict()]
        for one, share in zip(about["learning"], (known, visited), strict=True):
            of = f"{trunk.shape.kind.upper()} on {label}"
            title = f"{of}: learning error in nats per hidden position, contexts {share.contexts}"
            cells = [[f"{row['low']:.0%} to {row['high']:.0%}", *_hidden(row)] for row in one["by_share"]]
            cells += [["all", *_hidden(one)]] if one["mean"] is not None else []
            text.append(Grid(title, ["hidden", "mean", "99%", "maximum"], cells))
            if share.impossible:
                text.append(f"left out: {share.impossible:.1%} of the contexts, which are impossible")
    head = ["N", "model calls", "SER", "sampling", "learning", "TER: sampling", "learning"]
    parts = list(map(_parts, errors))
    what = "SER and TER" if len(parts[0]) == len(head) else "SER"
    text.append(Grid(f"{what}: sampling error and learning error", head[: len(parts[0])], parts))
    return Answer(about | {"errors": [error.to_dict() for error in errors]}, text)


def _hidden(row: dict[str, Any]) -> list[str]:
    mean = row["mean"]
    spread = f"{mean['value']:.3g} [{mean['low']:.3g}, {mean['high']:.3g}]"
    return [spread, f"{row['quantile']:.3g}", f"{row['largest']:.3g}"]


def _parts(error: Blame) -> list[str]:
    from unmask.cli.output import spread

    steps = "AR" if error.steps is None else str(error.steps)
    ser = [str(error.ser), f"{error.ser_sampling.value:.4g}", spread(error.ser_learning, "+.4f")]
    columns = [steps, f"{error.model_calls:.4g}", *ser]
    if error.ter_sampling is None or error.ter_learning is None:
        return columns
    return [*columns, f"x {error.ter_sampling.value:.4f}", f"x {spread(error.ter_learning, '.4f')}"]


def fit(
    text: Annotated[Path, "TEXT"],
    /,
    *,
    out: Path,
    order: int = 3,
    tokens: Literal["characters", "whitespace"] = "characters",
    smoothing: float = 0.0,
    max_vocabulary: Count = None,
) -> Answer:
    """Fit an n-gram language to your own text.

    Example:
        unmask model fit corpus.txt --order 3 --max-vocabulary 64 --out my.json

    Args:
        text: UTF-8 text file.
        out: JSON file to write.
        order: Order n of the n-gram: each token depends on the n-1 before it.
        tokens: Tokens of the text: characters, or words between whitespace.
        smoothing: Number added to every count. At 0, only n-grams of the text are possible.
        max_vocabulary: Largest number of tokens; the rarest become one unknown token. (default: all)
    """
    from unmask import languages
    from unmask.core.files import check_writable
    from unmask.core.reading import read_text

    check_writable(out)
    fitted = languages.NGram.fit(read_text(text), order, tokens, smoothing, max_vocabulary)
    fitted.save(out)
    return Answer({"file": str(out)} | fitted.describe())


command = {"check": check, "time": time, "judge": judge, "learning": learning, "fit": fit}
