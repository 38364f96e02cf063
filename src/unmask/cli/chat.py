"""unmask chat."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Count, Number, Switch, Text, Word
from unmask.core.run import Loading

if TYPE_CHECKING:
    from unmask.hub.conversation import See, Turn

HIDDEN = "\u2591"  # a masked position; in ASCII an underscore
PROMPT = "> "
NEW = "/new"


def command(
    *,
    model: Annotated[str, "MODEL"],
    system: Text = None,
    length: int = 128,
    steps: Count = None,
    sampler: Word = None,
    temperature: Number = None,
    top_p: Number = None,
    guidance: Number = None,
    seed: int = 0,
    loading: Loading = Loading(),
    json: Switch = False,
) -> None:
    """Chat with an open model in the terminal, and watch its answers step by step.

    Examples:
        unmask chat --model modernbert-base-chat
        unmask chat --model llada-8b-instruct --length 256 --steps 128
        echo "Why?" | unmask chat --model smollm2-135m-instruct --json

    A terminal shows the answer after each step, with a sign at each masked
    position. Other outputs show the complete answer. /new starts a new
    conversation. Ctrl-C or the end of the input ends the chat.

    Args:
        model: Open model: a name of `unmask list models`, a repository, or a directory with its files.
        system: System message of the conversation.
        length: Largest number of tokens in an answer.
        steps: Number of sampling steps N of an answer. (default: one for each token)
        sampler: Sampler: a name of `unmask list samplers`. (default: llada; for AR models autoregressive)
        temperature: Sampling temperature; 0 means greedy. (default: 0)
        seed: Random seed of the conversation.
        json: Print one JSON object for each answer.
    """
    import sys

    from unmask.core import progress
    from unmask.core.errors import UnmaskError
    from unmask.hub import load_model
    from unmask.hub.conversation import Conversation

    loaded = load_model(model, **asdict(loading))
    options = {"steps": steps, "sampler": sampler, "temperature": temperature, "top_p": top_p, "guidance": guidance}
    conversation = Conversation(loaded, system, length, seed=seed, **options)
    live = sys.stdout.isatty() and not json
    with progress.silent():
        for message in _lines(live):
            if message == NEW:
                conversation.forget()
                continue
            try:
                with _drawn(live) as see:
                    answer = conversation.say(message, see)
            except UnmaskError as error:  # for example, a conversation longer than the model's context
                text = f"unmask: {error}. Type {NEW} to start a new conversation"
                print(text, file=sys.stdout if live else sys.stderr, flush=True)
                continue
            _print(message, answer, live, json)


def _lines(live: bool) -> Iterator[str]:
    """Yield the user's messages."""
    import sys

    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # invalid UTF-8 does not end the conversation
    while True:
        try:
            message = input(PROMPT) if live and sys.stdin.isatty() else next(sys.stdin)
        except (EOFError, StopIteration):
            return
        if message := message.strip():
            yield message


@contextmanager
def _drawn(live: bool) -> Iterator[See | None]:
    """Yield a function that draws an answer in the terminal, over the previous one."""
    if not live:
        yield None
        return
    import sys

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text as Drawn

    try:
        HIDDEN.encode(sys.stdout.encoding or "ascii")
        sign = HIDDEN
    except UnicodeEncodeError:
        sign = "_"
    with Live(console=Console(), refresh_per_second=12, vertical_overflow="visible", transient=True) as drawing:

        def see(pieces: list[str | None]) -> None:
            drawn = Drawn()
            for piece in pieces:
                drawn.append(sign if piece is None else printable(piece), style="dim" if piece is None else None)
            drawing.update(drawn)

        yield see


def printable(text: str) -> str:
    """Replace control characters, so that a model's text cannot move the cursor of the terminal."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def _print(message: str, answer: Turn, live: bool, json: bool) -> None:
    from unmask.cli.output import show

    summary = answer.generation.summary()
    about: dict[str, Any] = {name: summary[name] for name in ("tokens_written", "model_calls", "seconds")}
    about["tokens_per_second"] = summary["tokens_per_second"]
    if json:
        show({"user": message, "answer": answer.text, "reason": answer.generation.reasons[0]} | about, True)
        return
    print(printable(answer.text), flush=True)
    if live:
        figures = f"{about['tokens_written']} tokens, {about['model_calls']:.0f} model calls, {about['seconds']:.1f} s"
        print(f"[{figures}, {about['tokens_per_second']:.1f} tokens/s]\n", flush=True)
