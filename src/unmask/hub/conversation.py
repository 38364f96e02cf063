"""A conversation with an open model; its answers can be shown while they are generated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core import arguments
from unmask.core.errors import UnmaskError
from unmask.generation.result import Generation
from unmask.hub.answering import answers, usual
from unmask.hub.chat import Message
from unmask.hub.prompted import Query, chats, ending, speaker
from unmask.samplers.stopping import Progress, Watched

if TYPE_CHECKING:
    from unmask.hub import OpenModel

See = Callable[[list[str | None]], None]  # the pieces of an answer after a step, None at hidden positions


class Turn(NamedTuple):
    text: str
    generation: Generation


class Conversation:
    """length: largest number of tokens per answer; options: as in `answering.usual`."""

    def __init__(self, model: OpenModel, system: str | None = None, length: int = 128, **options: Any) -> None:
        self.model, self.length = model, arguments.whole("length", length, 1)
        self.messages = [] if system is None else [Message("system", system)]
        self.template, self.tokenizer = chats(model), speaker(model)
        if ending(model, chat=True) is None:
            raise UnmaskError(f"the card {model.name} has no end of an answer. Set end_of_turn in a card of your own")
        self.options = usual(model, length, **options)
        self.turns = 0

    def say(self, message: str, see: See | None = None) -> Turn:
        """Return the answer to a message; `see` is called with its pieces after each step."""
        messages = [*self.messages, Message("user", message)]
        hidden = self.model.vocabulary

        def watch(progress: Progress) -> None:
            if see is not None:
                tokens = progress.tokens[0, -self.length :].tolist()
                see(list(self.tokenizer.pieces(None if token == hidden else token for token in tokens)))

        options = {"first_row": self.turns} | self.options  # a new random stream for each turn
        query, watched = Query(messages=messages), partial(Watched, watch)
        (answer,), generation = answers(self.model, [query], self.length, watch=watched, **options)
        text = answer.text.strip()
        self.messages = [*messages, Message("assistant", text)]
        self.turns += 1
        return Turn(text, generation)

    def forget(self) -> None:
        """Remove all messages but that of the system."""
        self.messages = [message for message in self.messages if message.role == "system"]
