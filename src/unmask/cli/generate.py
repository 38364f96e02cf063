"""unmask generate."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask.cli.options import Count, Model, Named, Switch
from unmask.cli.prompts import Prompting
from unmask.core.run import Loading, Sampling

if TYPE_CHECKING:
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
    json: Switch = False,
) -> None:
    """Fill sequences with a language's exact denoiser or a network; say the cost.

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
        unmask generate --model bible --rows 5 --prompt "And God said" --out g.txt
        unmask generate --model llada-8b-instruct --chat --length 128 --steps 128 \\
            --prompt "Why is the sky blue?" --sampler llada --out h.jsonl
        unmask generate --model modernbert-base-chat --prompts asked.jsonl \\
            --chat --until "?" --out i.jsonl
        unmask generate --model mdlm-owt --template "The ___ sat on___{3}." \\
            --length 2 --out j.txt

    A network that has learned a text writes it: into .txt, and into .jsonl beside
    its tokens. So does an open model (`unmask list models`), which writes --length
    tokens behind each prompt, or in each gap, and ends a row with its own end. Of
    these the text is what was written, without the prompt.

    What is given goes to OUT with .given before its suffix, where `unmask score`
    finds it: SER and perplexity are then those of what was to be written.

    `unmask list samplers` and `unmask list schedules` say which there are, `unmask
    sampler show blocks` what one does, and its options.

    Args:
        out: Where the tokens go: .npy, or .jsonl with a list a line; of a text also .txt. What made them goes to
            OUT.json beside it.
        language: A preset with options, "sparse-hmm(seed=3, pruned=False)", or a language file.
        model: In place of a language, the directory of a network that `unmask train` has made, MDM or AR; or an open
            model, by its name of `unmask list models`, its repository, or a directory with its files.
        causal_model: An AR model beside an MDM, for samplers that read from left to right.
        length: Tokens a sequence; if not given 512, what the network was made for, or as many as in the given file. Of
            an open model those that it writes behind each prompt, or in each gap; 128 if not given, or what fits.
        rows: Sequences; 2000 if not given, one of an open model, or one for each prompt where there are several.
        prompt_length: Start each sequence from so many tokens that the language itself has drawn.
        rows_per_prompt: So many rows, one after another, continue each prompt.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        batch: Rows that a network evaluates at once, for a device that cannot hold more.
        dry_run: Of an open model, say the memory and the time that it takes; nothing is fetched, loaded or written.
        json: Print one JSON object instead of a table.
    """
    from unmask import UnmaskError, generate, languages
    from unmask.cli.output import show
    from unmask.cli.prompts import Prompts, Spoken
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
            raise UnmaskError("give --language, whose exact denoiser is used, or --model, a network's directory")
        _refuse({"--causal-model": causal_model, "--batch": batch}, "--model")
    else:
        _refuse(
            {"--language": language, "--prompt-length": prompt_length},
            "--language",
        )
    source: Language | Network | OpenModel
    if opened:
        from unmask.hub import load_model

        asked = Spoken.of(prompting)
        if dry_run:
            show(asked.needs(str(model), loading, rows, length, rows_per_prompt, sampling), json)
            return
        found = source = load_model(str(model), **asdict(loading), batch=batch, causal_model=causal_model)
        start, tokenizer = asked.start(found, rows, length, rows_per_prompt), found.tokenizer
    else:
        own = replace(prompting, given=None, prompt=None)
        changed = _changed(own) | _changed(replace(loading, device="auto")) | {"--dry-run": dry_run or None}
        _refuse(changed, "an open model, --model NAME")
        known: Language | Network
        if model is None:
            known = source = languages.load(str(language))
        else:
            from unmask.networks import read_network

            known = source = read_network(model, causal_model, loading.device, batch)
        asked_of = Prompts(prompting.given, prompting.prompt, tokenizer, prompt_length, rows_per_prompt)
        start = asked_of.start(known, rows, length, seed, first_row)
    if start.given is not None:
        check_writable(given_path(out))
    made = generate(
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
        texts = made.texts(tokenizer) if opened else [tokenizer.decode(row) for row in made.tokens.tolist()]
    made.save(out, texts)
    show({"file": str(out)} | made.summary(), json)


def _refuse(options: dict[str, object], needed: str) -> None:
    from unmask.core.errors import UnmaskError

    for name, value in options.items():
        if value is not None:
            other = "--language and --model both say what fills; leave one of them out"
            raise UnmaskError(other if name == needed else f"{name} needs {needed}")


def _changed(options: Any) -> dict[str, object]:
    """The flags of the fields that do not have their default."""
    default = type(options)()
    names = [field.name for field in fields(options) if getattr(options, field.name) != getattr(default, field.name)]
    return {f"--no-{name}" if getattr(default, name) is True else f"--{name}": getattr(options, name) for name in names}


def _numbers(text: str) -> str | list[float]:
    """A schedule: its name, or the list that it is."""
    import ast

    from unmask.core.errors import UnmaskError, shown

    if not text.lstrip().startswith("["):
        return text
    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"cannot read the schedule {shown(text)}; write numbers, as in '[0.2, 0.8]'") from error
