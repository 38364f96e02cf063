"""unmask theory exact|list|show."""

from __future__ import annotations

from dataclasses import asdict
from itertools import starmap
from typing import Annotated

from unmask.cli.options import Answer, Name
from unmask.core.entries import renamed, without


def exact(*, language: Name, length: int = 512, steps: int, schedule: str = "linear") -> Answer:
    """Compute exact SER, TER and KL of ancestral sampling with the ideal denoiser.

    Examples:
        unmask theory exact --language interval-5 --length 510 --steps 737
        unmask theory exact --language paper-2gram --steps 64 --schedule optimal

    TER and the NLL of valid samples are in bits per token, KL(q || p) and its upper
    bound, the mean over orders of KL(q || p_order), in nats. For values that are
    not known exactly, a note gives the reason and the closest alternative.
    """
    from unmask import languages
    from unmask.core.tables import rows_of
    from unmask.samplers.schedules import Fit, deltas
    from unmask.theory.known import exact as values

    known = languages.load(language)
    result = values(known, length, deltas(schedule, steps, Fit(known, length))).to_dict()
    notes = renamed("note {}", dict(enumerate(result["notes"], 1)))
    return Answer(result, rows_of(without(result, ["notes"]) | notes))


def listed() -> Answer:
    """List the statements of the theory, which `unmask theory show` evaluates.

    Examples:
        unmask theory list
        unmask theory list --json
    """
    from unmask.theory.listed import STATEMENTS

    about = STATEMENTS.about()
    return Answer(about, list(about.items()))


def show(
    names: Annotated[tuple[str, ...], "NAME"] = (),
    /,
    *,
    language: Name = "interval-5",
    length: int = 512,
    steps: int = 64,
    schedule: str = "linear",
    learning: float = 0.0,
) -> Answer:
    """Evaluate lemmas and theorems for a language, a length and a schedule.

    Examples:
        unmask theory show theorem-4.3 theorem-4.4 --length 510
        unmask theory show "theorem-4.2(eps=0.1)" --language paper-2gram
        unmask theory show "lemma-c6(coarse=True)" --learning 0.0078125 --json

    Each line has the quantity, its bound, its reference, its origin (the paper,
    reconstructed from its proof, or ours) and its assumptions.

    Args:
        names: Statements, with options (see `unmask theory list`). (default: all)
        learning: Learning error in nats per token, epsilon of Assumption 4.1.
    """
    from unmask import languages
    from unmask.samplers.schedules import Fit, deltas
    from unmask.theory.listed import Case, shown

    known = languages.load(language)
    known.check_length(length)
    statements = shown(names, Case(known, length, deltas(schedule, steps, Fit(known, length)), learning))
    records = [{"name": n, "note": s} if isinstance(s, str) else {"name": n} | asdict(s) for n, s in statements]
    return Answer(
        {"language": language, "length": length, "steps": steps, "statements": records},
        list(starmap("{}: {}".format, statements)),
    )


command = {"exact": exact, "list": listed, "show": show}
