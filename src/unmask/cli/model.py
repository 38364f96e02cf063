"""unmask model check|time|judge|learning."""

from __future__ import annotations

from typing import Annotated, Any

from unmask.cli.judge import command as judge
from unmask.cli.learning import command as learning
from unmask.cli.options import Switch, Word
from unmask.cli.time import command as time

Name = Annotated[str, "MODEL"]
Directory = Annotated[str, "DIR"]


def check(directory: Directory, /, *, card: Word = None, device: str = "cpu", json: Switch = False) -> None:
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
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show as print_result
    from unmask.cli.output import show_lines
    from unmask.core.errors import UnmaskError, cut
    from unmask.hub.checking import PARTS
    from unmask.hub.checking import check as look

    result = look(directory, card, device)
    name = "not known" if result.card is None else result.card.name
    every = [problem for problems in result.problems.values() for problem in problems]
    if json:
        about: dict[str, Any] = {"directory": directory, "card": name}
        about |= {"sound": result.sound, "problems": result.problems}
        print_result(about, True)
    else:
        rows = [("directory", cut(directory)), ("model", name)]
        for part in PARTS:
            problems = result.problems.get(part)
            states = problems or ["skipped, as another part has a problem" if problems is None else "ok"]
            rows += [(part, state) for state in states]
        show_lines(rows)
    if every:
        more = f" (and {len(every) - 1} more)" if len(every) > 1 else ""
        raise UnmaskError(f"{cut(directory)} cannot be used: {every[0]}{more}")


command = {"check": check, "time": time, "judge": judge, "learning": learning}
