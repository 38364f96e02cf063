"""unmask audit."""

from __future__ import annotations

from unmask.cli.options import Answer, Count, File, Name, Samples, Switch


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
    verbose: Switch = False,
) -> Answer:
    """Test a generation loop for bugs, with samples that it made on `unmask.oracle`.

    Examples:
        unmask audit samples.npy --language paper-2gram --steps 16
        unmask audit samples.npy --language paper-2gram --steps 8 \\
            --sampler low-confidence --calls 8

    The audit compares the samples with the exact distribution of the sampler, if it
    can be enumerated, and with many reference samples. If they differ, it names the
    closest known fault: temperature, miscounted steps, wrong reveal rate, greedy
    last step, precision, reused noise, batch-flattened choice. One in 10000 audits
    of a correct loop raises a false alarm. The verdict and --verbose list the
    faults that this number of sequences cannot show.

    With --order, the record of the oracle is tested too. It shows more faults with
    200 sequences than the tokens alone with 2000.

    Args:
        language: Language of the oracle: a preset (see `unmask list languages`), or a file.
        steps: Number of steps N with which the loop was called.
        sampler: Sampler that the loop should implement, with options in brackets (see `unmask list samplers`).
        schedule: Schedule that the loop should use (see `unmask list schedules`).
        order: File with the step, from 1, that revealed each token: oracle.record.order(samples) as .npy.
        calls: Model calls per sequence: oracle.rows / rows.
        verbose: Print all numbers: also detectable and undetectable faults.
        json: Print one JSON object with all numbers.
    """
    from itertools import takewhile

    from unmask import audit, languages
    from unmask.core.samples import read_tokens
    from unmask.core.tables import rows_of

    tokens = read_tokens(samples)
    known = languages.load(language)
    revealed = None if order is None else read_tokens(order)
    result = audit(tokens, known, sampler=sampler, schedule=schedule, steps=steps, calls=calls, order=revealed)
    rows = rows_of(result.table())
    brief = list(takewhile(lambda row: not row[0].endswith("detectable"), rows))
    return Answer(result.to_dict(), rows if verbose else brief)
