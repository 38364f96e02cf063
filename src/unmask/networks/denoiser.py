"""A trained network as a denoiser: what every sampler, metric and curve asks, evaluated as seldom as it can be.

    p_theta(x_j | x_R) = softmax(logits_j) where x_j is hidden, x_j itself where it is revealed (SUBS, theory.md 10)

Tokens, canvases and samplers stay on the host. An engine takes the rows that have changed to the network's device, and
brings back the probabilities of the places that were asked for, in float64 unless there are many symbols.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from unmask.chance import Luck
from unmask.denoisers.contracts import Causal, Engine
from unmask.errors import UnmaskError
from unmask.languages.base import MESSAGE_BYTES
from unmask.networks.causal import NetworkCausal
from unmask.networks.checkpoints import choose_device, load
from unmask.networks.evaluation import TOKENS, Evaluator
from unmask.networks.filling import Rounds, fill, layout
from unmask.networks.shape import Shape
from unmask.networks.trunk import Trunk

HOST_BYTES = 64  # a position, where the host keeps tokens alone


class Network:
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
        if batch is not None and batch < 1:
            raise UnmaskError(f"batch is {batch}; expected at least 1 row at once")
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
        self.length = min(shape.length for shape in shapes)  # that it was made for
        self.time_free = mdm is None or mdm.shape.time_free

    def engine(self, tokens: Tensor) -> Engine:
        evaluator = self._masked(tokens.shape[1])
        return FollowingEngine(evaluator, tokens) if self.time_free else NetworkEngine(evaluator, tokens)

    def causal(self, rows: int, length: int) -> Causal:
        if self.ar is None:
            what = "this network has no AR model, which autoregression and speculation read with"
            raise UnmaskError(f"{what}; give one with --causal-model, or Network(mdm, ar)")
        _check_length(self.ar.trunk.shape, length)
        return NetworkCausal(self.ar, rows, length)

    def posterior(self, tokens: Tensor, positions: Tensor | None = None, time: Tensor | None = None) -> Tensor:
        evaluator = self._masked(tokens.shape[1])
        asked = None if positions is None else positions.expand(len(tokens), -1)
        marginals = evaluator.at(evaluator.below(tokens, time), asked, time).to(tokens.device)
        return _carried(marginals, tokens if asked is None else tokens.gather(1, asked))

    def row_bytes(self, length: int) -> int:
        """Blocks of canvases on the CPU are what an evaluation computes at once, of readers what their memory takes;
        elsewhere they are as large as the host allows, or as `batch` says."""
        evaluator = self.mdm or self.ar
        assert evaluator is not None
        shape, least = evaluator.trunk.shape, HOST_BYTES * length
        if evaluator.device.type == "cpu":
            least = MESSAGE_BYTES * length // TOKENS if self.mdm else 8 * shape.layers * shape.hidden * length
        return least if evaluator.batch is None else max(least, MESSAGE_BYTES // evaluator.batch)

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
        return Network(trunk, None if causal_model is None else load(causal_model, device), batch=batch)
    if causal_model is not None:
        raise UnmaskError(f"{model} holds an AR network; beside --causal-model, --model must be an MDM")
    return Network(ar=trunk, batch=batch)


class NetworkEngine:
    """Evaluates the rows that have changed, when they are asked for, and keeps what the last block read of them.

    So what is asked of an unchanged row later costs its last block alone, which the first time was computed only where
    it was asked for: the same work in two parts.
    """

    def __init__(self, evaluator: Evaluator, tokens: Tensor) -> None:
        self.evaluator = evaluator
        self.tokens = tokens
        self.vocabulary = evaluator.vocabulary
        self.time_free = evaluator.trunk.shape.time_free
        self.stale = torch.ones(len(tokens), dtype=torch.bool)
        self._kept: Tensor | None = None  # (B, L, hidden), of the rows that are not stale

    def renew(self, rows: Tensor, positions: Tensor) -> None:
        self.stale[rows] = True

    def at(self, rows: Tensor, positions: Tensor, time: Tensor | None) -> Tensor:
        if not len(rows):
            return torch.empty((0, self.vocabulary), dtype=torch.float64)
        which, index = rows.unique_consecutive(return_inverse=True)
        asked, valid = layout(index, positions)
        time = None if time is None else time[which]
        chances = self.evaluator.at(self.below(which, time), asked, time)
        return chances.flatten(0, 1).to(self.tokens.device)[valid]

    def over(self, window: slice, time: Tensor | None) -> Tensor:
        tokens = self.tokens[:, window]
        rows, columns = (tokens == self.vocabulary).nonzero(as_tuple=True)
        marginals = self.at(rows, columns + window.indices(self.tokens.shape[1])[0], time)
        out = one_hot(tokens, self.vocabulary, marginals.dtype)
        out[rows, columns] = marginals
        return out

    def dead(self) -> None:
        return None

    def below(self, which: Tensor, time: Tensor | None = None) -> Tensor:
        """(R, L, hidden) of rows (R), those evaluated that have changed."""
        if not self.time_free:
            return self.evaluator.below(self.tokens[which], time)
        new = which[self.stale[which]]
        if len(new):
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
