"""unmask audit."""

from __future__ import annotations

from typing import Annotated

from unmask.cli.options import Answer, Count, File, Named, Switch, Text, Word, refuse
from unmask.core.entries import perhaps


def command(
    samples: Annotated[File, "SAMPLES"] = None,
    /,
    *,
    language: Named = None,
    steps: Count = None,
    sampler: str = "ancestral",
    schedule: str = "linear",
    order: File = None,
    filters: Text = None,
    logits: File = None,
    length: Count = None,
    verbose: Switch = False,
    endpoint: Annotated[str | None, "URL"] = None,
    model: Word = None,
    draws: int = 100,
    block: int = 32,
    timeout: float = 600.0,
    out: File = None,
) -> Answer:
    """Test a generation loop for bugs, or a deployed server for ignored fields.

    Examples:
        unmask audit samples.npy --language paper-2gram --steps 16
        unmask audit samples.npy --language paper-2gram --steps 8 \\
            --sampler low-confidence --filters "temperature=0.8, top_p=0.9"
        unmask audit --language paper-2gram --length 5 --logits logits.npy
        unmask audit --endpoint http://127.0.0.1:30000 --out audit.json

    Samples that a loop made on `unmask.oracle` are compared with the sampler's
    distribution. If they differ, the audit names the closest known fault. One in
    10000 audits of a correct loop raises a false alarm. With --order, the record of
    the oracle is tested too, which shows more (docs/test-your-decoder.md).

    --logits writes the logits of all contexts of a few positions, for loops in
    other programming languages: float32 (contexts, length, V). Context x is row
    x_1 (V+1)^(length-1) + .. + x_length, with V as the mask.

    With --endpoint, twelve tests show whether a server obeys its fields; one
    without a fault gets a red test in at most 1% of audits (docs/endpoints.md). The
    key comes from UNMASK_API_KEY.

    Args:
        language: Language of the oracle: a preset (see `unmask show language`), or a file.
        steps: Number of steps N with which the loop was called.
        sampler: Sampler that the loop should implement, with options in brackets (see `unmask show sampler`).
        schedule: Schedule that the loop should use (see `unmask show schedule`).
        order: File with the step, from 1, that revealed each token: oracle.record.order(samples) as .npy.
        filters: Filters of the loop in its order: temperature, top_p, top_k, min_p, repetition_penalty.
        logits: File to write, .npy, of the logits of all contexts.
        length: Number of positions of these contexts.
        verbose: Print all numbers: also detectable and undetectable faults.
        endpoint: Address of a server, to test it in place of samples.
        model: Name of the server's model. (default: the first that it lists)
        draws: Answers in each sample of a distribution; an audit takes about 7 times this number of requests.
        block: Tokens that the server generates at once.
        timeout: Seconds for one answer.
        out: JSON file of the audit of a server.
        json: Print one JSON object with all numbers.
    """
    from itertools import takewhile

    from unmask.core.errors import UnmaskError, cut

    if samples is not None and samples.suffix == ".py":
        raise UnmaskError(
            f"{cut(str(samples))} is a program",
            "expected the samples that it wrote, .npy or .jsonl. "
            "`unmask.testing.assert_law(loop)` tests a function (docs/test-your-decoder.md)",
        )

    from numpy import save

    from unmask import audit, languages
    from unmask.core.arguments import whole
    from unmask.core.files import atomic, check_writable, write_json
    from unmask.core.samples import read_account, read_tokens
    from unmask.core.tables import rows_of
    from unmask.denoisers.oracles import logits_of

    if endpoint is not None:
        from unmask.diagnosis import endpoint as servers

        if samples is not None or language is not None:
            raise UnmaskError("SAMPLES with --language and --endpoint exclude each other. Leave one of them out")
        if out is not None:
            check_writable(out)
        served = servers.audit(endpoint, model=model, draws=draws, block=block, timeout=timeout)
        if out is not None:
            write_json(out, served.to_dict())
        return Answer(served.to_dict(), served.table())
    if (samples is None) == (logits is None) or language is None:
        given = samples is not None or logits is not None
        both = samples is not None and logits is not None
        missing = "either SAMPLES or --logits FILE" if both else "--language LANGUAGE" if given else "SAMPLES"
        raise UnmaskError(f"unmask audit needs {missing}, or --endpoint URL. See `unmask audit --help`")
    refuse({"model": model, "out": out}, "needs --endpoint URL. Add it, or leave the option out")
    known = languages.load(language)
    if logits is not None:
        refuse({"filters": filters, "order": order}, "needs SAMPLES. Leave it out")
        table = logits_of(known, whole("length", length))
        with atomic(logits) as file:
            save(file, table.numpy(), allow_pickle=False)
        shape = dict(zip(("contexts", "length", "vocabulary"), table.shape, strict=True))
        return Answer({"logits": str(logits), **shape})
    refuse({"length": length}, "needs --logits FILE. Add it, or leave the option out")
    assert samples is not None
    tokens = read_tokens(samples)
    known.check_origin(read_account(samples, tokens).get("source"), str(samples))
    result = audit(
        tokens,
        known,
        sampler=sampler,
        schedule=schedule,
        steps=steps,
        filters=filters,
        order=perhaps(read_tokens, order),
    )
    rows = rows_of(result.table())
    brief = list(takewhile(lambda row: not row[0].endswith("detectable"), rows))
    return Answer(result.to_dict(), rows if verbose else brief)
