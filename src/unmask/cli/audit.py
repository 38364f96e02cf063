"""unmask audit."""

from __future__ import annotations

from unmask.cli.options import Count, File, Name, Samples, Switch


def command(
    samples: Samples,
    /,
    *,
    language: Name,
    steps: Count = None,
    sampler: str = "ancestral",
    schedule: str = "linear",
    calls: Count = None,
    order: File = None,
    json: Switch = False,
) -> None:
    """Say whether a generate loop is right, from samples made on `unmask.oracle`.

    Examples:
        unmask audit samples.npy --language paper-2gram --steps 16
        unmask audit samples.npy --language paper-2gram --steps 8 \\
            --sampler low-confidence --calls 8

    With --order, what the oracle has seen is tested, too: 200 rows are enough
    for much of what 2000 do not show.

    The samples are compared with the exact law of the sampler where it can be
    enumerated, and with many rows of our own. Where they differ, the nearest of
    the known faults is named: temperature, miscounted steps, wrong reveal rate,
    greedy last step, precision, reused noise, batch-flattened choice. A correct
    loop is accused in one of 10000 audits. What could not have been seen in so
    many rows is listed too.

    Args:
        samples: Tokens (rows, length): a .npy file of integers, or .jsonl with a list a line.
        language: The language of the oracle: a preset (see `unmask list languages`), or a file.
        steps: The number of rounds N that the loop was asked for.
        sampler: What the loop is meant to be (see `unmask list samplers`), with its options in brackets.
        schedule: How much it is meant to reveal at each round.
        order: The round that revealed each token, (rows, length) from 1, as oracle.record.order(samples) says it.
        calls: How many calls of the model each row went through; oracle.rows / rows.
        json: Print one JSON object instead of a table.
    """
    from unmask import audit, languages
    from unmask.cli.output import show
    from unmask.core.samples import read_tokens

    tokens = read_tokens(samples)
    found = languages.load(language)
    rounds = None if order is None else read_tokens(order)
    result = audit(tokens, found, sampler=sampler, schedule=schedule, steps=steps, calls=calls, order=rounds)
    show(result.to_dict() if json else result.table(), json)
