"""The metrics of ours: samples, ter_upper and theory (measures.py says what a metric is).

    samples     generate and score: ser, generative_perplexity, evaluations
    ter_upper   the bounds of the information profile, all N from one pass: ter_upper, ser_upper; of Interval ter itself
    theory      what is known without sampling: ser, ter, generative_perplexity, divergence_nats, entropy_bits_per_token
    autoregressive   what AR sampling by the ideal denoiser has: no error, and the language's own ter

The bounds and theory speak of ancestral sampling by the ideal denoiser, whatever sampler a recipe names beside them.
Measures with `_ratio` are relative to TER(q), the language's own, on the same rows. Seconds are no records: they stand
in the store, since no two runs agree on them. The seed draws the language, where it is random, and the luck.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from unmask.errors import UnmaskError
from unmask.sweeps.measures import METRICS, Arguments, Function, Output, Record, Tally

if TYPE_CHECKING:
    from torch import Tensor

    from unmask.denoisers import Denoiser
    from unmask.estimates import Estimate
    from unmask.languages import Language
    from unmask.metrics import Profile

TOKEN_SECONDS = 2e-6  # of one core: a generated token of a small language
PROFILE_SECONDS = 4e-6  # a token of a profile
THEORY_SECONDS = 0.2
PASS = ("steps", "schedule", "fixed_size")  # what one profile answers for


def _with(function: Function, **attributes: Any) -> None:
    for name, value in attributes.items():
        setattr(function, name, value)


@METRICS.register("samples")
def samples(
    *,
    language: str = "",
    model: str = "",
    digest: str = "",
    length: int = 512,
    sampler: str = "ancestral",
    schedule: str = "linear",
    steps: int = 64,
    rows: int = 2000,
    first_row: int = 0,
    seed: int = 0,
    pruned: bool = True,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int | None = None,
    keep: bool = False,
) -> Tally | Output:
    """SER, generative perplexity and evaluations of generated rows.

    model: a directory of `unmask train`. keep: the tokens, too, as files beside the store.
    """
    from unmask.generation import generate
    from unmask.sweeps.tallies import sums

    _unchanged(digest, language, model)
    q, source = _source(language, model, seed, pruned)
    how: dict[str, Any] = {"sampler": sampler, "schedule": schedule, "steps": steps, "length": length}
    how |= {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    made = generate(source, **how, rows=rows, first_row=first_row, seed=seed)
    bits = -q.log_prob(made.tokens) / math.log(2)
    valid = bits.isfinite()
    told = valid & (q.sizes(made.tokens) > 0)
    tally = {"rows": rows, "invalid": int((~valid).sum()), "impossible": int((made.impossible > 0).sum())}
    tally |= sums("bits", (bits.double() / q.sizes(made.tokens))[told])
    tally |= sums("evaluations", made.evaluations.double())
    return Output(tally, {f"tokens-{first_row:012d}.npy": _npy(made.tokens)}) if keep else tally


def records_of_samples(tally: Tally, **cell: Any) -> list[Record]:
    from unmask.estimates import proportion
    from unmask.sweeps.tallies import mean

    evaluations, bits = mean("evaluations", tally), mean("bits", tally)
    assert evaluations is not None
    found = {"ser": proportion(tally["invalid"], tally["rows"]), "evaluations": evaluations}
    if bits is not None:
        found["generative_perplexity"] = bits.map(lambda value: 2.0**value)
    return [record(name, estimate, evaluations.value) for name, estimate in found.items()]


@METRICS.register("ter_upper")
def ter_upper(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    steps: int = 64,
    fixed_size: bool = False,
    rows: int = 100,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """Bounds of TER and SER from the NELBO of the N-round sampler."""
    from unmask import metrics
    from unmask.cost.flops import evaluations
    from unmask.languages import Interval
    from unmask.schedules import Fit, deltas

    _unchanged(digest, language)
    q = ground_truth(language, seed, pruned)
    delta = deltas(schedule, steps, Fit(q, length, fixed_size))
    cost = evaluations(delta, length)
    if isinstance(q, Interval) and not fixed_size:
        ter, own = metrics.ter(q, length, schedule, steps), metrics.ter_autoregressive(q, length).value
        found = {"ter": ter, "ter_ratio": ter.map(lambda value: value / own)}
    else:
        profile = _profile(language, length, rows, seed, pruned, digest)
        found = {
            "ter_upper": profile.ter_upper(schedule, steps, fixed_size),
            "ser_upper": profile.ser_upper(schedule, steps, fixed_size),
        }
        if q.end is None:  # else there is no one number of tokens to share the divergence among
            excess = profile.divergence(delta, fixed_size)
            found["ter_upper_ratio"] = excess.map(lambda nats: math.exp(nats / length))
    return [record(name, estimate, cost) for name, estimate in found.items()]


@METRICS.register("autoregressive")
def autoregressive(
    *, language: str, digest: str = "", length: int = 512, seed: int = 0, pruned: bool = True
) -> list[Record]:
    """The AR baseline, one evaluation a token: it draws from q itself, so there is nothing to measure but TER(q)."""
    from unmask import metrics
    from unmask.estimates import exactly

    _unchanged(digest, language)
    own = metrics.ter_autoregressive(ground_truth(language, seed, pruned), length)
    found = {"ser": exactly(0.0), "ter": own, "ter_ratio": exactly(1.0)}
    return [record(name, estimate, float(length)) for name, estimate in found.items()]


@METRICS.register("theory")
def theory(
    *,
    language: str,
    digest: str = "",
    length: int = 512,
    schedule: str = "linear",
    steps: int = 64,
    seed: int = 0,
    pruned: bool = True,
) -> list[Record]:
    """What is known exactly; nothing where nothing is."""
    from unmask.cost.flops import evaluations
    from unmask.estimates import exactly
    from unmask.schedules import Fit, deltas
    from unmask.theory.exact import exact

    _unchanged(digest, language)
    q = ground_truth(language, seed, pruned)
    delta = deltas(schedule, steps, Fit(q, length))
    known = exact(q, length, delta)
    cost = evaluations(delta, length)
    logarithms = {"ter_bits_per_token": "ter", "generative_nll_bits_per_token": "generative_perplexity"}
    found = []
    for field, method in known.method.items():
        value = getattr(known, field)
        value = 2.0**value if field in logarithms else value
        found.append(record(logarithms.get(field, field), exactly(value, f"exact: {method}"), cost))
    return found


def check(cells: Sequence[Arguments]) -> None:
    """Names, lengths and options of all cells, each combination once."""
    from unmask.generation import fit_of
    from unmask.samplers import SAMPLERS
    from unmask.schedules import deltas

    for cell in cells:
        if not cell.get("language") and not cell.get("model"):
            raise UnmaskError("there is neither a language nor a model; put one under grid, zip or fixed")
        if cell.get("model"):
            continue  # its directory is read by whoever measures it
        q = ground_truth(cell["language"], cell["seed"], cell["pruned"])
        q.check_length(cell["length"])
        sampler = SAMPLERS.make(cell.get("sampler", "ancestral"))
        if cell.get("schedule") in ("linear", "cosine"):
            deltas(cell["schedule"], cell["steps"], fit_of(sampler, q, cell["length"]))


_with(samples, records=records_of_samples, check=check, cost=lambda cell: cell["rows"] * cell["length"] * TOKEN_SECONDS)
_with(ter_upper, shares=PASS, check=check, cost=lambda cell: cell["rows"] * cell["length"] * PROFILE_SECONDS)
_with(theory, check=check, cost=lambda cell: THEORY_SECONDS)
_with(autoregressive, check=check)


def record(measure: str, estimate: Estimate, evaluations: float) -> Record:
    """JSON has no infinity: an open end is None."""
    fields = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(estimate).items()
    }
    return {"measure": measure} | fields | {"evaluations": evaluations}


def _npy(tokens: Tensor) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, tokens.numpy().astype(np.min_scalar_type(int(tokens.max()))), allow_pickle=False)
    return file.getvalue()


@lru_cache(maxsize=16)
def ground_truth(name: str, seed: int, pruned: bool) -> Language:
    from unmask.languages import load

    return load(name, seed=seed, pruned=pruned)


@lru_cache(maxsize=1)
def _network(model: str) -> tuple[Language, Denoiser]:
    from unmask.networks import read_network
    from unmask.networks.checkpoints import read_language

    return read_language(model)[0], read_network(model)


def _source(language: str, model: str, seed: int, pruned: bool) -> tuple[Language, Language | Denoiser]:
    """(what rows are held against, what fills them)."""
    if model:
        return _network(model)
    q = ground_truth(language, seed, pruned)
    return q, q


@lru_cache(maxsize=2)
def _profile(language: str, length: int, rows: int, seed: int, pruned: bool, digest: str) -> Profile:
    from unmask.metrics import profile

    return profile(ground_truth(language, seed, pruned), length, rows, seed)


@lru_cache(maxsize=64)  # once a process: a network is larger than a block takes to fill
def _unchanged(digest: str, *names: str) -> None:
    from unmask.sweeps.cells import digest as of_contents

    if digest and digest != "".join(of_contents(name) for name in names if name):
        raise UnmaskError(f"{' or '.join(filter(None, names))} has changed since the sweep was planned; run it again")
