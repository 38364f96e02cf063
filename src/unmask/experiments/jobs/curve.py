"""The job `curve`: one sampler at all its budgets, on one language at one length, with one seed.

Its records are those of standings.py for each point, with `knob` and `budget`. A failed budget is a record `failure`
without a value; its `note` is the reason, and other budgets go on. Its file has the rows (cells.py); run.py joins the
curves of several seeds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from unmask.core.errors import Missing, UnmaskError
from unmask.experiments.cell import Place, Record, job
from unmask.experiments.jobs.sources import unchanged

if TYPE_CHECKING:
    from unmask.experiments.board import cells
    from unmask.experiments.board.cells import Sample

FAILURE = "failure"
BEYOND_AR = 2  # times: a curve ends where all seeds together cost as much as AR; other seeds may be cheaper


@lru_cache(maxsize=1024)  # each combination of many cells once
def _check_family(sampler: str, length: int, quick: bool) -> None:
    from unmask.experiments.board.families import family

    family(sampler, length, quick)


@lru_cache(maxsize=1024)
def _check_place(language: str, model: str, causal_model: str, digest: str, length: int, device: str) -> None:
    from unmask.experiments.board.cells import network
    from unmask.experiments.jobs.sources import ground_truth
    from unmask.models.trained.checkpoints import read_language

    if length < 2:
        raise UnmaskError(f"length is {length}; expected at least 2 tokens")
    if language and model:
        raise UnmaskError("a model is measured on its training language; leave the language out")
    if causal_model and not model:
        raise UnmaskError("a causal model needs a model; give both")
    if not language and not model:
        raise UnmaskError("there is neither a language nor a model; put one under grid, zip or fixed")
    if language:
        ground_truth(language, digest).check_length(length)
        return
    read_language(model)[0].check_length(length)
    filled = network(model, causal_model or None, digest, device)
    if length > filled.length:
        raise UnmaskError(f"{model} is a network for at most {filled.length} tokens, not for {length}")


def _check(
    sampler: str,
    language: str,
    model: str,
    causal_model: str,
    digest: str,
    length: int,
    quick: bool,
    ter_rows: int,
    device: str,
) -> None:
    if ter_rows < 0:
        raise UnmaskError(f"ter_rows is {ter_rows}; expected the number of sequences for TER, or 0")
    _check_place(language, model, causal_model, digest, length, device)
    _check_family(sampler, length, quick)


def _place(
    language: str, length: int, seed: int, model: str, causal_model: str, digest: str, device: str
) -> cells.Place:
    from unmask.experiments.board.cells import cached_place

    return cached_place(language, length, seed, model or None, causal_model or None, digest, device)


def _about(language: str, length: int, seed: int, model: str, causal_model: str, digest: str, device: str) -> Record:
    own = _place(language, length, seed, model, causal_model, digest, device)
    return {"language_digest": own.language.source()["digest"]}


@job(check=_check, about=_about)
def curve(
    sampler: str,
    place: Place,
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
    seed: int = 0,
) -> list[Record]:
    """A sampler's points by budget: ser, ter, diversity and more.

    code: a digest of the source code of another package's sampler, so that changes are measured again.
    model: a directory of `unmask train`, in place of a language; causal_model: an additional AR network.
    device: of the models. quick: fewer budgets. rows: of each budget. ter_rows: true sequences for the bound of TER.
    """
    from unmask.core import progress
    from unmask.experiments.board.cells import FILE, Point, measure, to_bytes, walk
    from unmask.experiments.board.families import code_of, family
    from unmask.experiments.board.standings import UNKNOWN, of_point

    unchanged(digest, language, model, causal_model)
    if code and code != code_of(sampler):
        raise UnmaskError(f"the code of {sampler} has changed since the sweep was planned; run it again")
    own, member = _place(language, length, seed, model, causal_model, digest, device), family(sampler, length, quick)
    samples: dict[int, Sample] = {}
    failures: list[Record] = []

    def at(index: int) -> Point | None:
        try:
            samples[index] = measure(own, member, member.values[index], rows, ter_rows)
        except Missing:  # it does not apply to this language: no failure
            return None
        except Exception as error:  # of any kind: a sampler of another package must not stop the others
            reason = str(error) if isinstance(error, UnmaskError) else f"{type(error).__name__}: {error}"
            failures.append({"measure": FAILURE, "budget": member.values[index]} | UNKNOWN | {"note": reason})
            return None
        finally:
            advance(1)
        return Point(member.values[index], [samples[index]], length)

    with progress.track("curve", len(member.values)) as advance:
        points = walk(member, BEYOND_AR * length, at)
    measured = [
        {"budget": point.value} | record | {"model_calls": point.model_calls}
        for point in points
        for record in of_point(point)
    ]
    for record in measured:
        record.pop("by_seed", None)  # there is one seed
    place.write(FILE, to_bytes(samples))
    return [{"knob": member.knob, "model_calls": None} | record for record in measured + failures]
