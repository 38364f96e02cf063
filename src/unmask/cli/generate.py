"""unmask generate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from unmask.cli.options import Count, Directory, File, Named, Switch

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.languages import Language
    from unmask.networks import Network
    from unmask.text import Tokenizer

Text = Annotated[str | None, "TEXT"]


def command(
    *,
    out: Path,
    language: Named = None,
    model: Directory = None,
    causal_model: Directory = None,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: Count = None,
    length: Count = None,
    rows: Count = None,
    given: File = None,
    prompt: Text = None,
    prompt_length: Count = None,
    rows_per_prompt: int = 1,
    seed: int = 0,
    first_row: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: Count = None,
    language_seed: int = 0,
    pruned: Switch = True,
    device: str = "auto",
    batch: Count = None,
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

    A network that has learned a text writes it: into .txt, and into .jsonl beside
    its tokens.

    What is given goes to OUT with .given before its suffix, where `unmask score`
    finds it: SER and perplexity are then those of what was to be written.

    `unmask sampler list` and `unmask schedule list` say which there are, `unmask
    sampler show blocks` what one does, and its options.

    Args:
        out: Where the tokens go: .npy, or .jsonl with a list a line; of a text also .txt. What made them goes to
            OUT.json beside it.
        language: A preset (see `unmask language list`), or a language file.
        model: In place of a language, the directory of a network that `unmask train` has made, MDM or AR.
        causal_model: The directory of an AR network beside an MDM, for samplers that read from left to right.
        sampler: A name of `unmask sampler list`, with options in brackets; or package.module:Name, a class of yours.
        schedule: How much is revealed at each round: a name of `unmask schedule list`, or a list of shares.
        steps: The number of rounds N; 64 if not given.
        length: Tokens a sequence; if not given 512, what the network was made for, or as many as in the given file.
        rows: Sequences; 2000 if not given, or one for each prompt of the given file where there are several.
        given: Tokens to start from, one row for all or a row each, with V (or null in .jsonl) where hidden.
        prompt: A text that each row begins with, for a network that has learned one.
        prompt_length: Start each sequence from so many tokens that the language itself has drawn.
        rows_per_prompt: So many rows, one after another, continue each prompt.
        seed: The seed of the luck; row r depends on it and on first_row + r alone.
        first_row: The number of the first row, to make a later block of the same run.
        temperature: Of every marginal; 0 takes the most likely token.
        top_p: The share of a marginal that is kept, the most likely tokens first.
        top_k: The number of tokens of a marginal that are kept at most.
        language_seed: The seed of a random preset.
        pruned: Without, a random preset keeps every transition, and no string is impossible.
        device: Where a network runs: auto, cpu or cuda.
        batch: Rows that a network evaluates at once, for a device that cannot hold more.
        json: Print one JSON object instead of a table.
    """
    from unmask import UnmaskError, generate, languages
    from unmask.cli.output import show
    from unmask.core.files import check_writable
    from unmask.core.samples import account_path, check_suffix, given_path
    from unmask.networks import read_network
    from unmask.networks.model.checkpoints import read_tokenizer

    tokenizer = None if model is None else read_tokenizer(model)
    check_suffix(out, tokenizer is not None)
    check_writable(out)
    check_writable(account_path(out))
    rounds = _numbers(schedule) if schedule.lstrip().startswith("[") else schedule
    source: Language | Network
    if model is None:
        if language is None:
            raise UnmaskError("give --language, whose exact denoiser is used, or --model, a network's directory")
        _refuse({"--causal-model": causal_model, "--batch": batch}, "--model")
        source = languages.load(language, seed=language_seed, pruned=pruned)
    else:
        _refuse(
            {"--language": language, "--prompt-length": prompt_length, "--no-pruned": None if pruned else True},
            "--language",
        )
        source = read_network(model, causal_model, device, batch)
    asked = Prompts(given, prompt, tokenizer, prompt_length, rows_per_prompt)
    start, rows, length = asked.read(source, rows, length, seed, first_row)
    if start is not None:
        check_writable(given_path(out))
    made = generate(
        source,
        sampler=sampler,
        schedule=rounds,
        steps=steps,
        length=length,
        rows=rows,
        seed=seed,
        first_row=first_row,
        given=start,
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
    )
    made.save(out, None if tokenizer is None else [tokenizer.decode(row) for row in made.tokens.tolist()])
    show({"file": str(out)} | made.summary(), json)


def _refuse(options: dict[str, object], needed: str) -> None:
    from unmask.core.errors import UnmaskError

    for name, value in options.items():
        if value is not None:
            other = "--language and --model both say what fills; leave one of them out"
            raise UnmaskError(other if name == needed else f"{name} needs {needed}")


class Prompts(NamedTuple):
    given: Path | None
    prompt: str | None
    tokenizer: Tokenizer | None
    prompt_length: int | None
    rows_per_prompt: int

    def read(
        self, source: Language | Network, rows: int | None, length: int | None, seed: int, first_row: int
    ) -> tuple[Tensor | None, int, int]:
        """(what the rows are given, rows, length)."""
        from unmask import prompts
        from unmask.core.arguments import whole
        from unmask.core.errors import UnmaskError
        from unmask.core.samples import read_tokens
        from unmask.languages import Language

        each = self.rows_per_prompt
        whole("--rows-per-prompt", each)
        starts = {"--given": self.given, "--prompt": self.prompt, "--prompt-length": self.prompt_length}
        named = [name for name, value in starts.items() if value is not None]
        if len(named) > 1:
            raise UnmaskError(f"{' and '.join(named)} both say what to start from; leave one of them out")
        if self.given is not None:
            start = read_tokens(self.given, hidden=source.vocabulary).repeat_interleave(each, 0)
            many = len(start) if len(start) > 1 else 2000
            return start, many if rows is None else rows, start.shape[1] if length is None else length
        usual = 512 if isinstance(source, Language) else source.length
        rows, length = 2000 if rows is None else rows, usual if length is None else length
        if self.prompt_length is not None and isinstance(source, Language):
            drawn = prompts(
                source,
                rows,
                length,
                self.prompt_length,
                rows_per_prompt=each,
                seed=seed,
                first_row=first_row,
            )
            return drawn, rows, length
        if each > 1:
            raise UnmaskError("--rows-per-prompt needs prompts; give --prompt-length, or --given with a file")
        return None if self.prompt is None else self._spoken(self.prompt, length), rows, length

    def _spoken(self, prompt: str, length: int) -> Tensor:
        """(1, L): the prompt as tokens, then what is hidden."""
        import torch

        from unmask.core.errors import UnmaskError

        if self.tokenizer is None:
            raise UnmaskError("--prompt needs --model, the directory of a network that has learned a text")
        said = torch.from_numpy(self.tokenizer.encode(prompt)).long()
        if len(said) >= length:
            raise UnmaskError(f"--prompt has {len(said)} tokens, and a row {length}; nothing is left to write")
        return torch.cat([said, torch.full((length - len(said),), self.tokenizer.vocabulary)]).unsqueeze(0)


def _numbers(text: str) -> list[float]:
    """A schedule given as a list."""
    import ast

    from unmask.core.errors import UnmaskError, shown

    try:
        return [float(number) for number in ast.literal_eval(text)]
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise UnmaskError(f"cannot read the schedule {shown(text)}; write numbers, as in '[0.2, 0.8]'") from error
