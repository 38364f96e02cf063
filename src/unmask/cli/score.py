"""unmask score."""

from __future__ import annotations

from unmask.cli.options import File, Name, Samples, Switch


def command(
    samples: Samples,
    /,
    *,
    language: Name,
    given: File = None,
    json: Switch = False,
) -> None:
    """Measure anybody's samples against a language that is known exactly.

    Examples:
        unmask score samples.npy --language interval-5
        unmask score samples.jsonl --language language.json --json
        unmask score samples.npy --language brackets --given infill.jsonl

    SER is the share of rows that the language cannot have made; the generative
    perplexity is that of the other rows, and low for samples that repeat
    themselves: read it beside the entropy of the bigrams. Impossible rows are
    known where `unmask generate` has left its account beside the samples. Of a
    language with steps, as modular-sum, there are three more: the share of wrong
    answers, of answers that are right by wrong steps, and of steps that are wrong.

    What made the samples is named, where that account says it, and samples that
    another version of unmask has made are said to be old.

    Where tokens were given, all of this is about the others: a row that has
    changed a given token is wrong, and intervals are over prompts, the rows with
    the same given tokens being one. What `unmask generate` was given is found by
    itself.

    Args:
        samples: Tokens (rows, length): a .npy file of integers, or .jsonl with a list a line.
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        given: The tokens that were given, one row for all or a row each, with V (or null in .jsonl) where hidden.
        json: Print one JSON object instead of a table.
    """
    from unmask import languages, score
    from unmask.cli.output import show
    from unmask.core import progress
    from unmask.core.files import age, code
    from unmask.core.samples import read_account, read_given, read_tokens

    tokens = read_tokens(samples)
    found = languages.load(language)
    account = read_account(samples, tokens)
    known = read_given(samples, account) if given is None else read_tokens(given, hidden=found.vocabulary)
    result = score(tokens, found, known).to_dict()
    result["impossible_rows"] = account.get("impossible_rows")
    made = account.get("origin", {})
    result |= {"language": found.source(), "source": account.get("source"), "made_by_code": made.get("code")}
    result |= {"scored_by_code": code()}
    if account and (old := age(made)) is not None:
        progress.note(f"{samples}: {old}")
    show(result, json)
