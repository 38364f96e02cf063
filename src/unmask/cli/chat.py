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
    from unmask.hub.conversation import Answer, See

HIDDEN = "\u2591"  # what a place is shown as that is to be written; in ASCII an underscore
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
    """Talk to an open model in the terminal, and see its answers being written.

    Examples:
        unmask chat --model modernbert-base-chat
        unmask chat --model llada-8b-instruct --length 256 --steps 128
        echo "Why?" | unmask chat --model smollm2-135m-instruct --json

    In a terminal the answer is shown after each round, with a sign at each place
    that is still hidden; elsewhere when it is complete. A line /new begins anew;
    the end of the input ends the conversation, as Ctrl-C does.

    Args:
        model: An open model, by its name of `unmask list models`, its repository, or a directory with its files.
        system: What the system says before all.
        length: Tokens of an answer at most.
        steps: The number of rounds N of an answer; one for each token if not given.
        sampler: A name of `unmask list samplers`; of a masked model llada, of an AR model autoregressive if not given.
        temperature: Of every marginal. If not given the likeliest tokens are taken.
        top_p: The share of a marginal that is kept, the most likely tokens first.
        guidance: Classifier-free guidance by what was said, at twice the evaluations.
        seed: The seed of the luck; each answer has its own part of it.
        json: Print one JSON object for each answer.
    """
    import sys

    from unmask.core import progress
    from unmask.core.errors import UnmaskError
    from unmask.hub import load_model
    from unmask.hub.conversation import Conversation

    found = load_model(model, **asdict(loading))
    options = {"steps": steps, "sampler": sampler, "temperature": temperature, "top_p": top_p, "guidance": guidance}
    talk = Conversation(found, system, length, seed=seed, **options)
    live = sys.stdout.isatty() and not json
    with progress.silent():
        for said in _lines(live):
            if said == NEW:
                talk.forget()
                continue
            try:
                with _shown(live) as see:
                    answer = talk.say(said, see)
            except UnmaskError as error:  # such as too much said for the model's context
                what = f"unmask: {error}; {NEW} begins anew"
                print(what, file=sys.stdout if live else sys.stderr, flush=True)
                continue
            _tell(said, answer, live, json)


def _lines(live: bool) -> Iterator[str]:
    """What somebody says, line by line."""
    import sys

    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # a byte that is no text ends no conversation
    while True:
        try:
            said = input(PROMPT) if live and sys.stdin.isatty() else next(sys.stdin)
        except (EOFError, StopIteration):
            return
        if said := said.strip():
            yield said


@contextmanager
def _shown(live: bool) -> Iterator[See | None]:
    """A function that draws an answer in the terminal, and again over it."""
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
    """Nothing that a model writes moves the cursor of somebody's terminal."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)


def _tell(said: str, answer: Answer, live: bool, json: bool) -> None:
    from unmask.cli.output import show

    summary = answer.made.summary()
    about: dict[str, Any] = {name: summary[name] for name in ("tokens_written", "evaluations", "seconds")}
    about["tokens_per_second"] = summary["tokens_per_second"]
    if json:
        show({"user": said, "answer": answer.text, "reason": answer.made.reasons[0]} | about, True)
        return
    print(printable(answer.text), flush=True)
    if live:
        figures = f"{about['tokens_written']} tokens, {about['evaluations']:.0f} evaluations, {about['seconds']:.1f} s"
        print(f"[{figures}, {about['tokens_per_second']:.1f} tokens/s]\n", flush=True)
