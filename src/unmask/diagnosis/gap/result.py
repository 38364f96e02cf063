"""The measured loss by parallel decoding: its numbers, and the advice that they support."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal

from torch import Tensor

from unmask.core.entries import given, mapped, perhaps, taken
from unmask.core.errors import plural
from unmask.core.estimates import LEAST, Estimate, bounded_mean, share
from unmask.core.means import SEEN, interval, units
from unmask.core.tables import Row, as_html, as_table
from unmask.diagnosis.gap.estimators import Estimator
from unmask.diagnosis.gap.reference import Reference

Claim = Literal["divergence", "path", "ratio", "greedy", "unknown"]
NOTHING = 0.1  # nats per sequence: a smaller contradiction does not matter
CLAIMS: dict[Claim, str] = {
    "divergence": "KL divergence of the sampler from the same model, one token at a time",
    "path": "KL divergence of the whole path with its re-masked tokens: an upper bound for the final sequences",
    "ratio": "mean log ratio, which can be negative: the sampler chooses after drawing",
    "unknown": "KL divergence, if the sampler chose the positions of a step before it drew their tokens",
    "greedy": "changes of greedy decoding, which has no KL divergence",
}


@dataclass(frozen=True, repr=False)
class Gap:
    """Loss of B rows by decoding in parallel, against the same model one token at a time."""

    claim: Claim
    estimator: Estimator
    logs: bool  # log ratios of the drawn tokens, as of a chain; else the token is summed out
    joint: bool  # whether the tokens of a step were drawn together
    nats: Tensor  # (B): unbiased for each row's loss; infinite if one token at a time cannot write the row
    changed: Tensor  # (B): sum of total variations; of greedy decoding, first flips
    unlikely: Tensor  # (B): probability that a token of such a step is not the most likely one
    written: Tensor  # (B): drawn tokens
    turns: Tensor  # (B): steps
    lost: Tensor | None  # (T): mean of `nats` by the number of the step, of finite rows; None of a joint draw
    groups: Tensor  # (B): rows of one prompt have one number; each row its own without prompts
    reference: Reference | None
    model_calls: int  # of the gap
    spent: int  # by the generation
    changes: Sequence[str] = ()  # options that change the model's predictions, such as top-k 1

    @cached_property
    def finite(self) -> Tensor:  # Bool (B): rows that count in means
        return self.nats.isfinite() | (self.claim == "greedy")

    @property
    def infinite(self) -> Estimate:
        """Fraction s of rows that the model cannot write one token at a time, in a random order of each step."""
        return share(~self.finite, self.groups)

    @cached_property
    def seen(self) -> float:  # expected number of independent rows with an unlikely token
        rows = len(self.unlikely)
        return math.inf if self.claim == "greedy" else float(self.unlikely.sum()) * units(rows, self.groups) / rows

    @property
    def sequence(self) -> Estimate | None:
        """Nats a sequence of the possible rows; None for greedy decoding, and if all rows are infinite."""
        return self._loss(None)

    @property
    def token(self) -> Estimate | None:
        """Nats a drawn token."""
        return self._loss(self.written)

    def _loss(self, count: Tensor | None) -> Estimate | None:
        """The mean over possible rows is E[log P/C | possible] = KL + log(1 - s), with KL that of the possible rows.

        So it is corrected by -log(1 - s), at the ends with those of s."""
        if self.claim == "greedy":
            return None
        nats, s = self._mean(self.nats, count), self.infinite
        if nats is None or self.claim == "ratio" or not s.value:
            return nats
        tokens = 1.0 if count is None else float(count[self.finite].double().mean())
        value, low, high = (-math.log1p(-min(end, 1 - 1e-12)) / tokens for end in (s.value, s.low, s.high))
        return replace(nats, value=nats.value + value, low=nats.low + low, high=nats.high + high)

    @property
    def differ(self) -> Estimate | None:
        """Upper bound of the fraction of sequences that change if each token sees the others of its step.

        This is the total variation of the two distributions, at most the sum of those of the tokens, and at most
        sqrt(1 - exp(-KL)). None without a KL divergence."""
        if self.claim in ("greedy", "ratio"):
            return None
        bounds = []
        if not self.joint and (changed := self._mean(self.changed, least=0.0, every=True)) is not None:
            bounds.append(changed)
        if bool(self.finite.all()) and (kl := self._mean(self.nats)) is not None:
            bounds.append(kl.map(lambda nats: math.sqrt(-math.expm1(-max(nats, 0.0)))))

        if not bounds:
            return None
        return min(bounds, key=attrgetter("value")).map(lambda value: min(value, 1.0))

    @property
    def flips(self) -> Estimate | None:
        """Tokens a sequence that stop being the most likely, given others of their step, in greedy decoding.

        These are first flips: the others stay as written. `reference.differ` counts tokens that really change."""
        return self._mean(self.changed, least=0.0, every=True) if self.claim == "greedy" else None

    @property
    def rejected(self) -> Estimate | None:
        """The total variation itself, 1 - E min(1, exp(-gap)): sequences that verification would reject; by a chain."""
        if self.estimator != "chain" or self.claim != "divergence":
            return None
        return bounded_mean(1 - (-self.nats).exp().clamp(max=1), groups=self.groups)

    def _mean(
        self, total: Tensor, count: Tensor | None = None, least: float | None = None, every: bool = False
    ) -> Estimate | None:
        """A mean over the finite rows (B), or over all; or a ratio of sums."""
        there = total.isfinite() & (self.finite | every)
        if not bool(there.any()):
            return None
        least = 0.0 if total is self.nats and not self.logs else least
        return interval(total[there], self.groups[there], least, taken(count, there), seen=self.seen)

    @property
    def verdict(self) -> str:
        """The advice in words; reasons to distrust a small loss come first."""
        return " ".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        beside = self.reference
        rows = units(len(self.nats), self.groups)
        if infinite := self.infinite.value:
            yield f"{infinite:.1%} of the sequences have probability 0 under the model itself, one token at a time."
            yield "Compare samplers by this fraction first; the loss is that of the other sequences."

        if beside is not None and beside.collapsed and self.claim != "greedy":
            own, other = beside.variety.identity.value, beside.random.identity.value
            yield (
                f"The sampler loses variety: two sequences share {own:.0%} of their tokens, "
                f"and {other:.0%} in random orders, one token at a time. Do not choose it for a small loss."
            )
        elif beside is not None and beside.near_copies and self.claim != "greedy":
            yield (
                f"Two sequences share {beside.variety.closest:.0%} of their tokens; in random orders, one token at a "
                f"time, {beside.random.closest:.0%} at most. Look at the sequences before you choose it."
            )

        yield from self._orders()
        if self.claim != "ratio" and not self.joint and bool((self.written == self.turns).all()):
            yield "Every step draws one token, so parallel decoding changes nothing."
            return
        yield from self._losses()

        if rows < LEAST:
            yield f"No interval: {plural(rows, 'independent sequence')}; {LEAST} are needed."
        elif self.seen < SEEN:
            yield (
                f"No interval: the loss depends on unlikely tokens, and {self.seen:.2g} of {rows} sequences "
                f"should have one in a step of several tokens; {SEEN} are needed. Use more rows."
            )

        if beside is None and self.claim != "greedy":
            yield "Variety is not measured: a sampler that repeats itself also has a small loss. Pass reference=20."

    def _orders(self) -> Iterator[str]:
        """The loss by the order of the tokens, where it matters."""
        beside, total = self.reference, self.sequence
        if beside is None or beside.itself is None:
            return

        if beside.order is not None and beside.costs:
            yield (
                f"Its order alone loses up to {beside.order.value:.3g} nats per sequence against random orders, "
                f"which lose {beside.itself.value:.3g} against each other."
            )
        elif beside.contradicts and total is not None and beside.itself.value > max(total.value, NOTHING):
            lost = (
                f"random orders lose {beside.itself.value:.3g} nats per sequence against each other, "
                "more than parallel decoding costs"
            )
            if math.isinf(beside.itself.value):
                lost = "one random order writes sequences that another cannot write"

            if self.changes:
                yield (
                    f"With {', '.join(self.changes)} the predictions contradict each other: {lost}. Options do this "
                    "even to an exact model. Compare orders with the same options, or measure the model without them."
                )
            else:
                yield f"The model contradicts itself: {lost}. Compare orders first."

    def _losses(self) -> Iterator[str]:
        if (flips := self.flips) is not None:
            if self.reference is not None and (differ := self.reference.differ) is not None:
                part = differ.value / float(self.written.double().mean())
                yield f"{differ.value:.3g} tokens per sequence ({part:.1%}) change if decoded one at a time."
            yield f"{flips.value:.3g} tokens per sequence stop being the most likely, given others of their step."
            return

        total, token = self.sequence, self.token
        if total is None or token is None:
            yield "The model itself, one token at a time, gives no sequence a probability above 0."
            return

        loss = f"{total.value:.3g} nats per sequence, {token.value:.3g} per token"
        if self.claim == "ratio":
            yield f"The mean log ratio is {loss}; it is not a KL divergence, so it can be small by chance."
        elif total.high < 0:
            yield f"The measured loss is {loss}: below 0 beyond noise, which no KL divergence is."
            yield "The rows are of another model, draw or temperature. Pass those that wrote them."
        else:
            if total.low <= 0 and not total.open:
                loss += ", not distinguishable from 0"
            yield f"Parallel decoding costs {loss}."

    @property
    def numbers(self) -> dict[str, Estimate | None]:
        """The numbers of all rows, by their names."""
        return {
            "impossible for the model itself": self.infinite if self.infinite.value else None,
            "nats per sequence": self.sequence,
            "nats per token": self.token,
            "sequences that change, at most": self.differ,
            "rejected sequences": self.rejected,
            "first flips per sequence": self.flips,
        }

    def table(self) -> list[Row]:
        """Lines for a reader."""
        rows = [("verdict", self.verdict), ("measured", CLAIMS[self.claim])]
        rows += mapped(_text, given(self.numbers)).items()
        calls = f"{self.model_calls:,}; the generation took {self.spent:,}"
        if (beside := self.reference) is not None:
            for name, one, other in beside.pairs:
                rows.append((name, _text(one) + ("" if other is None else f"; random order: {_text(other)}")))
            for target, (steps, most) in beside.steps.items():
                text = f"{most} of random positions; {steps} without allowance for noise"
                rows.append((f"steps for {target:g} nats per token", text))
            calls += f"; {beside.rows} rows one token at a time {beside.model_calls:,}"
        return [*rows, ("model calls", calls)]

    __repr__, _repr_html_ = as_table, as_html

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as plain values."""
        numbers = self.numbers | {"impossible": self.infinite}
        return {
            "verdict": self.verdict,
            "claim": self.claim,
            "estimator": self.estimator,
            "token_summed_out": not self.logs,
            "joint_draw": self.joint,
            "rows": len(self.nats),
            **{
                name.replace(",", "").replace(" ", "_"): perhaps(Estimate.to_dict, one) for name, one in numbers.items()
            },
            "reference": perhaps(lambda beside: asdict(beside) | {"collapsed": beside.collapsed}, self.reference),
            "model_calls": self.model_calls,
            "model_calls_of_generation": self.spent,
        }


def _text(one: Estimate | str) -> str:
    return f"{one.value:.4g} (no interval)" if isinstance(one, Estimate) and one.open else str(one)
