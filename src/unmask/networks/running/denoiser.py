"""A trained network as a denoiser: what every sampler, metric and curve asks, evaluated as seldom as it can be.

    p_theta(x_j | x_R) = softmax(logits_j) where x_j is hidden, x_j itself where it is revealed (SUBS, theory.md 10)

Tokens, canvases and samplers stay on the host. An engine takes the rows that have changed to the network's device, and
brings back the probabilities of the places that were asked for, in float64 unless there are many symbols.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unmask.core import arguments
from unmask.core.chance import Luck
from unmask.core.errors import UnmaskError
from unmask.denoisers import Causal, Denoiser, Engine, Marginals
from unmask.denoisers.stateless import layout
from unmask.networks.model.checkpoints import choose_device, digest, load, read_tokenizer
from unmask.networks.model.shape import Shape
from unmask.networks.model.trunk import Trunk
from unmask.networks.running.causal import NetworkCausal
from unmask.networks.running.evaluation import FEW, TOKENS, Evaluator, probabilities
from unmask.networks.running.filling import Rounds, fill

READER_BYTES = 2**25  # of keys and values: what a block of rows that are read may keep
LEAST_ROWS = 8  # of a block on the CPU


class Network(Denoiser):
    """An MDM, an AR model, or a pair of them that know the same symbols: the first fills canvases, the second reads.

    device: auto, cpu or cuda, where the weights are unless told otherwise. dtype: of weights and activations.
    batch: rows that are evaluated at once, for a device that cannot hold more. compiled: see Evaluator.
    The trunks themselves stay as they are; where nothing has to be moved, they are used as they are.
    """

    def __init__(
        self,
        mdm: Trunk | None = None,
        ar: Trunk | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        batch: int | None = None,
        compiled: bool = False,
    ) -> None:
        if batch is not None:
            arguments.whole("batch", batch)
        place = choose_device(device) if isinstance(device, str) else device
        self.mdm, self.ar = (
            None if trunk is None else Evaluator(_placed(_checked(trunk, kind), place, dtype), batch, compiled)
            for trunk, kind in ((mdm, "mdm"), (ar, "ar"))
        )
        shapes = [trunk.shape for trunk in (mdm, ar) if trunk is not None]
        if not shapes:
            raise UnmaskError("a network needs an MDM, an AR model, or both: Network(mdm), Network(ar=ar)")
        if len({shape.vocabulary for shape in shapes}) > 1:
            sizes = f"{shapes[0].vocabulary} symbols, the AR model {shapes[1].vocabulary}"
            raise UnmaskError(f"the MDM knows {sizes}; a pair must be trained on the same language")
        self.vocabulary = shapes[0].vocabulary
        self.concurrent = all(trunk.device.type == "cpu" for trunk in self._trunks)
        self.length = min(shape.length for shape in shapes)  # that it was made for
        self.time_free = mdm is None or mdm.shape.time_free

    @property
    def _trunks(self) -> list[Trunk]:
        return [evaluator.trunk for evaluator in (self.mdm, self.ar) if evaluator is not None]

    def source(self) -> dict[str, Any]:
        of = {trunk.shape.kind: {"weights": digest(trunk), "shape": trunk.shape.to_dict()} for trunk in self._trunks}
        return {"denoiser": "network"} | of

    def engine(self, tokens: Tensor, given: Tensor | None = None, valid: Tensor | None = None) -> Engine:
        if valid is not None:
            return super().engine(tokens, given, valid)
        evaluator = self._masked(tokens.shape[1])
        if self.time_free and self.vocabulary <= FEW:
            return FollowingEngine(evaluator, tokens)
        return NetworkEngine(evaluator, tokens)

    def causal(self, rows: int, length: int, valid: Tensor | None = None) -> Causal:
        if self.ar is None:
            what = "this network has no AR model, which autoregression and speculation read with"
            raise UnmaskError(f"{what}; give one with --causal-model, or Network(mdm, ar)")
        _check_length(self.ar.trunk.shape, length)
        return NetworkCausal(self.ar, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        evaluator = self._masked(tokens.shape[1])
        asked = None if positions is None else positions.expand(len(tokens), -1)
        logits = evaluator.head(evaluator.states(evaluator.below(tokens, time), asked, time))
        return _carried(probabilities(logits).to(tokens.device), tokens if asked is None else tokens.gather(1, asked))

    def rows_at_once(self, length: int) -> int | None:
        """On the CPU what an evaluation computes at once, or of readers what their cache takes; on a device as many as
        `batch` says."""
        evaluator = self.mdm or self.ar
        assert evaluator is not None
        if evaluator.batch is not None or evaluator.device.type != "cpu":
            return evaluator.batch
        shape = evaluator.trunk.shape
        return max(
            TOKENS // length if self.mdm else READER_BYTES // (8 * shape.layers * shape.hidden * length), LEAST_ROWS
        )

    def _masked(self, length: int) -> Evaluator:
        if self.mdm is None:
            what = "this network is an AR model alone, which cannot fill a canvas"
            raise UnmaskError(f"{what}; take the sampler autoregressive, or give an MDM: --model, or Network(mdm, ar)")
        _check_length(self.mdm.trunk.shape, length)
        return self.mdm


def read_network(
    model: str | Path, causal_model: str | Path | None = None, device: str = "auto", batch: int | None = None
) -> Network:
    """Of directories that `unmask train` has made: an MDM with or without an AR model beside it, or that alone."""
    trunk = load(model, device)
    if not trunk.shape.causal:
        if causal_model is not None:
            _check_same_symbols(model, causal_model)
        return Network(trunk, None if causal_model is None else load(causal_model, device), batch=batch)
    if causal_model is not None:
        raise UnmaskError(f"{model} holds an AR network; beside --causal-model, --model must be an MDM")
    return Network(ar=trunk, batch=batch)


def _check_same_symbols(model: str | Path, other: str | Path) -> None:
    """An error where one of a pair writes other symbols than the other reads."""
    ours, theirs = (read_tokenizer(directory) for directory in (model, other))
    if (ours and ours.digest) != (theirs and theirs.digest):
        raise UnmaskError(f"{model} and {other} have not the same tokenizer; a pair must be trained on the same text")


class NetworkEngine(Engine):
    """Evaluates the rows that have changed, when they are asked for, and keeps what the last block read of them.

    So what is asked of an unchanged row later costs its last block alone, which the first time was computed only where
    it was asked for: the same work in two parts.
    """

    def __init__(self, evaluator: Evaluator, tokens: Tensor) -> None:
        super().__init__(tokens)
        self.evaluator = evaluator
        self.vocabulary = evaluator.vocabulary
        self.time_free = evaluator.trunk.shape.time_free
        self.stale = torch.ones(len(tokens), dtype=torch.bool)
        self._kept: Tensor | None = None  # (B, L, hidden), of the rows that are not stale

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Marginals:
        which, index = rows.unique_consecutive(return_inverse=True)
        asked, valid = layout(index, positions)
        time = None if time is None else time[which]
        states = self.evaluator.states(self.below(which, time), asked, time).flatten(0, 1)
        return self.evaluator.said(states[valid.to(states.device)])

    def below(self, which: Tensor, time: Tensor | None = None) -> Tensor:
        """(R, L, hidden) of rows (R), those evaluated that have changed."""
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
    """Without a time an order says all that is to be evaluated, and can be followed in one call (filling.py)."""

    def follow(self, order: Tensor, luck: Luck, visits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rounds = Rounds.of(order, luck, visits, self.evaluator.device)
        probability = torch.ones(order.shape, dtype=torch.float64)
        if len(rounds.rows):
            below = self.below(rounds.rows)
            self.spend_on_rounds((rounds.counts - 1).clamp(min=0))  # the first round is what has just been looked at
            filled, chances = fill(self.evaluator, rounds, self.tokens[rounds.rows], below)
            self.tokens[rounds.rows], probability[rounds.rows] = filled, chances
            self.stale[rounds.rows] = True
        if bool((wrong := ~(probability > 0)).any()):  # not-a-number too
            row, position = (int(i) for i in wrong.nonzero()[0])
            where = f"position {position} of row {row}"
            raise UnmaskError(f"the denoiser gives no usable probabilities at {where}: all zero, or not numbers")
        return probability, rounds.counts, torch.zeros_like(rounds.counts)


def one_hot(tokens: Tensor, vocabulary: int, dtype: torch.dtype) -> Tensor:
    """(.., V) of tokens (..); a hidden one becomes some symbol."""
    return functional.one_hot(tokens.clamp(max=vocabulary - 1), vocabulary).to(dtype)


def _carried(marginals: Tensor, tokens: Tensor) -> Tensor:
    """Marginals (B, K, V) where tokens (B, K) are hidden, the tokens themselves elsewhere."""
    shown = (tokens < (vocabulary := marginals.shape[-1])).unsqueeze(-1)
    return torch.where(shown, one_hot(tokens, vocabulary, marginals.dtype), marginals)


def _checked(trunk: Trunk, kind: str) -> Trunk:
    arguments.of_kind(f"the network given as {kind}", trunk, Trunk, "a Trunk, as networks.load makes one")
    if trunk.shape.kind != kind:
        other = "Network(mdm, ar): the AR model comes second, or as ar=" if kind == "mdm" else "the MDM comes first"
        raise UnmaskError(f"the network given as {kind} is of kind {trunk.shape.kind}; {other}")
    return trunk


def _placed(trunk: Trunk, device: torch.device | None, dtype: torch.dtype | None) -> Trunk:
    """The trunk, or a copy of it on that device and of that dtype."""
    device, dtype = device or trunk.device, dtype or trunk.dtype
    same = trunk.dtype == dtype and (
        trunk.device == device or (device.index is None and trunk.device.type == device.type)
    )
    return trunk if same else copy.deepcopy(trunk).to(device, dtype)


def _check_length(shape: Shape, length: int) -> None:
    if length > shape.length:
        kind = "the MDM" if shape.kind == "mdm" else "the AR model"
        raise UnmaskError(f"{kind} was made for up to {shape.length} tokens, but length is {length}; ask for less")
