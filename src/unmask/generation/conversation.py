"""A conversation with an open model: what has been said, and what it answers, seen while it is being written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from unmask.core.errors import UnmaskError
from unmask.generation.making import generate
from unmask.generation.prompted import Asked, chats, ending, rows_of, speaker, usual
from unmask.generation.result import Generation
from unmask.hub.chat import Message
from unmask.samplers.stopping import Progress, Watched

if TYPE_CHECKING:
    from unmask.hub import OpenModel

See = Callable[[list[str | None]], None]  # the pieces of an answer after a round, None where it is hidden


class Answer(NamedTuple):
    text: str
    made: Generation


class Conversation:
    """`length` tokens at most an answer; options: of `generate`, where they are not the usual ones."""

    def __init__(self, model: OpenModel, system: str | None = None, length: int = 128, **options: Any) -> None:
        self.model, self.length = model, length
        self.messages = [] if system is None else [Message("system", system)]
        self.template, self.tokenizer = chats(model), speaker(model)
        rule = ending(model, chat=True)
        if rule is None:
            raise UnmaskError(f"the card {model.name} does not say what an answer ends with; give it an end_of_turn")
        self.rule = rule
        self.options = usual(model, length) | {name: value for name, value in options.items() if value is not None}
        self.turns = 0

    def say(self, text: str, see: See | None = None) -> Answer:
        """What it answers; see: is shown the answer after each round."""
        messages = [*self.messages, Message("user", text)]
        (row,) = rows_of(self.model, [Asked(messages=messages)], self.length)
        begin, hidden = len(row) - self.length, self.model.vocabulary

        def watch(progress: Progress) -> None:
            if see is not None:
                tokens = progress.tokens[0, begin:].tolist()
                see(list(self.tokenizer.pieces(None if token == hidden else token for token in tokens)))

        options = {"first_row": self.turns} | self.options  # other luck each time
        made = generate(self.model, given=row.unsqueeze(0), rows=1, stop=Watched(watch, self.rule), **options)
        (said,) = made.texts(self.tokenizer)
        end = self.template.ends(self.tokenizer)
        if isinstance(end, str):
            said = said.partition(end)[0]
        self.messages = [*messages, Message("assistant", said.strip())]
        self.turns += 1
        return Answer(said.strip(), made)

    def forget(self) -> None:
        """Begin anew; what the system says stands."""
        self.messages = [message for message in self.messages if message.role == "system"]
