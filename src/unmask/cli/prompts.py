"""Prompts of `unmask generate`: tokens of a file, text, or tokens sampled from the language."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.cli.options import File, Switch, Text, Texts

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.core.run import Loading, Sampling
    from unmask.hub import Card, OpenModel
    from unmask.hub.prompted import Query
    from unmask.languages import Language
    from unmask.networks import Network
    from unmask.samplers import StopRule
    from unmask.text import Tokenizer

NEW = 128  # default number of new tokens of an open model


class Start(NamedTuple):
    given: Tensor | list[Tensor] | None
    rows: int | None
    length: int | None
    stop: StopRule | None = None


@dataclass(frozen=True)
class Prompting:
    """The beginning and the end of sequences.

    Args:
        given: File with known tokens: one row for all sequences, or one for each. Masked positions are V (null in
            .jsonl).
        prompt: Text that each sequence begins with, for a model of text.
        prompts: File of prompts for an open model, one a line: a text in quotes, {"prompt": ..}, {"template": ..}, or
            a list of messages.
        template: Text with gaps, for an open model: ___ of --length tokens, ___{N} of N.
        chat: Format the prompt as a user message with the model's chat template.
        system: System message of each conversation.
        until: End a sequence where one of these texts is complete.
        stop: Ignore end-of-text tokens and fill the whole length.
    """

    given: File = None
    prompt: Text = None
    prompts: File = None
    template: Text = None
    chat: Switch = False
    system: Text = None
    until: Texts = ()
    stop: Switch = True


class OpenPrompts(NamedTuple):
    """Prompts for an open model, and the end of its answers."""

    prompts: list[Query]
    how: Prompting

    @classmethod
    def of(cls, how: Prompting) -> OpenPrompts:
        """Read and check the prompts, before a model is loaded."""
        from unmask.core.errors import UnmaskError
        from unmask.hub.prompted import Query, read_prompts

        starts = {name: getattr(how, name) for name in ("given", "prompt", "prompts", "template")}
        _one_of({f"--{name}": value for name, value in starts.items()})
        prompts = [] if how.prompts is None else read_prompts(how.prompts)
        if how.prompt is not None:
            prompts = [Query(prompt=how.prompt)]
        if how.template is not None:
            prompts = [Query(template=how.template)]
        if how.chat and not any(one.prompt is not None for one in prompts):
            raise UnmaskError("--chat needs a user message. Add --prompt or --prompts")
        if how.system is not None and not how.chat:
            raise UnmaskError("--system needs --chat. In a file of --prompts, write a system message instead")
        return cls(prompts, how)

    def start(self, model: OpenModel, rows: int | None, length: int | None, each: int) -> Start:
        import torch

        from unmask.core.arguments import whole
        from unmask.core.errors import UnmaskError
        from unmask.core.samples import read_tokens
        from unmask.hub.prompted import chats, ending, rows_of

        whole("--rows-per-prompt", each)
        conversations = self.how.chat or any(one.messages is not None for one in self.prompts)
        if conversations:
            chats(model)
        ends = any(one.template is None for one in self.prompts)  # a text with gaps, or without a prompt, has no end
        rule = ending(model, self.how.until, conversations, own=ends and self.how.stop)
        if self.how.given is not None:
            start = read_tokens(self.how.given, hidden=model.vocabulary).repeat_interleave(each, 0)
            return Start(start, len(start) if rows is None else rows, length, rule)
        if not self.prompts:
            if each > 1:
                raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt, or --prompts with a file")
            return Start(None, 1 if rows is None else rows, model.length if length is None else length, rule)
        many = len(self.prompts)
        if rows is not None and many == 1 == each:
            each = whole("--rows", rows)
        elif rows is not None and rows != many * each:
            expected = f"{many} prompts with {each} rows each make {many * each}"
            raise UnmaskError(f"--rows is {rows}; {expected}. Leave --rows out, and set --rows-per-prompt")
        if length is None:
            longest = max(map(len, rows_of(model, self.prompts, 0, self.how.chat, self.how.system)))
            length = max(min(NEW, model.length - longest), 1)
        given = rows_of(model, self.prompts, whole("--length", length), self.how.chat, self.how.system)
        given = [row for row in given for _ in range(each)]
        alike = len({len(row) for row in given}) == 1
        return Start(torch.stack(given) if alike else given, None if not alike else len(given), None, rule)

    def needs(
        self,
        model: str,
        loading: Loading,
        rows: int | None,
        length: int | None,
        each: int,
        sampling: Sampling,
    ) -> dict[str, Any]:
        """Return the memory and the time of the answers, without loading the model."""
        from unmask.cost.needs import look, needs

        card, shape = look(model, loading.card, loading.cache)
        many, longest, new = self._size(card, shape, rows, length, each)
        steps = new if sampling.steps is None else min(sampling.steps, new)
        calls = steps * (2 if sampling.guidance else 1)
        return needs(card, shape, loading.device, loading.dtype, many, longest, calls)

    def _size(
        self, card: Card, model: OpenModel | None, rows: int | None, length: int | None, each: int
    ) -> tuple[int, int, int]:
        """Return upper limits: (rows, tokens per row, new tokens per row). Without the model's tokenizer, a byte of a
        prompt counts as a token."""
        if model is not None:
            start = self.start(model, rows, length, each)
            if start.given is None:
                return start.rows or 1, start.length or model.length, start.length or model.length
            new = max(int((row == model.vocabulary).sum()) for row in start.given)
            return max(start.rows or 1, len(start.given)), max(map(len, start.given)), new
        new = min(NEW if length is None and self.prompts else length or card.context, card.context)
        texts = [one.prompt or one.template or "".join(m.content for m in one.messages or ()) for one in self.prompts]
        longest = max((len(text.encode()) for text in texts), default=0)
        return (rows or 1) if len(texts) < 2 else len(texts) * each, min(longest + new, card.context), new


class Prompts(NamedTuple):
    """Prompts for a language, or a network of `unmask train`."""

    given: Path | None
    prompt: str | None
    tokenizer: Tokenizer | None
    prompt_length: int | None
    rows_per_prompt: int

    def start(
        self, source: Language | Network, rows: int | None, length: int | None, seed: int, first_row: int
    ) -> Start:
        from unmask import prompts
        from unmask.core.arguments import whole
        from unmask.core.errors import UnmaskError
        from unmask.core.samples import read_tokens
        from unmask.languages import Language

        each = self.rows_per_prompt
        whole("--rows-per-prompt", each)
        _one_of({"--given": self.given, "--prompt": self.prompt, "--prompt-length": self.prompt_length})
        if self.given is not None:
            start = read_tokens(self.given, hidden=source.vocabulary).repeat_interleave(each, 0)
            many = len(start) if len(start) > 1 else 2000
            return Start(start, many if rows is None else rows, start.shape[1] if length is None else length)
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
            return Start(drawn, rows, length)
        if each > 1:
            raise UnmaskError("--rows-per-prompt needs prompts. Add --prompt-length, or --given with a file")
        return Start(None if self.prompt is None else self._encoded(self.prompt, length), rows, length)

    def _encoded(self, prompt: str, length: int) -> Tensor:
        """Return (1, L): the tokens of the prompt, then masks."""
        import torch

        from unmask.core.errors import UnmaskError

        if self.tokenizer is None:
            raise UnmaskError("--prompt needs --model, the directory of a network that was trained on a text")
        tokens = torch.from_numpy(self.tokenizer.encode(prompt)).long()
        if len(tokens) >= length:
            raise UnmaskError(
                f"--prompt has {len(tokens)} tokens; expected fewer than --length {length}. Shorten the prompt"
            )
        return torch.cat([tokens, torch.full((length - len(tokens),), self.tokenizer.vocabulary)]).unsqueeze(0)


def _one_of(starts: dict[str, object]) -> None:
    from unmask.core.errors import UnmaskError

    named = [name for name, value in starts.items() if value is not None]
    if len(named) > 1:
        raise UnmaskError(f"{' and '.join(named)} exclude each other. Leave one of them out")
