"""unmask generate, unmask score; begin(): the source of a command with its first tokens."""

from __future__ import annotations

import ast
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli.options import Answer, Count, File, Model, Name, Named, Samples, Switch, refuse
from unmask.core import arguments
from unmask.core.errors import UnmaskError, shown
from unmask.core.run import Amount, Loading, Prompting, Sampling

if TYPE_CHECKING:
    from unmask.models.text import Tokenizer


def command(
    *,
    out: Path,
    language: Named = None,
    model: Model = None,
    causal_model: Model = None,
    sampling: Sampling = Sampling(),
    amount: Amount = Amount(),
    prompting: Prompting = Prompting(),
    loading: Loading = Loading(),
    batch: Count = None,
    verbose: Switch = False,
) -> Answer:
    """Generate sequences with an exact denoiser, a trained network or an open model.

    Examples:
        unmask generate --language interval-5 --steps 737 --length 510 --out a.npy
        unmask generate --language my.json --sampler "blocks(block_length=16)" \\
            --schedule cosine --rows 100 --prompt-length 64 --out b.jsonl
        unmask generate --model runs/mdm --causal-model runs/ar \\
            --sampler speculative --out c.npy
        unmask generate --model llada-8b-instruct --chat --length 128 --steps 128 \\
            --prompt "Why is the sky blue?" --sampler llada --out d.jsonl

    Open models and networks that were trained on a text write text to .txt, and
    tokens with text to .jsonl. An open model fills --length tokens after each
    prompt, or in each gap, until its end-of-text token. Known tokens are saved next
    to OUT, where `unmask score` reads them.

    Args:
        out: File of the tokens: .npy, or .jsonl with one list per line; .txt for text. Settings and counts go to
            OUT.json.
        model: Network to use instead of a language: a directory of `unmask train`; or an open model: a name of
            `unmask show model`, a repository, or a directory with its files.
        causal_model: AR model for samplers that need one, for example `speculative`.
        batch: Largest number of sequences in one forward pass. (default: chosen by the device's memory)
        json: Print one JSON object with all numbers.
    """
    from unmask import generate
    from unmask.core.files import check_writable
    from unmask.core.samples import account_path, check_suffix, given_path
    from unmask.models.loading import is_open, writes_text

    opened = model is not None and is_open(model)
    check_suffix(out, model is not None and writes_text(model))
    for file in (out, account_path(out)):
        check_writable(file)
    source, start, tokenizer = begin(language, model, amount, prompting, loading, causal_model, batch)
    if start["given"] is not None:
        check_writable(given_path(out))
    how = asdict(sampling) | start | {"schedule": schedule_of(sampling.schedule)}
    generation = generate(source, **how, seed=amount.seed, first_row=amount.first_row)
    texts = None
    if tokenizer is not None and opened:
        texts = generation.texts(tokenizer)
    elif tokenizer is not None:
        texts = list(map(tokenizer.decode, generation.tokens.tolist()))
    generation.save(out, texts)

    about = generation.summary()
    if verbose:
        return Answer({"file": str(out)} | about)
    written = about["tokens_written"] / about["rows"]
    calls = " + ".join(f"{number(count)} of {name}" for name, count in about["model_calls_of"].items())
    lines = [
        ("file", f"{out}: {about['rows']} sequences of {about['length']} tokens"),
        ("model calls", f"per sequence: {calls}; AR needs {number(written)}"),
        ("time", f"{about['seconds']:.3g} s, {about['tokens_per_second']:,.0f} tokens per second"),
    ]
    if generation.ideal is not None:
        lines.insert(2, ("impossible", f"{about['impossible_rows']} of {about['rows']} sequences"))
    return Answer({"file": str(out)} | about, lines)


def begin(
    language: str | None,
    model: str | None,
    amount: Amount,
    prompting: Prompting,
    loading: Loading,
    causal_model: str | None = None,
    batch: int | None = None,
    usual: tuple[int, int] | None = None,
) -> tuple[Any, dict[str, Any], Tokenizer | None]:
    """Return the source of a command, the beginnings and ends as arguments of `generate`, and the tokenizer.

    usual: rows and length of a language in place of 2000 x 512; the length is then the nearest that the language has.
    """
    from unmask.models.loading import is_open, is_own, of_command

    if (language is None) == (model is None):
        raise UnmaskError("expected either --language for an exact denoiser, or --model. Pass one of the two")
    own = None
    if model is not None and is_own(model):
        own = of_command(model, loading, causal_model, batch)
    if model is not None and (hasattr(own, "tokenizer") or (own is None and is_open(model))):
        from unmask.models.open.prompted import begun, queries_of

        queries = queries_of(prompting)  # before the model is loaded
        opened = own or of_command(model, loading, causal_model, batch)
        return opened, begun(opened, queries, prompting, amount), opened.tokenizer
    from unmask.cli.starting import started

    of_open = arguments.changed(prompting, given=prompting.given, prompt=prompting.prompt)
    if model is None:
        of_open |= arguments.changed(loading, device=loading.device)
    refuse(of_open, "needs an open model, --model NAME")

    if model is None:
        refuse({"causal_model": causal_model, "batch": batch}, "needs --model. Add it, or leave the option out")
        from unmask import languages

        known = languages.load(str(language))
        return known, started(known, prompting, amount, usual), None
    if own is not None:
        return own, started(own, prompting, amount, usual), None
    from unmask.models.trained.checkpoints import read_tokenizer

    tokenizer = read_tokenizer(model)
    network = of_command(model, loading, causal_model, batch)
    network.tokenizer = tokenizer  # for constraints of joint draws
    return network, started(network, prompting, amount, usual, tokenizer), tokenizer


def schedule_of(text: str) -> str | list[float]:
    """Return the name of a schedule, or its list of fractions."""
    if not text.lstrip().startswith("["):
        return text
    try:
        return list(map(float, ast.literal_eval(text)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"--schedule is {shown(text)}; expected a name, or numbers such as '[0.2, 0.8]'") from error


def number(value: float) -> str:
    """Return four significant digits, with separators of thousands."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def score(
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
    if given is None:
        pattern = read_given(samples, account)
    else:
        pattern = read_tokens(given, hidden=known.vocabulary)

    scored = score(tokens, known, pattern, chosen_among=account.get("chosen_among"))
    result = {
        **scored.to_dict(),
        "language": known.source(),
        "source": account.get("source"),
        "made_by_code": account.get("origin", {}).get("code"),
        "scored_by_code": code(),
    }
    if verbose:
        return Answer(result)

    lines = dict(scored.table())
    if pattern is None and known.end is None and scored.generative_perplexity is not None:
        lines["perplexity"] += f"; the language's own: {ter_autoregressive(known, scored.length).value:.4g}"
    return Answer(result, list(lines.items()))
