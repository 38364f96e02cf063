"""A trained network as a denoiser, with as few model calls as possible.

    p_theta(x_j | x_R) = softmax(logits_j) if x_j is hidden, x_j itself if it is revealed (SUBS, theory.md 10)

A network of uniform noise predicts the full posterior at every position, p_theta(x_i | y) from noisy tokens y; samplers
divide it by the likelihood of the own token (denoisers/noise.py). Its time is the level a.

Tokens and samplers stay on the host. An engine copies changed rows to the network's device and returns the
probabilities at the requested positions, in float64 unless there are many symbols.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core import arguments, entries
from unmask.core.chance import Randomness
from unmask.core.errors import UnmaskError
from unmask.denoisers import Causal, Denoiser, Engine, Marginals
from unmask.denoisers.denoiser import layout
from unmask.models.trained.checkpoints import choose_device, digest, load, read_tokenizer
from unmask.models.trained.running import FEW, TOKENS, Evaluator, NetworkCausal, Steps, fill, probabilities
from unmask.models.trained.shape import Shape
from unmask.models.trained.trunk import Trunk

READER_BYTES = 2**25  # of keys and values that a block of rows may cache
LEAST_ROWS = 8  # in a block on the CPU


class Network(Denoiser):
    """An MDM, an AR model, or a pair of both with the same symbols.

    batch: rows evaluated at once. The given trunks are copied only if device or dtype differs.
    """

    def __init__(
        self,
        mdm: Trunk | None = None,
        ar: Trunk | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
    ) -> None:
        if batch is not None:
            arguments.whole("batch", batch)

        self.mdm = _evaluator(mdm, "mdm", device, dtype, batch)
        self.ar = _evaluator(ar, "ar", device, dtype, batch)

        self._trunks: list[Trunk] = entries.column(filter(None, (self.mdm, self.ar)), "trunk")
        shapes: list[Shape] = entries.column(self._trunks, "shape")
        if not shapes:
            raise UnmaskError("Network() has no model; expected Network(mdm), Network(ar=ar) or Network(mdm, ar)")
        if len(set(entries.column(shapes, "vocabulary"))) > 1:
            raise UnmaskError(
                f"the MDM has {shapes[0].vocabulary} symbols, the AR model {shapes[1].vocabulary}",
                "expected a pair trained on the same language",
            )

        self.vocabulary = shapes[0].vocabulary
        self.concurrent = set(entries.column(self._trunks, "device.type")) == {"cpu"}
        self.length = min(entries.column(shapes, "length"))  # longest sequence
        self.time_free = shapes[0].time_free  # of the MDM: an AR model has no time, and removes no noise
        if shapes[0].noise == "uniform":
            self.removes = "uniform"

    def source(self) -> dict[str, Any]:
        about: dict[str, Any] = {"denoiser": "network"}
        for trunk in self._trunks:
            about[trunk.shape.kind] = {"weights": digest(trunk), "shape": trunk.shape.to_dict()}
        return about

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        if valid is not None:
            return super().engine(tokens, given, valid)
        evaluator = self._masked(tokens.shape[1])
        if self.time_free and self.vocabulary <= FEW and self.removes == "mask":
            return FollowingEngine(evaluator, tokens)
        return NetworkEngine(evaluator, tokens)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        if self.ar is None:
            raise UnmaskError(
                "this network has no AR model, which autoregression and speculation need",
                "Pass --causal-model, or Network(mdm, ar)",
            )
        _check_length(self.ar.trunk.shape, length)
        return NetworkCausal(self.ar, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        evaluator = self._masked(tokens.shape[1])
        if self.removes == "uniform" and bool((tokens == self.vocabulary).any()):
            raise UnmaskError(
                f"{self.name} removes uniform noise, and some tokens are masks",
                f"expected tokens 0 to {self.vocabulary - 1}",
                "Replace them by random tokens",
            )
        columns = None if positions is None else positions.expand(len(tokens), -1)
        logits = evaluator.head(evaluator.states(evaluator.below(tokens, time), columns, time))
        predicted = probabilities(logits).to(tokens.device)
        if self.removes == "uniform":
            return predicted
        own = tokens if columns is None else tokens.gather(1, columns)
        revealed = functional.one_hot(own.clamp(max=self.vocabulary - 1), self.vocabulary).to(predicted.dtype)
        return torch.where((own < self.vocabulary).unsqueeze(-1), revealed, predicted)

    def rows_at_once(self, length: int) -> int | None:
        """Rows per batch on the CPU, limited by its caches or by the KV cache; on other devices `batch`."""
        evaluator = self.mdm or self.ar
        assert evaluator is not None
        if evaluator.batch is not None or evaluator.device.type != "cpu":
            return evaluator.batch
        if self.mdm is not None:
            return max(TOKENS // length, LEAST_ROWS)
        shape = evaluator.trunk.shape
        return max(READER_BYTES // (8 * shape.layers * shape.hidden * length), LEAST_ROWS)

    def _masked(self, length: int) -> Evaluator:
        if self.mdm is None:
            raise UnmaskError(
                "this network is an AR model only, which cannot fill masks",
                "Use the sampler autoregressive, or pass an MDM as --model",
            )
        _check_length(self.mdm.trunk.shape, length)
        return self.mdm


def read_network(
    model: str | Path, causal_model: str | Path | None = None, device: str = "auto", batch: int | None = None
) -> Network:
    """Read directories of `unmask train`: an MDM, an AR model, or a pair of both."""
    trunk = load(model, device)
    if not trunk.shape.causal:
        if causal_model is not None:
            _check_same_symbols(model, causal_model)
        return Network(trunk, entries.perhaps(partial(load, device=device), causal_model), batch=batch)
    if causal_model is not None:
        raise UnmaskError(f"{model} holds an AR network; --causal-model needs an MDM in --model. Swap the directories")
    return Network(ar=trunk, batch=batch)


def _check_same_symbols(model: str | Path, other: str | Path) -> None:
    ours, theirs = read_tokenizer(model), read_tokenizer(other)
    if (ours and ours.digest) != (theirs and theirs.digest):
        raise UnmaskError(f"{model} and {other} have different tokenizers; expected a pair trained on the same text")


class NetworkEngine(Engine):
    """Evaluates changed rows on request, and caches the input of the last block.

    Later requests for an unchanged row cost only the last block, which is computed only at the requested positions.
    """

    def __init__(self, evaluator: Evaluator, tokens: Tensor) -> None:
        super().__init__(tokens)
        self.evaluator = evaluator
        self.vocabulary = evaluator.vocabulary
        self.time_free = evaluator.trunk.shape.time_free
        self.stale = torch.ones(len(tokens), dtype=torch.bool)
        self._kept: Tensor | None = None  # (B, L, hidden), for rows that are not stale

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        which, index = rows.unique_consecutive(return_inverse=True)
        columns, valid = layout(index, positions)
        time = entries.taken(time, which)
        states = self.evaluator.states(self.below(which, time), columns, time).flatten(0, 1)
        return self.evaluator.marginals(states[valid.to(states.device)])

    def below(self, which: Tensor, time: Tensor | None = None) -> Tensor:
        """(R, L, hidden) for rows (R); only changed rows are evaluated."""
        if not self.time_free:
            self.spend_on(which)
            return self.evaluator.below(self.tokens[which], time)

        new = which[self.stale[which]]
        if len(new):
            self.spend_on(new)
            computed = self.evaluator.below(self.tokens[new])
            self.stale[new] = False
            if self._kept is None:
                self._kept = computed.new_empty((len(self.tokens), *computed.shape[1:]))
            self._kept[new] = computed
            if len(new) == len(which):
                return computed
        assert self._kept is not None
        return self._kept[which]


class FollowingEngine(NetworkEngine):
    """For a network without time: an order determines all model calls, so one call follows it (running.py)."""

    def follow(self, order: Tensor, rng: Randomness, visits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        steps = Steps.of(order, rng, visits, self.evaluator.device)
        probability = torch.ones(order.shape, dtype=torch.float64)
        if len(steps.rows):
            below = self.below(steps.rows)
            self.spend_on_steps((steps.counts - 1).clamp(min=0))  # `below` has just computed the first step
            filled, chances = fill(self.evaluator, steps, self.tokens[steps.rows], below)
            self.tokens[steps.rows], probability[steps.rows] = filled, chances
            self.stale[steps.rows] = True
        if bool((wrong := ~(probability > 0)).any()):  # not-a-number too
            row, position = wrong.nonzero()[0].tolist()
            where = f"position {position} of row {row}"
            raise UnmaskError(f"the denoiser gives no usable probabilities at {where}: all zero, or not numbers")
        return probability, steps.counts, torch.zeros_like(steps.counts)


def _evaluator(
    trunk: Trunk | None, kind: str, device: str | torch.device | None, dtype: torch.dtype | None, batch: int | None
) -> Evaluator | None:
    """An evaluator of the trunk, or of a copy of it on that device and of that dtype."""
    if trunk is None:
        return None
    arguments.of_kind(f"the network given as {kind}", trunk, Trunk, "a Trunk, as networks.load makes one")
    if trunk.shape.kind != kind:
        raise UnmaskError(f"the network given as {kind} is of kind {trunk.shape.kind}. Pass Network(mdm, ar)")
    device, dtype = choose_device(device or trunk.device), dtype or trunk.dtype
    here = trunk.device == device or (device.index is None and trunk.device.type == device.type)
    if not here or trunk.dtype != dtype:
        trunk = copy.deepcopy(trunk).to(device, dtype)
    return Evaluator(trunk, batch)


def _check_length(shape: Shape, length: int) -> None:
    if length > shape.length:
        kind = "the MDM" if shape.kind == "mdm" else "the AR model"
        raise UnmaskError(
            f"length is {length}; {kind} was trained for up to {shape.length} tokens. Use a shorter length"
        )
