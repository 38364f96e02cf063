"""unmask model check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Switch, Word

if TYPE_CHECKING:
    pass

Name = Annotated[str, "MODEL"]
Directory = Annotated[str, "DIR"]


def check(directory: Directory, /, *, card: Word = None, device: str = "cpu", json: Switch = False) -> None:
    """Look at the files of a checkpoint, and say all that is wrong with them.

    Examples:
        unmask model check checkpoints/LLaDA-8B-Instruct
        unmask model check my-finetune --card llada-8b-instruct

    Its config.json, the headers of its weights, each name and shape of them, its
    tokenizer, and what these say of its symbols; where all of that is well it is
    loaded, and tried: whether it sees, shifts and hides as its card says.

    Args:
        directory: Where its files lie; or a name of `unmask list models`, which is then fetched.
        card: Which model it is, by name, or a JSON file of yours, where its files do not say.
        device: Where it is tried: auto, cpu or cuda.
        json: Print one JSON object instead of a table.
    """
    from unmask.cli.output import show as print_result
    from unmask.cli.output import show_lines
    from unmask.core.errors import UnmaskError, cut
    from unmask.hub.checking import PARTS
    from unmask.hub.checking import check as look

    found = look(directory, card, device)
    name = "not known" if found.card is None else found.card.name
    wrong = [(part, problem) for part, problems in found.problems.items() for problem in problems]
    if json:
        about: dict[str, Any] = {"directory": directory, "card": name, "sound": found.sound, "problems": found.problems}
        print_result(about, True)
    else:
        rows = [("directory", cut(directory)), ("model", name)]
        for part in PARTS:
            problems = found.problems.get(part)
            said = problems or ["not looked at, since something else is wrong" if problems is None else "well"]
            rows += [(part, one) for one in said]
        show_lines(rows)
    if wrong:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise UnmaskError(f"{cut(directory)} cannot be used: {wrong[0][1]}{more}")


command = {"check": check}
