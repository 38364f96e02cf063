"""unmask model check|time|judge|learning."""

from __future__ import annotations

from typing import Annotated

from unmask.cli.judge import command as judge
from unmask.cli.learning import command as learning
from unmask.cli.options import Answer, Word
from unmask.cli.time import command as time

Name = Annotated[str, "MODEL"]
Directory = Annotated[str, "DIR"]


def check(directory: Directory, /, *, card: Word = None, device: str = "cpu") -> Answer:
    """Check the files of a checkpoint and list all their problems.

    Examples:
        unmask model check checkpoints/LLaDA-8B-Instruct
        unmask model check my-finetune --card llada-8b-instruct

    The check reads config.json, the names and shapes of the weights, the tokenizer
    and its special tokens. If all of them are ok, it loads the model and compares
    its attention, its output shift and its mask token with the card.

    Args:
        directory: Directory of a checkpoint, or a name of `unmask list models`, which is then downloaded.
        card: Model card, if the files do not identify the model: a name, or your own JSON file.
        device: Device of the loaded model: auto, cpu or cuda.
    """
    from unmask.core.errors import cut
    from unmask.models.open.loading import PARTS
    from unmask.models.open.loading import check as look

    result = look(directory, card, device)
    name = "not known" if result.card is None else result.card.name
    every = [problem for problems in result.problems.values() for problem in problems]
    rows = [("directory", cut(directory)), ("model", name)]
    for part in PARTS:
        problems = result.problems.get(part)
        states = problems or ["skipped, as another part has a problem" if problems is None else "ok"]
        rows += [(part, state) for state in states]
    more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
    failure = f"{cut(directory)} cannot be used: {every[0]}{more}" if every else ""
    about = {"directory": directory, "card": name, "sound": result.sound, "problems": result.problems}
    return Answer(about, rows, failure)


command = {"check": check, "time": time, "judge": judge, "learning": learning}
