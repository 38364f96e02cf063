"""The metric `curve`: one sampler at all of its budgets, on one language at one length, with one seed of each.

Its records are what standings.py says of each point, here of one seed, under `knob` and `budget`; a budget that a
sampler cannot do is a record `failure` without a value, whose `note` says why, and the others go on. Its file keeps the
rows (kept.py), from which curves of several seeds are made (run.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unmask.core.errors import Missing, UnmaskError
from unmask.experiments.measures.catalogue import Arguments, Output, Record, metric
from unmask.experiments.measures.sources import about, unchanged

if TYPE_CHECKING:
    from unmask.experiments.board.cells import Sample

FAILURE = "failure"
PLACE = ("language", "model", "causal_model", "digest", "length", "device")
BEYOND_AR = 2  # times: a curve ends where all seeds together cost as much as AR, and others may be cheaper than this
LOOK_SECONDS = 1e-6  # a position that is looked at
ROUND_SECONDS = 1e-3  # a round, whatever is looked at


def check(cells: Sequence[Arguments]) -> None:
    """Names, lengths and options of all cells, each combination once: a seed changes none of them."""
    from unmask.experiments.board.families import family

    for cell in {tuple(cell[name] for name in PLACE): cell for cell in cells}.values():
        _check_place(cell)
    for sampler, length, quick in {(cell["sampler"], cell["length"], cell["quick"]): None for cell in cells}:
        family(sampler, length, quick)
    least = min(cell["ter_rows"] for cell in cells)
    if least < 0:
        raise UnmaskError(f"ter_rows is {least}; expected how many sequences are priced for TER, or 0")


def _check_place(cell: Arguments) -> None:
    from unmask.experiments.board.cells import network
    from unmask.languages import load
    from unmask.languages.presets import varied
    from unmask.networks.model.checkpoints import read_language

    language, model, causal_model, digest, length, device = (cell[name] for name in PLACE)
    if length < 2:
        raise UnmaskError(f"length is {length}; the board compares sequences of at least 2 tokens")
    if language and model:
        raise UnmaskError("a model is measured on the language that it was trained on; leave the language out")
    if causal_model and not model:
        raise UnmaskError("a causal model stands beside a model; give both")
    if not language and not model:
        raise UnmaskError("there is neither a language nor a model; put one under grid, zip or fixed")
    if language:
        load(varied(language, seed=cell["language_seed"])).check_length(length)
        return
    read_language(model)[0].check_length(length)
    filled = network(model, causal_model or None, digest, device)
    if length > filled.length:
        raise UnmaskError(f"{model} is a network for at most {filled.length} tokens, not for {length}")


def cost(cell: Arguments) -> float:
    """About the seconds of a core: a look at every position N times takes N times as long, an order is one look."""
    from unmask.experiments.board.families import STEPS, family
    from unmask.samplers import SAMPLERS

    member = family(cell["sampler"], cell["length"], cell["quick"])
    length, planned = cell["length"], SAMPLERS.make(member.at(member.values[0])[0]).implements("order")
    rounds = sum(value if member.knob == STEPS else length / 4 for value in member.values)
    looks = len(member.values) if planned else rounds
    return float((cell["rows"] + cell["ter_rows"]) * length * looks * LOOK_SECONDS + rounds * ROUND_SECONDS)


@metric("curve", check=check, cost=cost, about=about)
def curve(
    *,
    sampler: str,
    code: str = "",
    language: str = "",
    model: str = "",
    causal_model: str = "",
    digest: str = "",
    length: int = 128,
    quick: bool = False,
    rows: int = 400,
    ter_rows: int = 200,
    device: str = "auto",
    language_seed: int = 0,
    seed: int = 0,
) -> Output:
    """A sampler's points by budget: ser, ter, diversity and more.

    code: a digest of the sources of a sampler that is none of ours, so that it is measured again when they change.
    model: a directory of `unmask train`, in place of a language; causal_model: an AR network beside it; device: theirs.
    quick: fewer budgets. rows, ter_rows: of each budget, and how many sequences of the language are priced for TER.
    """
    from unmask.core import progress
    from unmask.experiments.board import kept
    from unmask.experiments.board.cells import Point, kept_place, measure
    from unmask.experiments.board.families import code_of, family
    from unmask.experiments.board.standings import UNKNOWN, of_point
    from unmask.experiments.board.walk import walk

    unchanged(digest, language, model, causal_model)
    if code and code != code_of(sampler):
        raise UnmaskError(f"the code of {sampler} has changed since the sweep was planned; run it again")
    place = kept_place(language, length, language_seed, seed, model or None, causal_model or None, digest, device)
    member = family(sampler, length, quick)
    samples: dict[int, Sample] = {}
    failures: list[Record] = []

    def at(index: int) -> Point | None:
        try:
            samples[index] = measure(place, member, member.values[index], rows, ter_rows)
        except Missing:  # it has no place on the board of this language, and that is no failure
            return None
        except Exception as error:  # whatever the reason: a stranger's sampler stops no one else
            reason = str(error) if isinstance(error, UnmaskError) else f"{type(error).__name__}: {error}"
            failures.append({"measure": FAILURE, "budget": member.values[index]} | UNKNOWN | {"note": reason})
            return None
        finally:
            advance(1)
        return Point(member.values[index], [samples[index]], length)

    with progress.track("curve", len(member.values)) as advance:
        points = walk(member, BEYOND_AR * length, at)
    found = [
        {"budget": point.value} | record | {"evaluations": point.evaluations}
        for point in points
        for record in of_point(point)
    ]
    for record in found:
        record.pop("by_seed", None)  # there is one
    records = [{"knob": member.knob, "evaluations": None} | record for record in found + failures]
    return Output(records, {kept.FILE: kept.to_bytes(samples)})
