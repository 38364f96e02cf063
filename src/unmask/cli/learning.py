"""unmask learning."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Count, Counts, Named, Switch

if TYPE_CHECKING:
    from unmask.diagnosis.decomposition import Blame
    from unmask.diagnosis.learning import Learning

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
    json: Switch = False,
) -> None:
    """What a trained network has not learned, and what that adds to its errors.

    Examples:
        unmask learning mdm
        unmask learning mdm --steps 8 32 --rows 2000 --json
        unmask learning ar --language paper-2gram

    The learning error is KL(exact || network) in nats at each hidden position, by
    the share that is hidden: its mean, with an interval over sequences, the 99th
    percentile and the largest that was met, in contexts of the language and in
    those that the sampler visits. Theory's epsilon bounds the largest of all
    contexts; a mean is none.

    Then SER and TER at some numbers of steps, each in two parts: what parallel
    sampling does even with the exact denoiser, and what learning adds. An AR model
    takes a step for each token, and all of its errors are learning.

    Args:
        model: The directory of a network that `unmask train` has made.
        language: What to hold it against; the language that it was trained on unless told otherwise.
        length: Tokens a sequence; what the network was made for unless told otherwise.
        steps: Numbers of sampling steps N; 4 8 16 32 64 unless told otherwise.
        rows: Sequences generated at each N.
        contexts: Sequences whose contexts are looked at.
        seed: The seed of all of them.
        device: Where the network runs: auto, cpu or cuda.
        json: Print one JSON object instead of tables.
    """
    from unmask.cli import models
    from unmask.cli.output import show
    from unmask.diagnosis.decomposition import blame, blame_ar
    from unmask.diagnosis.learning import of_language, of_sampler
    from unmask.networks import Network

    trunk, found, label, size = models.read(model, device, language, length)
    causal = trunk.shape.causal
    network = Network(ar=trunk) if causal else Network(trunk)
    known = of_language(network, found, size, rows=contexts, seed=seed, causal=causal)
    visited = of_sampler(network, found, size, rows=contexts, seed=seed, causal=causal)
    if causal:
        errors = [blame_ar(network, found, size, learning=known, rows=rows, seed=seed)]
    else:
        errors = blame(network, found, size, "linear", steps or STEPS, learning=known, rows=rows, seed=seed)
    if json:
        about = {"model": str(model), "kind": trunk.shape.kind, "language": label, "length": size}
        learned = [known.to_dict(), visited.to_dict()]
        show(about | {"learning": learned, "errors": [error.to_dict() for error in errors]}, True)
    else:
        _print(trunk.shape.kind, label, (known, visited), errors)


def _print(kind: str, label: str, learned: Sequence[Learning], errors: Sequence[Blame]) -> None:
    from unmask.cli.output import say, show_grid

    for learning in learned:
        said = learning.to_dict()
        title = f"{kind.upper()} on {label}: nats lost at a hidden position, contexts {learning.contexts}"
        rows = [[f"{row['low']:.0%} to {row['high']:.0%}", *_cells(row)] for row in said["by_share"]]
        if said["mean"] is not None:
            rows.append(["all", *_cells(said)])
        show_grid(title, ["hidden", "mean", "99%", "largest"], rows)
        if learning.impossible:
            say(f"left out: {learning.impossible:.1%} of the contexts, which are impossible")
    title = "Errors: of parallel sampling, and what learning adds"
    heads = ["N", "evaluations", "SER", "sampling", "learning", "TER: sampling", "learning"]
    show_grid(title, heads, [_error(error) for error in errors])


def _cells(row: dict[str, Any]) -> list[str]:
    mean = row["mean"]
    spread = f"{mean['value']:.3g} [{mean['low']:.3g}, {mean['high']:.3g}]"
    return [spread, f"{row['quantile']:.3g}", f"{row['largest']:.3g}"]


def _error(error: Blame) -> list[str]:
    return [
        "AR" if error.steps is None else str(error.steps),
        f"{error.evaluations:.4g}",
        str(error.ser),
        f"{error.ser_sampling.value:.4g}",
        f"{error.ser_learning.value:+.4f} [{error.ser_learning.low:+.4f}, {error.ser_learning.high:+.4f}]",
        f"x {error.ter_sampling.value:.4f}",
        f"x {error.ter_learning.value:.4f} [{error.ter_learning.low:.4f}, {error.ter_learning.high:.4f}]",
    ]
