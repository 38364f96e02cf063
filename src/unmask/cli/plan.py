"""unmask plan."""

from __future__ import annotations

from typing import Literal

from unmask.cli.options import Name, Number, Switch


def command(
    *,
    language: Name,
    length: int = 512,
    metric: Literal["ser", "ter", "kl"] = "ser",
    target: float,
    schedule: str = "linear",
    ar_token_ms: Number = None,
    round_ms: Number = None,
    batch: int = 1,
    language_seed: int = 0,
    unpruned: Switch = False,
    json: Switch = False,
) -> None:
    """Say how many rounds a quality takes, and whether AR is the better choice.

    Examples:
        unmask plan --language paper-2gram --metric ser --target 0.1
        unmask plan --language sparse-hmm --metric ter --target 0.01 \\
            --ar-token-ms 3.3 --round-ms 9.4

    Rounds for the schedule and for the one that is optimal for the metric, the
    evaluations they need on average, the quality they will have, and how that is
    known. Nothing is sampled where the language is a first-order chain.

    Metrics:
        ser: the share of sequences that the language cannot have made.
        ter: by how much TER exceeds the language's own: 0.01 is 1%. Exact where it
        is known, else of an upper bound, and `method` says which.
        kl: KL(q || p) in nats a sequence, or its mean over orders, an upper bound.

    AR has a cache. In arithmetic it costs about one evaluation of a network of the
    paper's size; in time, what you measured.

    Args:
        language: A preset (see `unmask language list`), or a language file.
        length: Tokens a sequence.
        metric: What should be good.
        target: How good.
        schedule: Compared to the optimal one; `unmask generate --help` lists them.
        ar_token_ms: Milliseconds that a token takes by AR, for the whole batch.
        round_ms: Milliseconds that an evaluation of all tokens takes, for the whole batch.
        batch: Rows that share an evaluation, and need it if any of them does.
        language_seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset, so that no string is impossible.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages
    from unmask.cli.output import show
    from unmask.cost.plan import plan
    from unmask.errors import UnmaskError

    if (ar_token_ms is None) != (round_ms is None):
        raise UnmaskError("times are compared: give both --ar-token-ms and --round-ms, or neither")
    times = None if ar_token_ms is None or round_ms is None else (ar_token_ms, round_ms)
    found = languages.load(language, seed=language_seed, pruned=not unpruned)
    show(plan(found, length, metric, target, schedule, batch, times).to_dict(), json)
