"""The measured loss by parallel decoding: its numbers, and its meaning in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from unmask.core.estimates import Estimate, mean, ratio, share
from unmask.core.tables import Row, lines
from unmask.diagnosis.gap.estimators import Estimator

Claim = Literal["divergence", "path", "ratio", "greedy", "unknown"]
CLAIMS: dict[Claim, str] = {
    "divergence": "KL divergence of the sampler from the same model, one token at a time",
    "path": "KL divergence of the whole path with its re-masked tokens: an upper bound for the final sequences",
    "ratio": "mean log ratio, which can be negative: the sampler chooses after drawing, or draws tokens jointly",
    "unknown": "KL divergence, if the sampler chose the positions of a step before it drew their tokens",
    "greedy": "changes of greedy decoding, which has no KL divergence",
}


@dataclass(frozen=True, repr=False)
class Gap:
    """Loss of B rows by decoding in parallel, against the same model one token at a time."""

    claim: Claim
    estimator: Estimator
    logs: bool  # log ratios of the drawn tokens, where the model excludes tokens; else the token is summed out
    nats: Tensor  # (B): unbiased for each row's loss; infinite if one token at a time cannot write the row
    chain: Tensor | None  # (B) nats: the log ratio of each row, from calls="chain"
    changed: Tensor  # (B): sum of total variations: tokens that would change; of greedy decoding, flips
    regret: Tensor | None  # (B) nats, of greedy decoding
    recorded: Tensor  # (B) nats: recorded log probabilities less those of the model, in steps of several tokens
    written: Tensor  # (B): drawn tokens
    turns: Tensor  # (B): steps
    groups: Tensor | None  # (B): rows of one prompt
    model_calls: int  # spent here
    spent: int  # by the generation

    @cached_property
    def finite(self) -> Tensor:
        """Bool (B): rows that count in means."""
        return self.nats.isfinite() if self.regret is None else self.regret.isfinite()

    @property
    def infinite(self) -> Estimate:
        """Fraction of rows that the model cannot write one token at a time; the means leave them out."""
        return share(~self.finite, self.groups)

    @property
    def sequence(self) -> Estimate | None:
        """Nats a sequence; None for greedy decoding, and if all rows are infinite."""
        return None if self.claim == "greedy" else self._ratio(self.nats)

    @property
    def token(self) -> Estimate | None:
        """Nats a drawn token."""
        return None if self.claim == "greedy" else self._ratio(self.nats, self.written)

    @property
    def changes(self) -> Estimate | None:
        """Tokens a sequence that would change if each had seen the others of its step.

        Flips of the most likely token at temperature 0. Else the sum of total variations, an upper bound."""
        every = torch.ones_like(self.finite)
        return None if self.claim == "ratio" else self._ratio(self.changed, among=every)

    @property
    def regrets(self) -> Estimate | None:
        """Nats a sequence by which the model prefers the tokens that it would have written, at temperature 0."""
        return None if self.regret is None else self._ratio(self.regret)

    @property
    def rejected(self) -> Estimate | None:
        """Fraction of sequences that verification one token at a time would reject: 1 - E min(1, exp(-gap)).

        It is the total variation of the two distributions; only calls="chain" measures it."""
        if self.chain is None or self.claim != "divergence":
            return None
        return mean(1 - (-self.chain).exp().clamp(max=1), groups=self.groups)

    @property
    def drift(self) -> Estimate | None:
        """Nats a sequence that recorded probabilities differ from the model's, as by a stale cache."""
        return None if self.claim in ("greedy", "ratio") else self._ratio(self.recorded)

    @property
    def verdict(self) -> str:
        """The result in words."""
        if self.claim != "ratio" and bool((self.written == self.turns).all()):
            return "every step draws one token, so parallel decoding changes nothing"
        total, token, changes, regret = self.sequence, self.token, self.changes, self.regrets
        infinite = int((~self.finite).sum())
        if infinite == len(self.nats):
            says = "no sequence is possible one token at a time"
        elif changes is not None and regret is not None:
            part = changes.value / float(self.written.double().mean())
            tokens = f"{changes.value:.3g} tokens per sequence ({part:.1%}) would change"
            says = f"{tokens} if decoded one at a time; the model prefers the other tokens by {regret.value:.3g} nats"
        else:
            assert total is not None
            assert token is not None
            says = self._loss(total, f"{total.value:.3g} nats per sequence, {token.value:.3g} per token")
        if not infinite or self.claim == "greedy":
            return says
        some = f"{infinite} of {len(self.nats)} sequences ({infinite / len(self.nats):.1%})"
        return f"{says}; {some} are impossible one token at a time: their loss is infinite, so the mean omits them"

    def _loss(self, total: Estimate, loss: str) -> str:
        if self.claim == "ratio":
            return f"mean log ratio of {loss}; not a KL divergence, so it can be small by chance"
        costs = f"parallel decoding costs {'' if bool(self.finite.all()) else 'possible sequences '}{loss}"
        if total.low <= 0 <= total.high:
            return f"{costs}: not distinguishable from 0"
        times = math.exp(min(total.value, 700.0))
        return f"{costs}: the sequences come {times:.3g} times as often as one token at a time (geometric mean)"

    def table(self) -> list[Row]:
        """Lines for a reader."""
        greedy = self.claim == "greedy"
        estimates = {
            "nats per sequence": self.sequence,
            "nats per token": self.token,
            "flips per sequence" if greedy else "changed tokens per sequence, at most": self.changes,
            "regret, nats per sequence": self.regrets,
            "rejected sequences": self.rejected,
            "infinite": None if greedy or bool(self.finite.all()) else self.infinite,
        }
        rows = [("verdict", self.verdict), ("measured", CLAIMS[self.claim])]
        rows += [(name, str(one)) for name, one in estimates.items() if one is not None]
        return [*rows, ("model calls", f"{self.model_calls:,}; the generation took {self.spent:,}")]

    def __repr__(self) -> str:
        return "\n".join(lines(self.table()))

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as plain values."""
        named = {
            "nats_per_sequence": self.sequence,
            "nats_per_token": self.token,
            "changed_tokens": self.changes,
            "regret": self.regrets,
            "rejected": self.rejected,
            "infinite": self.infinite,
            "drift": self.drift,
        }
        about: dict[str, Any] = {"verdict": self.verdict, "claim": self.claim, "estimator": self.estimator}
        about |= {"token_summed_out": not self.logs, "rows": len(self.nats)}
        about |= {name: None if one is None else one.to_dict() for name, one in named.items()}
        return about | {"model_calls": self.model_calls, "model_calls_of_generation": self.spent}

    def _ratio(self, total: Tensor, count: Tensor | None = None, among: Tensor | None = None) -> Estimate | None:
        """A ratio of sums over rows (B), as only rows are independent; among: Bool (B). (default: the finite rows)"""
        count = torch.ones_like(total) if count is None else count
        there = (self.finite if among is None else among) & total.isfinite() & (count > 0)
        if not bool(there.any()):
            return None
        return ratio(total[there], count[there].double(), groups=None if self.groups is None else self.groups[there])
