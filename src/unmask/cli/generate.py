"""unmask generate."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli.options import Answer, Count, Model, Named, Switch, refuse
from unmask.cli.prompts import Prompting
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
    from unmask.generation import Generation
    from unmask.hub import OpenModel
    from unmask.languages import Language
    from unmask.networks import Network
    from unmask.text import Tokenizer


def command(
    *,
    out: Path,
    language: Named = None,
    model: Model = None,
    causal_model: Model = None,
    sampling: Sampling = Sampling(),
    length: Count = None,
    rows: Count = None,
    prompting: Prompting = Prompting(),
    prompt_length: Count = None,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
    loading: Loading = Loading(),
    batch: Count = None,
    dry_run: Switch = False,
    verbose: Switch = False,
) -> Answer:
    """Generate sequences with an exact denoiser, a trained network or an open model.

    Examples:
        unmask generate --language interval-5 --steps 737 --length 510 --out a.npy
        unmask generate --language sparse-hmm --sampler low-confidence --out b.npy
        unmask generate --language my.json --sampler "blocks(block_length=16)" \\
            --schedule cosine --steps 128 --rows 100 --out c.jsonl
        unmask generate --language brackets --given infill.jsonl --out d.npy
        unmask generate --language sparse-hmm --prompt-length 64 --rows 400 \\
            --rows-per-prompt 4 --sampler my_module:MySampler --out e.npy
        unmask generate --model runs/mdm --causal-model runs/ar \\
            --sampler speculative --out f.npy
        unmask generate --model bible --rows 5 --prompt "And God" --out g.txt
        unmask generate --model llada-8b-instruct --chat --length 128 --steps 128 \\
            --prompt "Why is the sky blue?" --sampler llada --out h.jsonl
        unmask generate --model llada-8b-instruct --prompts asked.jsonl \\
            --chat --until "?" --out i.jsonl
        unmask generate --model mdlm-owt --template "The ___ sat on___{3}." \\
            --length 2 --out j.txt

    Open models and networks that were trained on a text write text to .txt, and
    tokens with text to .jsonl. An open model (`unmask list models`) fills --length
    tokens after each prompt, or in each gap, until its end-of-text token. The text
    does not include the prompt.

    Known tokens are saved next to OUT, with .given before the suffix. `unmask
    score` reads them and scores only the generated positions.

    See `unmask list samplers`, `unmask list schedules` and `unmask show sampler
    NAME`.

    Args:
        out: File of the tokens: .npy, or .jsonl with one list per line; .txt for text. Settings and counts go to
            OUT.json.
        model: Network to use instead of a language: a directory of `unmask train`; or an open model: a name of
            `unmask list models`, a repository, or a directory with its files.
        causal_model: AR model for samplers that need one, for example `speculative`.
        length: Sequence length in tokens; for open models, new tokens per prompt or gap. (default: 512, or the
            network's or the given file's; 128 for open models)
        rows: Number of sequences. (default: 2000; for open models 1, or one for each prompt)
        prompt_length: Start each sequence with N tokens sampled from the language.
        rows_per_prompt: Number of sequences for each prompt.
        seed: Random seed. Row r depends only on the seed and on first_row + r.
        first_row: Number of the first row, to generate a later block of the same run.
        batch: Largest number of sequences in one forward pass. (default: chosen by the device's memory)
        dry_run: Print the memory and the time that an open model needs, and stop.
        verbose: Print all numbers.
        json: Print one JSON object with all numbers.
    """
    from unmask import UnmaskError, generate, languages
    from unmask.cli.prompts import OpenPrompts, Prompts
    from unmask.core.files import check_writable
    from unmask.core.samples import account_path, check_suffix, given_path
    from unmask.loading import is_open

    opened = model is not None and is_open(model)
    tokenizer: Tokenizer | None = None
    if model is not None and not opened:
        from unmask.networks.model.checkpoints import read_tokenizer

        tokenizer = read_tokenizer(model)
    check_suffix(out, tokenizer is not None or opened)
    check_writable(out)
    check_writable(account_path(out))
    if model is None:
        if language is None:
            raise UnmaskError(
                "--language and --model are missing. Add --language for an exact denoiser, or --model DIR"
            )
        refuse({"causal_model": causal_model, "batch": batch}, "needs --model")
    else:
        refuse({"language": language}, "and --model exclude each other. Leave one of them out")
        refuse({"prompt_length": prompt_length}, "needs --language")
    source: Language | Network | OpenModel
    if opened:
        from unmask.hub import load_model

        prompts = OpenPrompts.of(prompting)
        if dry_run:
            return Answer(prompts.needs(str(model), loading, rows, length, rows_per_prompt, sampling))
        loaded = source = load_model(str(model), **asdict(loading), batch=batch, causal_model=causal_model)
        start, tokenizer = prompts.start(loaded, rows, length, rows_per_prompt), loaded.tokenizer
    else:
        own = replace(prompting, given=None, prompt=None)
        changed = _changed(own) | _changed(replace(loading, device="auto")) | {"dry_run": dry_run or None}
        refuse(changed, "needs an open model, --model NAME")
        known: Language | Network
        if model is None:
            known = source = languages.load(str(language))
        else:
            from unmask.networks import read_network

            known = source = read_network(model, causal_model, loading.device, batch)
        known_prompts = Prompts(prompting.given, prompting.prompt, tokenizer, prompt_length, rows_per_prompt)
        start = known_prompts.start(known, rows, length, seed, first_row)
    if start.given is not None:
        check_writable(given_path(out))
    generation = generate(
        source,
        **asdict(sampling) | {"schedule": _numbers(sampling.schedule)},
        length=start.length,
        rows=start.rows,
        seed=seed,
        first_row=first_row,
        given=start.given,
        stop=start.stop,
    )
    texts = None
    if tokenizer is not None:
        texts = generation.texts(tokenizer) if opened else [tokenizer.decode(row) for row in generation.tokens.tolist()]
    generation.save(out, texts)
    return Answer({"file": str(out)} | generation.summary(), None if verbose else _brief(out, generation))


def _brief(out: Path, generation: Generation) -> list[tuple[str, str]]:
    """Return the lines for a reader: the file, the model calls next to AR's, the impossible sequences, the time."""
    from unmask.cli.output import number

    about = generation.summary()
    written = about["tokens_written"] / about["rows"]
    calls = " + ".join(f"{number(count)} of {name}" for name, count in about["model_calls_of"].items())
    lines = [
        ("file", f"{out}: {about['rows']} sequences of {about['length']} tokens"),
        ("model calls", f"per sequence: {calls}; AR needs {number(written)}"),
        ("time", f"{about['seconds']:.3g} s, {about['tokens_per_second']:,.0f} tokens per second"),
    ]
    if generation.ideal is not None:
        lines.insert(2, ("impossible", f"{about['impossible_rows']} of {about['rows']} sequences"))
    if (warning := about["order"]["warning"]) is not None:
        lines.append(("warning", warning))
    return lines


def _changed(options: Any) -> dict[str, object]:
    """Return the fields that differ from their default, by the names of their flags."""
    default = type(options)()
    names = [field.name for field in fields(options) if getattr(options, field.name) != getattr(default, field.name)]
    return {f"no_{name}" if getattr(default, name) is True else name: getattr(options, name) for name in names}


def _numbers(text: str) -> str | list[float]:
    """Return a schedule: its name, or a list of fractions."""
    import ast

    from unmask.core.errors import UnmaskError, shown

    if not text.lstrip().startswith("["):
        return text
    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"--schedule is {shown(text)}; expected a name, or numbers such as '[0.2, 0.8]'") from error
