"""unmask model learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Answer, Count, Counts, Named

if TYPE_CHECKING:
    from unmask.diagnosis.learning import Blame, Learning
    from unmask.languages import Language
    from unmask.models.trained import Network

SCHEDULE = "geometric(last=0.000001)"  # of uniform noise
STEPS = (4, 8, 16, 32, 64)


def command(
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

    The learning error at a hidden position is KL(exact || network) in nats. A table
    shows its mean with an interval, its 99th percentile and its maximum, for
    several fractions of hidden positions. One table is for contexts from the
    language, one for contexts that the sampler visits. The theory's epsilon bounds
    the maximum over all contexts; a mean is not such a bound.

    SER and TER at each number of steps have two parts: the sampling error, which
    the exact denoiser has too, and the learning error. An AR model needs one step
    per token and has learning errors only.

    For a network of uniform noise only SER is divided, that of uniform-ancestral with
    the schedule geometric(last=0.000001).

    Args:
        model: Directory of a network of `unmask train`.
        language: Language to compare with. (default: the language that the network was trained on)
        length: Sequence length in tokens. (default: the network's own)
        steps: Numbers of sampling steps N. (default: 4 8 16 32 64)
        rows: Sequences generated at each N.
        contexts: Sequences used to estimate the learning error.
        device: Device of the network: auto, cpu or cuda.
    """
    from unmask.cli import models
    from unmask.core.memory import PLACE_BYTES, fits
    from unmask.diagnosis.learning import blame, blame_ar, of_language, of_sampler
    from unmask.models.trained import Network

    trunk, exact, label, size = models.read(model, device, language, length)
    if trunk.shape.noise == "uniform":
        return _of_uniform_noise(model, Network(trunk), exact, label, size, steps or STEPS, rows, seed)
    fits(rows, f"rows of {size} tokens", PLACE_BYTES * size)  # here, since the contexts take minutes
    causal = trunk.shape.causal
    network = Network(ar=trunk) if causal else Network(trunk)
    known = of_language(network, exact, size, rows=contexts, seed=seed, causal=causal)
    visited = of_sampler(network, exact, size, rows=contexts, seed=seed, causal=causal)
    if causal:
        errors = [blame_ar(network, exact, size, learning=known, rows=rows, seed=seed)]
    else:
        errors = blame(network, exact, size, "linear", steps or STEPS, learning=known, rows=rows, seed=seed)
    about = {"model": str(model), "kind": trunk.shape.kind, "language": label, "length": size}
    about |= {"learning": [known.to_dict(), visited.to_dict()], "errors": [error.to_dict() for error in errors]}
    return Answer(about, lambda: _print(trunk.shape.kind, label, (known, visited), errors))


def _of_uniform_noise(
    model: Path,
    network: Network,
    exact: Language,
    label: str,
    length: int,
    steps: Sequence[int],
    rows: int,
    seed: int,
) -> Answer:
    from unmask.cli.output import show_grid
    from unmask.diagnosis.learning import blame

    errors = blame(network, exact, length, SCHEDULE, steps, learning=None, rows=rows, seed=seed)

    def text() -> None:
        heads = ["N", "model calls", "SER", "sampling", "learning"]
        title = f"Network of uniform noise on {label}: SER, sampling error and learning error"
        show_grid(title, heads, [_error(error) for error in errors])

    about = {"model": str(model), "kind": "uniform noise", "language": label, "length": length}
    return Answer(about | {"errors": [error.to_dict() for error in errors]}, text)


def _print(kind: str, label: str, learned: Sequence[Learning], errors: Sequence[Blame]) -> None:
    from unmask.cli.output import say, show_grid

    for learning in learned:
        about = learning.to_dict()
        title = f"{kind.upper()} on {label}: learning error in nats per hidden position, contexts {learning.contexts}"
        rows = [[f"{row['low']:.0%} to {row['high']:.0%}", *_cells(row)] for row in about["by_share"]]
        if about["mean"] is not None:
            rows.append(["all", *_cells(about)])
        show_grid(title, ["hidden", "mean", "99%", "maximum"], rows)
        if learning.impossible:
            say(f"left out: {learning.impossible:.1%} of the contexts, which are impossible")
    title = "SER and TER: sampling error and learning error"
    heads = ["N", "model calls", "SER", "sampling", "learning", "TER: sampling", "learning"]
    show_grid(title, heads, [_error(error) for error in errors])


def _cells(row: dict[str, Any]) -> list[str]:
    mean = row["mean"]
    spread = f"{mean['value']:.3g} [{mean['low']:.3g}, {mean['high']:.3g}]"
    return [spread, f"{row['quantile']:.3g}", f"{row['largest']:.3g}"]


def _error(error: Blame) -> list[str]:
    columns = [
        "AR" if error.steps is None else str(error.steps),
        f"{error.model_calls:.4g}",
        str(error.ser),
        f"{error.ser_sampling.value:.4g}",
        f"{error.ser_learning.value:+.4f} [{error.ser_learning.low:+.4f}, {error.ser_learning.high:+.4f}]",
    ]
    if error.ter_sampling is None or error.ter_learning is None:
        return columns
    low, high = error.ter_learning.low, error.ter_learning.high
    return [*columns, f"x {error.ter_sampling.value:.4f}", f"x {error.ter_learning.value:.4f} [{low:.4f}, {high:.4f}]"]
