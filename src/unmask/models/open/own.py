"""Any network that gives logits, as an open model: your own, or one of transformers; and models by module:Name.

    logits = network(ids)        ids (R, W); logits (R, W, V), or an object that has them as `.logits`

A *frame* surrounds each sequence, [CLS] x_1 .. x_L [SEP]; its positions are not predicted. If the last layer alone
turns its input into the logits, states are this input, and only requested positions pass that layer; otherwise states
are the logits. Rows of different lengths are computed by length, so a network needs no padding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unmask.core import arguments, entries
from unmask.core.errors import UnmaskError, cut, shown
from unmask.core.registry import Registry
from unmask.denoisers import Denoiser
from unmask.languages import Language
from unmask.models.open.body import Body, count, symbols_of
from unmask.models.open.card import Card, Frame, Tokens
from unmask.models.open.model import OpenModel
from unmask.models.open.probing import probe
from unmask.models.text import Tokenizer, published
from unmask.models.trained.memory import Reach

Network = Callable[[Tensor], Any]
CONTEXT = 4096  # tokens of a network that does not tell its own
SAME = 1e-4  # relative difference of logits that are equal but for rounding
LEAST = 2  # tokens of a sequence: fewer show no attention
TRIED = 4  # tokens of the first call


class Stopped(Exception):
    """Carries the input of the last layer out of a network."""


class Wrapped(Body):
    """A network without a KV cache. causal: it reads from left to right, so padding behind a row is not seen."""

    def __init__(self, network: Network, mask: int, length: int, frame: Frame = ((), ()), causal: bool = False) -> None:
        super().__init__(1, 1, length, None)
        self.network, self.frame, self.causal = network, frame, causal
        self.symbols = symbols_of(network)
        self.head: nn.Module | None = None
        with torch.no_grad():
            tokens = torch.full((1, TRIED), mask, device=self.device)
            expected = f"expected logits ({', '.join(map(str, tokens.shape))}, V), or an object that has `.logits`"
            try:
                logits = self._states(tokens)
            except Exception as error:  # any of a stranger's network
                problem = (
                    f"the model fails for ids {tuple(tokens.shape)} with {type(error).__name__}: {cut(str(error))}"
                )
                raise UnmaskError(f"{problem}; {expected}. Check mask_id and frame") from error

            if not _is_logits(logits):
                raise UnmaskError(f"the model returns {shown(logits)} for ids {tuple(tokens.shape)}; {expected}")

            # if the head is the last layer, only requested positions pass it
            self.head = getattr(network, "get_output_embeddings", lambda: None)()
            if not self._splits(tokens, logits):
                self.head = None
            self.vocabulary, self.hidden = logits.shape[2], self._states(tokens).shape[2]

    def states(self, tokens: Tensor, columns: Tensor | None, seen: Tensor | None, reach: Reach | None) -> Tensor:
        if seen is None or self.causal:
            return self._states(tokens)
        ends = seen[:, 0, 0].sum(-1).expand(len(tokens))
        states = torch.zeros((*tokens.shape, self.hidden), device=self.device, dtype=self.dtype)
        for end in ends.unique().tolist():
            rows = ends == end
            states[rows, :end] = self._states(tokens[rows, :end]).to(states.dtype)
        return states

    def logits(self, states: Tensor) -> Tensor:
        return states if self.head is None else self.head(states)

    @cached_property
    def parameters_used(self) -> int:
        embedding = getattr(self.network, "get_input_embeddings", lambda: None)()
        ends = [part.parameters() for part in (embedding, self.head) if part is not None]
        return count(self, chain(*ends))

    def _states(self, tokens: Tensor) -> Tensor:
        """(R, W, hidden) of tokens (R, W), in their frame."""
        before, after = (tokens.new_tensor(part).expand(len(tokens), -1) for part in self.frame)
        states = self._of(torch.cat([before, tokens, after], 1).to(self.device))
        if not isinstance(states, Tensor) or states.layout != torch.strided or states.dim() < 2:
            return states  # which are no logits
        return states[:, before.shape[1] : states.shape[1] - after.shape[1]]

    def _of(self, ids: Tensor) -> Tensor:
        if self.head is None:
            out: Any = self.network(ids)
            if hasattr(out, "logits"):
                return out.logits
            return out[0] if isinstance(out, tuple) and out else out

        def stop(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            raise Stopped(inputs[0])  # before the head computes all positions

        hook = self.head.register_forward_pre_hook(stop)
        try:
            self.network(ids)
        except Stopped as reached:
            states: Tensor = reached.args[0]
            return states
        finally:
            hook.remove()
        raise UnmaskError("the model did not use its output embeddings; expected logits from them")

    def _splits(self, tokens: Tensor, logits: Tensor) -> bool:
        """Whether the head alone turns its input into the logits."""
        if self.head is None:
            return False
        states = self._states(tokens)
        if states.shape[:2] != logits.shape[:2]:
            return False
        again = self.head(states)
        return again.shape == logits.shape and bool((again - logits).abs().max() <= SAME * (logits.abs().max() + 1))


def _is_logits(value: Any) -> bool:
    """Whether a value is a dense tensor of numbers (1, TRIED, V)."""
    if not isinstance(value, Tensor) or value.shape[:2] != (1, TRIED) or value.dim() != 3:
        return False
    return value.shape[2] > 0 and value.layout == torch.strided and not value.is_meta and value.is_floating_point()


def _ids(name: str, value: Any, most: int = arguments.MOST) -> tuple[int, ...]:
    """Ids of tokens."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        arguments.refuse(name, value, "a list of ids")
    return tuple(arguments.whole(f"an id of {name}", one, 0, most) for one in value)


