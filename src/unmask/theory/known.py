"""Exact values for a language at a length, without sampling, by the best available method.

    with a closed form    everything (the interval language)                                languages.ClosedForm
    tiny, of any kind     everything, by ordered set partitions                             partitions
    first-order chains    E KL in closed form; SER and generative NLL by recursion on gaps,
                          for larger lengths by an exponential fit                          chains, gaps, exponential
    others                the entropy, if it is exact

Unknown values have the value None; a note gives the reason and the closest alternative.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.tables import as_table
from unmask.languages import ClosedForm, Language, LanguageLike, load
from unmask.samplers.schedules import as_delta
from unmask.theory import chains, exponential, sampled
from unmask.theory.chains import FirstOrder, first_order
from unmask.theory.curves import ErrorCurve, InformationCurve
from unmask.theory.exponential import ExponentialSER, exponential_ser
from unmask.theory.partitions import Partitions, partitions, tiny
from unmask.theory.recursion import valid_mass

MOST_WORK = 5e9  # products in a recursion on gaps: about five seconds
LONGEST = 60  # gaps above which the exponential fit is as good
FITTED = (12, 18, 24, 36)  # gaps for the fit: longer ones if the residual is too large
SETTLED, TOLERATED = 1e-6, 1e-3  # good and acceptable errors of log(1 - SER), and of the NLL per token
TER_NEAREST = "Bounds: KL(q || p) <= expected_plan_divergence_nats; TER: sampled.information_curve(..).ter_upper"


@dataclass
class Values:
    """Exact values of ancestral sampling with the ideal denoiser; None if unknown, with the reason in a note.

    The generative NLL is over valid sequences; TER is 2^ter_bits_per_token. method: field -> its method.
    """

    ser: float | None = None
    ter_bits_per_token: float | None = None
    generative_nll_bits_per_token: float | None = None
    divergence_nats: float | None = None  # KL(q || p)
    expected_plan_divergence_nats: float | None = None  # E over orders of KL(q || p_order)
    entropy_bits_per_token: float | None = None
    method: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    __repr__ = as_table

    def set(self, method: str, **values: float) -> None:
        for name, value in values.items():
            setattr(self, name, value)
            self.method[name] = method


def exact(language: LanguageLike, length: int, delta: Tensor) -> Values:
    """Compute the exact values of ancestral sampling from `length` hidden positions by the schedule delta (N)."""
    language = load(language)
    language.check_length(length)
    as_delta(delta)

    values = Values()
    if (form := language.closed_form) is not None:
        _closed(values, form, length, delta)
    elif tiny(language, length):
        _tiny(values, partitions(language, length), delta)
    else:
        _entropy(values, language, length)
        if (chain := first_order(language)) is not None:
            _chain(values, language, chain, length, delta)
        else:
            _other(values, language)

    return values


def curve(language: Language, length: int, *, rows: int = 200, seed: int = 0) -> InformationCurve:
    """The information curve: exact if `exact_curve` has one, else from `rows` of x ~ q."""
    return exact_curve(language, length) or sampled.information_curve(language, length, rows=rows, seed=seed)


def exact_curve(language: LanguageLike, length: int) -> InformationCurve | None:
    """The information curve of closed forms, first-order chains and tiny languages; None for others."""
    language = load(language)
    language.check_length(length)
    if (form := language.closed_form) is not None:
        return InformationCurve(form.information(length), form.method, language=language)
    if (chain := first_order(language)) is not None:
        return replace(chains.information_curve(chain, length), language=language)
    if tiny(language, length):
        return replace(partitions(language, length).information_curve(), language=language)
    return None


def error_curve(language: Language, length: int, *, rows: int = 100, seed: int = 0) -> ErrorCurve:
    """The error curve: exact if `exact_error_curve` has one, else from `rows` of x ~ q."""
    return exact_error_curve(language, length) or sampled.error_curve(language, length, rows=rows, seed=seed)


def exact_error_curve(language: LanguageLike, length: int) -> ErrorCurve | None:
    """The error curve of closed forms, first-order chains and tiny languages; None for others."""
    language = load(language)
    language.check_length(length)
    if (form := language.closed_form) is not None:
        return ErrorCurve(form.errors(length), form.method)
    if (chain := first_order(language)) is not None and exponential.feasible(chain, length):
        return exponential.error_curve(chain, length)
    if tiny(language, length):
        return partitions(language, length).error_curve()
    return None


def _closed(values: Values, form: ClosedForm, length: int, delta: Tensor) -> None:
    own, nats = form.bits(length) / length, form.divergence(length, delta)
    values.set(
        form.method,
        ser=form.ser(length, delta),
        ter_bits_per_token=own + nats / math.log(2) / length,
        generative_nll_bits_per_token=form.generative_bits(length, delta) / length,
        divergence_nats=nats,
        expected_plan_divergence_nats=form.order_divergence(length, delta),
        entropy_bits_per_token=own,
    )


def _tiny(values: Values, every: Partitions, delta: Tensor) -> None:
    values.set(
        "ordered set partitions",
        ser=every.ser(delta),
        ter_bits_per_token=every.ter_bits(delta),
        generative_nll_bits_per_token=every.generative_nll_bits(delta),
        divergence_nats=every.divergence(delta),
        expected_plan_divergence_nats=every.information_curve().divergence(delta).value,
        entropy_bits_per_token=every.entropy_bits(),
    )


def _entropy(values: Values, language: Language, length: int) -> None:
    if language.end is not None:
        values.notes.append(f"{language.kind} varies in length: bits per token are unknown. Measure: theory.sampled")
        return
    entropy = language.entropy(length, rows=2)
    if entropy.exact:
        values.set("path entropy", entropy_bits_per_token=entropy.value / length / math.log(2))
    else:
        note = "The entropy is unknown: a sequence does not determine its path. Estimate: language.entropy(length)"
        values.notes.append(note)


def _chain(values: Values, language: Language, chain: FirstOrder, length: int, delta: Tensor) -> None:
    plan = chains.information_curve(chain, length).divergence(delta).value
    values.set(chains.METHOD, expected_plan_divergence_nats=plan)
    note = "KL(q || p) and TER are unknown: they need p(x) of every x"
    values.notes.append(f"{note}. {TER_NEAREST}")

    always = bool((chain.initial > 0).all() and (chain.transition > 0).all())
    if always:
        values.set("every sequence is possible", ser=0.0)

    if length <= LONGEST and work(chain, length, delta) <= MOST_WORK:
        mass, log_mass = valid_mass(chain, length, delta)
        method, ser, nll = "recursion on gaps", 1 - float(mass[-1]), -float(log_mass[-1] / mass[-1])
    elif (distribution := _distribution(values, language, chain, length, delta)) is not None:
        first, second = distribution.fitted
        error = f"error {distribution.residual:.1e} at {distribution.checked}"
        method = f"exponential fit of lengths {first} and {second}, {error}"
        ser, nll = distribution.ser(length), distribution.generative_nll(length)
    else:
        return

    if not always:
        values.set(method, ser=max(ser, 0.0))
    if language.end is None:
        values.set(method, generative_nll_bits_per_token=nll / length / math.log(2))


def _distribution(
    values: Values, language: Language, chain: FirstOrder, length: int, delta: Tensor
) -> ExponentialSER | None:
    """The exponential fit of this chain, from the shortest gaps that are enough; or None and a note with the reason."""
    distribution, nearest = None, "Estimate: theory.recursion.ser_by_orders"
    for longest in FITTED:
        if work(chain, longest, delta) > MOST_WORK:
            break
        try:
            distribution = exponential_ser(language, delta, longest)
        except UnmaskError as error:
            values.notes.append(str(error))
            return None

        errors = distribution.drift(length)
        if max(errors[0], errors[1] / length) <= SETTLED:
            return distribution

    if distribution is None:
        note = f"SER is unknown: {chain.size} symbols and {len(delta)} steps take too long"
        values.notes.append(f"{note}. {nearest}")
    elif max(errors[0], errors[1] / length) > TOLERATED:
        off = f"its error is {distribution.residual:.1e} at length {distribution.checked}"
        values.notes.append(f"SER is unknown: log(1 - SER) is not yet linear in the length, {off}. {nearest}")
        return None
    return distribution


def _other(values: Values, language: Language) -> None:
    note = f"SER, TER and generative NLL of {language.kind} are unknown: it is not tiny"
    values.notes.append(f"{note}. Measure SER and generative perplexity: metrics.score")
    note = "E KL over orders is unknown. Measure: theory.known.curve(..).divergence(delta)"
    values.notes.append(f"{note}. {TER_NEAREST}")


def work(chain: FirstOrder, length: int, delta: Tensor) -> float:
    """Products in a recursion on gaps: N L^3 / 6 (S+1)^2 S^2."""
    return float(np.count_nonzero(delta.numpy()) * length**3 / 6 * (chain.size + 1) ** 2 * chain.size**2)
