"""unmask generate."""

from __future__ import annotations

from pathlib import Path


def command(
    *,
    language: str,
    out: Path,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: int | None = None,
    length: int = 512,
    rows: int = 2000,
    seed: int = 0,
    first_row: int = 0,
    language_seed: int = 0,
    unpruned: bool = False,
    json: bool = False,
) -> None:
    """Fill sequences with the exact denoiser of a language, and say what it cost.

    Examples:
        unmask generate --language interval-5 --steps 737 --length 510 --rows 2000 --out samples.npy
        unmask generate --language sparse-hmm --sampler low-confidence --steps 64 --out samples.npy
        unmask generate --language my.json --sampler "blocks(block_length=16)" --schedule cosine --out samples.jsonl

    Samplers: ancestral, fixed-size, left-to-right, blocks(block_length), strided, dyadic, autoregressive,
    low-confidence(temperature, ties), speculative(draft_length). Schedules: linear, cosine, cosine-squared,
    polynomial(power), geometric(ratio), theorem-4.2(order), theorem-4.2-proportional(order), or a list "[0.2, 0.8]".

    Args:
        language: A preset (see `unmask language list`), or a language file.
        out: Where the tokens go: .npy, or .jsonl with a list a line. What made them goes to OUT.json beside it.
        sampler: A sampler, with its options in brackets.
        schedule: How much is revealed at each round.
        steps: The number of rounds N; 64 if not given. Autoregressive and speculative do not use it.
        length: Tokens a sequence.
        rows: Sequences.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        language_seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset, so that no string is impossible.
        json: Print one JSON object instead of a table.
    """
    import ast

    from unmask import generate, languages
    from unmask.cli.output import show
    from unmask.errors import UnmaskError
    from unmask.files import check_writable
    from unmask.samples import check_suffix

    check_suffix(out)
    check_writable(out)
    rounds: str | list[float] = schedule
    if schedule.lstrip().startswith("["):
        try:
            rounds = ast.literal_eval(schedule)
        except (ValueError, SyntaxError) as error:
            raise UnmaskError(f"cannot read the schedule {schedule!r}; write numbers, as in '[0.2, 0.8]'") from error
    found = languages.load(language, seed=language_seed, pruned=not unpruned)
    made = generate(
        found,
        sampler=sampler,
        schedule=rounds,
        steps=steps,
        length=length,
        rows=rows,
        seed=seed,
        first_row=first_row,
    )
    made.save(out)
    show({"file": str(out)} | made.summary(), json)
