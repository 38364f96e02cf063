"""The one door: what is known of a language at a length without sampling, by whichever way there is.

    with a closed form    everything (the interval language)                                languages.ClosedForm
    tiny, of any kind     everything, by ordered set partitions                             partitions
    first-order chains    E KL in closed form; SER and generative NLL by recursion on gaps,
                          beyond what that can reach by the exponential law                 chains, gaps, exponential
    others                the entropy, where it is exact

What is not known is None, and a note says why and what comes nearest.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from unmask.core.errors import UnmaskError
from unmask.core.tables import as_table
from unmask.kernels.first_order import FirstOrder
from unmask.languages import ClosedForm, Language, LanguageLike, NGram, load
from unmask.schedules.schedule import as_delta
from unmask.theory import chains, exponential, sampled
from unmask.theory.chains import first_order
from unmask.theory.curves import ErrorCurve, InformationCurve
from unmask.theory.exponential import ExponentialLaw, exponential_law
from unmask.theory.gaps import valid_mass
from unmask.theory.partitions import Partitions, partitions, tiny

MOST_WORK = 5e9  # products in a recursion on gaps: about five seconds
LONGEST = 60  # gaps beyond which the exponential law is as good
FITTED = (12, 18, 24, 36)  # gaps from which the law is fitted: longer ones where the residual asks for it
SETTLED, TOLERATED = 1e-6, 1e-3  # errors of log(1 - SER), and of the NLL a token, that are good and good enough
TER_NEAREST = "KL(q || p) <= expected_plan_divergence_nats, and sampled.information_curve(..).ter_upper bounds TER"


@dataclass
class Values:
    """Exact values of ancestral sampling with the ideal denoiser; None where there is none, and a note says why.

    The generative NLL is over valid sequences; TER is 2^ter_bits_per_token. method: field -> how it was found.
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

    def found(self, method: str, **values: float) -> None:
        for name, value in values.items():
            setattr(self, name, value)
            self.method[name] = method


def exact(language: LanguageLike, length: int, delta: Tensor) -> Values:
    """What is known exactly of ancestral sampling from `length` hidden positions by the schedule delta (N)."""
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
    """The information curve: exact where `exact_curve` is one, else from `rows` of x ~ q."""
    found = exact_curve(language, length)
    return sampled.information_curve(language, length, rows=rows, seed=seed) if found is None else found


def exact_curve(language: LanguageLike, length: int) -> InformationCurve | None:
    """The information curve of closed forms, first-order chains and tiny languages; None of others."""
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
    """The error curve: exact where `exact_error_curve` is one, else from `rows` of x ~ q."""
    found = exact_error_curve(language, length)
    return sampled.error_curve(language, length, rows=rows, seed=seed) if found is None else found


def exact_error_curve(language: LanguageLike, length: int) -> ErrorCurve | None:
    """The error curve of closed forms, first-order chains and tiny languages; None of others."""
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
    values.found(
        form.method,
        ser=form.ser(length, delta),
        ter_bits_per_token=own + nats / math.log(2) / length,
        generative_nll_bits_per_token=form.generative_bits(length, delta) / length,
        divergence_nats=nats,
        expected_plan_divergence_nats=form.order_divergence(length, delta),
        entropy_bits_per_token=own,
    )


def _tiny(values: Values, every: Partitions, delta: Tensor) -> None:
    values.found(
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
        values.notes.append(
            f"{language.kind} varies in length: bits a token have no closed form; nearest: theory.sampled"
        )
        return
    entropy = language.entropy(length, rows=2)
    if entropy.exact:
        values.found("path entropy", entropy_bits_per_token=entropy.value / length / math.log(2))
    else:
        note = "the entropy is exact only where a sequence determines its path; language.entropy(length) estimates it"
        values.notes.append(note)


def _chain(values: Values, language: Language, chain: FirstOrder, length: int, delta: Tensor) -> None:
    plan = chains.information_curve(chain, length).divergence(delta).value
    values.found(chains.METHOD, expected_plan_divergence_nats=plan)
    nearest = f"theory.sampled.divergence estimates KL from exact p(x) of some; {TER_NEAREST}"
    values.notes.append(f"KL(q || p) and TER of a mixture over orders need p(x) of every x; {nearest}")
    always = bool((chain.initial > 0).all() and (chain.transition > 0).all())
    if always:
        values.found("every sequence is possible", ser=0.0)
    if length <= LONGEST and work(chain, length, delta) <= MOST_WORK:
        mass, log_mass = valid_mass(chain, length, delta)
        method, ser, nll = "recursion on gaps", 1 - float(mass[-1]), -float(log_mass[-1] / mass[-1])
    elif (law := _law(values, language, chain, length, delta)) is not None:
        first, second = law.fitted
        method = f"exponential law of lengths {first} and {second}, off by {law.residual:.1e} at {law.checked}"
        ser, nll = law.ser(length), law.generative_nll(length)
    else:
        return
    if not always:
        values.found(method, ser=max(ser, 0.0))
    if language.end is None:
        values.found(method, generative_nll_bits_per_token=nll / length / math.log(2))


def _law(values: Values, language: Language, chain: FirstOrder, length: int, delta: Tensor) -> ExponentialLaw | None:
    """The exponential law of this chain, from gaps as short as will do; or None and a note that says why not."""
    law, nearest = None, "theory.gaps.ser_by_orders estimates SER with little variance"
    for longest in FITTED:
        if work(chain, longest, delta) > MOST_WORK:
            break
        try:
            law = exponential_law(language, delta, longest)
        except UnmaskError as error:
            values.notes.append(str(error))
            return None
        errors = law.drift(length)
        if max(errors[0], errors[1] / length) <= SETTLED:
            return law
    if law is None:
        values.notes.append(f"{chain.size} symbols and {len(delta)} rounds are too many for SER; {nearest}")
    elif max(errors[0], errors[1] / length) > TOLERATED:
        off = f"off by {law.residual:.1e} at length {law.checked}"
        values.notes.append(f"log(1 - SER) is not yet a straight line in the length, {off}; {nearest}")
        return None
    return law


def _other(values: Values, language: Language) -> None:
    measure = "metrics.score measures SER and the generative perplexity"
    values.notes.append(f"SER, TER and the generative NLL of {language.kind} are exact only if tiny; {measure}")
    bounds = " and theory.certified bounds it from both sides" if isinstance(language, NGram) else ""
    values.notes.append(
        f"E KL over orders is measured by theory.known.curve(..).divergence(delta){bounds}; {TER_NEAREST}"
    )


def work(chain: FirstOrder, length: int, delta: Tensor) -> float:
    """Products in a recursion on gaps: N L^3 / 6 (S+1)^2 S^2."""
    return float(np.count_nonzero(delta.numpy()) * length**3 / 6 * (chain.size + 1) ** 2 * chain.size**2)
