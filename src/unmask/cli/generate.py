"""unmask generate."""

from __future__ import annotations

from pathlib import Path

from unmask.cli.options import Count, Name, Switch


def command(
    *,
    language: Name,
    out: Path,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: Count = None,
    length: int = 512,
    rows: int = 2000,
    seed: int = 0,
    first_row: int = 0,
    language_seed: int = 0,
    unpruned: Switch = False,
    json: Switch = False,
) -> None:
    """Fill sequences with the exact denoiser of a language, and say what it cost.

    Examples:
        unmask generate --language interval-5 --steps 737 --length 510 --out a.npy
        unmask generate --language sparse-hmm --sampler low-confidence --out b.npy
        unmask generate --language my.json --sampler "blocks(block_length=16)" \\
            --schedule cosine --steps 128 --rows 100 --out c.jsonl

    Samplers, with the values of options that are not given:
        ancestral
            Each position draws its round from the schedule (the paper's sampler).
        autoregressive
            The AR baseline: one token after another; steps and schedule are not
            used.
        blocks(block_length=32, inner='fixed-size')
            Blocks from left to right, each filled by the inner sampler.
        dyadic
            Every 2^(N-1)-th position first, then midpoints, N being the number of
            rounds.
        fixed-size
            A fixed number of uniformly chosen positions each round.
        left-to-right
            A fixed number of the leftmost hidden positions each round.
        low-confidence(temperature=1.0, ties='chance')
            LLaDA's rule: draw everywhere, keep the tokens that the model was surest
            of.
        speculative(draft_length=8)
            The masked model drafts, the AR model verifies; steps and schedule are
            not used.
        strided
            Every N-th position each round, N being the number of rounds.

    Schedules, or the shares of the rounds themselves, as in "[0.2, 0.8]":
        linear
            alpha = 1 - t: the same share at every round (MDLM's log-linear).
        cosine
            alpha = cos(pi t / 2): most in the first rounds.
        cosine-squared
            alpha = cos(pi t / 2)^2: most in the middle rounds.
        polynomial(power=2.0)
            alpha = 1 - t^power: above 1 most in the first rounds, below 1 most in
            the last.
        geometric(ratio=1.05)
            delta_(k+1) = ratio delta_k.
        theorem-4.2(order=2)
            One round of eps, then equal ones: the explicit version of Theorem 4.2
            for n-grams.
        theorem-4.2-proportional(order=2)
            One round of eps, then delta_k = eps/(n-1) p_k^(n-1): the same
            divergence in far fewer rounds.

    Args:
        language: A preset (see `unmask language list`), or a language file.
        out: Where the tokens go: .npy, or .jsonl with a list a line. What made them goes to OUT.json beside it.
        sampler: A sampler, with its options in brackets.
        schedule: How much is revealed at each round.
        steps: The number of rounds N; 64 if not given.
        length: Tokens a sequence.
        rows: Sequences.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        language_seed: The seed of a random preset.
        unpruned: Keep every transition of a random preset, so that no string is impossible.
        json: Print one JSON object instead of a table.
    """
    from unmask import generate, languages
    from unmask.cli.output import show
    from unmask.files import check_writable
    from unmask.samples import account_path, check_suffix

    check_suffix(out)
    check_writable(out)
    check_writable(account_path(out))
    rounds = _numbers(schedule) if schedule.lstrip().startswith("[") else schedule
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


def _numbers(text: str) -> list[float]:
    """A schedule given as a list."""
    import ast

    from unmask.errors import UnmaskError

    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError) as error:
        raise UnmaskError(f"cannot read the schedule {text!r}; write numbers, as in '[0.2, 0.8]'") from error
