"""unmask model time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from unmask.cli.options import Answer, Count, Counts, Model, Switch, Word

if TYPE_CHECKING:
    from unmask.diagnosis.clock import Timing

POSTER = {512: (3.1, 1.7), 1024: (4.2, 3.3), 2048: (4.7, 7.0)}  # seconds of an MDM of 512 steps, and of AR
POSTER_STEPS = 512


def command(
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
    compiled: Switch = False,
) -> Answer:
    """Measure the time of MDM model calls and of AR tokens with a KV cache.

    Examples:
        unmask model time --preset quick --lengths 32 128 --batch 1 16
        unmask model time --preset paper --lengths 512 1024 2048 --steps 512 \\
            --batch 1 16 --device cuda
        unmask model time --preset small --lengths 128 --threads 1 --json
        unmask model time --model llada-8b-instruct --lengths 512 --batch 1 8

    Both models have the same size and untrained weights; the time does not depend
    on weights. A time is the median of several repeats with quartiles, after one
    warm-up, for the whole batch, with sampling of the tokens. An MDM with N steps
    needs the model calls that it makes on average; AR needs L tokens.

    The break-even is the number of model calls that take as long as AR, and the
    largest N of a linear schedule that is at least as fast. It depends on the batch
    size: measure at yours, and pass both times to `unmask plan`, which reports the
    quality at these times.

    An open model is compared with --causal-model, or else with its own layers under
    a causal mask.

    Presets: quick (hidden 64, 4 layers), small (128, 4), paper (512, 8).

    Args:
        preset: Size of both networks: quick, small or paper.
        model: Open model to time instead of a preset: a name of `unmask list models`, or a checkpoint's directory.
        card: Model card, if the directory does not identify its model.
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
        compiled: Use torch.compile, with CUDA graphs on CUDA.
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
            results = clock(shape, sizes, batch or (1, 16), steps, device, getattr(torch, dtype), repeats, compiled)
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
    rows = [timing.to_dict() | ({"poster": _poster(timing.length)} if known else {}) for timing in timings]
    return Answer(settings | {"timings": rows, "failures": failures}, lambda: _print(timings, failures, known))


def _print(timings: Sequence[Timing], failures: Sequence[str], known: bool) -> None:
    from unmask.cli.output import say, show_grid

    first = timings[0]
    where = first.device if first.device != "cpu" else f"cpu, {first.threads} threads"
    title = f"An MDM with {first.steps} steps compared with AR with a KV cache, on {where}"
    heads = ["L", "batch", "ms per call", "calls", "MDM, s", "ms per token", "AR, s", "MDM / AR"]
    heads += ["break-even", "N", "GFLOP/s", "MB"] + (["poster: MDM, s", "AR, s"] if known else [])
    show_grid(title, heads, [[*_cells(t), *(_poster_cells(t.length) if known else ())] for t in timings])
    say("Times are for a whole batch: medians with quartiles. GFLOP/s: for a model call, and for an AR token.")
    if known:
        say("The poster gives neither its machine nor its batch size.")
    for failure in failures:
        say(f"left out: {failure}")


def _cells(timing: Timing) -> list[str]:
    from unmask.cli.output import spread

    rates = timing.to_dict()
    steps = timing.break_even_steps
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


def _poster(length: int) -> dict[str, Any] | None:
    return dict(zip(("mdm_seconds", "ar_seconds"), POSTER[length], strict=True)) if length in POSTER else None


def _poster_cells(length: int) -> list[str]:
    return [str(seconds) for seconds in POSTER[length]] if length in POSTER else ["-", "-"]
