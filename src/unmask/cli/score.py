"""unmask score."""

from __future__ import annotations

from unmask.cli.options import Answer, File, Name, Samples, Switch


def command(
    samples: Samples,
    /,
    *,
    language: Name,
    given: File = None,
    verbose: Switch = False,
) -> Answer:
    """Measure the error rates and the perplexity of generated sequences.

    Examples:
        unmask score samples.npy --language interval-5
        unmask score samples.npy --language brackets --given infill.jsonl

    SER is the percentage of sequences that the language cannot produce. Perplexity
    is that of the others; it is also low for repetitive samples, so compare the
    bigram entropy with the language's own (docs/metrics.md).

    Args:
        given: File with known tokens: one row for all sequences, or one for each. Masked positions are V (null in
            .jsonl).
        verbose: Print all numbers, with the source of the samples.
    """
    from unmask import languages, score
    from unmask.core.files import code
    from unmask.core.samples import read_account, read_given, read_tokens
    from unmask.metrics import ter_autoregressive

    tokens = read_tokens(samples)
    known = languages.load(language)
    account = read_account(samples, tokens)
    known.check_origin(account.get("source"), str(samples))
    pattern = read_given(samples, account) if given is None else read_tokens(given, hidden=known.vocabulary)
    origin = account.get("origin", {})
    scored = score(tokens, known, pattern)
    result = scored.to_dict() | {"language": known.source(), "source": account.get("source")}
    result |= {"made_by_code": origin.get("code"), "scored_by_code": code()}
    lines = scored.table()
    if pattern is None and known.end is None and scored.generative_perplexity is not None:
        own = f"; the language's own: {ter_autoregressive(known, scored.length).value:.4g}"
        lines = [(name, text + own if name == "perplexity" else text) for name, text in lines]
    return Answer(result, None if verbose else lines)
