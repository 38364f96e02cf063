"""unmask score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unmask.cli.options import Answer, Count, File, Name, Samples, Switch, Word, refuse

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
    likelihood: Switch = False,
    sampler: Word = None,
    steps: Count = None,
    schedule: Word = None,
    draws: Count = None,
    verbose: Switch = False,
) -> Answer:
    """Measure the error rates and the perplexity of generated sequences.

    Examples:
        unmask score samples.npy --language interval-5
        unmask score samples.npy --language brackets --given infill.jsonl
        unmask score samples.npy --language paper-2gram --likelihood \\
            --sampler "top-probability(ties='position')" --steps 8

    SER is the percentage of sequences that the language cannot produce. Perplexity
    is computed from the other sequences. It is also low for repetitive samples, so
    compare the bigram entropy with the language's own. docs/metrics.md explains
    --likelihood, intermediate steps and given tokens.

    Args:
        given: File with known tokens: one row for all sequences, or one for each. Masked positions are V (null in
            .jsonl).
        likelihood: Also the likelihood of the sequences under a sampler.
        sampler: Sampler of that likelihood. (default: that of the samples' own record)
        steps: Number of sampling steps N. (default: that of the record)
        schedule: Schedule of the steps. (default: that of the record)
        draws: Random choices of the sampler per sequence. (default: 16)
        verbose: Print all numbers, with the source of the samples.
    """
    from unmask import languages, score
    from unmask.core import progress
    from unmask.core.files import age, code
    from unmask.core.samples import read_account, read_given, read_tokens

    tokens = read_tokens(samples)
    known = languages.load(language)
    account = read_account(samples, tokens)
    known.check_origin(account.get("source"), str(samples))
    pattern = read_given(samples, account) if given is None else read_tokens(given, hidden=known.vocabulary)
    origin = account.get("origin", {})
    how: dict[str, Any] = {"sampler": sampler, "steps": steps, "schedule": schedule, "draws": draws}
    if not likelihood:
        refuse(how, "applies to a likelihood. Add --likelihood, or leave it out")
        how = {}
    elif sampler is None:
        recorded = origin.get("configuration", {})
        refuse({"likelihood": recorded.get("draw")}, "needs draw=product, and these tokens were drawn together")
        names = (*how, "temperature", "top_p", "top_k", "guidance")
        how = {name: how.get(name) or recorded.get(name) for name in names}
    scored = score(tokens, known, pattern, likelihood=likelihood, **how)
    result = scored.to_dict() | {"language": known.source(), "source": account.get("source")}
    result |= {"made_by_code": origin.get("code"), "scored_by_code": code()}
    lines = _brief(scored, known, conditional=pattern is not None)
    if (likely := scored.likelihood) is not None:
        result["likelihood"] = likely | {"nats": likely["nats"].to_dict()}
        least = "" if likely["exact"] else "at least "
        lines += [("log-likelihood", f"{least}{likely['nats']} nats")]
        lines += [("by", str(likely["sampler"])), ("model calls", str(likely["model_calls"]))]
    if account and (old := age(origin)) is not None:
        progress.note(f"{samples}: {old}")
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
