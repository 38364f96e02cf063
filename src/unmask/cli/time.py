"""unmask time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from unmask.cli.options import Count, Counts, Model, Switch, Word

if TYPE_CHECKING:
    from unmask.core.estimates import Estimate
    from unmask.cost.clock import Timing

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
    json: Switch = False,
) -> None:
    """Time an MDM's evaluations and a KV-cached AR model's tokens, side by side.

    Examples:
        unmask time --preset quick --lengths 32 128 --batch 1 16
        unmask time --preset paper --lengths 512 1024 2048 --steps 512 \\
            --batch 1 16 --device cuda
        unmask time --preset small --lengths 128 --threads 1 --json
        unmask time --model llada-8b-instruct --lengths 512 --batch 1 8

    Both models have one trunk and untrained weights, on which the time does not
    depend. A time is the median of some repeats, with quartiles, after one that
    warms up, for the whole batch, tokens drawn and written. An MDM of N steps takes
    the evaluations that it needs on average; AR takes L tokens.

    The break-even is the number of evaluations that take as long as AR, and the
    most steps N of a linear schedule that are no slower. It moves with the batch:
    compare at yours, and give both times to `unmask plan`, which says what quality
    they buy.

    An open model is timed as it is; the AR model beside it is --causal-model, or
    its own layers read from left to right.

    Presets: quick (hidden 64, 4 layers), small (128, 4), paper (512, 8).

    Args:
        preset: Of what size the trunk is.
        model: In place of a preset an open model: a name of `unmask list models`, or a checkpoint's directory.
        card: Which model that directory holds, if it does not say so itself.
        causal_model: An AR model of the same tokens beside it.
        lengths: Tokens a sequence; the preset's own unless told otherwise.
        batch: Rows that are filled at once; 1 and 16 unless told otherwise.
        steps: Sampling steps N of the MDM.
        vocabulary: Symbols of the language.
        layers: Instead of the preset's.
        hidden: Instead of the preset's.
        device: Where; auto takes CUDA where it is.
        dtype: Of weights and activations: float32 if not given, and of an open model its own.
        threads: Of torch on the CPU; all cores unless told otherwise.
        repeats: Of each measurement.
        compiled: Through torch.compile, with CUDA graphs where there is CUDA.
        json: Print one JSON object instead of a table.
    """
    import torch

    from unmask.cli.output import show
    from unmask.core.arguments import MOST_THREADS, whole
    from unmask.core.errors import UnmaskError
    from unmask.core.threads import torch_threads
    from unmask.cost.clock import Timing, clock
    from unmask.networks import PRESETS
    from unmask.networks import preset as shaped

    if threads is not None:
        whole("--threads", threads, 1, MOST_THREADS)
    settings: dict[str, Any]
    with torch_threads(threads or torch.get_num_threads()):
        if model is None:
            shape = shaped(preset, "mdm", vocabulary, layers=layers, hidden=hidden)
            asked, dtype = lengths or (PRESETS[preset]["length"],), dtype or "float32"
            settings = {"preset": preset, "vocabulary": vocabulary, "dtype": dtype, "shape": shape.to_dict()}
            found = clock(shape, asked, batch or (1, 16), steps, device, getattr(torch, dtype), repeats, compiled)
        else:
            from unmask.cost.open_clock import open_clock
            from unmask.hub.loading import load_model

            opened = load_model(model, card=card, device=device, dtype=dtype, causal_model=causal_model)
            settings = {"model": opened.source()}
            found = open_clock(opened, lengths or (min(512, opened.length - 1),), batch or (1, 16), steps, repeats)
    timings = [timing for timing in found if isinstance(timing, Timing)]
    failures = [str(error) for error in found if isinstance(error, UnmaskError)]
    if not timings:
        raise UnmaskError(failures[0])
    known = model is None and preset == "paper" and steps == POSTER_STEPS and layers is hidden is None
    if json:
        rows = [timing.to_dict() | ({"poster": _poster(timing.length)} if known else {}) for timing in timings]
        show(settings | {"timings": rows, "failures": failures}, True)
    else:
        _print(timings, failures, known)


def _print(timings: Sequence[Timing], failures: Sequence[str], known: bool) -> None:
    from unmask.cli.output import say, show_grid

    first = timings[0]
    where = first.device if first.device != "cpu" else f"cpu, {first.threads} threads"
    title = f"An MDM of {first.steps} steps against AR with a cache, on {where}"
    heads = ["L", "batch", "ms an evaluation", "number", "MDM, s", "ms a token", "AR, s", "MDM / AR"]
    heads += ["break-even", "N", "GFLOP/s", "MB"] + (["poster: MDM, s", "AR, s"] if known else [])
    show_grid(title, heads, [[*_cells(t), *(_poster_cells(t.length) if known else ())] for t in timings])
    say("Times are of a whole batch, medians with quartiles; GFLOP/s: of an evaluation and of a token.")
    if known:
        say("The poster names neither its machine nor its batch.")
    for failure in failures:
        say(f"left out: {failure}")


def _cells(timing: Timing) -> list[str]:
    rates = timing.to_dict()
    steps = timing.break_even_steps
    return [
        str(timing.length),
        str(timing.batch),
        _spread(timing.evaluation_ms),
        f"{timing.evaluations:.4g}",
        f"{timing.mdm_seconds:.3g}",
        _spread(timing.token_ms),
        f"{timing.ar_seconds:.3g}",
        f"{timing.mdm_seconds / timing.ar_seconds:.3g}",
        f"{timing.break_even_evaluations:.3g}",
        "any" if steps is None else str(steps),
        " ".join(f"{rates[f'{name}_flop_per_second'] / 1e9:.3g}" for name in ("evaluation", "token")),
        "-" if timing.peak_bytes is None else f"{timing.peak_bytes / 1e6:.0f}",
    ]


def _spread(middle: Estimate) -> str:
    return f"{middle.value:.3g} [{middle.low:.3g}, {middle.high:.3g}]"


def _poster(length: int) -> dict[str, Any] | None:
    return dict(zip(("mdm_seconds", "ar_seconds"), POSTER[length], strict=True)) if length in POSTER else None


def _poster_cells(length: int) -> list[str]:
    return [str(seconds) for seconds in POSTER[length]] if length in POSTER else ["-", "-"]