def masked(
    model: Network,
    mask_id: int,
    *,
    frame: tuple[Sequence[int], Sequence[int]] = ((), ()),
    banned: Iterable[int] = (),
    shift: bool = False,
    length: int | None = None,
    tokenizer: Any = None,
    name: str | None = None,
) -> OpenModel:
    """Return a network as a denoiser, after a probe of its attention.

    model: a function or module in evaluation mode; `model(ids)` returns logits (R, W, V) of ids (R, W), or an object
        that has them as `.logits`.
    mask_id: the id that hides a token. frame: ids before and after each sequence, ([101], [102]). banned: ids that are
        never written. shift: logits at position i predict the token at i + 1.
    length: most tokens of a sequence. (default: the model's `config.max_position_embeddings`)
    tokenizer: the directory of its files, or one of transformers.
    """
    if getattr(model, "training", False):
        raise UnmaskError("the model is in training mode, where dropout changes its logits. Call model.eval() first")
    if not callable(model):
        arguments.refuse("model", model, "a function or a module, whose value for ids (R, W) are logits (R, W, V)")

    arguments.whole("mask_id", mask_id, 0)
    if not isinstance(frame, Sequence) or isinstance(frame, str) or len(frame) != 2:
        arguments.refuse("frame", frame, "the ids before and after each sequence, such as ([101], [102])")
    around: Frame = (_ids("frame", frame[0]), _ids("frame", frame[1]))

    if not isinstance(tokenizer, Tokenizer | str | Path | None) and not hasattr(tokenizer, "get_vocab"):
        arguments.refuse("tokenizer", tokenizer, "the directory of its files, or one of transformers")

    if length is None:
        config = getattr(model, "config", None)
        whole = arguments.whole("max_position_embeddings", getattr(config, "max_position_embeddings", CONTEXT))
        length = whole - len(around[0]) - len(around[1])

    body = Wrapped(model, mask_id, arguments.whole("length", length, LEAST), around)
    name = entries.chosen(name, type(model).__name__ if isinstance(model, nn.Module) else "network")
    card = Card(
        name=name,
        repository=name,
        licence="unknown",
        family="masked",
        tokens=Tokens(mask=mask_id),
        prediction="shifted" if shift else "same",
        banned=tuple(sorted(set(_ids("banned", banned, body.vocabulary - 1)))),
        context=length,
        frame=around,
    )

    if tokenizer is not None and not isinstance(tokenizer, Tokenizer):
        read = published.read if isinstance(tokenizer, str | Path) else published.adopted
        tokenizer = read(tokenizer)

    denoiser = OpenModel(card, body, tokenizer=tokenizer)
    denoiser.found = probe(denoiser)
    return denoiser


def _check(kind: type, label: str) -> None:
    if not issubclass(kind, Denoiser | Language):
        expected = "expected a class derived from unmask.denoisers.Denoiser, or a function that returns one"
        raise UnmaskError(f"{label} is of type {kind.__name__}; {expected}. docs/contracts.md begins with one")


MODELS: Registry[Denoiser | Language] = Registry(
    "model", "unmask.models", _check, (Denoiser, Language), undeclared=True
)


def is_named(source: str | Path) -> bool:
    """Whether a model is named as module:Name or file.py:Name, with its options in brackets."""
    return ":" in str(source).partition("(")[0] and not os.path.exists(source)


def named(source: str) -> Denoiser | Language:
    """The model that module:Name or file.py:Name makes; a language stands for its exact denoiser."""
    return MODELS.make(source)
