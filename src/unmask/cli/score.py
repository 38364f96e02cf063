"""unmask score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unmask.cli.options import Answer, File, Name, Samples, Switch

if TYPE_CHECKING:
    from unmask.languages import Language
    from unmask.metrics import Score

STEPS = {  # metrics of languages with intermediate steps
    "answer_error": "incorrect answers",
    "right_by_wrong_steps": "right answer, wrong steps",
    "wrong_steps": "wrong steps",
}


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

    tokens = read_tokens(samples)
    known = languages.load(language)
    account = read_account(samples, tokens)
    known.check_origin(account.get("source"), str(samples))
    pattern = read_given(samples, account) if given is None else read_tokens(given, hidden=known.vocabulary)
    origin = account.get("origin", {})
    scored = score(tokens, known, pattern)
    result = scored.to_dict() | {"language": known.source(), "source": account.get("source")}
    result |= {"made_by_code": origin.get("code"), "scored_by_code": code()}
    lines = _brief(scored, known, conditional=pattern is not None)
    return Answer(result, None if verbose else lines)


def _brief(scored: Score, language: Language, conditional: bool) -> list[tuple[str, str]]:
    """Return the lines for a reader: number of sequences, SER, perplexity and diversity next to the language's own."""
    from unmask.cli.output import percent
    from unmask.core.estimates import Estimate
    from unmask.metrics import ter_autoregressive

    lines = [("sequences", f"{scored.rows} of {scored.length} tokens"), ("impossible (SER)", percent(scored.ser))]
    if scored.generative_perplexity is None:
        lines.append(("perplexity", "not defined: no sequence is possible"))
    else:
        own = conditional or language.end is not None or ter_autoregressive(language, scored.length)
        beside = f"; the language's own: {own.value:.4g}" if isinstance(own, Estimate) else ""
        lines.append(("perplexity", f"{scored.generative_perplexity}{beside}"))
    if scored.bigrams is not None:
        entropy, own_entropy = scored.bigrams.entropy_bits, scored.bigrams.entropy_bits_of_language
        lines.append(("bigram entropy", f"{entropy:.4g} bits; the language's own: {own_entropy:.4g} bits"))
    for name, label in STEPS.items():
        if (estimate := scored.metrics.get(name)) is not None:
            lines.append((label, percent(estimate)))
    return lines
