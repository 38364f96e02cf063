"""unmask model list|show|check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from unmask.cli.options import Switch, Word

if TYPE_CHECKING:
    from unmask.hub import Card

Name = Annotated[str, "MODEL"]
Directory = Annotated[str, "DIR"]


def list_(*, json: Switch = False) -> None:
    """List the open models of which there is a card, those of installed packages too.

    Examples:
        unmask model list
        unmask model list --json

    Other commands take a name, the repository that stands beside it, or a directory
    with its files. Any AR model of transformers is read without a card.

    Args:
        json: Print one JSON object, name to what its card says.
    """
    import msgspec

    from unmask.cli.output import show as print_result
    from unmask.cli.output import show_lines
    from unmask.hub import known

    if json:
        print_result({name: msgspec.to_builtins(card) for name, card in known().items()}, True)
        return
    show_lines([(name, f"{card.repository}, {sees(card)}, {card.licence}") for name, card in sorted(known().items())])


def show(model: Name, /, *, json: Switch = False) -> None:
    """Say what is known of an open model: its symbols, what it sees, how to run it.

    Examples:
        unmask model show llada-8b-instruct
        unmask model show my-card.json

    Args:
        model: A name of `unmask model list`, a repository, or a JSON file with a card of yours.
        json: Print one JSON object instead of a table.
    """
    import msgspec

    from unmask.cli.output import show as print_result
    from unmask.cli.output import show_lines
    from unmask.hub import find

    card = find(model)
    if json:
        print_result(msgspec.to_builtins(card), True)
        return
    tokens = {name: number for name, number in msgspec.to_builtins(card.tokens).items() if number is not None}
    rows: list[tuple[str, str]] = [
        ("repository", card.repository),
        ("revision", card.revision or "the newest"),
        ("licence", card.licence),
        ("family", card.family),
        ("sees", sees(card)),
        ("answers", "at the place itself" if card.prediction == "same" else "one place before it"),
        ("context", f"{card.context} tokens"),
        ("symbols", ", ".join(f"{name} {number}" for name, number in tokens.items())),
    ]
    rows += [("never writes", ", ".join(map(str, card.banned)))] if card.banned else []
    rows += [("conversations", card.template or "none: a base model")]
    rows += [(f"recipe: {recipe.name}", f"{recipe.options} ({recipe.source})") for recipe in card.recipes]
    rows += [("trap", trap) for trap in card.traps]
    show_lines(rows)


def check(directory: Directory, /, *, card: Word = None, device: str = "cpu", json: Switch = False) -> None:
    """Look at the files of a checkpoint, and say all that is wrong with them.

    Examples:
        unmask model check checkpoints/LLaDA-8B-Instruct
        unmask model check my-finetune --card llada-8b-instruct

    Its config.json, the headers of its weights, each name and shape of them, its
    tokenizer, and what these say of its symbols; where all of that is well it is
    loaded, and tried: whether it sees, shifts and hides as its card says.

    Args:
        directory: Where its files lie; or a name of `unmask model list`, which is then fetched.
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


def sees(card: Card) -> str:
    """What a model's positions see, in words."""
    if card.causal:
        return "reads from left to right"
    if card.block is None:
        return "sees both sides"
    before = "what is before, read from left to right" if card.past == "causal" else "those before"
    return f"sees blocks of {card.block} and {before}"


command = {"list": list_, "show": show, "check": check}
