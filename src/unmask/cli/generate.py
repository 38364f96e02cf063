"""unmask generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from unmask.cli.options import Count, File, Model, Named, Switch, Text, Texts, Word

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
    card: Word = None,
    causal_model: Model = None,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: Count = None,
    length: Count = None,
    rows: Count = None,
    given: File = None,
    prompt: Text = None,
    prompts: File = None,
    template: Text = None,
    chat: Switch = False,
    system: Text = None,
    until: Texts = (),
    stop: Switch = True,
    prompt_length: Count = None,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: Count = None,
    guidance: float = 0.0,
    language_seed: int = 0,
    pruned: Switch = True,
    device: str = "auto",
    dtype: Word = None,
    quantize: Word = None,
    cache: Word = None,
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
    its tokens. So does an open model (`unmask model list`), which writes --length
    tokens behind each prompt, or in each gap, and ends a row with its own end. Of
    these the text is what was written, without the prompt.

    What is given goes to OUT with .given before its suffix, where `unmask score`
    finds it: SER and perplexity are then those of what was to be written.

    `unmask sampler list` and `unmask schedule list` say which there are, `unmask
    sampler show blocks` what one does, and its options.

    Args:
        out: Where the tokens go: .npy, or .jsonl with a list a line; of a text also .txt. What made them goes to
            OUT.json beside it.
        language: A preset (see `unmask language list`), or a language file.
        model: In place of a language, the directory of a network that `unmask train` has made, MDM or AR; or an open
            model, by its name of `unmask model list`, its repository, or a directory with its files.
        card: Which open model a directory holds, by name, or a JSON file of yours, where its files do not say.
        causal_model: An AR model beside an MDM, for samplers that read from left to right.
        sampler: A name of `unmask sampler list`, with options in brackets; or package.module:Name, a class of yours.
        schedule: How much is revealed at each round: a name of `unmask schedule list`, or a list of shares.
        steps: The number of rounds N; 64 if not given.
        length: Tokens a sequence; if not given 512, what the network was made for, or as many as in the given file. Of
            an open model those that it writes behind each prompt, or in each gap; 128 if not given, or what fits.
        rows: Sequences; 2000 if not given, one of an open model, or one for each prompt where there are several.
        given: Tokens to start from, one row for all or a row each, with V (or null in .jsonl) where hidden.
        prompt: A text that each row begins with, for a network that has learned one.
        prompts: Of an open model, a prompt a line: a text in quotes, {"prompt": ..}, {"template": ..}, or messages.
        template: Of an open model, a text with gaps: ___ of --length tokens, ___{N} of N.
        chat: A prompt is what a user says, in the model's own template.
        system: What the system says first in each conversation.
        until: A row ends where one of these texts is complete.
        stop: Without, rows are filled to their end whatever they say: the model's end ends none.
        prompt_length: Start each sequence from so many tokens that the language itself has drawn.
        rows_per_prompt: So many rows, one after another, continue each prompt.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        temperature: Of every marginal; 0 takes the most likely token.
        top_p: The share of a marginal that is kept, the most likely tokens first.
        top_k: The number of tokens of a marginal that are kept at most.
        guidance: Classifier-free guidance by what was given, at twice the evaluations; 0 is none.
        language_seed: The seed of a random preset.
        pruned: Without, a random preset keeps every transition, and no string is impossible.
        device: Where a network runs: auto, cpu or cuda.
        dtype: Of an open model's weights: float32, bfloat16 or float16; as they are published if not given.
        quantize: Of an open model's layers: int8 or int4, by torchao; another model, which results name.
        cache: Of an open model: prefix or dual, "prefix(block=32)"; faster, and another law (docs/open-models.md).
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
    rounds = _numbers(schedule) if schedule.lstrip().startswith("[") else schedule
    if model is None:
        if language is None:
            raise UnmaskError("give --language, whose exact denoiser is used, or --model, a network's directory")
        _refuse({"--causal-model": causal_model, "--batch": batch}, "--model")
    else:
        _refuse(
            {"--language": language, "--prompt-length": prompt_length, "--no-pruned": None if pruned else True},
            "--language",
        )
    source: Language | Network | OpenModel
    if opened:
        from unmask.hub import load_model

        asked = Spoken.of(given, prompt, prompts, template, chat, system, until, stop)
        if dry_run:
            answered = asked.needs(
                str(model), card, device, dtype, quantize, cache, rows, length, rows_per_prompt, steps, guidance
            )
            show(answered, json)
            return
        found = source = load_model(
            str(model),
            card=card,
            device=device,
            dtype=dtype,
            quantize=quantize,
            cache=cache,
            batch=batch,
            causal_model=causal_model,
        )
        start, tokenizer = asked.start(found, rows, length, rows_per_prompt), found.tokenizer
    else:
        open_alone: dict[str, object] = {"--card": card, "--dtype": dtype, "--cache": cache, "--system": system}
        open_alone |= {"--prompts": prompts, "--template": template, "--chat": chat or None, "--until": until or None}
        open_alone |= {"--dry-run": dry_run or None, "--no-stop": None if stop else True, "--quantize": quantize}
        _refuse(open_alone, "an open model, --model NAME")
        known: Language | Network
        if model is None:
            known = source = languages.load(str(language), seed=language_seed, pruned=pruned)
        else:
            from unmask.networks import read_network

            known = source = read_network(model, causal_model, device, batch)
        asked_of = Prompts(given, prompt, tokenizer, prompt_length, rows_per_prompt)
        start = asked_of.start(known, rows, length, seed, first_row)
    if start.given is not None:
        check_writable(given_path(out))
    made = generate(
        source,
        sampler=sampler,
        schedule=rounds,
        steps=steps,
        length=start.length,
        rows=start.rows,
        seed=seed,
        first_row=first_row,
        given=start.given,
        stop=start.stop,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        guidance=guidance,
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


def _numbers(text: str) -> list[float]:
    """A schedule given as a list."""
    import ast

    from unmask.core.errors import UnmaskError, shown

    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"cannot read the schedule {shown(text)}; write numbers, as in '[0.2, 0.8]'") from error
