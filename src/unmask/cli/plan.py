"""unmask plan."""

from __future__ import annotations

from typing import Literal

from unmask.cli.options import Count, Directory, Named, Number, Switch


def command(
    *,
    language: Named = None,
    model: Directory = None,
    length: Count = None,
    metric: Literal["ser", "ter", "kl"] = "ser",
    target: float,
    schedule: str = "linear",
    ar_token_ms: Number = None,
    step_ms: Number = None,
    batch: int = 1,
    json: Switch = False,
) -> None:
    """Say how many steps a quality takes, and whether AR is the better choice.

    Examples:
        unmask plan --language paper-2gram --metric ser --target 0.1
        unmask plan --language sparse-hmm --metric ter --target 0.01 \\
            --ar-token-ms 3.3 --step-ms 9.4
        unmask plan --model mdm --metric ter --target 0.05

    Steps for the schedule and for the one that is optimal for the metric, the
    evaluations they need on average, the quality they will have, and how that is
    known. Nothing is sampled where the language is a first-order chain.

    Metrics:
        ser: the share of sequences that the language cannot have made.
        ter: by how much TER exceeds the language's own: 0.01 is 1%. Exact where it
        is known, else of an upper bound, and `method` says which.
        kl: KL(q || p) in nats a sequence, or its mean over orders, an upper bound.

    --model adds what a trained network has not learned, which no number of steps
    takes away; SER is then not predicted.

    AR has a cache. In arithmetic it costs about one evaluation of a network of the
    paper's size; in time, what you measured.

    Args:
        language: A preset (see `unmask list languages`), or a language file; or of a model what it was trained on.
        model: The directory of an MDM that `unmask train` has made; without one the denoiser is ideal.
        length: Tokens a sequence; 512 unless told otherwise, or what the model was made for.
        metric: What should be good.
        target: How good.
        schedule: Compared to the optimal one; `unmask list schedules` has them.
        ar_token_ms: Milliseconds that a token takes by AR, for the whole batch.
        step_ms: Milliseconds that an evaluation of all tokens takes, for the whole batch.
        batch: Rows that share an evaluation, and need it if any of them does.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli import models
    from unmask.cli.output import show
    from unmask.core.errors import UnmaskError
    from unmask.cost.planner import plan
    from unmask.diagnosis.learning import of_language
    from unmask.networks import Network

    if (ar_token_ms is None) != (step_ms is None):
        raise UnmaskError("times are compared: give both --ar-token-ms and --step-ms, or neither")
    times = None if ar_token_ms is None or step_ms is None else (ar_token_ms, step_ms)
    if model is None:
        if language is None:
            raise UnmaskError("give --language, or --model, a network's directory")
        found = languages.load(language)
        verdict = plan(found, 512 if length is None else length, metric, target, schedule, batch, times)
    else:
        read = models.read(model, "auto", language, length)
        if read.trunk.shape.causal:
            raise UnmaskError(f"{model} holds an AR network, which takes a step for each token; name an MDM")
        if metric == "ser":
            raise UnmaskError("no SER of a trained network is known beforehand; `unmask learning` measures it")
        learning = of_language(Network(read.trunk), read.language, read.length)
        shape = read.trunk.shape
        verdict = plan(read.language, read.length, metric, target, schedule, batch, times, shape, learning)
    show(verdict.to_dict(), json)
