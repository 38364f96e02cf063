"""A conversation with an open model: what has been said, and what it answers, seen while it is being written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.generation.result import Generation
from unmask.hub.answering import answers, usual
from unmask.hub.chat import Message
from unmask.hub.prompted import Asked, chats, ending, speaker
from unmask.samplers.stopping import Progress, Watched

if TYPE_CHECKING:
    from unmask.hub import OpenModel

See = Callable[[list[str | None]], None]  # the pieces of an answer after a round, None where it is hidden


class Answer(NamedTuple):
    text: str
    made: Generation


class Conversation:
    """`length` tokens at most an answer; options: those of `answering.usual`."""

    def __init__(self, model: OpenModel, system: str | None = None, length: int = 128, **options: Any) -> None:
        self.model, self.length = model, arguments.whole("length", length, 1)
        self.messages = [] if system is None else [Message("system", system)]
        self.template, self.tokenizer = chats(model), speaker(model)
        if ending(model, chat=True) is None:
            raise UnmaskError(f"the card {model.name} does not say what an answer ends with; give it an end_of_turn")
        self.options = usual(model, length, **options)
        self.turns = 0

    def say(self, text: str, see: See | None = None) -> Answer:
        """What it answers; see: is shown the answer after each round."""
        messages = [*self.messages, Message("user", text)]
        hidden = self.model.vocabulary

        def watch(progress: Progress) -> None:
            if see is not None:
                tokens = progress.tokens[0, -self.length :].tolist()
                see(list(self.tokenizer.pieces(None if token == hidden else token for token in tokens)))

        options = {"first_row": self.turns} | self.options  # other luck each time
        asked = [Asked(messages=messages)]
        (found,), made = answers(self.model, asked, self.length, watch=partial(Watched, watch), **options)
        said = found.text.strip()
        self.messages = [*messages, Message("assistant", said)]
        self.turns += 1
        return Answer(said, made)

    def forget(self) -> None:
        """Begin anew; what the system says stands."""
        self.messages = [message for message in self.messages if message.role == "system"]
