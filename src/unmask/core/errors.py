"""Errors with a message of three parts: problem, expected value, advice; also for a missing package of an extra."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

SHOWN = 200  # characters of a value in a message; the rest is omitted
SYNONYMS = {  # too short, or too unlike, to be near
    "ar": "autoregressive",
    "mdm": "ancestral",
    "n": "rows",
    "samples": "rows",
    "sequences": "rows",
    "num-samples": "rows",
    "batch-size": "batch",
    "ser": "target",
    "diff": "difference",
    "compare": "board",
    "sample": "generate",
}
LISTED = 12  # names in a message
MESSAGE = 2000  # characters of a whole message


def plain(text: str) -> str:
    """Escape control characters, line ends and lone surrogates, so that the text can be printed anywhere."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def together(parts: Iterable[str]) -> str:
    """One message: "problem; expected .. . Advice"."""
    text = ""
    for part in parts:
        if text and part[:1].isupper():
            text += ". "
        elif text:
            text += "; "
        text += part
    return text


class UnmaskError(Exception):
    """A mistake in the input. The command line prints its message as one line and exits with code 2.

    parts: the problem, the expected value, the advice. A part that begins with a capital begins a sentence.
    """

    def __init__(self, *parts: str) -> None:
        text = plain(together(parts))
        if len(text) > MESSAGE:
            text = f"{text[: MESSAGE // 2]} .. {text[-MESSAGE // 2 :]}"
        super().__init__(text)


def cut(text: str) -> str:
    """The plain text, cut to the length that fits into a message."""
    if len(text) > SHOWN:
        text = f"{text[:SHOWN]}.."
    return plain(text)


def shown(value: Any) -> str:
    """A value for a message: the first characters of its repr, or the type and shape of a tensor or array."""
    try:
        if hasattr(value, "shape") and hasattr(value, "dtype"):
            if getattr(value, "ndim", 1):
                return f"{type(value).__name__} of shape {tuple(value.shape)}"
            value = value.item()
        return cut(repr(value))
    except Exception:  # any error of a foreign repr; also integers with more digits than Python prints
        return f"{type(value).__name__} that cannot be shown"


class Missing(UnmaskError):
    """A quantity that is known for other languages, but not for this one."""


def plural(number: float, noun: str, form: str = ".10g") -> str:
    """A number with its noun: "1 step", "2 steps"."""
    return f"{number:{form}} {noun}{'s' * (number != 1)}"


def listed(names: Iterable[str], most: int = LISTED, mark: str = ", ") -> str:
    """The first names and the number of the remaining ones."""
    every = list(names)
    text = mark.join(every[:most])
    if len(every) > most:
        text += f"{mark.rstrip(', ')} and {len(every) - most} more"
    return text


def unknown(noun: str, name: str, known: Iterable[str], otherwise: str = "") -> UnmaskError:
    """An error for an unknown name, which suggests the nearest known names. otherwise: the hint if none is near."""
    import difflib  # here, because most runs need no suggestion

    names = sorted(set(known))
    bare = {one.lstrip("-"): one for one in names}  # dashes of options make all of them alike
    wanted = name[:SHOWN].lower().lstrip("-")
    parts = [one for one in (SYNONYMS.get(wanted), *wanted.split(",")) if one in bare]  # strided,ancestral: either
    parts = parts or [one for one in bare if set(one.split("-")) <= set(wanted.split("-"))]  # --training-steps: --steps
    close = parts or difflib.get_close_matches(wanted, list(bare), n=3, cutoff=0.6)
    near = list(map(bare.__getitem__, close))
    hint = f"did you mean {' or '.join(near)}?" if near else otherwise or f"known: {listed(names)}"
    return UnmaskError(f"unknown {noun} {shown(name)}; {hint}")


class NotInstalled(UnmaskError):
    """A package of an extra cannot be imported."""


@contextmanager
def needed(extra: str, what: str, otherwise: str = "") -> Iterator[None]:
    """Guard the imports of an extra's packages; the error for a missing one shows how to install it.

    with needed("open", "an architecture of transformers"):
        import transformers

    otherwise: an alternative for the user.
    """
    try:
        yield
    except ImportError as error:
        missing = str(error)
        if isinstance(error, ModuleNotFoundError):
            missing = f"the package {error.name} is not installed"
        advice = f"pip install 'unmask[{extra}]'{otherwise and f', or {otherwise}'}"
        raise NotInstalled(f"{what} needs the extra {extra}: {missing}; {advice}") from error
